/* test_sparse_format.c - each thing that FORMAT.md says to refuse of a sparse frame, beside the same frame without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <gradwire/sparse.h>
#include <kern.h>
#include <masks.h>

enum { HEADS = GW_FRAME_BYTES + 16, MOST = 600 };

static uint32_t set_index[MOST];
static float set_value[MOST];

struct bytes {
    size_t n;
    const char *at;
};
#define BYTES(text) {sizeof(text) - 1, text}

static const struct refusal {
    const char *why;
    unsigned index, value;
    uint32_t count, space;
    struct bytes good, bad; /* the index part, or the values where those are judged */
    int of_values;
} refusals[] = {
    {"bitmap: bits beyond the space", 0, 3, 2, 10, BYTES("\x01\x02"), BYTES("\x01\x04"), 0},
    {"bitmap: too many ones", 0, 3, 2, 10, BYTES("\x01\x02"), BYTES("\x03\x02"), 0},
    {"bitmap: too few ones", 0, 3, 2, 10, BYTES("\x01\x02"), BYTES("\x01\0"), 0},
    {"bitmap: too long", 0, 3, 2, 10, BYTES("\x01\x02"), BYTES("\x01\x02\0"), 0},
    {"u16: beyond a short block", 1, 3, 2, 300, BYTES("\x02\x05\0\x2b\x01"), BYTES("\x02\x05\0\x2c\x01"), 0},
    {"u16: twice the same", 1, 3, 2, 300, BYTES("\x02\x05\0\x06\0"), BYTES("\x02\x05\0\x05\0"), 0},
    {"u16: descends", 1, 3, 2, 300, BYTES("\x02\x05\0\x06\0"), BYTES("\x02\x05\0\x04\0"), 0},
    {"u16: an escape that is none", 1, 3, 2, 300, BYTES("\x02\x05\0\x06\0"), BYTES("\xff\x02\0\0\0\x05\0\x06\0"), 0},
    {"u16: more than the block has", 1, 3, 2, 2, BYTES("\x02\0\0\x01\0"), BYTES("\x03\0\0\x01\0\x02\0"), 0},
    {"u16: more than the frame says", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES("\x03\0\0\x01\0\x02\0"), 0},
    {"u16: fewer than the frame says", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES("\x01\0\0"), 0},
    {"u16: bytes after the last body", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES("\x02\0\0\x01\0\0"), 0},
    {"u16: body cut short", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES("\x02\0\0\x01"), 0},
    {"u16: no counts", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES(""), 0},
    {"u16: no escape", 1, 3, 2, 9, BYTES("\x02\0\0\x01\0"), BYTES("\xff\0\0"), 0},
    /* 2 of 19: 3 low bits each, then 2 + 18 / 8 = 4 bits */
    {"ef: beyond a short block", 3, 3, 2, 19, BYTES("\x02\x51\x02"), BYTES("\x02\x59\x02"), 0},
    {"ef: descends", 3, 3, 2, 19, BYTES("\x02\xd1\0"), BYTES("\x02\xca\0"), 0},
    {"ef: twice the same", 3, 3, 2, 19, BYTES("\x02\xd1\0"), BYTES("\x02\xc9\0"), 0},
    {"ef: too many ones", 3, 3, 2, 19, BYTES("\x02\xd1\0"), BYTES("\x02\xd1\x01"), 0},
    {"ef: too few ones", 3, 3, 2, 19, BYTES("\x02\xd1\0"), BYTES("\x02\x51\0"), 0},
    {"ef: bits beyond the string", 3, 3, 2, 19, BYTES("\x02\xd1\0"), BYTES("\x02\xd1\x04"), 0},
    {"ef: map with bits beyond", 3, 3, 3, 6, BYTES("\x03\x07"), BYTES("\x03\x47"), 0},
    {"ef: map with another number of ones", 3, 3, 3, 6, BYTES("\x03\x07"), BYTES("\x03\x0f"), 0},
    {"ef: more than the block has", 3, 3, 3, 4098, BYTES("\x01\x02\x05\x10"), BYTES("\0\x03"), 0},
    {"runs: none", 2, 3, 256, 1000, BYTES("\x01\0\0\0\x01\0\0\0"), BYTES("\x01\0\0\0\0\0\0\0"), 0},
    {"runs: beyond the space", 2, 3, 232, 1000, BYTES("\x03\0\0\0\x01\0\0\0"), BYTES("\x03\0\0\0\x02\0\0\0"), 0},
    {"runs: after the space", 2, 3, 232, 1000, BYTES("\x03\0\0\0\x01\0\0\0"), BYTES("\x04\0\0\0\x01\0\0\0"), 0},
    {"runs: two that touch", 2, 3, 512, 1000, BYTES("\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0"),
     BYTES("\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0"), 0},
    {"runs: half a run", 2, 3, 256, 1000, BYTES("\x01\0\0\0\x01\0\0\0"), BYTES("\x01\0\0\0\x01\0\0"), 0},
    {"seed: bytes of index", 6, 3, 5, 1000, BYTES(""), BYTES("\0"), 0},
    {"f32: cut short", 6, 0, 1, 10, BYTES("\0\0\0\0"), BYTES("\0\0\0"), 1},
    {"f32: more than asked for", 6, 0, 1, 10, BYTES("\0\0\0\0"), BYTES("\0\0\0\0\0"), 1},
    {"bf16: cut short", 6, 1, 1, 10, BYTES("\0\0"), BYTES("\0"), 1},
    {"int8: no scale", 6, 2, 1, 10, BYTES("\0\0\0\0"), BYTES("\0\0\0"), 1},
    {"int8: -128", 6, 2, 1, 10, BYTES("\0\0\x80\x3f\x81"), BYTES("\0\0\x80\x3f\x80"), 1},
    {"int8: scale too small", 6, 2, 1, 10, BYTES("\x04\x02\x01\x0a\x01"), BYTES("\x03\x02\x01\x0a\x01"), 1},
    {"int8: scale too large", 6, 2, 1, 10, BYTES("\x03\x02\x01\x7c\x01"), BYTES("\x04\x02\x01\x7c\x01"), 1},
    {"int8: negative scale", 6, 2, 1, 10, BYTES("\0\0\x80\x3f\x01"), BYTES("\0\0\x80\xbf\x01"), 1},
    {"int8: another NaN", 6, 2, 1, 10, BYTES("\0\0\xc0\x7f\1\2\3\4"), BYTES("\1\0\xc0\x7f\1\2\3\4"), 1},
    {"int8: codes of a block of zeros", 6, 2, 1, 10, BYTES("\0\0\0\0"), BYTES("\0\0\0\0\0"), 1},
    {"int8: no codes", 6, 2, 1, 10, BYTES("\0\0\x80\x3f\x01"), BYTES("\0\0\x80\x3f"), 1},
    {"mean: tiny", 6, 3, 1, 10, BYTES("\0\0\x80\x0d"), BYTES("\xff\xff\x7f\x0d"), 1},
    {"mean: -0", 6, 3, 1, 10, BYTES("\0\0\0\0"), BYTES("\0\0\0\x80"), 1},
    {"mean: another NaN", 6, 3, 1, 10, BYTES("\0\0\xc0\x7f"), BYTES("\0\0\xc0\xff"), 1},
    {"mean: of nothing", 6, 3, 0, 10, BYTES(""), BYTES("\0\0\0\0"), 1},
};

