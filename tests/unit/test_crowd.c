/* test_crowd.c - who waits for a core, and for how long that is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "crowd.h"

enum { MS = 1000000, JOB = 40000 };

static void jobs_that_wait_are_a_crowd(void **state)
{
    struct gw_crowd c = { 0 };

    (void)state;
    for (int i = 0; i < 100; i++)
        gw_crowd_job(&c, JOB, JOB);
    assert_int_equal(c.crowded, 0);
    gw_crowd_job(&c, JOB + 3 * MS, JOB); /* one of a hundred lost its core for a slice: 3 of 7 ms */
    assert_int_equal(c.crowded, 1);
    for (int i = 0; i < 500; i++)
        gw_crowd_job(&c, JOB, JOB); /* 3 of 27 ms: not few enough */
    assert_int_equal(c.crowded, 1);
    for (int i = 0; i < 1000; i++)
        gw_crowd_job(&c, JOB, JOB);
    assert_int_equal(c.crowded, 0);
}

static void a_little_time_says_nothing(void **state)
{
    struct gw_crowd c = { 0 };

    (void)state;
    gw_crowd_job(&c, MS, 1);
    assert_int_equal(c.crowded, 0);
    gw_crowd_job(&c, MS, 1);
    assert_int_equal(c.crowded, 1);
}

static void a_host_that_waits_is_a_crowd(void **state)
{
    struct gw_crowd c = { 0 };
    uint64_t now = 1000 * (uint64_t)MS, cpu = 7 * MS;

    (void)state;
    assert_true(gw_crowd_due(&c, now));
    gw_crowd_host(&c, now, cpu);
    assert_false(gw_crowd_due(&c, now + 3 * MS));
    assert_true(gw_crowd_due(&c, now + 4 * MS));
    gw_crowd_host(&c, now += 4 * MS, cpu += 4 * MS);
    assert_int_equal(c.crowded, 0);
    gw_crowd_host(&c, now += 4 * MS, cpu += 2 * MS);
    assert_int_equal(c.crowded, 1);
}

/* No job for a long time, a pause, another thread: none of these is a sample, and what was known stays. */
static void only_time_beside_a_codec_counts(void **state)
{
    struct gw_crowd c = { .crowded = 1, .wall_ns = { 0, 100 * MS }, .cpu_ns = { 0, 50 * MS } };
    uint64_t now = 1000 * (uint64_t)MS;

    (void)state;
    gw_crowd_host(&c, now, 10 * MS);
    gw_crowd_host(&c, now += 900 * MS, 910 * MS); /* raw all the time */
    assert_int_equal(c.wall_ns[GW_CROWD_HOST], 100 * MS);
    gw_crowd_host(&c, now += 5 * MS, 3 * MS); /* less than before: another thread */
    assert_int_equal(c.wall_ns[GW_CROWD_HOST], 100 * MS);
    gw_crowd_idle(&c);
    gw_crowd_host(&c, now += 5 * MS, 8 * MS);
    assert_int_equal(c.wall_ns[GW_CROWD_HOST], 100 * MS);
    assert_int_equal(c.crowded, 1);
    gw_crowd_host(&c, now += 5 * MS, 13 * MS);
    assert_int_equal(c.wall_ns[GW_CROWD_HOST], 105 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_that_wait_are_a_crowd),
        cmocka_unit_test(a_little_time_says_nothing),
        cmocka_unit_test(a_host_that_waits_is_a_crowd),
        cmocka_unit_test(only_time_beside_a_codec_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
