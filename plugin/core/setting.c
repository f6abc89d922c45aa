/* setting.c - the kinds of values, each parsed, written and explained. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "setting.h"

/* ---- numbers ---- */
/* Reads decimal digits at *p_p and moves past them. */
static int digits(const char **p_p, uint64_t *out)
{
    const char *p = *p_p;
    uint64_t v = 0;
    if (!isdigit((unsigned char)*p))
        return 0;
    for (; isdigit((unsigned char)*p); p++) {
        uint64_t d = (uint64_t)(*p - '0');
        if (v > (UINT64_MAX - d) / 10)
            return 0;
        v = v * 10 + d;
    }
    *p_p = p, *out = v;
    return 1;
}

static int scale(uint64_t *v, uint64_t by)
{
    if (*v > UINT64_MAX / by)
        return 0;
    *v *= by;
    return 1;
}

static int parse_number(const char *p, uint64_t *out)
{
    return digits(&p, out) && *p == 0;
}

static int parse_bytes(const char *p, uint64_t *out)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0},     {"B", 0},     {"K", 10},    {"KB", 10}, {"KiB", 10}, {"M", 20},
                 {"MB", 20},  {"MiB", 20},  {"G", 30},    {"GB", 30}, {"GiB", 30}};
    if (!digits(&p, out))
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(p, units[i].unit) == 0)
            return scale(out, 1ull << units[i].shift);
    return 0;
}

static int parse_time(const char *p, uint64_t *out)
{
    if (!digits(&p, out))
        return 0;
    if (strcmp(p, "ms") == 0)
        return 1;
    return (*p == 0 || strcmp(p, "s") == 0) && scale(out, 1000);
}

static int parse_word(const char *const *words, const char *value, uint64_t *out)
{
    for (uint64_t i = 0; words[i] != NULL; i++)
        if (strcasecmp(words[i], value) == 0) {
            *out = i;
            return 1;
        }
    return 0;
}

static int parse_bool(const char *value, uint64_t *out)
{
    static const char *const words[] = {"0", "1", "off", "on", "no", "yes", "false", "true", NULL};
    if (!parse_word(words, value, out))
        return 0;
    *out &= 1;
    return 1;
}

/* ---- the rest ---- */
static int parse_ports(const char *p, uint16_t *at)
{
    uint64_t lo, hi;
    if (!digits(&p, &lo))
        return 0;
    hi = lo;
    if (*p == '-' && (p++, !digits(&p, &hi)))
        return 0;
    if (*p != 0 || lo > hi || hi > UINT16_MAX || (lo == 0 && hi != 0))
        return 0;
    at[0] = (uint16_t)lo, at[1] = (uint16_t)hi;
    return 1;
}

static int parse_text(const struct gw_setting *s, const char *value, char *at)
{
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return 0;
    if (n >= s->size)
        return 0;
    memset(at, 0, s->size);
    memcpy(at, value, n);
    return 1;
}

int gw_setting_parse(const struct gw_setting *s, const char *value, void *at)
{
    uint64_t v = 0;
    int ok = 0, bounded = 1;
    switch (s->kind) {
    case GW_KIND_PASSED:
        return 1;
    case GW_KIND_TEXT:
        return parse_text(s, value, at);
    case GW_KIND_PORTS:
        return parse_ports(value, at);
    case GW_KIND_CHOICE:
        ok = parse_word(s->words, value, &v), bounded = 0;
        break;
    case GW_KIND_BOOL:
        ok = parse_bool(value, &v), bounded = 0;
        break;
    case GW_KIND_NUMBER:
        ok = parse_number(value, &v);
        break;
    case GW_KIND_BYTES:
        ok = parse_bytes(value, &v);
        break;
    case GW_KIND_TIME:
        ok = parse_time(value, &v);
        break;
    case GW_KINDS:
        break;
    }
    if (!ok || (bounded && (v < s->lo || v > s->hi || (s->step > 1 && v % s->step != 0))))
        return 0;
    uint32_t narrow = (uint32_t)v;
    memcpy(at, s->size == 8 ? (void *)&v : (void *)&narrow, s->size);
    return 1;
}

/* ---- writing ---- */
static void format_bytes(uint64_t v, char *out, size_t room)
{
    unsigned i = 0;
    while (i < 3 && v != 0 && v % 1024 == 0)
        v /= 1024, i++;
    snprintf(out, room, "%llu%.1s", (unsigned long long)v, i == 0 ? "" : &"KMG"[i - 1]);
}

