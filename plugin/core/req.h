/* req.h - one outstanding message, and the one door through which its state moves.
 *
 *            isend/irecv         offer is here        counters meet
 *     FREE ---------------> WAIT ------------> MOVE -----------------> DONE
 *      ^                      |                  |                       |
 *      |                      '----> FAIL <------'                       |
 *      '------------------------ gw_test says so ------------------------'
 *
 *  send:  front (next to code) .. back (first already raw); finished when front = back and all that was posted is sent
 *  recv:  raw bytes landed + bytes decoded = total, for each buffer */
#ifndef GW_CORE_REQ_H
#define GW_CORE_REQ_H

#include <stdint.h>

#include <advert.h>
#include <base/list.h>
#include <gradwire/gradwire.h>

enum gw_req_state { GW_REQ_FREE = 0, GW_REQ_WAIT, GW_REQ_MOVE, GW_REQ_DONE, GW_REQ_FAIL, GW_REQ_STATES };

enum { GW_SENDS_MAX = 256, GW_RECVS_MAX = GW_SLOTS };

struct gw_send {
    struct gw_head head;      /* number, buffer */
    struct gw_offer_buf to;   /* where it may land */
    const uint8_t *data;
    uint32_t size;
    struct gw_mem *mem;
    uint8_t whole;            /* goes as one put */
    uint8_t lines;            /* flags in the bytes: in order, by eager copy */
    uint8_t view;
    uint32_t chunks, front, back;
    uint32_t coded, unsent;   /* chunks that went as frames; puts and ends whose SENT has not come */
    uint32_t cells;           /* chunks with a worker or waiting to be posted */
    uint32_t raw[GW_PATHS_MAX];
    uint8_t ends, ends_left;  /* end records of this message; a bit for each path whose record is still to be posted */
    uint8_t cut;              /* ends are counted */
    uint64_t mark_puts, mark_bytes; /* what the peer's totals must reach */
    uint64_t hash;
};

struct gw_recv_buf {
    uint8_t *data;
    uint32_t cap, tag;
    struct gw_mem *mem;
    uint32_t raw, decoded, coded, total; /* total counts once ends_come > 0 */
    uint8_t ends, ends_come, whole, done;
    uint64_t hash;
};

struct gw_recv {
    uint32_t number;
    uint8_t n, unsaid;        /* unsaid: the offer has not been taken by the lane yet */
    uint8_t hint, pieces;
    uint32_t jobs;            /* decodes that run */
    uint64_t mark_puts;       /* landed total that must have been told before test may say done */
    struct gw_recv_buf buf[GW_BUFFERS_MAX];
};

struct gw_req {
    struct gw_list link; /* sends: in posting order while they move; receives likewise */
    struct gw_comm *comm;
    uint16_t index;
    uint8_t state, is_send;
    gw_err err;
    union {
        struct gw_send s;
        struct gw_recv r;
    };
};

extern const char *const gw_req_state_name[GW_REQ_STATES];

/* Asserts that the step is a legal one. */
void gw_req_to(struct gw_req *req, enum gw_req_state next);
#endif
