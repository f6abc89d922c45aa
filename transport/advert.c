/* advert.c - offer, grant, landed, end: bytes in, values out.  WIRE.md draws them.
 *
 * A reader accepts exactly what its writer writes: unused fields are 0 and are checked, so each meaning
 * has one spelling. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "advert.h"

#include <base/bytes.h>
#include <base/check.h>

_Static_assert((int)GW_OFFER_MAX <= (int)GW_MSG_MAX, "the largest offer is one control message");

/* What stands where in the lines of an offer. */
enum {
    AT_BUFFERS = 1,
    AT_PIECES = 2,
    AT_HINT = 3,
    AT_PIECE_BYTES = 4,
    AT_PIECE_ADDR = 8,
    AT_PIECE_KEY = AT_PIECE_ADDR + 8 * GW_PIECES_MAX,
    AT_SPARE = AT_PIECE_KEY + 4 * GW_KEYS_MAX,
    BUF_BYTES = 16 + 4 * GW_KEYS_MAX,
    AT_BUFS_END = 2 * BUF_BYTES,
    AT_CHECK = GW_LINE - 8, /* of the last line; 0 in the others */
    AT_NUMBER = GW_LINE - 4 /* of every line */
};

_Static_assert(AT_SPARE <= AT_CHECK && AT_BUFS_END <= AT_CHECK, "fields do not meet");

uint32_t gw_offer_bytes(uint32_t buffers)
{
    return GW_LINE * (1 + (buffers + 1) / 2);
}

/* Over all that stands before the sum itself.  The last number stands behind it and is the seed. */
static uint32_t offer_sum(const uint8_t *lines, uint32_t len, uint32_t number)
{
    return XXH32(lines, len - (GW_LINE - AT_CHECK), number);
}

static uint32_t buf_at(uint32_t i)
{
    return GW_LINE * (1 + i / 2) + BUF_BYTES * (i % 2);
}

static void buf_write(uint8_t *out, const struct gw_offer_buf *b)
{
    gw_put64(out, b->addr);
    gw_put32(out + 8, b->cap);
    gw_put32(out + 12, b->tag);
    for (int i = 0; i < GW_KEYS_MAX; i++)
        gw_put32(out + 16 + 4 * i, b->key[i]);
}

static void pieces_write(uint8_t *line, const struct gw_offer *o)
{
    gw_put32(line + AT_PIECE_BYTES, o->piece_bytes);
    for (int i = 0; i < o->pieces; i++)
        gw_put64(line + AT_PIECE_ADDR + 8 * i, o->piece_addr[i]);
    for (int i = 0; i < GW_KEYS_MAX; i++)
        gw_put32(line + AT_PIECE_KEY + 4 * i, o->piece_key[i]);
}

uint32_t gw_offer_write(uint8_t out[GW_OFFER_MAX], const struct gw_offer *o)
{
    uint32_t len = gw_offer_bytes(o->buffers);

    gw_assert(o->buffers >= 1 && o->buffers <= GW_BUFFERS_MAX && o->pieces <= GW_PIECES_MAX);
    memset(out, 0, len);
    out[0] = GW_MSG_OFFER;
    out[AT_BUFFERS] = o->buffers;
    out[AT_PIECES] = o->pieces;
    out[AT_HINT] = o->hint;
    if (o->pieces > 0)
        pieces_write(out, o);
    for (uint32_t i = 0; i < o->buffers; i++)
        buf_write(out + buf_at(i), &o->buf[i]);
    for (uint32_t at = 0; at < len; at += GW_LINE)
        gw_put32(out + at + AT_NUMBER, o->number);
    gw_put32(out + len - GW_LINE + AT_CHECK, offer_sum(out, len, o->number));
    return len;
}

