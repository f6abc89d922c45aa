/* e2e_ucx.c - two lanes over real UCX, in two processes and in one, over tcp and over shared
 * memory: every kind and size of put both ways, puts that fit no offer, hostile addresses, lines
 * whose flags are polled. */
#include "ucx_end.h"

/* ---- rounds that both ends play
 * --------------------------------------------------------------------------- */

static const uint32_t sizes[] = {0,    1,    15,   16,    17,    64,     1000,    4096,
                                 8176, 8192, 8193, 65520, 65537, 262147, 1 << 20, BIG};
enum { SIZES = sizeof(sizes) / sizeof(*sizes), ROUNDS = SIZES * 4 };

static void round_start(struct end *e, uint32_t i, uint32_t seed)
{
    enum gw_put_kind kind = (enum gw_put_kind)(i % 4);
    uint32_t len = kind == GW_PUT_END ? GW_END_BYTES : sizes[i / 4];
    uint8_t msg[GW_MSG_MAX];
    fill(e->src + (kind == GW_PUT_CODED ? GW_HEAD_BYTES : 0), len, seed + i);
    fill(msg, 1 + i * 6, seed + i);
    must(e->ops->msg(e->lane, msg, 1 + i * 6) == GW_OK);
    send_put(e, i, kind, len,
             GW_PUTF_IMM | (kind <= GW_PUT_WHOLE && i % 8 >= 4 ? GW_PUTF_LINES : 0));
    if (kind == GW_PUT_END)
        memset(e->src, 0, len); /* it was copied */
}

static int round_over(const struct end *e)
{
    must(!e->failed);
    return e->sent == 1 && e->landed == 1 && e->msgs == 1;
}

static void round_check(struct end *e, uint32_t i, uint32_t seed)
{
    enum gw_put_kind kind = (enum gw_put_kind)(i % 4);
    uint32_t len = kind == GW_PUT_END ? GW_END_BYTES : sizes[i / 4];
    const uint8_t *at = kind == GW_PUT_END     ? e->places.slot[i % GW_SLOTS].end[0][0]
                        : kind == GW_PUT_CODED ? e->piece + GW_HEAD_BYTES
                                               : e->buf;
    struct gw_head h;
    must(e->last.head.number == i && e->last.head.kind == kind && e->last.len == len);
    must(is_filled(at, len, seed + i));
    must(e->msg_len == 1 + i * 6 && is_filled(e->msg, e->msg_len, seed + i));
    if (kind == GW_PUT_CODED)
        must(gw_head_read(e->piece, GW_HEAD_BYTES, &h) == GW_OK && h.number == i &&
             h.length == len);
    if (kind <= GW_PUT_WHOLE && len < BIG)
        must(e->buf[len] == 0xee);
    must(e->buf[BIG] == 0xee && e->piece[PIECE] == 0xee);
    memset(e->buf, 0xee, len);
    e->sent = e->landed = e->msgs = 0; /* the peer may begin the next round before we do */
    offer(e, i + GW_SLOTS);
}

static void *close_elsewhere(void *e)
{
    end_close(e);
    return NULL;
}

/* A training program forks all the time; a child that ends must take nothing along. */
static void fork_and_exit(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        exit(0);
    must(waitpid(pid, &status, 0) == pid && status == 0);
}

static int rounds_child(const char *transport, int fd, int side)
{
    struct end e;
    pthread_t t;
    uint32_t mine = side ? 1000 : 2000, theirs = side ? 2000 : 1000;
    end_open(&e, transport);
    for (uint32_t i = 0; i < GW_SLOTS; i++)
        offer(&e, i);
    blob_swap(&e, fd);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        round_start(&e, i, mine);
        while (!round_over(&e))
            end_poll(&e);
        round_check(&e, i, theirs);
        meet(&e, fd);
        if (i == ROUNDS / 2)
            fork_and_exit();
    }
    must(e.lane->wire_tx == e.lane->wire_rx && e.lane->wire_tx > 2 * BIG);
    must(pthread_create(&t, NULL, close_elsewhere, &e) == 0);
    must(pthread_join(t, NULL) == 0);
    must(lines_logged == 0); /* a normal life has nothing to say */
    return 0;
}

static int one_process_child(const char *transport, int fd, int side)
{
    struct end a, b;
    struct gw_blob of_a, of_b;
    (void)fd, (void)side;
    end_open(&a, transport);
    end_open(&b, transport);
    for (uint32_t i = 0; i < GW_SLOTS; i++)
        offer(&a, i), offer(&b, i);
    must(a.ops->local(a.lane, &of_a) == GW_OK && b.ops->local(b.lane, &of_b) == GW_OK);
    must(a.ops->join(a.lane, &of_b) == GW_OK && b.ops->join(b.lane, &of_a) == GW_OK);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        round_start(&a, i, 1000);
        round_start(&b, i, 2000);
        while (!round_over(&a) || !round_over(&b))
            end_poll(&a), end_poll(&b);
        round_check(&a, i, 2000);
        round_check(&b, i, 1000);
    }
    end_close(&a);
    end_close(&b);
    return 0;
}

/* ---- what goes wrong
 * -------------------------------------------------------------------------------------- */

/* Side 0 puts where nothing was offered; side 1 stores no byte of it and breaks the lane. */
static int refused(const char *transport, int fd, int side, uint32_t number, uint32_t len)
{
    struct end e;
    end_open(&e, transport);
    offer(&e, 5);
    blob_swap(&e, fd);
    meet(&e, fd);
    if (side == 0)
        send_put(&e, number, GW_PUT_RAW, len, 0);
    while (side == 1 && !e.failed)
        end_poll(&e);
    if (side == 1) {
        must(e.err == GW_E_PROTO && e.landed == 0);
        must(e.ops->put(e.lane, &(struct gw_put){.src = e.src, .len = 1}) == GW_E_PROTO);
        for (size_t i = 0; i < BIG + CANARY; i++)
            must(e.buf[i] == 0xee);
    }
    meet(&e, fd);
    end_close(&e);
    return 0;
}

