/* test_zero.c - the zero codec's bytes one by one, what it refuses, and how small zeros become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>
#include <zero.h>

enum { MOST = 1 << 20 };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[MOST + 1024], out[MOST];
static const struct gw_codec *zero;
static uint64_t state;

static uint32_t chance(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static int start(void **s)
{
    (void)s;
    memset(src, 0, MOST), memset(coded, 0xee, sizeof(coded)), memset(out, 0xee, MOST);
    zero = gw_codec_by_id(GW_CODEC_ZERO);
    gw_kern_force(NULL);
    state = 1;
    return 0;
}

static gw_err encode(enum gw_view view, size_t n, size_t cap, size_t *len, uint32_t *count)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    return zero->encode(&c, src, n, coded, cap, len, count, ws);
}

static gw_err decode(size_t len, unsigned view, uint32_t count, size_t n)
{
    struct gw_frame f = {.codec = GW_CODEC_ZERO, .view = (uint8_t)view, .count = count};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)len;
    return zero->decode(&f, coded, out, n, ws);
}

/* Every kernel makes these bytes of src, and reads them. */
static void makes(enum gw_view view, size_t n, const uint8_t *want, size_t want_len, uint32_t words)
{
    for (size_t k = 0, len; gw_kern_at(k) != NULL; k++) {
        uint32_t count;
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(encode(view, n, sizeof(coded), &len, &count), GW_OK);
        assert_int_equal(len, want_len);
        assert_int_equal(count, words);
        assert_memory_equal(coded, want, len);
        memset(out, 0xee, n);
        assert_int_equal(decode(len, view, count, n), GW_OK);
        assert_memory_equal(out, src, n);
    }
}

/* 70 words of 4 bytes and a tail: 9 units, the last of 6 words. */
static void test_bytes4(void **s)
{
    (void)s;
    uint8_t want[16 + 2 + 3 + 3 + 16 + 3] = {0x02, 0x10}; /* view 2, 2 units */
    uint8_t *level = want + 16, *map = level + 2, *words = level + 8;
    gw_put32(src + 4 * 1, 0x3f800000), gw_put32(src + 4 * 7, 1);
    gw_put32(src + 4 * 24, 0x80000000), gw_put32(src + 4 * 69, 0x01020304);
    memcpy(src + 280, "end", 3);
    level[0] = 1 | 1 << 3, level[1] = 1;
    map[0] = 0x82, map[1] = 1, map[2] = 1 << 5;
    gw_put32(words, 0x3f800000), gw_put32(words + 4, 1), gw_put32(words + 8, 0x80000000);
    gw_put32(words + 12, 0x01020304), memcpy(words + 16, "end", 3);
    makes(GW_VIEW_F32, 283, want, sizeof(want), 4);
}

/* 32 words of 2 bytes: 4 units; the map ends where a word may start. */
static void test_bytes2(void **s)
{
    (void)s;
    uint8_t want[16 + 1 + 2 + 1 + 6] = {0x01, 0x08}; /* view 1, 1 unit */
    uint8_t *level = want + 16, *words = level + 4;
    gw_put16(src + 2 * 8, 0xabcd), gw_put16(src + 2 * 15, 0x0100), gw_put16(src + 2 * 31, 1);
    level[0] = 2 | 8, level[1] = 0x81, level[2] = 0x80;
    gw_put16(words, 0xabcd), gw_put16(words + 2, 0x0100), gw_put16(words + 4, 1);
    makes(GW_VIEW_BF16, 64, want, sizeof(want), 3);
}

/* Every mask of a unit, in both widths, from every place of a row. */
static void test_masks(void **s)
{
    (void)s;
    for (size_t width = 2; width <= 4; width += 2)
        for (unsigned m = 0; m < 256; m++) {
            memset(src, 0, 4096);
            for (unsigned i = 0; i < 8; i++)
                if (m >> i & 1)
                    src[(m % 64 * 8 + i) * width] = (uint8_t)(i + 1);
            src[4095] = 1;
            size_t len;
            uint32_t count;
            for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
                if (!gw_kern_at(k)->usable())
                    continue;
                gw_kern_force(gw_kern_at(k));
                enum gw_view view = width == 2 ? GW_VIEW_F16 : GW_VIEW_BYTES;
                assert_int_equal(encode(view, 4096, sizeof(coded), &len, &count), GW_OK);
                assert_int_equal(count, __builtin_popcount(m) + 1);
                assert_int_equal(decode(len, view, count, 4096), GW_OK);
                assert_memory_equal(out, src, 4096);
            }
        }
}

