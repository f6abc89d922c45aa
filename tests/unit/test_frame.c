/* test_frame.c - the head's bytes, each refusal, and what gw_frame_encode and gw_frame_decode add
 * to a codec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <gradwire/frame.h>

static _Alignas(64) uint8_t ws[2 << 20];

static const struct gw_frame head = {.codec = 1,
                                     .view = 2,
                                     .flags = GW_FRAME_CHECK,
                                     .header_bytes = GW_FRAME_BYTES,
                                     .raw_bytes = 0x00112233,
                                     .wire_bytes = 4,
                                     .count = 0x8899aabb,
                                     .param = 0xccddeeff,
                                     .check = 0x0123456789abcdef};
static const uint8_t head_bytes[GW_FRAME_BYTES] = {
    0x47, 0x57, 0x01, 0x01, 0x02, 0x01, 0x20, 0x00, 0x33, 0x22, 0x11, 0x00, 0x04, 0x00, 0x00, 0x00,
    0xbb, 0xaa, 0x99, 0x88, 0xff, 0xee, 0xdd, 0xcc, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};

static void test_bytes(void **s)
{
    (void)s;
    uint8_t out[GW_FRAME_BYTES + 4] = {0};
    struct gw_frame back;
    gw_frame_write(out, &head);
    assert_memory_equal(out, head_bytes, sizeof(head_bytes));
    assert_int_equal(gw_frame_read(out, sizeof(out), &back), GW_OK);
    assert_int_equal(back.codec, head.codec);
    assert_int_equal(back.view, head.view);
    assert_int_equal(back.flags, head.flags);
    assert_int_equal(back.header_bytes, head.header_bytes);
    assert_int_equal(back.raw_bytes, head.raw_bytes);
    assert_int_equal(back.wire_bytes, head.wire_bytes);
    assert_int_equal(back.count, head.count);
    assert_int_equal(back.param, head.param);
    assert_true(back.check == head.check);
}

static void refused(size_t at, uint8_t value, size_t len)
{
    uint8_t in[GW_FRAME_BYTES + 4] = {0};
    struct gw_frame f = {.codec = 99};
    memcpy(in, head_bytes, sizeof(head_bytes));
    in[at] = value;
    assert_int_equal(gw_frame_read(in, len, &f), GW_E_CORRUPT);
    assert_int_equal(f.codec, 99);
}

static void test_refusals(void **s)
{
    (void)s;
    enum { LEN = GW_FRAME_BYTES + 4 };
    refused(0, 0x48, LEN); /* magic */
    refused(1, 0x58, LEN);
    refused(2, 0, LEN); /* version */
    refused(2, 2, LEN);
    refused(5, 3, LEN);  /* unknown flag */
    refused(5, 0, LEN);  /* a checksum that no flag announces */
    refused(6, 31, LEN); /* header length */
    refused(7, 1, LEN);
    refused(11, 0x80, LEN); /* raw length beyond the largest chunk */
    refused(12, 5, LEN);    /* payload longer than what came */
    refused(15, 0xff, LEN);
    refused(3, 1, GW_FRAME_BYTES - 1); /* a head cut short: byte 3 is as it was */
    refused(3, 1, 0);
}

/* 32 KiB of f32: 0.5, 1.0, 2.0 in turn. */
static void ramp(uint8_t *p, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i += 4)
        gw_put32(p + i, 0x3f000000 + (uint32_t)(i / 4 % 3 << 23));
}

static const struct gw_coding f32 = {.size = sizeof(f32), .view = GW_VIEW_F32};

static void test_round_trip(void **s)
{
    (void)s;
    static uint8_t src[32768], coded[32768], out[32768];
    size_t len = 0;
    ramp(src, sizeof(src));
    for (int check = 0; check < 2; check++) {
        assert_int_equal(gw_frame_encode(gw_codec_by_name("group"), &f32, check, src, sizeof(src),
                                         coded, sizeof(coded), &len, ws),
                         GW_OK);
        assert_true(len < sizeof(src));
        assert_int_equal(coded[5], check ? GW_FRAME_CHECK : 0);
        memset(out, 1, sizeof(out));
        assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out), ws), GW_OK);
        assert_memory_equal(out, src, sizeof(src));
    }
}