static void format_time(uint64_t ms, char *out, size_t room)
{
    if (ms == 0)
        snprintf(out, room, "0");
    else if (ms % 1000 == 0)
        snprintf(out, room, "%llus", (unsigned long long)ms / 1000);
    else
        snprintf(out, room, "%llums", (unsigned long long)ms);
}

static uint64_t number_at(const struct gw_setting *s, const void *at)
{
    uint32_t narrow;
    uint64_t wide;
    if (s->size == 8) {
        memcpy(&wide, at, 8);
        return wide;
    }
    memcpy(&narrow, at, 4);
    return narrow;
}

void gw_setting_format(const struct gw_setting *s, const void *at, char out[GW_SETTING_TEXT])
{
    const uint16_t *ports = at;
    out[0] = 0;
    switch (s->kind) {
    case GW_KIND_PASSED:
    case GW_KINDS:
        return;
    case GW_KIND_TEXT:
        snprintf(out, GW_SETTING_TEXT, "%s", (const char *)at);
        return;
    case GW_KIND_PORTS:
        snprintf(out, GW_SETTING_TEXT, ports[0] == 0 ? "0" : "%u-%u", ports[0], ports[1]);
        return;
    case GW_KIND_CHOICE:
        snprintf(out, GW_SETTING_TEXT, "%s", s->words[number_at(s, at)]);
        return;
    case GW_KIND_BYTES:
        format_bytes(number_at(s, at), out, GW_SETTING_TEXT);
        return;
    case GW_KIND_TIME:
        format_time(number_at(s, at), out, GW_SETTING_TEXT);
        return;
    case GW_KIND_NUMBER:
    case GW_KIND_BOOL:
        snprintf(out, GW_SETTING_TEXT, "%llu", (unsigned long long)number_at(s, at));
        return;
    }
}

static void allowed_words(const struct gw_setting *s, char *out)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; s->words[i] != NULL; i++)
        at += (size_t)snprintf(out + at, GW_SETTING_TEXT - at, "%s%s", i > 0 ? ", " : "", s->words[i]);
}

void gw_setting_allowed(const struct gw_setting *s, char out[GW_SETTING_TEXT])
{
    char lo[32], hi[32], step[32];
    switch (s->kind) {
    case GW_KIND_CHOICE:
        allowed_words(s, out);
        return;
    case GW_KIND_NUMBER:
        snprintf(out, GW_SETTING_TEXT, "%llu to %llu", (unsigned long long)s->lo, (unsigned long long)s->hi);
        return;
    case GW_KIND_BYTES:
        format_bytes(s->lo, lo, sizeof lo), format_bytes(s->hi, hi, sizeof hi), format_bytes(s->step, step, sizeof step);
        snprintf(out, GW_SETTING_TEXT, s->step > 1 ? "%s to %s in steps of %s" : "%s to %s", lo, hi, step);
        return;
    case GW_KIND_TIME:
        format_time(s->lo, lo, sizeof lo), format_time(s->hi, hi, sizeof hi), format_time(s->step, step, sizeof step);
        snprintf(out, GW_SETTING_TEXT, s->step > 1 ? "%s to %s in steps of %s, in seconds or with ms" :
                 "%s to %s, in seconds or with ms", lo, hi, step);
        return;
    case GW_KIND_BOOL:
        snprintf(out, GW_SETTING_TEXT, "0, 1");
        return;
    case GW_KIND_TEXT:
        snprintf(out, GW_SETTING_TEXT, "up to %d printable characters", s->size - 1);
        return;
    case GW_KIND_PORTS:
        snprintf(out, GW_SETTING_TEXT, "FIRST-LAST within 1 to 65535, or 0 for any");
        return;
    case GW_KIND_PASSED:
    case GW_KINDS:
        snprintf(out, GW_SETTING_TEXT, "see there");
        return;
    }
}

const char *gw_setting_type(const struct gw_setting *s)
{
    static const char *const names[GW_KINDS] = {"one of", "number", "bytes", "time", "bool", "text", "ports", "passed on"};
    return names[s->kind];
}

unsigned gw_setting_distance(const char *a, const char *b)
{
    enum { LETTERS_MAX = 40 };
    unsigned row[LETTERS_MAX + 1];
    size_t nb = strnlen(b, LETTERS_MAX);
    for (unsigned j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != 0 && i < LETTERS_MAX; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < nb; j++) {
            unsigned keep = diagonal + (toupper((unsigned char)a[i]) != toupper((unsigned char)b[j]));
            unsigned best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = keep < best ? keep : best;
        }
    }
    return row[nb];
}
