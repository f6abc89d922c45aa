/* test_golden.c - the files that are the format, and real gradients with the ratios they must
 * reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>

enum { MOST = 8 << 20, CHUNK = 1 << 20 };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[MOST], out[MOST];

static size_t load(const char *path, uint8_t *p)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return 0;
    size_t n = fread(p, 1, MOST, f);
    fclose(f);
    return n;
}

/* The frames that today's encoders still write; the other is from before there were sparse groups, and is read for ever. */
static const struct {
    const char *name, *codec;
    int written;
} golden[] = {
    {"f32", "group", 1},         {"bf16", "group", 0},         {"f16", "group", 1},
    {"f32_bf16", "group", 1},    {"f32_not_bf16", "group", 1}, {"bytes", "group", 1},
    {"zero", "group", 1},        {"sparse_f32", "group", 1},   {"sparse_bf16", "group", 1},
    {"sparse_f16", "group", 1},  {"sparse_bytes", "group", 1}, {"sparse_f32_bf16", "group", 1},
    {"tight_f32", "tight", 1},   {"tight_bf16", "tight", 1},   {"tight_f16", "tight", 1},
    {"tight_f32_bf16", "tight", 1}, {"entropy_f32", "entropy", 1}, {"entropy_bf16", "entropy", 1},
    {"entropy_f16", "entropy", 1}, {"entropy_bytes", "entropy", 1}, {"entropy_f32_bf16", "entropy", 1},
    {"zero_f32", "zero", 1},     {"zero_bf16", "zero", 1},
};

static void write_again(const char *name, size_t n, const struct gw_frame *f, size_t len)
{
    struct gw_coding c = {.size = sizeof(c), .view = f->view};
    size_t again;
    assert_int_equal(gw_frame_encode(gw_codec_by_name(name), &c, 1, src, n, out, sizeof(out), &again, ws), GW_OK);
    assert_int_equal(again, len);
    assert_memory_equal(out, coded, len);
}

/* The format is what these files say; every kernel reads them. */
static void test_golden(void **s)
{
    (void)s;
    char path[512];
    for (size_t i = 0; i < GW_LEN(golden); i++) {
        struct gw_frame f;
        snprintf(path, sizeof(path), "%s/tests/golden/%s.raw", GW_SRC, golden[i].name);
        size_t n = load(path, src), len;
        snprintf(path, sizeof(path), "%s/tests/golden/%s.frame", GW_SRC, golden[i].name);
        len = load(path, coded);
        assert_true(n > 0);
        assert_int_equal(gw_frame_read(coded, len, &f), GW_OK);
        assert_int_equal(f.codec, gw_codec_by_name(golden[i].codec)->id);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_force(gw_kern_at(k));
            memset(out, 0xee, n);
            assert_int_equal(gw_frame_decode(coded, len, out, n, ws), GW_OK);
            assert_memory_equal(out, src, n);
            if (golden[i].written)
                write_again(golden[i].codec, n, &f, len);
        }
    }
}

/* Real gradients in chunks of a megabyte, heads included, with the view that the picker finds. */
static void ratio_below(const char *codec, const char *name, enum gw_view want, unsigned per_mille)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/data/%s", GW_SRC, name);
    size_t n = load(path, src), wire = 0, len;
    if (n == 0) {
        print_message("%s: not here, skipped\n", name);
        return;
    }
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)gw_view_pick(src, n, NULL)};
    assert_int_equal(c.view, want);
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t part = gw_min_u64(CHUNK, n - at);
        assert_int_equal(gw_frame_encode(gw_codec_by_name(codec), &c, 1, src + at, part,
                                         coded, part, &len, ws),
                         GW_OK);
        assert_int_equal(gw_frame_decode(coded, len, out, part, ws), GW_OK);
        assert_memory_equal(out, src + at, part);
        wire += len;
    }
    print_message("%s %s: %zu -> %zu, ratio %.4f\n", codec, name, n, wire, (double)wire / (double)n);
    assert_true(wire * 1000 <= n * per_mille);
}

static void test_gradients(void **s)
{
    (void)s;
    gw_kern_force(NULL);
    ratio_below("group", "chartf.bf16", GW_VIEW_BF16, 755);
    ratio_below("group", "chartf.f32", GW_VIEW_F32, 880);
    ratio_below("group", "cnn.f32", GW_VIEW_F32, 590);
    ratio_below("group", "wordlm.f32", GW_VIEW_F32, 17);
    ratio_below("tight", "chartf.bf16", GW_VIEW_BF16, 710);
    ratio_below("tight", "chartf.f32", GW_VIEW_F32, 852);
    ratio_below("tight", "cnn.f32", GW_VIEW_F32, 590);
    ratio_below("tight", "wordlm.f32", GW_VIEW_F32, 17);
    ratio_below("entropy", "chartf.bf16", GW_VIEW_BF16, 690);
    ratio_below("entropy", "chartf.f32", GW_VIEW_F32, 845);
    ratio_below("entropy", "cnn.f32", GW_VIEW_F32, 610);
    ratio_below("zero", "wordlm.f32", GW_VIEW_F32, 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
