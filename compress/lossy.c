/* lossy.c - what each lossy codec makes of a chunk: its plan, and the sizes that follow from it. */
#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "lossy.h"

/* What is the same in every call; levels and twobit get the rest from their parameters. */
static const struct gw_plan plans[] = {
    [GW_CODEC_BF16 - GW_CODEC_BF16] = {.code = GW_CODE_BF16, .block = 256, .bits = 16, .unit = 1},
    [GW_CODEC_F16 - GW_CODEC_BF16] = {.code = GW_CODE_F16, .block = 256, .bits = 16, .unit = 1},
    [GW_CODEC_E4M3 - GW_CODEC_BF16] = {.code = GW_CODE_E4M3, .block = 256, .bits = 8, .unit = 1},
    [GW_CODEC_E5M2 - GW_CODEC_BF16] = {.code = GW_CODE_E5M2, .block = 256, .bits = 8, .unit = 1},
    [GW_CODEC_INT8 - GW_CODEC_BF16] = {.code = GW_CODE_INT8, .block = 256, .bits = 8, .unit = 1, .scaled = 1, .most = 127},
    [GW_CODEC_INT4 - GW_CODEC_BF16] = {.code = GW_CODE_INT4, .block = 64, .bits = 4, .unit = 64, .scaled = 1, .most = 7},
    [GW_CODEC_LEVELS - GW_CODEC_BF16] = {.block = 256, .unit = 1, .finite = 1},
    [GW_CODEC_TWOBIT - GW_CODEC_BF16] = {.code = GW_CODE_TWO, .block = 256, .bits = 2, .unit = 128, .finite = 1},
    [GW_CODEC_SIGN - GW_CODEC_BF16] = {.code = GW_CODE_SIGN, .block = 1024, .bits = 1, .unit = 32, .scaled = 1},
};

/* Integers that an f32 holds: beyond 24 bits the lower ones are cut off. */
uint32_t gw_levels(uint32_t bits, uint32_t ranks)
{
    if ((bits != 8 && bits != 16 && bits != 32) || ranks == 0)
        return 0;
    uint32_t s = (uint32_t)(((uint64_t)1 << (bits - 1)) - 1) / ranks;
    for (unsigned cut = 7; s >= 1u << 24 && cut > 0; cut--)
        if (s >> (23 + cut) != 0)
            return s >> cut << cut;
    return s;
}

static int finite(uint32_t bits)
{
    return (bits & GW_F32_INF) != GW_F32_INF;
}

/* bits 0: the common maximum is none, and nothing is sent. */
static int plan_levels(struct gw_plan *p, uint32_t param, uint32_t ranks, uint32_t bits)
{
    if (param >= GW_F32_INF || ranks == 0)
        return 0;
    p->count = ranks;
    if (bits == 0 || param < GW_F32_LEVELS_TINY)
        return bits == 0 || gw_levels(bits, ranks) != 0;
    p->bits = (uint8_t)bits;
    p->code = bits == 8 ? GW_CODE_INT8 : bits == 16 ? GW_CODE_INT16 : GW_CODE_INT32;
    p->most = (float)gw_levels(bits, ranks);
    p->scale = gw_f32_of(param) / p->most;
    return p->most > 0 && finite(gw_f32_bits(p->scale * p->most));
}

static int plan(unsigned codec, uint32_t param, uint32_t ranks, uint32_t bits, struct gw_plan *p)
{
    *p = plans[codec - GW_CODEC_BF16];
    if (codec == GW_CODEC_LEVELS)
        return plan_levels(p, param, ranks, bits);
    p->scale = gw_f32_of(param);
    if (codec == GW_CODEC_TWOBIT)
        return param >= GW_F32_TINY && param < GW_F32_INF;
    return param == 0;
}

int gw_plan_encode(unsigned codec, const struct gw_coding *c, struct gw_plan *p)
{
    size_t least = offsetof(struct gw_coding, ranks);
    if (codec == GW_CODEC_LEVELS)
        least = offsetof(struct gw_coding, bits) + sizeof(c->bits);
    if (c == NULL || c->size < least || c->view != GW_VIEW_F32 || (c->flags & ~GW_CODING_STOCHASTIC) != 0)
        return 0;
    if (c->flags != 0 && (codec == GW_CODEC_TWOBIT || codec == GW_CODEC_SIGN))
        return 0;
    if (codec == GW_CODEC_LEVELS)
        return c->bits != 0 && plan(codec, c->param, c->ranks, c->bits, p);
    return plan(codec, c->param, 0, 0, p);
}

