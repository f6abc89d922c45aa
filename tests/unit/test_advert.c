/* test_advert.c - offer, grant, landed and end, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <advert.h>
#include <base/bytes.h>

static const uint8_t golden_offer[2 * GW_LINE] = {
    /* line 0: kind 1, 1 buffer, 2 pieces, hint, piece bytes 0x00020010 */
    1, 1, 2, 1, 0x10, 0, 2, 0,
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* piece 0 */
    0x00, 0xf0, 0xff, 0xff, 0x7f, 0, 0, 0,          /* piece 1 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x0d, 0xf0, 0xad, 0x8b, 0, 0, 0, 0, /* piece keys */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    7, 0, 0, 0x80, /* number */
    /* line 1: a buffer, none, the sum, the number */
    1, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0x40, 9, 0, 0, 0, 0xaa, 0, 0, 0, 0xbb, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    0x46, 0x33, 0x82, 0x23,
    7, 0, 0, 0x80};

static struct gw_offer offer_small(void)
{
    return (struct gw_offer){
        .number = 0x80000007,
        .buffers = 1,
        .pieces = 2,
        .hint = GW_HINT_SIMPLE_OK,
        .piece_bytes = 0x20010,
        .piece_addr = {0x1122334455667788, 0x7ffffff000},
        .piece_key = {0x8badf00d, 0},
        .buf = {{0xffff000000000001, 1u << 30, 9, {0xaa, 0xbb}}},
    };
}

static struct gw_offer offer_large(void)
{
    struct gw_offer o = {.number = 1, .buffers = 8, .pieces = 4, .piece_bytes = 17};

    for (uint32_t i = 0; i < 4; i++)
        o.piece_addr[i] = 1000 + i;
    for (uint32_t i = 0; i < 8; i++)
        o.buf[i] = (struct gw_offer_buf){i << 20, i * 100, i, {i, ~i}};
    return o;
}

/* A struct's padding is nobody's: the values are compared. */
static void same_offer(const struct gw_offer *a, const struct gw_offer *b)
{
    assert_true(a->number == b->number && a->buffers == b->buffers && a->pieces == b->pieces && a->hint == b->hint);
    assert_int_equal(a->piece_bytes, b->piece_bytes);
    assert_memory_equal(a->piece_addr, b->piece_addr, sizeof(a->piece_addr));
    assert_memory_equal(a->piece_key, b->piece_key, sizeof(a->piece_key));
    for (int i = 0; i < a->buffers; i++)
        assert_memory_equal(&a->buf[i], &b->buf[i], sizeof(a->buf[i])); /* has none */
}

static void offer_is_drawn_so(void **state)
{
    struct gw_offer o = offer_small(), got;
    uint8_t out[GW_OFFER_MAX];

    (void)state;
    assert_int_equal(gw_offer_write(out, &o), sizeof(golden_offer));
    assert_memory_equal(out, golden_offer, sizeof(golden_offer));
    assert_int_equal(gw_offer_read(golden_offer, sizeof(golden_offer), &got), GW_OK);
    same_offer(&got, &o);
}

static void offer_comes_back_as_it_was(void **state)
{
    struct gw_offer o = offer_large(), got;
    uint8_t out[GW_OFFER_MAX];

    (void)state;
    for (uint8_t buffers = 1; buffers <= 8; buffers++) {
        uint32_t len;

        o.buffers = buffers;
        if (buffers < 8)
            memset(&o.buf[buffers], 0, sizeof(*o.buf) * (8u - buffers));
        len = gw_offer_write(out, &o);
        assert_int_equal(len, GW_LINE * (1 + (buffers + 1) / 2));
        assert_int_equal(gw_offer_read(out, len, &got), GW_OK);
        same_offer(&got, &o);
        o = offer_large();
    }
}

static void offer_without_pieces_names_none(void **state)
{
    struct gw_offer o = offer_small(), got;
    uint8_t out[GW_OFFER_MAX];
    uint32_t len;

    (void)state;
    o.pieces = 0;
    len = gw_offer_write(out, &o);
    assert_int_equal(gw_offer_read(out, len, &got), GW_OK);
    assert_int_equal(got.piece_bytes, 0);
    assert_int_equal(got.piece_key[0], 0);
    assert_true(got.piece_addr[0] == 0);
}

/* A line that is half of one offer and half of another, as memcpy and RDMA can tear them, is never taken. */
static void offer_with_any_bit_changed_is_refused(void **state)
{
    struct gw_offer o = offer_large(), got = {.number = 99};
    uint8_t out[GW_OFFER_MAX];
    uint32_t len = gw_offer_write(out, &o);

    (void)state;
    for (uint32_t bit = 0; bit < 8 * len; bit++) {
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(gw_offer_read(out, len, &got), GW_E_PROTO);
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t n = 0; n <= GW_OFFER_MAX; n++)
        if (n != len)
            assert_int_equal(gw_offer_read(out, n, &got), GW_E_PROTO);
    assert_int_equal(got.number, 99);
}

