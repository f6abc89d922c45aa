/* test_entropy.c - the states by hand and against each other, the entropy codec's blocks, and what
 * it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <entropy.h>
#include <gradwire/frame.h>

enum { MOST = 1 << 20, CODES = GW_BLOCK_GROUPS * GW_CODES_BYTES };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t src[MOST], coded[MOST + 1024], out[MOST];
static uint8_t codes[CODES], back[CODES], room[2][GW_RANS_SLACK + 2 * GW_BLOCK_VALUES];
static const struct gw_codec *entropy;
static uint64_t state;

static uint32_t chance(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static int start(void **s)
{
    (void)s;
    memset(src, 0, MOST), memset(coded, 0xee, sizeof(coded)), memset(out, 0xee, MOST);
    entropy = gw_codec_by_id(GW_CODEC_ENTROPY);
    gw_kern_force(NULL);
    state = 1;
    return 0;
}

static gw_err encode(enum gw_view view, size_t n, size_t cap, size_t *len, uint32_t *count)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    return entropy->encode(&c, src, n, coded, cap, len, count, ws);
}

static gw_err decode(size_t len, unsigned view, uint32_t count, size_t n)
{
    struct gw_frame f = {.codec = GW_CODEC_ENTROPY, .view = (uint8_t)view, .count = count};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)len;
    return entropy->decode(&f, coded, out, n, ws);
}

/* ---- the states ---- */

static void make(struct gw_rans *t, const uint16_t *freq)
{
    assert_int_equal(gw_rans_make(t, freq), 1);
}

static void at_rest(uint32_t x[GW_RANS_LANES])
{
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
        x[lane] = GW_RANS_LOW;
}

/* Code k of a lane in the order of the steps. */
static unsigned code(unsigned step, unsigned lane)
{
    return codes[step / 2 * 32 + lane] >> step % 2 * 4 & 15;
}

/* With 16 codes of 256 each a step is a shift by four bits, so that one group can be coded by hand:
 * 3 codes and the first of them stay in the state, the others are two words. */
static void test_by_hand(void **s)
{
    (void)s;
    struct gw_rans t;
    uint16_t freq[GW_RANS_SYMBOLS];
    for (unsigned i = 0; i < GW_RANS_SYMBOLS; i++)
        freq[i] = 256;
    make(&t, freq);
    for (size_t i = 0; i < GW_CODES_BYTES; i++)
        codes[i] = (uint8_t)chance();
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        uint32_t x[GW_RANS_LANES];
        if (!gw_kern_at(k)->usable())
            continue;
        at_rest(x);
        uint8_t *end = room[0] + sizeof(room[0]), *at = gw_kern_at(k)->rans->encode(&t, x, codes, 1, end);
        assert_int_equal(end - at, 128);
        for (unsigned i = 0; i < GW_RANS_LANES; i++) {
            assert_int_equal(x[i], 0x8000 + 256 * code(0, i) + 16 * code(4, i) + code(3, i));
            assert_int_equal(gw_get16(at + 2 * i), 4096 * code(2, i) + 256 * code(1, i) + code(7, i));
            assert_int_equal(gw_get16(at + 64 + 2 * i), 4096 * code(6, i) + 256 * code(5, i));
        }
    }
}

/* Frequencies that add up to 4096: flat, steep, and one that has nearly all. */
static void some_frequencies(unsigned round, uint16_t freq[GW_RANS_SYMBOLS])
{
    uint32_t seen[GW_RANS_SYMBOLS];
    for (unsigned i = 0; i < GW_RANS_SYMBOLS; i++)
        seen[i] = chance() >> (round % 3 == 0 ? 8 : round % 3 == 1 ? 8 + i : i == round % 16 ? 0 : 31);
    gw_rans_scale(seen, freq);
}

/* Codes as likely as their frequencies, or any. */
static void some_codes(const uint16_t freq[GW_RANS_SYMBOLS], int likely)
{
    for (size_t i = 0; i < 2 * CODES; i++) {
        unsigned slot = chance() % 4096, c = 0;
        for (; likely && slot >= freq[c]; c++)
            slot -= freq[c];
        c = likely ? c : chance() % 16;
        codes[i / 2] = (uint8_t)(i % 2 == 0 ? c : codes[i / 2] | c << 4);
    }
}

