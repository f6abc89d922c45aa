/* test_place.c - heads, immediates, and the gate between a peer's bytes and our memory. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <place.h>

enum { CAP = 1000, PIECE = 256, NUMBER = 37 /* slot 5 */ };

static uint8_t buffers[2][CAP], pieces[2][PIECE];

static struct gw_place_table *table_new(void)
{
    struct gw_place_table *t = calloc(1, sizeof(*t));
    struct gw_place_slot *s = &t->slot[NUMBER % GW_SLOTS];

    t->piece_bytes = PIECE;
    t->paths = 2;
    s->number = NUMBER;
    s->open = 1;
    s->buffers = s->pieces = 2;
    for (int i = 0; i < 2; i++) {
        s->buf[i] = buffers[i];
        s->cap[i] = CAP;
        s->piece[i] = pieces[i];
    }
    return t;
}

static void head_is_drawn_so(void **state)
{
    static const uint8_t golden[GW_HEAD_BYTES] = {0x44, 0x33, 0x22, 0x11, 5, 2, 3, 0,
                                                  0x00, 0x40, 0x00, 0x00, 0x88, 0x77, 0x66, 0x05};
    struct gw_head h = {0x11223344, 5, GW_PUT_CODED, 3, 0x4000, 0x05667788}, got;
    uint8_t out[GW_HEAD_BYTES];

    (void)state;
    gw_head_write(out, &h);
    assert_memory_equal(out, golden, sizeof(golden));
    assert_int_equal(gw_head_read(out, sizeof(out), &got), GW_OK);
    /* a struct's padding is nobody's: the values are compared */
    assert_true(got.number == h.number && got.buffer == h.buffer && got.kind == h.kind && got.piece == h.piece);
    assert_true(got.offset == h.offset && got.length == h.length);
}

static void head_read_refuses(const struct gw_head *h)
{
    uint8_t bytes[GW_HEAD_BYTES];
    struct gw_head got = {.number = 1234};

    gw_head_write(bytes, h);
    assert_int_equal(gw_head_read(bytes, sizeof(bytes), &got), GW_E_PROTO);
    assert_int_equal(got.number, 1234);
}

static void head_with_one_wrong_field_is_refused(void **state)
{
    static const struct gw_head bad[] = {
        {.buffer = GW_BUFFERS_MAX},
        {.kind = GW_PUT_END + 1},
        {.kind = GW_PUT_RAW, .piece = 1},
        {.kind = GW_PUT_WHOLE, .piece = 1},
        {.kind = GW_PUT_WHOLE, .offset = 1},
        {.kind = GW_PUT_CODED, .piece = GW_PIECES_MAX},
        {.kind = GW_PUT_END, .piece = GW_PATHS_MAX},
        {.kind = GW_PUT_END, .offset = 1},
        {.kind = GW_PUT_END, .length = 1},
        {.length = GW_MESSAGE_MAX + 1u},
        {.offset = 1, .length = GW_MESSAGE_MAX},
        {.offset = UINT32_MAX, .length = 1},
    };
    uint8_t bytes[GW_HEAD_BYTES + 1] = {0};
    struct gw_head got;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        head_read_refuses(&bad[i]);
    assert_int_equal(gw_head_read(bytes, GW_HEAD_BYTES, &got), GW_OK);
    assert_int_equal(gw_head_read(bytes, GW_HEAD_BYTES - 1, &got), GW_E_PROTO);
    assert_int_equal(gw_head_read(bytes, GW_HEAD_BYTES + 1, &got), GW_E_PROTO);
    assert_int_equal(gw_head_read(bytes, 0, &got), GW_E_PROTO);
    bytes[7] = 1;
    assert_int_equal(gw_head_read(bytes, GW_HEAD_BYTES, &got), GW_E_PROTO);
}

