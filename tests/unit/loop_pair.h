/* loop_pair.h - two joined loop lanes with a source, an open offer and a record of all that was reported. */
#ifndef GW_TESTS_LOOP_PAIR_H
#define GW_TESTS_LOOP_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <loop.h>

enum { PAIR_NUMBER = 0x12345, PAIR_TRACE = 2048, PAIR_PIECE = 4096 };

struct pair_event {
    uint64_t at;
    struct gw_lane *lane;
    struct gw_event ev;
};

struct pair {
    struct gw_loop_net *net;
    void *dev[2];
    struct gw_lane *tx, *rx;
    struct gw_place_table *table;
    struct gw_place_slot *slot;
    uint8_t *src, *dst, *piece;
    uint32_t bytes;
    struct gw_region src_mem, dst_mem, piece_mem;
    uint64_t now;
    uint32_t n;
    struct pair_event trace[PAIR_TRACE];
};

static inline void pair_join(struct gw_lane *lane, struct gw_lane *peer)
{
    struct gw_blob blob;
    gw_err err;

    assert_int_equal(gw_loop_ops.local(peer, &blob), GW_OK);
    while ((err = gw_loop_ops.join(lane, &blob)) == GW_AGAIN)
        ;
    assert_int_equal(err, GW_OK);
}

static inline void pair_offer(struct pair *p)
{
    p->table = calloc(1, sizeof(*p->table));
    p->table->piece_bytes = PAIR_PIECE;
    p->table->paths = GW_PATHS_MAX;
    p->slot = &p->table->slot[PAIR_NUMBER % GW_SLOTS];
    p->slot->number = PAIR_NUMBER;
    p->slot->open = p->slot->buffers = p->slot->pieces = 1;
    p->slot->buf[0] = p->dst;
    p->slot->cap[0] = p->bytes;
    p->slot->piece[0] = p->piece;
}

static inline struct pair *pair_new(const struct gw_loop_conf *conf, uint32_t bytes)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_int_equal(gw_loop_net_new(conf, &p->net), GW_OK);
    p->bytes = bytes;
    p->src = malloc(bytes), p->dst = calloc(1, bytes), p->piece = calloc(1, PAIR_PIECE);
    for (uint32_t i = 0; i < bytes; i++)
        p->src[i] = (uint8_t)(i % 251 + 1); /* never 0, which is what waits in dst */
    p->dev[0] = gw_loop_dev(p->net, 0), p->dev[1] = gw_loop_dev(p->net, 1);
    assert_int_equal(gw_loop_ops.reg(p->dev[0], p->src, bytes, 0, &p->src_mem), GW_OK);
    assert_int_equal(gw_loop_ops.reg(p->dev[1], p->dst, bytes, 1, &p->dst_mem), GW_OK);
    assert_int_equal(gw_loop_ops.reg(p->dev[1], p->piece, PAIR_PIECE, 1, &p->piece_mem), GW_OK);
    assert_int_equal(gw_loop_ops.make(p->dev[0], &p->tx), GW_OK);
    assert_int_equal(gw_loop_ops.make(p->dev[1], &p->rx), GW_OK);
    pair_offer(p);
    p->rx->places = p->table;
    pair_join(p->tx, p->rx);
    pair_join(p->rx, p->tx);
    return p;
}

static inline void pair_free(struct pair *p)
{
    if (p->tx != NULL)
        gw_loop_ops.close(p->tx);
    if (p->rx != NULL)
        gw_loop_ops.close(p->rx);
    gw_loop_ops.dereg(p->dev[0], &p->src_mem);
    if (p->dst_mem.priv != NULL)
        gw_loop_ops.dereg(p->dev[1], &p->dst_mem);
    gw_loop_ops.dereg(p->dev[1], &p->piece_mem);
    gw_loop_net_free(p->net);
    free(p->src), free(p->dst), free(p->piece), free(p->table), free(p);
}

/* A put as the core would make it.  RAW and WHOLE take src at their own offset. */
static inline struct gw_put pair_put(const struct pair *p, uint8_t kind, uint32_t offset, uint32_t length)
{
    struct gw_put put = {
        .head = {.number = PAIR_NUMBER, .kind = kind, .offset = offset, .length = length},
        .flags = GW_PUTF_SIGNAL | (kind == GW_PUT_RAW ? 0 : GW_PUTF_IMM),
        .src = p->src + offset,
        .len = length,
        .region = &p->src_mem,
        .addr = (uintptr_t)p->dst + offset,
        .key = {p->dst_mem.key[0]},
        .cookie = offset,
    };

    if (kind == GW_PUT_CODED) {
        put.len = length / 2;
        put.addr = (uintptr_t)p->piece;
        put.key[0] = p->piece_mem.key[0];
    }
    return put;
}

static inline struct gw_put pair_end(const uint8_t record[GW_END_BYTES], uint8_t path)
{
    return (struct gw_put){
        .head = {.number = PAIR_NUMBER, .kind = GW_PUT_END, .piece = path},
        .flags = GW_PUTF_SIGNAL | GW_PUTF_IMM,
        .path = path,
        .src = record,
        .len = GW_END_BYTES,
        .cookie = 1000000u + path,
    };
}

static inline int pair_poll(struct pair *p, struct gw_lane *lane)
{
    struct gw_event ev[8];
    int n = gw_loop_ops.poll(lane, ev, 8);

    for (int i = 0; i < n; i++) {
        assert_true(p->n < PAIR_TRACE);
        p->trace[p->n++] = (struct pair_event){p->now, lane, ev[i]};
    }
    return n;
}

/* One moment further; 0: nothing will ever happen again. */
static inline int pair_step(struct pair *p)
{
    uint64_t due = gw_loop_next_due(p->net);

    if (due == UINT64_MAX)
        return 0;
    assert_true(due > p->now);
    p->now = due;
    gw_loop_set_now(p->net, due);
    return 1;
}

static inline void pair_round(struct pair *p)
{
    for (int quiet = 0; quiet < 2; quiet++) {
        int n = pair_poll(p, p->tx) + pair_poll(p, p->rx);
        if (n > 0)
            quiet = -1;
    }
}

static inline void pair_settle(struct pair *p)
{
    do
        pair_round(p);
    while (pair_step(p));
}

/* Takes the put, however often the lane says not now. */
static inline void pair_post(struct pair *p, const struct gw_put *put)
{
    gw_err err;

    while ((err = gw_loop_ops.put(p->tx, put)) == GW_AGAIN) {
        pair_round(p);
        (void)pair_step(p);
    }
    assert_int_equal(err, GW_OK);
}

static inline uint32_t pair_count(const struct pair *p, const struct gw_lane *lane, uint8_t kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        n += p->trace[i].lane == lane && p->trace[i].ev.kind == kind;
    return n;
}

/* The first of its kind there; a test that asks for one that is not there has failed. */
static inline const struct pair_event *pair_find(const struct pair *p, const struct gw_lane *lane, uint8_t kind)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->trace[i].lane == lane && p->trace[i].ev.kind == kind)
            return &p->trace[i];
    fail_msg("no event %d", kind);
    return NULL;
}
#endif
