/* verbs_data.c - moves bytes.  Read gw_verbs_put, then gw_verbs_poll.
 *
 * Work requests of a queue pair complete in order, so a completion speaks for all before it, and only what the core must hear
 * of soon is signalled.  A receive is posted again before its event is reported: the offer that lets the next put come is said
 * after that, and so no put ever meets an empty queue. */
#include "verbs.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

enum { SILENT_MAX = 8, IS_SEND_SHIFT = 63, PATH_SHIFT = 32 };

/* ---- failed ---- */

/* The first failure counts, and ends everything. */
void gw_verbs_fail(struct gw_verbs_lane *l, gw_err err, const char *fmt, ...)
{
    va_list ap;

    if (l->failed != GW_OK || l->down) {
        l->flushed++;
        return;
    }
    l->failed = err;
    va_start(ap, fmt);
    vsnprintf(l->lane.why, sizeof l->lane.why, fmt, ap);
    va_end(ap);
}

static const char *status_hint(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no acknowledgement came";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer had no receive posted, please report it";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer's memory is not registered any more";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
        return "our memory is not registered for it";
    case IBV_WC_WR_FLUSH_ERR:
        return "the adapter stopped the connection";
    default:
        return "see the adapter's counters";
    }
}

/* Only status, vendor_err, wr_id and qp_num mean anything in such a completion. */
static void broke(struct gw_verbs_lane *l, unsigned path, int is_send, const struct ibv_wc *wc)
{
    struct ibv_port_attr port = { 0 };
    char mine[64], theirs[64];

    if (l->failed != GW_OK || l->down) {
        l->flushed++;
        return;
    }
    if (ibv_query_port(l->dev->ctx, l->dev->port, &port) != 0)
        port.state = IBV_PORT_NOP;
    gw_verbs_gid_text(&l->mine, mine);
    gw_verbs_gid_text(&l->theirs, theirs);
    gw_verbs_fail(l, wc->status == IBV_WC_REM_ACCESS_ERR ? GW_E_PROTO : GW_E_LANE,
                  "%s: %s (%d, vendor 0x%x), %s; %s:%u %s qp %u, port %s, to %s:%u %s qp %u", is_send ? "write" : "receive",
                  ibv_wc_status_str(wc->status), wc->status, wc->vendor_err, status_hint(wc->status), l->mine.device, l->mine.port,
                  mine, l->mine.qpn[path], ibv_port_state_str(port.state), l->theirs.device, l->theirs.port, theirs,
                  l->theirs.qpn[path]);
}

/* ---- posting ---- */

uint32_t gw_verbs_room(const struct gw_verbs_lane *l, unsigned path)
{
    const struct gw_verbs_qp *q = &l->qp[path];

    return l->ring_size - (q->posted - q->told);
}

static gw_err post(struct gw_verbs_lane *l, struct gw_verbs_qp *q, struct ibv_send_wr *wr, struct gw_verbs_sent what)
{
    struct ibv_send_wr *bad;
    int code = ibv_post_send(q->qp, wr, &bad);

    if (code == ENOMEM)
        return GW_AGAIN;
    if (code != 0) {
        gw_verbs_fail(l, GW_E_LANE, "a write cannot be posted on %s: %s", l->dev->name, strerror(code < 0 ? -code : code));
        return l->failed;
    }
    q->silent = wr->send_flags & IBV_SEND_SIGNALED ? 0 : q->silent + 1;
    q->ring[q->posted++ & (l->ring_size - 1)] = what;
    return GW_OK;
}

gw_err gw_verbs_write(struct gw_verbs_lane *l, unsigned path, const void *src, uint32_t len, const uint32_t *lkey, uint64_t addr,
                      uint32_t rkey, const uint32_t *imm_p, int signal, struct gw_verbs_sent what)
{
    struct gw_verbs_qp *q = &l->qp[path];
    uint8_t *copy = q->copies + (size_t)(q->posted & (l->ring_size - 1)) * l->copy_bytes;
    struct ibv_sge sge = { .addr = (uintptr_t)(lkey ? src : copy), .length = len, .lkey = lkey ? *lkey : l->outbox_mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = 1ull << IS_SEND_SHIFT | (uint64_t)path << PATH_SHIFT | q->posted,
        .sg_list = &sge,
        .num_sge = len > 0,
        .opcode = imm_p ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .send_flags = signal || q->silent + 1 >= SILENT_MAX ? IBV_SEND_SIGNALED : 0,
        .wr.rdma = { .remote_addr = addr, .rkey = rkey },
    };

    if (imm_p != NULL)
        wr.imm_data = htobe32(*imm_p);
    if (lkey == NULL) {
        memcpy(copy, src, len);
        if (len <= q->inline_max)
            wr.send_flags |= IBV_SEND_INLINE;
    }
    return post(l, q, &wr, what);
}

