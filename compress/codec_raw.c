/* codec_raw.c - the codec that codes nothing: its place in the registry gives "raw" a name and an
 * id. */
#include <string.h>

#include <gradwire/frame.h>

#include "codecs.h"

static size_t bound(size_t src_len, const struct gw_coding *c)
{
    (void)c;
    return src_len;
}

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                     size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws)
{
    (void)c, (void)src, (void)src_len, (void)dst, (void)dst_cap, (void)dst_len, (void)count_p,
        (void)ws;
    return GW_RAW;
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    (void)ws;
    if (f->wire_bytes != dst_len || f->view != 0 || f->count != 0 || f->param != 0)
        return GW_E_CORRUPT;
    if (dst_len > 0)
        memcpy(dst, src, dst_len);
    return GW_OK;
}

const struct gw_codec gw_codec_raw = {
    .id = GW_CODEC_RAW,
    .name = "raw",
    .traits = GW_TRAIT_STORED,
    .ws_bytes = 0,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
