/* comm_peer.h - what the peer of fuzz_comm.c does: messages and puts, well-formed or changed, in any order. */
#ifndef GW_FUZZ_COMM_PEER_H
#define GW_FUZZ_COMM_PEER_H

#include <gradwire/frame.h>

#include "comm_bed.h"

/* ---- the peer of a receiver: puts ---- */

/* Mostly one of the numbers that are open. */
static uint32_t some_number(void)
{
    uint8_t how = u8();
    uint32_t newest = comm->is.is_send ? comm->next : comm->number - 1;
    return how < 0xc0 ? newest - how % 4 : how < 0xf0 ? newest - 20 + how % 64 : newest + ((uint32_t)how << 28);
}

static void report_landed(const struct gw_head *h, uint32_t len)
{
    struct gw_event ev = { .kind = GW_EV_LANDED, .head = *h, .len = len, .path = h->kind == GW_PUT_END ? h->piece : 0 };

    if (!(bed.lane.caps & GW_LANE_FENCED))
        report(&ev, NULL, 0);
    else if (h->kind != GW_PUT_RAW && gw_imm_read(gw_imm_write(h), &ev.head) == GW_OK)
        report(&ev, NULL, 0);
}

/* On a FENCED lane the peer writes into a lent piece what it likes, the head too. */
static void write_piece(const struct gw_head *h, const uint8_t *payload, uint32_t len)
{
    struct gw_head piece = { .number = h->number, .kind = GW_PUT_CODED, .piece = h->piece };
    uint8_t *dst;

    if (gw_place_find(bed.places, &piece, len, &dst) != GW_OK)
        return;
    gw_head_write(dst - GW_HEAD_BYTES, h);
    mutate(dst - GW_HEAD_BYTES, GW_HEAD_BYTES);
    memcpy(dst, payload, len);
    report_landed(h, len);
}

/* No worker reads the piece, and the peer may fill it: what a lane that asks lets through. */
static int granted_piece(const struct gw_head *h)
{
    const struct gw_cell *cell = &comm->lent[h->number % GW_SLOTS * GW_PIECES_MAX + h->piece];
    return cell->state == GW_CELL_FREE && !cell->ungranted;
}

/* As a lane does: only heads that can be read, and only where the offers allow it. */
static void put(const struct gw_head *h, const uint8_t *payload, uint32_t len)
{
    uint8_t bytes[GW_HEAD_BYTES], *dst;
    struct gw_head got;

    if (bed.failed || bed.shut || bed.events == EVENTS)
        return;
    if ((bed.lane.caps & GW_LANE_FENCED) && h->kind == GW_PUT_CODED) {
        write_piece(h, payload, len);
        return;
    }
    gw_head_write(bytes, h);
    mutate(bytes, sizeof bytes);
    if (gw_head_read(bytes, sizeof bytes, &got) != GW_OK ||
        gw_place_take(bed.places, &got, len, &dst) != GW_OK)
        return;
    if (got.kind == GW_PUT_CODED) {
        gw_assert(granted_piece(&got));
        memcpy(dst - GW_HEAD_BYTES, bytes, sizeof bytes);
    }
    if (len > 0)
        memcpy(dst, payload, len);
    report_landed(&got, len);
}

static void put_bytes(enum gw_put_kind kind)
{
    struct gw_head h = { .number = some_number(), .buffer = u8() % 2, .kind = (uint8_t)kind };

    h.offset = kind == GW_PUT_WHOLE ? 0 : u16() % SEND_MAX;
    h.length = u16() % SEND_MAX;
    put(&h, pattern[2 + bed.landed++ % 2], h.length);
}

static void put_frame(void)
{
    uint8_t how = u8(), frame[CHUNK + GW_HEAD_BYTES] = { 0 };
    struct gw_head h = { .number = some_number(), .buffer = u8() % 2, .kind = GW_PUT_CODED, .piece = how & 3 };
    struct gw_coding coding = { .size = sizeof coding, .view = (how >> 2) % GW_VIEW_COUNT };
    size_t len = 0;

    h.offset = (u8() & 3) * 512u;
    h.length = 1 + u16() % CHUNK;
    if (gw_frame_encode(gw_codec_by_id(how & 0x80 ? GW_CODEC_RAW : GW_CODEC_GROUP), &coding, how >> 6 & 1, pattern[how & 1],
                        h.length, frame, CHUNK, &len, ws) != GW_OK)
        len = u16() % sizeof frame;
    mutate(frame, (uint32_t)len);
    put(&h, frame, (uint32_t)len);
}

