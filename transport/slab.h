/* slab.h - staging memory of a device, lent by the piece.
 *
 * Half of the pieces may be lent to peers (they stand in offers), the other half serves our own encoders: were all of it
 * lent, traffic both ways would never be coded again.  Taking and giving back is one compare-and-swap; a peer's piece that is
 * not there means that the chunk goes raw. */
#ifndef GW_TRANSPORT_SLAB_H
#define GW_TRANSPORT_SLAB_H

#include "lane.h"

enum gw_slab_half { GW_SLAB_PEER = 0, GW_SLAB_OWN = 1 };

/* A lent piece.  base: room for the put head, then (64-byte aligned) for the frame. */
struct gw_piece {
    uint8_t *base;
    uint32_t index;
    uint8_t half;
};

struct gw_slab;

/* bytes of staging in pieces that hold a head and chunk_bytes.  At least one piece in each half, or GW_E_ARG.  Registered
 * with the device, writable by peers. */
gw_err gw_slab_new(const struct gw_lane_ops *ops, void *dev, uint64_t bytes, uint32_t chunk_bytes, struct gw_slab **slab_p);
void gw_slab_free(struct gw_slab *slab);

gw_err gw_slab_lend(struct gw_slab *slab, enum gw_slab_half half, struct gw_piece *piece_p); /* GW_AGAIN: none left */
void gw_slab_back(struct gw_slab *slab, const struct gw_piece *piece);
uint32_t gw_slab_left(const struct gw_slab *slab, enum gw_slab_half half);
uint32_t gw_slab_total(const struct gw_slab *slab, enum gw_slab_half half);
/* room of a piece from its base, head included */
uint32_t gw_slab_piece_bytes(const struct gw_slab *slab);
const struct gw_region *gw_slab_region(const struct gw_slab *slab);
#endif