/* One value in a hundred: 64 bytes of level, and a byte for each unit that holds any. */
static void test_ratio(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < MOST; i += 4)
        if (chance() % 100 == 0)
            gw_put32(src + i, chance() | 1);
    assert_int_equal(encode(GW_VIEW_F32, MOST, MOST, &len, &count), GW_OK);
    assert_true(len * 1000 <= (size_t)MOST * 18);
    assert_int_equal(decode(len, GW_VIEW_F32, count, MOST), GW_OK);
    assert_memory_equal(out, src, MOST);
}

/* Zeros, a tile without any, and nothing that would shrink. */
static void test_tiles(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    assert_int_equal(encode(GW_VIEW_F32, 100001, sizeof(coded), &len, &count), GW_OK);
    assert_int_equal(len, 16);
    assert_true(gw_zero(coded, 16));
    assert_int_equal(decode(16, GW_VIEW_F32, 0, 100001), GW_OK);
    assert_true(gw_zero(out, 100001));
    memset(src + GW_TILE_BYTES, 1, GW_TILE_BYTES), src[3 * GW_TILE_BYTES] = 1;
    assert_int_equal(encode(GW_VIEW_F32, 65536, sizeof(coded), &len, &count), GW_OK);
    assert_int_equal(gw_get16(coded), 0);
    assert_int_equal(gw_get16(coded + 2), 1024);
    assert_int_equal(len, 16 + GW_TILE_BYTES + 72);
    assert_int_equal(decode(len, GW_VIEW_F32, count, 65536), GW_OK);
    assert_memory_equal(out, src, 65536);
    memset(src, 1, MOST), memset(coded, 0xee, sizeof(coded));
    assert_int_equal(encode(GW_VIEW_F32, MOST, sizeof(coded), &len, &count), GW_RAW);
    for (size_t i = 0; i < sizeof(coded); i++)
        assert_int_equal(coded[i], 0xee);
}

/* ---- what decode refuses ---- */

static size_t payload;
static uint32_t words;

static gw_err bent(size_t at, uint8_t value)
{
    uint8_t was = coded[at];
    coded[at] = value;
    gw_err err = decode(payload, GW_VIEW_F32, words, 280);
    coded[at] = was;
    return err;
}

/* As test_bytes4 without its tail: level at 16, map at 18, zeros at 21, words at 24. */
static void test_refusals(void **s)
{
    (void)s;
    gw_put32(src + 4 * 1, 0x3f800000), gw_put32(src + 4 * 7, 1);
    gw_put32(src + 4 * 24, 0x80000000), gw_put32(src + 4 * 69, 0x01020304);
    assert_int_equal(encode(GW_VIEW_F32, 280, sizeof(coded), &payload, &words), GW_OK);
    assert_int_equal(payload, 40);
    assert_int_equal(bent(0, coded[0]), GW_OK);
    assert_int_equal(bent(24, 7), GW_OK);
    assert_int_equal(bent(0, 0), GW_E_CORRUPT); /* length 0 with a view */
    assert_int_equal(bent(0, 1), GW_E_CORRUPT); /* not the length there is */
    assert_int_equal(bent(0, 3), GW_E_CORRUPT);
    assert_int_equal(bent(1, 0x28), GW_E_CORRUPT); /* view 5 */
    assert_int_equal(bent(1, 0x08), GW_E_CORRUPT); /* words of 2 bytes: more units than that */
    assert_int_equal(bent(2, 1), GW_E_CORRUPT);    /* padding of the table */
    assert_int_equal(bent(16, 1), GW_E_CORRUPT);   /* a unit less */
    assert_int_equal(bent(17, 3), GW_E_CORRUPT);   /* a unit that is not there */
    assert_int_equal(bent(17, 0x81), GW_E_CORRUPT);
    assert_int_equal(bent(18, 0), GW_E_CORRUPT);      /* a unit with nothing in it */
    assert_int_equal(bent(18, 0x83), GW_E_CORRUPT);   /* a word more than there is */
    assert_int_equal(bent(18, 0x80), GW_E_CORRUPT);   /* a word less */
    assert_int_equal(bent(20, 1 << 6), GW_E_CORRUPT); /* a word beyond the end */
    assert_int_equal(bent(21, 1), GW_E_CORRUPT);      /* not zeros before the words */
    for (size_t n = 0; n < payload; n++)
        assert_int_equal(decode(n, GW_VIEW_F32, words, 280), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_F32, words + 1, 280), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_COUNT, words, 280), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_F32, words, 268), GW_E_CORRUPT);
    struct gw_frame f = {.codec = GW_CODEC_ZERO, .view = GW_VIEW_F32, .count = words, .param = 1};
    f.raw_bytes = 280, f.wire_bytes = (uint32_t)payload;
    assert_int_equal(zero->decode(&f, coded, out, 280, ws), GW_E_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup(name, start)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_bytes4), TEST(test_bytes2), TEST(test_masks),
                                       TEST(test_ratio),  TEST(test_tiles),  TEST(test_refusals)};
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
