/* move.c - the main path.  Read gw_isend, then gw_irecv, then gw_test; gw_progress turns the wheel under all three. */
#include "comm.h"

#include <string.h>

#include <base/check.h>
#include <base/clock.h>
#include <base/rule.h>

#include "stat.h"

/* ---- requests ---- */

static struct gw_req *free_req(struct gw_req *table, int n)
{
    for (int i = 0; i < n; i++)
        if (table[i].state == GW_REQ_FREE)
            return &table[i];
    return NULL;
}

static void begin(struct gw_comm *comm, struct gw_req *req)
{
    gw_req_to(req, GW_REQ_WAIT);
    req->err = GW_OK;
    gw_list_append(&comm->moving, &req->link);
    atomic_store_explicit(&comm->watched.outstanding, ++comm->outstanding, memory_order_relaxed);
    comm->worked++;
}

static void hold(struct gw_mem *mem)
{
    if (mem != NULL)
        atomic_fetch_add_explicit(&mem->live, 1, memory_order_relaxed);
}

static void let_go(struct gw_mem *mem)
{
    if (mem != NULL)
        atomic_fetch_sub_explicit(&mem->live, 1, memory_order_release);
}

/* A failed request keeps its hold: only a lane that is down leaves the memory alone. */
void gw_req_end(struct gw_req *req, gw_err err)
{
    struct gw_comm *comm = req->comm;

    req->err = err;
    gw_req_to(req, err == GW_OK ? GW_REQ_DONE : GW_REQ_FAIL);
    gw_list_remove(&req->link);
    atomic_store_explicit(&comm->watched.outstanding, --comm->outstanding, memory_order_relaxed);
    comm->worked++;
    if (err != GW_OK && GW_RULE(14))
        return;
    if (req->is_send)
        let_go(req->s.mem);
    for (int i = 0; !req->is_send && i < req->r.n; i++)
        let_go(req->r.buf[i].mem);
}

void gw_req_release(struct gw_req *req)
{
    gw_req_to(req, GW_REQ_FREE);
}

/* The request that a broken comm hands out: a host may post a whole window before it tests. */
static gw_err hand_out_failed(struct gw_comm *comm, struct gw_req *table, int n, struct gw_req **req_p)
{
    struct gw_req *req = free_req(table, n);

    if (req == NULL)
        return GW_AGAIN;
    /* of a receive that failed here before nothing is wiped: its pieces are lent until the lane is down */
    if (req->is_send)
        memset(&req->s, 0, sizeof req->s);
    else
        req->r.n = 0;
    begin(comm, req);
    gw_req_end(req, comm->cause);
    *req_p = req;
    return GW_OK;
}

/* ---- the wheel ---- */

static void on_event(struct gw_comm *comm, const struct gw_event *ev)
{
    if (ev->kind == GW_EV_FAILED) {
        gw_comm_lane_failed(comm, ev->err);
        return;
    }
    if (atomic_load_explicit(&comm->broken, memory_order_relaxed))
        return;
    if (comm->is.is_send)
        gw_send_event(comm, ev);
    else
        gw_recv_event(comm, ev);
}

void gw_progress(struct gw_comm *comm)
{
    struct gw_event ev[GW_POLL_BATCH];
    int n = 0;

    if (!comm->is.is_send && !atomic_load_explicit(&comm->broken, memory_order_relaxed) && gw_recv_may_speak(comm))
        gw_recv_speak(comm);
    /* another poll only where one was not enough: it costs a system call, and the host calls again */
    for (int turn = 0; turn < 4 && !comm->lane_shut; turn++) {
        n = comm->is.lane->ops->poll(comm->is.lane, ev, GW_POLL_BATCH);
        for (int i = 0; i < n; i++)
            on_event(comm, &ev[i]);
        if (n > 0)
            comm->worked += (uint64_t)n, comm->quiet = 0;
        if (n < GW_POLL_BATCH)
            break;
    }
    if (!atomic_load_explicit(&comm->broken, memory_order_relaxed)) {
        if (comm->is.is_send)
            gw_send_progress(comm);
        else
            gw_recv_progress(comm);
    }
    if (comm->is.lane->unmet_ns != 0 && !comm->unmet_said)
        gw_comm_unmet(comm);
    /* after the lane was read empty: a bye speaks of all that was put before it */
    if (n <= 0 && (comm->lane_failed_ns != 0 ||
                   atomic_load_explicit(&comm->watched.signs, memory_order_acquire) != 0))
        gw_comm_signs(comm);
}

