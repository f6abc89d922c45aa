/* prop_codec.c - every codec, kernel and view over seeded shapes and lengths, with guard pages
 * round every buffer.
 *
 * ROUNDS=n in the environment runs n rounds (4).  A failure prints the round, so that ROUND=n repeats
 * it alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>

#include "fence.h"

enum { MOST = 70000, ROOM = 1 << 17 };

static struct fence in_fence, coded_fence, other_fence, out_fence;
static _Alignas(64) uint8_t ws[2 << 20];

static struct fence *const fences[] = {&in_fence, &coded_fence, &other_fence, &out_fence};

static int setup(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(fences); i++) {
        *fences[i] = fence_new(ROOM);
        assert_non_null(fences[i]->base);
    }
    assert_true(gw_codec_ws_max() <= sizeof(ws));
    return 0;
}

static int teardown(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(fences); i++)
        fence_free(*fences[i]);
    gw_kern_force(NULL);
    return 0;
}

/* ---- shapes ---- */

static void put_value(uint8_t *p, unsigned width, uint32_t bits)
{
    if (width == 4)
        gw_put32(p, bits);
    else
        gw_put16(p, (uint16_t)(bits >> 16));
}

/* f32 with exponents that fall off below `top` like a real gradient's. */
static uint32_t gradient(unsigned top)
{
    uint64_t r = chance();
    unsigned drop = (unsigned)__builtin_ctzll(r | (uint64_t)1 << 40);
    unsigned e = top > drop ? top - drop : 0;
    return (uint32_t)(r >> 41 & 1) << 31 | e << 23 | (uint32_t)(r >> 42 & 0x7fffff);
}

static uint32_t special(void)
{
    static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
                                   0x7f800001, 0x80000000, 0x00000001, 0x807fffff,
                                   0x00800000, 0x7f7fffff, 0x00000000, 0x3f800000};
    return odd[below(GW_LEN(odd))];
}

static void fill_floats(uint8_t *p, size_t n, unsigned width, unsigned odd, unsigned zeros)
{
    unsigned top = 40 + (unsigned)below(200);
    for (size_t i = 0; i + width <= n; i += width) {
        uint32_t v = below(256) < odd ? special() : gradient(top);
        put_value(p + i, width, below(256) < zeros ? 0 : v);
    }
}

static void fill_halves(uint8_t *p, size_t n)
{
    for (size_t i = 0; i + 2 <= n; i += 2) {
        unsigned drop = (unsigned)__builtin_ctzll(chance() | 1 << 20),
                 e = drop < 20 ? 20 - drop : 0;
        gw_put16(p + i, (uint16_t)((chance() & 0x83ff) | e << 10));
    }
}

static void fill_random(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)chance();
}

static void fill(uint8_t *p, size_t n, unsigned shape)
{
    memset(p, 0, n);
    switch (shape) {
    case 0:
        fill_floats(p, n, 4, 0, 0);
        break;
    case 1:
        fill_floats(p, n, 2, 0, 0);
        break;
    case 2:
        fill_floats(p, n, 4, 8, 64);
        break;
    case 3:
        fill_floats(p, n, 2, 64, 16);
        break;
    case 4:
        fill_halves(p, n);
        break;
    case 5:
        fill_random(p, n);
        break;
    case 6:
        break;
    case 7:
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(below(4) ? below(12) : below(256));
        break;
    case 8: /* f32 that holds bf16 */
        for (size_t i = 0; i + 4 <= n; i += 4)
            gw_put32(p + i, gradient(120) & 0xffff0000);
        break;
    case 9:
        fill_floats(p, n, 4, 2, 200);
        break;
    case 10:
        fill_floats(p, n, 2, 2, 128);
        break;
    case 11: /* in the middle of many zeros, exponents far from each other */
        for (size_t i = 0; i + 2 <= n; i += 2)
            gw_put16(p + i, (uint16_t)(below(20) ? below(3) ? 0x3f80 + below(0x180) : 0 : chance()));
        break;
    case 12: /* mostly zeros */
        fill_floats(p, n, below(2) ? 2 : 4, 8, 200 + (unsigned)below(56));
        break;
    }
}
enum { SHAPES = 13 };