/* Frame, payload head, index part, zeros to 16, values; answers its length. */
static size_t put_together(const struct refusal *r, const struct bytes *part, uint8_t *out)
{
    struct gw_frame f = {.codec = GW_CODEC_SPARSE, .view = GW_VIEW_F32, .header_bytes = GW_FRAME_BYTES, .count = r->count};
    size_t index = r->of_values ? 0 : part->n, values = r->of_values ? part->n : 4, at = HEADS + (index + 15) / 16 * 16;
    memset(out, 0, at + values);
    f.wire_bytes = (uint32_t)(at + values - GW_FRAME_BYTES), f.param = r->index | r->value << 8;
    gw_frame_write(out, &f);
    gw_put32(out + GW_FRAME_BYTES, r->space - 1), gw_put32(out + GW_FRAME_BYTES + 4, (uint32_t)index);
    memcpy(r->of_values ? out + at : out + HEADS, part->at, part->n);
    return at + values;
}

static gw_err refusal_decode(const struct refusal *r, const struct bytes *part)
{
    uint8_t *out = fence_new(F_CODED, 200, 1);
    size_t len = put_together(r, part, out);
    uint32_t n;
    uint8_t *at = fence_end(F_CODED, len); /* nothing behind it to be looked at */
    memmove(at, out, len);
    return gw_sparse_decode(at, len, r->space, set_index, set_value, r->count, &n);
}

static void test_format(void **s)
{
    (void)s;
    for (size_t i = 0; i < GW_LEN(refusals); i++)
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_force(gw_kern_at(k));
            if (refusal_decode(&refusals[i], &refusals[i].good) != GW_OK ||
                refusal_decode(&refusals[i], &refusals[i].bad) != GW_E_CORRUPT)
                fail_msg("%s: %s", gw_kern_name(), refusals[i].why);
        }
    /* padding */
    uint8_t out[200];
    uint32_t n;
    size_t len = put_together(&refusals[0], &refusals[0].good, out);
    for (size_t at = HEADS + 2; at < HEADS + 16; at++) {
        out[at] = 1;
        assert_int_equal(gw_sparse_decode(out, len, 10, set_index, set_value, 2, &n), GW_E_CORRUPT);
        out[at] = 0;
    }
    assert_int_equal(gw_sparse_decode(out, len, 10, set_index, set_value, 2, &n), GW_OK);
}

/* Codes that no encoder writes, in the lanes of a vector and behind them. */
static void test_bf16_codes(void **s)
{
    (void)s;
    static const uint16_t code[] = {0x0001, 0x8001, 0x807f, 0x0080, 0x7f80, 0xff80, 0x7f81, 0xffff, 0x0001, 0x8001, 0x7fff,
                                    0x3f80};
    static const uint32_t value[] = {0,          0x80000000, 0x80000000, 0x00800000, 0x7f800000, 0xff800000,
                                     0x7fc00000, 0x7fc00000, 0,          0x80000000, 0x7fc00000, 0x3f800000};
    struct gw_sparse how = {.size = sizeof(how), .index = GW_INDEX_SEED, .value = GW_VALUE_BF16, .space = 100, .seed = 1};
    uint8_t out[200];
    size_t len = 0;
    uint32_t n;
    assert_int_equal(gw_sparse_encode(&how, NULL, set_value, GW_LEN(code), out, sizeof(out), &len), GW_OK);
    for (size_t i = 0; i < GW_LEN(code); i++)
        gw_put16(out + HEADS + 2 * i, code[i]);
    for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
        if (!gw_kern_at(k)->usable())
            continue;
        gw_kern_force(gw_kern_at(k));
        assert_int_equal(gw_sparse_decode(out, len, 100, set_index, set_value, GW_LEN(code), &n), GW_OK);
        assert_memory_equal(set_value, value, sizeof(value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_format), cmocka_unit_test(test_bf16_codes)};
    return cmocka_run_group_tests_name("sparse_format", tests, fence_setup, fence_teardown);
}
