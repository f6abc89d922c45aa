/* verbs.h - the inside of the verbs lane, known to verbs_*.c alone.
 *
 * verbs_dev.c opens a port and registers memory, verbs_conn.c makes, joins and ends lanes, verbs_data.c posts and polls,
 * verbs_event.c hears what devices say of themselves,
 * verbs_lines.c writes offers and grants into the sender's memory and reads them there.  A lane is one reliable connection
 * (queue pair) for each path and one completion queue.
 *
 * An inbox is what the peer writes beside user memory.  The sender's: an offer place and a grant line for each slot.  The
 * receiver's: a first line that says that the sender is there, then a cell for each end record.  WIRE.md draws both. */
#ifndef GW_TRANSPORT_VERBS_H
#define GW_TRANSPORT_VERBS_H

#include <infiniband/verbs.h>

#include "advert.h"
#include "lane.h"
#include "verbs_blob.h"

enum {
    GW_VERBS_DEPTH = 512,
    GW_VERBS_WORDS = 256,                             /* offers and grants outstanding; one in eight is signalled */
    GW_VERBS_RECVS = GW_SLOTS * GW_BUFFERS_MAX + 128, /* for each queue pair: any path may carry all of it */
    GW_VERBS_BATCH = 16,                              /* completions taken at once */
    GW_VERBS_MSGS = 8,                                /* offers and grants reported by one poll */
    GW_VERBS_INLINE = GW_OFFER_MAX,
    GW_VERBS_READY = 64, /* bytes of the receiver's first line */
    GW_VERBS_GRANTS = GW_SLOTS * GW_OFFER_MAX, /* where the grant lines begin */
    GW_VERBS_INBOX_SEND = GW_VERBS_GRANTS + GW_SLOTS * GW_LINE,
    GW_VERBS_INBOX_RECV = GW_VERBS_READY + GW_SLOTS * GW_BUFFERS_MAX * GW_PATHS_MAX * GW_END_BYTES
};

struct gw_verbs_dev {
    struct gw_host host;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    char name[32];
    char ifname[32];
    uint8_t port, timeout, retry, tc, sl, paths;
    int gid_wish; /* -1: chosen */
    uint32_t depth;
    _Atomic uint64_t registered; /* bytes, for the line that says there is no room for more */
    struct gw_verbs_dev *next; /* of the watched ones */
    uint8_t watched, port_down;
    uint64_t down_ns;
    _Atomic int fatal;
};

/* What a work request was, until its completion: they complete in order. */
struct gw_verbs_sent {
    uint64_t cookie;
    uint8_t is_put;
};

/* A queue pair.  posted - done: outstanding; done - told: complete, and its SENT not reported yet. */
struct gw_verbs_qp {
    struct ibv_qp *qp;
    struct gw_verbs_sent *ring;
    uint8_t *copies; /* a place for each entry of the ring */
    uint32_t posted, done, told;
    uint32_t silent;       /* posted since the last signalled one */
    uint32_t recv_missing; /* receives to post again */
    uint32_t psn, inline_max;
};

struct gw_verbs_lane {
    struct gw_lane lane; /* first */
    struct gw_verbs_dev *dev;
    struct ibv_cq *cq;
    struct gw_verbs_qp qp[GW_PATHS_MAX];
    uint32_t ring_size; /* a power of two */
    uint32_t copy_bytes;
    uint8_t *inbox, *outbox;
    uint32_t inbox_bytes;
    struct ibv_mr *inbox_mr, *outbox_mr;
    struct gw_verbs_blob mine, theirs;
    uint8_t is_recv, up, said_ready, down;
    gw_err failed;
    int failed_said;
    _Atomic int event; /* of a queue pair that died: enum ibv_event_type */
    uint32_t flushed; /* errors after the first */

    uint32_t grants[GW_SLOTS]; /* how often each slot was granted anything: written, or seen */
    /* sender: the next offer's number, slots whose offer lends pieces */
    uint32_t next_offer, lends;
    uint64_t torn_ns; /* since when the next offer agrees in its numbers and not in its sum */
    uint8_t msg[GW_VERBS_MSGS][GW_MSG_MAX];
};

extern const struct gw_lane_module gw_lane_module_v1; /* what a lane finds its ops in */

/* verbs_dev.c */
void gw_verbs_log(const struct gw_verbs_dev *dev, enum gw_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Port, link layer, MTU and source address as they are now.  why says what is wrong. */
gw_err gw_verbs_address(struct gw_verbs_dev *dev, struct gw_verbs_blob *b, char *why, size_t why_len);
void gw_verbs_gid_text(const struct gw_verbs_blob *b, char out[64]);

/* verbs_conn.c */
gw_err gw_verbs_make(void *dev, struct gw_lane **lane_p);
gw_err gw_verbs_local(struct gw_lane *lane, struct gw_blob *blob);
gw_err gw_verbs_join(struct gw_lane *lane, const struct gw_blob *peer);
void gw_verbs_shut(struct gw_lane *lane);
void gw_verbs_close(struct gw_lane *lane);

/* verbs_data.c */
/* A write of len bytes at src, or of the entry's own copy where key is NULL.  imm_p: NULL for none. */
gw_err gw_verbs_write(struct gw_verbs_lane *l, unsigned path, const void *src, uint32_t len, const uint32_t *lkey, uint64_t addr,
                      uint32_t rkey, const uint32_t *imm_p, int signal, struct gw_verbs_sent what);
uint32_t gw_verbs_room(const struct gw_verbs_lane *l, unsigned path);
gw_err gw_verbs_recv_post(struct gw_verbs_lane *l, unsigned path, uint32_t n);
gw_err gw_verbs_put(struct gw_lane *lane, const struct gw_put *put);
int gw_verbs_poll(struct gw_lane *lane, struct gw_event *ev, int max);
int gw_verbs_reap(struct gw_verbs_lane *l, struct gw_event *ev, int max);
void gw_verbs_fail(struct gw_verbs_lane *l, gw_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* verbs_event.c: off the message path; unwatch before anything of the device is closed. */
gw_err gw_verbs_watch(struct gw_verbs_dev *d);
void gw_verbs_unwatch(struct gw_verbs_dev *d);
void gw_verbs_event(struct gw_verbs_dev *d, const struct ibv_async_event *e);

/* verbs_lines.c */
gw_err gw_verbs_msg(struct gw_lane *lane, const void *msg, uint32_t len);
int gw_verbs_lines(struct gw_verbs_lane *l, struct gw_event *ev, int max);
#endif
