/* recv.c - what a receiver does: says its offers, counts what lands, decodes, grants pieces again, tells what has landed.
 * Read gw_recv_event, then gw_recv_progress. */
#include "comm.h"

#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <base/rule.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stat.h"

enum { QUIET = 16 }; /* empty polls: about as long as a small message is under way */

static struct gw_cell *cell_of(struct gw_comm *comm, const struct gw_req *req, unsigned piece)
{
    return &comm->lent[req->index * GW_PIECES_MAX + piece];
}

/* What goes in one message of the lane: each costs the host's thread more than all the bytes that fit.  What a part says is marked
 * as said when the message has left, so a lane that is full loses nothing. */
struct words {
    uint8_t bytes[GW_MSG_MAX];
    uint32_t len;
    int offers, tells;
    struct gw_req *offer[GW_MSG_MAX / (2 * GW_LINE)];
    struct gw_landed landed;
};

static void begin(struct words *w)
{
    w->len = 0;
    w->offers = w->tells = 0;
}

static void said(struct gw_comm *comm, const struct words *w)
{
    for (int i = 0; i < w->offers; i++) {
        w->offer[i]->r.unsaid = 0;
        gw_req_to(w->offer[i], GW_REQ_MOVE);
        GW_PHASE(offer);
    }
    if (w->tells) {
        comm->told_bytes = w->landed.bytes, comm->told_puts = w->landed.puts;
        comm->tell = 0;
        GW_PHASE(count);
    }
}

/* Sends what has gathered.  GW_AGAIN: it did not leave. */
static gw_err say(struct gw_comm *comm, struct words *w)
{
    gw_err err = w->len == 0 ? GW_OK : comm->is.lane->ops->msg(comm->is.lane, w->bytes, w->len);

    if (err == GW_AGAIN)
        return err;
    if (err != GW_OK) {
        gw_comm_lane_failed(comm, err);
        return GW_AGAIN;
    }
    if (w->len > 0)
        gw_stat_add(&gw_stat->control_msgs, 1), comm->worked++;
    said(comm, w);
    begin(w);
    return GW_OK;
}

/* ---- offers ---- */

static gw_err say_offer(struct gw_comm *comm, struct gw_req *req, struct words *w)
{
    const struct gw_recv *r = &req->r;
    struct gw_offer o = { .number = r->number, .buffers = r->n, .pieces = r->pieces, .hint = r->hint };

    if (comm->policy.crowd.crowded)
        o.hint |= GW_HINT_CROWDED;

    for (int i = 0; i < r->pieces; i++)
        o.piece_addr[i] = (uintptr_t)cell_of(comm, req, i)->piece.base;
    if (r->pieces > 0) {
        o.piece_bytes = gw_slab_piece_bytes(comm->is.slab);
        memcpy(o.piece_key, gw_slab_region(comm->is.slab)->key, sizeof o.piece_key);
    }
    for (int i = 0; i < r->n; i++) {
        o.buf[i] = (struct gw_offer_buf){ .addr = (uintptr_t)r->buf[i].data, .cap = r->buf[i].cap, .tag = r->buf[i].tag };
        if (r->buf[i].mem != NULL)
            memcpy(o.buf[i].key, r->buf[i].mem->region.key, sizeof o.buf[i].key);
    }
    if (gw_offer_bytes(r->n) > sizeof w->bytes - w->len && say(comm, w) != GW_OK)
        return GW_AGAIN;
    w->len += gw_offer_write(w->bytes + w->len, &o);
    w->offer[w->offers++] = req;
    return GW_OK;
}

/* ---- what has landed ---- */

/* The open receive that a put names; NULL and the comm is broken where there is none. */
static struct gw_req *named(struct gw_comm *comm, const struct gw_head *h)
{
    struct gw_req *req = &comm->recv[h->number % GW_SLOTS];

    if (req->state != GW_REQ_MOVE || (uint16_t)req->r.number != (uint16_t)h->number || h->buffer >= req->r.n) {
        gw_comm_fail(comm, GW_E_PROTO, h->number, "a put names message %u buffer %u, which is not open", h->number,
                     h->buffer);
        return NULL;
    }
    return req;
}

