/* verbs_conn.c - the life of a lane: make, local, join, shut, close.
 *
 * A queue pair that writes to one that is not up yet would use up its retries.  So the sender's first write says "I am
 * here", the receiver says nothing before it has seen that, and the receiver's queue pair is up before its hello is answered
 * to: join brings it up at once. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <base/bytes.h>
#include <base/check.h>

enum { RNR_TIMER = 12, RNR_RETRY = 7, READY = 0x79646172 };

/* ---- make ---- */

gw_err gw_verbs_make(void *dev, struct gw_lane **lane_p)
{
    struct gw_verbs_dev *d = dev;
    struct gw_verbs_lane *l = calloc(1, sizeof *l);

    if (l == NULL)
        return GW_E_NOMEM;
    l->dev = d;
    l->lane.ops = gw_lane_module_v1.ops;
    l->lane.caps = GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED | GW_LANE_ORDERED | GW_LANE_DIRECT;
    l->lane.paths = d->paths;
    snprintf(l->lane.name, sizeof l->lane.name, "verbs/%.12s", d->name);
    *lane_p = &l->lane;
    return GW_OK;
}

static gw_err cannot(struct gw_verbs_lane *l, const char *what)
{
    int code = errno;

    snprintf(l->lane.why, sizeof l->lane.why, "%s on %s: %s%s", what, l->dev->name, strerror(code),
             code == ENOMEM ? " (ulimit -l, or the device's own limit)" : "");
    gw_verbs_log(l->dev, GW_LOG_WARN, "verbs: %s", l->lane.why);
    return code == ENOMEM ? GW_E_NOMEM : GW_E_DEVICE;
}

static void *pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    void *p = aligned_alloc(page, whole);

    if (p != NULL)
        memset(p, 0, whole);
    return p;
}

static gw_err make_boxes(struct gw_verbs_lane *l)
{
    size_t out;

    l->is_recv = l->lane.places != NULL;
    l->inbox_bytes = l->is_recv ? GW_VERBS_INBOX_RECV : GW_VERBS_INBOX_SEND;
    l->copy_bytes = l->is_recv ? GW_OFFER_MAX : GW_END_BYTES;
    for (l->ring_size = 1; l->ring_size < (l->is_recv ? GW_VERBS_WORDS : l->dev->depth);)
        l->ring_size *= 2;
    out = (size_t)l->ring_size * l->copy_bytes * l->lane.paths;
    l->inbox = pages(l->inbox_bytes);
    l->outbox = pages(out);
    if (l->inbox == NULL || l->outbox == NULL)
        return GW_E_NOMEM;
    l->inbox_mr = ibv_reg_mr(l->dev->pd, l->inbox, l->inbox_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    l->outbox_mr = l->inbox_mr ? ibv_reg_mr(l->dev->pd, l->outbox, out, 0) : NULL;
    return l->outbox_mr != NULL ? GW_OK : cannot(l, "the lane's own memory cannot be registered");
}

/* The most that is sent inline is a wish: a device that cannot gets the same bytes from registered copies. */
static struct ibv_qp *create_qp(struct gw_verbs_lane *l, uint32_t *inline_p)
{
    static const uint32_t sizes[] = { GW_VERBS_INLINE, 128, GW_LINE, 0 };
    struct ibv_qp *qp = NULL;

    for (size_t i = 0; i < GW_LEN(sizes) && qp == NULL; i++) {
        struct ibv_qp_init_attr attr = {
            .qp_context = l,
            .send_cq = l->cq,
            .recv_cq = l->cq,
            .cap = { .max_send_wr = l->ring_size, .max_recv_wr = l->is_recv ? GW_VERBS_RECVS : 1, .max_send_sge = 1,
                     .max_recv_sge = 1, .max_inline_data = sizes[i] },
            .qp_type = IBV_QPT_RC,
        };
        qp = ibv_create_qp(l->dev->pd, &attr);
        *inline_p = qp != NULL ? attr.cap.max_inline_data : 0;
    }
    return qp;
}

static gw_err make_path(struct gw_verbs_lane *l, unsigned path)
{
    struct gw_verbs_qp *q = &l->qp[path];
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = l->dev->port,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    q->ring = calloc(l->ring_size, sizeof *q->ring);
    q->copies = l->outbox + (size_t)path * l->ring_size * l->copy_bytes;
    if (q->ring == NULL || getrandom(&q->psn, sizeof q->psn, 0) != sizeof q->psn)
        return GW_E_NOMEM;
    q->psn &= 0xffffff;
    q->qp = create_qp(l, &q->inline_max);
    if (q->qp == NULL)
        return cannot(l, "no queue pair can be made");
    errno = ibv_modify_qp(q->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (errno != 0)
        return cannot(l, "a queue pair cannot be initialised");
    l->mine.qpn[path] = q->qp->qp_num;
    l->mine.psn[path] = q->psn;
    return GW_OK;
}

gw_err gw_verbs_local(struct gw_lane *lane, struct gw_blob *blob)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;
    gw_err err = gw_verbs_address(l->dev, &l->mine, lane->why, sizeof lane->why);

    if (err == GW_OK)
        err = make_boxes(l);
    if (err != GW_OK)
        return err;
    l->cq = ibv_create_cq(l->dev->ctx, (int)(lane->paths * (l->ring_size + (l->is_recv ? GW_VERBS_RECVS : 1))), NULL, NULL, 0);
    if (l->cq == NULL)
        return cannot(l, "no completion queue can be made");
    for (unsigned i = 0; i < lane->paths && err == GW_OK; i++)
        err = make_path(l, i);
    if (err != GW_OK)
        return err;
    l->mine.paths = lane->paths;
    l->mine.inbox = (uintptr_t)l->inbox;
    l->mine.inbox_bytes = l->inbox_bytes;
    l->mine.inbox_key = l->inbox_mr->rkey;
    gw_verbs_blob_write(blob, &l->mine);
    return GW_OK;
}

/* ---- join ---- */

static int same_family(const uint8_t *a, const uint8_t *b)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    return (memcmp(a, mapped, 12) == 0) == (memcmp(b, mapped, 12) == 0);
}

