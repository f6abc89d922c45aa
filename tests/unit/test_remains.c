/* test_remains.c - what a lossy codec leaves in the residual, and rounding by chance. */
#include "lossy_bed.h"

static float acc[MOST];
static uint8_t other[ROOM];

/* ---- what remains ---- */

/* Magnitudes over 40 exponents, so that blocks have large and small ones. */
static void fill(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int e = (int)(i / 256 % 40) - 30;
        src[i] = ldexpf(some(), e), residual[i] = ldexpf(some(), e - 8);
        acc[i] = src[i] + residual[i];
    }
}

static void conserved(const char *name, unsigned flags, double ulps)
{
    use(name);
    fill(20000);
    c.residual = residual, c.flags = (uint16_t)flags, c.seed = 5;
    if (codec->id == GW_CODEC_LEVELS)
        c.param = bits_of(1e4f), c.bits = 16;
    encode(20000);
    decode(20000);
    for (size_t i = 0; i < 20000; i++) {
        double ulp = ldexp(1, ilogbf(acc[i] == 0 ? 1 : fmaxf(fabsf(acc[i]), fabsf(out[i]))) - 23);
        float sum = out[i] + residual[i];
        if (ulps == 0 ? bits_of(sum) != bits_of(acc[i]) : fabs((double)out[i] + residual[i] - acc[i]) > ulps * ulp)
            fail_msg("%s: %a + %a is not %a", name, out[i], residual[i], acc[i]);
    }
}

static void test_conservation(void **s)
{
    (void)s;
    for (size_t k = 0; kernel(&k) != NULL;) {
        conserved("bf16", 0, 0), conserved("f16", 0, 0), conserved("int8", 0, 0), conserved("int4", 0, 0);
        conserved("e4m3", 0, 0), conserved("e5m2", 0, 0), conserved("levels", 0, 0);
        conserved("bf16", 1, 0.5), conserved("f16", 1, 0.5), conserved("int8", 1, 0.5), conserved("int4", 1, 0.5);
        conserved("e4m3", 1, 0.5), conserved("e5m2", 1, 0.5), conserved("levels", 1, 0.5);
        conserved("sign", 0, 0.5), conserved("twobit", 0, 0.5);
    }
}

/* The residual is acc - q * scale of that very product: no fused multiply-add. */
static void test_residual_is_of_the_product(void **s)
{
    (void)s;
    use("int8");
    fill(4096);
    c.residual = residual;
    encode(4096);
    for (size_t i = 0; i < 4096; i++) {
        volatile float product = (float)(int8_t)coded[64 + i] * of_bits(gw_get32(coded + 4 * (i / 256)));
        volatile float left = acc[i] - product;
        assert_int_equal(bits_of(residual[i]), bits_of(left));
    }
}

/* Fifty steps on values where every sum is exact: what was given is what was applied and what is remembered. */
static void test_fifty_steps(void **s)
{
    (void)s;
    static float given[1000], applied[1000];
    use("twobit");
    c.param = bits_of(0.5f), c.residual = residual;
    for (int step = 0; step < 50; step++) {
        for (size_t i = 0; i < 1000; i++)
            src[i] = (float)((int)(chance() % 2049) - 1024) / 1024, given[i] += src[i];
        encode(1000);
        decode(1000);
        for (size_t i = 0; i < 1000; i++)
            applied[i] += out[i];
    }
    for (size_t i = 0; i < 1000; i++)
        assert_true(applied[i] + residual[i] == given[i]);
}

/* ---- chance ---- */

/* Over 4096 seeds the mean of what comes back is the value, within five sigmas of a step. */
static void unbiased(const char *name, double step)
{
    static double sum[64];
    use(name);
    c.flags = GW_CODING_STOCHASTIC;
    memset(sum, 0, sizeof(sum));
    src[0] = 1; /* the largest */
    for (size_t i = 1; i < 64; i++)
        src[i] = some();
    for (c.seed = 0; c.seed < 4096; c.seed++) {
        encode(64);
        decode(64);
        for (size_t i = 0; i < 64; i++)
            sum[i] += out[i];
    }
    for (size_t i = 0; i < 64; i++)
        if (fabs(sum[i] / 4096 - src[i]) > 5 * 0.5 * step / 64 + 1e-7)
            fail_msg("%s: %a comes back as %a in the mean", name, src[i], sum[i] / 4096);
}

static void test_unbiased(void **s)
{
    (void)s;
    unbiased("int8", 1 / 127.), unbiased("int4", 1 / 7.), unbiased("levels", 1 / 15.);
    unbiased("bf16", 1 / 128.), unbiased("f16", 1 / 1024.), unbiased("e4m3", 1 / 8.), unbiased("e5m2", 1 / 4.);
}

