/* verbs_bed.h - the verbs lane without a device: the context's post and poll are ours, and complete with what the test wants.
 * A write is carried out when it is posted: both ends are in this process.  For test_verbs*.c, once each. */
#ifndef GW_TESTS_VERBS_BED_H
#define GW_TESTS_VERBS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <stdio.h>

#include <verbs.h>

enum { RING = 16, QUEUE = 64, KEY = 7, USER_KEY = 9 };

/* What the device was told, and what it will say. */
static struct device {
    struct verbs_context v;
    struct ibv_send_wr wr[QUEUE];
    struct ibv_sge sge[QUEUE];
    struct ibv_wc wc[QUEUE];
    int posted, wcs, recvs, full, deaf;
} dev;

static inline int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    *bad = wr;
    if (dev.full)
        return ENOMEM;
    assert_null(wr->next);
    assert_true(dev.posted < QUEUE);
    dev.wr[dev.posted] = *wr;
    if (wr->num_sge > 0)
        dev.sge[dev.posted] = wr->sg_list[0];
    dev.posted++;
    if (wr->num_sge > 0 && wr->wr.rdma.rkey == KEY && !dev.deaf)
        memcpy((void *)(uintptr_t)wr->wr.rdma.remote_addr, (void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length);
    return 0;
}

static inline int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)bad;
    for (; wr != NULL; wr = wr->next)
        dev.recvs++;
    return 0;
}

static inline int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    int got = n < dev.wcs ? n : dev.wcs;

    (void)cq;
    memcpy(wc, dev.wc, (size_t)got * sizeof *wc);
    memmove(dev.wc, dev.wc + got, (size_t)(dev.wcs - got) * sizeof *wc);
    dev.wcs -= got;
    return got;
}

static inline int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
    (void)ctx, (void)port, (void)len;
    attr->state = IBV_PORT_DOWN;
    return 0;
}

/* ---- two lanes ---- */

static uint64_t now;

static inline uint64_t now_ns(void)
{
    return now;
}

static struct gw_verbs_dev vdev;
static struct gw_verbs_lane tx, rx;
static struct gw_place_table places;
static struct ibv_qp qp;
static struct ibv_cq cq;
static struct ibv_mr mr = { .lkey = 3 }, user_mr = { .lkey = 4, .rkey = USER_KEY };
static uint8_t user[4096];
static const struct gw_region region = { .base = user, .bytes = sizeof user, .key = { USER_KEY }, .priv = &user_mr };
static _Alignas(64) uint8_t box[2][GW_VERBS_INBOX_RECV + GW_VERBS_INBOX_SEND];

static inline void lane_fill(struct gw_verbs_lane *l, uint8_t *inbox, uint8_t *peers)
{
    free(l->qp[0].ring), free(l->qp[0].copies);
    memset(l, 0, sizeof *l);
    l->dev = &vdev, l->cq = &cq, l->lane.paths = 1;
    l->up = 1, l->is_recv = l == &rx;
    l->ring_size = RING, l->copy_bytes = GW_OFFER_MAX;
    l->outbox_mr = &mr;
    l->inbox = inbox;
    l->theirs.inbox = (uintptr_t)peers, l->theirs.inbox_key = KEY;
    l->mine.port = l->theirs.port = 1;
    strcpy(l->mine.device, l->is_recv ? "right" : "left");
    strcpy(l->theirs.device, l->is_recv ? "left" : "right");
    l->mine.qpn[0] = 17, l->theirs.qpn[0] = 18;
    l->qp[0].qp = &qp;
    l->qp[0].ring = calloc(RING, sizeof *l->qp[0].ring);
    l->qp[0].copies = calloc(RING, GW_OFFER_MAX);
    l->lane.places = l->is_recv ? &places : NULL;
}

static inline int begin(void **state)
{
    (void)state;
    memset(&dev, 0, sizeof dev);
    memset(box, 0, sizeof box);
    memset(&places, 0, sizeof places);
    dev.v.sz = sizeof dev.v;
    dev.v.query_port = query_port;
    dev.v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    dev.v.context.ops.post_send = post_send;
    dev.v.context.ops.post_recv = post_recv;
    dev.v.context.ops.poll_cq = poll_cq;
    qp.context = cq.context = vdev.ctx = &dev.v.context;
    vdev.host.now_ns = now_ns;
    vdev.port = 1, vdev.fatal = 0;
    lane_fill(&tx, box[0], box[1]);
    lane_fill(&rx, box[1], box[0]);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    free(tx.qp[0].ring), free(tx.qp[0].copies), free(rx.qp[0].ring), free(rx.qp[0].copies);
    tx.qp[0] = rx.qp[0] = (struct gw_verbs_qp){ 0 };
    return 0;
}

static inline void complete(int at, enum ibv_wc_status status)
{
    dev.wc[dev.wcs++] = (struct ibv_wc){ .wr_id = dev.wr[at].wr_id, .status = status, .vendor_err = 0x81,
                                         .opcode = (enum ibv_wc_opcode)99, .byte_len = 12345 };
}

static inline void arrive(const struct gw_head *h, uint32_t len)
{
    dev.wc[dev.wcs++] = (struct ibv_wc){ .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = len,
                                         .imm_data = htobe32(gw_imm_write(h)) };
}

static inline struct gw_put put_of(enum gw_put_kind kind, uint32_t len)
{
    return (struct gw_put){ .head = { .number = 33, .buffer = 1, .kind = (uint8_t)kind }, .src = user, .len = len,
                            .flags = GW_PUTF_SIGNAL | (kind == GW_PUT_RAW ? 0 : GW_PUTF_IMM), .region = &region,
                            .addr = 0x1000, .key = { USER_KEY }, .cookie = 100 + kind };
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
#endif
