/* lane.h - a connected mover of bytes to one peer: the backend table and its contract.
 *
 * The contract is the weakest of the backends.  `put` moves bytes to an offset of memory that the peer offered.  SENT frees
 * the source and says nothing of arrival.  Puts, messages and events come in any order, except as FENCED says.
 *
 * How the receiver learns of bytes is one of two, and the lane says which:
 *   GW_LANE_COUNTS  every put, plain ones too, raises LANDED when its bytes are visible;
 *   GW_LANE_FENCED  only a put with GW_PUTF_IMM raises LANDED, and then every earlier put of the same path is visible too.
 *
 * Rules for every slot of the table: it is filled; no call blocks; GW_AGAIN means nothing was taken; a lane that failed to
 * join can still be closed; poll alone reports, and never calls back; one thread at a time uses a lane (it may be another
 * one later); no call takes memory once join has answered GW_OK. */
#ifndef GW_TRANSPORT_LANE_H
#define GW_TRANSPORT_LANE_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/error.h>
#include <gradwire/log.h>

#include "place.h"

enum gw_lane_caps {
    GW_LANE_COUNTS = 1,
    GW_LANE_FENCED = 2,
    GW_LANE_SENT_IS_LANDED = 4, /* a send completion means landed: no `landed` messages are needed */
    GW_LANE_ORDERED = 8,        /* bytes are written in address order */
    GW_LANE_DIRECT = 16,        /* bytes land without any host thread: a receive may be reported early */
    GW_LANE_DMABUF = 32
};

enum { GW_BLOB_MAX = 1024, GW_KEYS_MAX = 2, GW_GID_CHOSEN = 256 };

struct gw_blob {
    uint32_t len;
    uint8_t bytes[GW_BLOB_MAX];
};

/* All that a module gets of its host.  No symbol is shared beyond this. */
struct gw_host {
    uint32_t size;
    const struct gw_logger *log;
    uint64_t (*now_ns)(void);
};

/* What a device is opened with.  Strings may be NULL: the lane's default. */
struct gw_lane_conf {
    uint32_t size;
    const char *ifname;    /* the interface that the device stands for, "eth0" */
    const char *transport; /* UCX: "tcp" (default), "posix", "sysv", ... */
    const char *peer_name; /* for error lines; may be NULL */
    uint16_t port_lo, port_hi; /* 0: any */
    uint32_t inline_max;   /* a wish */
    uint32_t queue_depth;  /* puts that may be outstanding; a put beyond answers GW_AGAIN */
    uint8_t paths;         /* wish; gw_lane.paths says what came of it */
    const char *hca;       /* verbs: the device, "mlx5_0" */
    uint8_t hca_port;
    uint8_t ib_timeout, ib_retry, ib_tc, ib_sl;
    uint16_t gid_index;    /* GW_GID_CHOSEN: the lane chooses */
};

/* Registered memory.  key[] is what travels in an offer (verbs: rkey of each device; others 0). */
struct gw_region {
    void *base;
    size_t bytes;
    uint32_t key[GW_KEYS_MAX];
    void *priv;
};

enum gw_put_flags {
    GW_PUTF_IMM = 1,   /* raises LANDED on a FENCED lane */
    GW_PUTF_LINES = 2, /* flags inside the bytes are polled: store ascending words, a line's flag last, never by rendezvous
                          into the place; src must be eaten front to back */
    GW_PUTF_SIGNAL = 4 /* a SENT event is wanted (a FENCED lane may leave others out; the core counts them by order) */
};

struct gw_put {
    struct gw_head head;            /* number, buffer, kind, piece, offset, length */
    uint32_t flags;
    uint8_t path;
    const uint8_t *src;             /* RAW, WHOLE: user bytes.  CODED: GW_HEAD_BYTES of room, then the frame.  END: record */
    uint32_t len;                   /* bytes at src that travel; for CODED without the GW_HEAD_BYTES */
    const struct gw_region *region; /* of src; may be NULL for END (copied) */
    uint64_t addr;                  /* the peer's address for a lane that writes memory: buffer + offset, piece, or cell */
    uint32_t key[GW_KEYS_MAX];
    uint64_t cookie;                /* comes back with SENT */
};

