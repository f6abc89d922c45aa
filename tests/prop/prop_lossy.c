/* prop_lossy.c - every lossy codec and kernel over seeded shapes, lengths and parameters, with guard pages round every buffer.
 *
 * ROUNDS=n in the environment runs n rounds (6).  A failure prints the round, so that ROUND=n repeats it alone. */
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

enum { MOST = 40000, ROOM = 1 << 16 };

static struct fence in_fence, coded_fence, other_fence, out_fence, old_fence, new_fence;
static struct fence *const fences[] = {&in_fence, &coded_fence, &other_fence, &out_fence, &old_fence, &new_fence};
static uint8_t first_residual[MOST], first_out[MOST], damaged[ROOM];
static _Alignas(64) uint8_t ws[2 << 20];

static int setup(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(fences); i++) {
        *fences[i] = fence_new(ROOM);
        assert_non_null(fences[i]->base);
    }
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

static uint32_t special(int finite)
{
    static const uint32_t odd[] = {0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x0d7fffff, 0x0d800000,
                                   0x00000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001};
    return odd[below(finite ? 8 : GW_LEN(odd))];
}

/* Exponents that fall off below a top that changes now and then; sometimes anything at all. */
static void fill(uint8_t *p, size_t n)
{
    unsigned top = 127, odd = below(3) ? 0 : 1 + (unsigned)below(6), zeros = below(3) ? 0 : (unsigned)below(250);
    int finite = (int)below(2), noise = below(8) == 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        if (i % 1024 == 0)
            top = below(4) ? 90 + (unsigned)below(40) : 1 + (unsigned)below(253);
        uint64_t r = chance();
        unsigned drop = (unsigned)__builtin_ctzll(r | (uint64_t)1 << 40), e = top > drop ? top - drop : 0;
        uint32_t v = (uint32_t)(r >> 41 & 1) << 31 | e << 23 | (uint32_t)(r >> 42 & 0x7fffff);
        v = noise ? (uint32_t)r : below(256) < zeros ? 0 : below(2000) < odd ? special(finite) : v;
        gw_put32(p + i, v);
    }
    for (size_t i = n / 4 * 4; i < n; i++)
        p[i] = (uint8_t)chance();
}

static size_t some_length(void)
{
    static const size_t edges[] = {0,    1,    2,    3,    4,     5,     127,   128,   129,   255,   256,  257, 511,
                                   512,  513,  1023, 1024, 1025,  1027,  4095,  4096,  4097,  16380, 16384, 16385,
                                   16388, 32768, 32771, 32772, 39999};
    return below(3) ? edges[below(GW_LEN(edges))] : below(MOST);
}

/* ---- properties ---- */

struct trial {
    const struct gw_codec *codec;
    struct gw_coding c;
    size_t n, wire, cap;
    uint32_t count;
    const uint8_t *src;
    uint8_t *coded;
    const uint8_t *old; /* residual before; NULL: none */
};

static void choose(struct trial *t, const struct gw_codec *codec)
{
    static const uint32_t bits[] = {8, 16, 32}, floats[] = {0x3f800000, 0x3c23d70a, 0x0d800000, 0x7f000000, 0x42c80000};
    t->codec = codec;
    t->c = (struct gw_coding){.size = sizeof(t->c), .view = GW_VIEW_F32, .seed = chance(), .first = chance()};
    if (below(2))
        t->c.first = ((uint64_t)1 + below(3)) << 32, t->c.first -= below(MOST / 4);
    if (codec->id < GW_CODEC_TWOBIT && below(2))
        t->c.flags = GW_CODING_STOCHASTIC;
    if (codec->id == GW_CODEC_LEVELS || codec->id == GW_CODEC_TWOBIT)
        t->c.param = floats[below(GW_LEN(floats))];
    if (codec->id == GW_CODEC_LEVELS)
        t->c.bits = bits[below(3)], t->c.ranks = 1 + (uint32_t)below(127);
}

