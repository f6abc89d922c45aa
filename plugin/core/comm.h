/* comm.h - a one-way connection: its tables, and what the files of this folder ask of each other.
 *
 * The host's thread owns a comm: all changes happen inside isend, irecv and test.  `broken` and `inside` alone are shared
 * with other threads: whoever takes a comm away from its thread (dereg, close, the watcher) sets broken first and then waits
 * until nobody is inside. */
#ifndef GW_CORE_COMM_H
#define GW_CORE_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include <base/clock.h>
#include <base/phase.h>
#include <control.h>
#include <lane.h>
#include <slab.h>

#include "policy.h"
#include "req.h"
#include "work.h"

enum { GW_CELLS = 64, GW_NAME_MAX = 96, GW_POLL_BATCH = 32 };

/* Registered user memory.  ordinal: of the registrations on its comm; live: offers that stand on it. */
struct gw_mem {
    struct gw_list link;
    struct gw_comm *comm;
    struct gw_region region;
    uint32_t ordinal;
    _Atomic uint32_t live;
};

/* An offer as the sender keeps it.  granted - used of a piece: how often it may still be filled. */
struct gw_advert {
    struct gw_offer offer;
    uint8_t open;
    uint8_t unmatched; /* bit per buffer */
    uint8_t unposted;  /* sends that took a buffer of it and have something left to post: they read it until then */
    uint32_t granted[GW_PIECES_MAX], used[GW_PIECES_MAX];
};

/* A chunk between the user's bytes and the wire. Sender: one that is coded or on its way; receiver: one that is decoded. */
struct gw_cell {
    struct gw_job job;
    struct gw_piece piece;
    struct gw_req *req;
    uint32_t chunk;     /* sender: which */
    uint32_t offset, length;
    uint8_t peer_piece, buffer;
    uint8_t state;      /* enum gw_cell_state */
    uint32_t granted;   /* receiver: how often this piece was granted */
    uint8_t ungranted;  /* receiver: free again, and the peer has not been told */
};

enum gw_cell_state { GW_CELL_FREE = 0, GW_CELL_WORK /* a worker has it */, GW_CELL_READY, GW_CELL_POSTED };

/* What a comm is made of; all of it outlives the comm, except lane and control, which it takes. */
struct gw_comm_parts {
    const struct gw_env *env;
    const struct gw_logger *log;
    struct gw_lane *lane;
    void *lane_dev;
    struct gw_slab *slab;            /* NULL: nothing is coded, nothing lent */
    const struct gw_codec *codec;    /* NULL: raw */
    struct gw_agreed agreed;
    enum gw_policy_mode mode;
    uint64_t window_fixed;
    uint64_t stall_warn_ns;          /* 0: never */
    _Atomic uint32_t *hint_simple;   /* of the ctx; NULL: no hints */
    _Atomic uint32_t *said;          /* of the ctx: its root cause was printed; NULL: every comm prints its own */
    int is_send;
    int abort_on_error;              /* end the process after the line: some hosts lose what we answer */
    char local[GW_NAME_MAX], peer[GW_NAME_MAX]; /* "host pid 12 eth0" */
    /* says fail or bye to the peer, reads the control socket; the simulator has its own */
    void (*tell_fail)(void *arg, const struct gw_fail *f);
    void (*tell_bye)(void *arg, const struct gw_bye *b);
    void (*listen_now)(void *arg);
    void (*broke)(void *arg, const struct gw_fail *f); /* root cause: tell the siblings */
    void *arg;
};

struct gw_comm {
    struct gw_list link; /* in ctx */
    struct gw_comm_parts is;
    struct gw_watched watched;
    struct gw_control *control;
    struct gw_ctx *ctx;

    _Atomic uint32_t broken; /* a gw_err, negated; 0: fine */
    _Atomic uint32_t inside;
    _Atomic uint32_t torn;   /* the lane is down */
    gw_err cause;
    uint64_t lane_failed_ns; /* the lane said so, and nobody has said why yet; 0: no */
    gw_err lane_err;
    uint64_t peer_left_ns;   /* when its bye was seen; 0: it was not */
    uint8_t unmet_said;      /* the line that the lane has not met its peer */
    uint8_t lane_shut;       /* by the comm's own thread, after a bye: nobody asks the lane for anything any more */

    pthread_mutex_t mem_lock; /* guards mems: service thread registers while the host's thread sends */
    struct gw_list mems;
    _Atomic uint32_t mem_count;
    uint32_t regions;  /* registrations there were at the first message; 0: no message yet */

