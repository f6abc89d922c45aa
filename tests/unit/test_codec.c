/* test_codec.c - the registry, and the group codec's bytes one by one. */
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

enum { MOST = (4 << 20) + 1024 };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[MOST], out[MOST];
static const struct gw_codec *group;

static int start(void **s)
{
    (void)s;
    memset(src, 0, 1 << 17), memset(coded, 0xee, 1 << 17), memset(out, 0xee, 1 << 17);
    group = gw_codec_by_id(GW_CODEC_GROUP);
    gw_kern_force(NULL);
    return 0;
}

static gw_err encode(enum gw_view view, size_t n, size_t cap, size_t *len, uint32_t *count)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    return group->encode(&c, src, n, coded, cap, len, count, ws);
}

static gw_err decode(size_t len, unsigned view, uint32_t count, size_t n)
{
    struct gw_frame f = {.codec = GW_CODEC_GROUP, .view = (uint8_t)view, .count = count};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)len;
    return group->decode(&f, coded, out, n, ws);
}

static void comes_back(enum gw_view view, size_t n, size_t len, uint32_t count)
{
    assert_int_equal(decode(len, view, count, n), GW_OK);
    assert_memory_equal(out, src, n);
}

/* ---- registry ---- */

static void test_registry(void **s)
{
    (void)s;
    assert_string_equal(gw_codec_by_id(0)->name, "raw");
    assert_string_equal(gw_codec_by_id(1)->name, "group");
    assert_ptr_equal(gw_codec_by_name("group"), group);
    assert_string_equal(gw_codec_by_id(2)->name, "tight");
    assert_string_equal(gw_codec_by_id(3)->name, "entropy");
    assert_string_equal(gw_codec_by_id(4)->name, "zero");
    assert_null(gw_codec_by_id(255));
    assert_null(gw_codec_by_name("groups"));
    assert_null(gw_codec_by_name(NULL));
    size_t n = 0;
    for (; gw_codec_at(n) != NULL; n++) {
        assert_ptr_equal(gw_codec_by_id(gw_codec_at(n)->id), gw_codec_at(n));
        assert_true(gw_codec_at(n)->ws_bytes <= gw_codec_ws_max());
    }
    assert_true(n >= 3);
}

static void test_kernels(void **s)
{
    (void)s;
    size_t n = 0, by_simde = 0;
    for (; gw_kern_at(n) != NULL; n++)
        by_simde += strcmp(gw_kern_at(n)->name, "avx512-simde") == 0;
    assert_ptr_equal(gw_kern_at(n - 1), &gw_kern_scalar);
    assert_true(gw_kern_scalar.usable());
#if defined(GW_HAVE_SIMDE)
    assert_int_equal(by_simde, 1);
    assert_int_equal(gw_kern_avx512_simde.usable(), gw_kern_avx2.usable());
#else
    assert_int_equal(by_simde, 0);
#endif
    gw_kern_force(&gw_kern_scalar);
    assert_string_equal(gw_kern_name(), "scalar");
    gw_kern_force(NULL);
    assert_true(gw_kern_get()->usable());
}

/* By name, as GRADWIRE_KERNEL says it; what is refused changes nothing. */
static void test_select(void **s)
{
    (void)s;
    assert_int_equal(gw_kern_select("scalar"), GW_OK);
    assert_string_equal(gw_kern_name(), "scalar");
    assert_int_equal(gw_kern_select("avx3"), GW_E_ARG);
    assert_int_equal(gw_kern_select(""), GW_E_ARG);
    assert_string_equal(gw_kern_name(), "scalar");
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < GW_LEN(names); i++) {
        const struct gw_kern *kern = NULL;
        for (size_t k = 0; gw_kern_at(k) != NULL; k++)
            if (strcmp(gw_kern_at(k)->name, names[i]) == 0)
                kern = gw_kern_at(k);
        assert_int_equal(gw_kern_select("scalar"), GW_OK);
        assert_int_equal(gw_kern_select(names[i]), kern != NULL && kern->usable() ? GW_OK : GW_E_NOSYS);
        assert_string_equal(gw_kern_name(), kern != NULL && kern->usable() ? names[i] : "scalar");
    }
    assert_int_equal(gw_kern_select(NULL), GW_OK);
    const struct gw_kern *best = gw_kern_get();
    gw_kern_force(NULL);
    assert_ptr_equal(gw_kern_get(), best);
}

/* ---- bytes ---- */