/* Into a fenced copy of the residual, which is 4-aligned at either end. */
static gw_err encode_with(const struct gw_kern *kern, struct trial *t, uint8_t *dst, size_t cap, uint8_t **new_p)
{
    size_t bytes = t->n / 4 * 4;
    uint8_t *residual = fenced(new_fence, bytes, (int)below(2));
    if (t->old != NULL)
        memcpy(residual, t->old, bytes);
    t->c.residual = t->old != NULL ? (float *)(void *)residual : NULL;
    gw_kern_force(kern);
    gw_err err = t->codec->encode(&t->c, t->src, t->n, dst, cap, &t->wire, &t->count, ws);
    assert_true(t->old == NULL || canaries_live(new_fence, residual, bytes));
    *new_p = residual;
    return err;
}

static struct gw_frame head(const struct trial *t, size_t len)
{
    struct gw_frame f = {.codec = t->codec->id, .view = GW_VIEW_F32, .count = t->count, .param = t->c.param};
    f.raw_bytes = (uint32_t)t->n, f.wire_bytes = (uint32_t)len;
    return f;
}

/* Both decoders with this kernel; what they leave is in out, n bytes. */
static gw_err decode_with(const struct gw_kern *kern, const struct gw_frame *f, const uint8_t *bytes, size_t n, float scale,
                          uint8_t *out)
{
    uint8_t *p = fenced(out_fence, n, (int)below(2));
    gw_kern_force(kern);
    const struct gw_codec *codec = gw_codec_by_id(f->codec);
    gw_err err = codec->decode(f, bytes, p, n, ws);
    assert_true(canaries_live(out_fence, p, n));
    memcpy(out, p, n);
    if (scale == 0)
        return err;
    uint8_t *q = out_fence.base + FENCE_PAGE + (out_fence.room - (n + 3) / 4 * 4);
    memset(out_fence.base + FENCE_PAGE, FENCE_CANARY, out_fence.room);
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)(i * 7 + i / 251);
    memcpy(p = other_fence.base + FENCE_PAGE, q, n);
    gw_err add = codec->decode_add(f, bytes, (float *)(void *)q, n, scale, ws);
    assert_int_equal(add, err);
    assert_true(canaries_live(out_fence, q, n));
    assert_memory_equal(q + n / 4 * 4, p + n / 4 * 4, n % 4);
    if (err != GW_OK)
        assert_memory_equal(q, p, n);
    else
        memcpy(out, q, n / 4 * 4); /* the sum tells of the values too */
    return err;
}

/* A scale, a length, a count or a code changed: every kernel answers alike, and stays inside. */
static void check_damage(const struct trial *t)
{
    for (int i = 0; i < 8; i++) {
        size_t len = below(2) ? t->wire : below(t->wire + 1);
        uint8_t *bent = fenced(coded_fence, len, 1);
        memcpy(bent, damaged, len);
        struct gw_frame f = head(t, len);
        for (size_t flips = below(4); flips > 0 && len > 0; flips--)
            bent[below(below(2) ? len : gw_min_u64(len, 300))] ^= (uint8_t)(1 << below(8));
        f.count += (uint32_t)(below(6) == 0), f.param ^= below(6) ? 0 : 1u << below(32);
        float scale = below(2) ? 1 : 0.3f;
        gw_err want = GW_OK;
        const struct gw_kern *kern;
        for (size_t k = 0, ran = 0; (kern = gw_kern_at(k)) != NULL; k++) {
            if (!kern->usable())
                continue;
            static uint8_t out[MOST];
            gw_err err = decode_with(kern, &f, bent, t->n, scale, ran == 0 ? first_out : out);
            assert_true(err == GW_OK || err == GW_E_CORRUPT);
            if (ran++ == 0)
                want = err;
            assert_int_equal(err, want);
            if (err == GW_OK)
                assert_memory_equal(out, ran == 1 ? out : first_out, t->n);
        }
    }
}

