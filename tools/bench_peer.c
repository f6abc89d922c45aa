/* bench_peer.c - other libraries, those that were here at build time: never needed, only measured.  Each is called as its own
 * pages say for one buffer after the other, with what it can keep between calls kept in ws. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* ---- lz4 ---- */

#ifdef GW_HAVE_LZ4
#include <lz4.h>

static size_t lz4_bound(const struct bench_call *c, size_t n)
{
    (void)c;
    return (size_t)LZ4_compressBound((int)n);
}

static ptrdiff_t lz4_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    int len = LZ4_compress_fast_extState(c->ws, src, dst, (int)n, (int)cap, 1);

    return len > 0 ? len : -1;
}

static int lz4_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    (void)c;
    return LZ4_decompress_safe(src, dst, (int)n, (int)dst_len) == (int)dst_len ? 0 : -1;
}

static const struct bench_rival lz4 = {
    .name = "peer:lz4", .ws_bytes = 32 << 10, .bound = lz4_bound, .encode = lz4_encode, .decode = lz4_decode};
#endif

/* ---- a plain byte shuffle: byte k of every value side by side, what is no whole value behind ---- */

#if defined(GW_HAVE_ZSTD) || defined(GW_HAVE_HTSCODECS)
enum { SHUFFLED = 64 << 20 };

/* The width is a number that the compiler sees in each of the calls below, or there would be no fast loop. */
static inline void spread_planes(uint8_t *out, const uint8_t *in, size_t values, size_t width)
{
    for (size_t k = 0; k < width; k++)
        for (size_t i = 0; i < values; i++)
            out[k * values + i] = in[i * width + k];
}

static inline void join_planes(uint8_t *out, const uint8_t *in, size_t values, size_t width)
{
    for (size_t i = 0; i < values; i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = in[k * values + i];
}

static void shuffle(uint8_t *out, const uint8_t *in, size_t n, size_t width)
{
    size_t whole = n / width * width;

    if (width == 4)
        spread_planes(out, in, n / 4, 4);
    else if (width == 2)
        spread_planes(out, in, n / 2, 2);
    else
        memcpy(out, in, whole);
    memcpy(out + whole, in + whole, n - whole);
}

static void unshuffle(uint8_t *out, const uint8_t *in, size_t n, size_t width)
{
    size_t whole = n / width * width;

    if (width == 4)
        join_planes(out, in, n / 4, 4);
    else if (width == 2)
        join_planes(out, in, n / 2, 2);
    else
        memcpy(out, in, whole);
    memcpy(out + whole, in + whole, n - whole);
}
#endif

/* ---- zstd, alone and behind the shuffle ---- */

#ifdef GW_HAVE_ZSTD
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

enum { CONTEXT = 4 << 20, LEVEL = 1 };

static size_t zstd_bound(const struct bench_call *c, size_t n)
{
    (void)c;
    return ZSTD_compressBound(n);
}

static ptrdiff_t zstd_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    ZSTD_CCtx *ctx = ZSTD_initStaticCCtx(c->ws, CONTEXT);
    size_t len = ctx != NULL ? ZSTD_compressCCtx(ctx, dst, cap, src, n, LEVEL) : 0;

    return ctx == NULL || ZSTD_isError(len) ? -1 : (ptrdiff_t)len;
}

static int zstd_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    ZSTD_DCtx *ctx = ZSTD_initStaticDCtx(c->ws, CONTEXT);

    return ctx != NULL && ZSTD_decompressDCtx(ctx, dst, dst_len, src, n) == dst_len ? 0 : -1;
}

static ptrdiff_t planes_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    uint8_t *mid = (uint8_t *)c->ws + CONTEXT;

    shuffle(mid, src, n, c->width);
    return zstd_encode(c, mid, n, dst, cap);
}

static int planes_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    uint8_t *mid = (uint8_t *)c->ws + CONTEXT;

    if (zstd_decode(c, src, n, mid, dst_len) != 0)
        return -1;
    unshuffle(dst, mid, dst_len, c->width);
    return 0;
}

static const struct bench_rival zstd = {
    .name = "peer:zstd-1", .ws_bytes = CONTEXT, .bound = zstd_bound, .encode = zstd_encode, .decode = zstd_decode};
static const struct bench_rival planes = {.name = "peer:shuffle+zstd-1", .ws_bytes = CONTEXT + SHUFFLED, .bound = zstd_bound,
                                          .encode = planes_encode, .decode = planes_decode};
#endif

/* ---- blosc: its own fast shuffle and its own cut into blocks ---- */

#ifdef GW_HAVE_BLOSC
#include <blosc.h>

static size_t blosc_bound(const struct bench_call *c, size_t n)
{
    (void)c;
    return n + BLOSC_MAX_OVERHEAD;
}