static gw_err put_check(const struct gw_verbs_lane *l, const struct gw_put *put)
{
    int imm = (put->flags & GW_PUTF_IMM) != 0;

    if (!l->up || put->path >= l->lane.paths || put->len > GW_MESSAGE_MAX || imm == (put->head.kind == GW_PUT_RAW))
        return GW_E_ARG;
    if (put->head.kind == GW_PUT_END)
        return put->len == GW_END_BYTES && put->head.piece < GW_PATHS_MAX ? GW_OK : GW_E_ARG;
    return put->len == 0 || (put->region != NULL && put->region->priv != NULL) ? GW_OK : GW_E_ARG;
}

/* An end record goes to the cell of its slot, buffer and path. */
static uint32_t cell_at(const struct gw_head *h)
{
    uint32_t cell = (h->number % GW_SLOTS * GW_BUFFERS_MAX + h->buffer) * GW_PATHS_MAX + h->piece;

    return GW_VERBS_READY + cell * GW_END_BYTES;
}

gw_err gw_verbs_put(struct gw_lane *lane, const struct gw_put *put)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;
    struct gw_verbs_sent what = { .cookie = put->cookie, .is_put = 1 };
    uint32_t imm = gw_imm_write(&put->head), len = put->len, lkey;
    const uint32_t *imm_p = put->flags & GW_PUTF_IMM ? &imm : NULL;
    gw_err err = l->failed != GW_OK ? l->failed : put_check(l, put);

    if (err != GW_OK)
        return err;
    if (gw_verbs_room(l, put->path) == 0)
        return GW_AGAIN;
    if (put->head.kind == GW_PUT_CODED)
        len += GW_HEAD_BYTES;
    if (put->head.kind == GW_PUT_END) {
        err = gw_verbs_write(l, put->path, put->src, len, NULL, l->theirs.inbox + cell_at(&put->head), l->theirs.inbox_key,
                             imm_p, 1, what);
    } else {
        lkey = put->region != NULL && put->region->priv != NULL ? ((struct ibv_mr *)put->region->priv)->lkey : 0;
        err = gw_verbs_write(l, put->path, put->src, len, &lkey, put->addr, put->key[0], imm_p,
                             (put->flags & GW_PUTF_SIGNAL) != 0, what);
    }
    if (err == GW_OK)
        lane->wire_tx += len;
    return err;
}

gw_err gw_verbs_recv_post(struct gw_verbs_lane *l, unsigned path, uint32_t n)
{
    struct ibv_recv_wr wr[GW_VERBS_BATCH], *bad;

    for (uint32_t i = 0; i < GW_VERBS_BATCH; i++)
        wr[i] = (struct ibv_recv_wr){ .wr_id = (uint64_t)path << PATH_SHIFT, .next = &wr[i + 1] };
    while (n > 0) {
        uint32_t now = (uint32_t)gw_min_u64(n, GW_VERBS_BATCH);
        int code;
        wr[now - 1].next = NULL;
        code = ibv_post_recv(l->qp[path].qp, wr, &bad);
        if (code != 0) {
            gw_verbs_fail(l, GW_E_LANE, "a receive cannot be posted on %s: %s", l->dev->name, strerror(code < 0 ? -code : code));
            return GW_E_LANE;
        }
        wr[now - 1].next = now < GW_VERBS_BATCH ? &wr[now] : NULL;
        n -= now;
    }
    return GW_OK;
}

/* ---- what arrives ---- */

static int end_arrived(struct gw_verbs_lane *l, const struct gw_head *h, uint32_t len)
{
    if (len != GW_END_BYTES || h->piece >= l->lane.paths)
        return 0;
    gw_copy_once(l->lane.places->slot[h->number % GW_SLOTS].end[h->buffer][h->piece], l->inbox + cell_at(h), GW_END_BYTES);
    return 1;
}