/* The first kernel's bytes and residual are everyone's. */
static gw_err check_encode(struct trial *t)
{
    const struct gw_kern *kern;
    gw_err want = GW_OK;
    size_t wire = 0, bytes = t->n / 4 * 4;
    uint32_t count = 0;
    for (size_t k = 0, ran = 0; (kern = gw_kern_at(k)) != NULL; k++) {
        if (!kern->usable())
            continue;
        uint8_t *to = fenced(ran == 0 ? coded_fence : other_fence, t->cap, 1), *left;
        gw_err err = encode_with(kern, t, to, t->cap, &left);
        assert_true(err == GW_OK || err == GW_RAW);
        if (ran++ == 0) {
            want = err, wire = t->wire, count = t->count, t->coded = to;
            memcpy(first_residual, left, bytes);
        }
        assert_int_equal(err, want);
        if (err != GW_OK) {
            if (t->old != NULL)
                assert_memory_equal(left, t->old, bytes);
            continue;
        }
        assert_true(t->wire == wire && t->wire <= t->cap && t->count == count);
        assert_memory_equal(to, t->coded, wire);
        if (t->old != NULL)
            assert_memory_equal(left, first_residual, bytes);
        assert_true(!(t->codec->traits & GW_TRAIT_FIXED_RATE) || wire == t->cap);
    }
    return want;
}

/* A byte short is GW_RAW; the byte behind is the fence, and the residual is as it was. */
static void check_short(struct trial *t)
{
    size_t wire = t->wire, caps[] = {wire - 1, below(wire), 0};
    uint32_t count = t->count;
    for (size_t i = 0; i < GW_LEN(caps); i++) {
        uint8_t *left, *to = fenced(other_fence, caps[i], 1);
        assert_int_equal(encode_with(NULL, t, to, caps[i], &left), GW_RAW);
        if (t->old != NULL)
            assert_memory_equal(left, t->old, t->n / 4 * 4);
    }
    t->wire = wire, t->count = count;
}

static void check_decode(const struct trial *t, const uint8_t *bytes)
{
    static const float scales[] = {0, 1, -0.7f};
    static uint8_t out[MOST];
    const struct gw_kern *kern;
    struct gw_frame f = head(t, t->wire);
    for (size_t i = 0; i < GW_LEN(scales); i++)
        for (size_t k = 0, ran = 0; (kern = gw_kern_at(k)) != NULL; k++) {
            if (!kern->usable())
                continue;
            uint8_t *to = ran++ == 0 ? first_out : out;
            assert_int_equal(decode_with(kern, &f, bytes, t->n, scales[i], to), GW_OK);
            assert_memory_equal(to, first_out, t->n);
        }
    assert_memory_equal(first_out + t->n / 4 * 4, t->src + t->n / 4 * 4, t->n % 4);
}

static void one(size_t n)
{
    uint8_t *src = fenced(in_fence, n, (int)below(2)), *old = fenced(old_fence, n, 0);
    const struct gw_codec *codec;
    fill(src, n), fill(old, n);
    for (size_t i = 0; (codec = gw_codec_at(i)) != NULL; i++) {
        struct trial t = {.n = n, .src = src, .old = below(2) ? old : NULL};
        if (codec->id < GW_CODEC_BF16 || codec->id > GW_CODEC_SIGN)
            continue;
        choose(&t, codec);
        t.cap = codec->bound(n, &t.c);
        if (check_encode(&t) != GW_OK)
            continue;
        memcpy(damaged, t.coded, t.wire);
        if (t.wire > 0)
            check_short(&t);
        check_decode(&t, t.coded);
        check_damage(&t);
    }
}

static void test_codecs(void **s)
{
    (void)s;
    const char *many = getenv("ROUNDS"), *alone = getenv("ROUND");
    unsigned long first = alone && *alone ? strtoul(alone, NULL, 0) : 1;
    unsigned long last = alone && *alone ? first : many && *many ? strtoul(many, NULL, 0) : 6;
    for (unsigned long seed = first; seed <= last; seed++) {
        state = seed;
        printf("seed %lu\n", seed);
        for (int i = 0; i < 12; i++)
            one(some_length());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codecs)};
    return cmocka_run_group_tests_name("prop_lossy", tests, setup, teardown);
}
