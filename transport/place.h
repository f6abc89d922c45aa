/* place.h - where arriving bytes may land: the receiver's open offers, and the one pure function that answers.
 *
 * The core fills a gw_place_table as it posts receives; a lane asks gw_place_take before a byte that came as a message is
 * stored.  A lane whose peer writes memory directly (verbs) cannot ask: there the registration is the fence, and a peer may
 * change a frame while it is decoded.  Decoders read each length once and are safe on that. */
#ifndef GW_TRANSPORT_PLACE_H
#define GW_TRANSPORT_PLACE_H

#include <stdint.h>

#include <gradwire/error.h>

enum {
    GW_SLOTS = 32,       /* receives of a comm that may be open at once */
    GW_BUFFERS_MAX = 8,  /* buffers of one grouped receive */
    GW_PIECES_MAX = 4,   /* staging pieces lent with one offer */
    GW_PATHS_MAX = 4,    /* paths (queue pairs) of one lane */
    GW_HEAD_BYTES = 16,  /* the put head */
    GW_END_BYTES = 32,   /* the end record */
    GW_MSG_MAX = 384,    /* largest control message */
    GW_MESSAGE_MAX = 1 << 30
};

/* What a put carries. */
enum gw_put_kind { GW_PUT_RAW = 0, GW_PUT_WHOLE = 1, GW_PUT_CODED = 2, GW_PUT_END = 3 };

/* The put head: it stands before the frame in a piece, and is the active-message header of every put on UCX.
 *
 *  0        4        5      6       7     8        12       16
 *  +--------+--------+------+-------+-----+--------+--------+
 *  | number | buffer | kind | piece | 0   | offset | length |   little-endian
 *  +--------+--------+------+-------+-----+--------+--------+
 * offset and length are in the user's buffer, before coding; for END, piece is the path and both are 0. */
struct gw_head {
    uint32_t number;
    uint8_t buffer, kind, piece;
    uint32_t offset, length;
};

void gw_head_write(uint8_t out[GW_HEAD_BYTES], const struct gw_head *h);
/* Pure, hostile bytes: GW_E_PROTO for an unknown kind, an index out of range or a nonzero spare byte. */
gw_err gw_head_read(const uint8_t *in, uint32_t len, struct gw_head *h);

/* The immediate: number 16 | buffer 3 | piece 3 | kind 2 (whole, coded, end) | 8 zero. */
uint32_t gw_imm_write(const struct gw_head *h);
gw_err gw_imm_read(uint32_t imm, struct gw_head *h); /* sets the low 16 bits of number only */

struct gw_place_slot {
    uint32_t number;
    uint8_t open;                      /* 0: nothing may land for this slot */
    uint8_t buffers, pieces;
    uint8_t taken;                     /* a bit for each piece that a put was let into since it was granted */
    uint8_t *buf[GW_BUFFERS_MAX];
    uint32_t cap[GW_BUFFERS_MAX];
    uint8_t *piece[GW_PIECES_MAX];     /* head, then frame */
    uint8_t end[GW_BUFFERS_MAX][GW_PATHS_MAX][GW_END_BYTES]; /* cells that end records land in */
};

struct gw_place_table {
    uint32_t piece_bytes;              /* room of every piece, head included */
    uint8_t paths;
    struct gw_place_slot slot[GW_SLOTS];
};

/* Where do the payload_len bytes behind this head go?  Checks everything against the open offer: raw and whole inside the
 * buffer, coded inside its piece (dst is behind the head's place; the head itself is stored by gw_place_head), end into its
 * cell.  GW_E_PROTO: nothing may be stored. */
gw_err gw_place_find(const struct gw_place_table *t, const struct gw_head *h, uint64_t payload_len, uint8_t **dst_p);
/* The same, once for each put, before its first byte is stored: a piece takes one put, and then none until the core has
 * granted it again.  So no second one changes a frame while a worker decodes it. */
gw_err gw_place_take(struct gw_place_table *t, const struct gw_head *h, uint64_t payload_len, uint8_t **dst_p);

/* LL and LL128 lines: stores n bytes (any alignment; whole 8-byte words ascending, a line's flag last), so that a reader
 * polling flags on another thread never sees a flag before its data.  memcpy does not promise that. */
void gw_place_lines(void *dst, const void *src, uint64_t n);
#endif
