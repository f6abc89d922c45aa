/* verbs_blob.h - bytes of the verbs lane alone: what an end tells the other through the hello, and the line that a grant stands in.
 * Pure. */
#ifndef GW_TRANSPORT_VERBS_BLOB_H
#define GW_TRANSPORT_VERBS_BLOB_H

#include "advert.h"
#include "lane.h"

struct gw_verbs_blob {
    char device[32]; /* for error lines */
    uint8_t port, is_ib, paths, mtu, gid_index;
    uint16_t lid;
    uint8_t gid[16];
    uint32_t qpn[GW_PATHS_MAX], psn[GW_PATHS_MAX];
    uint64_t inbox; /* what the peer may write beside user memory: offer lines, or end cells */
    uint32_t inbox_bytes, inbox_key;
};

void gw_verbs_blob_write(struct gw_blob *out, const struct gw_verbs_blob *b);
/* Hostile bytes: GW_E_PROTO on anything that the writer would not have written. */
gw_err gw_verbs_blob_read(const struct gw_blob *in, struct gw_verbs_blob *b);

/* A grant message in a line with the slot's running count. */
void gw_verbs_grant_write(uint8_t line[GW_LINE], const uint8_t msg[GW_GRANT_BYTES], uint32_t count);
/* The line may be half written, or hostile: GW_AGAIN, and nothing stands in msg.  The caller has copied it out. */
gw_err gw_verbs_grant_read(const uint8_t line[GW_LINE], uint8_t msg[GW_GRANT_BYTES], uint32_t *count_p);
#endif