void gw_grant_write(uint8_t out[GW_GRANT_BYTES], const struct gw_grant *g)
{
    gw_put32(out, GW_MSG_GRANT);
    gw_put32(out + 4, g->number);
    for (int i = 0; i < GW_PIECES_MAX; i++)
        gw_put32(out + 8 + 4 * i, g->count[i]);
}

void gw_landed_write(uint8_t out[GW_LANDED_BYTES], const struct gw_landed *l)
{
    gw_put32(out, GW_MSG_LANDED);
    gw_put32(out + 4, l->decode_ns_kib);
    gw_put64(out + 8, l->bytes);
    gw_put64(out + 16, l->puts);
}

void gw_end_write(uint8_t out[GW_END_BYTES], const struct gw_end *e)
{
    gw_put32(out, e->number);
    out[4] = e->buffer;
    out[5] = e->ends;
    out[6] = e->path;
    out[7] = e->flags;
    gw_put32(out + 8, e->total);
    gw_put32(out + 12, e->raw);
    gw_put32(out + 16, e->coded);
    gw_put32(out + 20, 0);
    gw_put64(out + 24, e->hash);
}

gw_err gw_msg_next(const uint8_t *in, uint32_t len, enum gw_msg_kind *kind_p, uint32_t *len_p)
{
    static const uint32_t fixed[] = {[GW_MSG_GRANT] = GW_GRANT_BYTES, [GW_MSG_LANDED] = GW_LANDED_BYTES};
    uint8_t start[2];
    uint32_t n;

    if (len < sizeof start)
        return GW_E_PROTO;
    gw_copy_once(start, in, sizeof start);
    if (start[0] < GW_MSG_OFFER || start[0] > GW_MSG_LANDED)
        return GW_E_PROTO;
    n = start[0] != GW_MSG_OFFER ? fixed[start[0]] : gw_offer_bytes(start[AT_BUFFERS]);
    if (n > len)
        return GW_E_PROTO;
    *kind_p = (enum gw_msg_kind)start[0];
    *len_p = n;
    return GW_OK;
}

static gw_err buf_read(const uint8_t *in, struct gw_offer_buf *b)
{
    b->addr = gw_get64(in);
    b->cap = gw_get32(in + 8);
    b->tag = gw_get32(in + 12);
    for (int i = 0; i < GW_KEYS_MAX; i++)
        b->key[i] = gw_get32(in + 16 + 4 * i);
    return b->cap <= GW_MESSAGE_MAX && b->addr <= UINT64_MAX - b->cap ? GW_OK : GW_E_PROTO;
}

static gw_err pieces_read(const uint8_t *line, struct gw_offer *o)
{
    const uint8_t *rest = line + AT_PIECE_ADDR + 8 * o->pieces;

    if (o->pieces == 0)
        return gw_zero(line + AT_PIECE_BYTES, AT_SPARE - AT_PIECE_BYTES) ? GW_OK : GW_E_PROTO;
    o->piece_bytes = gw_get32(line + AT_PIECE_BYTES);
    if (o->piece_bytes <= GW_HEAD_BYTES || o->piece_bytes > GW_MESSAGE_MAX)
        return GW_E_PROTO;
    for (int i = 0; i < o->pieces; i++) {
        o->piece_addr[i] = gw_get64(line + AT_PIECE_ADDR + 8 * i);
        if (o->piece_addr[i] > UINT64_MAX - o->piece_bytes)
            return GW_E_PROTO;
    }
    for (int i = 0; i < GW_KEYS_MAX; i++)
        o->piece_key[i] = gw_get32(line + AT_PIECE_KEY + 4 * i);
    return gw_zero(rest, (size_t)(line + AT_PIECE_KEY - rest)) ? GW_OK : GW_E_PROTO;
}

