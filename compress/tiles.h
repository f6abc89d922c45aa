/* tiles.h - the payload of every codec that cuts a chunk into tiles of 16 KiB: the table, tiles of zeros, stored tiles,
 * padding.  The bytes are drawn in FORMAT.md; a codec says what one tile becomes. */
#ifndef GW_COMPRESS_TILES_H
#define GW_COMPRESS_TILES_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>
#include <gradwire/frame.h>

#include "kern.h"

enum {
    GW_TILE_UNIT = 16,                             /* lengths of the table count these */
    GW_TILE_ZERO = 0,                              /* the length of a tile of zeros */
    GW_TILE_STORED = GW_TILE_BYTES / GW_TILE_UNIT, /* the length of a tile that is not coded */
    GW_TILE_CODED_MAX = GW_TILE_BYTES - GW_TILE_UNIT,
    GW_TILE_LENGTH_BITS = 11,
    /* the longest that a codec may make of a tile before it is stored instead: every group raw, their headers, a tail */
    GW_TILE_ROOM = GW_TILE_BYTES + 2 * GW_TILE_GROUPS + GW_TILE_UNIT
};

struct gw_tiles {
    unsigned views; /* the table holds views below this */
    /* 0 when a sample says that these bytes would not shrink */
    int (*pays)(enum gw_view view, const void *src, size_t len);
    /* Codes the n bytes (1..GW_TILE_BYTES, not all zero) at src into out, which has GW_TILE_ROOM bytes, and answers the
     * length.  *view_p: the call's view; what is left there goes into the table.  *count_p: what the tile adds to the
     * frame's count, should it not be stored. */
    size_t (*encode)(const struct gw_kern *kern, unsigned *view_p, const uint8_t *src, size_t n, uint8_t *out,
                     uint32_t *count_p, void *ws);
    /* Decodes a tile from hostile bytes into exactly n.  *used_p: how many of the len bytes belonged to it. */
    gw_err (*decode)(const struct gw_kern *kern, unsigned view, const uint8_t *in, size_t len, uint8_t *dst, size_t n,
                     size_t *used_p, uint32_t *count_p, void *ws);
};

/* A codec's bound, encode and decode.  The first GW_TILE_ROOM bytes of ws are used here. */
size_t gw_tiles_bound(size_t src_len, const struct gw_coding *c);
gw_err gw_tiles_encode(const struct gw_tiles *t, const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                       size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws);
gw_err gw_tiles_decode(const struct gw_tiles *t, const struct gw_frame *f, const void *src, void *dst, size_t dst_len,
                       void *ws);
#endif
