/* ucx_addr.h - a UCP worker's address on its way through the hello.  Pure, and without a word of UCX's own headers. */
#ifndef GW_TRANSPORT_UCX_ADDR_H
#define GW_TRANSPORT_UCX_ADDR_H

#include "lane.h"

enum { GW_UCX_DEPTH_MAX = 4096 }; /* puts outstanding */

/* What a blob says.  The address points into the blob. */
struct gw_ucx_addr {
    uint32_t depth;
    uint32_t len;
    char transport[16], segment[16];
    const uint8_t *address;
};

/* GW_E_LIMIT: longer than a blob. */
gw_err gw_ucx_addr_write(struct gw_blob *out, const struct gw_ucx_addr *a);
/* Pure, hostile bytes: GW_E_PROTO. */
gw_err gw_ucx_addr_read(const struct gw_blob *in, struct gw_ucx_addr *a);
#endif
