/* test_loop.c - the loop lane without faults: what a put, a message and an end of life look like. */
#include <pthread.h>
#include <sched.h>

#include "loop_pair.h"

static const struct gw_loop_conf counts = {.caps = GW_LANE_COUNTS};
static const struct gw_loop_conf fenced = {
    .caps = GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED, .quiet = 1};

static void conf_that_says_nothing_possible_is_refused(void **state)
{
    static const struct gw_loop_conf bad[] = {
        {.caps = 0},
        {.caps = GW_LANE_COUNTS | GW_LANE_FENCED},
        {.caps = GW_LANE_COUNTS, .paths = GW_PATHS_MAX + 1},
        {.caps = GW_LANE_COUNTS, .again_permille = 1000},
        {.caps = GW_LANE_COUNTS | GW_LANE_DMABUF},
    };
    struct gw_loop_net *net;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(gw_loop_net_new(&bad[i], &net), GW_E_ARG);
}

static void whole_message_is_counted(void **state)
{
    struct pair *p = pair_new(&counts, 1000);
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 1000);
    const struct gw_event *landed;

    (void)state;
    put.cookie = 0xfeedfacecafe;
    pair_post(p, &put);
    pair_settle(p);
    assert_int_equal(p->n, 2);
    assert_true(pair_find(p, p->tx, GW_EV_SENT)->ev.cookie == 0xfeedfacecafe);
    landed = &pair_find(p, p->rx, GW_EV_LANDED)->ev;
    assert_true(landed->head.number == put.head.number && landed->head.kind == GW_PUT_WHOLE);
    assert_true(landed->head.buffer == put.head.buffer && landed->head.piece == put.head.piece);
    assert_true(landed->head.offset == put.head.offset && landed->head.length == put.head.length);
    assert_int_equal(landed->len, 1000);
    assert_memory_equal(p->dst, p->src, 1000);
    assert_int_equal(p->tx->wire_tx, 1016);
    assert_int_equal(p->rx->wire_rx, 1016);
    assert_string_equal(p->rx->name, "loop");
    pair_free(p);
}

static void coded_chunk_lies_in_its_piece_behind_its_head(void **state)
{
    const struct gw_loop_conf *confs[] = {&counts, &fenced};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair *p = pair_new(confs[i], 8192);
        struct gw_put put = pair_put(p, GW_PUT_CODED, 4096, 1000);
        uint8_t head[GW_HEAD_BYTES];

        pair_post(p, &put);
        pair_settle(p);
        gw_head_write(head, &put.head);
        assert_memory_equal(p->piece, head, sizeof(head));
        assert_memory_equal(p->piece + GW_HEAD_BYTES, p->src + 4096 + GW_HEAD_BYTES, 500);
        assert_int_equal(p->piece[GW_HEAD_BYTES + 500], 0);
        assert_int_equal(pair_find(p, p->rx, GW_EV_LANDED)->ev.len, 500);
        pair_free(p);
    }
}

static void end_record_lies_in_its_cell(void **state)
{
    struct gw_loop_conf conf = counts;
    struct gw_put put;
    struct pair *p;

    (void)state;
    conf.paths = 4;
    p = pair_new(&conf, 16);
    {
        uint8_t record[GW_END_BYTES];
        memset(record, 0x5a, sizeof(record));
        put = pair_end(record, 3);
        pair_post(p, &put);
        memset(record, 0, sizeof(record)); /* an end is copied */
    }
    pair_settle(p);
    for (int i = 0; i < GW_END_BYTES; i++)
        assert_int_equal(p->slot->end[0][3][i], 0x5a);
    assert_int_equal(pair_find(p, p->rx, GW_EV_LANDED)->ev.path, 3);
    pair_free(p);
}

