/* test_lossy.c - blocks, two bits and signs: bytes one by one, and the rules for NaN, Inf and tiny blocks, and
 * the error on real gradients. */
#include "lossy_bed.h"

/* ---- bytes ---- */

/* One block of 256 and a short one; the largest value is 127 steps. */
static void test_int8_bytes(void **s)
{
    (void)s;
    static const float v[] = {127, -127, 1, 0.5f, 1.5f, -2.5f, 0.499f, -0.0f};
    static const uint8_t want[] = {127, 0x81, 1, 0, 2, 0xfe, 0, 0};
    use("int8");
    memcpy(src, v, sizeof(v)), src[256] = -254, src[258] = 1;
    memcpy(src + 259, "end", 3);
    for (size_t k = 0; kernel(&k) != NULL;) {
        assert_int_equal(encode_bytes(4 * 259 + 3, ROOM), GW_OK);
        assert_int_equal(len, 8 + 259 + 3);
        assert_int_equal(count, 0);
        assert_int_equal(gw_get32(coded), bits_of(1));
        assert_int_equal(gw_get32(coded + 4), bits_of(2));
        assert_memory_equal(coded + 8, want, sizeof(want));
        assert_true(gw_zero(coded + 16, 248));
        assert_memory_equal(coded + 264, "\x81\0\0end", 6); /* 0.5 steps go to the even one */
        assert_int_equal(decode_bytes(4 * 259 + 3), GW_OK);
        assert_true(out[0] == 127 && out[5] == -2 && out[256] == -254 && out[258] == 0);
        assert_memory_equal(out + 259, "end", 3);
    }
}

/* The second tile's scales stand before its codes, at 4160. */
static void test_tiles(void **s)
{
    (void)s;
    use("int8");
    src[0] = 127, src[4096] = 254, src[4096 + 256] = 381;
    encode(8192);
    assert_int_equal(len, 2 * 4160);
    assert_int_equal(gw_get32(coded), bits_of(1));
    assert_int_equal(gw_get32(coded + 4160), bits_of(2));
    assert_int_equal(gw_get32(coded + 4164), bits_of(3));
    assert_int_equal(coded[4160 + 64], 127);
    assert_int_equal(coded[4160 + 64 + 256], 127);
    use("int4");
    encode(8192);
    assert_int_equal(len, 2 * 2304);
    assert_int_equal(gw_get32(coded + 2304), bits_of(254 / 7.f));
    assert_int_equal(coded[2304 + 256], 7);
    use("sign");
    encode(8192);
    assert_int_equal(len, 2 * 528);
    assert_int_equal(gw_get32(coded + 528), bits_of(635 / 1024.f));
}

static void test_int4_bytes(void **s)
{
    (void)s;
    use("int4");
    src[0] = 7, src[1] = -1, src[31] = 2.5f, src[32] = -7, src[63] = 3.5f, src[64] = 14;
    for (size_t k = 0; kernel(&k) != NULL;) {
        encode(65);
        assert_int_equal(len, 8 + 64);
        assert_int_equal(gw_get32(coded), bits_of(1));
        assert_int_equal(coded[8], 0x97);
        assert_int_equal(coded[9], 0x0f);
        assert_int_equal(coded[8 + 31], 0x42);
        assert_int_equal(gw_get32(coded + 4), bits_of(2));
        assert_int_equal(coded[8 + 32], 7);
        assert_true(gw_zero(coded + 8 + 33, 31));
        decode(65);
        assert_true(out[0] == 7 && out[1] == -1 && out[31] == 2 && out[32] == -7 && out[63] == 4 && out[64] == 14);
    }
}

static void test_twobit_bytes(void **s)
{
    (void)s;
    use("twobit");
    c.param = bits_of(0.5f);
    src[0] = 0.5f, src[1] = -0.5f, src[2] = 0.4999f, src[32] = -9, src[95] = 1, src[127] = -1, src[128] = 2;
    for (size_t k = 0; kernel(&k) != NULL;) {
        encode(129);
        assert_int_equal(len, 64);
        assert_int_equal(coded[0], 1 | 2 << 2);
        assert_int_equal(coded[1], 2);
        assert_int_equal(coded[2], 0);
        assert_int_equal(coded[31], 1 << 4 | 2 << 6);
        assert_int_equal(coded[32], 1);
        assert_true(gw_zero(coded + 33, 31));
        decode(129);
        assert_true(out[0] == 0.5f && out[1] == -0.5f && out[2] == 0 && out[32] == -0.5f && out[128] == 0.5f);
        coded[0] = 0xff; /* no encoder's: nothing */
        decode(129);
        assert_true(out[0] == 0 && out[32] == 0 && out[64] == 0 && out[96] == 0);
    }
}