/* Alone, and beside a run that is shorter by one group; then with a byte too few. */
static void check_decode(const struct gw_kern_rans *rans, const struct gw_rans *t, const uint32_t first[GW_RANS_LANES],
                         const uint8_t *at, const uint8_t *end, size_t groups)
{
    static uint8_t beside[CODES];
    for (size_t runs = 1; runs <= 2; runs++) {
        uint32_t x[2][GW_RANS_LANES];
        memcpy(x[0], first, sizeof(x[0])), memcpy(x[1], first, sizeof(x[1]));
        memset(back, 0xee, sizeof(back)), memset(beside, 0xee, sizeof(beside));
        struct gw_rans_run run[2] = {{.state = x[0], .words = at, .limit = end, .codes = back, .groups = groups},
                                     {.state = x[1], .words = at, .limit = end, .codes = beside}};
        run[1].groups = groups > 0 ? groups - 1 : 0;
        rans->decode(t, run, runs);
        assert_ptr_equal(run[0].words, end);
        assert_memory_equal(back, codes, groups * GW_CODES_BYTES);
        for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
            assert_int_equal(x[0][lane], GW_RANS_LOW);
        if (runs == 2)
            assert_memory_equal(beside, codes, run[1].groups * GW_CODES_BYTES);
        memcpy(x[0], first, sizeof(x[0])), memcpy(x[1], first, sizeof(x[1]));
        run[0].words = run[1].words = at, run[0].limit = end - 1;
        rans->decode(t, run, runs);
        assert_true(at == end || run[0].words == NULL);
    }
}

static void test_states_agree(void **s)
{
    (void)s;
    for (unsigned round = 0; round < 48; round++) {
        struct gw_rans t;
        uint16_t freq[GW_RANS_SYMBOLS];
        uint32_t x[GW_RANS_LANES], first[GW_RANS_LANES];
        size_t groups = round % 5 == 0 ? GW_BLOCK_GROUPS : round % 5, len = 0;
        some_frequencies(round, freq);
        make(&t, freq);
        some_codes(freq, round % 2);
        for (size_t k = 0, ran = 0; gw_kern_at(k) != NULL; k++) {
            const struct gw_kern_rans *rans = gw_kern_at(k)->rans;
            if (!gw_kern_at(k)->usable())
                continue;
            uint8_t *end = room[ran > 0] + sizeof(room[0]);
            at_rest(x);
            uint8_t *at = rans->encode(&t, x, codes, groups, end);
            if (ran++ == 0)
                memcpy(first, x, sizeof(x)), len = (size_t)(end - at);
            assert_int_equal(end - at, len);
            assert_memory_equal(at, room[0] + sizeof(room[0]) - len, len);
            assert_memory_equal(x, first, sizeof(x));
            memset(back, 0xee, sizeof(back));
            check_decode(rans, &t, first, at, end, groups);
        }
    }
}

static void test_escapes(void **s)
{
    (void)s;
    for (unsigned round = 0; round < 50; round++) {
        unsigned want15 = 0, want7 = 0;
        for (size_t i = 0; i < GW_CODES_BYTES; i++) {
            codes[i] = (uint8_t)(round == 0 ? 0xff : chance());
            want15 += (codes[i] & 15) == 15, want15 += codes[i] >> 4 == 15;
            want7 += (codes[i] & 7) == 7, want7 += (codes[i] >> 4 & 7) == 7;
        }
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            assert_int_equal(gw_kern_at(k)->rans->escapes(codes, 15), want15);
            assert_int_equal(gw_kern_at(k)->rans->escapes(codes, 7), want7);
        }
    }
}

static void test_frequencies(void **s)
{
    (void)s;
    struct gw_rans t;
    uint32_t seen[GW_RANS_SYMBOLS] = {0};
    uint16_t freq[GW_RANS_SYMBOLS];
    gw_rans_scale(seen, freq);
    for (unsigned i = 0; i < GW_RANS_SYMBOLS; i++)
        assert_int_equal(freq[i], 256);
    seen[5] = UINT32_MAX;
    gw_rans_scale(seen, freq);
    assert_int_equal(freq[5], 4081);
    assert_int_equal(freq[0], 1);
    for (unsigned i = 0; i < GW_RANS_SYMBOLS; i++)
        seen[i] = UINT32_MAX - i;
    gw_rans_scale(seen, freq);
    make(&t, freq);
    for (int off = -1; off <= 1; off += 2) {
        freq[3] = (uint16_t)(freq[3] + off);
        assert_int_equal(gw_rans_make(&t, freq), 0);
        freq[3] = (uint16_t)(freq[3] - off);
    }
    freq[4] += freq[2], freq[2] = 0;
    assert_int_equal(gw_rans_make(&t, freq), 0);
}

/* ---- blocks ---- */