static void fenced_lane_tells_immediates_only(void **state)
{
    struct pair *p = pair_new(&fenced, 1000);
    struct gw_put raw = pair_put(p, GW_PUT_RAW, 0, 1000);
    uint8_t record[GW_END_BYTES] = {1};
    struct gw_put end = pair_end(record, 0);
    const struct gw_head *head;

    (void)state;
    raw.flags = 0;
    pair_post(p, &raw);
    pair_settle(p);
    assert_int_equal(p->n, 0);
    assert_memory_equal(p->dst, p->src, 1000);
    pair_post(p, &end);
    pair_settle(p);
    assert_int_equal(p->n, 2);
    head = &pair_find(p, p->rx, GW_EV_LANDED)->ev.head;
    assert_int_equal(head->number, PAIR_NUMBER & 0xffff);
    assert_int_equal(head->kind, GW_PUT_END);
    assert_true(pair_find(p, p->tx, GW_EV_SENT)->ev.cookie == end.cookie);
    pair_free(p);
}

static void puts_without_a_signal_hold_the_queue(void **state)
{
    struct gw_loop_conf conf = fenced;
    struct gw_put put;
    struct pair *p;

    (void)state;
    conf.queue_depth = 3;
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_RAW, 0, 10);
    put.flags = 0;
    assert_int_equal(gw_loop_ops.put(p->tx, &put), GW_OK);
    assert_int_equal(gw_loop_ops.put(p->tx, &put), GW_OK);
    pair_settle(p);
    put.flags = GW_PUTF_SIGNAL;
    assert_int_equal(gw_loop_ops.put(p->tx, &put), GW_OK);
    assert_int_equal(gw_loop_ops.put(p->tx, &put), GW_AGAIN);
    pair_settle(p);
    assert_int_equal(pair_count(p, p->tx, GW_EV_SENT), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gw_loop_ops.put(p->tx, &put), GW_OK);
    pair_free(p);
}

static void our_own_mistakes_are_refused(void **state)
{
    struct pair *p = pair_new(&fenced, 1000);
    struct gw_put good = pair_put(p, GW_PUT_WHOLE, 0, 1000), bad;
    struct gw_lane *alone;
    uint8_t byte = 0;

    (void)state;
    bad = good, bad.path = 1;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    bad = good, bad.region = NULL;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    bad = good, bad.src++;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    bad = good, bad.src--;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    bad = good, bad.head.kind = GW_PUT_RAW;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    bad = good, bad.head.kind = GW_PUT_END;
    assert_int_equal(gw_loop_ops.put(p->tx, &bad), GW_E_ARG);
    assert_int_equal(gw_loop_ops.msg(p->tx, &byte, 0), GW_E_ARG);
    assert_int_equal(gw_loop_ops.msg(p->tx, &byte, GW_MSG_MAX + 1), GW_E_ARG);
    assert_int_equal(gw_loop_ops.make(p->dev[0], &alone), GW_OK);
    assert_int_equal(gw_loop_ops.put(alone, &good), GW_E_ARG);
    gw_loop_ops.close(alone);
    pair_free(p);
}

static void messages_cross_both_ways(void **state)
{
    struct gw_loop_conf conf = counts;
    uint8_t msg[GW_MSG_MAX];
    struct gw_event ev[2];
    struct pair *p;

    (void)state;
    conf.msg_depth = 2;
    p = pair_new(&conf, 1);
    memset(msg, 7, sizeof(msg));
    assert_int_equal(gw_loop_ops.msg(p->rx, msg, GW_MSG_MAX), GW_OK);
    memset(msg, 8, sizeof(msg));
    assert_int_equal(gw_loop_ops.msg(p->rx, msg, 1), GW_OK);
    assert_int_equal(gw_loop_ops.msg(p->rx, msg, 1), GW_AGAIN);
    assert_int_equal(gw_loop_ops.msg(p->tx, msg, 3), GW_OK);
    assert_int_equal(gw_loop_ops.poll(p->tx, ev, 2), 2);
    assert_int_equal(ev[0].kind, GW_EV_MSG);
    assert_int_equal(ev[0].len + ev[1].len, GW_MSG_MAX + 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ev[i].msg[0], ev[i].len == 1 ? 8 : 7);
    assert_int_equal(gw_loop_ops.poll(p->rx, ev, 2), 1);
    assert_int_equal(ev[0].len, 3);
    assert_int_equal(gw_loop_ops.msg(p->rx, msg, 1), GW_OK);
    pair_free(p);
}