/* A patchwork: pieces of several shapes, some of them zero, so that one tile holds every kind of
 * group. */
static void patchwork(uint8_t *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t len = gw_min_u64(n - at, 64 * (1 + below(200)));
        fill(p + at, len, (unsigned)below(SHAPES));
        at += len;
    }
}

static size_t some_length(void)
{
    static const size_t edges[] = {0,     1,     2,     3,     63,    64,    65,    255,
                                   256,   511,   512,   513,   1023,  1024,  1025,  16383,
                                   16384, 16385, 16386, 16387, 32768, 65535, 65536, 69999};
    size_t n = below(3) ? edges[below(GW_LEN(edges))] : below(MOST);
    return n;
}

/* ---- properties ---- */

struct trial {
    const struct gw_codec *codec;
    struct gw_coding c;
    size_t n, wire;
    uint32_t count;
    const uint8_t *src;
    uint8_t *coded;
};

static gw_err encode_with(const struct gw_kern *kern, struct trial *t, uint8_t *dst, size_t cap)
{
    gw_kern_force(kern);
    return t->codec->encode(&t->c, t->src, t->n, dst, cap, &t->wire, &t->count, ws);
}

static gw_err decode(const struct trial *t, const uint8_t *bytes, size_t len, uint32_t count,
                     uint8_t *out)
{
    struct gw_frame f = {.codec = t->codec->id, .view = t->c.view, .count = count};
    f.raw_bytes = (uint32_t)t->n, f.wire_bytes = (uint32_t)len;
    return t->codec->decode(&f, bytes, out, t->n, ws);
}

static void check_decode(const struct gw_kern *kern, const struct trial *t)
{
    for (int end = 0; end < 2; end++) {
        uint8_t *out = fenced(out_fence, t->n, end);
        gw_kern_force(kern);
        assert_int_equal(decode(t, t->coded, t->wire, t->count, out),
                         GW_OK);
        assert_memory_equal(out, t->src, t->n);
        assert_true(canaries_live(out_fence, out, t->n));
    }
}

/* Whatever came over the wire, decode answers and stays inside; it may only succeed or call it
 * corrupt. */
static void check_hostile(const struct trial *t, const uint8_t *bytes, size_t len, uint32_t count)
{
    uint8_t *out = fenced(out_fence, t->n, (int)below(2));
    gw_err err = decode(t, bytes, len, count, out);
    assert_true(err == GW_OK || err == GW_E_CORRUPT);
    assert_true(canaries_live(out_fence, out, t->n));
}

static void check_damage(const struct trial *t)
{
    for (int i = 0; i < 12; i++) {
        size_t len = below(t->wire + 1);
        uint8_t *cut = at_end(other_fence, len);
        memcpy(cut, t->coded, len);
        if (len < t->wire) {
            uint8_t *out = fenced(out_fence, t->n, 1);
            assert_int_equal(decode(t, cut, len, t->count, out),
                             GW_E_CORRUPT);
        }
        uint8_t *bent = at_end(other_fence, t->wire);
        memcpy(bent, t->coded, t->wire);
        for (size_t flips = 1 + below(3); flips > 0 && t->wire > 0; flips--)
            bent[below(below(2) ? t->wire : gw_min_u64(t->wire, 200))] ^= (uint8_t)(1 << below(8));
        check_hostile(t, bent, t->wire, t->count);
        check_hostile(t, t->coded, t->wire, t->count + 1);
    }
}

/* zstd and lz4 may want more room while they work than is left in the end. */
static int needs_no_more(const struct gw_codec *codec)
{
    return codec->id != GW_CODEC_ZSTD && codec->id != GW_CODEC_LZ4;
}

/* Exactly what was needed is enough, one byte less is GW_RAW, and the byte behind is the fence. */
static void check_short(const struct gw_kern *kern, struct trial *t)
{
    size_t wire = t->wire;
    uint32_t count = t->count;
    size_t caps[] = {wire - 1, wire / 2, below(wire), 0};
    for (size_t i = 0; wire > 0 && i < GW_LEN(caps); i++)
        assert_int_equal(encode_with(kern, t, at_end(other_fence, caps[i]), caps[i]), GW_RAW);
    gw_err err = encode_with(kern, t, at_end(other_fence, wire), wire);
    assert_true(err == GW_OK || (err == GW_RAW && !needs_no_more(t->codec)));
    if (needs_no_more(t->codec))
        assert_memory_equal(at_end(other_fence, wire), t->coded, wire);
    t->wire = wire, t->count = count;
}

