/* loop_way.h - what is under way on a net: loop_net.c makes it, loop.c fills it, loop_way.c moves it.  For
 * these three files. */
#ifndef GW_TRANSPORT_LOOP_WAY_H
#define GW_TRANSPORT_LOOP_WAY_H

#include <pthread.h>

#include <base/list.h>

#include "loop.h"

enum { GW_LOOP_MSGS_A_POLL = 16 };

/* A put, in the sender's pool.  It is given back when its bytes are visible and all has been told. */
struct gw_loop_item {
    struct gw_list node; /* of its path, oldest first, or of the idle ones */
    struct gw_put put;
    const uint8_t *bytes; /* payload: at the user's, or in `copy` */
    uint8_t *copy;
    uint64_t sum;         /* of the source as it was put; conf.owns */
    uint64_t due_first, due_whole, due_sent;
    uint64_t moves_at; /* held: not before a poll of the sender at this time or later */
    uint32_t split;    /* 0: in one step */
    uint8_t back_first;
    uint8_t taken, first_done, placed;
    uint8_t early;  /* SENT may be told before the bytes are visible */
    uint8_t silent; /* has no SENT of its own */
    uint8_t told_landed, told_sent;
};

struct gw_loop_msg {
    struct gw_list node;
    uint64_t due;
    uint32_t len;
    uint8_t bytes[GW_MSG_MAX];
};

/* A LANDED event that the receiver owns: the sender may be gone by the time it is told. */
struct gw_loop_arrival {
    struct gw_list node;
    uint64_t due;
    struct gw_head head;
    uint32_t len;
    uint8_t path;
};

struct gw_loop_dev {
    struct gw_loop_net *net;
    uint64_t link_free; /* when the link has sent all that was given to it */
    struct gw_list regions;
};

struct gw_loop_region {
    struct gw_list node;
    uint8_t *base;
    uint64_t bytes;
    uint32_t key;
    int remote;
};

struct gw_loop_lane {
    struct gw_lane base;
    struct gw_list node;
    struct gw_loop_net *net;
    struct gw_loop_dev *dev;
    struct gw_loop_lane *peer; /* NULL before join and after its close */
    uint64_t number, polled_at;
    uint8_t joined, shut, killed, cut;
    uint8_t failed; /* it has been reported */
    gw_err fail_err;
    uint64_t fail_at; /* UINT64_MAX: it does not fail */
    struct gw_list way[GW_PATHS_MAX], items_idle;
    struct gw_list msgs, msgs_idle;
    struct gw_list arrived, arrivals_idle;
    struct gw_loop_item *items;
    struct gw_loop_msg *msg_pool;
    struct gw_loop_arrival *arrival_pool;
    uint8_t *copies;
    uint8_t shown[GW_LOOP_MSGS_A_POLL][GW_MSG_MAX]; /* messages of the last poll */
};

struct gw_loop_net {
    struct gw_loop_conf conf;
    pthread_mutex_t lock; /* everything below, and every lane */
    uint64_t chance, now;
    uint64_t lane_number;
    uint32_t region_key, opened;
    int shared; /* made by open, freed by the last close_dev */
    struct gw_list lanes;
    struct gw_loop_dev dev[GW_LOOP_SIDES];
    struct gw_loop_stats stats;
};

static inline struct gw_loop_lane *gw_loop_of(struct gw_lane *lane)
{
    return gw_list_of(lane, struct gw_loop_lane, base);
}

/* loop_net.c: slots of gw_loop_ops */
gw_err gw_loop_open(const struct gw_host *host, const struct gw_lane_conf *conf, void **dev_p);
void gw_loop_close_dev(void *dev);
gw_err gw_loop_reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out);
void gw_loop_dereg(void *dev, struct gw_region *region);
gw_err gw_loop_make(void *dev, struct gw_lane **lane_p);
gw_err gw_loop_local(struct gw_lane *base, struct gw_blob *blob);
gw_err gw_loop_join(struct gw_lane *base, const struct gw_blob *blob);
void gw_loop_close(struct gw_lane *base);

/* loop_way.c: all with the lock held */
uint64_t gw_loop_now(const struct gw_loop_net *net);
uint64_t gw_loop_random(struct gw_loop_net *net, uint64_t below_or_at);
int gw_loop_chance(struct gw_loop_net *net, uint32_t permille);
void gw_loop_fail(struct gw_loop_lane *lane, gw_err err, uint64_t at);
/* Makes visible what is due towards this lane. */
void gw_loop_pull(struct gw_loop_lane *dst, uint64_t now);
/* Reports what is due; 0: nothing. */
int gw_loop_report(struct gw_loop_lane *lane, uint64_t now, struct gw_event *ev, int max);
/* Are the bytes at its source still those that were put?  Counted where not. */
uint64_t gw_loop_sum(const struct gw_loop_net *net, const struct gw_put *put);
void gw_loop_source(struct gw_loop_net *net, const struct gw_loop_item *it);
uint64_t gw_loop_lane_due(const struct gw_loop_lane *lane, uint64_t now);
#endif
