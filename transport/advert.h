/* advert.h - what the two ends of a comm say through the lane: offer, grant, landed, end.  Pure: bytes in, values out.
 * Drawn byte by byte in WIRE.md. */
#ifndef GW_TRANSPORT_ADVERT_H
#define GW_TRANSPORT_ADVERT_H

#include <stdint.h>

#include "lane.h"

enum gw_msg_kind { GW_MSG_OFFER = 1, GW_MSG_GRANT = 2, GW_MSG_LANDED = 3 };
enum gw_hint {
    GW_HINT_SIMPLE_OK = 1, /* the receiver does not object to coding */
    GW_HINT_CROWDED = 2,   /* its threads wait for cores: coding may cost more than the link gains */
    GW_HINTS_KNOWN = 3
};
enum { GW_LINE = 64, GW_OFFER_LINES_MAX = 1 + GW_BUFFERS_MAX / 2, GW_OFFER_MAX = GW_LINE * GW_OFFER_LINES_MAX };
enum { GW_GRANT_BYTES = 24, GW_LANDED_BYTES = 24 };

struct gw_offer_buf {
    uint64_t addr;
    uint32_t cap, tag;
    uint32_t key[GW_KEYS_MAX];
};

/* "Message `number` may land here."  Line 0 names the pieces, each further line two buffers; each line ends with the
 * number, so that a torn one shows; the last line carries a checksum over all. */
struct gw_offer {
    uint32_t number;
    uint8_t buffers, pieces, hint;
    uint32_t piece_bytes; /* room of each piece, head included */
    uint64_t piece_addr[GW_PIECES_MAX];
    uint32_t piece_key[GW_KEYS_MAX];
    struct gw_offer_buf buf[GW_BUFFERS_MAX];
};

struct gw_grant {
    uint32_t number;
    uint32_t count[GW_PIECES_MAX]; /* how often each piece was granted in all, the offer included */
};

struct gw_landed {
    uint64_t bytes, puts;   /* running totals since the comm began; puts counts end records too */
    uint32_t decode_ns_kib; /* nanoseconds to decode a KiB; 0: nothing was decoded yet */
};

struct gw_end {
    uint32_t number;
    uint8_t buffer, ends, path, flags;
    uint32_t total, raw, coded; /* message bytes; raw bytes on this path; coded chunks of the message */
    uint64_t hash;              /* XXH3-64 of the user's bytes, 0 unless checking */
};

uint32_t gw_offer_bytes(uint32_t buffers);
uint32_t gw_offer_write(uint8_t out[GW_OFFER_MAX], const struct gw_offer *o); /* bytes written */
void gw_grant_write(uint8_t out[GW_GRANT_BYTES], const struct gw_grant *g);
void gw_landed_write(uint8_t out[GW_LANDED_BYTES], const struct gw_landed *l);
void gw_end_write(uint8_t out[GW_END_BYTES], const struct gw_end *e);

/* Readers: hostile bytes, GW_E_PROTO on anything that the writer would not have written: one meaning, one spelling. */
/* The message that stands first of those in `in`, by its kind and length alone. */
gw_err gw_msg_next(const uint8_t *in, uint32_t len, enum gw_msg_kind *kind_p, uint32_t *len_p);
gw_err gw_offer_read(const uint8_t *in, uint32_t len, struct gw_offer *o);
gw_err gw_grant_read(const uint8_t *in, uint32_t len, struct gw_grant *g);
gw_err gw_landed_read(const uint8_t *in, uint32_t len, struct gw_landed *l);
gw_err gw_end_read(const uint8_t *in, uint32_t len, struct gw_end *e);
#endif