enum gw_event_kind {
    GW_EV_SENT = 1, /* cookie */
    GW_EV_LANDED,   /* head, len: payload bytes (CODED: frame bytes).  On a FENCED lane head.number has its low 16 bits only */
    GW_EV_MSG,      /* len bytes at msg, valid until the next poll of this lane */
    GW_EV_FAILED    /* err: the lane is dead; the last event it ever reports */
};

struct gw_event {
    uint8_t kind, path;
    gw_err err;
    uint32_t len;
    uint64_t cookie;
    struct gw_head head;
    const uint8_t *msg;
};

/* Every lane begins with this. */
struct gw_lane {
    const struct gw_lane_ops *ops;
    uint32_t caps;
    uint8_t paths;
    uint32_t max_put;               /* largest put; 0: GW_MESSAGE_MAX */
    uint64_t wire_tx, wire_rx;      /* bytes handed over and taken in, heads included; for the counters */
    struct gw_place_table *places;  /* the receiver sets it before join; NULL on a lane that only sends */
    uint64_t unmet_ns;              /* since when something waits to leave and nothing has passed either way yet; 0: all is well */
    char name[24];                  /* for people: "ucx/tcp", "loop" */
    char why[256];                  /* of a join that failed, or a lane that did: what is known of it, for the caller's one line */
};

struct gw_lane_ops {
    uint32_t size; /* sizeof(struct gw_lane_ops), for a backend built elsewhere */
    const char *name;

    /* Opens a device.  May take milliseconds and memory; called off the message path. */
    gw_err (*open)(const struct gw_host *host, const struct gw_lane_conf *conf, void **dev_p);
    void (*close_dev)(void *dev);

    /* A lane of that device, not joined yet; and what the peer must know to join it. */
    gw_err (*make)(void *dev, struct gw_lane **lane_p);
    gw_err (*local)(struct gw_lane *lane, struct gw_blob *blob);
    /* Called again until GW_OK.  The blob is hostile.  Bounded in time by the caller, who closes the lane when it is late. */
    gw_err (*join)(struct gw_lane *lane, const struct gw_blob *peer);

    /* Registers user memory for every lane of the device.  `remote`: the peer may write it.  Thread-safe. */
    gw_err (*reg)(void *dev, void *base, size_t bytes, int remote, struct gw_region *out);
    void (*dereg)(void *dev, struct gw_region *region);

    /* A control message of at most GW_MSG_MAX bytes; copied before the call returns. */
    gw_err (*msg)(struct gw_lane *lane, const void *msg, uint32_t len);
    /* GW_OK and the lane owns src until SENT(cookie); GW_AGAIN and nothing was taken. */
    gw_err (*put)(struct gw_lane *lane, const struct gw_put *put);
    /* Makes progress and reports up to max events; 0: nothing. */
    int (*poll)(struct gw_lane *lane, struct gw_event *ev, int max);

    /* After this returns nothing of the peer's can land any more and no source is read again: memory may be given back.
     * Bounded in time (the implementation's own constant, at most 100 ms), never waits for the peer. */
    void (*shut)(struct gw_lane *lane);
    void (*close)(struct gw_lane *lane); /* frees it; shuts it first where that was not done */
};

/* What a module exports as `gw_lane_module_v1`. */
struct gw_lane_module {
    uint32_t size;
    const char *build; /* gw_build_id of the sources it was made from; another one is refused naming both */
    const struct gw_lane_ops *ops;
    /* Called once, before any slot of ops, when none of the module's libraries was in the process before it: they are ours
     * to set up.  Otherwise they are somebody else's and stay as they are.  Every module fills it. */
    void (*own)(void);
};

#define GW_LANE_BUILD GW_VERSION "/2"

extern const struct gw_lane_ops gw_loop_ops; /* loop.c */

/* module.c: opens libgradwire-NAME.so beside our own file, then by name.  One line says what is missing and which package
 * brings it.  The module stays loaded; the answer is cached.  Thread-safe. */
gw_err gw_lane_module(const char *name, const struct gw_logger *log, const struct gw_lane_ops **ops_p);
#endif
