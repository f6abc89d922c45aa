/* test_tight.c - the window of three exponents: its bytes one by one, every kernel at the edges, and what decode refuses. */
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
#include <tight.h>

enum { MOST = 1 << 16, N = GW_GROUP_VALUES };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[2 * MOST], out[MOST];
static size_t payload;
static uint32_t groups;

static gw_err encode(unsigned view, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    return gw_codec_by_name("tight")->encode(&c, src, n, coded, sizeof(coded), &payload, &groups, ws);
}

static gw_err decode(unsigned view, size_t n)
{
    struct gw_frame f = {.codec = GW_CODEC_TIGHT, .view = (uint8_t)view, .count = groups};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)payload;
    return gw_codec_by_name("tight")->decode(&f, coded, out, n, ws);
}

static uint64_t state;

static uint64_t chance(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 11;
}

static int start(void **s)
{
    (void)s;
    memset(src, 0, sizeof(src)), memset(coded, 0xee, sizeof(coded)), memset(out, 0xee, sizeof(out));
    state = 88172645463325252u;
    gw_kern_force(NULL);
    return 0;
}

static void put_exponent(size_t i, unsigned e)
{
    gw_put16(src + 2 * i, (uint16_t)(e << 7));
}

/* One bf16 group: base two below the top, each nibble there is, a far byte, a zero, and corners of the order of codes. */
static void test_bytes(void **s)
{
    static const struct {
        unsigned i, e;
    } odd[] = {{1, 126}, {33, 125}, {34, 127}, {65, 122}, {66, 113}, {96, 0}, {127, 90}, {128, 126}, {255, 110}};
    static const uint8_t escapes[] = {0x22, 0x61, 0x3f, 0x24, 0x04, 90, 110};
    uint8_t want[16 + 2 + 64 + 256 + 2 + sizeof(escapes)] = {21, 8}; /* view 1, 21 units */
    uint8_t *codes = want + 18, *plane = codes + 64, *list = plane + 256;
    (void)s;
    for (unsigned i = 0; i < N; i++) {
        unsigned e = i == 0 ? 126 : 125 - i % 3; /* codes 3 1 2 0 1 2 .. */
        for (size_t k = 0; k < GW_LEN(odd); k++)
            e = odd[k].i == i ? odd[k].e : e;
        put_exponent(i, e);
        codes[i / 128 * 32 + i % 32] |= (uint8_t)((e > 122 && e < 126 ? 125 - e : 3) << i / 32 % 4 * 2);
    }
    src[0] |= 1, src[1] |= 0x80, plane[0] = 0x81;
    want[16] = GW_TIGHT_LISTED, want[17] = 125;
    list[0] = 9, list[1] = 2;
    memcpy(list + 2, escapes, sizeof(escapes));
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(encode(GW_VIEW_BF16, 512), GW_OK);
        assert_int_equal(payload, sizeof(want));
        assert_int_equal(groups, 1);
        assert_memory_equal(coded, want, sizeof(want));
        memset(out, 0xee, 512);
        assert_int_equal(decode(GW_VIEW_BF16, 512), GW_OK);
        assert_memory_equal(out, src, 512);
    }
}

/* Any exponents, the ends of their range among them: kernels write the same and read it back. */
static void test_kernels_agree(void **s)
{
    static const enum gw_view views[] = {GW_VIEW_BF16, GW_VIEW_F32, GW_VIEW_F32_BF16};
    unsigned coded_groups = 0;
    (void)s;
    for (unsigned i = 0; i < 9000; i++) {
        enum gw_view view = views[i % 3];
        unsigned width = gw_view_shapes[view].width, far = (unsigned)chance() % 12, spread = 1 + (unsigned)chance() % 20;
        unsigned top = i % 7 == 0 ? 255 - (unsigned)chance() % 4 : i % 7 == 1 ? 1 + (unsigned)chance() % 5 : (unsigned)chance() % 256;
        for (size_t k = 0; k < N; k++) {
            unsigned drop = chance() % 4 ? (unsigned)chance() % 4 : (unsigned)chance() % spread;
            unsigned e = chance() % 128 < far ? (unsigned)chance() % 256 : top > drop ? top - drop : 0;
            uint32_t v = (uint32_t)(chance() & 0x807fffff) | e << 23;
            uint8_t bits[4];
            gw_put32(bits, view == GW_VIEW_F32_BF16 ? v & 0xffff0000 : v);
            memcpy(src + k * width, bits + 4 - width, width);
        }
        uint8_t body[GW_GROUP_BYTES_MAX], other[GW_GROUP_BYTES_MAX], esc[N], esc_other[N];
        struct gw_tight t, u;
        int is = gw_kern_scalar.tight->encode[view](src, body, esc, &t);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            assert_int_equal(gw_kern_at(k)->tight->encode[view](src, other, esc_other, &u), is);
            if (!is)
                continue;
            assert_true(t.base == u.base && t.near == u.near && t.far == u.far && t.zeros == u.zeros);
            assert_memory_equal(body, other, gw_view_shapes[view].body - 64);
            assert_memory_equal(esc, esc_other, gw_tight_escapes(t.near, t.far));
            memset(out, 0xee, N * width);
            assert_int_equal(gw_kern_at(k)->tight->decode[view](body, &t, esc, out), 1);
            assert_memory_equal(out, src, N * width);
        }
        coded_groups += (unsigned)is;
    }
    assert_true(coded_groups > 1000);
}

