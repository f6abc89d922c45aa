/* link.c - see link.h.  Read link_put, then link_poll. */
#include "link.h"

#include <string.h>

#include <base/check.h>

static struct link_lane *of(struct gw_lane *lane)
{
    return (struct link_lane *)(void *)lane;
}

static gw_err link_put(struct gw_lane *lane, const struct gw_put *put)
{
    struct link *l = of(lane)->link;
    struct link_put *p = &l->put[l->head % LINK_PUTS];
    uint64_t start = gw_max_u64(l->now, l->free_ns);

    if (l->head - l->sent == LINK_PUTS || l->head - l->landed == LINK_PUTS)
        return GW_AGAIN;
    p->put = *put;
    if (put->head.kind == GW_PUT_END)
        memcpy(p->record, put->src, GW_END_BYTES);
    l->free_ns = p->left = start + (uint64_t)((double)put->len * 1e9 / (double)l->rate);
    p->there = p->left + l->delay_ns;
    l->moved += put->len;
    l->head++;
    return GW_OK;
}

static gw_err link_msg(struct gw_lane *lane, const void *msg, uint32_t len)
{
    struct link *l = of(lane)->link;
    struct link_msg *m = &l->msg[l->msg_head % LINK_MSGS];

    if (l->msg_head - l->msg_tail == LINK_MSGS)
        return GW_AGAIN;
    memcpy(m->bytes, msg, len);
    m->len = len;
    m->there = l->now + l->delay_ns;
    l->msg_head++;
    return GW_OK;
}

/* What a lane must really store: the head before a frame, and a record. */
static void store(struct link *l, const struct link_put *p)
{
    uint8_t *at;
    gw_err err = gw_place_find(l->rx.base.places, &p->put.head, p->put.len, &at);

    gw_assert(err == GW_OK);
    if (p->put.head.kind == GW_PUT_CODED)
        gw_head_write(at - GW_HEAD_BYTES, &p->put.head);
    else if (p->put.head.kind == GW_PUT_END)
        memcpy(at, p->record, GW_END_BYTES);
}

static int poll_rx(struct link *l, struct gw_event *ev, int max)
{
    int n = 0;

    for (; n < max && l->landed != l->head && l->put[l->landed % LINK_PUTS].there <= l->now; n++, l->landed++) {
        const struct link_put *p = &l->put[l->landed % LINK_PUTS];
        store(l, p);
        ev[n] = (struct gw_event){ .kind = GW_EV_LANDED, .path = p->put.path, .len = p->put.len, .head = p->put.head };
    }
    return n;
}

static int poll_tx(struct link *l, struct gw_event *ev, int max)
{
    int n = 0;

    for (; n < max - 1 && l->sent != l->head && l->put[l->sent % LINK_PUTS].left <= l->now; l->sent++)
        ev[n++] = (struct gw_event){ .kind = GW_EV_SENT, .cookie = l->put[l->sent % LINK_PUTS].put.cookie };
    if (l->msg_tail != l->msg_head && l->msg[l->msg_tail % LINK_MSGS].there <= l->now) {
        const struct link_msg *m = &l->msg[l->msg_tail++ % LINK_MSGS];
        memcpy(l->shown, m->bytes, m->len);
        ev[n++] = (struct gw_event){ .kind = GW_EV_MSG, .len = m->len, .msg = l->shown };
    }
    return n;
}

static int link_poll(struct gw_lane *lane, struct gw_event *ev, int max)
{
    struct link *l = of(lane)->link;

    return of(lane) == &l->rx ? poll_rx(l, ev, max) : poll_tx(l, ev, max);
}

static gw_err link_reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    (void)dev, (void)remote;
    *out = (struct gw_region){ .base = base, .bytes = bytes };
    return GW_OK;
}

static void link_dereg(void *dev, struct gw_region *region)
{
    (void)dev, (void)region;
}

static void link_shut(struct gw_lane *lane)
{
    (void)lane;
}

const struct gw_lane_ops link_ops = {
    .size = sizeof(struct gw_lane_ops),
    .name = "link",
    .reg = link_reg,
    .dereg = link_dereg,
    .msg = link_msg,
    .put = link_put,
    .poll = link_poll,
    .shut = link_shut,
    .close = link_shut,
};

void link_init(struct link *l, uint64_t rate, uint64_t delay_ns)
{
    struct gw_lane base = { .ops = &link_ops, .caps = GW_LANE_COUNTS, .paths = 1, .name = "link" };

    memset(l, 0, sizeof *l);
    l->rate = rate, l->delay_ns = delay_ns;
    l->tx = (struct link_lane){ base, l };
    l->rx = (struct link_lane){ base, l };
}

uint64_t link_next_due(const struct link *l)
{
    uint64_t due = UINT64_MAX;

    if (l->sent != l->head)
        due = gw_min_u64(due, l->put[l->sent % LINK_PUTS].left);
    if (l->landed != l->head)
        due = gw_min_u64(due, l->put[l->landed % LINK_PUTS].there);
    if (l->msg_tail != l->msg_head)
        due = gw_min_u64(due, l->msg[l->msg_tail % LINK_MSGS].there);
    return due;
}
