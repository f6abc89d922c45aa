/* test_loop_faults.c - the loop lane with faults: it does all that the contract allows, and nothing else. */
#include "loop_pair.h"

enum { SEEDS = 200, PUTS = 24, EACH = 64, BYTES = PUTS * EACH };

static struct gw_loop_conf wild(uint64_t seed, uint32_t caps)
{
    return (struct gw_loop_conf){.seed = seed,
                                 .caps = caps,
                                 .paths = 2,
                                 .rate = 1000000000,
                                 .delay_ns = 2000,
                                 .jitter_ns = 3000,
                                 .again_permille = 200,
                                 .split_permille = 500,
                                 .hold_permille = 200,
                                 .eager_max = EACH,
                                 .queue_depth = 16};
}

/* What was seen over all seeds: a fault that never happens is not played. */
struct tally {
    uint32_t sent_first, landed_first, landed_out_of_order, half, again;
};

static int visible(const struct pair *p, uint32_t offset, uint32_t length)
{
    return memcmp(p->dst + offset, p->src + offset, length) == 0;
}

static void tally_pair(struct tally *t, const struct pair *p)
{
    uint64_t sent[PUTS] = {0}, landed[PUTS] = {0}, last = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct gw_event *ev = &p->trace[i].ev;
        if (ev->kind == GW_EV_SENT)
            sent[ev->cookie / EACH] = i + 1;
        if (ev->kind == GW_EV_LANDED) {
            uint32_t k = ev->head.offset / EACH;
            landed[k] = i + 1;
            t->landed_out_of_order += k < last;
            last = k;
        }
    }
    for (int k = 0; k < PUTS; k++) {
        assert_true(sent[k] > 0 && landed[k] > 0);
        t->sent_first += sent[k] < landed[k];
        t->landed_first += landed[k] < sent[k];
    }
}

static void half_visible(struct tally *t, const struct pair *p)
{
    for (uint32_t k = 0; k < PUTS; k++) {
        const uint8_t *dst = p->dst + EACH * k;
        t->half += (dst[0] == 0) != (dst[EACH - 1] == 0);
    }
}

static void run_counts(struct tally *t, uint64_t seed)
{
    struct gw_loop_conf conf = wild(seed, GW_LANE_COUNTS);
    struct pair *p = pair_new(&conf, BYTES);
    struct gw_loop_stats stats;

    for (uint32_t k = 0; k < PUTS; k++) {
        struct gw_put put = pair_put(p, GW_PUT_RAW, EACH * k, EACH);
        put.path = k % 2;
        put.flags |= k % 3 == 0 ? GW_PUTF_LINES : 0;
        pair_post(p, &put);
    }
    do {
        pair_round(p);
        half_visible(t, p);
    } while (pair_step(p));
    assert_int_equal(p->n, 2 * PUTS);
    assert_true(visible(p, 0, BYTES));
    tally_pair(t, p);
    gw_loop_stats(p->net, &stats);
    t->again += stats.again > 0;
    assert_int_equal(stats.puts, PUTS);
    assert_int_equal(stats.bytes, BYTES);
    assert_int_equal(stats.landed, PUTS);
    assert_int_equal(stats.sent, PUTS);
    pair_free(p);
}

static void counting_lane_tells_each_put_once_in_any_order(void **state)
{
    struct tally t = {0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run_counts(&t, seed);
    assert_true(t.sent_first > SEEDS && t.landed_first > SEEDS);
    assert_true(t.landed_out_of_order > SEEDS && t.half > SEEDS && t.again > SEEDS / 2);
}

/* A LANDED vouches for what was posted on its own path before it, and for nothing else. */
static void fence_holds(struct pair *p, uint32_t from, uint32_t *beyond)
{
    for (uint32_t i = from; i < p->n; i++) {
        const struct gw_event *ev = &p->trace[i].ev;
        if (ev->kind != GW_EV_LANDED)
            continue;
        for (uint32_t k = 0; k < PUTS; k++) {
            int there = visible(p, EACH * k, EACH);
            if (k % 2 == ev->path)
                assert_true(there);
            else
                *beyond += !there;
        }
    }
}

static void run_fenced(uint32_t *beyond, uint64_t seed, uint32_t more)
{
    struct gw_loop_conf conf = wild(seed, GW_LANE_FENCED | more);
    struct pair *p;
    uint8_t record[GW_END_BYTES] = {0};
    uint32_t from;

    conf.quiet = seed % 4 < 2;
    p = pair_new(&conf, BYTES);
    for (uint32_t k = 0; k < PUTS; k++) {
        struct gw_put put = pair_put(p, GW_PUT_RAW, EACH * k, EACH);
        put.path = k % 2;
        put.flags = k % 5 == 4 ? GW_PUTF_SIGNAL : 0;
        pair_post(p, &put);
    }
    for (uint8_t path = 0; path < 2; path++) {
        struct gw_put end = pair_end(record, path);
        pair_post(p, &end);
    }
    do {
        from = p->n;
        pair_round(p);
        fence_holds(p, from, beyond);
    } while (pair_step(p));
    assert_int_equal(pair_count(p, p->rx, GW_EV_LANDED), 2);
    assert_int_equal(pair_count(p, p->tx, GW_EV_SENT), 2 + (conf.quiet ? PUTS / 5 : PUTS));
    pair_free(p);
}

static void fenced_lane_keeps_its_fence(void **state)
{
    uint32_t beyond = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run_fenced(&beyond, seed, seed % 2 ? GW_LANE_SENT_IS_LANDED : 0);
        run_fenced(&beyond, seed, GW_LANE_SENT_IS_LANDED | GW_LANE_DIRECT);
    }
    assert_true(beyond > SEEDS / 10);
}