static void add_bytes(struct gw_comm *comm, struct gw_req *req, struct gw_recv_buf *b, uint32_t *counter, uint32_t n)
{
    uint32_t limit = b->ends_come > 0 ? b->total : b->cap;

    if (n > limit - b->raw - b->decoded) {
        gw_comm_fail(comm, GW_E_PROTO, req->r.number, "%u bytes land where %u of %u are missing", n,
                     limit - b->raw - b->decoded, limit);
        return;
    }
    *counter += n;
}

static void whole_landed(struct gw_comm *comm, struct gw_req *req, struct gw_recv_buf *b, uint32_t n)
{
    if (b->ends_come > 0 || b->raw + b->decoded > 0 || n > b->cap) {
        gw_comm_fail(comm, GW_E_PROTO, req->r.number, "a whole message lands on one that has begun");
        return;
    }
    b->total = b->raw = n;
    b->ends = b->ends_come = b->whole = 1;
}

static int end_fits(const struct gw_comm *comm, const struct gw_req *req, const struct gw_recv_buf *b,
                    const struct gw_head *h, const struct gw_end *e)
{
    if (e->number != req->r.number || e->buffer != h->buffer || e->path != h->piece || e->path >= comm->is.lane->paths)
        return 0;
    if (e->ends == 0 || e->ends > comm->is.lane->paths || e->total > b->cap || e->raw > e->total || b->whole)
        return 0;
    if (b->raw + b->decoded > e->total)
        return 0;
    return b->ends_come == 0 || (e->ends == b->ends && e->total == b->total && e->coded == b->coded &&
                                 e->hash == b->hash && b->ends_come < b->ends);
}

static void end_landed(struct gw_comm *comm, struct gw_req *req, struct gw_recv_buf *b, const struct gw_head *h)
{
    uint8_t record[GW_END_BYTES];
    struct gw_end e;

    gw_copy_once(record, comm->places->slot[req->index].end[h->buffer][h->piece], sizeof record);
    if (gw_end_read(record, sizeof record, &e) != GW_OK || !end_fits(comm, req, b, h, &e)) {
        gw_comm_fail(comm, GW_E_PROTO, req->r.number, "an end record contradicts what has landed");
        return;
    }
    b->ends = e.ends, b->total = e.total, b->coded = e.coded, b->hash = e.hash;
    b->ends_come++;
    GW_PHASE(end);
    /* a FENCED lane reports no plain put: the end says what its path carried */
    if ((comm->is.lane->caps & GW_LANE_FENCED) || !GW_RULE(2))
        add_bytes(comm, req, b, &b->raw, e.raw);
}

/* ---- frames ---- */

static gw_err start_decode(struct gw_comm *comm, struct gw_cell *cell)
{
    const struct gw_env *env = comm->is.env;

    if (env->workers(env->arg) > 0 && env->post(env->arg, &cell->job) == GW_OK)
        return GW_OK;
    gw_job_run(&cell->job, comm->scratch, env->now_ns, env->arg);
    return GW_OK;
}

static void frame_landed(struct gw_comm *comm, struct gw_req *req, struct gw_recv_buf *b, const struct gw_event *ev)
{
    struct gw_cell *cell = ev->head.piece < req->r.pieces ? cell_of(comm, req, ev->head.piece) : NULL;
    uint8_t bytes[GW_HEAD_BYTES] = { 0 };
    struct gw_head h;

    /* the head that stands in the piece is the whole one; a direct write was checked by nobody yet, and may go on */
    if (cell != NULL)
        gw_copy_once(bytes, cell->piece.base, sizeof bytes);
    if (cell == NULL || cell->state != GW_CELL_FREE || cell->ungranted || gw_head_read(bytes, sizeof bytes, &h) != GW_OK || h.number != req->r.number ||
        h.kind != GW_PUT_CODED || h.buffer != ev->head.buffer || h.piece != ev->head.piece || h.offset > b->cap ||
        h.length > b->cap - h.offset || ev->len > gw_slab_piece_bytes(comm->is.slab) - GW_HEAD_BYTES) {
        gw_comm_fail(comm, GW_E_PROTO, req->r.number, "a frame lands in a piece that was not granted for it");
        return;
    }
    cell->req = req, cell->buffer = h.buffer, cell->offset = h.offset, cell->length = h.length;
    cell->job = (struct gw_job){ .kind = GW_JOB_DECODE, .src = cell->piece.base + GW_HEAD_BYTES, .src_len = ev->len,
                                 .dst = b->data + h.offset, .dst_cap = h.length, .post_ns = gw_comm_now(comm) };
    cell->state = GW_CELL_WORK;
    req->r.jobs++;
    comm->decoding++;
    start_decode(comm, cell);
    GW_PHASE(frame);
}