/* The first kernel's bytes are everyone's bytes, and everyone reads them. */
static void check_kernels(struct trial *t)
{
    size_t cap = t->codec->bound(t->n, &t->c), first_len = 0;
    gw_err first = GW_OK;
    const struct gw_kern *kern;
    for (size_t i = 0, ran = 0; (kern = gw_kern_at(i)) != NULL; i++) {
        if (!kern->usable())
            continue;
        uint8_t *to = ran == 0 ? t->coded : at_end(other_fence, cap);
        gw_err err = encode_with(kern, t, to, cap);
        assert_true(err == GW_OK || err == GW_RAW);
        if (ran++ == 0)
            first = err, first_len = t->wire;
        assert_int_equal(err, first);
        if (err != GW_OK)
            continue;
        assert_int_equal(t->wire, first_len);
        assert_true(t->wire <= cap);
        assert_memory_equal(to, t->coded, t->wire);
        check_short(kern, t);
    }
    for (size_t i = 0; first == GW_OK && (kern = gw_kern_at(i)) != NULL; i++)
        if (kern->usable())
            check_decode(kern, t), check_damage(t);
}

static void one(size_t n, int shape)
{
    uint8_t *src = below(2) ? at_end(in_fence, n) : at_start(in_fence);
    if (shape == SHAPES)
        patchwork(src, n);
    else
        fill(src, n, (unsigned)shape);
    const struct gw_codec *codec;
    for (size_t i = 0; (codec = gw_codec_at(i)) != NULL; i++)
        for (unsigned view = codec->traits & GW_TRAIT_LOSSY ? GW_VIEW_COUNT : 0; view < GW_VIEW_COUNT; view++) {
            struct trial t = {.codec = codec, .n = n, .src = src};
            t.c.size = sizeof(t.c), t.c.view = (uint8_t)view;
            t.coded = at_end(coded_fence, codec->bound(n, &t.c));
            check_kernels(&t);
        }
}

static void test_codecs(void **s)
{
    (void)s;
    const char *many = getenv("ROUNDS"), *alone = getenv("ROUND");
    unsigned long first = alone && *alone ? strtoul(alone, NULL, 0) : 1;
    unsigned long last = alone && *alone ? first : many && *many ? strtoul(many, NULL, 0) : 4;
    for (unsigned long seed = first; seed <= last; seed++) {
        state = seed;
        printf("seed %lu\n", seed);
        for (int shape = 0; shape <= SHAPES; shape++)
            for (int i = 0; i < 3; i++)
                one(some_length(), shape);
        for (int i = 0; i < 3; i++)
            one(some_length(), SHAPES);
    }
}

/* Whole frames: a payload bit that still decodes is caught by the checksum. */
static void test_frames(void **s)
{
    (void)s;
    const struct gw_codec *codec = gw_codec_by_id(GW_CODEC_GROUP);
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_F32};
    state = 77;
    gw_kern_force(NULL);
    for (int i = 0; i < 40; i++) {
        size_t n = 2048 + below(MOST - 2048), len = 0;
        uint8_t *src = at_start(in_fence), *dst = at_start(coded_fence), *out;
        fill_floats(src, n, 4, 0, 32);
        assert_int_equal(gw_frame_encode(codec, &c, 1, src, n, dst, n, &len, ws), GW_OK);
        out = fenced(out_fence, n, 1);
        assert_int_equal(gw_frame_decode(dst, len, out, n, ws), GW_OK);
        assert_memory_equal(out, src, n);
        for (int flip = 0; flip < 20; flip++) {
            size_t at = 8 + below(len - 8);
            uint8_t bit = (uint8_t)(1 << below(8));
            dst[at] ^= bit;
            assert_int_not_equal(gw_frame_decode(dst, len, fenced(out_fence, n, 1), n, ws), GW_OK);
            dst[at] ^= bit;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codecs),
                                       cmocka_unit_test(test_frames)};
    return cmocka_run_group_tests_name("prop_codec", tests, setup, teardown);
}
