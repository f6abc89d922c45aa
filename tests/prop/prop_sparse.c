/* prop_sparse.c - sets of coordinates: every index and value coding on every kernel, between guard pages, against plain
 * references; damaged frames; unions and additions; real masks and the bits they may take.
 *
 * ROUNDS=n in the environment runs n rounds (3); ROUND=n repeats one alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <gradwire/sparse.h>
#include <kern.h>

enum { MOST = 150000, ROOM = 1 << 21, PAGE = 4096, CANARY = 0x5a, HEADS = GW_FRAME_BYTES + 16 };

/* ---- chance ---- */

static uint64_t state;

static uint64_t chance(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(uint64_t n)
{
    return (size_t)(chance() % n);
}

/* ---- memory between two pages that nobody may touch ---- */

enum { F_INDEX, F_VALUE, F_CODED, F_OTHER, F_OUT_INDEX, F_OUT_VALUE, FENCES };
static uint8_t *fence[FENCES];

static uint8_t *at_end(int which, size_t n)
{
    return fence[which] + PAGE + ROOM - n;
}

static uint8_t *fenced(int which, size_t n, int end)
{
    uint8_t *start = fence[which] + PAGE;
    memset(start, CANARY, ROOM);
    return end ? at_end(which, n) : start;
}

static int canaries_live(int which, const uint8_t *p, size_t n)
{
    const uint8_t *start = fence[which] + PAGE;
    for (const uint8_t *q = start; q < start + ROOM; q++)
        if ((q < p || q >= p + n) && *q != CANARY)
            return 0;
    return 1;
}

static int setup(void **s)
{
    (void)s;
    for (int i = 0; i < FENCES; i++) {
        fence[i] = mmap(NULL, ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(fence[i] != MAP_FAILED);
        assert_int_equal(mprotect(fence[i] + PAGE, ROOM, PROT_READ | PROT_WRITE), 0);
    }
    return 0;
}

static int teardown(void **s)
{
    (void)s;
    for (int i = 0; i < FENCES; i++)
        munmap(fence[i], ROOM + 2 * PAGE);
    gw_kern_force(NULL);
    return 0;
}

/* ---- sets ---- */

struct set {
    uint64_t space;
    size_t n;
    uint32_t *index;
    float *value;
};

static uint8_t mask[MOST];
static uint32_t set_index[MOST], other_index[MOST];
static float set_value[MOST], other_value[MOST], dense[MOST], want[MOST];

static float some_value(unsigned odd)
{
    static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x80000000,
                                       0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x00000000};
    uint64_t r = chance();
    uint32_t b = (uint32_t)(r >> 41 & 1) << 31 | (uint32_t)(120 - below(20)) << 23 | (uint32_t)(r >> 42 & 0x7fffff);
    if (below(256) < odd)
        b = special[below(GW_LEN(special))];
    float v;
    memcpy(&v, &b, 4);
    return v;
}

/* Random, in clusters, in runs, in whole blocks, everything, nothing, one. */
enum { SHAPES = 8 };
static void draw(uint64_t space, unsigned shape)
{
    static const unsigned rare[] = {2, 3, 10, 40, 100, 1000, 10000};
    unsigned in = rare[below(GW_LEN(rare))];
    memset(mask, shape == 5, space);
    if (shape == 4)
        mask[below(2) ? space - 1 : below(space)] = 1;
    for (uint64_t i = 0; shape < 4 && i < space;) {
        uint64_t len = shape == 0 ? 1 : shape == 3 ? 256 : 1 + below(shape == 1 ? 5000 : 40);
        len = gw_min_u64(len, space - i);
        if (shape != 1)
            memset(mask + i, chance() % in == 0, len);
        for (uint64_t j = i; shape == 1 && j < i + len; j++)
            mask[j] = chance() % in == 0;
        in = rare[shape == 1 ? below(GW_LEN(rare)) : 2];
        i += len;
    }
    if (shape == 7) /* blocks that are full but for a few */
        for (uint64_t i = 0; i < space; i++)
            mask[i] = i / 4096 % 2 == 0 ? chance() % 500 != 0 : chance() % 500 == 0;
}

static struct set make_set(uint64_t space, unsigned shape, unsigned odd)
{
    struct set s = {.space = space};
    draw(space, shape);
    for (uint64_t i = 0; i < space; i++)
        s.n += mask[i] != 0;
    s.index = (uint32_t *)(void *)at_end(F_INDEX, 4 * s.n), s.value = (float *)(void *)at_end(F_VALUE, 4 * s.n);
    size_t at = 0;
    for (uint64_t i = 0; i < space; i++)
        if (mask[i])
            s.index[at++] = (uint32_t)i;
    for (size_t i = 0; i < s.n; i++)
        s.value[i] = some_value(odd);
    return s;
}

/* ---- encode and decode ---- */

struct trial {
    struct gw_sparse how;
    struct set set;
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
        uint32_t *index = (uint32_t *)(void *)fenced(F_OUT_INDEX, 4 * t->set.n, end);
        float *value = (float *)(void *)fenced(F_OUT_VALUE, 4 * t->set.n, end);
        assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space, index, value, t->set.n, &n), GW_OK);
        assert_int_equal(n, t->set.n);
        if (t->how.index != GW_INDEX_SEED)
            assert_memory_equal(index, t->set.index, 4 * t->set.n);
        check_values(t, value);
        assert_true(canaries_live(F_OUT_INDEX, (uint8_t *)index, 4 * t->set.n));
        assert_true(canaries_live(F_OUT_VALUE, (uint8_t *)value, 4 * t->set.n));
    }
    if (t->set.n != 0)
        assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space, NULL, NULL, t->set.n - 1, &n), GW_E_LIMIT);
    assert_int_equal(gw_sparse_decode(t->coded, t->len, t->set.space + 1, NULL, NULL, t->set.n, &n), GW_E_CORRUPT);
}

