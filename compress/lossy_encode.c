/* lossy_encode.c - f32 to a payload.  Read gw_lossy_encode at the end, then block.
 *
 *  +--------+--------+-- --+-----------+--------------------+------+
 *  | tile 0 | tile 1 |     | last tile | rest of raw blocks | tail |   tile: scales, codes
 *  +--------+--------+-- --+-----------+--------------------+------+
 * The place of every tile follows from the count alone. */
#include <base/bytes.h>
#include <base/check.h>

#include "kern.h"
#include "lossy.h"

struct writer {
    const struct gw_kern_lossy *kern;
    struct gw_lossy_ws *ws;
    struct gw_plan plan;
    const struct gw_coding *c;
    const uint8_t *src; /* all values, and what is to be added to them; NULL: nothing */
    uint8_t *residual;
    uint8_t *rest; /* where the next raw block goes on */
    size_t room;   /* from there to the tail */
    uint32_t raws;
};

/* Up to a block of values, with zeros behind them where they are fewer. */
struct block {
    size_t first, values;
    const uint8_t *acc; /* what is coded: the source itself where there is no residual */
    uint8_t *residual;
    uint32_t max; /* the largest magnitude; 0 where nobody asks */
};

static struct block load(struct writer *w, size_t first, size_t values)
{
    size_t n = w->plan.block;
    const uint8_t *src = w->src + 4 * first;
    struct block b = {.first = first, .values = values};
    b.residual = w->residual == NULL ? NULL : w->residual + 4 * first;
    if (values < n) {
        memset(w->ws->src, 0, 4 * n), memset(w->ws->residual, 0, 4 * n);
        src = memcpy(w->ws->src, src, 4 * values);
        if (b.residual != NULL)
            b.residual = memcpy(w->ws->residual, b.residual, 4 * values);
    }
    b.acc = b.residual == NULL ? src : w->ws->acc;
    if (b.residual != NULL)
        b.max = w->kern->join(src, b.residual, n, w->ws->acc);
    else if (w->plan.scaled || w->plan.finite)
        b.max = w->kern->largest(src, n);
    return b;
}

/* A block's scale as bits: 0 for a block that becomes zeros, Inf for one that cannot be coded. */
static uint32_t scale_of(const struct writer *w, const struct block *b)
{
    const struct gw_plan *p = &w->plan;
    if (b->max >= GW_F32_INF)
        return GW_F32_INF;
    if (b->max < GW_F32_TINY)
        return 0;
    float most = p->most, scale;
    if (p->code == GW_CODE_SIGN)
        most = 1, scale = w->kern->sum(b->acc, p->block) / (float)b->values;
    else
        scale = gw_f32_of(b->max) / most;
    return gw_f32_bits(scale * most) >= GW_F32_INF ? GW_F32_INF : gw_f32_bits(scale);
}

/* The whole block as it is, and nothing of it remains. */
static int store(struct writer *w, const struct block *b, uint8_t *scale, uint8_t *codes)
{
    size_t head = gw_plan_head(&w->plan, b->values), rest = gw_plan_rest(&w->plan, b->values);
    if (rest > w->room)
        return 0;
    gw_put32(scale, GW_F32_INF | w->raws++);
    memcpy(codes, b->acc, head);
    memset(codes + head, 0, gw_plan_codes(&w->plan, b->values) - head);
    memcpy(w->rest, b->acc + head, rest);
    w->rest += rest, w->room -= rest;
    if (b->residual != NULL)
        memset(w->residual + 4 * b->first, 0, 4 * b->values);
    return 1;
}