static ptrdiff_t blosc_with(const struct bench_call *c, const char *name, int level, const void *src, size_t n, void *dst,
                            size_t cap)
{
    int len = blosc_compress_ctx(level, BLOSC_SHUFFLE, c->width, n, src, dst, cap, name, 0, 1);

    return len > 0 ? len : -1;
}

static ptrdiff_t blosc_lz4(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    return blosc_with(c, BLOSC_LZ4_COMPNAME, 5, src, n, dst, cap);
}

static ptrdiff_t blosc_zstd(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    return blosc_with(c, BLOSC_ZSTD_COMPNAME, 1, src, n, dst, cap);
}

static int blosc_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    (void)c, (void)n;
    return blosc_decompress_ctx(src, dst, dst_len, 1) == (int)dst_len ? 0 : -1;
}

static const struct bench_rival blosc_fast = {
    .name = "peer:blosc-lz4", .bound = blosc_bound, .encode = blosc_lz4, .decode = blosc_decode};
static const struct bench_rival blosc_small = {
    .name = "peer:blosc-zstd-1", .bound = blosc_bound, .encode = blosc_zstd, .decode = blosc_decode};
#endif

/* ---- htscodecs: order-0 rANS, 32 ways, over the exponents alone; all else as it is ---- */

#ifdef GW_HAVE_HTSCODECS
#include <htscodecs/rANS_static4x16.h>

/* One step to the left brings the sign down and all exponent bits of bf16 and f32 into the upper byte. */
static void turn(uint8_t *to, const uint8_t *from, size_t n, size_t width, unsigned left)
{
    uint16_t *to16 = (uint16_t *)(void *)to;
    uint32_t *to32 = (uint32_t *)(void *)to;

    memcpy(to, from, n);
    for (size_t i = 0; width == 2 && i < n / 2; i++)
        to16[i] = (uint16_t)(to16[i] << left | to16[i] >> (16 - left));
    for (size_t i = 0; width == 4 && i < n / 4; i++)
        to32[i] = to32[i] << left | to32[i] >> (32 - left);
}

static size_t rans_bound(const struct bench_call *c, size_t n)
{
    return n + 4 + rans_compress_bound_4x16((unsigned)(n / c->width), RANS_ORDER_X32);
}

/* u32 length of the coded plane, that plane, the other planes and what is no whole value. */
static ptrdiff_t rans_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    uint8_t *turned = c->ws, *mid = turned + SHUFFLED, *out = dst;
    size_t values = n / c->width, low = values * (c->width - 1), tail = n - values * c->width;
    unsigned len = (unsigned)(cap - 4 - low - tail);

    turn(turned, src, n, c->width, 1);
    shuffle(mid, turned, n, c->width);
    if (rans_compress_to_4x16(mid + low, (unsigned)values, out + 4, &len, RANS_ORDER_X32) == NULL)
        return -1;
    memcpy(out, &len, 4);
    memcpy(out + 4 + len, mid, low);
    memcpy(out + 4 + len + low, mid + n - tail, tail);
    return (ptrdiff_t)(4 + len + low + tail);
}

static int rans_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    uint8_t *turned = c->ws, *mid = turned + SHUFFLED;
    const uint8_t *in = src;
    size_t values = dst_len / c->width, low = values * (c->width - 1), tail = dst_len - values * c->width;
    unsigned len, got = (unsigned)values;

    memcpy(&len, in, 4);
    if (n != 4 + len + low + tail ||
        rans_uncompress_to_4x16((unsigned char *)(uintptr_t)(in + 4), len, mid + low, &got) == NULL || got != values)
        return -1;
    memcpy(mid, in + 4 + len, low);
    memcpy(mid + dst_len - tail, in + 4 + len + low, tail);
    unshuffle(turned, mid, dst_len, c->width);
    turn(dst, turned, dst_len, c->width, c->width * 8 - 1);
    return 0;
}

static const struct bench_rival rans = {.name = "peer:split+htscodecs", .ws_bytes = 2 * (size_t)SHUFFLED, .bound = rans_bound,
                                        .encode = rans_encode, .decode = rans_decode};
#endif

static const struct bench_rival *const peers[] = {
#ifdef GW_HAVE_LZ4
    &lz4,
#endif
#ifdef GW_HAVE_ZSTD
    &zstd, &planes,
#endif
#ifdef GW_HAVE_BLOSC
    &blosc_fast, &blosc_small,
#endif
#ifdef GW_HAVE_HTSCODECS
    &rans,
#endif
    NULL,
};

const struct bench_rival *bench_peer_at(size_t i)
{
    return i < sizeof(peers) / sizeof(*peers) ? peers[i] : NULL;
}
