/* fuzz_place.c - whatever heads arrive, bytes go into an open buffer, piece or cell, or nowhere.
 *
 * The input is a row of 24-byte steps: an operation, then a head and a payload length.  Some steps change the offers as a
 * receiver does.  Each place that is handed out is written to its last byte, and everything around is looked at. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <place.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP = 24, ROOM = 512, BUFFERS = 3, PIECES = 2, PIECE = 96, GUARD = 0xa5 };

static struct gw_place_table table;
static uint8_t user[BUFFERS][ROOM], staging[PIECES][ROOM];

/* Capacities differ and the last buffer is empty and has no address. */
static void open_slot(uint32_t number)
{
    struct gw_place_slot *s = &table.slot[number % GW_SLOTS];

    s->number = number;
    s->open = 1;
    s->buffers = BUFFERS;
    s->pieces = PIECES;
    for (int i = 0; i < BUFFERS; i++) {
        s->buf[i] = i < BUFFERS - 1 ? user[i] : NULL;
        s->cap[i] = i < BUFFERS - 1 ? 100u + 57u * (unsigned)i : 0;
    }
    for (int i = 0; i < PIECES; i++)
        s->piece[i] = staging[i];
}

static void guards_stand(void)
{
    for (int i = 0; i < BUFFERS - 1; i++)
        for (uint32_t at = 100u + 57u * (unsigned)i; at < ROOM; at++)
            gw_assert(user[i][at] == GUARD);
    for (int i = 0; i < PIECES; i++) {
        for (uint32_t at = 0; at < GW_HEAD_BYTES; at++)
            gw_assert(staging[i][at] == GUARD);
        for (uint32_t at = PIECE; at < ROOM; at++)
            gw_assert(staging[i][at] == GUARD);
    }
}

static void store(const struct gw_head *h, uint64_t len)
{
    const struct gw_place_slot *s = &table.slot[h->number % GW_SLOTS];
    uint8_t *dst = (uint8_t *)user, src[ROOM] = {0};

    if (gw_place_find(&table, h, len, &dst) != GW_OK) {
        gw_assert(dst == (uint8_t *)user);
        return;
    }
    gw_assert(s->open && s->number == h->number && len <= ROOM);
    if (len > 0)
        gw_place_lines(dst, src, len);
    guards_stand();
    if (h->kind == GW_PUT_END)
        gw_assert(dst == s->end[h->buffer][h->piece] && h->piece < table.paths);
}

static void step(const uint8_t *in)
{
    struct gw_head h = {gw_get32(in + 1), in[5], in[6], in[7], gw_get32(in + 8), gw_get32(in + 12)};
    uint64_t len = gw_get64(in + 16);

    if (in[0] == 'o')
        open_slot(h.number);
    else if (in[0] == 'c')
        table.slot[h.number % GW_SLOTS].open = 0;
    else if (in[0] == 'p')
        table.piece_bytes = h.number % (PIECE + 1);
    else if (in[0] == 'l')
        store(&h, h.length); /* the length that fits, which mutation seldom finds */
    else
        store(&h, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&table, 0, sizeof(table));
    table.piece_bytes = PIECE;
    table.paths = 2;
    memset(user, GUARD, sizeof(user));
    memset(staging, GUARD, sizeof(staging));
    open_slot(0);
    open_slot(7);
    for (; size >= STEP; size -= STEP, data += STEP)
        step(data);
    return 0;
}
