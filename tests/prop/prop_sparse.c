/* prop_sparse.c - sets of coordinates: every index and value coding on every kernel, between guard pages, against plain
 * references; damaged frames.
 *
 * ROUNDS=n in the environment runs n rounds (3); ROUND=n repeats one alone. */
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
#include <gradwire/sparse.h>
#include <kern.h>
#include <masks.h>

/* ---- encode and decode ---- */

struct trial {
    struct gw_sparse how;
    struct mask_set set;
    uint8_t *coded;
    size_t len;
};

static gw_err encode(const struct gw_kern *kern, const struct trial *t, uint8_t *dst, size_t cap, size_t *len_p)
{
    gw_kern_force(kern);
    return gw_sparse_encode(&t->how, t->set.index, t->set.value, (uint32_t)t->set.n, dst, cap, len_p);
}

static uint32_t bits_of(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return b;
}

static double wide(float v)
{
    return (double)v;
}

static double magnitude(double v)
{
    return v < 0 ? -v : v;
}

static int finite_bits(uint32_t b)
{
    return (b & 0x7f800000) != 0x7f800000;
}

static void check_bf16(float in, float out)
{
    uint32_t a = bits_of(in) & 0x7fffffff, b = bits_of(out);
    assert_int_equal(b & 0xffff, 0);
    if (a > 0x7f800000) {
        assert_int_equal(b, 0x7fc00000);
        return;
    }
    assert_int_equal(b >> 31, bits_of(in) >> 31);
    if (a == 0x7f800000 || a < 0x00800000)
        assert_int_equal(b & 0x7fffffff, a == 0x7f800000 ? a : 0);
    else if (a >= 0x7f7f8000)
        assert_int_equal(b & 0x7fffffff, 0x7f7f0000);
    else /* half a unit of 8 bits */
        assert_true(magnitude(wide(out) - wide(in)) <= magnitude(wide(in)) / 256);
}

/* One block of 256: as it was, or within half a step of it. */
static void check_int8(const float *in, const float *out, size_t n)
{
    double most = 0;
    int odd = 0;
    for (size_t i = 0; i < n; i++) {
        odd |= !finite_bits(bits_of(in[i]));
        if (!odd && magnitude(wide(in[i])) > most)
            most = magnitude(wide(in[i]));
    }
    volatile float step = (float)most / 127, largest = 127 * step;
    odd |= !finite_bits(bits_of(largest));
    for (size_t i = 0; i < n; i++) {
        if (odd)
            assert_int_equal(bits_of(in[i]), bits_of(out[i]));
        else if (most < 0x1p-100)
            assert_int_equal(bits_of(out[i]), 0);
        else
            assert_true(magnitude(wide(out[i]) - wide(in[i])) <= most / 127 * 0.5001);
    }
}

static void check_mean(const float *in, const float *out, size_t n)
{
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++)
        sum += wide(in[i]), all += magnitude(wide(in[i]));
    for (size_t i = 1; i < n; i++)
        assert_int_equal(bits_of(out[i]), bits_of(out[0]));
    if (n != 0 && all < 1e30) /* and so finite */
        assert_true(magnitude(wide(out[0]) - sum / (double)n) <= all / (double)n * 1e-5);
}

static void check_values(const struct trial *t, const float *out)
{
    const float *in = t->set.value;
    size_t n = t->set.n;
    if (t->how.value == GW_VALUE_F32)
        assert_memory_equal(out, in, 4 * n);
    for (size_t i = 0; t->how.value == GW_VALUE_BF16 && i < n; i++)
        check_bf16(in[i], out[i]);
    for (size_t i = 0; t->how.value == GW_VALUE_INT8 && i < n; i += 256)
        check_int8(in + i, out + i, gw_min_u64(256, n - i));
    if (t->how.value == GW_VALUE_MEAN)
        check_mean(in, out, n);
}

static void check_decode(const struct gw_kern *kern, const struct trial *t)
{
    uint32_t n = 0;
    gw_kern_force(kern);
    for (int end = 0; end < 2; end++) {
        uint32_t *index = (uint32_t *)(void *)fence_new(F_OUT_INDEX, 4 * t->set.n, end);
        float *value = (float *)(void *)fence_new(F_OUT_VALUE, 4 * t->set.n, end);
        assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space, index, value, t->set.n, &n), GW_OK);
        assert_int_equal(n, t->set.n);
        if (t->how.index != GW_INDEX_SEED)
            assert_memory_equal(index, t->set.index, 4 * t->set.n);
        check_values(t, value);
        assert_true(fence_live(F_OUT_INDEX, (uint8_t *)index, 4 * t->set.n));
        assert_true(fence_live(F_OUT_VALUE, (uint8_t *)value, 4 * t->set.n));
    }
    if (t->set.n != 0)
        assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space, NULL, NULL, t->set.n - 1, &n), GW_E_LIMIT);
    assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space + 1, NULL, NULL, t->set.n, &n), GW_E_CORRUPT);
}