/* A hash of the index in the tensor: cuts change nothing, and neither does the step over 2^32. */
static void test_chance_is_of_the_index(void **s)
{
    (void)s;
    use("bf16");
    c.flags = GW_CODING_STOCHASTIC, c.seed = 77;
    for (size_t i = 0; i < 4096; i++)
        src[i] = some();
    for (size_t k = 0; kernel(&k) != NULL;) {
        c.first = ((uint64_t)1 << 32) - 1000;
        encode(4096);
        memcpy(other, coded, len);
        struct gw_coding cut = c;
        cut.first += 901;
        assert_int_equal(codec->encode(&cut, src + 901, 4 * (4096 - 901), coded, ROOM, &len, &count, ws), GW_OK);
        assert_memory_equal(coded, other + 2 * 901, len);
        c.first = 24; /* another half of the index is another number */
        encode(4096);
        assert_int_not_equal(memcmp(coded, other, len), 0);
        c.seed++, c.first = ((uint64_t)1 << 32) - 1000;
        encode(4096);
        assert_int_not_equal(memcmp(coded, other, len), 0);
        c.seed--;
    }
}

/* The hash itself is format. */
static void test_hash(void **s)
{
    (void)s;
    static const struct {
        uint64_t seed, first;
        uint32_t want[2];
    } known[] = {{0, 0, {0xab3c6f47, 0x0f453b02}}, {1, 0, {0xe26312f7, 0xa93628d3}},
                 {0x123456789abcdef0, 0xffffffff, {0x6f4b5074, 0x93674561}}};
    for (size_t k = 0; kernel(&k) != NULL;)
        for (size_t i = 0; i < GW_LEN(known); i++) {
            uint32_t got[32];
            gw_kern_get()->lossy->chance(known[i].seed, known[i].first, 32, got);
            assert_int_equal(got[0], known[i].want[0]);
            assert_int_equal(got[1], known[i].want[1]);
        }
}

/* ---- modes of the machine ---- */

#if defined(__x86_64__)
#include <immintrin.h>

enum { FLUSH = 0x8040 }; /* results to zero, operands as zero */

/* Values round the edge of what is normal, tiny blocks among large ones; the chunk, the residual and the sum after it. */
static void run_once(int flush, uint8_t *bytes, float *left, float *sum)
{
    enum { N = 6000 };
    state = 42;
    for (size_t i = 0; i < N; i++) {
        uint32_t e = i / 512 % 2 ? (uint32_t)(chance() % 30) : 90 + (uint32_t)(chance() % 40);
        uint32_t tiny = i % 5 == 0 ? (uint32_t)chance() & 0x807fffff : 0;
        src[i] = of_bits(tiny | (i % 3 ? e << 23 : 0));
        left[i] = of_bits(((uint32_t)chance() & 0x807fffff) | (uint32_t)(chance() % 3 ? 0 : chance() % 100) << 23);
        sum[i] = of_bits(((uint32_t)chance() & 0x807fffff) | (uint32_t)(chance() % 3) << 23);
    }
    c.residual = left;
    unsigned was = _mm_getcsr();
    if (flush)
        _mm_setcsr(was | FLUSH);
    encode(N);
    struct gw_frame f = head(4 * N);
    gw_err err = codec->decode_add(&f, coded, sum, 4 * N, 0x1p-20f, ws);
    c.residual = NULL;
    memcpy(bytes, coded, len);
    encode(N);
    memcpy(bytes + len, coded, len);
    gw_err back = codec->decode(&f, coded, out, 4 * N, ws);
    _mm_setcsr(was);
    assert_int_equal(err, GW_OK);
    assert_int_equal(back, GW_OK);
}

/* A program that has set its thread to flush subnormals gets the same bytes. */
static void test_flush_to_zero(void **s)
{
    (void)s;
    static const char *const names[] = {"bf16", "f16",    "e4m3",   "e5m2", "int8",
                                        "int4", "levels", "twobit", "sign"};
    static float left[2][MOST], sum[2][MOST], back[MOST];
    for (size_t k = 0; kernel(&k) != NULL;)
        for (size_t i = 0; i < GW_LEN(names); i++)
            for (int by_chance = 0; by_chance < 2; by_chance++) {
                static uint8_t bytes[2][2 * ROOM];
                use(names[i]);
                if (by_chance && codec->id >= GW_CODEC_TWOBIT)
                    continue;
                c.flags = by_chance ? GW_CODING_STOCHASTIC : 0, c.seed = 5;
                run_once(0, bytes[0], left[0], sum[0]);
                memcpy(back, out, sizeof(back));
                run_once(1, bytes[1], left[1], sum[1]);
                assert_memory_equal(bytes[0], bytes[1], 2 * len);
                assert_memory_equal(left[0], left[1], sizeof(left[0]));
                assert_memory_equal(sum[0], sum[1], sizeof(sum[0]));
                assert_memory_equal(back, out, sizeof(back));
            }
}
#else
static void test_flush_to_zero(void **s)
{
    (void)s;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_conservation),
        TEST(test_residual_is_of_the_product),
        TEST(test_fifty_steps),
        TEST(test_unbiased),
        TEST(test_chance_is_of_the_index),
        TEST(test_hash),
        TEST(test_flush_to_zero),
    };
    return cmocka_run_group_tests_name("remains", tests, NULL, NULL);
}
