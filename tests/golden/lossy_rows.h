/* lossy_rows.h - the golden frames of lossy codecs: lossy-NAME.frame is what `codec` makes of the first `bytes` of lossy.in
 * with these parameters, and lossy-NAME.xxh3 the hash of what comes back. */
#ifndef GW_GOLDEN_LOSSY_ROWS_H
#define GW_GOLDEN_LOSSY_ROWS_H

#include <stdint.h>
#include <string.h>

#include <base/bytes.h>
#include <gradwire/codec.h>

enum { LOSSY_BYTES = 4 * 4400 + 3, LOSSY_LESS = 4 * 700 + 1 };

static const struct lossy_row {
    const char *name, *codec;
    size_t bytes;
    uint16_t flags;
    uint32_t param, ranks, bits;
} lossy_rows[] = {
    {"bf16", "bf16", LOSSY_BYTES, 0, 0, 0, 0},
    {"bf16-chance", "bf16", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"f16", "f16", LOSSY_LESS, 0, 0, 0, 0},
    {"f16-chance", "f16", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"e4m3", "e4m3", LOSSY_BYTES, 0, 0, 0, 0},
    {"e4m3-chance", "e4m3", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"e5m2", "e5m2", LOSSY_LESS, 0, 0, 0, 0},
    {"e5m2-chance", "e5m2", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"int8", "int8", LOSSY_BYTES, 0, 0, 0, 0},
    {"int8-chance", "int8", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"int4", "int4", LOSSY_BYTES, 0, 0, 0, 0},
    {"int4-chance", "int4", LOSSY_LESS, GW_CODING_STOCHASTIC, 0, 0, 0},
    {"levels8", "levels", LOSSY_BYTES, 0, 0x3f800000, 8, 8},
    {"levels16", "levels", LOSSY_LESS, 0, 0x3f800000, 1000, 16},
    {"levels32", "levels", LOSSY_LESS, GW_CODING_STOCHASTIC, 0x3fc00000, 3, 32},
    {"levels0", "levels", LOSSY_LESS, 0, 0, 3, 32},
    {"twobit", "twobit", LOSSY_BYTES, 0, 0x3c000000, 0, 0},
    {"sign", "sign", LOSSY_BYTES, 0, 0, 0, 0},
};
enum { LOSSY_ROWS = sizeof(lossy_rows) / sizeof(*lossy_rows) };

static inline struct gw_coding lossy_coding(const struct lossy_row *row)
{
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_F32, .flags = row->flags, .param = row->param};
    c.ranks = row->ranks, c.bits = row->bits, c.seed = 2026, c.first = 0xfffffe00; /* the index grows a bit */
    return c;
}

/* levels and twobit take what is finite: the rest as zeros. */
static inline void lossy_source(const struct lossy_row *row, const uint8_t *in, uint8_t *out)
{
    memcpy(out, in, row->bytes);
    for (size_t i = 0; row->param + row->ranks != 0 && i + 4 <= row->bytes; i += 4)
        if ((gw_get32(out + i) & 0x7f800000) == 0x7f800000)
            gw_put32(out + i, 0);
}
#endif
