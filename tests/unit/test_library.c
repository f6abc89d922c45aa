/* test_library.c - the codecs zstd and lz4, where they were built in: blocks, refusals, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <gradwire/frame.h>
#include <library.h>

enum { MOST = 3 * GW_BLOCK_BYTES, ROOM = MOST + 4096, HEAD = GW_FRAME_BYTES };

static uint8_t src[MOST], coded[ROOM], out[MOST + 64];
static _Alignas(64) uint8_t ws[2 << 20];

static const struct gw_codec *given(void **state)
{
    const struct gw_codec *codec = gw_codec_by_name(*state);

    assert_int_equal(gw_codec_left_out(*state), codec == NULL);
    if (codec == NULL)
        skip();
    assert_true(codec->ws_bytes <= sizeof(ws) && codec->ws_bytes <= gw_codec_ws_max());
    return codec;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Words out of a small vocabulary, and from `noise` on whatever chance gives. */
static void fill(size_t n, size_t noise)
{
    uint64_t state = 7;

    for (size_t i = 0; i < n; i++)
        src[i] = i < noise ? "gradient of a layer, and of another; "[(i + next(&state) % 3 / 2) % 37] : (uint8_t)next(&state);
}

static size_t code(const struct gw_codec *codec, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_F32};
    size_t len = 0;

    assert_int_equal(gw_frame_encode(codec, &c, 1, src, n, coded, sizeof(coded), &len, ws), GW_OK);
    return len;
}

static gw_err decode(size_t len, size_t n)
{
    return gw_frame_decode(coded, len, out, n, ws);
}

/* The whole scratch is not larger than ws_bytes says: behind it stands what must stay. */
static void test_trip(void **state)
{
    static const size_t sizes[] = {300, 4000, 65537, GW_BLOCK_BYTES - 1, GW_BLOCK_BYTES, GW_BLOCK_BYTES + 1, MOST};
    const struct gw_codec *codec = given(state);

    memset(ws, 0x3c, sizeof(ws));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        fill(sizes[i], sizes[i] - sizes[i] / 3);
        size_t len = code(codec, sizes[i]);
        assert_true(sizes[i] < 65537 || len < sizes[i] * 3 / 4);
        assert_int_equal(gw_get32(coded + 16), (sizes[i] + GW_BLOCK_BYTES - 1) / GW_BLOCK_BYTES);
        memset(out, 0, sizeof(out));
        assert_int_equal(decode(len, sizes[i]), GW_OK);
        assert_memory_equal(out, src, sizes[i]);
        assert_true(gw_zero(out + sizes[i], 64));
    }
    for (size_t i = codec->ws_bytes; i < sizeof(ws); i++)
        assert_int_equal(ws[i], 0x3c);
}

static void test_raw(void **state)
{
    const struct gw_codec *codec = given(state);
    struct gw_coding c = {.size = sizeof(c)};
    size_t len = 0;

    assert_int_equal(gw_frame_encode(codec, &c, 0, src, 0, coded, sizeof(coded), &len, ws), GW_RAW);
    fill(MOST, 0);
    assert_int_equal(gw_frame_encode(codec, &c, 0, src, MOST, coded, sizeof(coded), &len, ws), GW_RAW);
    fill(MOST, MOST);
    len = code(codec, MOST);
    assert_int_equal(gw_frame_encode(codec, &c, 0, src, MOST, coded, len - 1, &len, ws), GW_RAW);
    c.view = GW_VIEW_COUNT;
    assert_int_equal(gw_frame_encode(codec, &c, 0, src, MOST, coded, sizeof(coded), &len, ws), GW_E_ARG);
}

/* A block that does not shrink is stored, and found as that. */
static void test_stored(void **state)
{
    const struct gw_codec *codec = given(state);

    fill(MOST, 2 * GW_BLOCK_BYTES);
    size_t len = code(codec, MOST);
    assert_true(gw_get32(coded + HEAD) < GW_BLOCK_BYTES);
    assert_int_equal(gw_get32(coded + HEAD + 8), GW_BLOCK_BYTES);
    assert_int_equal(decode(len, MOST), GW_OK);
    assert_memory_equal(out, src, MOST);
}

