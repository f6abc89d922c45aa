/* test_policy.c - W, Cover and the gate: numbers in, numbers out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy.h"

enum { CHUNK = 128 << 10, MS = 1000000 };

/* A link of 125 MB/s and 1 ms: 128 KiB leave every 1.048576 ms. */
static void feed(struct gw_policy *p, int chunks)
{
    uint64_t now = 5 * MS;

    for (int i = 0; i < 4; i++)
        gw_policy_posted(p, CHUNK, now);
    for (int i = 0; i < chunks; i++) {
        now += (uint64_t)CHUNK * 8;
        gw_policy_posted(p, CHUNK, now);
        gw_policy_landed(p, p->landed + CHUNK, now);
    }
}

static void measures_the_link(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    assert_int_equal(gw_policy_window(&p), 1 << 20);
    feed(&p, 20);
    assert_int_equal(p.rate_max, 125000000);
    assert_int_equal(p.delay_ns, (uint64_t)CHUNK * 8);
    assert_int_equal(gw_policy_on_way(&p), 4 * CHUNK);
}

static void window_is_rate_times_delay_and_encode(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    p.rate_max = 1000000000, p.delay_ns = 2 * MS, p.encode_ns_kib = 1000;
    assert_int_equal(gw_policy_window(&p), CHUNK + 2128000); /* 1 byte/ns x (2 ms + 128 us), and a chunk */
    p.delay_ns = 1;
    p.rate_max = 1000;
    assert_int_equal(gw_policy_window(&p), CHUNK); /* never less than a chunk */
    p.window_fixed = 3 << 20;
    assert_int_equal(gw_policy_window(&p), 3 << 20);
}

static void cover_wants_raw_work_for_as_long_as_the_codec_holds_the_chunk(void **state)
{
    struct gw_policy p;
    uint64_t need;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    gw_policy_taken(&p, MS);
    assert_false(gw_policy_cover(&p, UINT64_MAX, MS)); /* an unknown link is not covered */
    p.rate_max = 1000000000, p.delay_ns = 100000, p.wait_ns = 4000;
    p.encode_ns_kib = 1000, p.decode_ns_kib = 500;
    need = (100000 + 4000 + 128000 + 64000) * 5 / 4;
    assert_true(gw_policy_cover(&p, need, MS));
    assert_false(gw_policy_cover(&p, need - 1, MS));
    p.mode = GW_POLICY_ALWAYS;
    assert_true(gw_policy_cover(&p, 0, MS));
    p.mode = GW_POLICY_NEVER;
    assert_false(gw_policy_cover(&p, UINT64_MAX, MS));
}

/* What is known of a codec is a guess at first, and may be a bad day later: one chunk in 256 times what it holds up. */
static void a_chunk_that_is_not_covered_finds_out_now_and_then(void **state)
{
    const uint64_t held = 100000 + 128000 + 128000; /* the guess: 1 us for a KiB, either way */
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    p.rate_max = 50000000000, p.delay_ns = 100000;
    assert_true(gw_policy_cover(&p, 0, held * 256)); /* none ever was */
    gw_policy_taken(&p, held * 256);
    assert_false(gw_policy_cover(&p, 0, held * 512 - 1));
    assert_true(gw_policy_cover(&p, 0, held * 512));
    p.jobs_seen = 1;
    gw_policy_ahead(&p, 1);
    assert_false(gw_policy_cover(&p, 0, held * 2048)); /* one */
}

static void one_message_of_many_refused_chunks_counts_once(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    for (int chunk = 0; chunk < 8; chunk++)
        gw_policy_encoded(&p, &(struct gw_encoded){ .bytes = CHUNK, .run_ns = 1000, .cpu_ns = 1000 });
    assert_int_equal(p.skip, 8);
    assert_int_equal(p.skip_next, 16);
}

/* A chunk came back; half its size, or not worth sending. */
static void encoded(struct gw_policy *p, uint64_t wait_ns, uint64_t run_ns, int shrank)
{
    gw_policy_encoded(p, &(struct gw_encoded){ .bytes = CHUNK, .wire = shrank ? CHUNK / 2 : 0, .wait_ns = wait_ns,
                                               .run_ns = run_ns, .cpu_ns = run_ns });
}

static void bytes_that_do_not_shrink_are_left_out_longer_each_time(void **state)
{
    struct gw_policy p;
    int left_out;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    for (int want = 8; want <= 128; want *= 2) {
        assert_true(gw_policy_try(&p));
        encoded(&p, 0, 1000, 0);
        for (left_out = 0; !gw_policy_try(&p); left_out++)
            ;
        assert_int_equal(left_out, want);
    }
    encoded(&p, 0, 1000, 0);
    assert_int_equal(p.skip, 128); /* bounded */
    p.skip = 0;
    encoded(&p, 0, 128000, 1); /* shrank: forgotten */
    encoded(&p, 0, 1000, 0);
    assert_int_equal(p.skip, 8);
}

static void averages_follow_the_codec(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    encoded(&p, 500, 128 * 400, 1);
    assert_int_equal(p.encode_ns_kib, 400);
    assert_int_equal(p.wait_ns, 500);
    encoded(&p, 500, 128 * 1200, 1);
    assert_int_equal(p.encode_ns_kib, 500);
}

/* 1 us for a KiB and half of it saved: on one core that pays up to 256 MB/s, beyond a trial must tell. */
static void a_fast_link_puts_the_codec_on_trial(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    encoded(&p, 0, 128 * 1000, 1);
    assert_int_equal(p.saved, 512);
    p.rate_max = 1000000000;
    assert_true(gw_policy_try(&p)); /* with cores enough the codec takes nothing from the link */
    p.peer_crowded = 1;
    p.rate_max = 255000000;
    assert_true(gw_policy_try(&p));
    p.rate_max = 260000000;
    assert_false(gw_policy_try(&p)); /* the trial begins raw */
    p.trial.mode = GW_TRIAL_CODE;
    assert_true(gw_policy_try(&p));
    p.trial.mode = GW_TRIAL_RAW;
    p.trial.rate[GW_TRIAL_RAW] = 2000000000; /* what it was once; now, raw as well, it is slow: */
    p.rate_max = 100000000;
    assert_true(gw_policy_try(&p));
}

static void hostile_totals_change_nothing(void **state)
{
    struct gw_policy p;

    (void)state;
    gw_policy_init(&p, GW_POLICY_AUTO, CHUNK, 0);
    gw_policy_posted(&p, 100, 1);
    gw_policy_landed(&p, 101, 2); /* more than was posted */
    assert_int_equal(p.landed, 0);
    gw_policy_landed(&p, 60, 3);
    gw_policy_landed(&p, 50, 4); /* backwards */
    assert_int_equal(p.landed, 60);
    assert_int_equal(gw_policy_on_way(&p), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_the_link),
        cmocka_unit_test(window_is_rate_times_delay_and_encode),
        cmocka_unit_test(cover_wants_raw_work_for_as_long_as_the_codec_holds_the_chunk),
        cmocka_unit_test(a_chunk_that_is_not_covered_finds_out_now_and_then),
        cmocka_unit_test(bytes_that_do_not_shrink_are_left_out_longer_each_time),
        cmocka_unit_test(one_message_of_many_refused_chunks_counts_once),
        cmocka_unit_test(averages_follow_the_codec),
        cmocka_unit_test(a_fast_link_puts_the_codec_on_trial),
        cmocka_unit_test(hostile_totals_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