/* The mean of a block in the order of the page, here in another way: every 32nd value, then halves. */
static float mean(const float *v, size_t n, size_t values)
{
    float part[32];
    for (size_t j = 0; j < 32; j++) {
        part[j] = 0;
        for (size_t i = j; i < n; i += 32)
            part[j] = part[j] + fabsf(v[i]);
    }
    float p16[16], p8[8], p4[4];
    for (size_t j = 0; j < 16; j++)
        p16[j] = part[j] + part[j + 16];
    for (size_t j = 0; j < 8; j++)
        p8[j] = p16[j] + p16[j + 8];
    for (size_t j = 0; j < 4; j++)
        p4[j] = p8[j] + p8[j + 4];
    return ((p4[0] + p4[2]) + (p4[1] + p4[3])) / (float)values;
}

static void test_sign_bytes(void **s)
{
    (void)s;
    use("sign");
    for (size_t i = 0; i < 1100; i++)
        src[i] = some();
    src[3] = -0.0f, src[4] = 0;
    for (size_t k = 0; kernel(&k) != NULL;) {
        encode(1100);
        assert_int_equal(len, 8 + 128 + 12); /* 76 signs in words of 32 */
        assert_int_equal(gw_get32(coded), bits_of(mean(src, 1024, 1024)));
        assert_int_equal(gw_get32(coded + 4), bits_of(mean(src + 1024, 76, 76)));
        for (size_t i = 0; i < 1100; i++)
            assert_int_equal(coded[8 + i / 8] >> i % 8 & 1, bits_of(src[i]) >> 31);
        decode(1100);
        for (size_t i = 0; i < 1100; i++)
            assert_int_equal(bits_of(out[i]), gw_get32(coded + (i < 1024 ? 0 : 4)) | (bits_of(src[i]) & 0x80000000));
    }
}

/* ---- NaN, Inf, tiny blocks ---- */

/* A block with one of these comes back as it was, to the bit; its neighbours are coded. */
static void test_raw_blocks(void **s)
{
    (void)s;
    static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xff812345};
    static const char *const names[] = {"int8", "int4", "sign"};
    static const size_t blocks[] = {256, 64, 1024};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; kernel(&k) != NULL;)
            for (size_t i = 0; i < GW_LEN(odd); i++) {
                size_t block = blocks[t], n = 2 * 4096 + block + 5;
                use(names[t]);
                for (size_t j = 0; j < n; j++)
                    src[j] = some();
                src[block + 7] = of_bits(odd[i]), src[4096 + 3] = of_bits(odd[i]), src[n - 2] = of_bits(odd[i]);
                src[block + 9] = of_bits(0x80000123); /* a subnormal, even */
                encode(n);
                assert_int_equal(count, 3);
                assert_int_equal(gw_get32(coded), bits_of(of_bits(gw_get32(coded))) & 0x7fffffff);
                assert_int_equal(gw_get32(coded + 4), 0x7f800000);
                assert_true(len <= codec->bound(4 * n, &c));
                decode(n);
                assert_memory_equal(out + block, src + block, 4 * block);
                assert_memory_equal(out + 4096, src + 4096, 4 * block);
                assert_memory_equal(out + n - 5, src + n - 5, 20);
                assert_true(fabsf(out[0] - src[0]) < 1);
            }
}

/* All blocks raw is the bound; a byte less is GW_RAW, and then the residual is as it was. */
static void test_bound(void **s)
{
    (void)s;
    static const char *const names[] = {"int8", "int4", "sign"};
    for (size_t t = 0; t < 3; t++) {
        use(names[t]);
        for (size_t i = 0; i < 5000; i++)
            src[i] = of_bits(0x7fc00000), residual[i] = 0.25f;
        c.residual = residual;
        size_t bound = codec->bound(20003, &c);
        for (size_t cap = bound - 40; cap < bound; cap++)
            assert_int_equal(encode_bytes(20003, cap), GW_RAW);
        assert_int_equal(bits_of(residual[0]), bits_of(0.25f));
        assert_int_equal(bits_of(residual[4999]), bits_of(0.25f));
        assert_int_equal(encode_bytes(20003, bound), GW_OK);
        assert_int_equal(len, bound);
        assert_int_equal(bits_of(residual[0]), 0);
        assert_int_equal(decode_bytes(20003), GW_OK);
        assert_int_equal(bits_of(out[4000]), 0x7fc00000);
    }
}

static void test_tiny_blocks(void **s)
{
    (void)s;
    static const char *const names[] = {"int8", "int4", "sign"};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; kernel(&k) != NULL;) {
            use(names[t]);
            memset(residual, 0, sizeof(residual));
            c.residual = residual;
            for (size_t i = 0; i < 1024; i++)
                src[i] = (i % 2 ? -1.f : 1.f) * of_bits(0x0d800000 - 1 - (uint32_t)i); /* just below 2^-100 */
            encode(1024);
            assert_true(gw_zero(coded, len));
            assert_memory_equal(residual, src, 4096);
            decode(1024);
            assert_true(gw_zero((void *)out, 4096));
            src[5] = 0x1p-100f; /* is enough */
            memset(residual, 0, sizeof(residual));
            encode(1024);
            assert_int_not_equal(gw_get32(coded), 0);
            decode(1024);
            assert_true(out[5] > 0);
        }
}