static void reseal(uint8_t *lines, uint32_t len)
{
    gw_put32(lines + len - 8, XXH32(lines, len - 8, gw_get32(lines + len - 4)));
}

/* The sum fits, and yet the writer would not have written it. */
static void offer_field(uint32_t at, uint8_t value)
{
    uint8_t lines[sizeof(golden_offer)];
    struct gw_offer got;

    memcpy(lines, golden_offer, sizeof(lines));
    assert_int_not_equal(lines[at], value);
    lines[at] = value;
    reseal(lines, sizeof(lines));
    assert_int_equal(gw_offer_read(lines, sizeof(lines), &got), GW_E_PROTO);
}

static void offer_with_a_wrong_field_is_refused(void **state)
{
    (void)state;
    offer_field(0, 2);                /* kind */
    offer_field(1, 0);                /* buffers */
    offer_field(1, 3);                /* ... more than the lines hold */
    offer_field(1, 9);
    offer_field(2, 5);                /* pieces */
    offer_field(2, 1);                /* ... but two addresses */
    offer_field(3, 4);                /* hint */
    offer_field(6, 0);                /* piece bytes: room for the head only */
    offer_field(7, 0x80);             /* ... too many */
    offer_field(24, 1);               /* a third address */
    offer_field(48, 1);               /* spare of line 0 */
    offer_field(60, 8);               /* one line's number */
    offer_field(GW_LINE + 11, 0x41);  /* capacity above 1 GiB */
    offer_field(GW_LINE + 24, 1);     /* a second buffer */
    offer_field(GW_LINE + 48, 1);     /* spare of the last line */
}

static void offer_whose_buffer_wraps_is_refused(void **state)
{
    struct gw_offer o = offer_small(), got;
    uint8_t out[GW_OFFER_MAX];
    uint32_t len;

    (void)state;
    o.buf[0].addr = UINT64_MAX - 9;
    o.buf[0].cap = 9;
    len = gw_offer_write(out, &o);
    assert_int_equal(gw_offer_read(out, len, &got), GW_OK);
    o.buf[0].cap = 10;
    len = gw_offer_write(out, &o);
    assert_int_equal(gw_offer_read(out, len, &got), GW_E_PROTO);
    o = offer_small();
    o.piece_addr[1] = UINT64_MAX - 5;
    len = gw_offer_write(out, &o);
    assert_int_equal(gw_offer_read(out, len, &got), GW_E_PROTO);
}

static void grant_is_drawn_so(void **state)
{
    static const uint8_t golden[GW_GRANT_BYTES] = {2, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 1, 0, 0, 0,
                                                   2, 0, 0, 0, 0,    1,    0,    0,    0, 0, 0, 0x80};
    struct gw_grant g = {0x11223344, {1, 2, 256, 1u << 31}}, got;
    uint8_t out[GW_GRANT_BYTES + 1] = {0};

    (void)state;
    gw_grant_write(out, &g);
    assert_memory_equal(out, golden, sizeof(golden));
    assert_int_equal(gw_grant_read(out, GW_GRANT_BYTES, &got), GW_OK);
    assert_memory_equal(&got, &g, sizeof(g));
    assert_int_equal(gw_grant_read(out, GW_GRANT_BYTES - 1, &got), GW_E_PROTO);
    assert_int_equal(gw_grant_read(out, GW_GRANT_BYTES + 1, &got), GW_E_PROTO);
    for (int i = 0; i < 4; i++) {
        out[i] ^= 0x10;
        assert_int_equal(gw_grant_read(out, GW_GRANT_BYTES, &got), GW_E_PROTO);
        out[i] ^= 0x10;
    }
}

static void landed_is_drawn_so(void **state)
{
    static const uint8_t golden[GW_LANDED_BYTES] = {3, 0, 0, 0, 4, 3, 2,    1,    0x88, 0x77, 0x66, 0x55,
                                                    4, 3, 2, 1, 9, 0, 0,    0,    0,    0,    0,    0xff};
    struct gw_landed l = {0x0102030455667788, 0xff00000000000009, 0x01020304}, got;
    uint8_t out[GW_LANDED_BYTES + 1] = {0};

    (void)state;
    gw_landed_write(out, &l);
    assert_memory_equal(out, golden, sizeof(golden));
    assert_int_equal(gw_landed_read(out, GW_LANDED_BYTES, &got), GW_OK);
    assert_true(got.bytes == l.bytes && got.puts == l.puts);
    assert_true(got.decode_ns_kib == l.decode_ns_kib);
    assert_int_equal(gw_landed_read(out, GW_LANDED_BYTES - 1, &got), GW_E_PROTO);
    assert_int_equal(gw_landed_read(out, GW_LANDED_BYTES + 1, &got), GW_E_PROTO);
    for (int i = 0; i < 4; i++) { /* kind, spare */
        out[i] ^= 0x10;
        assert_int_equal(gw_landed_read(out, GW_LANDED_BYTES, &got), GW_E_PROTO);
        out[i] ^= 0x10;
    }
}

