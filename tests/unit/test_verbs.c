/* test_verbs.c - the verbs lane without a device: the context's post and poll are ours, and complete with what the test wants.
 * A write is carried out when it is posted: both ends are in this process. */
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

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
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

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)bad;
    for (; wr != NULL; wr = wr->next)
        dev.recvs++;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    int got = n < dev.wcs ? n : dev.wcs;

    (void)cq;
    memcpy(wc, dev.wc, (size_t)got * sizeof *wc);
    memmove(dev.wc, dev.wc + got, (size_t)(dev.wcs - got) * sizeof *wc);
    dev.wcs -= got;
    return got;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
    (void)ctx, (void)port, (void)len;
    attr->state = IBV_PORT_DOWN;
    return 0;
}

/* ---- two lanes ---- */

static uint64_t now;

static uint64_t now_ns(void)
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

static void lane_fill(struct gw_verbs_lane *l, uint8_t *inbox, uint8_t *peers)
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
    strcpy(l->mine.device, l->is_recv ? "right" : "left"), strcpy(l->theirs.device, l->is_recv ? "left" : "right");
    l->mine.qpn[0] = 17, l->theirs.qpn[0] = 18;
    l->qp[0].qp = &qp;
    l->qp[0].ring = calloc(RING, sizeof *l->qp[0].ring);
    l->qp[0].copies = calloc(RING, GW_OFFER_MAX);
    l->lane.places = l->is_recv ? &places : NULL;
}

static int begin(void **state)
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

static int end(void **state)
{
    (void)state;
    free(tx.qp[0].ring), free(tx.qp[0].copies), free(rx.qp[0].ring), free(rx.qp[0].copies);
    tx.qp[0] = rx.qp[0] = (struct gw_verbs_qp){ 0 };
    return 0;
}

static void complete(int at, enum ibv_wc_status status)
{
    dev.wc[dev.wcs++] = (struct ibv_wc){ .wr_id = dev.wr[at].wr_id, .status = status, .vendor_err = 0x81,
                                         .opcode = (enum ibv_wc_opcode)99, .byte_len = 12345 };
}

static void arrive(const struct gw_head *h, uint32_t len)
{
    dev.wc[dev.wcs++] = (struct ibv_wc){ .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = len,
                                         .imm_data = htobe32(gw_imm_write(h)) };
}

static struct gw_put put_of(enum gw_put_kind kind, uint32_t len)
{
    return (struct gw_put){ .head = { .number = 33, .buffer = 1, .kind = (uint8_t)kind }, .src = user, .len = len,
                            .flags = GW_PUTF_SIGNAL | (kind == GW_PUT_RAW ? 0 : GW_PUTF_IMM), .region = &region,
                            .addr = 0x1000, .key = { USER_KEY }, .cookie = 100 + kind };
}

/* ---- posting ---- */

static void test_one_request_each(void **state)
{
    struct gw_put raw = put_of(GW_PUT_RAW, 1000), whole = put_of(GW_PUT_WHOLE, 0), coded = put_of(GW_PUT_CODED, 500),
                  last = put_of(GW_PUT_END, GW_END_BYTES);
    uint32_t cell = GW_VERBS_READY + (1 * GW_BUFFERS_MAX + 1) * GW_PATHS_MAX * GW_END_BYTES;

    (void)state;
    assert_int_equal(gw_verbs_put(&tx.lane, &raw), GW_OK);
    assert_int_equal(gw_verbs_put(&tx.lane, &whole), GW_OK);
    assert_int_equal(gw_verbs_put(&tx.lane, &coded), GW_OK);
    last.region = NULL;
    assert_int_equal(gw_verbs_put(&tx.lane, &last), GW_OK);
    assert_int_equal(dev.posted, 4);
    assert_int_equal(dev.wr[0].opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(dev.sge[0].length, 1000);
    assert_int_equal(dev.sge[0].lkey, user_mr.lkey);
    assert_int_equal(dev.wr[1].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(dev.wr[1].num_sge, 0);
    assert_int_equal(be32toh(dev.wr[1].imm_data), gw_imm_write(&whole.head));
    assert_int_equal(dev.sge[2].length, 500 + GW_HEAD_BYTES);
    assert_int_equal(dev.wr[3].wr.rdma.remote_addr, (uintptr_t)box[1] + cell);
    assert_memory_equal(box[1] + cell, user, GW_END_BYTES);
}

static void test_refused(void **state)
{
    struct gw_put put = put_of(GW_PUT_RAW, 10);

    (void)state;
    put.region = NULL;
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_E_ARG);
    put = put_of(GW_PUT_RAW, 10), put.flags |= GW_PUTF_IMM;
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_E_ARG);
    put = put_of(GW_PUT_END, 31);
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_E_ARG);
    put = put_of(GW_PUT_WHOLE, 1), put.path = 1;
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_E_ARG);
    assert_int_equal(dev.posted, 0);
}