static int is_broken(const struct gw_comm *comm)
{
    return atomic_load_explicit(&comm->broken, memory_order_relaxed) != 0;
}

/* A call without work is an empty poll of the lane; one that took longer moved bytes inside of it, or was preempted. */
enum { EMPTY_POLL_NS = 4000 };

/* Two clock reads are a part of a small message's price: only where somebody reads the counter. */
static uint64_t clock_in(struct gw_comm *comm)
{
    comm->worked = 0;
    return gw_stat_watched ? gw_max_u64(gw_comm_now(comm), 1) : 0;
}

static void clock_out(struct gw_comm *comm, uint64_t since)
{
    uint64_t ns = since != 0 ? gw_comm_now(comm) - since : 0;

    if (since != 0 && (comm->worked > 0 || ns >= EMPTY_POLL_NS))
        gw_stat_add(&gw_stat->host_ns, ns);
}

/* ---- send ---- */

/* The oldest offer that has an unmatched buffer of this tag, never past a gap in the numbers. */
static struct gw_advert *match(struct gw_comm *comm, uint32_t tag, uint8_t *buffer_p)
{
    for (uint32_t number = comm->next; number - comm->next < GW_SLOTS; number++) {
        struct gw_advert *ad = &comm->advert[number % GW_SLOTS];
        if (!ad->open || ad->offer.number != number) {
            if (GW_RULE(1))
                return NULL;
            continue;
        }
        for (uint8_t b = 0; b < ad->offer.buffers; b++)
            if ((ad->unmatched & 1u << b) && ad->offer.buf[b].tag == tag) {
                *buffer_p = b;
                return ad;
            }
    }
    return NULL;
}

static void consume(struct gw_comm *comm, struct gw_advert *ad, uint8_t buffer)
{
    ad->unmatched &= (uint8_t)~(1u << buffer);
    ad->unposted++;
    for (;; comm->next++) {
        struct gw_advert *oldest = &comm->advert[comm->next % GW_SLOTS];
        if (!oldest->open || oldest->offer.number != comm->next || oldest->unmatched != 0)
            return;
    }
}

static void freeze_regions(struct gw_comm *comm)
{
    if (comm->regions == 0)
        comm->regions = atomic_load_explicit(&comm->mem_count, memory_order_acquire);
}

static gw_err start_send(struct gw_comm *comm, const void *data, size_t size, int tag, struct gw_mem *mem,
                         struct gw_req **req_p)
{
    uint8_t buffer;
    struct gw_req *req = free_req(comm->send, GW_SENDS_MAX);
    struct gw_advert *ad = match(comm, (uint32_t)tag, &buffer);

    if (req == NULL || ad == NULL)
        return GW_AGAIN;
    if (size > ad->offer.buf[buffer].cap) {
        gw_comm_fail(comm, GW_E_SIZE, ad->offer.number, "a send of %zu bytes meets a buffer of %u bytes, tag %d", size,
                     ad->offer.buf[buffer].cap, tag);
        return hand_out_failed(comm, comm->send, GW_SENDS_MAX, req_p);
    }
    req->s = (struct gw_send){ .head = { .number = ad->offer.number, .buffer = buffer }, .to = ad->offer.buf[buffer],
                               .data = data, .size = (uint32_t)size, .mem = mem };
    hold(mem);
    if (comm->outstanding == 0)
        gw_policy_begins(&comm->policy, gw_comm_now(comm));
    begin(comm, req);
    consume(comm, ad, buffer);
    gw_chunk_plan(comm, req);
    gw_req_to(req, GW_REQ_MOVE);
    GW_PHASE(match);
    gw_send_progress(comm);
    *req_p = req;
    return GW_OK;
}

