/* test_levels.c - words that are added, values that are added, whole frames, and what lossy codecs refuse. */
#include "lossy_bed.h"

static float acc[MOST];
static uint8_t other[ROOM];

static const char *const names[] = {"bf16", "f16", "e4m3", "e5m2", "int8", "int4", "levels", "twobit", "sign"};

/* ---- levels ---- */

static void test_levels(void **s)
{
    (void)s;
    static const struct {
        uint32_t bits, ranks, want;
    } rows[] = {{8, 1, 127},       {8, 8, 15},        {8, 64, 1},          {8, 127, 1},         {8, 128, 0},
                {16, 8, 4095},     {16, 32767, 1},    {16, 32768, 0},      {32, 1, 0x7fffff80}, {32, 8, 0x0fffffff & ~15u},
                {32, 128, 0xffffff}, {32, 127, 16909320 & ~1u}, {32, 0x7fffffff, 1}, {32, 0x80000000, 0}, {8, 0, 0}, {9, 1, 0}};
    for (size_t i = 0; i < GW_LEN(rows); i++)
        assert_int_equal(gw_levels(rows[i].bits, rows[i].ranks), rows[i].want);
}

/* Every rank at its limit, in the same direction: the sum of all stays in its words, and one more does not. */
static void test_sum_of_all(void **s)
{
    (void)s;
    static const struct {
        uint32_t bits, ranks;
    } rows[] = {{8, 1}, {8, 8}, {8, 64}, {8, 127}, {16, 8}, {16, 1000}, {32, 3}, {32, 16}};
    static uint8_t sum[4 * 300];
    use("levels");
    for (size_t i = 0; i < 300; i++)
        src[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0.3f;
    for (size_t k = 0; k < GW_LEN(rows); k++) {
        c.bits = rows[k].bits, c.ranks = rows[k].ranks;
        encode(300);
        assert_int_equal(count, c.ranks);
        assert_int_equal(len, 300 * c.bits / 8);
        memset(sum, 0, sizeof(sum));
        for (uint32_t r = 0; r < c.ranks; r++)
            assert_int_equal(gw_levels_add(sum, coded, 300, c.bits), GW_OK);
        memcpy(other, sum, len);
        struct gw_frame f = head(1200);
        assert_int_equal(codec->decode(&f, sum, out, 1200, ws), GW_OK);
        for (size_t i = 0; i < 300; i++)
            assert_true(fabs(out[i] - (double)src[i] * c.ranks) <= 0.5001 * c.ranks / gw_levels(c.bits, c.ranks) + 1e-5);
        if (c.bits == 8) { /* 127 of 127 levels are used: one more leaves the word */
            gw_err err = GW_OK;
            for (uint32_t r = 0; r < c.ranks + 1 && err == GW_OK; r++)
                err = gw_levels_add(sum, coded, 300, c.bits);
            assert_int_equal(err, GW_E_LIMIT);
        }
    }
    assert_int_equal(gw_levels_add(sum, coded, 300, 12), GW_E_ARG);
}

/* The sum of the words is the sum of what each rank keeps track of: nothing but the residuals is lost. */
static void test_ranks_with_residuals(void **s)
{
    (void)s;
    enum { RANKS = 5, N = 1000 };
    static float kept[RANKS][N];
    static double given[N], applied[N];
    static uint8_t sum[4 * N];
    memset(kept, 0, sizeof(kept));
    use("levels");
    c.bits = 16, c.ranks = RANKS, c.param = bits_of(2);
    for (int step = 0; step < 10; step++) {
        memset(sum, 0, sizeof(sum));
        for (int r = 0; r < RANKS; r++) {
            for (size_t i = 0; i < N; i++)
                src[i] = some(), given[i] += src[i];
            c.residual = kept[r];
            encode(N);
            assert_int_equal(gw_levels_add(sum, coded, N, 16), GW_OK);
        }
        struct gw_frame f = head(4 * N);
        assert_int_equal(codec->decode(&f, sum, out, 4 * N, ws), GW_OK);
        for (size_t i = 0; i < N; i++)
            applied[i] += out[i];
    }
    for (size_t i = 0; i < N; i++) {
        double remembered = 0;
        for (int r = 0; r < RANKS; r++)
            remembered += kept[r][i];
        assert_true(fabs(given[i] - applied[i] - remembered) < 1e-4);
    }
}

/* A common maximum of nothing: nothing is sent, zeros come back, the residual keeps all. */
static void test_no_maximum(void **s)
{
    (void)s;
    static const float none[] = {0, 0x1p-91f};
    for (size_t k = 0; k < 2; k++) {
        use("levels");
        c.param = bits_of(none[k]), c.residual = residual;
        memset(residual, 0, sizeof(residual));
        for (size_t i = 0; i < 500; i++)
            src[i] = some();
        memcpy(src + 500, "end", 3);
        assert_int_equal(codec->bound(2003, &c), 3);
        assert_int_equal(encode_bytes(2003, ROOM), GW_OK);
        assert_int_equal(len, 3);
        assert_memory_equal(residual, src, 2000);
        assert_int_equal(decode_bytes(2003), GW_OK);
        assert_true(gw_zero((void *)out, 2000));
        assert_memory_equal(out + 500, "end", 3);
    }
}

/* ---- sizes, and what is refused ---- */

/* A fixed rate means: the bound, whatever the values. */
static void test_sizes(void **s)
{
    (void)s;
    static const struct {
        const char *name;
        size_t whole, part; /* of 4096 values, and of 4096 + 100 and 3 bytes */
    } rows[] = {{"bf16", 8192, 8395},  {"f16", 8192, 8395},    {"e4m3", 4096, 4199},   {"e5m2", 4096, 4199},
                {"int8", 4160, 4267},  {"int4", 2304, 2379},   {"levels", 4096, 4199}, {"twobit", 1024, 1059},
                {"sign", 528, 551}};
    for (size_t i = 0; i < GW_LEN(rows); i++) {
        use(rows[i].name);
        for (size_t j = 0; j < 4196; j++)
            src[j] = some();
        encode(4096);
        assert_int_equal(len, rows[i].whole);
        assert_int_equal(encode_bytes(4 * 4196 + 3, ROOM), GW_OK);
        assert_int_equal(len, rows[i].part);
        assert_int_equal(encode_bytes(4 * 4196 + 3, len - 1), GW_RAW);
        for (size_t n = 0; n < 4; n++) { /* no value at all */
            assert_int_equal(encode_bytes(n, ROOM), GW_OK);
            assert_int_equal(len, n);
            assert_int_equal(decode_bytes(n), GW_OK);
            assert_memory_equal(out, src, n);
        }
        if (codec->traits & GW_TRAIT_FIXED_RATE)
            assert_int_equal(codec->bound(4 * 4196 + 3, &c), rows[i].part);
    }
}

static void test_arguments(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(names); i++) {
        use(names[i]);
        struct gw_coding good = c;
        assert_true(codec->traits & GW_TRAIT_LOSSY);
        c.view = GW_VIEW_BF16;
        assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
        assert_int_equal(codec->bound(64, &c), 0);
        c = good, c.flags = 2;
        assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
        c = good, c.size = offsetof(struct gw_coding, residual);
        assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
        c = good, c.size = offsetof(struct gw_coding, ranks); /* a caller that was built before levels */
        assert_int_equal(encode_bytes(64, ROOM), codec->id == GW_CODEC_LEVELS ? GW_E_ARG : GW_OK);
        c = good, c.flags = GW_CODING_STOCHASTIC;
        assert_int_equal(encode_bytes(64, ROOM), codec->id >= GW_CODEC_TWOBIT ? GW_E_ARG : GW_OK);
        static const uint32_t params[] = {1, 0x007fffff, 0x7f800000, 0x7fc00000, 0xbf800000, 0x80000000};
        for (size_t k = 0; k < GW_LEN(params); k++) {
            c = good, c.param = params[k];
            int less = codec->id == GW_CODEC_LEVELS && k < 2; /* as good as none */
            assert_int_equal(encode_bytes(64, ROOM), less ? GW_OK : GW_E_ARG);
        }
        c = good;
        assert_int_equal(codec->encode(NULL, src, 64, coded, ROOM, &len, &count, ws), GW_E_ARG);
    }
    use("levels");
    c.ranks = 128; /* no level is left */
    assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
    c.ranks = 0;
    assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
    c.ranks = 8, c.bits = 24;
    assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
    c.bits = 0;
    assert_int_equal(encode_bytes(64, ROOM), GW_E_ARG);
    c.bits = 8, c.param = 0x7f7fffff; /* 15 times a fifteenth of it */
    assert_int_equal(encode_bytes(64, ROOM), gw_f32_bits(of_bits(0x7f7fffff) / 15 * 15) >= 0x7f800000 ? GW_E_ARG : GW_OK);
}