/* Mostly an end that says what has landed. */
static void put_end(void)
{
    uint8_t how = u8(), bytes[GW_END_BYTES];
    struct gw_end e = { .number = some_number(), .buffer = u8() % 2, .path = how & 3, .ends = 1 + (how >> 2 & 3) };
    const struct gw_recv_buf *b = &comm->recv[e.number % GW_SLOTS].r.buf[e.buffer];
    struct gw_head h = { .number = e.number, .buffer = e.buffer, .kind = GW_PUT_END, .piece = e.path };

    e.total = b->raw + b->decoded + (how & 0x10 ? u16() : 0);
    e.raw = how & 0x20 ? u16() : e.total - b->decoded;
    e.coded = how & 0x40 ? u8() : 0;
    e.hash = how & 0x80 ? u32() : 0;
    gw_end_write(bytes, &e);
    mutate(bytes, sizeof bytes);
    put(&h, bytes, sizeof bytes);
}

/* A report of what was never stored: a peer that writes memory itself can raise one. */
static void bare_landed(void)
{
    uint8_t bytes[GW_HEAD_BYTES];
    struct gw_head h;

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = u8();
    bytes[7] = 0;
    gw_put32(bytes, some_number());
    if (gw_head_read(bytes, sizeof bytes, &h) == GW_OK)
        report_landed(&h, u32() >> (bytes[4] & 31));
}

/* ---- the peer of a sender: messages ---- */

static void say(uint8_t *msg, uint32_t len)
{
    struct gw_event ev = { .kind = GW_EV_MSG };
    struct gw_offer o;

    mutate(msg, len);
    if (gw_offer_read(msg, len, &o) == GW_OK) {
        if (bed.offers == OFFERS)
            return;
        bed.offer[bed.offers++] = o;
    }
    if (len > sizeof bed.bag - bed.bagged)
        report(&ev, bed.bag, bed.bagged), bed.bagged = 0;
    memcpy(bed.bag + bed.bagged, msg, len);
    bed.bagged += len;
    if (u8() & 3) /* else more goes into the same message */
        report(&ev, bed.bag, bed.bagged), bed.bagged = 0;
}

static void say_offer(void)
{
    uint8_t how = u8(), bytes[GW_OFFER_MAX];
    struct gw_offer o = { .number = some_number(), .buffers = 1 + (how & 7), .pieces = how >> 3 & 3,
                          .hint = how >> 5 & 1 };

    o.pieces = (uint8_t)(o.pieces + (how >> 6 & 1));
    for (int i = 0; i < o.pieces; i++)
        o.piece_addr[i] = 0x10000u * (1u + (unsigned)i), o.piece_bytes = how & 0x80 ? 17u + u8() : CHUNK + GW_HEAD_BYTES;
    for (int i = 0; i < o.buffers; i++)
        o.buf[i] = (struct gw_offer_buf){ .addr = 0x1000000u * (1u + (unsigned)i), .cap = u8() * 64u, .tag = i & 1 };
    say(bytes, gw_offer_write(bytes, &o));
}

static void say_grant(void)
{
    uint8_t bytes[GW_GRANT_BYTES], how = u8();
    struct gw_grant g = { .number = some_number() };
    const struct gw_advert *ad = &comm->advert[g.number % GW_SLOTS];

    for (int i = 0; i < GW_PIECES_MAX; i++)
        g.count[i] = ad->used[i] + (how >> (2 * i) & 1) + (how == 0xff);
    gw_grant_write(bytes, &g);
    say(bytes, sizeof bytes);
}

static void say_landed(void)
{
    uint8_t bytes[GW_LANDED_BYTES], how = u8();
    struct gw_landed l = { .bytes = comm->policy.posted - (how & 1 ? u16() : 0),
                           .puts = comm->posted_puts - (how >> 1 & 3) };

    gw_landed_write(bytes, &l);
    gw_put32(bytes + 4, u16()); /* what it says of its decoder */
    say(bytes, sizeof bytes);
}

static void say_bytes(void)
{
    uint8_t msg[GW_MSG_MAX];
    uint32_t len = 1 + u8() % 64u;

    for (uint32_t i = 0; i < len; i++)
        msg[i] = u8();
    say(msg, len);
}

static void sent(void)
{
    struct gw_event ev = { .kind = GW_EV_SENT };
    unsigned which;

    if (bed.puts == 0 || bed.events == EVENTS || bed.failed || bed.shut)
        return;
    which = u8() % bed.puts;
    read_all(bed.put[which].src, bed.put[which].len); /* the lane's until now, whatever the peer said */
    ev.cookie = bed.put[which].cookie;
    bed.put[which] = bed.put[--bed.puts];
    report(&ev, NULL, 0);
}

static void of_peer(uint8_t op)
{
    static void (*const to_sender[])(void) = { say_offer, say_offer, say_grant, say_landed, say_bytes, sent, sent };

    if (comm->is.is_send && op < 7)
        to_sender[op]();
    else if (comm->is.is_send || op == 6)
        bare_landed();
    else if (op < 2)
        put_bytes(op == 0 ? GW_PUT_RAW : GW_PUT_WHOLE);
    else if (op < 4)
        put_frame();
    else if (op == 4)
        put_end();
    else
        say_bytes();
}
#endif
