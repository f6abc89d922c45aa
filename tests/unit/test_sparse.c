/* test_sparse.c - the golden files of sparse sets: every kernel writes them and reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <base/check.h>
#include <gradwire/sparse.h>
#include <kern.h>

enum { MOST = 4096 };
static uint8_t set[8 * MOST], raw[8 * MOST], frame[1 << 16], again[1 << 16];
static uint32_t set_index[MOST], out_index[MOST];
static float set_value[MOST], out_value[MOST];

static size_t load(const char *name, const char *end, uint8_t *p, size_t cap)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/golden/%s.%s", GW_SRC, name, end);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(p, 1, cap, f);
    fclose(f);
    return n;
}

static void one(const char *name, uint32_t n, size_t len)
{
    struct gw_sparse how;
    uint32_t count = 0;
    size_t again_len = 0;
    assert_int_equal(gw_sparse_read(frame, len, &how, &count), GW_OK);
    assert_int_equal(count, n);
    if (strcmp(name, "sparse_empty") == 0)
        how.index = GW_INDEX_BEST;
    assert_int_equal(gw_sparse_encode(&how, set_index, set_value, n, again, sizeof(again), &again_len), GW_OK);
    assert_int_equal(again_len, len);
    assert_memory_equal(again, frame, len);
    assert_int_equal(gw_sparse_decode(frame, len, how.space, out_index, out_value, MOST, &count), GW_OK);
    assert_memory_equal(out_index, raw, 4 * (size_t)n);
    assert_memory_equal(out_value, raw + 4 * (size_t)n, 4 * (size_t)n);
}

static void test_golden(void **s)
{
    (void)s;
    static const char *const names[] = {"sparse_bitmap", "sparse_u16",  "sparse_runs", "sparse_ef12",
                                        "sparse_ef16",   "sparse_ef20", "sparse_seed", "sparse_empty"};
    for (size_t i = 0; i < GW_LEN(names); i++) {
        size_t bytes = load(names[i], "set", set, sizeof(set)), len = load(names[i], "frame", frame, sizeof(frame));
        assert_int_equal(load(names[i], "raw", raw, sizeof(raw)), bytes);
        memcpy(set_index, set, bytes / 2), memcpy(set_value, set + bytes / 2, bytes / 2);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_force(gw_kern_at(k));
            one(names[i], (uint32_t)(bytes / 8), len);
        }
    }
    gw_kern_force(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
