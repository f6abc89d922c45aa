/* test_view.c - the view picker: what it says of each kind of bytes, and that every kernel says the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <kern.h>
#include <view.h>

enum { LEN = 65536 };

static uint8_t src[LEN];

static uint64_t chance(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x >> 11;
}

static void noise(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)chance();
}

/* Every kernel gives the answer that is wanted. */
static void picks(enum gw_view want, int want_pays)
{
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        int pays = -1;
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(gw_view_pick(src, LEN, &pays), want);
        assert_int_equal(pays, want_pays);
        assert_int_equal(gw_view_pick(src, LEN, NULL), want);
        assert_int_equal(gw_view_pays(want, src, LEN), want_pays);
    }
    gw_kern_force(NULL);
}

static void floats(unsigned zeros, uint32_t mask)
{
    noise(src, LEN);
    for (size_t i = 0; i < LEN; i += 4)
        gw_put32(src + i, chance() % 100 < zeros ? 0 : ((gw_get32(src + i) & 0x81ffffff) | 0x38000000) & mask);
}

static void halves(unsigned zeros, unsigned keep, unsigned set)
{
    noise(src, LEN);
    for (size_t i = 0; i < LEN; i += 2)
        gw_put16(src + i, (uint16_t)(chance() % 100 < zeros ? 0 : (gw_get16(src + i) & keep) | set));
}

static void test_dense(void **s)
{
    (void)s;
    floats(0, 0xffffffff), picks(GW_VIEW_F32, 1);
    floats(0, 0xffff0000), picks(GW_VIEW_F32_BF16, 1);
    halves(0, 0x81ff, 0x3800), picks(GW_VIEW_BF16, 1);
    halves(0, 0x8fff, 0x3000), picks(GW_VIEW_F16, 1);
    noise(src, LEN);
    for (size_t i = 0; i < LEN; i++)
        src[i] = (uint8_t)(src[i] % 14 + 50);
    picks(GW_VIEW_BYTES, 1);
}

/* Zeros between the values do not hide what the values are. */
static void test_zeros(void **s)
{
    (void)s;
    for (unsigned zeros = 30; zeros <= 90; zeros += 30) {
        floats(zeros, 0xffffffff), picks(GW_VIEW_F32, 1);
        floats(zeros, 0xffff0000), picks(GW_VIEW_F32_BF16, 1);
        halves(zeros, 0x81ff, 0x3800), picks(GW_VIEW_BF16, 1);
        halves(zeros, 0x8fff, 0x3000), picks(GW_VIEW_F16, 1);
    }
    memset(src, 0, LEN), picks(GW_VIEW_F32, 1);
}

/* A long run of zeros before dense values, as in an embedding's gradient. */
static void test_runs(void **s)
{
    (void)s;
    floats(0, 0xffffffff);
    memset(src, 0, LEN / 32 * 29);
    picks(GW_VIEW_F32, 1);
}

static void test_noise(void **s)
{
    int pays;
    (void)s;
    noise(src, LEN);
    picks(gw_view_pick(src, LEN, NULL), 0);
    gw_view_pick(src, 127, &pays);
    assert_int_equal(pays, 0);
    gw_view_pick(NULL, 0, &pays);
    assert_int_equal(pays, 0);
}

/* Lines of every kind: each kernel adds what the scalar one adds, and nothing where it is not asked. */
static void test_costs(void **s)
{
    (void)s;
    for (unsigned i = 0; i < 4000; i++) {
        uint8_t line[GW_LINE_BYTES];
        unsigned views = (unsigned)chance() % 32, few = 1 + (unsigned)chance() % 255, zeros = (unsigned)chance() % 101;
        for (size_t j = 0; j < sizeof(line); j++)
            line[j] = (uint8_t)(j % 4 < 2 && i % 3 == 0 ? 0 : chance() % (i % 2 ? 256 : few));
        for (size_t j = 0; j < sizeof(line); j += i % 5 ? 4 : 2)
            if (chance() % 100 < zeros)
                memset(line + j, 0, i % 5 ? 4 : 2);
        uint32_t want[GW_VIEW_COUNT] = {1, 2, 3, 4, 5};
        gw_kern_scalar.view->costs(line, views, want);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            uint32_t bits[GW_VIEW_COUNT] = {1, 2, 3, 4, 5};
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_at(k)->view->costs(line, views, bits);
            assert_memory_equal(bits, want, sizeof(bits));
            for (unsigned v = 0; v < GW_VIEW_COUNT; v++)
                assert_true(bits[v] <= v + 1 + GW_LINE_BITS && (views >> v & 1 || bits[v] == v + 1));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense), cmocka_unit_test(test_zeros), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_noise), cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
