/* bench_rival.c - what is measured: every codec of the registry, and memcpy as the measure of all. */
#include <string.h>

#include <gradwire/frame.h>

#include "bench.h"

/* ---- ours ---- */

/* A lossless frame that is not smaller is not sent; a lossy one has the size it has. */
static size_t codec_bound(const struct bench_call *c, size_t n)
{
    const struct gw_codec *codec = c->rival->codec;
    size_t most = GW_FRAME_BYTES + codec->bound(n, &c->coding);

    return codec->traits & GW_TRAIT_LOSSY || most < n ? most : n;
}

static ptrdiff_t codec_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    size_t len = 0, bound = codec_bound(c, n);
    gw_err err = gw_frame_encode(c->rival->codec, &c->coding, 0, src, n, dst, bound < cap ? bound : cap, &len, c->ws);

    return err == GW_OK ? (ptrdiff_t)len : err == GW_RAW ? 0 : -1;
}

static int codec_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    return gw_frame_decode(src, n, dst, dst_len, c->ws) == GW_OK ? 0 : -1;
}

/* ---- memcpy ---- */

static size_t copy_bound(const struct bench_call *c, size_t n)
{
    (void)c;
    return n;
}

static ptrdiff_t copy_encode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap)
{
    (void)c, (void)cap;
    memcpy(dst, src, n);
    return (ptrdiff_t)n;
}

static int copy_decode(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len)
{
    (void)c, (void)dst_len;
    memcpy(dst, src, n);
    return 0;
}

static const struct bench_rival copy = {
    .name = "memcpy", .bound = copy_bound, .encode = copy_encode, .decode = copy_decode};

/* ---- all ---- */

static struct bench_rival all[BENCH_RIVALS_MAX];

static size_t fill(void)
{
    const struct gw_codec *codec;
    const struct bench_rival *peer;
    size_t n = 0;

    for (size_t i = 0; (codec = gw_codec_at(i)) != NULL && n < BENCH_RIVALS_MAX / 2; i++)
        if (!(codec->traits & GW_TRAIT_STORED))
            all[n++] = (struct bench_rival){.name = codec->name, .codec = codec, .bound = codec_bound,
                                            .ws_bytes = gw_codec_ws_max(), .encode = codec_encode, .decode = codec_decode};
    all[n++] = copy;
    for (size_t i = 0; (peer = bench_peer_at(i)) != NULL && n < BENCH_RIVALS_MAX; i++)
        all[n++] = *peer;
    return n;
}

/* Filled at the first call, before there is a second thread. */
const struct bench_rival *bench_rival_at(size_t i)
{
    static size_t count;

    if (count == 0)
        count = fill();
    return i < count ? &all[i] : NULL;
}

bool bench_rival_lossy(const struct bench_rival *r)
{
    return r->codec != NULL && (r->codec->traits & GW_TRAIT_LOSSY);
}