/* 1: an event stands in ev. */
static int arrived(struct gw_verbs_lane *l, unsigned path, const struct ibv_wc *wc, struct gw_event *ev)
{
    uint32_t head = 0, len = wc->byte_len;
    struct gw_head h;

    l->qp[path].recv_missing++;
    if (!l->is_recv || wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || gw_imm_read(be32toh(wc->imm_data), &h) != GW_OK) {
        gw_verbs_fail(l, GW_E_PROTO, "the peer sent what is no put of the protocol");
        return 0;
    }
    if (h.kind == GW_PUT_CODED)
        head = GW_HEAD_BYTES;
    if (len < head || (h.kind == GW_PUT_END && !end_arrived(l, &h, len))) {
        gw_verbs_fail(l, GW_E_PROTO, "a put of %u bytes is none of the protocol", len);
        return 0;
    }
    *ev = (struct gw_event){ .kind = GW_EV_LANDED, .path = (uint8_t)path, .head = h, .len = len - head };
    l->lane.wire_rx += len;
    return 1;
}

static void post_missing(struct gw_verbs_lane *l)
{
    for (unsigned i = 0; i < l->lane.paths; i++) {
        if (l->qp[i].recv_missing == 0)
            continue;
        if (l->failed == GW_OK)
            gw_verbs_recv_post(l, i, l->qp[i].recv_missing);
        l->qp[i].recv_missing = 0;
    }
}

/* Takes completions.  What they say of our writes stands in `done` afterwards; puts of the peer are events. */
int gw_verbs_reap(struct gw_verbs_lane *l, struct gw_event *ev, int max)
{
    struct ibv_wc wc[GW_VERBS_BATCH];
    int want = l->is_recv ? (int)gw_min_u64((uint64_t)max, GW_VERBS_BATCH) : GW_VERBS_BATCH, n = 0;
    int got = want > 0 ? ibv_poll_cq(l->cq, want, wc) : 0;

    if (got < 0)
        gw_verbs_fail(l, GW_E_LANE, "the completion queue of %s cannot be read", l->dev->name);
    for (int i = 0; i < got; i++) {
        int is_send = (int)(wc[i].wr_id >> IS_SEND_SHIFT);
        unsigned path = wc[i].wr_id >> PATH_SHIFT & (GW_PATHS_MAX - 1);
        if (wc[i].status != IBV_WC_SUCCESS)
            broke(l, path, is_send, &wc[i]);
        else if (is_send)
            l->qp[path].done = (uint32_t)wc[i].wr_id + 1;
        else
            n += arrived(l, path, &wc[i], &ev[n]);
    }
    post_missing(l);
    return n;
}

/* ---- poll ---- */

static int tell_sent(struct gw_verbs_lane *l, struct gw_event *ev, int max)
{
    int n = 0;

    for (unsigned i = 0; i < l->lane.paths; i++) {
        struct gw_verbs_qp *q = &l->qp[i];
        while (q->told != q->done && n < max) {
            const struct gw_verbs_sent *s = &q->ring[q->told++ & (l->ring_size - 1)];
            if (s->is_put)
                ev[n++] = (struct gw_event){ .kind = GW_EV_SENT, .path = (uint8_t)i, .cookie = s->cookie };
        }
    }
    return n;
}

/* A device that died completes nothing any more, and no retry ever ends. */
static void died(struct gw_verbs_lane *l)
{
    if (l->dev->fatal)
        gw_verbs_fail(l, GW_E_LANE, "%s:%u has failed as a whole", l->mine.device, l->mine.port);
    else
        gw_verbs_fail(l, GW_E_LANE, "%s:%u says of our queue pair %u to %s:%u: %s", l->mine.device, l->mine.port, l->mine.qpn[0],
                      l->theirs.device, l->theirs.port, ibv_event_type_str((enum ibv_event_type)l->event));
}

int gw_verbs_poll(struct gw_lane *lane, struct gw_event *ev, int max)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;
    int n = 0;

    if (!l->up || l->down)
        return 0;
    if (l->failed == GW_OK && (l->event | l->dev->fatal))
        died(l);
    if (l->failed == GW_OK) {
        if (!l->is_recv)
            n += gw_verbs_lines(l, ev, max);
        n += gw_verbs_reap(l, ev + n, max - n);
    }
    n += tell_sent(l, ev + n, max - n);
    if (n < max && l->failed != GW_OK && !l->failed_said) {
        ev[n++] = (struct gw_event){ .kind = GW_EV_FAILED, .err = l->failed };
        l->failed_said = 1;
    }
    return n;
}
