/* test_choose.c - which codec pays: the formula against itself, the guesses against what real gradients become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <choose.h>
#include <gradwire/codec.h>

enum { MOST = 2 << 20, ONE = 65536 };
static uint8_t src[MOST];

static size_t load(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/tests/data/%s", GW_SRC, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(src, 1, sizeof(src), f);
    fclose(f);
    return n;
}

/* All coded where the codec keeps up; else link + what coding frees; never below the link. */
static void test_rate(void **state)
{
    uint32_t share;

    (void)state;
    assert_int_equal(gw_choose_rate(ONE / 2, 8000, 9000, 1250, &share), 2500);
    assert_int_equal(share, ONE);
    assert_int_equal(gw_choose_rate(ONE / 2, 8000, 9000, 50000, &share), 54000);
    assert_int_equal(share, 8000ull * ONE / 54000);
    assert_int_equal(gw_choose_rate(ONE / 2, 9000, 8000, 50000, &share), 54000);
    assert_int_equal(gw_choose_rate(ONE / 2, 2500, 9000, 1250, &share), 2500); /* just keeps up */
    assert_int_equal(gw_choose_rate(ONE / 2, 2498, 9000, 1250, &share), 2499);
    assert_int_equal(gw_choose_rate(ONE, 8000, 8000, 1250, &share), 1250);
    assert_int_equal(gw_choose_rate(UINT32_MAX, 8000, 8000, 1250, &share), 1250);
    assert_int_equal(gw_choose_rate(ONE / 2, 0, 8000, 1250, &share), 1250);
    assert_int_equal(share, 0);
    assert_int_equal(gw_choose_rate(0, 0, 0, 0, &share), 0);
    assert_int_equal(gw_choose_rate(0, UINT32_MAX, UINT32_MAX, UINT32_MAX, &share), UINT32_MAX);
}

static void near(const char *file, enum gw_view view, unsigned codec, unsigned low, unsigned high)
{
    size_t n = load(file);
    unsigned got = (unsigned)((uint64_t)gw_choose_ratio(codec, view, src, n) * 1000 / ONE);

    if (got < low || got > high)
        fail_msg("%s, codec %u: %u is not within %u to %u", file, codec, got, low, high);
}

/* In thousandths; what the codecs make of the whole files lies inside, the guess is 1 to 3 % off. */
static void test_ratio(void **state)
{
    (void)state;
    near("chartf.bf16", GW_VIEW_BF16, 1, 735, 765);
    near("chartf.f32", GW_VIEW_F32, 1, 855, 885);
    near("chartf.bf16", GW_VIEW_BF16, 2, 680, 725);
    near("chartf.f32", GW_VIEW_F32, 2, 830, 865);
    near("chartf.bf16", GW_VIEW_BF16, 3, 660, 700);
    near("chartf.f32", GW_VIEW_F32, 3, 825, 850);
    near("cnn.f32", GW_VIEW_F32, 1, 590, 640);
    near("wordlm.f32", GW_VIEW_F32, 1, 15, 60);
    near("wordlm.f32", GW_VIEW_F32, 4, 10, 40);
    near("chartf.bf16", GW_VIEW_BF16, 4, 1000, 1000);
    near("chartf.bf16", GW_VIEW_BF16, 5, 1000, 1000);
}

static void test_ratio_edges(void **state)
{
    (void)state;
    memset(src, 0, sizeof(src));
    assert_true(gw_choose_ratio(1, GW_VIEW_F32, src, sizeof(src)) < ONE / 256);
    assert_int_equal(gw_choose_ratio(1, GW_VIEW_F32, src, 0), ONE);
    assert_int_equal(gw_choose_ratio(1, GW_VIEW_COUNT, src, 100), ONE);
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)((i * 0x9e3779b97f4a7c15u) >> 56 ^ i * 0x85ebca6bu >> 24);
    for (int view = 0; view < GW_VIEW_COUNT; view++)
        for (unsigned codec = 0; codec < 8; codec++)
            for (size_t n = 1; n < 5000; n = n * 3 / 2 + 1) { /* no byte beyond the end: its own allocation */
                uint8_t *exact = malloc(n);
                memcpy(exact, src, n);
                assert_true(gw_choose_ratio(codec, (enum gw_view)view, exact, n) <= ONE);
                free(exact);
            }
}

static struct gw_codec_choice choose(enum gw_view view, size_t len, uint32_t link, uint32_t encode, uint32_t decode)
{
    const struct gw_codec_rate rates[] = {{.codec = 0, .encode = UINT32_MAX, .decode = UINT32_MAX},
                                          {.codec = 16, .encode = UINT32_MAX, .decode = UINT32_MAX},
                                          {.codec = 63, .encode = UINT32_MAX, .decode = UINT32_MAX},
                                          {.codec = GW_CODEC_GROUP, .encode = encode, .decode = decode}};
    struct gw_codec_choice c;

    memset(&c, 0xee, sizeof(c));
    gw_codec_choose(src, len, view, link, rates, 4, &c);
    return c;
}

/* Neither raw, nor lossy codecs, nor unknown ones are answers; raw is where nothing gains. */
static void test_choose(void **state)
{
    size_t n = load("chartf.bf16");
    struct gw_codec_choice c = choose(GW_VIEW_BF16, n, 1250, 8000, 8000);

    (void)state;
    assert_ptr_equal(c.codec, gw_codec_by_name("group"));
    assert_int_equal(c.share, ONE);
    assert_true(c.rate > 1650 && c.rate < 1720 && c.ratio > ONE * 7 / 10 && c.ratio < ONE * 8 / 10);
    c = choose(GW_VIEW_BF16, n, 12500, 8000, 8000);
    assert_non_null(c.codec);
    assert_true(c.share < ONE && c.rate > 14000 && c.rate < 15000);
    c = choose(GW_VIEW_BF16, n, 125000, 8000, 8000); /* below a thirty-second */
    assert_null(c.codec);
    assert_true(c.rate == 125000 && c.share == 0 && c.ratio == ONE);
    c = choose(GW_VIEW_BF16, n, 1250, 100, 8000);
    assert_null(c.codec);
    assert_null(choose(GW_VIEW_BF16, 0, 1250, 8000, 8000).codec);
    const struct gw_codec_rate zstd = {.codec = GW_CODEC_ZSTD, .encode = 1000, .decode = 1000};
    gw_codec_choose(src, n, GW_VIEW_BF16, 0, &zstd, 1, &c);
    assert_null(c.codec);
    gw_codec_choose(src, n, GW_VIEW_BF16, 1250, NULL, 0, &c);
    assert_true(c.codec == NULL && c.rate == 1250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rate), cmocka_unit_test(test_ratio),
                                       cmocka_unit_test(test_ratio_edges), cmocka_unit_test(test_choose)};
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
