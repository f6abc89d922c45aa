/* test_verbs.c - the verbs lane over a device that is made up: what is posted, every way it can end, what devices say of
 * themselves, what arrives. */
#include "verbs_bed.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_one_request_each), CASE(test_refused), CASE(test_sent_in_order), CASE(test_every_status),
        CASE(test_events), CASE(test_port_events), CASE(test_landed), CASE(test_strange_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
