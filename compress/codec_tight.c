/* codec_tight.c - lossless: exponents in 2 bits where they lie in a window of three, for links slower than `group` is made for.
 * Groups for which that is no gain are as in `group`, and so are all of views without a window of three. */
#include "codecs.h"
#include "group.h"
#include "view.h"

static size_t encode_tile(const struct gw_kern *kern, unsigned *view_p, const uint8_t *src, size_t n, uint8_t *out,
                          uint32_t *count_p, void *ws)
{
    return gw_tile_encode(kern, kern->tight, gw_tile_view(kern, view_p, src, n, count_p), src, n, out, ws);
}

static gw_err decode_tile(const struct gw_kern *kern, unsigned view, const uint8_t *in, size_t len, uint8_t *dst,
                          size_t n, size_t *used_p, uint32_t *count_p, void *ws)
{
    *count_p = (uint32_t)gw_tile_groups((enum gw_view)view, n);
    return gw_tile_decode(kern, kern->tight, (enum gw_view)view, in, len, dst, n, used_p, ws);
}

static const struct gw_tiles tiles = {
    .views = GW_VIEW_COUNT, .pays = gw_view_pays, .encode = encode_tile, .decode = decode_tile};

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                     size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws)
{
    return gw_tiles_encode(&tiles, c, src, src_len, dst, dst_cap, dst_len, count_p, ws);
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    return gw_tiles_decode(&tiles, f, src, dst, dst_len, ws);
}

const struct gw_codec gw_codec_tight = {
    .id = GW_CODEC_TIGHT,
    .name = "tight",
    .traits = 0,
    .ws_bytes = sizeof(struct gw_group_ws),
    .bound = gw_tiles_bound,
    .encode = encode,
    .decode = decode,
};