static void hostile_blob_joins_nothing(void **state)
{
    struct gw_blob mine, good, bad;
    struct gw_loop_net *net;
    struct gw_lane *a, *b, *c;

    (void)state;
    assert_int_equal(gw_loop_net_new(&counts, &net), GW_OK);
    gw_loop_ops.make(gw_loop_dev(net, 0), &a);
    gw_loop_ops.make(gw_loop_dev(net, 0), &b);
    gw_loop_ops.make(gw_loop_dev(net, 0), &c);
    gw_loop_ops.local(a, &mine);
    gw_loop_ops.local(b, &good);
    assert_int_equal(gw_loop_ops.join(a, &mine), GW_E_PROTO);
    bad = good, bad.len--;
    assert_int_equal(gw_loop_ops.join(a, &bad), GW_E_PROTO);
    bad = good, bad.bytes[0] ^= 1;
    assert_int_equal(gw_loop_ops.join(a, &bad), GW_E_PROTO);
    bad = good, bad.bytes[11] = 1;
    assert_int_equal(gw_loop_ops.join(a, &bad), GW_E_PROTO);
    pair_join(a, b);
    pair_join(b, a);
    assert_int_equal(gw_loop_ops.join(c, &good), GW_E_PROTO);
    gw_loop_ops.close(b);
    assert_int_equal(gw_loop_ops.join(c, &good), GW_E_PEER);
    gw_loop_ops.close(a);
    gw_loop_ops.close(c);
    gw_loop_net_free(net);
}

static void link_takes_its_time_and_is_shared(void **state)
{
    struct gw_loop_conf conf = counts;
    struct gw_put put;
    struct pair *p;

    (void)state;
    conf.rate = 1000000000; /* a byte a nanosecond */
    conf.delay_ns = 500;
    p = pair_new(&conf, 20000);
    put = pair_put(p, GW_PUT_RAW, 0, 9984);
    pair_post(p, &put);
    put = pair_put(p, GW_PUT_RAW, 9984, 9984);
    pair_post(p, &put);
    pair_settle(p);
    assert_int_equal(pair_count(p, p->rx, GW_EV_LANDED), 2);
    assert_int_equal(pair_find(p, p->rx, GW_EV_LANDED)->at, 10500);
    assert_int_equal(pair_find(p, p->tx, GW_EV_SENT)->at, 11000);
    assert_true(gw_loop_next_due(p->net) == UINT64_MAX);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->trace[i].ev.kind == GW_EV_LANDED && p->trace[i].ev.head.offset > 0)
            assert_int_equal(p->trace[i].at, 20500);
    pair_free(p);
}

static void opened_devices_meet(void **state)
{
    struct gw_lane_conf conf = {.size = sizeof(conf)};
    struct gw_host host = {.size = sizeof(host)};
    void *dev[2];
    struct gw_lane *a, *b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        conf.transport = i == 0 ? NULL : "fenced";
        assert_int_equal(gw_loop_ops.open(&host, &conf, &dev[0]), GW_OK);
        assert_int_equal(gw_loop_ops.open(&host, &conf, &dev[1]), GW_OK);
        assert_int_equal(gw_loop_ops.make(dev[0], &a), GW_OK);
        assert_int_equal(gw_loop_ops.make(dev[1], &b), GW_OK);
        assert_int_equal(!(a->caps & GW_LANE_COUNTS), i);
        pair_join(a, b);
        pair_join(b, a);
        gw_loop_ops.close(a);
        gw_loop_ops.close(b);
        gw_loop_ops.close_dev(dev[0]);
        gw_loop_ops.close_dev(dev[1]);
    }
}