static void decoded(struct gw_comm *comm, struct gw_cell *cell)
{
    struct gw_req *req = cell->req;

    gw_stat_add(&gw_stat->decode_ns, cell->job.cpu_ns);
    gw_stat_add(&gw_stat->decode_bytes, cell->length);
    gw_policy_decoded(&comm->policy, cell->length, cell->job.end_ns - cell->job.start_ns, cell->job.cpu_ns);
    gw_chunk_look(comm);
    cell->state = GW_CELL_FREE;
    cell->ungranted = 1;
    comm->decoding--;
    comm->worked++;
    req->r.jobs--;
    if (cell->job.err != GW_OK) {
        gw_comm_fail(comm, cell->job.err, req->r.number, "a frame of %zu bytes at offset %u does not decode",
                     cell->job.src_len, cell->offset);
        return;
    }
    add_bytes(comm, req, &req->r.buf[cell->buffer], &req->r.buf[cell->buffer].decoded, cell->length);
}

static void take_results(struct gw_comm *comm)
{
    for (int i = 0; comm->decoding > 0 && i < GW_SLOTS * GW_PIECES_MAX; i++) {
        struct gw_cell *cell = &comm->lent[i];
        if (cell->state == GW_CELL_WORK && atomic_load_explicit(&cell->job.done, memory_order_acquire))
            decoded(comm, cell);
    }
}

/* Half of the pieces of a message wait: the peer may fill them again. */
static void grant(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_grant g = { .number = req->r.number };
    struct words w;
    int waiting = 0;

    for (int i = 0; i < req->r.pieces; i++) {
        struct gw_cell *cell = cell_of(comm, req, i);
        waiting += cell->ungranted;
        g.count[i] = cell->granted + cell->ungranted;
    }
    if (waiting == 0 || waiting * 2 < req->r.pieces)
        return;
    begin(&w);
    gw_grant_write(w.bytes, &g);
    w.len = GW_GRANT_BYTES;
    if (say(comm, &w) != GW_OK)
        return;
    for (int i = 0; i < req->r.pieces; i++) {
        struct gw_cell *cell = cell_of(comm, req, i);
        if (cell->ungranted)
            comm->places->slot[req->index].taken &= (uint8_t)~(1u << i);
        cell->granted += cell->ungranted;
        cell->ungranted = 0;
    }
    GW_PHASE(grant);
}

/* ---- done ---- */

static int hash_right(struct gw_comm *comm, struct gw_req *req, const struct gw_recv_buf *b)
{
    if (!comm->is.agreed.check || b->whole || XXH3_64bits(b->data, b->total) == b->hash)
        return 1;
    gw_comm_fail(comm, GW_E_CHECK, req->r.number, "the %u bytes that arrived are not the %u bytes that left", b->total,
                 b->total);
    return 0;
}

static void finish_buffers(struct gw_comm *comm, struct gw_req *req)
{
    for (int i = 0; i < req->r.n; i++) {
        struct gw_recv_buf *b = &req->r.buf[i];
        if (b->done || b->ends_come == 0 || b->ends_come < b->ends || (b->raw + b->decoded != b->total && GW_RULE(6)))
            continue;
        if (!hash_right(comm, req, b))
            return;
        b->done = 1;
        comm->tell = 1;
        comm->small = b->total < comm->is.agreed.chunk_bytes;
        req->r.mark_puts = comm->landed_total_puts;
    }
}

static int all_done(const struct gw_recv *r)
{
    for (int i = 0; i < r->n; i++)
        if (!r->buf[i].done)
            return 0;
    return r->jobs == 0;
}

/* What has landed, if there is reason to say it now. */
static void tell_landed(struct gw_comm *comm, struct words *w)
{
    struct gw_landed l = { .bytes = comm->landed_bytes, .puts = comm->landed_total_puts };
    const struct gw_policy *p = &comm->policy;

    /* nobody counts on it, or nobody is left who does */
    if ((comm->is.lane->caps & GW_LANE_SENT_IS_LANDED) || comm->peer_left_ns != 0) {
        comm->told_puts = l.puts;
        return;
    }
    if (l.puts == comm->told_puts ||
        (!comm->tell && l.bytes - comm->told_bytes < comm->is.agreed.chunk_bytes))
        return;
    if (GW_LANDED_BYTES > sizeof w->bytes - w->len && say(comm, w) != GW_OK)
        return;
    l.decode_ns_kib = p->jobs_seen > 0 ? (uint32_t)gw_min_u64(p->decode_ns_kib, UINT32_MAX) : 0;
    gw_landed_write(w->bytes + w->len, &l);
    w->len += GW_LANDED_BYTES;
    w->landed = l;
    w->tells = 1;
}

