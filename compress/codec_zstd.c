/* codec_zstd.c - lossless, optional: blocks that are zstd frames of level 1, without a checksum of their own.
 *
 * Only decoding is promised: another release of the library may write other bytes for the same input. */
#ifdef GW_HAVE_ZSTD
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "codecs.h"
#include "library.h"

/* What a context for one block needs: some 540 KiB to encode and 94 to decode in release 1.5; tests look that it is enough. */
enum { LEVEL = 1, CONTEXT = 1 << 20 };

static size_t block_encode(const void *src, size_t n, void *dst, size_t cap, void *ws)
{
    ZSTD_CCtx *ctx = ZSTD_initStaticCCtx(ws, CONTEXT);
    if (ctx == NULL || ZSTD_isError(ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, LEVEL)))
        return 0;
    size_t len = ZSTD_compress2(ctx, dst, cap, src, n);
    return ZSTD_isError(len) ? 0 : len;
}

/* One frame and nothing beside it: the library itself would take several, and those that say nothing. */
static int block_decode(const void *src, size_t len, void *dst, size_t n, void *ws)
{
    ZSTD_DCtx *ctx = ZSTD_initStaticDCtx(ws, CONTEXT);
    if (ctx == NULL || ZSTD_isSkippableFrame(src, len) || ZSTD_findFrameCompressedSize(src, len) != len)
        return 0;
    return ZSTD_decompressDCtx(ctx, dst, n, src, len) == n;
}

static const struct gw_library lib = {.encode = block_encode, .decode = block_decode};

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap, size_t *dst_len,
                     uint32_t *count_p, void *ws)
{
    return gw_library_encode(&lib, c, src, src_len, dst, dst_cap, dst_len, count_p, ws);
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    return gw_library_decode(&lib, f, src, dst, dst_len, ws);
}

const struct gw_codec gw_codec_zstd = {
    .id = GW_CODEC_ZSTD,
    .name = "zstd",
    .ws_bytes = GW_LIBRARY_WS(CONTEXT),
    .bound = gw_library_bound,
    .encode = encode,
    .decode = decode,
};
#endif
typedef int gw_zstd_or_nothing; /* a file may not be empty */