/* bf16 with exponents that fall off below 127, and one far away in each 128. */
static void gradients(size_t n)
{
    for (size_t i = 0; i + 2 <= n; i += 2) {
        uint32_t e = 127 - (uint32_t)__builtin_ctz(chance() | 1u << 9);
        gw_put16(src + i, (uint16_t)((chance() & 0x807f) | (chance() % 128 == 0 ? 7u : e) << 7));
    }
}

/* Two blocks; zero, raw and window groups; a short group and a tail. */
static void test_kinds(void **s)
{
    (void)s;
    enum { LEN = 32768 + 2 * 256 * 3 + 55 };
    size_t len;
    uint32_t count;
    gradients(LEN);
    memset(src, 0, 512);
    for (size_t i = 512; i < 1024; i++)
        src[i] = (uint8_t)chance();
    assert_int_equal(encode(GW_VIEW_BF16, LEN, LEN, &len, &count), GW_OK);
    assert_int_equal(count, 64 + 4);
    assert_int_equal(gw_get16(coded + 32) >> 13, GW_VIEW_BF16);
    assert_int_equal(coded[48 + GW_BLOCK_KINDS], 2 << 6 | 2 << 4 | 1 << 2 | 0);
    assert_int_equal(decode(len, GW_VIEW_BF16, count, LEN), GW_OK);
    assert_memory_equal(out, src, LEN);
}

/* Groups that the sample does not see hold the codes that it thinks rare: those blocks are stored,
 * and there is room in the scratch for all their words. */
static void test_stored(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < MOST; i += 2) {
        unsigned seen = i / 512 % 16 == 0, e = seen || i >= MOST / 2 ? 127 : 127 - chance() % 14;
        gw_put16(src + i, (uint16_t)((chance() & 0x807f) | e << 7));
    }
    assert_int_equal(encode(GW_VIEW_BF16, MOST, MOST, &len, &count), GW_OK);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(gw_get16(coded + 32 + 2 * i), 8191);
    assert_int_equal(count, 16 * 64);
    assert_int_equal(decode(len, GW_VIEW_BF16, count, MOST), GW_OK);
    assert_memory_equal(out, src, MOST);
}

static void test_f32_that_is_not_bf16(void **s)
{
    (void)s;
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < 131072; i += 4)
        gw_put32(src + i, (chance() & 0x807f0000) | 0x3f000000);
    src[65536] = 1;
    assert_int_equal(encode(GW_VIEW_F32_BF16, 131072, 131072, &len, &count), GW_OK);
    assert_int_equal(gw_get16(coded + 32) >> 13, GW_VIEW_F32_BF16);
    assert_int_equal(gw_get16(coded + 34) >> 13, GW_VIEW_F32);
    assert_int_equal(decode(len, GW_VIEW_F32_BF16, count, 131072), GW_OK);
    assert_memory_equal(out, src, 131072);
}

static void test_raw_leaves_dst_alone(void **s)
{
    (void)s;
    size_t len = 3;
    uint32_t count = 4;
    for (size_t i = 0; i < MOST; i++)
        src[i] = (uint8_t)chance();
    assert_int_equal(encode(GW_VIEW_BF16, MOST, sizeof(coded), &len, &count), GW_RAW);
    assert_int_equal(len, 3);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < sizeof(coded); i++)
        assert_int_equal(coded[i], 0xee);
}

/* The sample was wrong about all of it: never more than the chunk and 2 bytes per tile. */
static void test_growth(void **s)
{
    (void)s;
    struct gw_coding c = {.size = sizeof(c), .view = GW_VIEW_BF16};
    size_t len;
    uint32_t count;
    for (size_t i = 0; i < MOST; i++)
        src[i] = (uint8_t)chance();
    for (size_t i = 0; i < MOST; i += MOST / 64)
        memset(src + i, 0, 64);
    assert_int_equal(entropy->bound(MOST, &c), MOST + 128);
    assert_int_equal(encode(GW_VIEW_BF16, MOST, sizeof(coded), &len, &count), GW_OK);
    assert_true(len <= MOST + 128);
    assert_int_equal(decode(len, GW_VIEW_BF16, count, MOST), GW_OK);
    assert_memory_equal(out, src, MOST);
}

/* ---- what decode refuses ---- */

enum { SMALL = 2048 };
static size_t payload;
static uint32_t groups;

static gw_err bent(size_t at, uint8_t value)
{
    uint8_t was = coded[at];
    coded[at] = value;
    gw_err err = decode(payload, GW_VIEW_BF16, groups, SMALL);
    coded[at] = was;
    return err;
}