/* A completion speaks for all before it; what is not complete keeps its place. */
static void test_sent_in_order(void **state)
{
    struct gw_put put = put_of(GW_PUT_RAW, 10);
    struct gw_event ev[RING];

    (void)state;
    put.flags = 0;
    for (int i = 0; i < RING; i++) {
        put.cookie = (uint64_t)i;
        assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_OK);
    }
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_AGAIN);
    assert_int_equal(dev.posted, RING);
    assert_true((dev.wr[7].send_flags & IBV_SEND_SIGNALED) && !(dev.wr[6].send_flags & IBV_SEND_SIGNALED));
    complete(7, IBV_WC_SUCCESS);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, 5), 5);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev + 5, RING), 3);
    for (int i = 0; i < 8; i++)
        assert_true(ev[i].kind == GW_EV_SENT && ev[i].cookie == (uint64_t)i);
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_OK);
    dev.full = 1;
    assert_int_equal(gw_verbs_put(&tx.lane, &put), GW_AGAIN);
}

/* Every status a device can answer: said once, with all that is known of it, and the rest is counted. */
static void test_every_status(void **state)
{
    struct gw_event ev[RING];

    for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_GENERAL_ERR; status++) {
        struct gw_put put = put_of(GW_PUT_WHOLE, 10);
        begin(state);
        gw_verbs_put(&tx.lane, &put);
        gw_verbs_put(&tx.lane, &put);
        complete(0, (enum ibv_wc_status)status);
        complete(1, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
        assert_int_equal(ev[0].kind, GW_EV_FAILED);
        assert_int_equal(ev[0].err, status == IBV_WC_REM_ACCESS_ERR ? GW_E_PROTO : GW_E_LANE);
        assert_non_null(strstr(tx.lane.why, ibv_wc_status_str((enum ibv_wc_status)status)));
        assert_non_null(strstr(tx.lane.why, "vendor 0x81"));
        assert_non_null(strstr(tx.lane.why, "left:1"));
        assert_non_null(strstr(tx.lane.why, "right:1"));
        assert_non_null(strstr(tx.lane.why, "port down"));
        assert_non_null(strstr(tx.lane.why, "qp 18"));
        assert_int_equal(tx.flushed, 1);
        assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
        assert_int_equal(gw_verbs_put(&tx.lane, &put), ev[0].err);
    }
}

/* What a device says of itself: rdma_rxe never says any of it. */
static void test_events(void **state)
{
    struct ibv_qp dead = { .qp_context = &tx };
    struct ibv_async_event e = { .element.qp = &dead, .event_type = IBV_EVENT_QP_FATAL };
    struct gw_event ev[RING];

    (void)state;
    gw_verbs_event(&vdev, &e);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_true(ev[0].kind == GW_EV_FAILED && ev[0].err == GW_E_LANE);
    assert_non_null(strstr(tx.lane.why, ibv_event_type_str(IBV_EVENT_QP_FATAL)));
    e = (struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL };
    gw_verbs_event(&vdev, &e);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 1);
    assert_true(ev[0].kind == GW_EV_FAILED);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 0);
}

static char lines[1000];

static void keep(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg, (void)level;
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

/* Each change of the port is said once, and another port's is not ours. */
static void test_port_events(void **state)
{
    static const struct gw_logger log = { .write = keep, .level = GW_LOG_INFO };
    struct ibv_async_event e = { .element.port_num = 2, .event_type = IBV_EVENT_PORT_ERR };
    const char *first;

    (void)state;
    lines[0] = 0;
    vdev.host.log = &log;
    gw_verbs_event(&vdev, &e);
    assert_string_equal(lines, "");
    e.element.port_num = 1;
    gw_verbs_event(&vdev, &e), gw_verbs_event(&vdev, &e);
    first = strstr(lines, "is down");
    assert_non_null(first);
    assert_null(strstr(first + 1, "is down"));
    now += 3000000000;
    e.event_type = IBV_EVENT_PORT_ACTIVE;
    gw_verbs_event(&vdev, &e);
    assert_non_null(strstr(lines, "is up again after 3000 ms"));
    vdev.host.log = NULL;
}

/* ---- what arrives ---- */

static void test_landed(void **state)
{
    struct gw_head whole = { .number = 5, .kind = GW_PUT_WHOLE }, coded = { .number = 6, .kind = GW_PUT_CODED, .piece = 2 },
                   last = { .number = 7, .buffer = 3, .kind = GW_PUT_END };
    struct gw_event ev[RING];

    (void)state;
    memset(box[1] + GW_VERBS_READY + (7 * GW_BUFFERS_MAX + 3) * GW_PATHS_MAX * GW_END_BYTES, 0x5a, GW_END_BYTES);
    arrive(&whole, 4000), arrive(&coded, 300 + GW_HEAD_BYTES), arrive(&last, GW_END_BYTES);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, 2), 2);
    assert_int_equal(dev.recvs, 2); /* posted again before the host can say an offer */
    assert_int_equal(gw_verbs_poll(&rx.lane, ev + 2, 2), 1);
    assert_true(ev[0].head.kind == GW_PUT_WHOLE && ev[0].len == 4000 && ev[0].head.number == 5);
    assert_true(ev[1].head.kind == GW_PUT_CODED && ev[1].len == 300 && ev[1].head.piece == 2);
    assert_int_equal(places.slot[7].end[3][0][31], 0x5a);
    assert_int_equal(dev.recvs, 3);
}

