/* codec_lz4.c - lossless, optional: blocks in the LZ4 block format.  For bytes that repeat; dense gradients stay raw.
 *
 * Only decoding is promised: another release of the library may write other bytes for the same input. */
#ifdef GW_HAVE_LZ4
#include <lz4.h>

#include "codecs.h"
#include "library.h"

enum { STATE = 16416 + 64 };

static size_t block_encode(const void *src, size_t n, void *dst, size_t cap, void *ws)
{
    if (LZ4_sizeofState() > STATE)
        return 0;
    int len = LZ4_compress_fast_extState(ws, src, dst, (int)n, (int)cap, 1);
    return len > 0 ? (size_t)len : 0;
}

static int block_decode(const void *src, size_t len, void *dst, size_t n, void *ws)
{
    (void)ws;
    return LZ4_decompress_safe(src, dst, (int)len, (int)n) == (int)n;
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

const struct gw_codec gw_codec_lz4 = {
    .id = GW_CODEC_LZ4,
    .name = "lz4",
    .ws_bytes = GW_LIBRARY_WS(STATE),
    .bound = gw_library_bound,
    .encode = encode,
    .decode = decode,
};
#endif
typedef int gw_lz4_or_nothing; /* a file may not be empty */