static void refuses(const struct gw_frame *f, size_t n)
{
    assert_int_equal(codec->decode(f, coded, out, n, ws), GW_E_CORRUPT);
    memset(out, 0x40, n);
    assert_int_equal(codec->decode_add(f, coded, out, n, 1, ws), GW_E_CORRUPT);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(((uint8_t *)out)[i], 0x40);
}

static void test_decode_refusals(void **s)
{
    (void)s;
    enum { N = 4 * 5000 + 2 };
    for (size_t i = 0; i < GW_LEN(names); i++) {
        use(names[i]);
        for (size_t k = 0; k < 5000; k++)
            src[k] = some();
        assert_int_equal(encode_bytes(N, ROOM), GW_OK);
        struct gw_frame good = head(N), f = good;
        assert_int_equal(codec->decode(&f, coded, out, N, ws), GW_OK);
        f.view = GW_VIEW_BYTES, refuses(&f, N);
        f = good, f.wire_bytes--, refuses(&f, N);
        f = good, f.wire_bytes++, refuses(&f, N);
        f = good, f.wire_bytes = 0, refuses(&f, N);
        f = good, f.wire_bytes = 1, refuses(&f, N);
        f = good, f.param = 0xff800000, refuses(&f, N);
        f = good, f.count = codec->id == GW_CODEC_LEVELS ? 128 : f.count + 1, refuses(&f, N);
        f = good, refuses(&f, N + 4 * 128);
    }
}