/* One group, as a frame with one tile: every kernel writes its body and escapes, and reads them. */
static void window_is(enum gw_view view, const uint8_t *want, size_t len)
{
    size_t bytes = gw_view_shapes[view].body;
    memcpy(coded, want, len);
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        uint8_t body[GW_GROUP_BYTES_MAX], esc[GW_GROUP_VALUES], top;
        unsigned zeros;
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(gw_kern_get()->encode[view](src, body, esc, &top, &zeros), want[16]);
        assert_int_equal(top, want[17]);
        assert_memory_equal(body, want + 18, bytes);
        assert_memory_equal(esc, want + 18 + bytes, len - 18 - bytes);
        memset(out, 0xee, 1024);
        comes_back(view, (size_t)gw_view_shapes[view].width * GW_GROUP_VALUES, len, 1);
    }
}

/* One bf16 group: every code there is, both zeros, a subnormal, and each corner of the nibble
 * order. */
static void test_bf16_bytes(void **s)
{
    (void)s;
    static const struct {
        unsigned i;
        uint16_t bits;
    } values[] = {{0, 0x3f80}, {1, 0x8000},  {2, 0x3f00},  {3, 0x0001},  {4, 0x3900},
                  {5, 0x3880}, {32, 0xbf80}, {64, 0x3fc0}, {255, 0x3f81}};
    uint8_t want[16 + 2 + 128 + 256 + 1] = {0x19, 0x08}; /* view 1, 25 units */
    uint8_t *head = want + 16, *codes = head + 2, *plane = codes + 128;
    for (size_t i = 0; i < GW_LEN(values); i++)
        gw_put16(src + 2 * values[i].i, values[i].bits);
    head[0] = 2, head[1] = 127;
    codes[0] = 0x11, codes[2] = 2, codes[4] = 14, codes[5] = 15, codes[32] = 1, codes[127] = 0x10;
    plane[1] = 0x80, plane[3] = 1, plane[32] = 0x80, plane[64] = 0x40, plane[255] = 1;
    want[sizeof(want) - 1] = 113;
    window_is(GW_VIEW_BF16, want, sizeof(want));
}

/* The same for f16: sign beside the code, two mantissa bits in a plane of their own. */
static void test_f16_bytes(void **s)
{
    (void)s;
    static const struct {
        unsigned i;
        uint16_t bits;
    } values[] = {{0, 0x3c00}, {1, 0x8000},  {2, 0x3dff},  {3, 0x0301},  {4, 0x2800},
                  {5, 0xa700}, {32, 0xbc00}, {96, 0x3d00}, {255, 0x3e02}};
    uint8_t want[16 + 2 + 128 + 256 + 64 + 1] = {0x1d, 0x18}; /* view 3, 29 units */
    uint8_t *head = want + 16, *codes = head + 2, *low = codes + 128, *two = low + 256;
    for (size_t i = 0; i < GW_LEN(values); i++)
        gw_put16(src + 2 * values[i].i, values[i].bits), low[values[i].i] = (uint8_t)values[i].bits;
    head[0] = 2, head[1] = 15;
    codes[0] = 0x91, codes[1] = 0x08, codes[2] = 1, codes[4] = 6, codes[5] = 0x0f, codes[32] = 0x10,
    codes[127] = 0x10;
    two[2] = 1, two[3] = 3, two[5] = 3, two[0] = 1 << 6, two[32 + 31] = 2 << 6;
    want[sizeof(want) - 1] = 9;
    window_is(GW_VIEW_F16, want, sizeof(want));
}

/* f32: the low halves follow the plane; Inf and NaN are a top of 255 like any other. */
static void test_f32_bytes(void **s)
{
    (void)s;
    uint8_t want[16 + 2 + 128 + 256 + 512 + 1] = {0x39, 0x10}; /* view 2, 57 units */
    uint8_t *head = want + 16, *codes = head + 2, *plane = codes + 128, *low = plane + 256;
    gw_put32(src, 0x7f800000), gw_put32(src + 4, 0xffc12345), gw_put32(src + 4 * 33, 0x3f800001);
    head[0] = 2, head[1] = 255;
    codes[0] = 1, codes[1] = 0xf1;
    plane[1] = 0x80 | 0x41, gw_put16(low + 2, 0x2345);
    plane[33] = 0, gw_put16(low + 66, 1);
    want[sizeof(want) - 1] = 127;
    window_is(GW_VIEW_F32, want, sizeof(want));
}

/* ---- kinds of tiles and groups ---- */

static void test_zero(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (unsigned view = 0; view < GW_VIEW_COUNT; view++) {
        assert_int_equal(encode((enum gw_view)view, 100001, sizeof(coded), &len, &count), GW_OK);
        assert_int_equal(len, 16);
        assert_int_equal(count, 0);
        assert_true(gw_zero(coded, 16));
        comes_back((enum gw_view)view, 100001, len, count);
    }
}

