/* prop_merge.c - unions of sets and the way into dense memory, against plain references and exact sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/check.h>
#include <gradwire/sparse.h>
#include <kern.h>
#include <masks.h>

static uint8_t mask[MASK_MOST];
static uint32_t set_index[MASK_MOST], other_index[MASK_MOST];
static float set_value[MASK_MOST], other_value[MASK_MOST], dense[MASK_MOST], want[MASK_MOST];

static double wide(float v)
{
    return (double)v;
}

static struct mask_set copy_set(struct mask_set s, uint32_t *index, float *value)
{
    memcpy(index, s.index, 4 * s.n), memcpy(value, s.value, 4 * s.n);
    s.index = index, s.value = value;
    return s;
}

static size_t naive_union(const struct mask_set *a, const struct mask_set *b)
{
    memset(mask, 0, a->space);
    for (size_t i = 0; i < a->n; i++)
        want[a->index[i]] = a->value[i], mask[a->index[i]] = 1;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t at = b->index[i];
        want[at] = mask[at] ? want[at] + b->value[i] : b->value[i], mask[at] = 1;
    }
    size_t n = 0;
    for (uint64_t i = 0; i < a->space; i++)
        n += mask[i];
    return n;
}

static gw_err merge(const struct mask_set *a, const struct mask_set *b, size_t cap, size_t *n_p)
{
    return gw_sparse_merge(a->index, a->value, a->n, b->index, b->value, b->n,
                           (uint32_t *)(void *)fence_end(F_OUT_INDEX, 4 * cap),
                           (float *)(void *)fence_end(F_OUT_VALUE, 4 * cap), cap, n_p);
}

static void test_merge(void **s)
{
    (void)s;
    mask_state = 21;
    for (int round = 0; round < 60; round++) {
        uint64_t space = mask_space();
        struct mask_set a = copy_set(mask_set_new(space, (unsigned)mask_below(MASK_SHAPES), 0), set_index, set_value);
        struct mask_set b = copy_set(mask_set_new(space, (unsigned)mask_below(MASK_SHAPES), 0), other_index, other_value);
        size_t n = naive_union(&a, &b), got = 0;
        assert_int_equal(merge(&a, &b, n, &got), GW_OK);
        assert_int_equal(got, n);
        const uint32_t *index = (uint32_t *)(void *)fence_end(F_OUT_INDEX, 4 * n);
        const float *value = (float *)(void *)fence_end(F_OUT_VALUE, 4 * n);
        for (size_t i = 0; i < n; i++) {
            assert_true(mask[index[i]] && (i == 0 || index[i - 1] < index[i]));
            assert_memory_equal(&value[i], &want[index[i]], 4);
        }
        if (n > 0)
            assert_int_equal(merge(&a, &b, n - 1, &got), GW_E_LIMIT);
        if (a.n > 1) { /* a list that is no set */
            a.index[a.n / 2] = a.index[a.n / 2 - (a.n > 1)];
            assert_int_equal(merge(&a, &b, n, &got), GW_E_ARG);
            assert_int_equal(merge(&b, &a, n, &got), GW_E_ARG);
        }
    }
}

/* Sixteen ranks, values that are small multiples of 2^-10: every sum is exact, so whatever the order nothing may be lost, in
 * the union and in dense memory alike.  A sum that is zero stays an entry. */
static void test_conserved(void **s)
{
    (void)s;
    enum { SPACE = 20000 };
    static uint32_t index[2][SPACE];
    static float value[2][SPACE];
    double total = 0, found = 0;
    size_t n = 0;
    int now = 0;
    mask_state = 31;
    memset(dense, 0, sizeof(dense));
    for (int rank = 0; rank < 16; rank++, now = !now) {
        struct mask_set a = mask_set_new(SPACE, 1, 0);
        for (size_t i = 0; i < a.n; i++) {
            a.value[i] = (float)((int)mask_below(8192) - 4096) * 0x1p-10f;
            total += wide(a.value[i]);
        }
        assert_int_equal(gw_sparse_add(dense, SPACE, a.index, a.value, a.n, 1), GW_OK);
        assert_int_equal(gw_sparse_merge(index[now], value[now], n, a.index, a.value, a.n, index[!now], value[!now], SPACE, &n),
                         GW_OK);
    }
    memset(want, 0, sizeof(want));
    assert_int_equal(gw_sparse_store(want, SPACE, index[now], value[now], n, 1), GW_OK);
    for (size_t i = 0; i < SPACE; i++)
        found += wide(dense[i]);
    assert_true(found == total);
    for (size_t i = 0; i < SPACE; i++)
        assert_true(want[i] == dense[i]);
}

static void test_dense(void **s)
{
    (void)s;
    mask_state = 41;
    uint32_t twice[] = {3, 1, 3, 0}, beyond[] = {1, 8};
    float ones[] = {1, 2, 4, 8}, small[8] = {0.5f, 0.5f, 0.5f, 0.5f}, before[8];
    assert_int_equal(gw_sparse_add(small, 8, twice, ones, 4, 2), GW_OK);
    assert_true(small[0] == 16.5f && small[1] == 4.5f && small[2] == 0.5f && small[3] == 10.5f);
    assert_int_equal(gw_sparse_store(small, 8, twice, ones, 4, 2), GW_OK);
    assert_true(small[3] == 8 && small[1] == 4);
    memcpy(before, small, sizeof(small));
    assert_int_equal(gw_sparse_add(small, 8, beyond, ones, 2, 1), GW_E_ARG);
    assert_int_equal(gw_sparse_store(small, 8, beyond, ones, 2, 1), GW_E_ARG);
    assert_int_equal(gw_sparse_add(small, 0, twice, ones, 4, 1), GW_E_ARG);
    assert_memory_equal(before, small, sizeof(small));
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) { /* the index that is too large at every place */
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        for (size_t at = 0; at < 40; at++) {
            for (size_t i = 0; i < 40; i++)
                set_index[i] = 7, set_value[i] = 0;
            assert_int_equal(gw_sparse_add(small, 8, set_index, set_value, 40, 1), GW_OK);
            set_index[at] = mask_below(2) ? 8 : 0xffffffff;
            assert_int_equal(gw_sparse_add(small, 8, set_index, set_value, 40, 1), GW_E_ARG);
        }
    }
    /* product, then sum: each is rounded alone */
    struct mask_set a = mask_set_new(3000, 0, 0);
    for (size_t i = 0; i < 3000; i++)
        dense[i] = want[i] = mask_value(0);
    for (size_t i = 0; i < a.n; i++) {
        volatile float product = 0.3f * a.value[i];
        want[a.index[i]] = want[a.index[i]] + product;
    }
    assert_int_equal(gw_sparse_add(dense, 3000, a.index, a.value, a.n, 0.3f), GW_OK);
    assert_memory_equal(dense, want, 3000 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_merge), cmocka_unit_test(test_conserved),
                                       cmocka_unit_test(test_dense)};
    return cmocka_run_group_tests_name("prop_merge", tests, fence_setup, fence_teardown);
}