gw_err gw_isend(struct gw_comm *comm, const void *data, size_t size, int tag, struct gw_mem *mem, struct gw_req **req_p)
{
    uint64_t since;
    gw_err err;

    *req_p = NULL;
    if (!comm->is.is_send || size > GW_SIZE_MAX || (data == NULL && size > 0))
        return GW_E_ARG;
    if (!gw_comm_enter(comm))
        return hand_out_failed(comm, comm->send, GW_SENDS_MAX, req_p);
    since = clock_in(comm);
    freeze_regions(comm);
    if (size >= comm->is.agreed.chunk_bytes || match(comm, (uint32_t)tag, &(uint8_t){ 0 }) == NULL)
        gw_progress(comm);
    if (!is_broken(comm) && comm->peer_left_ns != 0)
        gw_comm_fail(comm, GW_E_CLOSED, comm->next, "the receiver has closed, and a send of %zu bytes is wanted", size);
    err = is_broken(comm) ? hand_out_failed(comm, comm->send, GW_SENDS_MAX, req_p)
                          : start_send(comm, data, size, tag, mem, req_p);
    /* whoever waits for an offer waits for its peer, and must notice one that is stopped */
    if (err == GW_AGAIN && comm->outstanding == 0)
        atomic_store_explicit(&comm->watched.outstanding, 1, memory_order_relaxed);
    clock_out(comm, since);
    gw_comm_leave(comm);
    return err;
}

/* ---- receive ---- */

static int speaks_now(const struct gw_comm *comm)
{
    return comm->outstanding < GW_AHEAD || !comm->small;
}

static int all_simple(const struct gw_comm *comm, const struct gw_recv *r)
{
    for (int i = 0; i < r->n; i++)
        if (!gw_mem_may_be_simple(comm, r->buf[i].mem))
            return 0;
    return comm->is.hint_simple == NULL || atomic_load_explicit(comm->is.hint_simple, memory_order_relaxed);
}

/* A quarter of what is left, so that many comms share the half that may be lent; a piece that is missing means raw. */
static void borrow_pieces(struct gw_comm *comm, struct gw_req *req)
{
    uint32_t want = GW_PIECES_MAX;

    if (comm->is.slab == NULL || comm->is.codec == NULL || !req->r.hint)
        return;
    if (GW_RULE(10))
        want = (uint32_t)gw_min_u64(want, gw_slab_left(comm->is.slab, GW_SLAB_PEER) / 4 + 1);
    for (req->r.pieces = 0; req->r.pieces < want; req->r.pieces++) {
        struct gw_cell *cell = &comm->lent[req->index * GW_PIECES_MAX + req->r.pieces];
        if (gw_slab_lend(comm->is.slab, GW_SLAB_PEER, &cell->piece) != GW_OK &&
            (GW_RULE(10) || gw_slab_lend(comm->is.slab, GW_SLAB_OWN, &cell->piece) != GW_OK))
            return;
        cell->state = GW_CELL_FREE;
        cell->granted = 1, cell->ungranted = 0;
    }
}

static void open_slot(struct gw_comm *comm, const struct gw_req *req)
{
    struct gw_place_slot *slot = &comm->places->slot[req->index];

    slot->number = req->r.number;
    slot->buffers = req->r.n;
    slot->pieces = req->r.pieces;
    slot->taken = 0;
    for (int i = 0; i < req->r.n; i++)
        slot->buf[i] = req->r.buf[i].data, slot->cap[i] = req->r.buf[i].cap;
    for (int i = 0; i < req->r.pieces; i++)
        slot->piece[i] = comm->lent[req->index * GW_PIECES_MAX + i].piece.base;
    slot->open = 1;
}

static gw_err start_recv(struct gw_comm *comm, int n, void *const *data, const size_t *sizes, const int *tags,
                         struct gw_mem *const *mems, struct gw_req **req_p)
{
    struct gw_req *req = &comm->recv[comm->number % GW_SLOTS];
    int now = speaks_now(comm);