/* A frame that decodes is a set of the space, and written again its indices give the same bytes: one meaning, one spelling. */
static void check_spelling(const uint8_t *frame, uint64_t space, const uint32_t *index, const float *value, uint32_t n)
{
    static uint8_t again[ROOM];
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
        uint32_t *index = (uint32_t *)(void *)fenced(F_OUT_INDEX, 4 * t->set.n, 1);
        float *value = (float *)(void *)fenced(F_OUT_VALUE, 4 * t->set.n, 1);
        gw_kern_force(kern);
        gw_err err = gw_sparse_decode(frame, len, t->set.space, index, value, t->set.n, &n);
        assert_true(err == GW_OK || err == GW_E_CORRUPT || err == GW_E_LIMIT || err == GW_E_NOSYS ||
                    err == GW_E_CHECK); /* the flag for it may be what was bent */
        assert_true(first == GW_AGAIN || err == first);
        assert_true(canaries_live(F_OUT_INDEX, (uint8_t *)index, 4 * t->set.n));
        assert_true(canaries_live(F_OUT_VALUE, (uint8_t *)value, 4 * t->set.n));
        if (err == GW_OK)
            check_spelling(frame, t->set.space, index, value, n);
        first = err;
    }
}

static void check_damage(const struct trial *t)
{
    for (int i = 0; i < 4; i++) {
        size_t len = below(t->len);
        uint8_t *cut = at_end(F_OTHER, len);
        uint32_t n;
        memcpy(cut, t->coded, len);
        assert_int_equal(gw_sparse_decode(cut, len, t->set.space, NULL, NULL, t->set.n, &n), GW_E_CORRUPT);
        uint8_t *bent = at_end(F_OTHER, t->len);
        memcpy(bent, t->coded, t->len);
        for (size_t flips = 1 + below(3); flips > 0; flips--)
            bent[below(below(2) ? t->len : gw_min_u64(t->len, 200))] ^= (uint8_t)(1 << below(8));
        check_hostile(t, bent, t->len);
    }
}

static void check_kernels(struct trial *t)
{
    uint64_t cap = gw_sparse_bound(&t->how, (uint32_t)t->set.n);
    const struct gw_kern *kern;
    size_t len = 0, ran = 0;
    assert_true(cap != 0 && cap <= ROOM);
    t->coded = at_end(F_CODED, cap);
    for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++) {
        if (!kern->usable())
            continue;
        uint8_t *to = ran++ == 0 ? t->coded : at_end(F_OTHER, t->len);
        assert_int_equal(encode(kern, t, to, ran == 1 ? cap : t->len, &len), GW_OK);
        if (ran == 1)
            t->len = len;
        assert_int_equal(len, t->len);
        assert_true(len <= cap);
        assert_memory_equal(to, t->coded, len);
        size_t caps[] = {len - 1, len / 2, below(len), 0};
        for (size_t i = 0; i < GW_LEN(caps); i++)
            assert_int_equal(encode(kern, t, at_end(F_OTHER, caps[i]), caps[i], &len), GW_RAW);
    }
    memmove(at_end(F_CODED, t->len), t->coded, t->len); /* the first byte beyond it is the fence */
    t->coded = at_end(F_CODED, t->len);
    for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++)
        if (kern->usable())
            check_decode(kern, t);
    check_damage(t);
}