static const uint8_t golden_end[GW_END_BYTES] = {
    0x44, 0x33, 0x22, 0x11, 7, 4, 3, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x20,
    5, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};

static void end_is_drawn_so(void **state)
{
    struct gw_end e = {0x11223344, 7, 4, 3, 0, 1u << 30, 1u << 29, 5, 0x0102030405060708}, got;
    uint8_t out[GW_END_BYTES + 1] = {0};

    (void)state;
    gw_end_write(out, &e);
    assert_memory_equal(out, golden_end, sizeof(golden_end));
    assert_int_equal(gw_end_read(out, GW_END_BYTES, &got), GW_OK);
    gw_end_write(out, &got);
    assert_memory_equal(out, golden_end, sizeof(golden_end));
    assert_int_equal(gw_end_read(out, GW_END_BYTES - 1, &got), GW_E_PROTO);
    assert_int_equal(gw_end_read(out, GW_END_BYTES + 1, &got), GW_E_PROTO);
}

static void end_with_a_wrong_field_is_refused(void **state)
{
    static const struct {
        uint8_t at, value;
    } bad[] = {{4, 8}, {5, 0}, {5, 5}, {6, 4}, {7, 1}, {11, 0x80}, {15, 0x41}, {19, 0x7f}, {20, 1}, {23, 1}};
    uint8_t in[GW_END_BYTES];
    struct gw_end got;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        memcpy(in, golden_end, sizeof(in));
        in[bad[i].at] = bad[i].value;
        assert_int_equal(gw_end_read(in, sizeof(in), &got), GW_E_PROTO);
    }
}

static void messages_say_their_kind_and_length(void **state)
{
    static const uint32_t want[] = {[GW_MSG_OFFER] = 128, [GW_MSG_GRANT] = 24, [GW_MSG_LANDED] = 24};
    enum gw_msg_kind kind;
    uint8_t in[2] = {0, 1};
    uint32_t len;

    (void)state;
    for (int i = 0; i < 256; i++) {
        int known = i >= 1 && i <= 3;
        in[0] = (uint8_t)i;
        assert_int_equal(gw_msg_next(in, 0, &kind, &len), GW_E_PROTO);
        assert_int_equal(gw_msg_next(in, 1, &kind, &len), GW_E_PROTO);
        assert_int_equal(gw_msg_next(in, GW_MSG_MAX, &kind, &len), known ? GW_OK : GW_E_PROTO);
        if (!known)
            continue;
        assert_int_equal(kind, i);
        assert_int_equal(len, want[i]);
        assert_int_equal(gw_msg_next(in, want[i], &kind, &len), GW_OK);
        assert_int_equal(gw_msg_next(in, want[i] - 1, &kind, &len), GW_E_PROTO);
    }
}

static void an_offer_is_as_long_as_its_buffers_make_it(void **state)
{
    uint8_t in[2] = {GW_MSG_OFFER};
    enum gw_msg_kind kind;
    uint32_t len;

    (void)state;
    for (unsigned n = 0; n < 256; n++) {
        in[1] = (uint8_t)n;
        assert_int_equal(gw_msg_next(in, UINT32_MAX, &kind, &len), GW_OK);
        assert_int_equal(len, 64 + (n + 1) / 2 * 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offer_is_drawn_so),
        cmocka_unit_test(offer_comes_back_as_it_was),
        cmocka_unit_test(offer_without_pieces_names_none),
        cmocka_unit_test(offer_with_any_bit_changed_is_refused),
        cmocka_unit_test(offer_with_a_wrong_field_is_refused),
        cmocka_unit_test(offer_whose_buffer_wraps_is_refused),
        cmocka_unit_test(grant_is_drawn_so),
        cmocka_unit_test(landed_is_drawn_so),
        cmocka_unit_test(end_is_drawn_so),
        cmocka_unit_test(end_with_a_wrong_field_is_refused),
        cmocka_unit_test(messages_say_their_kind_and_length),
        cmocka_unit_test(an_offer_is_as_long_as_its_buffers_make_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