static void net_in_use_is_opened(void **state)
{
    struct gw_lane_conf conf = {.size = sizeof(conf)};
    struct gw_host host = {.size = sizeof(host)};
    struct gw_loop_net *net;
    void *dev;

    (void)state;
    assert_int_equal(gw_loop_net_new(&counts, &net), GW_OK);
    gw_loop_net_use(net);
    for (unsigned side = 0; side < 3; side++) {
        assert_int_equal(gw_loop_ops.open(&host, &conf, &dev), GW_OK);
        assert_ptr_equal(dev, gw_loop_dev(net, side));
        gw_loop_ops.close_dev(dev);
    }
    gw_loop_net_use(NULL);
    gw_loop_net_free(net);
}

/* ---- two threads ---- */

enum { STREAM = 300, STREAM_BYTES = 6000 };

static void *receive_stream(void *arg)
{
    struct pair *p = arg;
    struct gw_event ev[4];
    uint32_t landed = 0, total = 0;

    while (landed < STREAM) {
        int n = gw_loop_ops.poll(p->rx, ev, 4);
        for (int i = 0; i < n; i++) {
            if (ev[i].kind != GW_EV_LANDED)
                return NULL;
            landed++;
            total += p->dst[STREAM_BYTES - 1] != 0;
        }
        if (n == 0)
            sched_yield();
        while (n > 0 && gw_loop_ops.msg(p->rx, &landed, sizeof(landed)) == GW_AGAIN)
            sched_yield();
    }
    return total == STREAM ? p : NULL;
}

static void send_stream(struct pair *p)
{
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, STREAM_BYTES);
    struct gw_event ev[4];
    uint32_t posted = 0, sent = 0, told = 0, last;

    while (told < STREAM || sent < STREAM) {
        int n = gw_loop_ops.poll(p->tx, ev, 4);
        for (int i = 0; i < n; i++) {
            if (ev[i].kind == GW_EV_MSG) {
                memcpy(&last, ev[i].msg, sizeof(last));
                told = last > told ? last : told;
            }
            sent += ev[i].kind == GW_EV_SENT;
        }
        put.flags = GW_PUTF_IMM | GW_PUTF_SIGNAL | (posted % 2 ? GW_PUTF_LINES : 0);
        if (posted < STREAM && gw_loop_ops.put(p->tx, &put) == GW_OK)
            posted++;
        if (n == 0)
            sched_yield();
    }
}

static void two_threads_share_a_net(void **state)
{
    static const uint32_t caps[] = {GW_LANE_COUNTS, GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gw_loop_conf conf = {.seed = 4,
                                    .caps = caps[i],
                                    .realtime = 1,
                                    .jitter_ns = 20000,
                                    .again_permille = 100,
                                    .split_permille = 300,
                                    .hold_permille = 300,
                                    .eager_max = 8192,
                                    .queue_depth = 8};
        struct pair *p = pair_new(&conf, STREAM_BYTES);
        pthread_t thread;
        void *right = NULL;

        assert_int_equal(pthread_create(&thread, NULL, receive_stream, p), 0);
        send_stream(p);
        pthread_join(thread, &right);
        assert_ptr_equal(right, p);
        assert_memory_equal(p->dst, p->src, STREAM_BYTES);
        pair_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conf_that_says_nothing_possible_is_refused),
        cmocka_unit_test(whole_message_is_counted),
        cmocka_unit_test(coded_chunk_lies_in_its_piece_behind_its_head),
        cmocka_unit_test(end_record_lies_in_its_cell),
        cmocka_unit_test(fenced_lane_tells_immediates_only),
        cmocka_unit_test(puts_without_a_signal_hold_the_queue),
        cmocka_unit_test(our_own_mistakes_are_refused),
        cmocka_unit_test(messages_cross_both_ways),
        cmocka_unit_test(hostile_blob_joins_nothing),
        cmocka_unit_test(link_takes_its_time_and_is_shared),
        cmocka_unit_test(opened_devices_meet),
        cmocka_unit_test(net_in_use_is_opened),
        cmocka_unit_test(two_threads_share_a_net),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