static void code(struct writer *w, const struct block *b, float scale, uint8_t *out)
{
    const struct gw_plan *p = &w->plan;
    const struct gw_code_kern *kern = w->kern->codes[p->code];
    struct gw_lossy_ws *ws = w->ws;
    uint8_t *codes = b->values < p->block ? ws->codes : out;
    int zeros = p->bits == 0 || (p->scaled && scale == 0);
    const uint32_t *chance = w->c->flags & GW_CODING_STOCHASTIC ? ws->chance : NULL;
    if (zeros)
        memset(codes, 0, gw_plan_codes(p, p->block));
    else if (chance != NULL)
        w->kern->chance(w->c->seed, w->c->first + b->first, p->block, ws->chance);
    if (!zeros)
        kern->code(b->acc, chance, p->block, scale, p->most, codes);
    if (codes != out)
        memcpy(out, codes, gw_plan_codes(p, b->values));
    if (b->residual == NULL)
        return;
    if (zeros)
        memcpy(b->residual, b->acc, 4 * p->block);
    else
        kern->remain(codes, p->block, scale, b->acc, b->residual);
    if (b->residual == ws->residual)
        memcpy(w->residual + 4 * b->first, ws->residual, 4 * b->values);
}

static int block(struct writer *w, size_t first, size_t values, uint8_t *scale, uint8_t *codes)
{
    struct block b = load(w, first, values);
    if (!w->plan.scaled) {
        if (w->plan.finite && b.max >= GW_F32_INF)
            return 0;
        code(w, &b, w->plan.scale, codes);
        return 1;
    }
    uint32_t bits = scale_of(w, &b);
    if (bits == GW_F32_INF)
        return store(w, &b, scale, codes);
    gw_put32(scale, bits);
    code(w, &b, gw_f32_of(bits), codes);
    return 1;
}

static int tile(struct writer *w, size_t first, size_t values, uint8_t *scale)
{
    size_t n = w->plan.block;
    uint8_t *codes = scale + gw_plan_tile(&w->plan, values) - gw_plan_codes(&w->plan, values);
    for (size_t at = 0; at < values; at += n, scale += 4) {
        size_t m = gw_min_u64(n, values - at);
        if (!block(w, first + at, m, scale, codes))
            return 0;
        codes += gw_plan_codes(&w->plan, m);
    }
    return 1;
}

/* Whether the whole chunk will do: asked first where a residual could not be brought back. */
static int will_do(struct writer *w, size_t values)
{
    size_t n = w->plan.block, room = w->room;
    for (size_t at = 0; at < values; at += n) {
        struct block b = load(w, at, gw_min_u64(n, values - at));
        if (w->plan.finite && b.max >= GW_F32_INF)
            return 0;
        size_t rest = w->plan.scaled && scale_of(w, &b) == GW_F32_INF ? gw_plan_rest(&w->plan, b.values) : 0;
        if (rest > room)
            return 0;
        room -= rest;
    }
    return 1;
}

gw_err gw_lossy_encode(unsigned codec, const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap,
                       size_t *dst_len, uint32_t *count_p, void *ws)
{
    struct writer w = {.kern = gw_kern_get()->lossy, .ws = ws, .c = c, .src = src};
    size_t values = src_len / 4, tail = src_len % 4;
    if (!gw_plan_encode(codec, c, &w.plan) || src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    size_t fixed = gw_plan_fixed(&w.plan, values), bound = gw_lossy_bound(codec, src_len, c);
    if (dst_cap < fixed + tail)
        return GW_RAW;
    uint8_t *out = dst;
    w.rest = out + fixed, w.room = dst_cap - fixed - tail;
    w.residual = (uint8_t *)c->residual;
    if (w.residual != NULL && (w.plan.finite || dst_cap < bound) && !will_do(&w, values))
        return GW_RAW;
    for (size_t at = 0; at < values; at += GW_LOSSY_TILE) {
        size_t m = gw_min_u64(GW_LOSSY_TILE, values - at);
        if (!tile(&w, at, m, out))
            return GW_RAW;
        out += gw_plan_tile(&w.plan, m);
    }
    if (tail != 0)
        memcpy(w.rest, w.src + 4 * values, tail);
    *dst_len = (size_t)(w.rest - (uint8_t *)dst) + tail;
    *count_p = w.plan.scaled ? w.raws : w.plan.count;
    return GW_OK;
}