static void close_slot(struct gw_comm *comm, struct gw_req *req)
{
    comm->places->slot[req->index].open = 0;
    for (int i = 0; i < req->r.pieces; i++)
        gw_slab_back(comm->is.slab, &cell_of(comm, req, i)->piece);
    req->r.pieces = 0;
}

/* waits: the host has another receive open, and calls again for it. */
static void end_if_done(struct gw_comm *comm, struct gw_req *req, int waits)
{
    if (!all_done(&req->r) || (!waits && comm->told_puts < req->r.mark_puts))
        return;
    GW_PHASE(done);
    close_slot(comm, req);
    gw_stat_add(&gw_stat->recvs, 1);
    for (int i = 0; i < req->r.n; i++)
        gw_stat_add(&gw_stat->raw_recved, req->r.buf[i].total);
    gw_req_end(req, GW_OK);
}

int gw_recv_may_speak(struct gw_comm *comm)
{
    return !comm->patient || ++comm->quiet >= QUIET;
}

void gw_recv_speak(struct gw_comm *comm)
{
    struct words w;

    comm->quiet = 0;
    begin(&w);
    gw_list_each (node, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (req->r.unsaid && say_offer(comm, req, &w) != GW_OK)
            return; /* offers leave in order */
    }
    tell_landed(comm, &w);
    say(comm, &w);
}

/* A message of ours to the peer takes a host thread as long as a small one of the peer's takes to come.  Where the host waits for
 * another receive it must call again, and what there is to say of a small one can be said then: not between its last byte and its
 * done; and, as long as the peer has offers to use, not before there is enough to say or nothing else to do. */
void gw_recv_progress(struct gw_comm *comm)
{
    struct words w;
    int waits = 0, unsaid = 0;

    take_results(comm);
    gw_list_each (node, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (req->r.unsaid) {
            unsaid++;
            continue;
        }
        finish_buffers(comm, req);
        if (req->r.pieces > 0 && !all_done(&req->r))
            grant(comm, req);
        waits += !all_done(&req->r);
    }
    if (atomic_load_explicit(&comm->broken, memory_order_relaxed))
        return;
    comm->patient = comm->small && waits >= GW_AHEAD && unsaid < GW_AHEAD;
    if (waits + unsaid == 0 || !comm->small || comm->landed_bytes - comm->told_bytes >= comm->is.agreed.chunk_bytes) {
        begin(&w);
        tell_landed(comm, &w);
        say(comm, &w);
    }
    gw_list_each_safe (node, tmp, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (req->state == GW_REQ_MOVE)
            end_if_done(comm, req, waits + unsaid);
    }
}

static void put_landed(struct gw_comm *comm, const struct gw_event *ev)
{
    struct gw_req *req = named(comm, &ev->head);
    struct gw_recv_buf *b;

    if (req == NULL)
        return;
    b = &req->r.buf[ev->head.buffer];
    comm->landed_total_puts += GW_RULE(5) || ev->head.kind != GW_PUT_END; /* records count as well */
    if (ev->head.kind != GW_PUT_END) {
        comm->landed_bytes += ev->len;
        gw_stat_add(&gw_stat->wire_recved, ev->len);
        GW_PHASE(move);
    }
    switch (ev->head.kind) {
    case GW_PUT_RAW:
        if (GW_RULE(2))
            add_bytes(comm, req, b, &b->raw, ev->len);
        break;
    case GW_PUT_WHOLE:
        whole_landed(comm, req, b, ev->len);
        break;
    case GW_PUT_CODED:
        frame_landed(comm, req, b, ev);
        break;
    default:
        end_landed(comm, req, b, &ev->head);
    }
}

void gw_recv_event(struct gw_comm *comm, const struct gw_event *ev)
{
    if (ev->kind == GW_EV_LANDED)
        put_landed(comm, ev);
    else
        gw_comm_fail(comm, GW_E_PROTO, 0, "a sender sent a message of %u bytes; senders only put", ev->len);
}