    struct gw_req send[GW_SENDS_MAX];
    struct gw_req recv[GW_RECVS_MAX];
    struct gw_list moving;   /* in posting order */
    uint32_t outstanding;
    uint64_t worked;         /* counts what progress did, to tell an empty poll */

    /* sender */
    struct gw_advert advert[GW_SLOTS];
    uint32_t next;           /* oldest number with an unmatched buffer */
    struct gw_policy policy;
    uint64_t untaken;        /* bytes of moving messages that nobody has taken */
    uint64_t posted_puts, landed_puts; /* the bytes stand in policy */
    uint32_t coding, ready;  /* cells that a worker has, cells that wait for the lane */
    struct gw_cell cell[GW_CELLS];

    /* receiver */
    struct gw_place_table *places;
    struct gw_cell *lent;    /* GW_SLOTS x GW_PIECES_MAX */
    uint32_t number;         /* of the next irecv */
    uint64_t landed_bytes, landed_total_puts, told_bytes, told_puts;
    uint32_t decoding;
    uint8_t tell;            /* a message has finished since landed was last told */
    uint8_t small;           /* ... and had less than a chunk: what there is to say can wait */
    uint8_t patient;         /* ... because the peer has offers enough */
    uint8_t quiet;           /* calls in turn to which the lane had nothing, since something was said */

    void *scratch;           /* of an inline job */
};

/* ---- comm.c: life ---- */
gw_err gw_comm_new(const struct gw_comm_parts *parts, struct gw_comm **comm_p);
/* Receiver: the place table to give to the lane before join. */
gw_err gw_places_new(const struct gw_slab *slab, uint8_t paths, struct gw_place_table **table_p);
/* The root cause, once: a line, a fail to the peer, word to the siblings.  Later ones are counted. */
void gw_comm_fail(struct gw_comm *comm, gw_err err, uint32_t number, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The lane said that it is dead, in an event or in an answer. */
void gw_comm_lane_failed(struct gw_comm *comm, gw_err err);
/* The control connection lives, and the lane's own has not come about for so long: says so once. */
void gw_comm_unmet(struct gw_comm *comm);
/* Looks at the watcher's signs; may end requests or the comm. */
void gw_comm_signs(struct gw_comm *comm);
/* Takes the comm from its host's thread: waits until nobody is inside, and nobody will be.  0: it was taken before. */
int gw_comm_take(struct gw_comm *comm);
/* By the taker: no worker, no peer and no lane touches any memory of this comm afterwards. */
void gw_comm_down(struct gw_comm *comm);
int gw_comm_enter(struct gw_comm *comm); /* 0: torn */
void gw_comm_leave(struct gw_comm *comm);
void gw_comm_free(struct gw_comm *comm);

/* ---- move.c, send.c, recv.c: the main path ---- */
void gw_progress(struct gw_comm *comm);
void gw_send_progress(struct gw_comm *comm);
void gw_send_event(struct gw_comm *comm, const struct gw_event *ev);
enum { GW_AHEAD = 2 }; /* with so many offers the peer waits for none */
int gw_recv_may_speak(struct gw_comm *comm);
void gw_recv_speak(struct gw_comm *comm); /* offers and landed that were not said yet */
void gw_recv_progress(struct gw_comm *comm);
void gw_recv_event(struct gw_comm *comm, const struct gw_event *ev);
void gw_req_end(struct gw_req *req, gw_err err); /* WAIT or MOVE -> DONE or FAIL */
void gw_req_release(struct gw_req *req);         /* DONE or FAIL -> FREE */

/* ---- chunk.c: cutting, coding ---- */
void gw_chunk_plan(struct gw_comm *comm, struct gw_req *req);
uint32_t gw_chunk_offset(const struct gw_comm *comm, uint32_t chunk);
uint32_t gw_chunk_length(const struct gw_comm *comm, const struct gw_req *req, uint32_t chunk);
void gw_chunk_code(struct gw_comm *comm);    /* gives workers what Cover allows */
void gw_chunk_results(struct gw_comm *comm); /* takes what they have done */
void gw_chunk_look(struct gw_comm *comm);    /* a job is back: had the thread that takes it a core all the time? */

/* ---- flags.c: may these bytes be coded at all ---- */
int gw_bytes_show_flags(const void *data, uint32_t size);
int gw_mem_may_be_simple(const struct gw_comm *comm, const struct gw_mem *mem);

static inline uint64_t gw_comm_now(const struct gw_comm *comm)
{
    return comm->is.env->now_ns(comm->is.env->arg);
}
#endif