static uint64_t trace_of(uint64_t seed)
{
    struct gw_loop_conf conf = wild(seed, GW_LANE_COUNTS);
    struct pair *p = pair_new(&conf, BYTES);
    uint64_t hash = 0;

    for (uint32_t k = 0; k < PUTS; k++) {
        struct gw_put put = pair_put(p, GW_PUT_RAW, EACH * k, EACH);
        pair_post(p, &put);
    }
    pair_settle(p);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pair_event *e = &p->trace[i];
        hash = (hash ^ e->at ^ e->ev.kind ^ e->ev.cookie << 32 ^ e->ev.head.offset) * 0x9e3779b97f4a7c15u;
    }
    pair_free(p);
    return hash;
}

static void same_seed_same_events(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_true(trace_of(seed) == trace_of(seed));
        assert_true(trace_of(seed) != trace_of(seed + 1));
    }
}

static void refused(const struct gw_put *put, struct pair *p, int misplaced)
{
    struct gw_loop_stats stats;

    pair_post(p, put);
    pair_settle(p);
    assert_int_equal(pair_find(p, p->rx, GW_EV_FAILED)->ev.err, GW_E_PROTO);
    assert_int_equal(pair_find(p, p->tx, GW_EV_FAILED)->ev.err, GW_E_LANE);
    assert_int_equal(p->n, 2);
    for (uint32_t i = 0; i < p->bytes; i++)
        assert_int_equal(p->dst[i], 0);
    gw_loop_stats(p->net, &stats);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.misplaced, misplaced);
    assert_int_equal(gw_loop_ops.put(p->tx, put), GW_E_LANE);
    assert_int_equal(gw_loop_ops.msg(p->rx, "x", 1), GW_E_PROTO);
    pair_free(p);
}

static void put_without_a_place_fails_both_ends(void **state)
{
    static const struct gw_loop_conf conf = {.caps = GW_LANE_COUNTS, .delay_ns = 10};
    struct pair *p = pair_new(&conf, 100);
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 100);

    (void)state;
    put.head.number++;
    refused(&put, p, 0);
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_RAW, 90, 10);
    put.head.offset = 91;
    refused(&put, p, 0);
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_WHOLE, 0, 100);
    p->rx->places = NULL;
    refused(&put, p, 0);
}

/* Two frames into one piece: the first stands there as it was put, and the second breaks the lane. */
static void two_into_one_piece(uint32_t split_permille, uint64_t seed)
{
    const struct gw_loop_conf conf = {
        .caps = GW_LANE_COUNTS, .delay_ns = 10, .seed = seed, .rate = 1000000000, .split_permille = split_permille};
    struct pair *p = pair_new(&conf, 4000);
    struct gw_put first = pair_put(p, GW_PUT_CODED, 0, 2000), second = pair_put(p, GW_PUT_CODED, 1000, 2000);
    struct gw_loop_stats stats;

    pair_post(p, &first);
    pair_post(p, &second);
    pair_settle(p);
    assert_int_equal(pair_find(p, p->rx, GW_EV_FAILED)->ev.err, GW_E_PROTO);
    assert_memory_equal(p->piece + GW_HEAD_BYTES, p->src + GW_HEAD_BYTES, 1000);
    gw_loop_stats(p->net, &stats);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.puts, 1);
    pair_free(p);
}

static void second_put_into_a_piece_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        two_into_one_piece(seed % 2 == 0 ? 0 : 1000, seed);
}

