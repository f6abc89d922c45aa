/* place.c - the one gate between a peer's bytes and our memory.  Read gw_place_find, then gw_place_take.
 *
 * Every number here comes from the peer.  A bound is checked by subtracting from what we know, never by
 * adding up what the peer says: a sum can wrap. */
#include "place.h"

#include <base/bytes.h>
#include <base/check.h>

_Static_assert(GW_SLOTS == 32, "the low 5 bits of a number are its slot");
_Static_assert(GW_BUFFERS_MAX <= 8, "a buffer fits its 3 bits of the immediate");
_Static_assert(GW_PIECES_MAX <= 8 && GW_PATHS_MAX <= 8, "so does a piece, and so does a path");

/* What holds for a head whatever the offers are.  The piece field has a meaning for two kinds only
 * and is 0 for the others, so that a put has one spelling. */
static gw_err check_head(const struct gw_head *h)
{
    if (h->kind > GW_PUT_END || h->buffer >= GW_BUFFERS_MAX)
        return GW_E_PROTO;
    if (h->length > GW_MESSAGE_MAX || h->offset > GW_MESSAGE_MAX - h->length)
        return GW_E_PROTO;
    switch (h->kind) {
    case GW_PUT_RAW:
        return h->piece == 0 ? GW_OK : GW_E_PROTO;
    case GW_PUT_WHOLE:
        return h->piece == 0 && h->offset == 0 ? GW_OK : GW_E_PROTO;
    case GW_PUT_CODED:
        return h->piece < GW_PIECES_MAX ? GW_OK : GW_E_PROTO;
    default:
        return h->piece < GW_PATHS_MAX && h->offset == 0 && h->length == 0 ? GW_OK : GW_E_PROTO;
    }
}

void gw_head_write(uint8_t out[GW_HEAD_BYTES], const struct gw_head *h)
{
    gw_put32(out, h->number);
    out[4] = h->buffer;
    out[5] = h->kind;
    out[6] = h->piece;
    out[7] = 0;
    gw_put32(out + 8, h->offset);
    gw_put32(out + 12, h->length);
}

gw_err gw_head_read(const uint8_t *in, uint32_t len, struct gw_head *h)
{
    struct gw_head got;
    gw_err err;

    if (len != GW_HEAD_BYTES || in[7] != 0)
        return GW_E_PROTO;
    got = (struct gw_head){
        .number = gw_get32(in),
        .buffer = in[4],
        .kind = in[5],
        .piece = in[6],
        .offset = gw_get32(in + 8),
        .length = gw_get32(in + 12),
    };
    err = check_head(&got);
    if (err == GW_OK)
        *h = got;
    return err;
}

/*  bit 0       16       19      22     24        32
 *      +--------+--------+-------+------+---------+
 *      | number | buffer | piece | kind |    0    |
 *      +--------+--------+-------+------+---------+
 * A raw put never carries one, so the kind 0 is free to mean that nothing was written here. */
uint32_t gw_imm_write(const struct gw_head *h)
{
    return (h->number & 0xffffu) | (h->buffer & 7u) << 16 | (h->piece & 7u) << 19 | (h->kind & 3u) << 22;
}

gw_err gw_imm_read(uint32_t imm, struct gw_head *h)
{
    struct gw_head got = {
        .number = imm & 0xffffu,
        .buffer = imm >> 16 & 7u,
        .piece = imm >> 19 & 7u,
        .kind = imm >> 22 & 3u,
    };

    if (imm >> 24 != 0 || got.kind == GW_PUT_RAW || check_head(&got) != GW_OK)
        return GW_E_PROTO;
    *h = got;
    return GW_OK;
}

static gw_err find_in_buffer(const struct gw_place_slot *s, const struct gw_head *h,
                             uint64_t payload_len, uint8_t **dst_p)
{
    if (payload_len != h->length)
        return GW_E_PROTO;
    /* A receive of 0 bytes may have no address at all, and nothing may be added to that. */
    *dst_p = h->offset == 0 ? s->buf[h->buffer] : s->buf[h->buffer] + h->offset;
    return GW_OK;
}

gw_err gw_place_find(const struct gw_place_table *t, const struct gw_head *h, uint64_t payload_len,
                     uint8_t **dst_p)
{
    const struct gw_place_slot *s = &t->slot[h->number % GW_SLOTS];

    if (!s->open || s->number != h->number || check_head(h) != GW_OK || h->buffer >= s->buffers)
        return GW_E_PROTO;
    if (h->kind == GW_PUT_END) {
        if (payload_len != GW_END_BYTES || h->piece >= t->paths)
            return GW_E_PROTO;
        /* The table is const for this function, the cells are what it hands out. */
        *dst_p = (uint8_t *)s->end[h->buffer][h->piece];
        return GW_OK;
    }
    if (h->offset > s->cap[h->buffer] || h->length > s->cap[h->buffer] - h->offset)
        return GW_E_PROTO;
    if (h->kind != GW_PUT_CODED)
        return find_in_buffer(s, h, payload_len, dst_p);
    if (h->piece >= s->pieces || t->piece_bytes < GW_HEAD_BYTES ||
        payload_len > t->piece_bytes - GW_HEAD_BYTES)
        return GW_E_PROTO;
    *dst_p = s->piece[h->piece] + GW_HEAD_BYTES;
    return GW_OK;
}

gw_err gw_place_take(struct gw_place_table *t, const struct gw_head *h, uint64_t payload_len, uint8_t **dst_p)
{
    struct gw_place_slot *s = &t->slot[h->number % GW_SLOTS];
    gw_err err = gw_place_find(t, h, payload_len, dst_p);

    if (err != GW_OK || h->kind != GW_PUT_CODED)
        return err;
    if (s->taken & 1u << h->piece)
        return GW_E_PROTO;
    s->taken |= (uint8_t)(1u << h->piece);
    return GW_OK;
}

/* Each store is a release: the compiler may neither turn the loop into memcpy (which stores its first
 * bytes last) nor let a flag overtake the data before it, and a weakly ordered machine may not either. */
void gw_place_lines(void *dst, const void *src, uint64_t n)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    uint64_t word;

    for (; n > 0 && (uintptr_t)to % sizeof(word) != 0; n--)
        __atomic_store_n(to++, *from++, __ATOMIC_RELEASE);
    for (; n >= sizeof(word); n -= sizeof(word), to += sizeof(word), from += sizeof(word)) {
        memcpy(&word, from, sizeof(word));
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
    }
    for (; n > 0; n--)
        __atomic_store_n(to++, *from++, __ATOMIC_RELEASE);
}