/* 127 steps of the largest there is would be Inf. */
static void test_near_overflow(void **s)
{
    (void)s;
    static const char *const names[] = {"int8", "int4"};
    for (size_t t = 0; t < 2; t++)
        for (uint32_t below = 0; below < 4096; below++) {
            use(names[t]);
            src[0] = of_bits(0x7f7fffff - below), src[1] = -src[0];
            encode(64);
            decode(64);
            assert_true(isfinite(out[0]) && fabs((double)out[0] - src[0]) < 0x1p106 && out[1] == -out[0]);
        }
    use("sign"); /* and so would be the sum of a block */
    for (size_t i = 0; i < 1024; i++)
        src[i] = 0x1p127f;
    encode(1024);
    assert_int_equal(count, 1);
    decode(1024);
    assert_memory_equal(out, src, 4096);
}

/* What a reciprocal, or no clamp, would make 128 of. */
static void test_clamp(void **s)
{
    (void)s;
    use("int8");
    for (uint32_t m = 0; m < 1 << 23; m += 977) {
        src[0] = of_bits(0x3f800000 | m), src[1] = -src[0];
        for (int chances = 0; chances < 2; chances++) {
            c.flags = chances ? GW_CODING_STOCHASTIC : 0, c.seed = m;
            encode(256);
            assert_int_equal(coded[4], 127);
            assert_int_equal(coded[5], 0x81);
        }
    }
}

/* Chunks of codecs without room for it: nothing is done, not even to the residual. */
static void test_not_finite(void **s)
{
    (void)s;
    static const char *const names[] = {"twobit", "levels"};
    for (size_t t = 0; t < 2; t++)
        for (int with = 0; with < 2; with++) {
            use(names[t]);
            for (size_t i = 0; i < 5000; i++)
                src[i] = some(), residual[i] = 0.5f;
            c.residual = with ? residual : NULL;
            src[4999] = of_bits(0xffc00000);
            assert_int_equal(encode_bytes(20000, ROOM), GW_RAW);
            src[4999] = of_bits(0x7f800000);
            assert_int_equal(encode_bytes(20000, ROOM), GW_RAW);
            for (size_t i = 0; i < 5000; i++)
                assert_int_equal(bits_of(residual[i]), bits_of(0.5f));
            src[4999] = 0;
            encode(5000);
        }
}

/* In conversions a value that is not finite leaves nothing behind. */
static void test_residual_of_specials(void **s)
{
    (void)s;
    static const char *const casts[] = {"bf16", "f16", "e4m3", "e5m2"};
    for (size_t t = 0; t < 4; t++)
        for (size_t k = 0; kernel(&k) != NULL;) {
            use(casts[t]);
            c.residual = residual;
            src[0] = of_bits(0x7f800000), src[1] = of_bits(0xffc00000), src[2] = 1e38f, src[3] = 3, src[4] = -0.0f;
            residual[0] = residual[1] = 1, residual[2] = 0, residual[3] = of_bits(0x7fc00001), residual[4] = -0.0f;
            encode(5);
            decode(5);
            assert_int_equal(bits_of(residual[0]) | bits_of(residual[1]) | bits_of(residual[3]) | bits_of(residual[4]), 0);
            assert_int_equal(bits_of(out[2] + residual[2]), bits_of(1e38f));
            assert_int_equal(bits_of(out[4]), 0);
            assert_true(isnan(out[3]));
        }
}

/* ---- real gradients ---- */

static void error_below(const char *name, const char *file, double most)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/data/%s", GW_SRC, file);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    double diff = 0, all = 0;
    use(name);
    for (size_t n; (n = fread(src, 4, MOST, f)) > 0;) {
        encode(n);
        decode(n);
        for (size_t i = 0; i < n; i++)
            diff += pow((double)out[i] - src[i], 2), all += pow(src[i], 2);
    }
    fclose(f);
    print_message("%s of %s: relative L2 error %.5f\n", name, file, sqrt(diff / all));
    assert_true(diff <= most * most * all);
}

static void test_gradients(void **s)
{
    (void)s;
    static const char *const files[] = {"chartf.f32", "cnn.f32", "wordlm.f32"};
    for (size_t i = 0; i < 3; i++) { /* e4m3 has no scale here, and gradients lie below its least value */
        error_below("int8", files[i], 0.014);
        error_below("bf16", files[i], 0.002);
        error_below("f16", files[i], 0.002);
        error_below("int4", files[i], 0.16);
        error_below("e5m2", files[i], 0.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_int8_bytes),
        TEST(test_tiles),
        TEST(test_int4_bytes),
        TEST(test_twobit_bytes),
        TEST(test_sign_bytes),
        TEST(test_raw_blocks),
        TEST(test_bound),
        TEST(test_tiny_blocks),
        TEST(test_near_overflow),
        TEST(test_clamp),
        TEST(test_not_finite),
        TEST(test_residual_of_specials),
        TEST(test_gradients),
    };
    return cmocka_run_group_tests_name("lossy", tests, NULL, NULL);
}