/* Minus zero is a value, not a zero group. */
static void test_minus_zero(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < 4096; i += 4)
        gw_put32(src + i, 0x80000000);
    assert_int_equal(encode(GW_VIEW_F32_BF16, 4096, sizeof(coded), &len, &count), GW_OK);
    assert_int_equal(coded[16], GW_KIND_WINDOW);
    assert_int_equal(coded[17], 0);
    comes_back(GW_VIEW_F32_BF16, 4096, len, count);
}

static void noise(uint8_t *p, size_t n)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = (uint8_t)(x >> 11);
    }
}

/* A tile with a zero, a raw and a window group; a stored one; a short one with an odd tail. */
static void test_kinds(void **s)
{
    (void)s;
    enum { LEN = 2 * GW_TILE_BYTES + 1027 };
    size_t len;
    uint32_t count;
    for (size_t i = 2048; i < LEN; i += 4)
        gw_put32(src + i, 0x3f812345);
    noise(src + 1024, 1024), noise(src + GW_TILE_BYTES, GW_TILE_BYTES);
    assert_int_equal(encode(GW_VIEW_F32, LEN, sizeof(coded), &len, &count), GW_OK);
    assert_int_equal(gw_get16(coded) >> 11, GW_VIEW_F32);
    assert_int_equal(gw_get16(coded + 2), 1024);
    assert_int_equal(gw_get16(coded + 4) >> 11, GW_VIEW_F32);
    assert_int_equal(coded[16], GW_KIND_ZERO);
    assert_int_equal(coded[18], GW_KIND_RAW);
    assert_int_equal(coded[20], GW_KIND_WINDOW);
    assert_int_equal(count, 16 + 1);
    comes_back(GW_VIEW_F32, LEN, len, count);
}

static void test_bf16_in_f32(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < 2 * GW_TILE_BYTES; i += 4)
        gw_put32(src + i, 0x3f810000);
    gw_put32(src + GW_TILE_BYTES, 0x3f810001);
    noise(src + 512 * 4, 512);
    for (size_t i = 512 * 4; i < 512 * 4 + 1024; i += 4)
        gw_put16(src + i, 0);
    assert_int_equal(encode(GW_VIEW_F32_BF16, 2 * GW_TILE_BYTES, sizeof(coded), &len, &count),
                     GW_OK);
    assert_int_equal(gw_get16(coded) >> 11, GW_VIEW_F32_BF16);
    assert_int_equal(gw_get16(coded + 2) >> 11, GW_VIEW_F32);
    comes_back(GW_VIEW_F32_BF16, 2 * GW_TILE_BYTES, len, count);
}

/* The largest that a payload may be: only the sample could have known. */
static void test_growth(void **s)
{
    (void)s;
    enum { LEN = 4 << 20 };
    size_t len;
    uint32_t count;
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_BF16};
    noise(src, LEN);
    assert_int_equal(encode(GW_VIEW_BF16, LEN, sizeof(coded), &len, &count), GW_RAW);
    for (size_t i = 0; i < LEN; i += LEN / 32) /* blind the sample */
        memset(src + i, 0, 128);
    assert_int_equal(group->bound(LEN, &c), LEN + 512);
    assert_int_equal(encode(GW_VIEW_BF16, LEN, LEN + 512, &len, &count), GW_OK);
    assert_true(len <= LEN + 512);
    comes_back(GW_VIEW_BF16, LEN, len, count);
    memset(src, 0, LEN), memset(out, 0, LEN);
}

static void test_raw_leaves_dst_alone(void **s)
{
    (void)s;
    size_t len = 3;
    uint32_t count = 4;
    noise(src, 65536);
    assert_int_equal(encode(GW_VIEW_F32, 65536, sizeof(coded), &len, &count), GW_RAW);
    assert_int_equal(len, 3);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 1 << 17; i++)
        assert_int_equal(coded[i], 0xee);
}

static void test_arguments(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    struct gw_coding c = {.size = 4, .view = GW_VIEW_F32};
    assert_int_equal(group->encode(&c, src, 4096, coded, 4096, &len, &count, ws), GW_E_ARG);
    assert_int_equal(group->encode(NULL, src, 4096, coded, 4096, &len, &count, ws), GW_E_ARG);
    c.size = sizeof(c), c.view = GW_VIEW_COUNT;
    assert_int_equal(group->encode(&c, src, 4096, coded, 4096, &len, &count, ws), GW_E_ARG);
}

/* ---- what decode refuses ---- */

static size_t payload;
static uint32_t groups;

/* One tile of 512 bytes, one bf16 group with one escape, as in test_bf16_bytes; then a byte is
 * changed. */
static gw_err bent(size_t at, uint8_t value)
{
    uint8_t was = coded[at];
    coded[at] = value;
    gw_err err = decode(payload, GW_VIEW_BF16, groups, 512);
    coded[at] = was;
    return err;
}

