/* test_group_sparse.c - groups with many zeros: their bytes one by one, what they are when nothing else is shorter, and what decode
 * refuses of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <group.h>
#include <kern.h>
#include <holes.h>

enum { MOST = 1 << 16 };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[2 * MOST], out[MOST];
static size_t payload;
static uint32_t groups;

static gw_err encode(unsigned view, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    return gw_codec_by_id(GW_CODEC_GROUP)->encode(&c, src, n, coded, sizeof(coded), &payload, &groups, ws);
}

static gw_err decode(unsigned view, size_t n)
{
    struct gw_frame f = {.codec = GW_CODEC_GROUP, .view = (uint8_t)view, .count = groups};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)payload;
    return gw_codec_by_id(GW_CODEC_GROUP)->decode(&f, coded, out, n, ws);
}

static uint64_t chance(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x >> 11;
}

static int start(void **s)
{
    (void)s;
    memset(src, 0, sizeof(src)), memset(coded, 0xee, sizeof(coded)), memset(out, 0xee, sizeof(out));
    gw_kern_force(NULL);
    return 0;
}

/* Three f32 values of 256, one of them an escape, and minus zero, which is a value. */
static void test_f32_bytes(void **s)
{
    (void)s;
    uint8_t want[16 + 2 + 32 + 4 + 4 + 8 + 2 + 1] = {4, 0x10}; /* view 2, 4 units */
    uint8_t *map = want + 18, *codes = map + 32, *plane = codes + 4, *low = plane + 4, *list = low + 8;
    gw_put32(src + 4 * 1, 0xbf812345), gw_put32(src + 4 * 8, 0x80000000);
    gw_put32(src + 4 * 9, 0x2f800001), gw_put32(src + 4 * 255, 0x3f000000);
    want[16] = GW_KIND_SPARSE, want[17] = 4;
    map[0] = 1 << 1, map[1] = 1 << 0 | 1 << 1, map[31] = 1 << 7;
    codes[0] = 1, codes[1] = 0, codes[2] = 15, codes[3] = 2;
    plane[0] = 0x81, plane[1] = 0x80, gw_put16(low, 0x2345), gw_put16(low + 4, 1);
    list[0] = 127, list[1] = 1, list[2] = 95;
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(encode(GW_VIEW_F32, 1024), GW_OK);
        assert_int_equal(payload, sizeof(want));
        assert_int_equal(groups, 1);
        assert_memory_equal(coded, want, sizeof(want));
        memset(out, 0xee, 1024);
        assert_int_equal(decode(GW_VIEW_F32, 1024), GW_OK);
        assert_memory_equal(out, src, 1024);
    }
}

static void scatter(unsigned width, unsigned some)
{
    memset(src, 0, 1024);
    for (unsigned left = some; left > 0;) {
        unsigned at = (unsigned)chance() % 256;
        if (!gw_zero(src + at * width, width))
            continue;
        src[at * width] = (uint8_t)(chance() | 1);
        if (width > 1)
            gw_put16(src + at * width + width - 2, (uint16_t)((chance() & 0x83ff) | 0x3c00)), left--;
        else
            src[at] = (uint8_t)(60 + chance() % 12), left--;
    }
}

/* Every number of values in every view: the length is what the page says, and all of it comes back. */
static void test_lengths(void **s)
{
    static const unsigned width[] = {1, 2, 4, 2, 4};
    (void)s;
    for (unsigned view = 0; view < GW_VIEW_COUNT; view++)
        for (unsigned some = 1; some < 256; some++) {
            unsigned row = some / 64 * 32 + (some % 64 < 32 ? some % 64 : 32);
            unsigned two = some / 128 * 32 + (some % 128 < 32 ? some % 128 : 32);
            unsigned planes[] = {0, some, 3 * some, some + two, some};
            scatter(width[view], some);
            for (size_t i = 0; view == GW_VIEW_F32_BF16 && i < 1024; i += 4)
                gw_put16(src + i, 0);
            assert_int_equal(gw_sparse_bytes((enum gw_view)view, some), 32 + row + planes[view]);
            gw_err err = encode(view, 256 * width[view]);
            if (err == GW_RAW)
                continue;
            assert_int_equal(err, GW_OK);
            if (some < 128)
                assert_int_equal(coded[16], GW_KIND_SPARSE);
            if (coded[16] == GW_KIND_SPARSE)
                assert_int_equal(payload, 16 + 2 + 32 + row + planes[view] + 2);
            assert_int_equal(decode(view, 256 * width[view]), GW_OK);
            assert_memory_equal(out, src, 256 * width[view]);
        }
}