static void expect_proto(void)
{
    struct gw_event ev[RING];

    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 1);
    assert_true(ev[0].kind == GW_EV_FAILED && ev[0].err == GW_E_PROTO);
    begin(NULL);
}

static void test_strange_arrivals(void **state)
{
    struct gw_head coded = { .kind = GW_PUT_CODED }, last = { .kind = GW_PUT_END }, other = { .kind = GW_PUT_END, .piece = 1 };

    (void)state;
    arrive(&coded, GW_HEAD_BYTES - 1);
    expect_proto();
    arrive(&last, GW_END_BYTES + 1);
    expect_proto();
    arrive(&other, GW_END_BYTES); /* a path that the lane has not */
    expect_proto();
    arrive(&last, GW_END_BYTES), dev.wc[0].imm_data = 0xff;
    expect_proto();
    arrive(&last, GW_END_BYTES), dev.wc[0].opcode = IBV_WC_RECV;
    expect_proto();
}

/* ---- offers and grants ---- */

static uint32_t offer_of(uint32_t number, uint8_t buffers, uint8_t pieces, uint8_t *out)
{
    struct gw_offer o = { .number = number, .buffers = buffers, .pieces = pieces, .piece_bytes = pieces ? 4096 : 0 };

    for (int i = 0; i < buffers; i++)
        o.buf[i] = (struct gw_offer_buf){ .addr = 0x10000, .cap = 100, .tag = (uint32_t)i };
    return gw_offer_write(out, &o);
}

static void test_offers(void **state)
{
    uint8_t two[GW_MSG_MAX], eight[GW_OFFER_MAX];
    uint32_t a = offer_of(0, 1, 0, two), b = offer_of(1, 2, 2, two + a), c = offer_of(2, 8, 0, eight);
    struct gw_event ev[RING];

    (void)state;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, two, a + b), GW_OK);
    assert_int_equal(gw_verbs_msg(&rx.lane, eight, c), GW_OK);
    assert_int_equal(dev.posted, 3);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 3);
    assert_memory_equal(ev[0].msg, two, a);
    assert_memory_equal(ev[1].msg, two + a, b);
    assert_memory_equal(ev[2].msg, eight, c);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, two, a - 1), GW_E_ARG);
    assert_int_equal(gw_verbs_msg(&tx.lane, two, a), GW_E_ARG);
}

/* Seen half written it is none; and one that stays so is the peer's fault. */
static void test_torn_offer(void **state)
{
    uint8_t msg[GW_OFFER_MAX];
    uint32_t len = offer_of(0, 1, 0, msg);
    struct gw_event ev[RING];

    (void)state;
    gw_verbs_msg(&rx.lane, msg, len);
    for (uint32_t i = 0; i < len; i++) {
        box[0][i] ^= 1;
        assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
        box[0][i] ^= 1;
    }
    box[0][70] ^= 1;
    now += 1;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    now += 2000000000;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_true(ev[0].kind == GW_EV_FAILED && ev[0].err == GW_E_PROTO);
}

static void test_grants(void **state)
{
    struct gw_grant g = { .number = 0, .count = { 2, 1 } };
    uint8_t offer[GW_OFFER_MAX], grant[GW_GRANT_BYTES], *line = box[0] + GW_VERBS_GRANTS;
    struct gw_event ev[RING];

    (void)state;
    gw_verbs_msg(&rx.lane, offer, offer_of(0, 1, 2, offer));
    gw_grant_write(grant, &g);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_int_equal(gw_verbs_msg(&rx.lane, grant, sizeof grant), GW_OK);
    line[8] ^= 1; /* not all of it is there yet */
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    line[8] ^= 1;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_true(ev[0].len == sizeof grant);
    assert_memory_equal(ev[0].msg, grant, sizeof grant);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
}

/* No room for all of a message: nothing of it leaves. */
static void test_words_wait(void **state)
{
    uint8_t msg[GW_OFFER_MAX];
    struct gw_event ev[RING];

    (void)state;
    for (uint32_t i = 0; i < RING; i++)
        assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(i, 1, 0, msg)), GW_OK);
    assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(RING, 1, 0, msg)), GW_AGAIN);
    complete(RING - 1, IBV_WC_SUCCESS);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(RING, 1, 0, msg)), GW_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_one_request_each), CASE(test_refused), CASE(test_sent_in_order), CASE(test_every_status), CASE(test_events), CASE(test_port_events), CASE(test_landed),
        CASE(test_strange_arrivals), CASE(test_offers), CASE(test_torn_offer), CASE(test_grants), CASE(test_words_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