/* Scales of no encoder, in the last tile, after everything before them was good. */
static void test_bent_scales(void **s)
{
    (void)s;
    static const uint32_t bad[] = {1, 0x00800000, 0x087fffff, 0x80000000, 0xbf800000, 0x7f800001, 0x7fc00000, 0xff800000};
    static const char *const scaled[] = {"int8", "int4", "sign"};
    for (size_t t = 0; t < 3; t++) {
        use(scaled[t]);
        for (size_t k = 0; k < 5000; k++)
            src[k] = some();
        src[0] = of_bits(0x7f800000);
        encode(5000);
        struct gw_frame f = head(20000);
        size_t at = t == 0 ? 4160 : t == 1 ? 2304 : 528;
        uint32_t was = gw_get32(coded + at);
        assert_int_equal(count, 1);
        for (size_t k = 0; k < GW_LEN(bad); k++) {
            gw_put32(coded + at, bad[k]);
            refuses(&f, 20000);
        }
        gw_put32(coded + at, was);
        gw_put32(coded, 0x7f800001); /* its number is 0 */
        refuses(&f, 20000);
        gw_put32(coded, was); /* nobody uses what stands behind the tiles */
        refuses(&f, 20000);
    }
}

/* ---- adding ---- */

static void adds(const char *name, float scale, size_t n)
{
    static float dst[MOST];
    use(name);
    for (size_t i = 0; i < n; i++)
        src[i] = some(), acc[i] = i % 7 ? some() : 0;
    if (codec->id < GW_CODEC_LEVELS && n > 300)
        src[300] = of_bits(0x7f800000), src[301] = of_bits(0x00000001), acc[300] = of_bits(0xff800000);
    acc[5] = of_bits(0x80000001), acc[6] = of_bits(0xffc12345);
    encode(n);
    decode(n);
    memcpy(dst, acc, 4 * n);
    struct gw_frame f = head(4 * n);
    assert_int_equal(codec->decode_add(&f, coded, dst, 4 * n, scale, ws), GW_OK);
    for (size_t i = 0; i < n; i++) {
        float value = fpclassify(out[i]) == FP_SUBNORMAL ? 0 : out[i], was = fpclassify(acc[i]) == FP_SUBNORMAL ? 0 : acc[i];
        volatile float product = value * scale;
        volatile float want = was + product;
        uint32_t bits = isnan(want) ? 0x7fc00000 : want == 0 ? 0 : bits_of(want);
        if (bits_of(dst[i]) != bits)
            fail_msg("%s: %a + %a * %a at %zu is %a, not %a", name, acc[i], scale, out[i], i, dst[i], of_bits(bits));
    }
}

static void test_adds(void **s)
{
    (void)s;
    for (size_t k = 0; kernel(&k) != NULL;)
        for (size_t i = 0; i < GW_LEN(names); i++)
            adds(names[i], 1, 5003), adds(names[i], 0.125f, 4096), adds(names[i], -1 / 3.f, 1024 + 9);
}

/* A product below what is normal counts as nothing, and so does such a factor. */
static void test_adds_no_subnormals(void **s)
{
    (void)s;
    for (size_t k = 0; kernel(&k) != NULL;) {
        use("bf16");
        float dst[3] = {0x1p-126f, -0x1p-126f, 0};
        struct gw_frame f;
        src[0] = 0x1p-120f, src[1] = 0x1p-126f * 1.5f, src[2] = 1;
        encode(3), f = head(12);
        assert_int_equal(codec->decode_add(&f, coded, dst, 12, 0x1p-10f, ws), GW_OK);
        assert_true(dst[0] == 0x1p-126f && dst[1] == -0x1p-126f && dst[2] == 0x1p-10f);
        dst[2] = 0, src[2] = 0x1p20f;
        encode(3), f = head(12);
        assert_int_equal(codec->decode_add(&f, coded, dst, 12, 0x1p-130f, ws), GW_OK);
        assert_true(dst[0] == 0x1p-126f && dst[2] == 0);
        assert_int_equal(codec->decode_add(&f, coded, dst, 12, 1, ws), GW_OK);
        assert_int_equal(bits_of(dst[1]), 0); /* half of the least normal */
    }
}

