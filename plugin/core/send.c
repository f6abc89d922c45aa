/* send.c - what a sender does with an offer: posts, in this order, frames that are ready, whole messages, raw chunks while the
 * link has room, ends; and counts what came back.  Read gw_send_progress, then gw_send_event. */
#include "comm.h"

#include <base/check.h>
#include <base/rule.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stat.h"

/* ---- cookies: what SENT gives back ---- */

enum { NO_CELL = 0 };

static uint64_t cookie_of(const struct gw_req *req, uint32_t cell, uint32_t len, int is_end)
{
    return (uint64_t)len << 32 | (uint64_t)(is_end != 0) << 31 | cell << 16 | req->index;
}

/* ---- one put ---- */

static gw_err post(struct gw_comm *comm, struct gw_req *req, struct gw_put *put, uint32_t cell)
{
    struct gw_send *s = &req->s;
    struct gw_lane *lane = comm->is.lane;
    int is_end = put->head.kind == GW_PUT_END;
    gw_err err;

    put->head.number = s->head.number;
    put->head.buffer = s->head.buffer;
    put->flags |= GW_PUTF_SIGNAL | (put->head.kind == GW_PUT_RAW ? 0 : GW_PUTF_IMM);
    put->cookie = cookie_of(req, cell, is_end ? 0 : put->len, is_end);
    err = lane->ops->put(lane, put);
    if (err == GW_AGAIN)
        return err;
    if (err != GW_OK) {
        gw_comm_lane_failed(comm, err);
        return GW_AGAIN;
    }
    s->unsent++;
    comm->posted_puts++;
    comm->worked++;
    if (is_end)
        gw_stat_add(&gw_stat->control_msgs, 1);
    else
        gw_policy_posted(&comm->policy, put->len, gw_comm_now(comm)), gw_stat_add(&gw_stat->wire_sent, put->len);
    s->mark_puts = comm->posted_puts;
    s->mark_bytes = comm->policy.posted;
    GW_PHASE(move);
    return GW_OK;
}

static gw_err post_user_bytes(struct gw_comm *comm, struct gw_req *req, enum gw_put_kind kind, uint32_t offset,
                              uint32_t length, uint8_t path)
{
    struct gw_put put = {
        .head = { .kind = (uint8_t)kind, .offset = offset, .length = length },
        .flags = req->s.lines ? GW_PUTF_LINES : 0,
        .path = path,
        .src = req->s.data + offset,
        .len = length,
        .region = req->s.mem ? &req->s.mem->region : NULL,
        .addr = req->s.to.addr + offset,
    };

    for (int i = 0; i < GW_KEYS_MAX; i++)
        put.key[i] = req->s.to.key[i];
    return post(comm, req, &put, NO_CELL);
}

/* ---- whole messages ---- */

/* Its peer may finish it from now on, and offer its slot anew before we hear of that. */
static void posted_all(struct gw_comm *comm, const struct gw_req *req)
{
    comm->advert[req->s.head.number % GW_SLOTS].unposted--;
}

/* Without an end record: one path carries it, and nobody wants its hash. */
static int in_one_put(const struct gw_comm *comm, const struct gw_send *s)
{
    return !comm->is.agreed.check && (comm->is.lane->paths == 1 || s->size <= comm->is.agreed.chunk_bytes || s->lines);
}

/* front = back = chunks = 1 from now on: all of it is posted. */
static void post_whole(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_send *s = &req->s;

    if (in_one_put(comm, s)) {
        if (post_user_bytes(comm, req, GW_PUT_WHOLE, 0, s->size, 0) != GW_OK)
            return;
        s->cut = 1; /* no ends */
        posted_all(comm, req);
    } else if (s->size > 0) {
        if (post_user_bytes(comm, req, GW_PUT_RAW, 0, s->size, 0) != GW_OK)
            return;
        s->raw[0] = s->size;
    }
    s->chunks = s->front = s->back = 1;
    gw_stat_add(&gw_stat->chunks_raw, (s->size + comm->is.agreed.chunk_bytes - 1) / comm->is.agreed.chunk_bytes);
}

/* ---- frames ---- */