/* A frame that decodes is a set of the space, and written again its indices give the same bytes: one meaning, one spelling. */
static void check_spelling(const uint8_t *frame, uint64_t space, const uint32_t *index, const float *value, uint32_t n)
{
    static uint8_t again[MASK_ROOM];
    struct gw_sparse s;
    uint32_t count;
    size_t len;
    for (uint32_t i = 0; i < n; i++)
        assert_true(index[i] < space && (i == 0 || index[i - 1] < index[i]));
    assert_int_equal(gw_sparse_read(frame, GW_FRAME_BYTES + gw_get32(frame + 12), &s, &count), GW_OK);
    s.value = GW_VALUE_F32;
    assert_int_equal(gw_sparse_encode(&s, index, value, n, again, sizeof(again), &len), GW_OK);
    assert_memory_equal(again + GW_FRAME_BYTES, frame + GW_FRAME_BYTES, 16 + gw_get32(frame + GW_FRAME_BYTES + 4));
}

/* The same answer from every kernel, nothing written outside. */
static void check_hostile(const struct trial *t, const uint8_t *frame, size_t len)
{
    gw_err first = GW_AGAIN;
    const struct gw_kern *kern;
    for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++) {
        if (!kern->usable())
            continue;
        uint32_t n = 0;
        uint32_t *index = (uint32_t *)(void *)fence_new(F_OUT_INDEX, 4 * t->set.n, 1);
        float *value = (float *)(void *)fence_new(F_OUT_VALUE, 4 * t->set.n, 1);
        gw_kern_force(kern);
        gw_err err = gw_sparse_decode(frame, len, t->set.space, index, value, t->set.n, &n);
        assert_true(err == GW_OK || err == GW_E_CORRUPT || err == GW_E_LIMIT || err == GW_E_NOSYS ||
                    err == GW_E_CHECK); /* the flag for it may be what was bent */
        assert_true(first == GW_AGAIN || err == first);
        assert_true(fence_live(F_OUT_INDEX, (uint8_t *)index, 4 * t->set.n));
        assert_true(fence_live(F_OUT_VALUE, (uint8_t *)value, 4 * t->set.n));
        if (err == GW_OK)
            check_spelling(frame, t->set.space, index, value, n);
        first = err;
    }
}

static void check_damage(const struct trial *t)
{
    for (int i = 0; i < 4; i++) {
        size_t len = mask_below(t->len);
        uint8_t *cut = fence_end(F_OTHER, len);
        uint32_t n;
        memcpy(cut, t->coded, len);
        assert_int_equal(gw_sparse_decode(cut, len, t->set.space, NULL, NULL, t->set.n, &n), GW_E_CORRUPT);
        uint8_t *bent = fence_end(F_OTHER, t->len);
        memcpy(bent, t->coded, t->len);
        for (size_t flips = 1 + mask_below(3); flips > 0; flips--)
            bent[mask_below(mask_below(2) ? t->len : gw_min_u64(t->len, 200))] ^= (uint8_t)(1 << mask_below(8));
        check_hostile(t, bent, t->len);
    }
}

/* Exactly the room that is needed, the fence behind it; and less. */
static void check_encode(const struct gw_kern *kern, const struct trial *t)
{
    size_t len = 0, caps[] = {t->len - 1, t->len / 2, mask_below(t->len), 0};
    uint8_t *to = fence_new(F_OTHER, t->len, 1);
    assert_int_equal(encode(kern, t, to, t->len, &len), GW_OK);
    assert_int_equal(len, t->len);
    assert_memory_equal(to, t->coded, len);
    assert_true(fence_live(F_OTHER, to, len));
    for (size_t i = 0; i < GW_LEN(caps); i++)
        assert_int_equal(encode(kern, t, fence_end(F_OTHER, caps[i]), caps[i], &len), GW_RAW);
}

static void check_kernels(struct trial *t)
{
    uint64_t cap = gw_sparse_bound(&t->how, (uint32_t)t->set.n);
    const struct gw_kern *kern;
    assert_true(cap != 0 && cap <= MASK_ROOM);
    t->coded = fence_end(F_CODED, cap);
    assert_int_equal(encode(NULL, t, t->coded, cap, &t->len), GW_OK);
    assert_true(t->len <= cap);
    memmove(fence_end(F_CODED, t->len), t->coded, t->len); /* the first byte beyond it is the fence */
    t->coded = fence_end(F_CODED, t->len);
    for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++)
        if (kern->usable())
            check_encode(kern, t), check_decode(kern, t);
    check_damage(t);
}