/* Bytes are the lane's from put to SENT, or to shut, though they have landed long before. */
static void bytes_taken_back_before_sent_are_counted(void **state)
{
    static const struct gw_loop_conf conf = {.caps = GW_LANE_COUNTS, .delay_ns = 1000, .owns = 1};

    (void)state;
    for (int early = 0; early < 2; early++) {
        for (int shut = 0; shut < 2; shut++) {
            struct pair *p = pair_new(&conf, 100);
            struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 100);
            struct gw_loop_stats stats;

            pair_post(p, &put);
            if (early)
                p->src[99] ^= 1;
            if (shut)
                gw_loop_ops.shut(p->tx);
            else
                pair_settle(p);
            p->src[98] ^= 1;
            gw_loop_stats(p->net, &stats);
            assert_int_equal(stats.changed, early);
            pair_free(p);
        }
    }
}

static void fenced_put_goes_by_address_and_key(void **state)
{
    static const struct gw_loop_conf conf = {.caps = GW_LANE_FENCED};
    struct pair *p = pair_new(&conf, 100);
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 50);

    (void)state;
    put.addr++;
    refused(&put, p, 1);
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_WHOLE, 0, 50);
    put.key[0] = p->piece_mem.key[0];
    refused(&put, p, 1);
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_WHOLE, 0, 50);
    gw_loop_ops.dereg(p->dev[1], &p->dst_mem);
    refused(&put, p, 1);
}

static void dead_end_is_reported_late_and_nothing_lands(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gw_loop_conf conf = wild(seed, GW_LANE_COUNTS);
        struct pair *p = pair_new(&conf, BYTES);
        struct gw_lane *dead = seed % 2 ? p->tx : p->rx, *other = seed % 2 ? p->rx : p->tx;
        uint8_t before[BYTES];

        for (uint32_t k = 0; k < 8; k++) {
            struct gw_put put = pair_put(p, GW_PUT_RAW, EACH * k, EACH);
            pair_post(p, &put);
        }
        for (uint64_t i = 0; i < seed % 16; i++)
            pair_round(p), (void)pair_step(p);
        memcpy(before, p->dst, BYTES);
        gw_loop_kill(dead);
        p->n = 0;
        pair_settle(p);
        assert_memory_equal(p->dst, before, BYTES);
        assert_int_equal(pair_count(p, dead, GW_EV_FAILED), 0);
        assert_int_equal(pair_find(p, other, GW_EV_FAILED)->ev.err, GW_E_PEER);
        assert_int_equal(p->trace[p->n - 1].ev.kind, GW_EV_FAILED);
        pair_free(p);
    }
}

static void mute_lane_says_nothing_of_a_death(void **state)
{
    static const struct gw_loop_conf conf = {.caps = GW_LANE_COUNTS, .mute = 1};
    struct pair *p = pair_new(&conf, 10);

    (void)state;
    gw_loop_kill(p->rx);
    pair_settle(p);
    assert_int_equal(p->n, 0);
    pair_free(p);
}

static void cut_way_fails_both_ends(void **state)
{
    struct gw_loop_conf conf = wild(1, GW_LANE_COUNTS);
    struct pair *p = pair_new(&conf, 10);

    (void)state;
    gw_loop_cut(p->tx);
    pair_settle(p);
    assert_int_equal(pair_find(p, p->tx, GW_EV_FAILED)->ev.err, GW_E_LANE);
    assert_int_equal(pair_find(p, p->rx, GW_EV_FAILED)->ev.err, GW_E_LANE);
    assert_int_equal(p->n, 2);
    pair_free(p);
}

static void shut_end_frees_its_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gw_loop_conf conf = wild(seed, seed % 2 ? GW_LANE_COUNTS : GW_LANE_FENCED | GW_LANE_DIRECT);
        struct pair *p = pair_new(&conf, BYTES);
        struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, BYTES);

        pair_post(p, &put);
        for (uint64_t i = 0; i < seed % 5; i++)
            pair_round(p), (void)pair_step(p);
        if (seed % 3 == 0) {
            gw_loop_ops.shut(p->tx);
            free(p->src);
            p->src = NULL;
        } else {
            gw_loop_ops.close(p->rx);
            p->rx = p->tx; /* polled twice does no harm */
            free(p->dst);
            p->dst = NULL;
        }
        pair_settle(p);
        if (p->rx == p->tx)
            p->rx = NULL;
        pair_free(p);
    }
}