/* What would end in a silent retry is said here. */
static gw_err peer_fits(struct gw_verbs_lane *l)
{
    const struct gw_verbs_blob *m = &l->mine, *t = &l->theirs;
    uint32_t box = l->is_recv ? GW_VERBS_INBOX_SEND : GW_VERBS_INBOX_RECV;
    char *why = l->lane.why;
    char mine[64], theirs[64];

    gw_verbs_gid_text(m, mine);
    gw_verbs_gid_text(t, theirs);
    if (t->inbox_bytes != box || t->paths != m->paths) {
        snprintf(why, sizeof l->lane.why, "the peer's end of the lane has %u paths and an inbox of %u bytes, and ours fits %u and %u",
                 t->paths, t->inbox_bytes, m->paths, box);
        return GW_E_REFUSED;
    }
    if (t->is_ib != m->is_ib || (!m->is_ib && !same_family(m->gid, t->gid))) {
        snprintf(why, sizeof l->lane.why, "%s:%u has %s and the peer's %s:%u has %s: they are not of one fabric", m->device,
                 m->port, mine, t->device, t->port, theirs);
        return GW_E_REFUSED;
    }
    return GW_OK;
}

static struct ibv_ah_attr way_to(const struct gw_verbs_lane *l)
{
    const struct gw_verbs_blob *m = &l->mine, *t = &l->theirs;
    struct ibv_ah_attr ah = { .port_num = m->port, .sl = l->dev->sl, .dlid = t->lid };

    /* on InfiniBand a global header is for another subnet only; RoCE has nothing else */
    ah.is_global = !m->is_ib || memcmp(m->gid, t->gid, 8) != 0;
    if (ah.is_global) {
        memcpy(ah.grh.dgid.raw, t->gid, sizeof t->gid);
        ah.grh.sgid_index = m->gid_index;
        ah.grh.hop_limit = 64;
        ah.grh.traffic_class = l->dev->tc;
    }
    return ah;
}