static int whole_blocks(const struct set *s)
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
static void all_codings(const struct set *set, unsigned value)
{
    size_t least = SIZE_MAX;
    for (unsigned kind = 0; kind <= GW_INDEX_COUNT; kind++) {
        struct trial t = {.set = *set};
        t.how = (struct gw_sparse){.size = sizeof(t.how), .index = (uint8_t)kind, .value = (uint8_t)value, .space = set->space};
        if (kind == GW_INDEX_COUNT)
            t.how.index = GW_INDEX_BEST;
        t.how.seed = kind == GW_INDEX_SEED ? chance() : 0;
        if (kind == GW_INDEX_RUNS && !whole_blocks(set)) {
            size_t len;
            assert_int_equal(encode(NULL, &t, at_end(F_CODED, ROOM), ROOM, &len), GW_E_ARG);
            continue;
        }
        check_kernels(&t);
        if (kind < GW_INDEX_SEED)
            least = gw_min_u64(least, t.len);
        else if (kind == GW_INDEX_COUNT)
            assert_int_equal(t.len, least);
    }
}

static uint64_t some_space(void)
{
    static const uint64_t edges[] = {1,    2,    7,    8,    255,   256,   257,   511,   512,   4095,  4096,
                                     4097, 8192, 8200, 9000, 65535, 65536, 65537, 69632, 69640, 131072};
    return below(2) ? edges[below(GW_LEN(edges))] : 1 + below(MOST);
}

static void test_sets(void **s)
{
    (void)s;
    const char *many = getenv("ROUNDS"), *alone = getenv("ROUND");
    unsigned long first = alone && *alone ? strtoul(alone, NULL, 0) : 1;
    unsigned long last = alone && *alone ? first : many && *many ? strtoul(many, NULL, 0) : 3;
    for (unsigned long seed = first; seed <= last; seed++) {
        state = seed;
        printf("seed %lu\n", seed);
        for (unsigned shape = 0; shape < SHAPES; shape++) {
            struct set set = make_set(some_space(), shape, below(2) ? 0 : 4);
            all_codings(&set, (unsigned)(seed + shape) % GW_VALUE_COUNT);
        }
    }
}

/* Every share of a block that Elias-Fano knows a width for, spread as evenly as can be: there the bound is nearly reached. */
static void test_even(void **s)
{
    (void)s;
    state = 11;
    for (uint32_t n = 1; n < 100000; n += 1 + n / 2) {
        struct set set = {.space = 100000, .n = n};
        set.index = (uint32_t *)(void *)at_end(F_INDEX, 4 * n), set.value = (float *)(void *)at_end(F_VALUE, 4 * n);
        for (uint32_t i = 0; i < n; i++)
            set.index[i] = (uint32_t)(i * (uint64_t)100000 / n), set.value[i] = 1;
        all_codings(&set, GW_VALUE_MEAN);
    }
}

/* ---- what is refused ---- */