static void test_damage(void **state)
{
    static const size_t at[] = {4, 16, 20, HEAD, HEAD + 1, HEAD + 3, HEAD + 4, HEAD + 11};
    const struct gw_codec *codec = given(state);

    fill(MOST, MOST);
    size_t len = code(codec, MOST), wire = len - HEAD;
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        coded[at[i]] ^= 0x81;
        assert_int_equal(decode(len, MOST), GW_E_CORRUPT);
        coded[at[i]] ^= 0x81;
    }
    for (size_t cut = 1; cut < wire; cut = cut * 2 + 1) {
        gw_put32(coded + 12, (uint32_t)(wire - cut));
        assert_int_equal(decode(len, MOST), GW_E_CORRUPT);
    }
    gw_put32(coded + 12, (uint32_t)wire + 1);
    assert_int_equal(decode(len + 1, MOST), GW_E_CORRUPT);
    gw_put32(coded + 12, (uint32_t)wire);
    assert_int_equal(decode(len, MOST), GW_OK);
    uint64_t chance = 11;
    for (int i = 0; i < 300; i++) {
        size_t where = HEAD + next(&chance) % wire;
        coded[where] ^= 0x10;
        assert_int_not_equal(decode(len, MOST), GW_OK);
        coded[where] ^= 0x10;
    }
}

/* An empty frame of the library's, or a second one, before the block: the library would take it, one meaning has one spelling. */
static void test_zstd_alone(void **state)
{
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    const struct gw_codec *codec = given(state);

    fill(1000, 1000);
    size_t len = code(codec, 1000), block = gw_get32(coded + HEAD);
    assert_true(block + sizeof(skippable) < 1000);
    memmove(coded + HEAD + 4 + sizeof(skippable), coded + HEAD + 4, block);
    memcpy(coded + HEAD + 4, skippable, sizeof(skippable));
    gw_put32(coded + HEAD, (uint32_t)(block + sizeof(skippable)));
    gw_put32(coded + 12, (uint32_t)(len - HEAD + sizeof(skippable)));
    assert_int_equal(decode(len + sizeof(skippable), 1000), GW_E_CORRUPT);
    memmove(coded + HEAD + 4, coded + HEAD + 4 + sizeof(skippable), block);
    memcpy(coded + HEAD + 4 + block, skippable, sizeof(skippable));
    assert_int_equal(decode(len + sizeof(skippable), 1000), GW_E_CORRUPT);
}

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

/* Decoded, never made again: another release writes other bytes. */
static void test_golden(void **state)
{
    const struct gw_codec *codec = given(state);
    size_t n = load(codec->name, "raw", src, sizeof(src)), len = load(codec->name, "frame", coded, sizeof(coded));

    assert_true(n == 6000 && len < n);
    assert_int_equal(coded[3], codec->id);
    assert_int_equal(decode(len, n), GW_OK);
    assert_memory_equal(out, src, n);
}

int main(void)
{
    static char zstd[] = "zstd", lz4[] = "lz4";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_trip, zstd),   cmocka_unit_test_prestate(test_trip, lz4),
        cmocka_unit_test_prestate(test_raw, zstd),    cmocka_unit_test_prestate(test_raw, lz4),
        cmocka_unit_test_prestate(test_stored, zstd), cmocka_unit_test_prestate(test_stored, lz4),
        cmocka_unit_test_prestate(test_damage, zstd), cmocka_unit_test_prestate(test_damage, lz4),
        cmocka_unit_test_prestate(test_golden, zstd), cmocka_unit_test_prestate(test_golden, lz4),
        cmocka_unit_test_prestate(test_zstd_alone, zstd),
    };
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