static gw_err post_frame(struct gw_comm *comm, struct gw_cell *cell)
{
    struct gw_req *req = cell->req;
    const struct gw_offer *offer = &comm->advert[req->s.head.number % GW_SLOTS].offer;
    struct gw_put put = {
        .head = { .kind = GW_PUT_CODED, .piece = cell->peer_piece, .offset = cell->offset, .length = cell->length },
        .src = cell->piece.base,
        .len = (uint32_t)cell->job.out_len,
        .region = gw_slab_region(comm->is.slab),
        .addr = offer->piece_addr[cell->peer_piece],
    };
    gw_err err;

    for (int i = 0; i < GW_KEYS_MAX; i++)
        put.key[i] = offer->piece_key[i];
    put.head.number = req->s.head.number, put.head.buffer = req->s.head.buffer;
    gw_head_write(cell->piece.base, &put.head); /* a lane that writes memory takes it along */
    err = post(comm, req, &put, (uint32_t)(cell - comm->cell) + 1);
    if (err != GW_OK)
        return err;
    req->s.coded++;
    cell->state = GW_CELL_POSTED;
    GW_PHASE(frame);
    gw_stat_add(&gw_stat->chunks_coded, 1);
    return GW_OK;
}

/* The codec answered GW_RAW: its chunk goes as it is, late but in no other order than any raw chunk. */
static gw_err post_refused(struct gw_comm *comm, struct gw_cell *cell)
{
    struct gw_req *req = cell->req;
    uint8_t path = (uint8_t)(cell->chunk % comm->is.lane->paths);
    gw_err err = post_user_bytes(comm, req, GW_PUT_RAW, cell->offset, cell->length, path);

    if (err != GW_OK)
        return err;
    req->s.raw[path] += cell->length;
    cell->state = GW_CELL_FREE;
    gw_stat_add(&gw_stat->chunks_raw, 1);
    return GW_OK;
}

static void post_ready(struct gw_comm *comm)
{
    for (int i = 0; comm->ready > 0 && i < GW_CELLS; i++) {
        struct gw_cell *cell = &comm->cell[i];
        if (cell->state != GW_CELL_READY)
            continue;
        struct gw_req *req = cell->req;
        if ((cell->job.err == GW_OK ? post_frame(comm, cell) : post_refused(comm, cell)) != GW_OK)
            return;
        req->s.cells--;
        comm->ready--;
    }
}

/* ---- raw chunks, from the back ---- */

/* No piece of ours is free, and none will be by anything that this comm waits for: others hold them all. */
static int starved(const struct gw_comm *comm)
{
    if (comm->coding > 0 || comm->ready > 0 || gw_slab_left(comm->is.slab, GW_SLAB_OWN) > 0)
        return 0;
    for (int i = 0; i < GW_CELLS; i++)
        if (comm->cell[i].state == GW_CELL_POSTED)
            return 0;
    return 1;
}

/* With policy `always` raw only carries what no codec will ever take. */
static int raw_may_take(const struct gw_comm *comm, const struct gw_req *req)
{
    if (req->s.whole || req->s.front == req->s.back)
        return 0;
    return comm->is.mode != GW_POLICY_ALWAYS || comm->advert[req->s.head.number % GW_SLOTS].offer.pieces == 0 ||
           starved(comm);
}

static struct gw_req *oldest_untaken(struct gw_comm *comm)
{
    gw_list_each (node, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (raw_may_take(comm, req))
            return req;
        if (!GW_RULE(7))
            return NULL;
    }
    return NULL;
}

static void post_raw(struct gw_comm *comm, uint64_t window)
{
    struct gw_req *req;

    while (comm->untaken > 0 && comm->ready == 0 && gw_policy_on_way(&comm->policy) < window &&
           (req = oldest_untaken(comm)) != NULL) {
        uint32_t chunk = req->s.back - 1;
        uint32_t length = gw_chunk_length(comm, req, chunk);
        uint8_t path = (uint8_t)(chunk % comm->is.lane->paths);
        if (post_user_bytes(comm, req, GW_PUT_RAW, gw_chunk_offset(comm, chunk), length, path) != GW_OK)
            return;
        req->s.raw[path] += length;
        req->s.back--;
        comm->untaken -= length;
        gw_stat_add(&gw_stat->chunks_raw, 1);
    }
}

/* ---- ends ---- */

static int all_posted(const struct gw_send *s)
{
    return s->chunks > 0 && s->front == s->back && s->cells == 0;
}

