/* test_sparse.c - golden files of sparse sets; what is refused; the largest space; seeds; bits that real masks take. */
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

enum { HEADS = GW_FRAME_BYTES + 16 };

static uint32_t set_index[MASK_MOST], other_index[MASK_MOST];
static float set_value[MASK_MOST], other_value[MASK_MOST];

/* ---- golden files: every kernel writes them and reads them ---- */

enum { GOLD = 4096 };
static uint8_t given[8 * GOLD], raw[8 * GOLD], frame[1 << 16], again[1 << 16];
static uint32_t in_index[GOLD], out_index[GOLD];
static float in_value[GOLD], out_value[GOLD];

static size_t load(const char *name, const char *end, uint8_t *p, size_t cap)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/golden/%s.%s", GW_SRC, name, end);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(p, 1, cap, f);
    fclose(f);
    return n;
}

static void one(const char *name, uint32_t n, size_t len)
{
    struct gw_sparse how;
    uint32_t count = 0;
    size_t again_len = 0;
    assert_int_equal(gw_sparse_read(frame, len, &how, &count), GW_OK);
    assert_int_equal(count, n);
    if (strcmp(name, "sparse_empty") == 0)
        how.index = GW_INDEX_BEST;
    assert_int_equal(gw_sparse_encode(&how, in_index, in_value, n, again, sizeof(again), &again_len), GW_OK);
    assert_int_equal(again_len, len);
    assert_memory_equal(again, frame, len);
    assert_int_equal(gw_sparse_decode(frame, len, how.space, out_index, out_value, GOLD, &count), GW_OK);
    assert_memory_equal(out_index, raw, 4 * (size_t)n);
    assert_memory_equal(out_value, raw + 4 * (size_t)n, 4 * (size_t)n);
}

static void test_golden(void **s)
{
    (void)s;
    static const char *const names[] = {"sparse_bitmap", "sparse_u16",  "sparse_runs", "sparse_ef12",
                                        "sparse_ef16",   "sparse_ef20", "sparse_seed", "sparse_empty"};
    for (size_t i = 0; i < GW_LEN(names); i++) {
        size_t bytes = load(names[i], "set", given, sizeof(given)), len = load(names[i], "frame", frame, sizeof(frame));
        assert_int_equal(load(names[i], "raw", raw, sizeof(raw)), bytes);
        memcpy(in_index, given, bytes / 2), memcpy(in_value, given + bytes / 2, bytes / 2);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_force(gw_kern_at(k));
            one(names[i], (uint32_t)(bytes / 8), len);
        }
    }
    gw_kern_force(NULL);
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
    mask_state = 5;
    struct mask_set set = mask_set_new(5000, 1, 0);
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_BEST, .flags = GW_SPARSE_CHECK, .space = set.space};
    size_t len = 0;
    uint8_t *out = fence_end(F_CODED, MASK_ROOM);
    uint32_t n;
    assert_true(set.n > 50);
    assert_int_equal(gw_sparse_encode(&how, set.index, set.value, (uint32_t)set.n, out, MASK_ROOM, &len), GW_OK);
    assert_int_equal(gw_sparse_decode(out, len, set.space, set_index, set_value, MASK_MOST, &n), GW_OK);
    for (size_t at = 8; at < len; at++) {
        uint8_t bit = (uint8_t)(1 << mask_below(8));
        out[at] ^= bit;
        assert_int_not_equal(gw_sparse_decode(out, len, set.space, set_index, set_value, MASK_MOST, &n), GW_OK);
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
    mask_state = 9;
    uint32_t got[5];
    assert_int_equal(gw_sparse_seeded(77, 1000, 5, got), GW_OK);
    assert_memory_equal(got, known, sizeof(known));
    assert_int_equal(gw_sparse_seeded(0xfedcba9876543210, (uint64_t)1 << 32, 3, got), GW_OK);
    assert_memory_equal(got, far, sizeof(far));
    for (int round = 0; round < 200; round++) {
        uint64_t most = (uint64_t)1 << 32, seed = mask_chance();
        uint64_t space = round == 0 ? most : 1 + mask_below(round % 2 ? MASK_MOST : most);
        uint32_t n = (uint32_t)(1 + mask_below(gw_min_u64(space, round % 3 ? MASK_MOST : 10)));
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

/* ---- real masks ---- */

enum { REAL = 1 << 19 };
static float real[REAL];

static uint32_t bits_of(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return b;
}

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
    uint8_t *out = fence_end(F_CODED, MASK_ROOM);
    uint32_t got = 0;
    assert_int_equal(gw_sparse_encode(&how, set_index, set_value, (uint32_t)k, out, MASK_ROOM, &len), GW_OK);
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
    /* The sample is the front of its file, which as a whole must take 5.5 at most and takes 5.14. */
    bits_below("chartf.f32", 100, 590);
    bits_below("cnn.f32", 100, 750);
    bits_below("wordlm.f32", 100, 600);
    /* the entropy of a mask without pattern is 11.41 */
    bits_below("chartf.f32", 1000, 1201);
    bits_below("cnn.f32", 1000, 1201);
    bits_below("wordlm.f32", 1000, 1201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),      cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_checksum),    cmocka_unit_test(test_largest),
                                       cmocka_unit_test(test_many_in_few), cmocka_unit_test(test_seeded),
                                       cmocka_unit_test(test_masks)};
    return cmocka_run_group_tests_name("sparse", tests, fence_setup, fence_teardown);
}
