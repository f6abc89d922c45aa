/* loop.c - a lane inside one process, for tests: what is posted on it, and what goes wrong with that.
 * loop_net.c makes nets and lanes; what becomes of a put is in loop_way.c.  Read loop.h, then loop_put.
 *
 * One lock a net guards everything.  That is slow and plain: what this lane tests is the order of things. */
#include <string.h>

#include "loop_way.h"

#include <base/check.h>

/* ---- posting ---- */

static gw_err may_post(struct gw_loop_lane *lane)
{
    if (!lane->joined)
        return GW_E_ARG;
    if (lane->failed)
        return lane->fail_err;
    if (lane->shut || lane->killed)
        return GW_E_LANE;
    if (gw_loop_chance(lane->net, lane->net->conf.again_permille)) {
        lane->net->stats.again++;
        return GW_AGAIN;
    }
    return GW_OK;
}

static uint64_t soon(struct gw_loop_net *net, uint64_t at)
{
    return at + gw_loop_random(net, net->conf.jitter_ns);
}

/* Messages are few and small: they do not queue behind the bytes on the link, and so overtake puts. */
static gw_err msg_locked(struct gw_loop_lane *lane, const void *msg, uint32_t len)
{
    struct gw_loop_net *net = lane->net;
    struct gw_loop_msg *m;
    gw_err err = may_post(lane);

    if (err == GW_OK && gw_list_empty(&lane->msgs_idle))
        err = GW_AGAIN;
    if (err != GW_OK)
        return err;
    m = gw_list_of(lane->msgs_idle.next, struct gw_loop_msg, node);
    m->due = soon(net, gw_loop_now(net) + net->conf.delay_ns);
    m->len = len;
    memcpy(m->bytes, msg, len);
    gw_list_remove(&m->node);
    gw_list_append(&lane->msgs, &m->node);
    lane->base.wire_tx += len;
    return GW_OK;
}

static gw_err loop_msg(struct gw_lane *base, const void *msg, uint32_t len)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    gw_err err;

    if (len == 0 || len > GW_MSG_MAX)
        return GW_E_ARG;
    pthread_mutex_lock(&lane->net->lock);
    err = msg_locked(lane, msg, len);
    pthread_mutex_unlock(&lane->net->lock);
    return err;
}

/* Our own core's mistakes, refused here so that they do not wait for a lane with a real device. */
static gw_err put_check(const struct gw_lane *lane, const struct gw_put *put)
{
    uint64_t head = put->head.kind == GW_PUT_CODED ? GW_HEAD_BYTES : 0;
    uint64_t at;

    if (put->path >= lane->paths || put->len > GW_MESSAGE_MAX)
        return GW_E_ARG;
    /* An immediate has no room for a place, so no raw put can carry one. */
    if (lane->caps & GW_LANE_FENCED && put->flags & GW_PUTF_IMM && put->head.kind == GW_PUT_RAW)
        return GW_E_ARG;
    if (put->head.kind == GW_PUT_END)
        return put->len == GW_END_BYTES ? GW_OK : GW_E_ARG;
    if (put->len == 0)
        return GW_OK;
    if (put->region == NULL) /* only a lane that reads memory by key needs to know */
        return lane->caps & GW_LANE_FENCED ? GW_E_ARG : GW_OK;
    at = (uintptr_t)put->src - (uintptr_t)put->region->base;
    return at <= put->region->bytes && put->len + head <= put->region->bytes - at ? GW_OK : GW_E_ARG;
}

/* When the link has taken the put, and when it is there. */
static void item_times(struct gw_loop_lane *lane, struct gw_loop_item *it)
{
    struct gw_loop_net *net = lane->net;
    uint64_t now = gw_loop_now(net), bytes = it->put.len + GW_HEAD_BYTES;
    uint64_t start = gw_max_u64(now, lane->dev->link_free);
    uint64_t left = start + (net->conf.rate > 0 ? bytes * 1000000000u / net->conf.rate : 0);

    lane->dev->link_free = left;
    it->due_whole = soon(net, left + net->conf.delay_ns);
    it->due_first = start + net->conf.delay_ns;
    it->due_first += gw_loop_random(net, it->due_whole - it->due_first);
    it->due_sent = soon(net, it->early ? left : left + 2 * net->conf.delay_ns);
}

static void item_faults(struct gw_loop_lane *lane, struct gw_loop_item *it)
{
    const struct gw_loop_conf *conf = &lane->net->conf;
    int lines = (it->put.flags & GW_PUTF_LINES) != 0;

    if (it->put.len > 1 && gw_loop_chance(lane->net, conf->split_permille))
        it->split = 1 + (uint32_t)gw_loop_random(lane->net, it->put.len - 2);
    if (lines)
        it->split &= ~7u; /* a reader on another thread sees whole words */
    it->back_first = !lines && !(conf->caps & GW_LANE_ORDERED) && gw_loop_chance(lane->net, 500);
    if (!(conf->caps & GW_LANE_DIRECT) && gw_loop_chance(lane->net, conf->hold_permille))
        it->moves_at = gw_loop_now(lane->net) + 1 +
                       gw_loop_random(lane->net, conf->delay_ns + conf->jitter_ns);
    it->early = !(conf->caps & GW_LANE_SENT_IS_LANDED) && it->put.len <= conf->eager_max &&
                gw_loop_chance(lane->net, 500);
}

