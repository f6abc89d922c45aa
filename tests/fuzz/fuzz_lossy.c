/* fuzz_lossy.c - lossy payloads without a head in the way, decoded and added; and round trips with and without a residual.
 *
 *  byte 0: bit 7 round trip, bits 0..3 codec - 16, bit 6 chance, bit 5 residual, bit 4 short destination
 *  1..2: raw length (decode), repeats (round trip)   3..6: param   7..8: count (decode), ranks (round trip)
 *  9: bits of a level   10..11: seed, index of the first   the rest: payload, or the values to code */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>

#include "kernels.h"

enum { HEAD = 12, REPEATED_BYTES = 4096, MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Alignas(64) uint8_t ws[2 << 20];

/* ---- foreign bytes ---- */

static gw_err decode_with(const struct gw_kern *kern, const struct gw_frame *f, const uint8_t *src, uint8_t *dst, float scale)
{
    const struct gw_codec *codec = gw_codec_by_id(f->codec);
    gw_kern_force(kern);
    if (scale == 0)
        return codec->decode(f, src, dst, f->raw_bytes, ws);
    return codec->decode_add(f, src, (float *)(void *)dst, f->raw_bytes, scale, ws);
}

/* Both kernels answer alike; an addition that is refused has added nothing. */
static void both(const struct gw_frame *f, const uint8_t *src, float scale)
{
    size_t n = f->raw_bytes;
    uint8_t *first = malloc(n), *other = malloc(n), *was = malloc(n);
    for (size_t i = 0; i < n; i++)
        first[i] = other[i] = was[i] = (uint8_t)(i * 37 + i / 256);
    gw_err err = decode_with(tried, f, src, first, scale);
    gw_assert(err == GW_OK || err == GW_E_CORRUPT);
    gw_assert(decode_with(&gw_kern_scalar, f, src, other, scale) == err);
    gw_assert(err != GW_OK || n == 0 || memcmp(first, other, n) == 0);
    gw_assert(err == GW_OK || scale == 0 || n == 0 || memcmp(first, was, n) == 0);
    free(first), free(other), free(was);
}

static void hostile(const struct gw_frame *f, const uint8_t *src)
{
    uint8_t *exact = malloc(f->wire_bytes); /* its end is the end of the allocation */
    if (f->wire_bytes > 0)
        memcpy(exact, src, f->wire_bytes);
    both(f, exact, 0), both(f, exact, 1), both(f, exact, -0.6f);
    free(exact);
}

/* ---- round trips ---- */

struct trip {
    const struct gw_codec *codec;
    struct gw_coding c;
    const uint8_t *src;
    size_t n, len;
    uint32_t count;
};

static gw_err encode_with(const struct gw_kern *kern, struct trip *t, uint8_t *residual, uint8_t *dst, size_t cap)
{
    gw_kern_force(kern);
    t->c.residual = (float *)(void *)residual;
    return t->codec->encode(&t->c, t->src, t->n, dst, cap, &t->len, &t->count, ws);
}

static void round_trip(struct trip *t, int with, int less)
{
    size_t bound = t->codec->bound(t->n, &t->c), cap = less && bound > 0 ? bound - 1 : bound, values = t->n / 4 * 4;
    uint8_t *coded = malloc(cap), *other = malloc(cap), *left = calloc(1, values), *right = calloc(1, values);
    for (size_t i = 0; with && i < values; i++)
        left[i] = right[i] = t->src[t->n - 1 - i] & (i % 4 == 3 ? 0xbf : 0xff);
    gw_err err = encode_with(tried, t, with ? left : NULL, coded, cap);
    size_t len = t->len;
    uint32_t count = t->count;
    gw_assert(err == GW_OK || err == GW_RAW || (err == GW_E_ARG && bound == 0));
    gw_assert(encode_with(&gw_kern_scalar, t, with ? right : NULL, other, cap) == err);
    gw_assert(values == 0 || memcmp(left, right, values) == 0);
    if (err == GW_OK) {
        struct gw_frame f = {.codec = t->codec->id, .view = GW_VIEW_F32, .count = count, .param = t->c.param};
        f.raw_bytes = (uint32_t)t->n, f.wire_bytes = (uint32_t)len;
        gw_assert(len <= cap && len == t->len && count == t->count && (len == 0 || memcmp(coded, other, len) == 0));
        uint8_t *out = malloc(t->n);
        gw_assert(decode_with(tried, &f, coded, out, 0) == GW_OK);
        gw_assert(t->n == values || memcmp(out + values, t->src + values, t->n - values) == 0);
        free(out);
        hostile(&f, coded);
    }
    free(coded), free(other), free(left), free(right);
}

static void one(const uint8_t *data, size_t size)
{
    gw_assert(gw_codec_ws_max() <= sizeof(ws));
    if (size < HEAD || (data[0] & 15) > GW_CODEC_SIGN - GW_CODEC_BF16)
        return;
    unsigned id = GW_CODEC_BF16 + (data[0] & 15);
    const uint8_t *rest = data + HEAD;
    size_t left = size - HEAD, n = gw_get16(data + 1);
    if (!(data[0] & 0x80)) {
        struct gw_frame f = {.codec = (uint8_t)id, .view = GW_VIEW_F32, .raw_bytes = (uint32_t)n};
        f.param = gw_get32(data + 3), f.count = gw_get16(data + 7), f.wire_bytes = (uint32_t)left;
        hostile(&f, rest);
        return;
    }
    size_t repeats = 1 + n / REPEATED_BYTES;
    struct trip t = {.codec = gw_codec_by_id(id), .n = left * repeats < MOST ? left * repeats : left};
    uint8_t *src = malloc(left * repeats + 1);
    for (size_t i = 0; i < repeats; i++)
        memcpy(src + i * left, rest, left);
    t.c = (struct gw_coding){.size = sizeof(t.c), .view = GW_VIEW_F32, .flags = data[0] >> 6 & 1, .seed = data[10]};
    t.c.param = gw_get32(data + 3), t.c.ranks = gw_get16(data + 7), t.c.bits = data[9];
    t.c.first = ((uint64_t)1 << 32) - 16u * data[11];
    t.src = src;
    round_trip(&t, data[0] >> 5 & 1, data[0] >> 4 & 1);
    free(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_each(one, data, size);
}
