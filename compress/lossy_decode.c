/* lossy_decode.c - a payload to f32, from bytes that anybody may have written.  Read walk.
 *
 * Only the scales can be wrong, and the lengths; every code means something.  Scales are copied out of the payload before
 * they are judged, and the rest of a raw block is bounded where it is read, so that bytes which change meanwhile can
 * change values alone. */
#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "kern.h"
#include "lossy.h"

enum what { JUDGE, DECODE, ADD };

struct reader {
    const struct gw_kern_lossy *kern;
    struct gw_lossy_ws *ws;
    struct gw_plan plan;
    enum what what;
    const uint8_t *rest; /* where the next raw block goes on */
    size_t left;         /* from there to the tail */
    uint32_t raws;
    uint8_t *dst;
    float factor; /* ADD */
};

/* The values of a whole block, or as many as there are: by way of the scratch. */
static void deliver(struct reader *r, enum gw_code code, float scale, size_t first, size_t values, const uint8_t *codes)
{
    const struct gw_code_kern *kern = r->kern->codes[code];
    uint8_t *dst = r->dst + 4 * first, *out = values == r->plan.block ? dst : r->ws->val;
    if (r->what == DECODE) {
        kern->value(codes, r->plan.block, scale, out);
    } else {
        if (out != dst)
            memcpy(out, dst, 4 * values);
        kern->add(codes, r->plan.block, scale, r->factor, out);
    }
    if (out != dst)
        memcpy(dst, out, 4 * values);
}

/* A block that came as it was; to add it, its subnormals are zeros. */
static gw_err stored(struct reader *r, uint32_t bits, size_t first, size_t values, const uint8_t *codes)
{
    size_t head = gw_plan_head(&r->plan, values), rest = gw_plan_rest(&r->plan, values);
    uint8_t *to = r->what == DECODE ? r->dst + 4 * first : r->ws->codes;
    if (bits != (GW_F32_INF | r->raws) || rest > r->left)
        return GW_E_CORRUPT;
    if (r->what != JUDGE)
        memcpy(to, codes, head), memcpy(to + head, r->rest, rest);
    if (r->what == ADD)
        deliver(r, GW_CODE_F32, 0, first, values, to);
    r->raws++, r->rest += rest, r->left -= rest;
    return GW_OK;
}

static void coded(struct reader *r, float scale, size_t first, size_t values, const uint8_t *codes)
{
    const struct gw_plan *p = &r->plan;
    if (p->bits == 0) {
        if (r->what == DECODE)
            memset(r->dst + 4 * first, 0, 4 * values);
        return;
    }
    if (values < p->block)
        codes = memcpy(r->ws->codes, codes, gw_plan_codes(p, values));
    deliver(r, p->code, scale, first, values, codes);
}

static gw_err block(struct reader *r, uint32_t bits, size_t first, size_t values, const uint8_t *codes)
{
    if (!r->plan.scaled) {
        coded(r, r->plan.scale, first, values, codes);
        return GW_OK;
    }
    if (bits >= GW_F32_INF)
        return stored(r, bits, first, values, codes);
    if (bits != 0 && bits < GW_F32_SCALE_LEAST)
        return GW_E_CORRUPT;
    if (r->what != JUDGE)
        coded(r, gw_f32_of(bits), first, values, codes);
    return GW_OK;
}

static gw_err tile(struct reader *r, const uint8_t *in, size_t first, size_t values)
{
    uint8_t scales[4 * GW_LOSSY_SCALES_MAX];
    size_t n = r->plan.block, head = gw_plan_tile(&r->plan, values) - gw_plan_codes(&r->plan, values);
    const uint8_t *codes = in + head, *scale = scales;
    gw_copy_once(scales, in, head);
    for (size_t at = 0; at < values; at += n) {
        size_t m = gw_min_u64(n, values - at);
        gw_err err = block(r, r->plan.scaled ? gw_get32(scale) : 0, first + at, m, codes);
        if (err != GW_OK)
            return err;
        scale += 4, codes += gw_plan_codes(&r->plan, m);
    }
    return GW_OK;
}

static gw_err walk(struct reader *r, const struct gw_frame *f, const uint8_t *in, size_t len)
{
    size_t values = len / 4, tail = len % 4, fixed = gw_plan_fixed(&r->plan, values);
    if (f->wire_bytes < fixed + tail)
        return GW_E_CORRUPT;
    if (values % r->plan.block != 0) /* what stands behind the values of a short block */
        memset(r->ws->codes, 0, sizeof(r->ws->codes)), memset(r->ws->val, 0, sizeof(r->ws->val));
    r->rest = in + fixed, r->left = f->wire_bytes - fixed - tail, r->raws = 0;
    for (size_t at = 0; at < values && (r->what != JUDGE || r->plan.scaled); at += GW_LOSSY_TILE) {
        size_t m = gw_min_u64(GW_LOSSY_TILE, values - at), step = gw_plan_tile(&r->plan, m);
        if (r->what == JUDGE && values - at > 8 * GW_LOSSY_TILE) /* scales lie far apart: ask for them in time */
            __builtin_prefetch(in + 8 * step);
        gw_err err = tile(r, in, at, m);
        if (err != GW_OK)
            return err;
        in += step;
    }
    if (r->left != 0 || f->count != (r->plan.scaled ? r->raws : r->plan.count))
        return GW_E_CORRUPT;
    if (r->what == DECODE && tail != 0)
        memcpy(r->dst + 4 * values, r->rest, tail);
    return GW_OK;
}

gw_err gw_lossy_decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    struct reader r = {.kern = gw_kern_get()->lossy, .ws = ws, .dst = dst, .what = DECODE};
    if (!gw_plan_decode(f, dst_len, &r.plan))
        return GW_E_CORRUPT;
    return walk(&r, f, src, dst_len);
}

gw_err gw_lossy_decode_add(const struct gw_frame *f, const void *src, float *dst, size_t dst_len, float scale, void *ws)
{
    struct reader r = {.kern = gw_kern_get()->lossy, .ws = ws, .dst = (uint8_t *)dst, .what = JUDGE};
    uint32_t bits = gw_f32_bits(scale);
    r.factor = (bits & GW_F32_INF) == 0 ? 0 : scale; /* a subnormal counts as zero */
    if (!gw_plan_decode(f, dst_len, &r.plan))
        return GW_E_CORRUPT;
    gw_err err = walk(&r, f, src, dst_len);
    r.what = ADD;
    return err != GW_OK ? err : walk(&r, f, src, dst_len);
}