/* What a peer that writes our memory may do between the judging and the last addition: every scale becomes something else. */
static uint32_t now_say;

static void rewriting_add(const uint8_t *in, size_t n, float scale, float by, uint8_t *dst)
{
    gw_kern_lossy_scalar.codes[GW_CODE_INT8]->add(in, n, scale, by, dst);
    for (size_t i = 0; i < 16; i++)
        gw_put32(coded + 4 * i, now_say), gw_put32(coded + 4160 + 4 * i, now_say);
}

static void test_bytes_that_change(void **s)
{
    (void)s;
    static const uint32_t say[] = {0x7f800000, 0x7f800001, 0x7fffffff, 0xffffffff, 1, 0, 0x3f800000};
    struct gw_code_kern int8 = *gw_kern_lossy_scalar.codes[GW_CODE_INT8];
    struct gw_kern_lossy lossy = gw_kern_lossy_scalar;
    struct gw_kern kern = gw_kern_scalar;
    int8.add = rewriting_add, lossy.codes[GW_CODE_INT8] = &int8, kern.lossy = &lossy;
    for (size_t i = 0; i < GW_LEN(say); i++) {
        use("int8");
        gw_kern_force(NULL);
        for (size_t k = 0; k < 8192; k++)
            src[k] = some(), acc[k] = 1;
        src[700] = of_bits(0x7f800000);
        encode(8192);
        struct gw_frame f = head(4 * 8192);
        uint8_t *exact = malloc(len); /* a sanitizer sees what is read beyond it */
        assert_int_equal(codec->decode_add(&f, memcpy(exact, coded, len), acc, 4 * 8192, 1, ws), GW_OK);
        free(exact);
        now_say = say[i];
        gw_kern_force(&kern);
        gw_err err = codec->decode_add(&f, coded, acc, 4 * 8192, 1, ws);
        assert_true(err == GW_OK || err == GW_E_CORRUPT);
        assert_int_equal(err, say[i] == 0 || say[i] == 0x3f800000 ? GW_OK : GW_E_CORRUPT);
    }
}

/* A frame's checksum covers what travels, and is held against it before anything is added. */
static void test_frames(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(names); i++) {
        use(names[i]);
        for (size_t k = 0; k < 5000; k++)
            src[k] = some();
        memset(acc, 0, sizeof(acc));
        assert_int_equal(gw_frame_encode(codec, &c, 1, src, 20000, coded, ROOM, &len, ws), GW_OK);
        assert_int_equal(gw_frame_decode(coded, len, out, 20000, ws), GW_OK);
        assert_int_equal(gw_frame_decode_add(coded, len, acc, 20000, 1, ws), GW_OK);
        for (size_t k = 0; k < 5000; k++)
            assert_true(acc[k] == out[k]);
        memcpy(other, acc, 20000);
        for (size_t at = GW_FRAME_BYTES; at < len; at += 61) {
            coded[at] ^= 4;
            assert_int_equal(gw_frame_decode_add(coded, len, acc, 20000, 1, ws), GW_E_CHECK);
            coded[at] ^= 4;
        }
        assert_int_equal(gw_frame_decode_add(coded, len, acc, 20004, 1, ws), GW_E_CORRUPT);
        assert_int_equal(gw_frame_decode_add(coded, len - 1, acc, 20000, 1, ws), GW_E_CORRUPT);
        assert_memory_equal(acc, other, 20000);
    }
    use("group");
    memset(src, 0, 20000);
    assert_int_equal(gw_frame_encode(codec, &c, 1, src, 20000, coded, ROOM, &len, ws), GW_OK);
    assert_int_equal(gw_frame_decode_add(coded, len, acc, 20000, 1, ws), GW_E_NOSYS);
    assert_memory_equal(acc, other, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_levels),          TEST(test_sum_of_all),  TEST(test_ranks_with_residuals),
        TEST(test_no_maximum),      TEST(test_sizes),       TEST(test_arguments),
        TEST(test_decode_refusals), TEST(test_bent_scales), TEST(test_adds),
        TEST(test_adds_no_subnormals), TEST(test_bytes_that_change), TEST(test_frames),
    };
    return cmocka_run_group_tests_name("levels", tests, NULL, NULL);
}