static void test_refusals(void **s)
{
    (void)s;
    enum { BLOCK = 48, WORDS = BLOCK + GW_BLOCK_COUNTS, KINDS = BLOCK + GW_BLOCK_KINDS };
    gradients(SMALL);
    assert_int_equal(encode(GW_VIEW_BF16, SMALL, SMALL, &payload, &groups), GW_OK);
    size_t escapes = gw_get16(coded + WORDS + 2), tops = payload - escapes - 4;
    assert_true(escapes > 1);
    assert_int_equal(bent(0, coded[0]), GW_OK);
    assert_int_equal(bent(payload - 1, 9), GW_OK);                       /* an escape may be any exponent */
    assert_int_equal(bent(0, coded[0] ^ 1), GW_E_CORRUPT);               /* the sum of frequencies */
    assert_int_equal(bent(33, 0x80 | coded[33]), GW_E_CORRUPT);          /* view 5 */
    assert_int_equal(bent(33, 0x40 | (coded[33] & 0x1f)), GW_E_CORRUPT); /* not as wide */
    assert_int_equal(bent(32, coded[32] + 1), GW_E_CORRUPT);             /* length */
    assert_int_equal(bent(32, coded[32] - 1), GW_E_CORRUPT);
    assert_int_equal(bent(34, 1), GW_E_CORRUPT);           /* padding of the table */
    assert_int_equal(bent(BLOCK + 3, 0x80), GW_E_CORRUPT); /* a state too large */
    for (size_t i = 0; i < 4 * GW_RANS_LANES; i++)
        assert_int_equal(bent(BLOCK + i, coded[BLOCK + i] ^ 1), GW_E_CORRUPT);
    for (size_t i = WORDS; i < WORDS + 4; i++) /* how many words and escapes */
        assert_int_equal(bent(i, coded[i] ^ 1), GW_E_CORRUPT);
    assert_int_equal(bent(KINDS, coded[KINDS] ^ 1), GW_E_CORRUPT); /* kind 3 */
    assert_int_equal(bent(KINDS, coded[KINDS] ^ 3), GW_E_CORRUPT); /* raw */
    assert_int_equal(bent(KINDS + 1, 1), GW_E_CORRUPT);            /* a fifth group */
    for (size_t i = KINDS + 4 + 4 * 256; i < tops; i++)            /* every word */
        assert_int_equal(bent(i, coded[i] ^ 1), GW_E_CORRUPT);
    for (size_t n = 0; n < payload; n++)
        assert_int_equal(decode(n, GW_VIEW_BF16, groups, SMALL), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_BF16, groups + 1, SMALL), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_COUNT, groups, SMALL), GW_E_CORRUPT);
    assert_int_equal(decode(payload, GW_VIEW_BF16, groups, SMALL + 2), GW_E_CORRUPT);
    struct gw_frame f = {.codec = GW_CODEC_ENTROPY, .view = GW_VIEW_BF16, .count = groups, .param = 1};
    f.raw_bytes = SMALL, f.wire_bytes = (uint32_t)payload;
    assert_int_equal(entropy->decode(&f, coded, out, SMALL, ws), GW_E_CORRUPT);
}

/* A peer that writes while we decode: head and kinds are another's by the time the codes are there. */
static void rewriting_decode(const struct gw_rans *t, struct gw_rans_run *run, size_t runs)
{
    memset(coded, 0xff, 48 + GW_BLOCK_KINDS + 4);
    gw_kern_rans_scalar.decode(t, run, runs);
}

static void test_bytes_that_change(void **s)
{
    (void)s;
    struct gw_kern_rans rans = gw_kern_rans_scalar;
    struct gw_kern kern = gw_kern_scalar;
    rans.decode = rewriting_decode, kern.rans = &rans;
    gradients(SMALL);
    assert_int_equal(encode(GW_VIEW_BF16, SMALL, SMALL, &payload, &groups), GW_OK);
    gw_kern_force(&kern);
    assert_int_equal(decode(payload, GW_VIEW_BF16, groups, SMALL), GW_OK);
    assert_memory_equal(out, src, SMALL);
    gw_kern_force(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, start)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_by_hand), TEST(test_states_agree), TEST(test_escapes), TEST(test_frequencies),
        TEST(test_kinds), TEST(test_stored), TEST(test_f32_that_is_not_bf16), TEST(test_raw_leaves_dst_alone),
        TEST(test_growth), TEST(test_refusals), TEST(test_bytes_that_change),
    };
    return cmocka_run_group_tests_name("entropy", tests, NULL, NULL);
}