static void count_ends(struct gw_comm *comm, struct gw_send *s)
{
    for (int p = 0; p < comm->is.lane->paths; p++)
        if (s->raw[p] > 0)
            s->ends_left |= (uint8_t)(1u << p), s->ends++;
    if (s->ends == 0)
        s->ends_left = 1, s->ends = 1;
    s->hash = comm->is.agreed.check ? XXH3_64bits(s->data, s->size) : 0;
    s->cut = 1;
}

static void post_end(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_send *s = &req->s;

    if (!s->cut)
        count_ends(comm, s);
    for (uint8_t p = 0; s->ends_left != 0 && p < GW_PATHS_MAX; p++) {
        uint8_t record[GW_END_BYTES];
        struct gw_end end = { .number = s->head.number, .buffer = s->head.buffer, .ends = s->ends, .path = p,
                              .total = s->size, .raw = s->raw[p], .coded = s->coded, .hash = s->hash };
        struct gw_put put = { .head = { .kind = GW_PUT_END, .piece = p }, .path = p, .src = record,
                              .len = GW_END_BYTES };
        if (!(s->ends_left & 1u << p))
            continue;
        gw_end_write(record, &end);
        if (post(comm, req, &put, NO_CELL) != GW_OK)
            return;
        s->ends_left &= (uint8_t)~(1u << p);
        if (s->ends_left == 0)
            posted_all(comm, req);
        GW_PHASE(end);
    }
}

/* ---- done ---- */

static int landed(const struct gw_comm *comm, const struct gw_send *s)
{
    return (comm->is.lane->caps & GW_LANE_SENT_IS_LANDED) || !GW_RULE(12) ||
           (comm->landed_puts >= s->mark_puts && comm->policy.landed >= s->mark_bytes);
}

static void end_if_done(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_send *s = &req->s;

    if (!s->cut || s->ends_left != 0 || s->unsent != 0 || !landed(comm, s))
        return;
    GW_PHASE(done);
    gw_stat_add(&gw_stat->sends, 1);
    gw_stat_add(&gw_stat->raw_sent, s->size);
    gw_req_end(req, GW_OK);
    gw_policy_done(&comm->policy, s->size, comm->outstanding, gw_comm_now(comm));
}

void gw_send_progress(struct gw_comm *comm)
{
    gw_chunk_results(comm);
    post_ready(comm);
    gw_list_each (node, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (!req->s.whole || req->s.chunks != 0)
            continue;
        /* what an older message kept for a codec that has nothing to do would wait behind this one, for ever */
        if (comm->untaken > 0 && !gw_policy_coding(&comm->policy, gw_comm_now(comm)))
            post_raw(comm, UINT64_MAX);
        post_whole(comm, req);
    }
    gw_chunk_code(comm);
    gw_chunk_results(comm);
    post_ready(comm);
    post_raw(comm, gw_policy_window(&comm->policy));
    gw_list_each_safe (node, tmp, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (all_posted(&req->s) && (!req->s.cut || req->s.ends_left != 0))
            post_end(comm, req);
        if (req->s.cut)
            end_if_done(comm, req);
    }
}

/* ---- what the lane reports ---- */

static void sent(struct gw_comm *comm, uint64_t cookie)
{
    struct gw_req *req = &comm->send[(cookie & 0xffff) % GW_SENDS_MAX];
    uint32_t cell = cookie >> 16 & 0x7fff;

    /* nothing ends a send while its bytes are the lane's, but an error: and then nobody comes here */
    gw_assert(req->state == GW_REQ_MOVE && req->s.unsent > 0);
    req->s.unsent--;
    if (cell != NO_CELL) {
        comm->cell[cell - 1].state = GW_CELL_FREE;
        gw_slab_back(comm->is.slab, &comm->cell[cell - 1].piece);
    }
    if (comm->is.lane->caps & GW_LANE_SENT_IS_LANDED)
        gw_policy_landed(&comm->policy, comm->policy.landed + (cookie >> 32), gw_comm_now(comm));
}

