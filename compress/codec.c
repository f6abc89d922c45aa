/* codec.c - the registry. */
#include <string.h>

#include <base/check.h>

#include "codecs.h"

static const struct gw_codec *const all[] = {
    &gw_codec_raw,
    &gw_codec_group,
    &gw_codec_tight,
    &gw_codec_entropy,
    &gw_codec_zero,
    &gw_codec_zstd,
    &gw_codec_lz4,
    &gw_codec_bf16,
    &gw_codec_f16,
    &gw_codec_e4m3,
    &gw_codec_e5m2,
    &gw_codec_int8,
    &gw_codec_int4,
    &gw_codec_levels,
    &gw_codec_twobit,
    &gw_codec_sign,
};

const struct gw_codec *gw_codec_at(size_t i)
{
    for (size_t k = 0; k < GW_LEN(all); k++)
        if (all[k] != NULL && i-- == 0)
            return all[k];
    return NULL;
}

const struct gw_codec *gw_codec_by_id(unsigned id)
{
    for (size_t i = 0; i < GW_LEN(all); i++)
        if (all[i] != NULL && all[i]->id == id)
            return all[i];
    return NULL;
}

const struct gw_codec *gw_codec_by_name(const char *name)
{
    for (size_t i = 0; name != NULL && i < GW_LEN(all); i++)
        if (all[i] != NULL && strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

size_t gw_codec_ws_max(void)
{
    size_t max = 0;
    for (size_t i = 0; i < GW_LEN(all); i++)
        max = gw_max_u64(max, all[i] != NULL ? all[i]->ws_bytes : 0);
    return max;
}

int gw_codec_left_out(const char *name)
{
    static const char *const optional[] = {"zstd", "lz4"};
    for (size_t i = 0; name != NULL && i < GW_LEN(optional); i++)
        if (strcmp(name, optional[i]) == 0)
            return gw_codec_by_name(name) == NULL;
    return 0;
}