static void test_decode_refusals(void **s)
{
    (void)s;
    static uint8_t src[32768], coded[32768], out[32768];
    size_t len = 0;
    ramp(src, sizeof(src));
    assert_int_equal(gw_frame_encode(gw_codec_by_id(GW_CODEC_GROUP), &f32, 1, src, sizeof(src),
                                     coded, sizeof(coded), &len, ws),
                     GW_OK);
    assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out) - 1, ws), GW_E_CORRUPT);
    assert_int_equal(gw_frame_decode(coded, len - 1, out, sizeof(out), ws), GW_E_CORRUPT);
    coded[24] ^= 1;
    assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out), ws), GW_E_CHECK);
    coded[24] ^= 1, coded[20] = 1;
    assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out), ws), GW_E_CORRUPT);
    coded[20] = 0, coded[3] = 63;
    assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out), ws), GW_E_NOSYS);
    coded[3] = GW_CODEC_RAW; /* as raw bytes the lengths cannot agree */
    assert_int_equal(gw_frame_decode(coded, len, out, sizeof(out), ws), GW_E_CORRUPT);
}

static void test_raw_answers(void **s)
{
    (void)s;
    static uint8_t src[32768], coded[32768];
    size_t len = 7;
    ramp(src, sizeof(src));
    const struct gw_codec *group = gw_codec_by_id(GW_CODEC_GROUP),
                          *raw = gw_codec_by_id(GW_CODEC_RAW);
    assert_int_equal(
        gw_frame_encode(raw, &f32, 0, src, sizeof(src), coded, sizeof(coded), &len, ws), GW_RAW);
    for (size_t cap = 0; cap < 64; cap++)
        assert_int_equal(gw_frame_encode(group, &f32, 1, src, sizeof(src), coded, cap, &len, ws),
                         GW_RAW);
    assert_int_equal(gw_frame_encode(group, &f32, 0, src, 0, coded, sizeof(coded), &len, ws),
                     GW_RAW);
    assert_int_equal(len, 7);
    assert_int_equal(gw_frame_encode(group, &f32, 0, src, (size_t)GW_CHUNK_MAX + 1, coded,
                                     sizeof(coded), &len, ws),
                     GW_E_ARG);
}

/* The raw codec as a frame, written by hand. */
/* What a lossless codec does not read stands in no frame: a caller's struct may end before it. */
static void test_no_parameter(void **s)
{
    (void)s;
    static uint8_t src[4096], frame[8192], out[4096];
    const struct gw_codec *codec;
    struct gw_coding c = {.size = offsetof(struct gw_coding, param), .view = GW_VIEW_F32, .param = 5};
    struct gw_frame f;
    size_t len, n = 0;
    for (size_t i = 0; i < 64; i += 4)
        gw_put32(src + 16 * i, 0x3f800000);
    for (size_t i = 0; (codec = gw_codec_at(i)) != NULL; i++) {
        if (codec->traits & (GW_TRAIT_LOSSY | GW_TRAIT_STORED))
            continue;
        assert_int_equal(gw_frame_encode(codec, &c, 1, src, sizeof(src), frame, sizeof(frame), &len, ws), GW_OK);
        assert_int_equal(gw_frame_read(frame, len, &f), GW_OK);
        assert_int_equal(f.param, 0);
        assert_int_equal(gw_frame_decode(frame, len, out, sizeof(out), ws), GW_OK);
        assert_memory_equal(out, src, sizeof(src));
        n++;
    }
    assert_true(n >= 4);
    assert_int_equal(gw_codec_left_out(NULL), 0);
}

static void test_raw_frame(void **s)
{
    (void)s;
    uint8_t in[GW_FRAME_BYTES + 5] = {0}, out[5];
    struct gw_frame f = {
        .codec = GW_CODEC_RAW, .header_bytes = GW_FRAME_BYTES, .raw_bytes = 5, .wire_bytes = 5};
    gw_frame_write(in, &f);
    memcpy(in + GW_FRAME_BYTES, "hello", 5);
    assert_int_equal(gw_frame_decode(in, sizeof(in), out, 5, ws), GW_OK);
    assert_memory_equal(out, "hello", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_decode_refusals),
        cmocka_unit_test(test_raw_answers), cmocka_unit_test(test_raw_frame),
        cmocka_unit_test(test_no_parameter),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
