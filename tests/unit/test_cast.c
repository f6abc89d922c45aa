/* test_cast.c - bf16, f16, e4m3 and e5m2 against tables of all their values, made here by definition, in double.
 *
 * Every upper half of an f32 is tried, with the lower halves where something may turn. */
#include <math.h>
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

enum { ROW = 65536, LARGEST = 32768 };

/* A type as its definition has it: exponents e >= 1 mean 2^(e - bias) * 1.m, e = 0 means 2^(1 - bias) * 0.m. */
struct type {
    const char *name;
    unsigned width, mantissa, bias;
    unsigned last;     /* the largest finite magnitude */
    int inf;           /* -1: it has none */
    unsigned nan;      /* the one that is made */
    int subnormals;    /* bf16's are those of f32: never made, and read as zero */
};
static const struct type types[] = {
    {"bf16", 2, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0},
    {"f16", 2, 10, 15, 0x7bff, 0x7c00, 0x7e00, 1},
    {"e4m3", 1, 3, 7, 0x7e, -1, 0x7f, 1},
    {"e5m2", 1, 2, 15, 0x7b, 0x7c, 0x7e, 1},
};

static double table[LARGEST];

static double value_of(const struct type *t, unsigned m)
{
    unsigned e = m >> t->mantissa, f = m & ((1u << t->mantissa) - 1);
    if (e == 0)
        return t->subnormals ? ldexp(f, 1 - (int)t->bias - (int)t->mantissa) : 0;
    return ldexp((1u << t->mantissa) + f, (int)e - (int)t->bias - (int)t->mantissa);
}

static void table_make(const struct type *t)
{
    for (unsigned m = 0; m <= t->last; m++)
        table[m] = value_of(t, m);
}

