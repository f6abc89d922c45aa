/* err.c - the words of error.h's table. */
#include <gradwire/error.h>

const char *gw_err_name(gw_err err)
{
#define CASE(name, number, scope, text) \
    case name:                          \
        return #name;
    switch (err) {
    case GW_OK:
        return "GW_OK";
    case GW_AGAIN:
        return "GW_AGAIN";
    case GW_RAW:
        return "GW_RAW";
        GW_ERR_MAP(CASE)
    }
#undef CASE
    return "GW_E_UNKNOWN";
}

const char *gw_err_text(gw_err err)
{
#define CASE(name, number, scope, text) \
    case name:                          \
        return text;
    switch (err) {
    case GW_OK:
        return "no error";
    case GW_AGAIN:
        return "nothing was taken, call again";
    case GW_RAW:
        return "not worth coding, send as it is";
        GW_ERR_MAP(CASE)
    }
#undef CASE
    return "an error number that this build does not know";
}

enum gw_scope gw_err_scope(gw_err err)
{
#define CASE(name, number, scope, text) \
    case name:                          \
        return GW_SCOPE_##scope;
    switch (err) {
    case GW_OK:
    case GW_AGAIN:
    case GW_RAW:
        return GW_SCOPE_NONE;
        GW_ERR_MAP(CASE)
    }
#undef CASE
    return GW_SCOPE_CTX;
}
