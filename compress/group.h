/* group.h - one tile of groups of 256 values, as the codecs group and tight write it.  The bytes are drawn in FORMAT.md;
 * tiles.c puts tiles into a payload. */
#ifndef GW_COMPRESS_GROUP_H
#define GW_COMPRESS_GROUP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gradwire/codec.h>

#include "kern.h"
#include "holes.h"
#include "tight.h"
#include "tiles.h"

/* The scratch of a call; `tile` is what tiles.h wants first.  Escapes are gathered apart because they stand last in their
 * tile; `group` is a short group made full, `values` and `body` are a sparse group's values and their window. */
struct gw_group_ws {
    uint8_t tile[GW_TILE_ROOM];
    uint8_t esc[GW_TILE_GROUPS * GW_CODES_BYTES + GW_GROUP_VALUES];
    uint8_t list[2 * GW_TILE_GROUPS];
    uint8_t group[GW_GROUP_BYTES_MAX];
    uint8_t values[GW_GROUP_BYTES_MAX + GW_SPARSE_SLACK];
    uint8_t body[GW_GROUP_BYTES_MAX];
};

/* Groups of a tile of n bytes; the last one may be short. */
static inline size_t gw_tile_groups(enum gw_view view, size_t n)
{
    return (n / gw_view_shapes[view].width + GW_GROUP_VALUES - 1) / GW_GROUP_VALUES;
}

/* What a raw group of so many values takes. */
static inline size_t gw_raw_bytes(enum gw_view view, size_t values)
{
    return values * gw_view_shapes[view].raw / GW_GROUP_VALUES;
}

/* A raw group as it stands, except that f32-that-holds-bf16 leaves out the low halves, which are zero. */
static inline void gw_raw_write(enum gw_view view, const uint8_t *src, size_t values, uint8_t *body)
{
    if (view != GW_VIEW_F32_BF16) {
        memcpy(body, src, values * gw_view_shapes[view].width);
        return;
    }
    for (size_t i = 0; i < values; i++)
        memcpy(body + 2 * i, src + 4 * i + 2, 2);
}

static inline void gw_raw_read(enum gw_view view, const uint8_t *body, size_t values, uint8_t *dst)
{
    if (view != GW_VIEW_F32_BF16) {
        memcpy(dst, body, values * gw_view_shapes[view].width);
        return;
    }
    for (size_t i = 0; i < values; i++) {
        memset(dst + 4 * i, 0, 2);
        memcpy(dst + 4 * i + 2, body + 2 * i, 2);
    }
}

/* The view that a tile gets when the call's is *view_p: f32-that-holds-bf16 may be f32 after all. */
static inline enum gw_view gw_tile_view(const struct gw_kern *kern, unsigned *view_p, const uint8_t *src, size_t n,
                                        uint32_t *count_p)
{
    if (*view_p == GW_VIEW_F32_BF16 && !kern->low_zero(src, n))
        *view_p = GW_VIEW_F32;
    *count_p = (uint32_t)gw_tile_groups((enum gw_view)*view_p, n);
    return (enum gw_view)*view_p;
}

/* Codes the n bytes (1..GW_TILE_BYTES) at src into out, which has GW_TILE_ROOM bytes, and answers
 * the length.  tight: NULL for tiles of the codec group. */
size_t gw_tile_encode(const struct gw_kern *kern, const struct gw_kern_tight *tight, enum gw_view view,
                      const uint8_t *src, size_t n, uint8_t *out, struct gw_group_ws *ws);

/* Decodes a tile from hostile bytes into exactly n.  *used_p: how many of the len bytes belonged to
 * it. */
gw_err gw_tile_decode(const struct gw_kern *kern, const struct gw_kern_tight *tight, enum gw_view view,
                      const uint8_t *in, size_t len, uint8_t *dst, size_t n, size_t *used_p,
                      struct gw_group_ws *ws);

/* ---- sparse groups: the window of `some` values, cut off behind them ---- */

/* Bytes of the body: the map, then the planes. */
size_t gw_sparse_bytes(enum gw_view view, unsigned some);
/* The first values of a window body, as kernels write it, to the planes of a sparse one. */
void gw_sparse_pack(enum gw_view view, unsigned some, const uint8_t *body, uint8_t *planes);
/* Back; codes behind the last value are 0, and what other planes hold there means nothing.  0 when a bit behind it is set. */
int gw_sparse_unpack(enum gw_view view, unsigned some, const uint8_t *planes, uint8_t *body);
#endif