static void immediate_is_drawn_so(void **state)
{
    struct gw_head coded = {0x1234abcd, 5, GW_PUT_CODED, 3, 77, 99}, got;
    struct gw_head whole = {0xffff0000, 0, GW_PUT_WHOLE, 0, 0, 10};
    struct gw_head end = {1, 7, GW_PUT_END, 2, 0, 0};

    (void)state;
    assert_int_equal(gw_imm_write(&coded), 0x009dabcd);
    assert_int_equal(gw_imm_write(&whole), 0x00400000);
    assert_int_equal(gw_imm_write(&end), 0x00d70001);
    assert_int_equal(gw_imm_read(0x009dabcd, &got), GW_OK);
    assert_int_equal(got.number, 0xabcd);
    assert_int_equal(got.buffer, 5);
    assert_int_equal(got.piece, 3);
    assert_int_equal(got.kind, GW_PUT_CODED);
    assert_int_equal(got.offset, 0);
    assert_int_equal(got.length, 0);
}

/* Every upper half, the dirty ones too, each with some number. */
static void immediate_has_one_spelling(void **state)
{
    struct gw_head h;
    uint32_t good = 0;

    (void)state;
    for (uint32_t high = 0; high < 1u << 16; high++) {
        uint32_t imm = high << 16 | (high * 40503u & 0xffff);
        if (gw_imm_read(imm, &h) != GW_OK)
            continue;
        good++;
        assert_int_equal(gw_imm_write(&h), imm);
        assert_true(h.kind != GW_PUT_RAW);
    }
    /* 8 buffers: whole with piece 0, coded with 4 pieces, end with 4 paths */
    assert_int_equal(good, 8 * (1 + 4 + 4));
}

static void bytes_go_where_the_offer_says(void **state)
{
    struct gw_place_table *t = table_new();
    struct gw_place_slot *s = &t->slot[NUMBER % GW_SLOTS];
    struct gw_head raw = {NUMBER, 1, GW_PUT_RAW, 0, 900, 100};
    struct gw_head whole = {NUMBER, 0, GW_PUT_WHOLE, 0, 0, CAP};
    struct gw_head coded = {NUMBER, 1, GW_PUT_CODED, 1, 500, 500};
    struct gw_head end = {NUMBER, 1, GW_PUT_END, 1, 0, 0};
    uint8_t *dst;

    (void)state;
    assert_int_equal(gw_place_find(t, &raw, 100, &dst), GW_OK);
    assert_ptr_equal(dst, buffers[1] + 900);
    assert_int_equal(gw_place_find(t, &whole, CAP, &dst), GW_OK);
    assert_ptr_equal(dst, buffers[0]);
    assert_int_equal(gw_place_find(t, &coded, PIECE - GW_HEAD_BYTES, &dst), GW_OK);
    assert_ptr_equal(dst, pieces[1] + GW_HEAD_BYTES);
    assert_int_equal(gw_place_find(t, &end, GW_END_BYTES, &dst), GW_OK);
    assert_ptr_equal(dst, s->end[1][1]);
    free(t);
}

