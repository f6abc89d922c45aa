/* test_trial.c - which way is kept, and how seldom the other is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "trial.h"

enum { MS = 1000000, MESSAGE = 1 << 20, WINDOW = 4 };

/* Sends of 1 MiB, four in flight, until `ms` are over; a message takes ns_raw or ns_code by the mode.  Returns how many
 * went coded. */
static int run(struct gw_trial *t, uint64_t *now, uint64_t ms, uint64_t ns_raw, uint64_t ns_code, int *all_p)
{
    uint64_t end = *now + ms * MS;
    int coded = 0;

    *all_p = 0;
    while (*now < end) {
        int code = t->mode == GW_TRIAL_CODE;
        *now += code ? ns_code : ns_raw;
        gw_trial_done(t, MESSAGE, WINDOW, *now);
        coded += code, ++*all_p;
    }
    return coded;
}

static void coding_that_is_slower_is_tried_seldom(void **state)
{
    struct gw_trial t;
    uint64_t now = 1;
    int all, coded;

    (void)state;
    gw_trial_init(&t);
    coded = run(&t, &now, 2000, 500000, 1000000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_RAW);
    assert_true(coded > 0);
    assert_true(coded * 100 < all * 2);
}

static void coding_that_is_faster_is_kept(void **state)
{
    struct gw_trial t;
    uint64_t now = 1;
    int all, coded;

    (void)state;
    gw_trial_init(&t);
    coded = run(&t, &now, 10000, 1000000, 800000, &all); /* the first epochs are raw */
    assert_int_equal(t.favoured, GW_TRIAL_CODE);
    assert_true(coded * 100 > all * 95);
}

static void a_gain_of_two_percent_is_not_worth_the_cpu(void **state)
{
    struct gw_trial t;
    uint64_t now = 1;
    int all;

    (void)state;
    gw_trial_init(&t);
    run(&t, &now, 1000, 1000000, 980000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_RAW);
}

static void a_change_is_found_again(void **state)
{
    struct gw_trial t;
    uint64_t now = 1;
    int all;

    (void)state;
    gw_trial_init(&t);
    run(&t, &now, 1000, 500000, 1000000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_RAW);
    run(&t, &now, 20000, 500000, 300000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_CODE);
    run(&t, &now, 20000, 500000, 700000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_RAW);
}

/* 1 ms raw against 100 ms coded: the probe ends after a message or two, not after its windows. */
static void a_hopeless_probe_is_cut_short(void **state)
{
    struct gw_trial t;
    uint64_t now = 1;
    int all, coded;

    (void)state;
    gw_trial_init(&t);
    coded = run(&t, &now, 1000, 1000000, 100000000, &all);
    assert_int_equal(t.favoured, GW_TRIAL_RAW);
    assert_in_range(coded, 1, 3);
}

static void sends_of_the_mode_before_do_not_count(void **state)
{
    struct gw_trial t;

    (void)state;
    gw_trial_init(&t);
    t.mode = GW_TRIAL_CODE, t.settle = 2;
    gw_trial_done(&t, MESSAGE, WINDOW, 10);
    gw_trial_done(&t, MESSAGE, WINDOW, 20);
    assert_int_equal(t.since_ns, 0);
    gw_trial_done(&t, MESSAGE, WINDOW, 30);
    assert_int_equal(t.since_ns, 30);
    assert_int_equal(t.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coding_that_is_slower_is_tried_seldom),
        cmocka_unit_test(coding_that_is_faster_is_kept),
        cmocka_unit_test(a_gain_of_two_percent_is_not_worth_the_cpu),
        cmocka_unit_test(a_change_is_found_again),
        cmocka_unit_test(a_hopeless_probe_is_cut_short),
        cmocka_unit_test(sends_of_the_mode_before_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