static void test_kernels_agree(void **s)
{
    (void)s;
    for (unsigned i = 0; i < 600; i++) {
        static uint8_t values[1024 + GW_SPARSE_SLACK], other[1024 + GW_SPARSE_SLACK], back[1024];
        uint8_t map[32], map_other[32];
        unsigned width = 1u << i % 3, some = (unsigned)chance() % 257;
        scatter(width, some);
        assert_int_equal(gw_kern_scalar.holes->compact(width, src, map, values), some);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            assert_int_equal(gw_kern_at(k)->holes->compact(width, src, map_other, other), some);
            assert_memory_equal(map, map_other, 32);
            assert_memory_equal(values, other, some * width);
            memset(back, 0xee, sizeof(back));
            gw_kern_at(k)->holes->expand(width, map, values, back);
            assert_memory_equal(back, src, 256 * width);
        }
    }
}

static gw_err bent(size_t at, unsigned value)
{
    uint8_t was = coded[at];
    coded[at] = (uint8_t)value;
    gw_err err = decode(GW_VIEW_F16, 512);
    coded[at] = was;
    return err;
}

/* 33 values of f16: codes and twos have spare bits. */
static void test_refusals(void **s)
{
    (void)s;
    for (size_t i = 0; i < 33; i++)
        gw_put16(src + 4 * i, 0x3d00);
    assert_int_equal(encode(GW_VIEW_F16, 512), GW_OK);
    size_t codes = 16 + 2 + 32, twos = codes + 32 + 33, list = twos + 32;
    assert_int_equal(payload, list + 2);
    assert_int_equal(bent(0, coded[0]), GW_OK);
    assert_int_equal(bent(17, 0), GW_E_CORRUPT);                    /* no values */
    assert_int_equal(bent(17, 32), GW_E_CORRUPT);                   /* fewer than the map has */
    assert_int_equal(bent(18, coded[18] & ~1u), GW_E_CORRUPT);      /* the map has fewer */
    assert_int_equal(bent(19, coded[19] | 2u), GW_E_CORRUPT);       /* the map has more */
    assert_int_equal(bent(codes + 1, 0x11), GW_E_CORRUPT);          /* a code behind the last value */
    assert_int_equal(bent(twos + 1, 1 << 2 | 1), GW_E_CORRUPT);     /* two bits behind it */
    assert_int_equal(bent(codes + 1, 0x07), GW_E_CORRUPT);          /* an escape that the list has not */
    assert_int_equal(bent(list + 1, 1), GW_E_CORRUPT);              /* an escape that is not there */
    for (size_t full = payload; payload-- > 0;)
        assert_int_equal(decode(GW_VIEW_F16, 512), GW_E_CORRUPT), assert_true(payload < full);
}

/* A map that points beyond the end of a short group. */
static void test_short_group(void **s)
{
    (void)s;
    for (size_t i = 0; i < 100; i += 5)
        gw_put32(src + 4 * i, 0x3f812345);
    assert_int_equal(encode(GW_VIEW_F32, 400), GW_OK);
    assert_int_equal(coded[16], GW_KIND_SPARSE);
    assert_int_equal(decode(GW_VIEW_F32, 400), GW_OK);
    assert_memory_equal(out, src, 400);
    coded[18] &= 0xfe, coded[18 + 13] |= 1; /* value 0 becomes value 104 */
    assert_int_equal(decode(GW_VIEW_F32, 400), GW_E_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup(name, start)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_f32_bytes), TEST(test_lengths), TEST(test_kernels_agree), TEST(test_refusals), TEST(test_short_group),
    };
    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