static int whole_blocks(const struct mask_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        uint64_t first = s->index[i] & ~255u, last = gw_min_u64(first + 256, s->space) - 1;
        if (i < s->index[i] - first || s->index[i - (s->index[i] - first)] != first)
            return 0;
        if (s->n - i <= last - s->index[i] || s->index[i + (last - s->index[i])] != last)
            return 0;
    }
    return 1;
}

/* Each coding, and BEST is the smallest of them. */
static void all_codings(const struct mask_set *set, unsigned value)
{
    size_t least = SIZE_MAX;
    for (unsigned kind = 0; kind <= GW_INDEX_COUNT; kind++) {
        struct trial t = {.set = *set};
        t.how = (struct gw_sparse){.size = sizeof(t.how), .index = (uint8_t)kind, .value = (uint8_t)value, .space = set->space};
        if (kind == GW_INDEX_COUNT)
            t.how.index = GW_INDEX_BEST;
        t.how.seed = kind == GW_INDEX_SEED ? mask_chance() : 0;
        if (kind == GW_INDEX_RUNS && !whole_blocks(set)) {
            size_t len;
            assert_int_equal(encode(NULL, &t, fence_end(F_CODED, MASK_ROOM), MASK_ROOM, &len), GW_E_ARG);
            continue;
        }
        check_kernels(&t);
        if (kind < GW_INDEX_SEED)
            least = gw_min_u64(least, t.len);
        else if (kind == GW_INDEX_COUNT)
            assert_int_equal(t.len, least);
    }
}

static void test_sets(void **s)
{
    (void)s;
    const char *many = getenv("ROUNDS"), *alone = getenv("ROUND");
    unsigned long first = alone && *alone ? strtoul(alone, NULL, 0) : 1;
    unsigned long last = alone && *alone ? first : many && *many ? strtoul(many, NULL, 0) : 3;
    for (unsigned long seed = first; seed <= last; seed++) {
        mask_state = seed;
        printf("seed %lu\n", seed);
        for (unsigned shape = 0; shape < MASK_SHAPES; shape++) {
            struct mask_set set = mask_set_new(mask_space(), shape, mask_below(2) ? 0 : 4);
            all_codings(&set, (unsigned)(seed + shape) % GW_VALUE_COUNT);
        }
    }
}

/* Every share of a block that Elias-Fano knows a width for, spread as evenly as can be: there the bound is nearly reached. */
static void test_even(void **s)
{
    (void)s;
    mask_state = 11;
    for (uint32_t n = 1; n < 100000; n += 1 + n / 2) {
        struct mask_set set = {.space = 100000, .n = n};
        set.index = (uint32_t *)(void *)fence_end(F_INDEX, 4 * n), set.value = (float *)(void *)fence_end(F_VALUE, 4 * n);
        for (uint32_t i = 0; i < n; i++)
            set.index[i] = (uint32_t)(i * (uint64_t)100000 / n), set.value[i] = 1;
        all_codings(&set, GW_VALUE_MEAN);
    }
}


/* One Elias-Fano block of few entries, at every width of the low part and every length, with as little as there can be behind
 * it: 4 bytes of values and seldom padding. */
static void test_widths(void **s)
{
    (void)s;
    const struct gw_kern *kern;
    mask_state = 12;
    for (uint32_t n = 1; n <= 41; n++)
        for (uint64_t space = 1 << 20; space > n; space -= gw_min_u64(space, 1 + space / 8 + mask_below(9))) {
            struct trial t = {.set = {.space = space, .n = n}};
            t.how = (struct gw_sparse){.size = sizeof(t.how), .index = GW_INDEX_EF20, .value = GW_VALUE_MEAN, .space = space};
            t.set.index = (uint32_t *)(void *)fence_end(F_INDEX, 4 * n);
            t.set.value = (float *)(void *)fence_end(F_VALUE, 4 * n);
            for (uint32_t i = 0; i < n; i++) {
                uint64_t from = i * space / n, to = (i + 1) * space / n;
                t.set.index[i] = (uint32_t)(from + mask_below(to - from)), t.set.value[i] = 1;
            }
            uint8_t first[512];
            uint32_t index[41], got = 0;
            float value[41];
            assert_int_equal(encode(&gw_kern_scalar, &t, first, sizeof(first), &t.len), GW_OK);
            for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++) {
                size_t len = 0;
                uint8_t *to = fence_end(F_OTHER, t.len);
                if (!kern->usable())
                    continue;
                assert_int_equal(encode(kern, &t, to, t.len, &len), GW_OK);
                assert_int_equal(len, t.len);
                assert_memory_equal(to, first, len);
                assert_int_equal(gw_sparse_decode(to, len, space, index, value, n, &got), GW_OK);
                assert_memory_equal(index, t.set.index, 4 * n);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sets), cmocka_unit_test(test_even),
                                       cmocka_unit_test(test_widths)};
    return cmocka_run_group_tests_name("prop_sparse", tests, fence_setup, fence_teardown);
}