static void test_decode_refusals(void **s)
{
    (void)s;
    for (size_t i = 0; i < 512; i += 2)
        gw_put16(src + i, 0x3f80);
    gw_put16(src + 10, 0x3880);
    assert_int_equal(encode(GW_VIEW_BF16, 512, sizeof(coded), &payload, &groups), GW_OK);
    assert_int_equal(bent(0, coded[0]), GW_OK);
    assert_int_equal(bent(0, 0), GW_E_CORRUPT);            /* length 0 with a view */
    assert_int_equal(bent(0, coded[0] + 1), GW_E_CORRUPT); /* longer than what is there */
    assert_int_equal(bent(0, coded[0] - 1), GW_E_CORRUPT);
    assert_int_equal(bent(1, 0x0c), GW_E_CORRUPT); /* more than 1024 units */
    assert_int_equal(bent(1, 0x28), GW_E_CORRUPT); /* view 5 */
    assert_int_equal(bent(2, 1), GW_E_CORRUPT);    /* padding of the table */
    assert_int_equal(bent(16, GW_KIND_SPARSE), GW_E_CORRUPT);
    assert_int_equal(bent(16, GW_KIND_ZERO), GW_E_CORRUPT); /* a zero group has no top */
    assert_int_equal(bent(16, GW_KIND_RAW), GW_E_CORRUPT);
    assert_int_equal(bent(16, 1), GW_E_CORRUPT); /* fewer escapes than codes ask for */
    assert_int_equal(bent(16, 3), GW_E_CORRUPT);
    assert_int_equal(bent(18, 0x1f), GW_E_CORRUPT); /* one escape too many */
    assert_int_equal(bent(23, 0x11), GW_E_CORRUPT); /* an escape that no code asks for */
    for (size_t n = 0; n < payload; n++)
        assert_int_equal(decode(n, GW_VIEW_BF16, groups, 512), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_BF16, groups + 1, 512),
                     GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_COUNT, groups, 512),
                     GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_BF16, groups, 514),
                     GW_E_CORRUPT);
}

/* ---- a peer that writes while we decode ---- */

/* A kernel that does what such a peer may do between two of its reads: every header after the first group's now promises what
 * nobody checked. */
static uint8_t now_say;
static unsigned decodes;

static int rewriting_decode(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst)
{
    decodes++;
    assert_true(body >= coded && esc + n <= coded + 4096);
    for (size_t i = 1; i < GW_TILE_BYTES / 512; i++)
        coded[2 * i] = now_say;
    return gw_kern_scalar.decode[GW_VIEW_BF16](body, top, esc, n, dst);
}

/* The lengths that were added up are the lengths that are used. */
static void test_bytes_that_change(void **s)
{
    static const uint8_t say[] = {GW_KIND_WINDOW, GW_KIND_WINDOW + 127, GW_KIND_WINDOW_LAST, GW_KIND_SPARSE, GW_KIND_RAW};
    struct gw_kern kern = gw_kern_scalar;
    static _Alignas(64) uint8_t tile[1 << 16]; /* as the codec's workspace */
    size_t n_groups = GW_TILE_BYTES / 512, used;
    (void)s;
    kern.decode[GW_VIEW_BF16] = rewriting_decode;
    for (size_t i = 0; i < GW_LEN(say); i++) {
        size_t len = 2 * n_groups + gw_view_shapes[GW_VIEW_BF16].body;
        memset(coded, 0, 4096), memset(out, 0xee, GW_TILE_BYTES);
        coded[0] = GW_KIND_WINDOW, coded[1] = 0x7f; /* then 31 n_groups of zeros */
        memset(coded + 2 * n_groups, 0x11, GW_CODES_BYTES);
        now_say = say[i], decodes = 0;
        assert_int_equal(gw_tile_decode(&kern, NULL, GW_VIEW_BF16, coded, len, out, GW_TILE_BYTES, &used, (void *)tile), GW_OK);
        assert_int_equal(used, len);
        assert_int_equal(decodes, 1);
        assert_int_equal(gw_get16(out), 0x3f80); /* 1.0 */
        assert_true(gw_zero(out + 512, GW_TILE_BYTES - 512));
    }
}

#define TEST(name) cmocka_unit_test_setup(name, start)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_registry),
        TEST(test_kernels),
        TEST(test_select),
        TEST(test_bf16_bytes),
        TEST(test_f16_bytes),
        TEST(test_f32_bytes),
        TEST(test_zero),
        TEST(test_minus_zero),
        TEST(test_kinds),
        TEST(test_bf16_in_f32),
        TEST(test_growth),
        TEST(test_raw_leaves_dst_alone),
        TEST(test_arguments),
        TEST(test_decode_refusals),
        TEST(test_bytes_that_change),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