static gw_err not_up(struct gw_verbs_lane *l, const char *state, int code)
{
    char mine[64], theirs[64];

    gw_verbs_gid_text(&l->mine, mine);
    gw_verbs_gid_text(&l->theirs, theirs);
    snprintf(l->lane.why, sizeof l->lane.why, "%s:%u %s cannot be brought to %s towards %s:%u %s: %s", l->mine.device,
             l->mine.port, mine, state, l->theirs.device, l->theirs.port, theirs, strerror(code));
    return GW_E_LANE;
}

static gw_err bring_up(struct gw_verbs_lane *l, unsigned path)
{
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)gw_min_u64(l->mine.mtu, l->theirs.mtu),
        .dest_qp_num = l->theirs.qpn[path],
        .rq_psn = l->theirs.psn[path],
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = way_to(l),
    };
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = l->dev->timeout, .retry_cnt = l->dev->retry,
                               .rnr_retry = RNR_RETRY, .sq_psn = l->qp[path].psn };
    int code = ibv_modify_qp(l->qp[path].qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

    if (code != 0)
        return not_up(l, "RTR", code);
    if (l->is_recv && gw_verbs_recv_post(l, path, GW_VERBS_RECVS) != GW_OK)
        return GW_E_LANE;
    code = ibv_modify_qp(l->qp[path].qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    return code == 0 ? GW_OK : not_up(l, "RTS", code);
}

static gw_err first_join(struct gw_verbs_lane *l, const struct gw_blob *peer)
{
    gw_err err = gw_verbs_blob_read(peer, &l->theirs);

    if (err != GW_OK) {
        snprintf(l->lane.why, sizeof l->lane.why, "the peer's hello holds no verbs lane that this build can read");
        return err;
    }
    err = peer_fits(l);
    for (unsigned i = 0; i < l->lane.paths && err == GW_OK; i++)
        err = bring_up(l, i);
    l->up = err == GW_OK;
    return err;
}

static gw_err say_ready(struct gw_verbs_lane *l)
{
    uint8_t word[4];

    gw_put32(word, READY);
    l->said_ready = 1;
    return gw_verbs_write(l, 0, word, sizeof word, NULL, l->theirs.inbox, l->theirs.inbox_key, NULL, 1, (struct gw_verbs_sent){ 0 });
}

gw_err gw_verbs_join(struct gw_lane *lane, const struct gw_blob *peer)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;
    gw_err err = l->up ? GW_OK : first_join(l, peer);

    if (err != GW_OK)
        return err;
    if (l->is_recv)
        return __atomic_load_n((uint32_t *)(void *)l->inbox, __ATOMIC_ACQUIRE) != 0 ? GW_OK : GW_AGAIN;
    if (!l->said_ready)
        err = say_ready(l);
    if (err == GW_OK)
        gw_verbs_reap(l, NULL, 0);
    if (err != GW_OK || l->failed != GW_OK)
        return err != GW_OK ? err : l->failed;
    if (l->qp[0].done != l->qp[0].posted)
        return GW_AGAIN;
    l->qp[0].told = l->qp[0].done;
    return GW_OK;
}

/* ---- the end ---- */

/* A queue pair that is destroyed reads and writes nothing any more. */
void gw_verbs_shut(struct gw_lane *lane)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;

    l->down = 1;
    for (unsigned i = 0; i < GW_PATHS_MAX; i++) {
        if (l->qp[i].qp != NULL)
            ibv_destroy_qp(l->qp[i].qp);
        l->qp[i].qp = NULL;
    }
}

void gw_verbs_close(struct gw_lane *lane)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;

    if (lane == NULL)
        return;
    gw_verbs_shut(lane);
    if (l->cq != NULL)
        ibv_destroy_cq(l->cq);
    if (l->inbox_mr != NULL)
        ibv_dereg_mr(l->inbox_mr);
    if (l->outbox_mr != NULL)
        ibv_dereg_mr(l->outbox_mr);
    for (unsigned i = 0; i < GW_PATHS_MAX; i++)
        free(l->qp[i].ring);
    free(l->inbox);
    free(l->outbox);
    free(l);
}