    if (req->state != GW_REQ_FREE)
        return GW_AGAIN;
    memset(&req->r, 0, sizeof req->r);
    req->r.number = comm->number++;
    req->r.n = (uint8_t)n;
    req->r.unsaid = 1;
    for (int i = 0; i < n; i++) {
        req->r.buf[i] = (struct gw_recv_buf){ .data = data[i], .cap = (uint32_t)gw_min_u64(sizes[i], GW_SIZE_MAX),
                                              .tag = (uint32_t)tags[i], .mem = mems ? mems[i] : NULL };
        hold(req->r.buf[i].mem);
    }
    req->r.hint = all_simple(comm, &req->r) ? GW_HINT_SIMPLE_OK : 0;
    borrow_pieces(comm, req);
    open_slot(comm, req);
    if (comm->outstanding == 0)
        gw_policy_begins(&comm->policy, gw_comm_now(comm));
    begin(comm, req);
    GW_PHASE(post);
    if (now)
        gw_recv_speak(comm);
    *req_p = req;
    return GW_OK;
}

gw_err gw_irecv(struct gw_comm *comm, int n, void *const *data, const size_t *sizes, const int *tags,
                struct gw_mem *const *mems, struct gw_req **req_p)
{
    uint64_t since;
    gw_err err;

    *req_p = NULL;
    if (comm->is.is_send || n < 1 || n > GW_BUFFERS_MAX)
        return GW_E_ARG;
    if (!gw_comm_enter(comm))
        return hand_out_failed(comm, comm->recv, GW_RECVS_MAX, req_p);
    since = clock_in(comm);
    freeze_regions(comm);
    if (speaks_now(comm))
        gw_progress(comm);
    if (!is_broken(comm) && comm->peer_left_ns != 0)
        gw_comm_fail(comm, GW_E_CLOSED, comm->number, "the sender has closed, and a message is wanted");
    err = is_broken(comm) ? hand_out_failed(comm, comm->recv, GW_RECVS_MAX, req_p)
                          : start_recv(comm, n, data, sizes, tags, mems, req_p);
    clock_out(comm, since);
    gw_comm_leave(comm);
    return err;
}

/* ---- test ---- */

int gw_req_count(const struct gw_req *req)
{
    return req->is_send ? 1 : req->r.n;
}

static void give_sizes(const struct gw_req *req, size_t *sizes)
{
    if (sizes == NULL)
        return;
    if (req->is_send)
        sizes[0] = req->s.size;
    for (int i = 0; !req->is_send && i < req->r.n; i++)
        sizes[i] = req->r.buf[i].total;
}

/* A worker still reads or writes this request's memory. */
static int held_by_worker(const struct gw_req *req)
{
    const struct gw_comm *comm = req->comm;
    int cells = comm->is.is_send ? GW_CELLS : GW_SLOTS * GW_PIECES_MAX;

    for (int i = 0; i < cells; i++) {
        const struct gw_cell *cell = comm->is.is_send ? &comm->cell[i] : &comm->lent[i];
        if (cell->state == GW_CELL_WORK && cell->req == req &&
            !atomic_load_explicit(&cell->job.done, memory_order_acquire))
            return 1;
    }
    return 0;
}

static gw_err judge(struct gw_req *req, int *done_p, size_t *sizes)
{
    struct gw_comm *comm = req->comm;
    gw_err err;

    if (is_broken(comm) && (req->state == GW_REQ_WAIT || req->state == GW_REQ_MOVE)) {
        if (held_by_worker(req))
            return GW_OK;
        gw_req_end(req, comm->cause);
    }
    if (req->state != GW_REQ_DONE && req->state != GW_REQ_FAIL)
        return GW_OK;
    err = req->err;
    if (err == GW_OK)
        give_sizes(req, sizes);
    *done_p = 1;
    gw_req_release(req);
    return err;
}

gw_err gw_test(struct gw_req *req, int *done_p, size_t *sizes)
{
    struct gw_comm *comm = req->comm;
    uint64_t since;
    gw_err err;

    *done_p = 0;
    if (!gw_comm_enter(comm))
        return judge(req, done_p, sizes);
    since = clock_in(comm);
    gw_progress(comm);
    err = judge(req, done_p, sizes);
    clock_out(comm, since);
    gw_comm_leave(comm);
    return err;
}