static void nothing_goes_anywhere_else(void **state)
{
    static const struct {
        struct gw_head head;
        uint64_t payload;
    } bad[] = {
        {{NUMBER + GW_SLOTS, 0, GW_PUT_RAW, 0, 0, 1}, 1}, /* another message of the same slot */
        {{NUMBER + 1, 0, GW_PUT_RAW, 0, 0, 1}, 1},        /* a slot that is not open */
        {{NUMBER, 2, GW_PUT_RAW, 0, 0, 1}, 1},
        {{NUMBER, 0, 4, 0, 0, 1}, 1},
        {{NUMBER, 0, GW_PUT_RAW, 0, CAP, 1}, 1},
        {{NUMBER, 0, GW_PUT_RAW, 0, CAP + 1, 0}, 0},
        {{NUMBER, 0, GW_PUT_RAW, 0, 1, CAP}, CAP},
        {{NUMBER, 0, GW_PUT_RAW, 0, UINT32_MAX, 2}, 2}, /* a sum that wraps */
        {{NUMBER, 0, GW_PUT_RAW, 0, 0, 1}, 2},
        {{NUMBER, 0, GW_PUT_RAW, 0, 0, 2}, 1},
        {{NUMBER, 0, GW_PUT_RAW, 0, 0, 1}, 1 + (1ull << 32)},
        {{NUMBER, 0, GW_PUT_WHOLE, 0, 0, CAP + 1}, CAP + 1},
        {{NUMBER, 0, GW_PUT_WHOLE, 0, 1, 1}, 1},
        {{NUMBER, 0, GW_PUT_CODED, 2, 0, 100}, 10},
        {{NUMBER, 0, GW_PUT_CODED, 0, 0, 100}, PIECE - GW_HEAD_BYTES + 1},
        {{NUMBER, 0, GW_PUT_CODED, 0, 0, 100}, UINT64_MAX},
        {{NUMBER, 0, GW_PUT_CODED, 0, CAP - 99, 100}, 10},
        {{NUMBER, 0, GW_PUT_END, 2, 0, 0}, GW_END_BYTES},
        {{NUMBER, 2, GW_PUT_END, 0, 0, 0}, GW_END_BYTES},
        {{NUMBER, 0, GW_PUT_END, 0, 0, 0}, GW_END_BYTES - 1},
        {{NUMBER, 0, GW_PUT_END, 0, 0, 0}, GW_END_BYTES + 1},
    };
    struct gw_place_table *t = table_new();
    struct gw_head good = {NUMBER, 0, GW_PUT_RAW, 0, 0, 1};
    uint8_t *dst = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(gw_place_find(t, &bad[i].head, bad[i].payload, &dst), GW_E_PROTO);
    assert_null(dst);
    t->slot[NUMBER % GW_SLOTS].open = 0;
    assert_int_equal(gw_place_find(t, &good, 1, &dst), GW_E_PROTO);
    assert_null(dst);
    free(t);
}

static void pieces_too_small_for_a_head_take_nothing(void **state)
{
    struct gw_place_table *t = table_new();
    struct gw_head coded = {NUMBER, 0, GW_PUT_CODED, 0, 0, 1};
    uint8_t *dst;

    (void)state;
    t->piece_bytes = GW_HEAD_BYTES - 1;
    assert_int_equal(gw_place_find(t, &coded, 0, &dst), GW_E_PROTO);
    free(t);
}

static void an_empty_receive_needs_no_address(void **state)
{
    struct gw_place_table *t = table_new();
    struct gw_place_slot *s = &t->slot[NUMBER % GW_SLOTS];
    struct gw_head whole = {NUMBER, 0, GW_PUT_WHOLE, 0, 0, 0};
    uint8_t *dst = buffers[0];

    (void)state;
    s->buf[0] = NULL;
    s->cap[0] = 0;
    assert_int_equal(gw_place_find(t, &whole, 0, &dst), GW_OK);
    assert_null(dst);
    free(t);
}

/* A worker reads a piece from the moment its put has landed; nothing else may come there before it is granted again. */
static void a_piece_takes_one_put_until_it_is_granted(void **state)
{
    struct gw_place_table *t = table_new();
    struct gw_place_slot *s = &t->slot[NUMBER % GW_SLOTS];
    struct gw_head h[2] = {{NUMBER, 0, GW_PUT_CODED, 0, 0, 100}, {NUMBER, 1, GW_PUT_CODED, 1, 500, 500}};
    struct gw_head again = {NUMBER, 1, GW_PUT_CODED, 0, 7, 1}; /* another buffer, the same piece */
    struct gw_head raw = {NUMBER, 0, GW_PUT_RAW, 0, 0, 100}, end = {NUMBER, 0, GW_PUT_END, 0, 0, 0};
    uint8_t *dst = NULL;

    (void)state;
    assert_int_equal(gw_place_take(t, &h[0], PIECE, &dst), GW_E_PROTO);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(gw_place_take(t, &h[i], PIECE - GW_HEAD_BYTES, &dst), GW_OK);
            assert_ptr_equal(dst, pieces[i] + GW_HEAD_BYTES);
            assert_int_equal(gw_place_find(t, &h[i], 10, &dst), GW_OK); /* who has taken it finds it */
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(gw_place_take(t, &h[i], 10, &dst), GW_E_PROTO);
        assert_int_equal(gw_place_take(t, &again, 0, &dst), GW_E_PROTO);
        s->taken &= (uint8_t)~2u; /* the second is granted */
        assert_int_equal(gw_place_take(t, &h[0], 10, &dst), GW_E_PROTO);
        assert_int_equal(gw_place_take(t, &h[1], 10, &dst), GW_OK);
        s->taken = 0;
    }
    for (int i = 0; i < 3; i++) { /* no other kind is counted */
        assert_int_equal(gw_place_take(t, &raw, 100, &dst), GW_OK);
        assert_int_equal(gw_place_take(t, &end, GW_END_BYTES, &dst), GW_OK);
    }
    assert_int_equal(s->taken, 0);
    free(t);
}