static void test_refused(void **s)
{
    (void)s;
    uint32_t index[] = {1, 5, 5, 9}, back[] = {3, 2}, count = 0;
    float value[] = {1, 2, 3, 4};
    uint8_t out[4096];
    size_t len = 0;
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_BEST, .space = 10}, bad;
    assert_int_equal(gw_sparse_encode(&how, index, value, 2, out, sizeof(out), &len), GW_OK);
    assert_int_equal(gw_sparse_encode(&how, index, value, 4, out, sizeof(out), &len), GW_E_ARG);
    assert_int_equal(gw_sparse_encode(&how, back, value, 2, out, sizeof(out), &len), GW_E_ARG);
    assert_int_equal(gw_sparse_encode(&how, index + 2, value, 2, out, sizeof(out), &len), GW_OK);
    how.space = 9;
    assert_int_equal(gw_sparse_encode(&how, index + 2, value, 2, out, sizeof(out), &len), GW_E_ARG);
    how.space = 10;
    bad = how, bad.size--;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    bad = how, bad.space = 0;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 0, out, sizeof(out), &len), GW_E_ARG);
    bad = how, bad.space = ((uint64_t)1 << 32) + 1;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    bad = how, bad.seed = 1;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    bad = how, bad.value = GW_VALUE_COUNT;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    bad = how, bad.index = GW_INDEX_COUNT;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    assert_int_equal(gw_sparse_bound(&bad, 2), 0);
    bad = how, bad.flags = 2;
    assert_int_equal(gw_sparse_encode(&bad, index, value, 2, out, sizeof(out), &len), GW_E_ARG);
    assert_int_equal(gw_sparse_encode(&how, index, value, 11, out, sizeof(out), &len), GW_E_ARG);
    /* a seed where none belongs; a codec that is another; nothing for the codec calls */
    assert_int_equal(gw_sparse_encode(&how, index, value, 2, out, sizeof(out), &len), GW_OK);
    out[GW_FRAME_BYTES + 8] = 1;
    assert_int_equal(gw_sparse_read(out, len, &bad, &count), GW_E_CORRUPT);
    out[GW_FRAME_BYTES + 8] = 0;
    assert_int_equal(gw_sparse_read(out, len, &bad, &count), GW_OK);
    assert_int_equal(count, 2);
    assert_int_equal(bad.space, 10);
    assert_int_equal(gw_frame_decode(out, len, NULL, 0, NULL), GW_E_NOSYS);
    out[3] = 1;
    assert_int_equal(gw_sparse_read(out, len, &bad, &count), GW_E_NOSYS);
}

/* With a checksum no change at all is read. */
static void test_checksum(void **s)
{
    (void)s;
    state = 5;
    struct set set = make_set(5000, 1, 0);
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_BEST, .flags = GW_SPARSE_CHECK, .space = set.space};
    size_t len = 0;
    uint8_t *out = at_end(F_CODED, ROOM);
    uint32_t n;
    assert_true(set.n > 50);
    assert_int_equal(gw_sparse_encode(&how, set.index, set.value, (uint32_t)set.n, out, ROOM, &len), GW_OK);
    assert_int_equal(gw_sparse_decode(out, len, set.space, set_index, set_value, MOST, &n), GW_OK);
    for (size_t at = 8; at < len; at++) {
        uint8_t bit = (uint8_t)(1 << below(8));
        out[at] ^= bit;
        assert_int_not_equal(gw_sparse_decode(out, len, set.space, set_index, set_value, MOST, &n), GW_OK);
        out[at] ^= bit;
    }
}

/* A space of 2^32 with entries at both ends of it, and at the ends of blocks. */
static void test_largest(void **s)
{
    (void)s;
    static uint8_t out[1 << 21];
    uint32_t index[] = {0, 1, 4095, 4096, 65535, 65536, 0x7fffffff, 0x80000000, 0xfffff000, 0xfffffffe, 0xffffffff}, got[16];
    float value[GW_LEN(index)] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, back[16];
    struct gw_sparse how = {.size = sizeof(how), .space = (uint64_t)1 << 32};
    const struct gw_kern *kern;
    for (unsigned kind = GW_INDEX_U16; kind < GW_INDEX_SEED; kind++)
        for (size_t k = 0; (kern = gw_kern_at(k)) != NULL; k++) {
            size_t len = 0;
            uint32_t n = 0;
            if (kind == GW_INDEX_RUNS || !kern->usable())
                continue;
            gw_kern_force(kern);
            how.index = (uint8_t)kind;
            assert_int_equal(gw_sparse_encode(&how, index, value, GW_LEN(index), out, sizeof(out), &len), GW_OK);
            assert_true(len <= gw_sparse_bound(&how, GW_LEN(index)));
            assert_int_equal(gw_sparse_decode(out, len, how.space, got, back, GW_LEN(index), &n), GW_OK);
            assert_memory_equal(got, index, sizeof(index));
            assert_memory_equal(back, value, sizeof(value));
        }
    how.index = GW_INDEX_BEST; /* 4096 counts are the fewest */
    size_t len = 0;
    assert_int_equal(gw_sparse_encode(&how, index, value, GW_LEN(index), out, sizeof(out), &len), GW_OK);
    assert_int_equal(out[20], GW_INDEX_EF20);
}