/* The lines agree with each other, the sum fits, and what no field fills is 0. */
static gw_err lines_check(const uint8_t *lines, uint32_t len, uint32_t number)
{
    const uint8_t *last = lines + len - GW_LINE;

    for (uint32_t at = 0; at < len; at += GW_LINE) {
        const uint8_t *line = lines + at;
        uint32_t used = at == 0 ? AT_SPARE : AT_BUFS_END;
        uint32_t end = line == last ? AT_CHECK : AT_NUMBER;

        if (gw_get32(line + AT_NUMBER) != number || !gw_zero(line + used, end - used))
            return GW_E_PROTO;
    }
    return gw_get32(last + AT_CHECK) == offer_sum(lines, len, number) ? GW_OK : GW_E_PROTO;
}

gw_err gw_offer_read(const uint8_t *in, uint32_t len, struct gw_offer *o)
{
    uint8_t lines[GW_OFFER_MAX];
    struct gw_offer got = {0};

    if (len < 2 * GW_LINE || len > GW_OFFER_MAX)
        return GW_E_PROTO;
    /* The peer may be writing these lines while we look: what is checked must be what is used. */
    gw_copy_once(lines, in, len);
    got.buffers = lines[AT_BUFFERS];
    got.pieces = lines[AT_PIECES];
    got.hint = lines[AT_HINT];
    got.number = gw_get32(lines + AT_NUMBER);
    if (lines[0] != GW_MSG_OFFER || got.buffers < 1 || got.buffers > GW_BUFFERS_MAX ||
        got.pieces > GW_PIECES_MAX || got.hint > GW_HINTS_KNOWN || len != gw_offer_bytes(got.buffers))
        return GW_E_PROTO;
    if (lines_check(lines, len, got.number) != GW_OK || pieces_read(lines, &got) != GW_OK)
        return GW_E_PROTO;
    for (uint32_t i = 0; i < got.buffers; i++)
        if (buf_read(lines + buf_at(i), &got.buf[i]) != GW_OK)
            return GW_E_PROTO;
    if (got.buffers % 2 != 0 && !gw_zero(lines + buf_at(got.buffers), BUF_BYTES))
        return GW_E_PROTO;
    *o = got;
    return GW_OK;
}

gw_err gw_grant_read(const uint8_t *in, uint32_t len, struct gw_grant *g)
{
    if (len != GW_GRANT_BYTES || gw_get32(in) != GW_MSG_GRANT)
        return GW_E_PROTO;
    g->number = gw_get32(in + 4);
    for (int i = 0; i < GW_PIECES_MAX; i++)
        g->count[i] = gw_get32(in + 8 + 4 * i);
    return GW_OK;
}

gw_err gw_landed_read(const uint8_t *in, uint32_t len, struct gw_landed *l)
{
    if (len != GW_LANDED_BYTES || gw_get32(in) != GW_MSG_LANDED)
        return GW_E_PROTO;
    l->decode_ns_kib = gw_get32(in + 4);
    l->bytes = gw_get64(in + 8);
    l->puts = gw_get64(in + 16);
    return GW_OK;
}

gw_err gw_end_read(const uint8_t *in, uint32_t len, struct gw_end *e)
{
    struct gw_end got;

    if (len != GW_END_BYTES || !gw_zero(in + 20, 4))
        return GW_E_PROTO;
    got = (struct gw_end){
        .number = gw_get32(in),
        .buffer = in[4],
        .ends = in[5],
        .path = in[6],
        .flags = in[7],
        .total = gw_get32(in + 8),
        .raw = gw_get32(in + 12),
        .coded = gw_get32(in + 16),
        .hash = gw_get64(in + 24),
    };
    if (got.buffer >= GW_BUFFERS_MAX || got.path >= GW_PATHS_MAX || got.flags != 0)
        return GW_E_PROTO;
    if (got.ends < 1 || got.ends > GW_PATHS_MAX)
        return GW_E_PROTO;
    /* A coded chunk stands for at least one byte that did not go raw. */
    if (got.total > GW_MESSAGE_MAX || got.raw > got.total || got.coded > got.total - got.raw)
        return GW_E_PROTO;
    *e = got;
    return GW_OK;
}
