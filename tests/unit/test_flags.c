/* test_flags.c - which bytes look like LL and LL128 lines, and what a region's place says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"

static void ll_lines_are_seen(void **state)
{
    uint32_t w[4 * 64];

    (void)state;
    for (int i = 0; i < 4 * 64; i++)
        w[i] = i % 2 ? 77 : (uint32_t)i * 2654435761u;
    assert_true(gw_bytes_show_flags(w, sizeof w));
    assert_true(gw_bytes_show_flags(w, 16)); /* a single line */
    assert_false(gw_bytes_show_flags(w, sizeof w - 8));
    w[4 * 63 + 3] = 78; /* last flag differs */
    assert_false(gw_bytes_show_flags(w, sizeof w));
    memset(w, 0, sizeof w); /* zeros are data: a flag is never 0 */
    assert_false(gw_bytes_show_flags(w, sizeof w));
    assert_false(gw_bytes_show_flags(w, 0));
}

static void ll128_lines_are_seen(void **state)
{
    uint64_t w[16 * 16 * 2];

    (void)state;
    for (int i = 0; i < 16 * 16 * 2; i++)
        w[i] = i % 16 == 15 ? 9 : (uint64_t)i * 0x9e3779b97f4a7c15u;
    assert_true(gw_bytes_show_flags(w, sizeof w));
    assert_true(gw_bytes_show_flags(w, 2048));
    assert_false(gw_bytes_show_flags(w, 1024));
    w[16 * 16 * 2 - 1] = 10;
    assert_false(gw_bytes_show_flags(w, sizeof w));
}

static void regions_by_number_and_order(void **state)
{
    struct gw_comm *comm = calloc(1, sizeof *comm);
    static const struct { uint32_t regions, ordinal; int simple; } row[] = {
        { 3, 0, 0 }, { 3, 1, 0 }, { 3, 2, 1 }, { 3, 3, 1 }, { 2, 0, 0 }, { 2, 1, 1 }, { 1, 0, 1 }, { 4, 0, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct gw_mem mem = { .ordinal = row[i].ordinal };
        comm->regions = row[i].regions;
        assert_int_equal(gw_mem_may_be_simple(comm, &mem), row[i].simple);
    }
    assert_true(gw_mem_may_be_simple(comm, NULL));
    free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ll_lines_are_seen),
        cmocka_unit_test(ll128_lines_are_seen),
        cmocka_unit_test(regions_by_number_and_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