/* A few bytes may name billions of entries: nothing is written that was not lent. */
static void test_many_in_few(void **s)
{
    (void)s;
    uint8_t out[GW_FRAME_BYTES + 16 + 16 + 4] = {0};
    struct gw_frame f = {.codec = GW_CODEC_SPARSE, .view = GW_VIEW_F32, .header_bytes = GW_FRAME_BYTES};
    f.wire_bytes = 16 + 16 + 4, f.count = UINT32_MAX, f.param = GW_INDEX_RUNS | GW_VALUE_MEAN << 8;
    gw_frame_write(out, &f);
    gw_put32(out + GW_FRAME_BYTES, UINT32_MAX), gw_put32(out + GW_FRAME_BYTES + 4, 8);
    gw_put32(out + GW_FRAME_BYTES + 20, 1 << 24);
    uint32_t index[300], n = 0;
    float value[300];
    assert_int_equal(gw_sparse_decode(out, sizeof(out), (uint64_t)1 << 32, index, value, 300, &n), GW_E_LIMIT);
    f.count = 300;
    gw_frame_write(out, &f);
    assert_int_equal(gw_sparse_decode(out, sizeof(out), (uint64_t)1 << 32, index, value, 300, &n), GW_E_CORRUPT);
    f.count = 256;
    gw_frame_write(out, &f), gw_put32(out + GW_FRAME_BYTES + 20, 1);
    assert_int_equal(gw_sparse_decode(out, sizeof(out), (uint64_t)1 << 32, index, value, 300, &n), GW_OK);
    assert_int_equal(n, 256);
    assert_int_equal(index[255], 255);
}

/* ---- shared seed ---- */

static void test_seeded(void **s)
{
    (void)s;
    static const uint32_t known[] = {76, 298, 509, 639, 958}, far[] = {687354172, 1483170685, 3822650715};
    state = 9;
    uint32_t got[5];
    assert_int_equal(gw_sparse_seeded(77, 1000, 5, got), GW_OK);
    assert_memory_equal(got, known, sizeof(known));
    assert_int_equal(gw_sparse_seeded(0xfedcba9876543210, (uint64_t)1 << 32, 3, got), GW_OK);
    assert_memory_equal(got, far, sizeof(far));
    for (int round = 0; round < 200; round++) {
        uint64_t space = round == 0 ? (uint64_t)1 << 32 : 1 + below(round % 2 ? MOST : (uint64_t)1 << 32), seed = chance();
        uint32_t n = (uint32_t)(1 + below(gw_min_u64(space, round % 3 ? MOST : 10)));
        assert_int_equal(gw_sparse_seeded(seed, space, n, set_index), GW_OK);
        for (uint32_t i = 0; i < n; i++)
            assert_true(set_index[i] >= i * space / n && set_index[i] < (i + (uint64_t)1) * space / n);
    }
    assert_int_equal(gw_sparse_seeded(1, 3, 4, got), GW_E_ARG);
    assert_int_equal(gw_sparse_seeded(1, 0, 0, got), GW_E_ARG);
    /* a frame without indices brings them back */
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_SEED, .space = 1000, .seed = 77};
    uint8_t out[4096];
    size_t len = 0;
    uint32_t n = 0, index[50];
    float value[50];
    assert_int_equal(gw_sparse_encode(&how, NULL, set_value, 50, out, sizeof(out), &len), GW_OK);
    assert_int_equal(len, HEADS + 200);
    assert_int_equal(gw_sparse_decode(out, len, 1000, index, value, 50, &n), GW_OK);
    assert_int_equal(gw_sparse_seeded(77, 1000, 50, set_index), GW_OK);
    assert_memory_equal(index, set_index, sizeof(index));
}

/* ---- unions and dense memory ---- */

static struct set copy_set(struct set s, uint32_t *index, float *value)
{
    memcpy(index, s.index, 4 * s.n), memcpy(value, s.value, 4 * s.n);
    s.index = index, s.value = value;
    return s;
}

static size_t naive_union(const struct set *a, const struct set *b)
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

static gw_err merge(const struct set *a, const struct set *b, size_t cap, size_t *n_p)
{
    return gw_sparse_merge(a->index, a->value, a->n, b->index, b->value, b->n, (uint32_t *)(void *)at_end(F_OUT_INDEX, 4 * cap),
                           (float *)(void *)at_end(F_OUT_VALUE, 4 * cap), cap, n_p);
}

