/* loop_way.c - what happens to a put between the two ends: it becomes visible, in one step or two, and
 * is told to both.  Read gw_loop_pull, then gw_loop_report. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "loop_way.h"

#include <base/check.h>
#include <base/clock.h>

uint64_t gw_loop_now(const struct gw_loop_net *net)
{
    return net->conf.realtime ? gw_now_ns() : net->now;
}

/* splitmix64: any seed will do, also 0 */
uint64_t gw_loop_random(struct gw_loop_net *net, uint64_t below_or_at)
{
    uint64_t z = net->chance += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return below_or_at == UINT64_MAX ? z : z % (below_or_at + 1);
}

int gw_loop_chance(struct gw_loop_net *net, uint32_t permille)
{
    return permille > 0 && gw_loop_random(net, 999) < permille;
}

/* The first cause stays: what follows from it is not news. */
void gw_loop_fail(struct gw_loop_lane *lane, gw_err err, uint64_t at)
{
    if (lane->fail_at != UINT64_MAX)
        return;
    lane->fail_err = err;
    lane->fail_at = at;
}

static int usable(const struct gw_loop_lane *lane)
{
    return lane != NULL && lane->joined && !lane->shut && !lane->killed && !lane->cut && !lane->failed;
}

static int connected(const struct gw_loop_lane *lane)
{
    return usable(lane) && usable(lane->peer) && lane->peer->peer == lane;
}

static void item_release(struct gw_loop_lane *owner, struct gw_loop_item *it)
{
    if (!it->placed || !it->told_landed || !it->told_sent)
        return;
    gw_list_remove(&it->node);
    gw_list_append(&owner->items_idle, &it->node);
}

/* ---- becoming visible ---- */

/* A lane that writes memory goes by address and key alone, so here both must be those of the place that
 * the head names. */
static int address_fits(const struct gw_loop_lane *dst, const struct gw_put *put, const uint8_t *place)
{
    uint64_t head = put->head.kind == GW_PUT_CODED ? GW_HEAD_BYTES : 0;
    uint64_t bytes = put->len + head;

    if (put->len == 0 || put->head.kind == GW_PUT_END)
        return 1; /* nothing is written, or into a cell that the lane knows */
    if (put->addr != (uintptr_t)place - head)
        return 0;
    gw_list_each (node, &dst->dev->regions) {
        const struct gw_loop_region *r = gw_list_of(node, struct gw_loop_region, node);
        uint64_t at = put->addr - (uintptr_t)r->base;

        if (r->key == put->key[0] && r->remote && at <= r->bytes && bytes <= r->bytes - at)
            return 1;
    }
    return 0;
}

static gw_err item_find(struct gw_loop_lane *dst, struct gw_loop_item *it, uint8_t **place_p)
{
    struct gw_loop_stats *stats = &dst->net->stats;
    gw_err err = GW_E_PROTO;

    if (dst->base.places != NULL)
        err = it->taken ? gw_place_find(dst->base.places, &it->put.head, it->put.len, place_p)
                        : gw_place_take(dst->base.places, &it->put.head, it->put.len, place_p);
    it->taken = 1;
    if (err == GW_OK && dst->base.caps & GW_LANE_FENCED && !address_fits(dst, &it->put, *place_p)) {
        stats->misplaced++;
        err = GW_E_PROTO;
    }
    if (err != GW_OK)
        stats->refused++;
    return err;
}

static gw_err item_copy(struct gw_loop_lane *dst, struct gw_loop_item *it, uint32_t from, uint32_t to)
{
    uint8_t *place;
    gw_err err = item_find(dst, it, &place);

    if (err != GW_OK || from == to)
        return err;
    if (it->put.flags & GW_PUTF_LINES)
        gw_place_lines(place + from, it->bytes + from, to - from);
    else
        memcpy(place + from, it->bytes + from, to - from);
    return GW_OK;
}

static gw_err item_finish(struct gw_loop_lane *dst, struct gw_loop_item *it)
{
    uint8_t *place;
    gw_err err = item_find(dst, it, &place);

    if (err != GW_OK)
        return err;
    if (it->put.head.kind == GW_PUT_CODED)
        gw_head_write(place - GW_HEAD_BYTES, &it->put.head);
    it->placed = 1;
    dst->base.wire_rx += it->put.len + GW_HEAD_BYTES;
    dst->net->stats.puts++;
    dst->net->stats.bytes += it->put.len;
    return GW_OK;
}