static int refused_small_child(const char *transport, int fd, int side)
{
    return refused(transport, fd, side, 6, 100);
}

static int refused_large_child(const char *transport, int fd, int side)
{
    return refused(transport, fd, side, 37, BIG); /* the slot of 5, another number */
}

/* Side 0 puts two frames into one piece.  The first arrives, and stays as it is while a worker would read it. */
static int refused_busy(const char *transport, int fd, int side, uint32_t len)
{
    struct end e;
    end_open(&e, transport);
    offer(&e, 5);
    blob_swap(&e, fd);
    meet(&e, fd);
    fill(e.src + GW_HEAD_BYTES, len, 1);
    for (int i = 0; side == 0 && i < 2; i++) {
        send_put(&e, 5, GW_PUT_CODED, len, GW_PUTF_IMM);
        while (i == 0 && e.sent == 0)
            end_poll(&e);
        fill(e.src + GW_HEAD_BYTES, len, 2);
    }
    while (side == 1 && e.landed == 0)
        end_poll(&e);
    while (side == 1 && !e.failed)
        end_poll(&e);
    if (side == 1)
        must(e.err == GW_E_PROTO && e.landed == 1 && is_filled(e.piece + GW_HEAD_BYTES, len, 1));
    meet(&e, fd);
    end_close(&e);
    return 0;
}

static int refused_busy_child(const char *transport, int fd, int side)
{
    return refused_busy(transport, fd, side, 1000);
}

static int refused_busy_large_child(const char *transport, int fd, int side)
{
    return refused_busy(transport, fd, side, PIECE - GW_HEAD_BYTES);
}

static int blob_child(const char *transport, int fd, int side)
{
    struct end e;
    struct gw_blob good, bad;
    (void)fd, (void)side;
    end_open(&e, transport);
    must(e.ops->local(e.lane, &good) == GW_OK);
    for (uint32_t i = 0; i < good.len; i++) {
        bad = good;
        bad.bytes[i] ^= 0x41;
        must(e.ops->join(e.lane, &bad) == GW_E_PROTO);
        bad = good;
        bad.len = i;
        must(e.ops->join(e.lane, &bad) == GW_E_PROTO);
    }
    bad = good;
    bad.len = 0xffffffffu;
    must(e.ops->join(e.lane, &bad) == GW_E_PROTO);
    end_close(&e);
    return 0;
}

/* ---- lines whose flags are polled
 * ------------------------------------------------------------------------- */

enum { LINES = 4096, LINES_ROUNDS = 200 };

struct line {
    _Atomic uint32_t data0, flag0, data1, flag1;
};

static _Atomic uint32_t rounds_read;

/* Reads as a GPU does: a line counts when both flags are this round's, and then its data must be
 * there. */
static void *reader(void *arg)
{
    struct line *line = arg;
    for (uint32_t r = 1; r <= LINES_ROUNDS; r++) {
        for (uint32_t i = 0; i < LINES; i++) {
            while (line[i].flag0 != r || line[i].flag1 != r)
                ;
            must(line[i].data0 == r * 31 + i && line[i].data1 == r * 37 + i);
        }
        rounds_read = r;
    }
    return NULL;
}

static int lines_child(const char *transport, int fd, int side)
{
    struct end e;
    pthread_t t;
    end_open(&e, transport);
    memset(e.buf, 0, BIG);
    for (uint32_t i = 0; i < GW_SLOTS; i++)
        offer(&e, i);
    blob_swap(&e, fd);
    if (side == 1)
        must(pthread_create(&t, NULL, reader, e.buf) == 0);
    for (uint32_t r = 1; r <= LINES_ROUNDS; r++) {
        uint32_t *p = (uint32_t *)(void *)e.src;
        for (uint32_t i = 0; i < LINES && side == 0; i++, p += 4)
            p[0] = r * 31 + i, p[1] = r, p[2] = r * 37 + i, p[3] = r;
        if (side == 0)
            send_put(&e, r % GW_SLOTS, GW_PUT_WHOLE, LINES * 16, GW_PUTF_LINES);
        while (side == 0 ? e.sent < (int)r : e.landed < (int)r || rounds_read < r)
            end_poll(&e);
        meet(&e, fd);
    }
    if (side == 1)
        must(pthread_join(t, NULL) == 0);
    end_close(&e);
    return 0;
}

#define CASE(name, sides)                                                                          \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        children_run(name##_child, *state, sides, 0);                                              \
    }
CASE(rounds, 2)
CASE(one_process, 1)
CASE(refused_small, 2)
CASE(refused_large, 2)
CASE(refused_busy, 2)
CASE(refused_busy_large, 2)
CASE(blob, 1)
CASE(lines, 2)

int main(int argc, char **argv)
{
    static char tcp[] = "tcp", posix[] = "posix";
#define BOTH(name)                                                                                 \
    {#name " tcp", test_##name, NULL, NULL, tcp},                                                  \
    {                                                                                              \
#name " posix", test_##name, NULL, NULL, posix                                             \
    }
    const struct CMUnitTest tests[] = {
        BOTH(rounds),        BOTH(one_process), BOTH(refused_small),
        BOTH(refused_large), BOTH(blob),        BOTH(lines),
        BOTH(refused_busy),  BOTH(refused_busy_large),
    };
    (void)argc;
    find_module(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