/* A word's bits follow from the length; without words there are none to know. */
static uint32_t word_bits(size_t values, size_t words)
{
    for (uint32_t bits = 8; bits <= 32; bits *= 2)
        if (words != 0 && words == values * (bits / 8))
            return bits;
    return 0;
}

int gw_plan_decode(const struct gw_frame *f, size_t raw, struct gw_plan *p)
{
    uint32_t bits = 0;
    if (f->view != GW_VIEW_F32 || raw > GW_CHUNK_MAX || f->codec < GW_CODEC_BF16 || f->codec > GW_CODEC_SIGN ||
        f->wire_bytes < raw % 4)
        return 0;
    if (f->codec == GW_CODEC_LEVELS)
        bits = word_bits(raw / 4, f->wire_bytes - raw % 4);
    if (!plan(f->codec, f->param, f->count, bits, p))
        return 0;
    /* nothing may have been sent only where there was nothing to send */
    return f->codec != GW_CODEC_LEVELS || p->bits != 0 || raw / 4 == 0 || f->param < GW_F32_LEVELS_TINY;
}

/* ---- sizes ---- */

size_t gw_plan_codes(const struct gw_plan *p, size_t values)
{
    size_t unit = p->unit; /* a power of two */
    return ((values + unit - 1) & ~(unit - 1)) * p->bits / 8;
}

size_t gw_plan_tile(const struct gw_plan *p, size_t values)
{
    size_t scales = p->scaled ? (values + p->block - 1) / p->block : 0;
    return 4 * scales + gw_plan_codes(p, values);
}

size_t gw_plan_fixed(const struct gw_plan *p, size_t values)
{
    return values / GW_LOSSY_TILE * gw_plan_tile(p, GW_LOSSY_TILE) + gw_plan_tile(p, values % GW_LOSSY_TILE);
}

size_t gw_plan_head(const struct gw_plan *p, size_t values)
{
    return gw_min_u64(gw_plan_codes(p, values), 4 * values);
}

size_t gw_plan_rest(const struct gw_plan *p, size_t values)
{
    return 4 * values - gw_plan_head(p, values);
}

size_t gw_lossy_bound(unsigned codec, size_t src_len, const struct gw_coding *c)
{
    struct gw_plan p;
    size_t values = src_len / 4;
    if (!gw_plan_encode(codec, c, &p))
        return 0;
    size_t len = gw_plan_fixed(&p, values) + src_len % 4;
    if (p.scaled)
        len += values / p.block * gw_plan_rest(&p, p.block) + gw_plan_rest(&p, values % p.block);
    return len;
}

/* ---- sums ---- */

/* One word of each; *left_p remembers whether a sum left the word. */
#define ADD_WORDS(type, get, put)                                                       \
    for (size_t i = 0; i < count; i++) {                                                \
        int64_t t = (int64_t)(type)get(a + i * sizeof(type)) + (type)get(b + i * sizeof(type)); \
        left |= t != (type)t;                                                           \
        put(a + i * sizeof(type), (u##type)t);                                          \
    }

static uint8_t get8(const uint8_t *p)
{
    return *p;
}

static void put8(uint8_t *p, uint8_t v)
{
    *p = v;
}

gw_err gw_levels_add(void *sum, const void *words, size_t count, uint32_t bits)
{
    uint8_t *a = sum;
    const uint8_t *b = words;
    int left = 0;
    if (bits == 8) {
        ADD_WORDS(int8_t, get8, put8)
    } else if (bits == 16) {
        ADD_WORDS(int16_t, gw_get16, gw_put16)
    } else if (bits == 32) {
        ADD_WORDS(int32_t, gw_get32, gw_put32)
    } else {
        return GW_E_ARG;
    }
    return left ? GW_E_LIMIT : GW_OK;
}