/* The offer is looked up again for each step: it may have been closed in between. */
static gw_err item_move(struct gw_loop_lane *dst, struct gw_loop_item *it, uint64_t now)
{
    uint32_t len = it->put.len, split = it->split;
    gw_err err = GW_OK;

    if (dst->peer->polled_at < it->moves_at)
        return GW_OK;
    if (split > 0 && !it->first_done && it->due_first <= now) {
        err = it->back_first ? item_copy(dst, it, split, len) : item_copy(dst, it, 0, split);
        it->first_done = 1;
    }
    if (err != GW_OK || it->due_whole > now)
        return err;
    if (it->first_done)
        err = it->back_first ? item_copy(dst, it, 0, split) : item_copy(dst, it, split, len);
    else
        err = item_copy(dst, it, 0, len);
    return err == GW_OK ? item_finish(dst, it) : err;
}

/* The event waits in the receiver's memory, before or behind those that wait there already. */
static void landed_raise(struct gw_loop_lane *dst, struct gw_loop_item *it, uint64_t now)
{
    struct gw_loop_net *net = dst->net;
    struct gw_loop_arrival *a;

    if (gw_list_empty(&dst->arrivals_idle)) {
        net->stats.no_receive++;
        return;
    }
    a = gw_list_of(dst->arrivals_idle.next, struct gw_loop_arrival, node);
    gw_list_remove(&a->node);
    a->head = it->put.head;
    if (dst->base.caps & GW_LANE_FENCED) {
        gw_err err = gw_imm_read(gw_imm_write(&it->put.head), &a->head);
        gw_assert(err == GW_OK); /* loop_put took it */
    }
    a->len = it->put.len;
    a->path = it->put.path;
    a->due = now + gw_loop_random(net, net->conf.jitter_ns);
    gw_list_append(gw_loop_chance(net, 500) ? &dst->arrived : dst->arrived.next, &a->node);
    it->told_landed = 1;
}

static gw_err pull_path(struct gw_loop_lane *dst, unsigned path, uint64_t now)
{
    struct gw_loop_lane *src = dst->peer;
    int counts = (dst->base.caps & GW_LANE_COUNTS) != 0, clear = 1;

    gw_list_each_safe (node, next, &src->way[path]) {
        struct gw_loop_item *it = gw_list_of(node, struct gw_loop_item, node);
        gw_err err = it->placed ? GW_OK : item_move(dst, it, now);

        if (err != GW_OK)
            return err;
        clear &= it->placed;
        if (!it->told_landed && it->placed && (counts || clear))
            landed_raise(dst, it, now);
        item_release(src, it);
    }
    return GW_OK;
}

void gw_loop_pull(struct gw_loop_lane *dst, uint64_t now)
{
    struct gw_loop_net *net = dst->net;

    for (unsigned path = 0; connected(dst) && path < dst->base.paths; path++) {
        if (pull_path(dst, path, now) == GW_OK)
            continue;
        dst->cut = dst->peer->cut = 1;
        gw_loop_fail(dst, GW_E_PROTO, now);
        gw_loop_fail(dst->peer, GW_E_LANE,
                     now + net->conf.delay_ns + gw_loop_random(net, net->conf.jitter_ns));
    }
}

/* ---- being told ---- */

static int report_landed(struct gw_loop_lane *lane, uint64_t now, struct gw_event *ev, int max)
{
    int n = 0;

    gw_list_each_safe (node, next, &lane->arrived) {
        struct gw_loop_arrival *a = gw_list_of(node, struct gw_loop_arrival, node);

        if (n == max || a->due > now)
            continue;
        ev[n++] = (struct gw_event){
            .kind = GW_EV_LANDED, .path = a->path, .len = a->len, .head = a->head};
        gw_list_remove(&a->node);
        gw_list_append(&lane->arrivals_idle, &a->node);
    }
    lane->net->stats.landed += (uint64_t)n;
    return n;
}

static int report_msgs(struct gw_loop_lane *lane, uint64_t now, struct gw_event *ev, int max)
{
    int n = 0;

    if (!connected(lane))
        return 0;
    gw_list_each_safe (node, next, &lane->peer->msgs) {
        struct gw_loop_msg *m = gw_list_of(node, struct gw_loop_msg, node);

        if (n == max || n == GW_LOOP_MSGS_A_POLL || m->due > now)
            continue;
        memcpy(lane->shown[n], m->bytes, m->len);
        ev[n] = (struct gw_event){.kind = GW_EV_MSG, .len = m->len, .msg = lane->shown[n]};
        n++;
        lane->base.wire_rx += m->len;
        gw_list_remove(&m->node);
        gw_list_append(&lane->peer->msgs_idle, &m->node);
    }
    lane->net->stats.msgs += (uint64_t)n;
    return n;
}

/* END records are copied, and only they. */
uint64_t gw_loop_sum(const struct gw_loop_net *net, const struct gw_put *put)
{
    uint64_t head = put->head.kind == GW_PUT_CODED ? GW_HEAD_BYTES : 0;

    return net->conf.owns && put->head.kind != GW_PUT_END && put->len > 0 ? XXH3_64bits(put->src, put->len + head) : 0;
}