static void item_fill(struct gw_loop_lane *lane, struct gw_loop_item *it, const struct gw_put *put)
{
    int fenced = (lane->base.caps & GW_LANE_FENCED) != 0;
    uint8_t *copy = it->copy;

    *it = (struct gw_loop_item){
        .node = it->node,
        .put = *put,
        .copy = copy,
        .bytes = put->head.kind == GW_PUT_CODED ? put->src + GW_HEAD_BYTES : put->src,
        .silent = fenced && lane->net->conf.quiet && !(put->flags & GW_PUTF_SIGNAL),
        .told_landed = fenced && !(put->flags & GW_PUTF_IMM),
        .sum = gw_loop_sum(lane->net, put),
    };
    item_faults(lane, it);
    item_times(lane, it);
    if (put->len > 0 && (it->early || put->head.kind == GW_PUT_END))
        it->bytes = memcpy(copy, it->bytes, put->len);
}

static gw_err put_locked(struct gw_loop_lane *lane, const struct gw_put *put)
{
    struct gw_loop_item *it;
    gw_err err = may_post(lane);

    if (err == GW_OK && gw_list_empty(&lane->items_idle))
        err = GW_AGAIN;
    if (err != GW_OK)
        return err;
    it = gw_list_of(lane->items_idle.next, struct gw_loop_item, node);
    gw_list_remove(&it->node);
    item_fill(lane, it, put);
    gw_list_append(&lane->way[put->path], &it->node);
    lane->base.wire_tx += put->len + GW_HEAD_BYTES;
    return GW_OK;
}

static gw_err loop_put(struct gw_lane *base, const struct gw_put *put)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    gw_err err = put_check(base, put);

    if (err != GW_OK)
        return err;
    pthread_mutex_lock(&lane->net->lock);
    err = put_locked(lane, put);
    pthread_mutex_unlock(&lane->net->lock);
    return err;
}

static int loop_poll(struct gw_lane *base, struct gw_event *ev, int max)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    uint64_t now;
    int n;

    pthread_mutex_lock(&lane->net->lock);
    now = gw_loop_now(lane->net);
    lane->polled_at = now;
    gw_loop_pull(lane, now);
    if (lane->peer != NULL && lane->base.caps & GW_LANE_DIRECT)
        gw_loop_pull(lane->peer, now);
    n = gw_loop_report(lane, now, ev, max);
    pthread_mutex_unlock(&lane->net->lock);
    return n;
}

/* ---- the end ---- */

static void tell_peer(struct gw_loop_lane *lane, gw_err err)
{
    struct gw_loop_net *net = lane->net;

    if (net->conf.mute || lane->peer == NULL || lane->peer->peer != lane)
        return;
    gw_loop_fail(lane->peer, err, soon(net, gw_loop_now(net) + net->conf.delay_ns));
}

void gw_loop_kill(struct gw_lane *base)
{
    struct gw_loop_lane *lane = gw_loop_of(base);

    pthread_mutex_lock(&lane->net->lock);
    if (!lane->killed && !lane->shut)
        tell_peer(lane, GW_E_PEER);
    lane->killed = 1;
    pthread_mutex_unlock(&lane->net->lock);
}

void gw_loop_cut(struct gw_lane *base)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    struct gw_loop_net *net = lane->net;

    pthread_mutex_lock(&net->lock);
    tell_peer(lane, GW_E_LANE);
    if (!net->conf.mute)
        gw_loop_fail(lane, GW_E_LANE, soon(net, gw_loop_now(net)));
    lane->cut = 1;
    pthread_mutex_unlock(&net->lock);
}

/* Bytes are copied with the lock held, so none moves once this has had it. */
static void loop_shut(struct gw_lane *base)
{
    struct gw_loop_lane *lane = gw_loop_of(base);

    pthread_mutex_lock(&lane->net->lock);
    if (!lane->shut && !lane->killed) {
        tell_peer(lane, GW_E_PEER);
        for (unsigned path = 0; path < lane->base.paths; path++)
            gw_list_each (node, &lane->way[path])
                gw_loop_source(lane->net, gw_list_of(node, struct gw_loop_item, node));
    }
    lane->shut = 1;
    pthread_mutex_unlock(&lane->net->lock);
}

const struct gw_lane_ops gw_loop_ops = {
    .size = sizeof(struct gw_lane_ops),
    .name = "loop",
    .open = gw_loop_open,
    .close_dev = gw_loop_close_dev,
    .make = gw_loop_make,
    .local = gw_loop_local,
    .join = gw_loop_join,
    .reg = gw_loop_reg,
    .dereg = gw_loop_dereg,
    .msg = loop_msg,
    .put = loop_put,
    .poll = loop_poll,
    .shut = loop_shut,
    .close = gw_loop_close,
};