/* The last magnitude whose value is not above v. */
static unsigned below(const struct type *t, double v)
{
    unsigned low = 0, high = t->last + 1;
    while (high - low > 1) {
        unsigned mid = (low + high) / 2;
        if (table[mid] <= v)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static unsigned sign_bit(const struct type *t, uint32_t bits)
{
    return (bits >> 31) << (8 * t->width - 1);
}

/* Special values; 0 where there is nothing special about it. */
static int special(const struct type *t, uint32_t bits, unsigned *code)
{
    uint32_t m = bits & 0x7fffffff;
    if (m > 0x7f800000 || (m == 0x7f800000 && t->inf < 0))
        *code = t->nan;
    else if (m == 0x7f800000)
        *code = (unsigned)t->inf | sign_bit(t, bits);
    else if (m < 0x00800000)
        *code = sign_bit(t, bits);
    else
        return 0;
    return 1;
}

static double size_of(uint32_t bits)
{
    float f;
    bits &= 0x7fffffff;
    memcpy(&f, &bits, 4);
    return f;
}

static unsigned nearest(const struct type *t, uint32_t bits)
{
    unsigned code;
    if (special(t, bits, &code))
        return code;
    double v = size_of(bits);
    unsigned a = below(t, v), b = a < t->last ? a + 1 : a;
    double down = v - table[a], up = table[b] - v;
    code = a == b || down < up || (down == up && a % 2 == 0) ? a : b;
    if (!t->subnormals && code < 1u << t->mantissa) /* between 0 and the least normal: not an input here */
        fail();
    return code | sign_bit(t, bits);
}

static uint8_t src[4 * ROW], coded[4 * ROW], out[4 * ROW];
static _Alignas(64) uint8_t ws[2 << 20];

static unsigned code_at(const struct type *t, size_t i)
{
    return t->width == 2 ? gw_get16(coded + 2 * i) : coded[i];
}

static void encode(const struct type *t, unsigned flags, uint64_t seed)
{
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_F32, .flags = (uint16_t)flags, .seed = seed};
    size_t len;
    uint32_t count = 9;
    assert_int_equal(gw_codec_by_name(t->name)->encode(&c, src, sizeof(src), coded, sizeof(coded), &len, &count, ws), GW_OK);
    assert_int_equal(len, ROW * t->width);
    assert_int_equal(count, 0);
}

static void fill(uint32_t low)
{
    for (uint32_t i = 0; i < ROW; i++)
        gw_put32(src + 4 * i, i << 16 | low);
}

static const struct gw_kern *kernel(size_t *k)
{
    const struct gw_kern *kern;
    while ((kern = gw_kern_at((*k)++)) != NULL && !kern->usable())
        ;
    gw_kern_force(kern);
    return kern;
}

static void test_nearest(void **s)
{
    (void)s;
    static const uint32_t lows[] = {0x0000, 0x0001, 0x1000, 0x2fff, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (size_t i = 0; i < GW_LEN(types); i++) {
        table_make(&types[i]);
        for (size_t k = 0; kernel(&k) != NULL;)
            for (size_t low = 0; low < GW_LEN(lows); low++) {
                fill(lows[low]);
                encode(&types[i], 0, 0);
                for (uint32_t j = 0; j < ROW; j++)
                    if (code_at(&types[i], j) != nearest(&types[i], j << 16 | lows[low]))
                        fail_msg("%s of %08x is %x, not %x", types[i].name, (unsigned)(j << 16 | lows[low]),
                                 code_at(&types[i], j), nearest(&types[i], j << 16 | lows[low]));
            }
    }
}

/* One of the two neighbours, and the value itself where it is one. */
static void test_stochastic_neighbours(void **s)
{
    (void)s;
    static const uint32_t lows[] = {0x0000, 0x0001, 0x8000, 0xffff};
    for (size_t i = 0; i < GW_LEN(types); i++) {
        const struct type *t = &types[i];
        table_make(t);
        for (size_t k = 0; kernel(&k) != NULL;)
            for (size_t low = 0; low < GW_LEN(lows); low++) {
                fill(lows[low]);
                encode(t, GW_CODING_STOCHASTIC, low);
                for (uint32_t j = 0; j < ROW; j++) {
                    uint32_t bits = j << 16 | lows[low];
                    unsigned got = code_at(t, j), want;
                    if (!special(t, bits, &want)) {
                        want = below(t, size_of(bits));
                        unsigned up = want < t->last && table[want] != size_of(bits) ? want + 1 : want;
                        want |= sign_bit(t, bits), up |= sign_bit(t, bits);
                        want = got == up ? up : want;
                    }
                    if (got != want)
                        fail_msg("%s of %08x is %x, not %x", t->name, (unsigned)bits, got, want);
                }
            }
    }
}

/* 65536 chances for one value: the share that goes up is how far up it lies. */
static void share(const struct type *t, float v)
{
    double d = fabs((double)v);
    unsigned a = below(t, d), ups = 0;
    double p = (d - table[a]) / (table[a + 1] - table[a]);
    for (size_t i = 0; i < ROW; i++)
        memcpy(src + 4 * i, &v, 4);
    for (uint64_t seed = 0; seed < 4; seed++) {
        encode(t, GW_CODING_STOCHASTIC, seed);
        for (size_t i = 0; i < ROW; i++)
            ups += (code_at(t, i) & ~(1u << (8 * t->width - 1))) == a + 1;
    }
    double want = p * 4 * ROW, sigma = sqrt(4 * ROW * p * (1 - p));
    if (fabs(ups - want) > 5 * sigma)
        fail_msg("%s of %a went up %u times of %u, not %.0f", t->name, v, ups, 4u * ROW, want);
}

static void test_stochastic_mean(void **s)
{
    (void)s;
    static const float values[] = {1.001f, -1.1f, 3.3333e-3f, 1.9f, -100.3f, 1.0001f, 300.01f};
    gw_kern_force(NULL);
    for (size_t i = 0; i < GW_LEN(types); i++) {
        table_make(&types[i]);
        for (size_t k = 0; k < GW_LEN(values); k++)
            share(&types[i], values[k]);
        if (types[i].subnormals) /* between 0 and the least there is */
            share(&types[i], (float)(table[1] * 0.3)), share(&types[i], (float)(-table[1] * 0.01));
    }
}

/* Every code decodes to its definition, whoever made it. */
static void test_decode(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(types); i++) {
        const struct type *t = &types[i];
        unsigned codes = 1u << 8 * t->width, half = codes / 2;
        const struct gw_codec *codec = gw_codec_by_name(t->name);
        struct gw_frame f = {.codec = codec->id, .view = GW_VIEW_F32, .raw_bytes = 4 * codes, .wire_bytes = codes * t->width};
        for (unsigned c = 0; c < codes; c++) {
            if (t->width == 2)
                gw_put16(coded + 2 * c, (uint16_t)c);
            else
                coded[c] = (uint8_t)c;
        }
        for (size_t k = 0; kernel(&k) != NULL;) {
            assert_int_equal(codec->decode(&f, coded, out, 4 * codes, ws), GW_OK);
            for (unsigned c = 0; c < codes; c++) {
                float want = 0;
                uint32_t bits = 0x7fc00000, m = c % half;
                if (m <= t->last)
                    want = (float)value_of(t, m), memcpy(&bits, &want, 4), bits |= c >= half ? 0x80000000 : 0;
                else if ((int)m == t->inf)
                    bits = 0x7f800000 | (c >= half ? 0x80000000 : 0);
                if (gw_get32(out + 4 * c) != bits)
                    fail_msg("%s %x is %08x, not %08x", t->name, c, (unsigned)gw_get32(out + 4 * c), (unsigned)bits);
            }
        }
    }
}

/* What rules the edges: saturation, Inf, NaN, subnormals, bit by bit. */
static void test_edges(void **s)
{
    (void)s;
    static const struct {
        uint32_t bits;
        unsigned want[4]; /* bf16, f16, e4m3, e5m2 */
    } edges[] = {
        {0x7f7fffff, {0x7f7f, 0x7bff, 0x7e, 0x7b}}, /* the largest finite: saturates, is not Inf */
        {0xff7fffff, {0xff7f, 0xfbff, 0xfe, 0xfb}},
        {0x7f800000, {0x7f80, 0x7c00, 0x7f, 0x7c}}, /* Inf where there is one, else NaN */
        {0xff800000, {0xff80, 0xfc00, 0x7f, 0xfc}},
        {0x7f800001, {0x7fc0, 0x7e00, 0x7f, 0x7e}}, /* every NaN is the one */
        {0xffffffff, {0x7fc0, 0x7e00, 0x7f, 0x7e}},
        {0x007fffff, {0x0000, 0x0000, 0x00, 0x00}}, /* a subnormal is zero */
        {0x807fffff, {0x8000, 0x8000, 0x80, 0x80}},
        {0x00800000, {0x0080, 0x0000, 0x00, 0x00}},
        {0x43e80000, {0x43e8, 0x5f40, 0x7e, 0x5f}}, /* 464: half way beyond e4m3's 448; e5m2: 448 */
        {0x477ff000, {0x4780, 0x7bff, 0x7e, 0x7b}}, /* 65520: half way beyond f16 */
    };
    for (size_t k = 0; kernel(&k) != NULL;)
        for (size_t t = 0; t < GW_LEN(types); t++) {
            memset(src, 0, sizeof(src));
            for (size_t i = 0; i < GW_LEN(edges); i++)
                gw_put32(src + 4 * i, edges[i].bits);
            encode(&types[t], 0, 0);
            for (size_t i = 0; i < GW_LEN(edges); i++)
                if (code_at(&types[t], i) != edges[i].want[t])
                    fail_msg("%s of %08x is %x, not %x", types[t].name, (unsigned)edges[i].bits, code_at(&types[t], i),
                             edges[i].want[t]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),         cmocka_unit_test(test_stochastic_neighbours),
        cmocka_unit_test(test_stochastic_mean), cmocka_unit_test(test_decode),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("cast", tests, NULL, NULL);
}