static void test_merge(void **s)
{
    (void)s;
    state = 21;
    for (int round = 0; round < 60; round++) {
        uint64_t space = some_space();
        struct set a = copy_set(make_set(space, (unsigned)below(SHAPES), 0), set_index, set_value);
        struct set b = copy_set(make_set(space, (unsigned)below(SHAPES), 0), other_index, other_value);
        size_t n = naive_union(&a, &b), got = 0;
        assert_int_equal(merge(&a, &b, n, &got), GW_OK);
        assert_int_equal(got, n);
        const uint32_t *index = (uint32_t *)(void *)at_end(F_OUT_INDEX, 4 * n);
        const float *value = (float *)(void *)at_end(F_OUT_VALUE, 4 * n);
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
    state = 31;
    memset(dense, 0, sizeof(dense));
    for (int rank = 0; rank < 16; rank++, now = !now) {
        struct set a = make_set(SPACE, 1, 0);
        for (size_t i = 0; i < a.n; i++) {
            a.value[i] = (float)((int)below(8192) - 4096) * 0x1p-10f;
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
    state = 41;
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
            set_index[at] = below(2) ? 8 : 0xffffffff;
            assert_int_equal(gw_sparse_add(small, 8, set_index, set_value, 40, 1), GW_E_ARG);
        }
    }
    /* product, then sum: each is rounded alone */
    struct set a = make_set(3000, 0, 0);
    for (size_t i = 0; i < 3000; i++)
        dense[i] = want[i] = some_value(0);
    for (size_t i = 0; i < a.n; i++) {
        volatile float product = 0.3f * a.value[i];
        want[a.index[i]] = want[a.index[i]] + product;
    }
    assert_int_equal(gw_sparse_add(dense, 3000, a.index, a.value, a.n, 0.3f), GW_OK);
    assert_memory_equal(dense, want, 3000 * 4);
}

/* ---- real masks ---- */

enum { REAL = 1 << 19 };
static float real[REAL];

static int larger(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static size_t top_k(size_t n, size_t k)
{
    static uint64_t key[REAL];
    static uint8_t taken[REAL];
    for (size_t i = 0; i < n; i++)
        key[i] = (uint64_t)(bits_of(real[i]) & 0x7fffffff) << 32 | (UINT32_MAX - (uint32_t)i);
    qsort(key, n, sizeof(*key), larger);
    memset(taken, 0, sizeof(taken));
    for (size_t i = 0; i < k; i++)
        taken[UINT32_MAX - (uint32_t)key[i]] = 1;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if (taken[i])
            set_index[at] = (uint32_t)i, set_value[at++] = real[i];
    return at;
}

/* Hundredths of a bit per index that the index part may take, 1 in `one_in` of the file taken. */
static void bits_below(const char *name, size_t one_in, unsigned hundredths)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/data/%s", GW_SRC, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        print_message("%s: not here, skipped\n", name);
        return;
    }
    size_t n = fread(real, 4, REAL, f), k = top_k(n, n / one_in), len = 0;
    fclose(f);
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_BEST, .space = n};
    uint8_t *out = at_end(F_CODED, ROOM);
    uint32_t got = 0;
    assert_int_equal(gw_sparse_encode(&how, set_index, set_value, (uint32_t)k, out, ROOM, &len), GW_OK);
    assert_int_equal(gw_sparse_decode(out, len, n, other_index, other_value, k, &got), GW_OK);
    assert_memory_equal(other_index, set_index, 4 * k);
    double bits = 8.0 * gw_get32(out + GW_FRAME_BYTES + 4) / (double)k;
    print_message("%s, 1 in %zu: coding %u, %.2f bits per index\n", name, one_in, out[20], bits);
    assert_true(bits * 100 <= hundredths);
}

static void test_masks(void **s)
{
    (void)s;
    gw_kern_force(NULL);
    bits_below("chartf.f32", 100, 590); /* the sample is the front of the file, which as a whole must take 5.5 and takes 5.14 */
    bits_below("cnn.f32", 100, 750);
    bits_below("wordlm.f32", 100, 600);
    /* the entropy of a mask without pattern is 11.41 */
    bits_below("chartf.f32", 1000, 1201);
    bits_below("cnn.f32", 1000, 1201);
    bits_below("wordlm.f32", 1000, 1201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sets),        cmocka_unit_test(test_even),
                                       cmocka_unit_test(test_refused),     cmocka_unit_test(test_checksum),
                                       cmocka_unit_test(test_largest),     cmocka_unit_test(test_many_in_few),
                                       cmocka_unit_test(test_seeded),      cmocka_unit_test(test_merge),
                                       cmocka_unit_test(test_conserved),   cmocka_unit_test(test_dense),
                                       cmocka_unit_test(test_masks)};
    return cmocka_run_group_tests_name("prop_sparse", tests, setup, teardown);
}