void gw_loop_source(struct gw_loop_net *net, const struct gw_loop_item *it)
{
    net->stats.changed += !it->told_sent && gw_loop_sum(net, &it->put) != it->sum;
}

static void sent_event(struct gw_loop_net *net, struct gw_event *ev, struct gw_loop_item *it)
{
    gw_loop_source(net, it);
    *ev = (struct gw_event){.kind = GW_EV_SENT, .path = it->put.path, .cookie = it->put.cookie};
    it->told_sent = 1;
}

/* Puts of one path complete in order, and one that is told stands for the silent ones before it: until
 * then they hold their places in the queue, as work requests do. */
static int report_sent_fenced(struct gw_loop_lane *lane, unsigned path, uint64_t now,
                              struct gw_event *ev, int max)
{
    struct gw_list *way = &lane->way[path];
    int n = 0;

    gw_list_each (node, way) {
        struct gw_loop_item *it = gw_list_of(node, struct gw_loop_item, node);

        if (n == max || !(it->placed || it->early))
            break;
        if (it->told_sent || it->silent)
            continue;
        if (it->due_sent > now)
            break;
        sent_event(lane->net, &ev[n++], it);
        for (struct gw_list *before = node->prev; before != way; before = before->prev) {
            gw_loop_source(lane->net, gw_list_of(before, struct gw_loop_item, node));
            gw_list_of(before, struct gw_loop_item, node)->told_sent = 1;
        }
    }
    gw_list_each_safe (old, next, way)
        item_release(lane, gw_list_of(old, struct gw_loop_item, node));
    return n;
}

static int report_sent_counts(struct gw_loop_lane *lane, unsigned path, uint64_t now,
                              struct gw_event *ev, int max)
{
    int n = 0;

    gw_list_each_safe (node, next, &lane->way[path]) {
        struct gw_loop_item *it = gw_list_of(node, struct gw_loop_item, node);

        if (n == max || it->told_sent || it->due_sent > now || !(it->placed || it->early))
            continue;
        sent_event(lane->net, &ev[n++], it);
        item_release(lane, it);
    }
    return n;
}

static int report_sent(struct gw_loop_lane *lane, uint64_t now, struct gw_event *ev, int max)
{
    int fenced = (lane->base.caps & GW_LANE_FENCED) != 0, n = 0;

    for (unsigned path = 0; path < lane->base.paths; path++)
        n += fenced ? report_sent_fenced(lane, path, now, ev + n, max - n)
                    : report_sent_counts(lane, path, now, ev + n, max - n);
    lane->net->stats.sent += (uint64_t)n;
    return n;
}

int gw_loop_report(struct gw_loop_lane *lane, uint64_t now, struct gw_event *ev, int max)
{
    static int (*const report[])(struct gw_loop_lane *, uint64_t, struct gw_event *, int) = {
        report_landed, report_msgs, report_sent};
    unsigned first;
    int n = 0;

    if (lane->failed || lane->killed || lane->shut || max <= 0)
        return 0;
    if (lane->fail_at <= now) {
        /* Where SENT means landed the sender counts on these, whatever became of it since. */
        if (lane->base.caps & GW_LANE_SENT_IS_LANDED)
            n = report_landed(lane, UINT64_MAX, ev, max);
        if (n < max) {
            ev[n++] = (struct gw_event){.kind = GW_EV_FAILED, .err = lane->fail_err};
            lane->failed = 1;
        }
        return n;
    }
    first = (unsigned)gw_loop_random(lane->net, 2);
    for (unsigned i = 0; i < 3; i++)
        n += report[(first + i) % 3](lane, now, ev + n, max - n);
    return n;
}

/* ---- the next moment ---- */

static void earlier(uint64_t *due, uint64_t at, uint64_t now)
{
    if (at > now && at < *due)
        *due = at;
}

uint64_t gw_loop_lane_due(const struct gw_loop_lane *lane, uint64_t now)
{
    uint64_t due = UINT64_MAX;

    earlier(&due, lane->fail_at, now);
    gw_list_each (a, &lane->arrived)
        earlier(&due, gw_list_of(a, struct gw_loop_arrival, node)->due, now);
    gw_list_each (m, &lane->msgs)
        earlier(&due, gw_list_of(m, struct gw_loop_msg, node)->due, now);
    for (unsigned path = 0; path < lane->base.paths; path++) {
        gw_list_each (node, &lane->way[path]) {
            const struct gw_loop_item *it = gw_list_of(node, struct gw_loop_item, node);

            if (it->split > 0)
                earlier(&due, it->due_first, now);
            earlier(&due, it->moves_at, now);
            earlier(&due, it->due_whole, now);
            earlier(&due, it->due_sent, now);
        }
    }
    return due;
}