static gw_err bent(size_t at, unsigned value)
{
    uint8_t was = coded[at];
    coded[at] = (uint8_t)value;
    gw_err first = GW_OK;
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        gw_err err = decode(GW_VIEW_BF16, 512);
        assert_true(k == 0 || err == first);
        first = err;
    }
    coded[at] = was;
    return first;
}

static void test_refusals(void **s)
{
    (void)s;
    for (size_t i = 0; i < N; i++)
        put_exponent(i, 125 - i % 3);
    put_exponent(3, 120), put_exponent(7, 10), put_exponent(9, 119);
    assert_int_equal(encode(GW_VIEW_BF16, 512), GW_OK);
    size_t list = 16 + 2 + 64 + 256, near = list + 2, far = near + 2;
    assert_int_equal(payload, far + 1);
    assert_int_equal(coded[16], GW_TIGHT_LISTED);
    assert_int_equal(bent(16, GW_TIGHT_LISTED), GW_OK);
    assert_int_equal(bent(16, GW_TIGHT_KIND + 3), GW_E_CORRUPT); /* no list */
    assert_int_equal(bent(16, GW_TIGHT_WINDOW), GW_E_CORRUPT);
    assert_int_equal(bent(16, GW_KIND_SPARSE), GW_E_CORRUPT);
    assert_int_equal(bent(16, GW_KIND_RAW), GW_E_CORRUPT);
    assert_int_equal(bent(18 + 4, coded[18 + 4] | 3), GW_E_CORRUPT); /* a code more */
    assert_int_equal(bent(18 + 3, coded[18 + 3] ^ 1), GW_E_CORRUPT); /* one less */
    assert_int_equal(bent(list, 4), GW_E_CORRUPT);
    assert_int_equal(bent(list, 129), GW_E_CORRUPT);
    assert_int_equal(bent(list + 1, 0), GW_E_CORRUPT);
    assert_int_equal(bent(list + 1, 2), GW_E_CORRUPT);
    assert_int_equal(bent(near, 0x48), GW_OK);       /* as it is */
    assert_int_equal(bent(near, 0x58), GW_E_CORRUPT); /* a nibble that means nothing */
    assert_int_equal(bent(near, 0x44), GW_E_CORRUPT); /* two far ones */
    assert_int_equal(bent(near, 0x88), GW_E_CORRUPT); /* none */
    assert_int_equal(bent(near + 1, 0x19), GW_E_CORRUPT); /* behind the last nibble */
    for (size_t full = payload; payload-- > 0;)
        assert_int_equal(decode(GW_VIEW_BF16, 512), GW_E_CORRUPT), assert_true(payload < full);
}

/* A tight group in a view that has none. */
static void test_views_without(void **s)
{
    (void)s;
    for (size_t i = 0; i < N; i++)
        gw_put16(src + 2 * i, 0x3c00);
    assert_int_equal(encode(GW_VIEW_F16, 512), GW_OK);
    assert_int_equal(coded[16], GW_TIGHT_WINDOW);
    assert_int_equal(decode(GW_VIEW_F16, 512), GW_OK);
    coded[16] = GW_TIGHT_KIND;
    assert_int_equal(decode(GW_VIEW_F16, 512), GW_E_CORRUPT);
}

/* A group of many scattered zeros keeps a map, and nowhere is tight longer than group. */
static void test_never_longer_than_group(void **s)
{
    (void)s;
    for (unsigned zeros = 0; zeros < 100; zeros += 7) {
        struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_F32};
        size_t len;
        for (size_t i = 0; i < 16384; i += 4)
            gw_put32(src + i, chance() % 100 < zeros ? 0
                                                     : (uint32_t)(chance() & 0x807fffff) |
                                                           (120 - (uint32_t)__builtin_ctzll(chance() | 1 << 20)) << 23);
        assert_int_equal(gw_codec_by_name("group")->encode(&c, src, 16384, out, sizeof(out), &len, &groups, ws), GW_OK);
        assert_int_equal(encode(GW_VIEW_F32, 16384), GW_OK);
        assert_true(payload <= len);
        assert_int_equal(decode(GW_VIEW_F32, 16384), GW_OK);
        assert_memory_equal(out, src, 16384);
        if (zeros > 30)
            assert_int_equal(coded[16], GW_KIND_SPARSE);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, start)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bytes),         TEST(test_kernels_agree),           TEST(test_refusals),
        TEST(test_views_without), TEST(test_never_longer_than_group),
    };
    return cmocka_run_group_tests_name("tight", tests, NULL, NULL);
}
