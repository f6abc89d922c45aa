/* ucx.h - the inside of the UCX lane, known to ucx_*.c alone.
 *
 * ucx_dev.c opens devices, ucx_addr.c wraps addresses for the way through the hello, ucx_conn.c
 * makes, joins and ends lanes, ucx_data.c moves bytes.  A lane is one UCP worker with one endpoint.
 * Every put is one active message whose header is the put head; every control message is one active
 * message without a header. */
#ifndef GW_TRANSPORT_UCX_H
#define GW_TRANSPORT_UCX_H

#include <ucp/api/ucp.h>

#include <base/check.h>

#include "lane.h"
#include "ucx_addr.h"

/* Active message ids.  LINES is a put that must be stored by our own copy, word by word: the put
 * head has no room to say so. */
enum gw_ucx_am { GW_UCX_AM_MSG = 1, GW_UCX_AM_PUT = 2, GW_UCX_AM_LINES = 3 };

enum {
    GW_UCX_DEPTH = 256, /* puts outstanding where the host names no number */
    GW_UCX_MSGS = 64, /* control messages outstanding; the protocol keeps them under 16 KiB */
    GW_UCX_MSG_ROOM = 32 << 10,
    GW_UCX_ARRIVED_MAX = 1536, /* within one pass of progress; the protocol allows about 1,300 */
    GW_UCX_ROUNDS = 8, /* passes of progress within one poll */
    GW_UCX_SHUT_MS = 50
};

struct gw_ucx_dev {
    struct gw_host host;
    ucp_context_h context;
    struct gw_ucx_dev *next; /* among all open ones, for UCX's log */
    char transport[64];
    char segment[16]; /* TCP_RX_SEG_SIZE as it was set, "-" without tcp */
    char ifname[32];
    uint16_t port_lo, port_hi; /* 0: any */
    uint32_t depth;
};

/* One message or put under way.  Head and copy must stay until UCX is done with them. */
struct gw_ucx_send {
    struct gw_ucx_lane *owner;
    struct gw_ucx_send *next; /* in its free list */
    uint64_t cookie;
    uint8_t *copy; /* GW_END_BYTES for a put, GW_MSG_MAX for a message */
    uint8_t is_msg;
    uint8_t head[GW_HEAD_BYTES];
};

/* One rendezvous under way into the offered place. */
struct gw_ucx_recv {
    struct gw_ucx_lane *owner;
    struct gw_ucx_recv *next;
    struct gw_head head;
    uint32_t len;
};

struct gw_ucx_lane {
    struct gw_lane lane; /* first */
    struct gw_ucx_dev *dev;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int force; /* the endpoint may be closed by force */
    int down;  /* shut: whatever UCX still calls is ignored */
    gw_err failed;
    int failed_said; /* GW_EV_FAILED was reported */
    int met;         /* something has left or has come: UCX has its own connection */

    struct gw_ucx_send *sends, *free_put, *free_msg;
    uint8_t *copies;
    struct gw_ucx_recv *recvs, *free_recv;

    /* Beside GW_UCX_ARRIVED_MAX others there is always room for a SENT of every put. */
    struct gw_event *ring;
    uint32_t ring_size, ring_at, ring_count;
    uint32_t arrived; /* LANDED and MSG in the ring */
    uint8_t *msg_room;
    uint32_t msg_used;
};

extern const struct gw_lane_module gw_lane_module_v1; /* what a lane finds its ops in */

/* ucx_dev.c */
void gw_ucx_log(const struct gw_ucx_dev *dev, enum gw_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* While on, what UCX warns of on this thread is a warning: a device or a lane is opened, and it alone knows why not.  Later its
 * words are for debugging only; the event or the answer of the call says the same, and the core prints the one line. */
void gw_ucx_loud(int on);

/* ucx_conn.c */
gw_err gw_ucx_make(void *dev, struct gw_lane **lane_p);
gw_err gw_ucx_local(struct gw_lane *lane, struct gw_blob *blob);
gw_err gw_ucx_join(struct gw_lane *lane, const struct gw_blob *peer);
void gw_ucx_shut(struct gw_lane *lane);
void gw_ucx_close(struct gw_lane *lane);

/* ucx_data.c */
gw_err gw_ucx_sends_alloc(struct gw_ucx_lane *l, uint32_t depth);
gw_err gw_ucx_recvs_alloc(struct gw_ucx_lane *l, uint32_t depth);
void gw_ucx_queues_free(struct gw_ucx_lane *l);
ucs_status_t gw_ucx_handlers_set(struct gw_ucx_lane *l);
void gw_ucx_fail_status(struct gw_ucx_lane *l, const char *what, ucs_status_t status);
gw_err gw_ucx_msg(struct gw_lane *lane, const void *msg, uint32_t len);
gw_err gw_ucx_put(struct gw_lane *lane, const struct gw_put *put);
int gw_ucx_poll(struct gw_lane *lane, struct gw_event *ev, int max);
#endif