static void offered(struct gw_comm *comm, const uint8_t *msg, uint32_t len)
{
    struct gw_offer o;
    struct gw_advert *ad;

    if (gw_offer_read(msg, len, &o) != GW_OK) {
        gw_comm_fail(comm, GW_E_PROTO, 0, "an offer of %u bytes does not follow the format", len);
        return;
    }
    ad = &comm->advert[o.number % GW_SLOTS];
    /* Inside the window of numbers that may be open, and its slot free: all buffers of the one before are matched, and their
     * sends have posted all.  They may well wait still for SENT and landed: the receiver opens a slot anew when it has the
     * whole message, and what it says of that may come later than this. */
    if (o.number - comm->next >= GW_SLOTS ||
        (ad->open && (ad->unmatched != 0 || ad->unposted != 0 || ad->offer.number == o.number))) {
        gw_comm_fail(comm, GW_E_PROTO, o.number, "offer %u comes while %u is the oldest open one", o.number, comm->next);
        return;
    }
    ad->offer = o;
    comm->policy.peer_crowded = (o.hint & GW_HINT_CROWDED) != 0;
    ad->open = 1;
    ad->unmatched = (uint8_t)((1u << o.buffers) - 1);
    ad->unposted = 0;
    for (int i = 0; i < GW_PIECES_MAX; i++)
        ad->granted[i] = 1, ad->used[i] = 0;
    GW_PHASE(offer);
}

static void granted(struct gw_comm *comm, const uint8_t *msg, uint32_t len)
{
    struct gw_grant g;
    struct gw_advert *ad;

    if (gw_grant_read(msg, len, &g) != GW_OK) {
        gw_comm_fail(comm, GW_E_PROTO, 0, "a grant of %u bytes does not follow the format", len);
        return;
    }
    ad = &comm->advert[g.number % GW_SLOTS];
    if (!ad->open || (ad->offer.number != g.number && GW_RULE(4)))
        return; /* late: that message is through */
    for (int i = 0; i < ad->offer.pieces; i++) {
        if (!GW_RULE(4)) {
            ad->granted[i] = ad->used[i] + 1; /* "it is free again", however often that comes */
            continue;
        }
        if ((int32_t)(g.count[i] - ad->used[i]) > 1) {
            gw_comm_fail(comm, GW_E_PROTO, g.number, "piece %d is granted %u times and was used %u times", i, g.count[i],
                         ad->used[i]);
            return;
        }
        if ((int32_t)(g.count[i] - ad->granted[i]) > 0)
            ad->granted[i] = g.count[i];
    }
    GW_PHASE(grant);
}

static void landed_told(struct gw_comm *comm, const uint8_t *msg, uint32_t len)
{
    struct gw_landed l;

    if (gw_landed_read(msg, len, &l) != GW_OK || l.bytes > comm->policy.posted || l.puts > comm->posted_puts) {
        gw_comm_fail(comm, GW_E_PROTO, 0, "peer reports more landed than was posted (%llu bytes, %llu puts)",
                     (unsigned long long)comm->policy.posted, (unsigned long long)comm->posted_puts);
        return;
    }
    comm->landed_puts = gw_max_u64(comm->landed_puts, l.puts);
    gw_policy_landed(&comm->policy, l.bytes, gw_comm_now(comm));
    gw_policy_peer(&comm->policy, l.decode_ns_kib);
    GW_PHASE(count);
}

/* A message of the lane holds one or more of the protocol's. */
static void told(struct gw_comm *comm, const struct gw_event *ev)
{
    const uint8_t *msg = ev->msg;
    uint32_t left = ev->len, len;
    enum gw_msg_kind kind;

    do {
        if (gw_msg_next(msg, left, &kind, &len) != GW_OK) {
            gw_comm_fail(comm, GW_E_PROTO, 0, "a message of %u bytes follows no format", left);
            return;
        }
        if (kind == GW_MSG_OFFER)
            offered(comm, msg, len);
        else if (kind == GW_MSG_GRANT)
            granted(comm, msg, len);
        else
            landed_told(comm, msg, len);
        msg += len, left -= len;
    } while (left > 0 && !atomic_load_explicit(&comm->broken, memory_order_relaxed));
}

void gw_send_event(struct gw_comm *comm, const struct gw_event *ev)
{
    if (ev->kind == GW_EV_SENT)
        sent(comm, ev->cookie);
    else if (ev->kind == GW_EV_MSG)
        told(comm, ev);
    else
        gw_comm_fail(comm, GW_E_PROTO, ev->head.number, "a receiver sent bytes to a sender");
}