static void lines_copy_any_alignment(void **state)
{
    uint8_t src[64], dst[64];

    (void)state;
    for (int i = 0; i < 64; i++)
        src[i] = (uint8_t)(i * 7 + 1);
    for (unsigned to = 8; to < 17; to++) {
        for (unsigned from = 0; from < 9; from++) {
            for (unsigned n = 0; n < 40; n++) {
                memset(dst, 0xee, sizeof(dst));
                gw_place_lines(dst + to, src + from, n);
                assert_memory_equal(dst + to, src + from, n);
                assert_int_equal(dst[to - 1], 0xee);
                assert_int_equal(dst[to + n], 0xee);
            }
        }
    }
}

/* A GPU's reader in small: it polls the flag at the end of each 128-byte line and takes the line. */
enum { LINES = 64, ROUNDS = 400, WORDS = 16 };

struct lines {
    _Alignas(128) uint64_t word[LINES][WORDS];
    uint64_t torn, idle;
    pthread_barrier_t turn;
};

static void *read_lines(void *arg)
{
    struct lines *l = arg;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int line = LINES - 1; line >= 0; line--) {
            while (__atomic_load_n(&l->word[line][WORDS - 1], __ATOMIC_ACQUIRE) != round)
                if (++l->idle % 1024 == 0)
                    sched_yield();
            for (int w = 0; w < WORDS; w++)
                l->torn += __atomic_load_n(&l->word[line][w], __ATOMIC_RELAXED) != round;
        }
        pthread_barrier_wait(&l->turn);
    }
    return NULL;
}

static void no_reader_sees_a_torn_line(void **state)
{
    static struct lines l;
    static uint64_t src[LINES][WORDS];
    pthread_t reader;

    (void)state;
    pthread_barrier_init(&l.turn, NULL, 2);
    assert_int_equal(pthread_create(&reader, NULL, read_lines, &l), 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < LINES * WORDS; i++)
            src[i / WORDS][i % WORDS] = round;
        gw_place_lines(l.word, src, sizeof(src));
        pthread_barrier_wait(&l.turn);
    }
    pthread_join(reader, NULL);
    pthread_barrier_destroy(&l.turn);
    assert_int_equal(l.torn, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_is_drawn_so),
        cmocka_unit_test(head_with_one_wrong_field_is_refused),
        cmocka_unit_test(immediate_is_drawn_so),
        cmocka_unit_test(immediate_has_one_spelling),
        cmocka_unit_test(bytes_go_where_the_offer_says),
        cmocka_unit_test(nothing_goes_anywhere_else),
        cmocka_unit_test(pieces_too_small_for_a_head_take_nothing),
        cmocka_unit_test(an_empty_receive_needs_no_address),
        cmocka_unit_test(a_piece_takes_one_put_until_it_is_granted),
        cmocka_unit_test(lines_copy_any_alignment),
        cmocka_unit_test(no_reader_sees_a_torn_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