/* The sender is through when it knows that all has landed, and may be gone before the receiver looks. */
static void what_has_landed_is_told_though_the_sender_is_gone(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gw_loop_conf conf = wild(seed, GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED | GW_LANE_DIRECT);
        struct pair *p = pair_new(&conf, 1000);
        struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 1000);

        pair_post(p, &put);
        while (pair_poll(p, p->tx) == 0)
            (void)pair_step(p);
        assert_int_equal(pair_count(p, p->tx, GW_EV_SENT), 1);
        assert_true(visible(p, 0, 1000));
        gw_loop_ops.close(p->tx);
        p->tx = NULL;
        while (pair_poll(p, p->rx) == 0 || pair_count(p, p->rx, GW_EV_FAILED) == 0)
            (void)pair_step(p);
        assert_int_equal(pair_count(p, p->rx, GW_EV_LANDED), 1);
        assert_int_equal(p->trace[p->n - 1].ev.kind, GW_EV_FAILED);
        pair_free(p);
    }
}

/* UCX over tcp was seen to do so: N puts complete, N-1 arrive, until the sender polls again. */
static void sender_that_never_polls_again_keeps_its_tail(void **state)
{
    struct gw_loop_conf conf = {.caps = GW_LANE_COUNTS, .hold_permille = 1000, .eager_max = 100};
    struct gw_put put;
    struct pair *p;

    (void)state;
    p = pair_new(&conf, 100);
    put = pair_put(p, GW_PUT_WHOLE, 0, 100);
    pair_post(p, &put);
    do
        pair_poll(p, p->rx);
    while (pair_step(p));
    assert_int_equal(p->n, 0);
    pair_settle(p);
    assert_int_equal(p->n, 2);
    pair_free(p);
}

static void direct_lane_moves_while_nobody_polls(void **state)
{
    struct gw_loop_conf conf = {.caps = GW_LANE_FENCED | GW_LANE_DIRECT, .delay_ns = 100, .hold_permille = 999};
    struct pair *p = pair_new(&conf, 100);
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 100);

    (void)state;
    pair_post(p, &put);
    gw_loop_set_now(p->net, 99);
    assert_false(visible(p, 0, 100));
    gw_loop_set_now(p->net, 100);
    assert_true(visible(p, 0, 100));
    pair_free(p);
}

/* SENT frees the source, also while the bytes are still on the way. */
static void source_of_an_early_put_may_be_used_again(void **state)
{
    uint32_t early = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gw_loop_conf conf = {.seed = seed, .caps = GW_LANE_COUNTS, .delay_ns = 100, .eager_max = 100};
        struct pair *p = pair_new(&conf, 100);
        struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 100);
        uint8_t first = p->src[0];

        pair_post(p, &put);
        if (pair_poll(p, p->tx) == 1) {
            early++;
            memset(p->src, 0xcc, 100);
        }
        pair_settle(p);
        assert_int_equal(pair_count(p, p->rx, GW_EV_LANDED), 1);
        assert_int_equal(p->dst[0], first);
        pair_free(p);
    }
    assert_true(early > SEEDS / 4 && early < SEEDS);
}

static void receiver_without_room_is_counted(void **state)
{
    struct gw_loop_conf conf = {.caps = GW_LANE_FENCED | GW_LANE_DIRECT, .recv_depth = 2};
    struct pair *p = pair_new(&conf, 100);
    struct gw_put put = pair_put(p, GW_PUT_WHOLE, 0, 100);
    struct gw_loop_stats stats;

    (void)state;
    for (int i = 0; i < 3; i++)
        pair_post(p, &put);
    gw_loop_set_now(p->net, 1);
    gw_loop_stats(p->net, &stats);
    assert_true(stats.no_receive > 0);
    pair_settle(p);
    assert_int_equal(pair_count(p, p->rx, GW_EV_LANDED), 3);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting_lane_tells_each_put_once_in_any_order),
        cmocka_unit_test(fenced_lane_keeps_its_fence),
        cmocka_unit_test(same_seed_same_events),
        cmocka_unit_test(second_put_into_a_piece_is_refused),
        cmocka_unit_test(bytes_taken_back_before_sent_are_counted),
        cmocka_unit_test(put_without_a_place_fails_both_ends),
        cmocka_unit_test(fenced_put_goes_by_address_and_key),
        cmocka_unit_test(dead_end_is_reported_late_and_nothing_lands),
        cmocka_unit_test(mute_lane_says_nothing_of_a_death),
        cmocka_unit_test(cut_way_fails_both_ends),
        cmocka_unit_test(shut_end_frees_its_memory),
        cmocka_unit_test(what_has_landed_is_told_though_the_sender_is_gone),
        cmocka_unit_test(sender_that_never_polls_again_keeps_its_tail),
        cmocka_unit_test(direct_lane_moves_while_nobody_polls),
        cmocka_unit_test(source_of_an_early_put_may_be_used_again),
        cmocka_unit_test(receiver_without_room_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
