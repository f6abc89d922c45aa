/* perf_ring.c - all-reduce traffic round N ranks in the shape of NCCL's Simple protocol, and
 * whether the sums are right.
 *
 * The vector goes in loops of N chunks of 2 MiB, a chunk in two slices, four slices in flight (the
 * Simple buffer).  In step j of a loop rank r deals with chunk (r - 1 - j) mod N:
 *
 *   j = 0          its own numbers are sent
 *   j < N          what arrives is added to its own and sent on; in step N - 1 that is the finished
 * sum, kept too j < 2N - 2     a finished sum arrives, is kept and sent on j = 2N - 2     the last
 * one arrives and is kept
 *
 * The same additions in the same order are done in memory first; the results must be equal bit for
 * bit. Read ring_main, then loop_step. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf_ring.h"

enum { CHUNK_BYTES = 2 << 20, SLOTS = 4, STALL_MS = 30000, ITERS = 4 };

struct ring_rank {
    struct rank r; /* first: its functions take it */
    struct ring *ring;
    unsigned self;
    int next, prev;
    struct host_conn to, from;
    struct host_flow send, recv;
    size_t size[SLOTS], landed[SLOTS];
    uint64_t sends, recvs; /* slices that the GPU side has filled and taken */
    uint64_t sent_bytes;
    char *out;
};

/* ---- arithmetic ------------------------------------------------------------------------------ */

static float f32_of(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t bf16_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) /* a NaN must not round to infinity */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* dst may be one of the sources. */
static void add(const struct ring *g, char *dst, const char *own, const char *got, uint64_t n)
{
    if (g->type == PERF_GEN_F32) {
        for (uint64_t i = 0; i < n; i++) {
            float a, b;
            memcpy(&a, own + 4 * i, 4);
            memcpy(&b, got + 4 * i, 4);
            a += b;
            memcpy(dst + 4 * i, &a, 4);
        }
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint16_t a, b;
        memcpy(&a, own + 2 * i, 2);
        memcpy(&b, got + 2 * i, 2);
        a = bf16_of(f32_of(a) + f32_of(b));
        memcpy(dst + 2 * i, &a, 2);
    }
}

/* ---- the shape ------------------------------------------------------------------------------- */

static uint64_t chunk_elems(const struct ring *g, uint64_t left)
{
    uint64_t full = CHUNK_BYTES / g->each, align = 16 / g->each, chunk;

    if (left >= full * g->n)
        return full;
    chunk = (left + g->n - 1) / g->n;
    return (chunk + align - 1) / align * align;
}

/* How many elements of a chunk starting `at` the loop there are: none beyond the end of the vector.
 */
static uint64_t chunk_part(uint64_t chunk, uint64_t at, uint64_t left)
{
    return at >= left ? 0 : left - at < chunk ? left - at : chunk;
}

static uint64_t slice_elems(const struct ring *g, uint64_t part)
{
    uint64_t least = HOST_SLICE_BYTES / g->each / 32, slice = (part + 31) / 32 * 16;

    return slice > least ? slice : least;
}

static uint64_t slices_of_run(const struct ring *g, uint64_t iters)
{
    uint64_t loops = 0;

    for (uint64_t at = 0; at < g->elems; at += chunk_elems(g, g->elems - at) * g->n)
        loops++;
    return loops * (2 * g->n - 2) * 2 * iters;
}

static void reference(const struct ring *g)
{
    for (uint64_t base = 0; base < g->elems;) {
        uint64_t left = g->elems - base, chunk = chunk_elems(g, left);
        for (unsigned c = 0; c < g->n; c++) {
            uint64_t part = chunk_part(chunk, c * chunk, left);
            size_t at = (base + c * chunk) * g->each;
            if (part == 0)
                continue;
            memcpy(g->sum + at, g->in[(c + 1) % g->n] + at, part * g->each);
            for (unsigned i = 2; i <= g->n; i++)
                add(g, g->sum + at, g->in[(c + i) % g->n] + at, g->sum + at, part);
        }
        base += chunk * g->n;
    }
}

/* ---- the GPU side of a rank ------------------------------------------------------------------ */

static char *slot(const struct host_conn *c, uint64_t k)
{
    return host_conn_buf(c, HOST_SIMPLE) + k % SLOTS * HOST_SLICE_BYTES;
}

/* Spins as the GPU does until `count` has passed `k`; the rank ends where the network fails or
 * stands still. */
static void await(struct ring_rank *rr, _Atomic uint64_t *count, uint64_t k, const char *what)
{
    uint64_t since = 0;

    for (unsigned spins = 1; atomic_load_explicit(count, memory_order_acquire) <= k; spins++) {
        sched_yield();
        if (spins % 256 != 0)
            continue;
        if (host_progress_wait(&rr->r.progress, 0) && rr->r.progress.res != ncclSuccess)
            rank_fail_net(&rr->r, what, rr->r.progress.res);
        if (since == 0)
            since = host_now_ns();
        else if (host_now_ns() - since > STALL_MS * 1000000ull)
            rank_fail(&rr->r, "%s: nothing moved for %d seconds", what, STALL_MS / 1000);
    }
}

static const char *slice_take(struct ring_rank *rr, size_t bytes)
{
    await(rr, &rr->recv.finished, rr->recvs, "receiving a slice");
    if (rr->landed[rr->recvs % SLOTS] != bytes)
        rank_fail(&rr->r, "a slice of %zu bytes came where %zu were due",
                  rr->landed[rr->recvs % SLOTS], bytes);
    return slot(&rr->from, rr->recvs);
}

static char *slice_room(struct ring_rank *rr)
{
    if (rr->sends >= SLOTS)
        await(rr, &rr->send.finished, rr->sends - SLOTS, "sending a slice");
    return slot(&rr->to, rr->sends);
}

/* One slice of step j: `n` elements at `at` of the vector. */
static void slice_step(struct ring_rank *rr, unsigned j, uint64_t at, uint64_t n)
{
    struct ring *g = rr->ring;
    unsigned last = 2 * g->n - 2;
    size_t bytes = n * g->each, off = at * g->each;
    const char *own = g->in[rr->self] + off;
    const char *got = j > 0 ? slice_take(rr, bytes) : own;
    char *room = j < last ? slice_room(rr) : NULL;

    if (j > 0 && j < g->n)
        add(g, room, own, got, n);
    else if (room != NULL)
        memcpy(room, got, bytes);
    if (j + 1 >= g->n)
        memcpy(rr->out + off, j + 1 == g->n && room != NULL ? room : got, bytes);
    if (j > 0)
        atomic_store_explicit(&rr->recv.allowed, ++rr->recvs + SLOTS, memory_order_release);
    if (j == last)
        return;
    rr->size[rr->sends % SLOTS] = bytes;
    rr->sent_bytes += bytes;
    atomic_store_explicit(&rr->send.allowed, ++rr->sends, memory_order_release);
}

static void loop_step(struct ring_rank *rr, unsigned j, uint64_t base, uint64_t left,
                      uint64_t chunk)
{
    struct ring *g = rr->ring;
    uint64_t c = (rr->self + 2 * g->n - 1 - j) % g->n, at = c * chunk;
    uint64_t part = chunk_part(chunk, at, left), slice = slice_elems(g, part);

    for (uint64_t s = 0, done = 0; s < 2; s++) {
        uint64_t n = part - done < slice ? part - done : slice;
        slice_step(rr, j, part == 0 ? 0 : base + at + done, n);
        done += n;
    }
}

static void all_reduce(struct ring_rank *rr)
{
    struct ring *g = rr->ring;

    for (uint64_t base = 0; base < g->elems;) {
        uint64_t left = g->elems - base, chunk = chunk_elems(g, left);
        for (unsigned j = 0; j <= 2 * g->n - 2; j++)
            loop_step(rr, j, base, left, chunk);
        base += chunk * g->n;
    }
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static void *send_at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct ring_rank *rr = f->arg;

    *bytes_p = rr->size[k % SLOTS];
    *mh_p = rr->to.mh[HOST_SIMPLE];
    return slot(&rr->to, k);
}

static void *recv_at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct ring_rank *rr = f->arg;

    *bytes_p = HOST_SLICE_BYTES;
    *mh_p = rr->from.mh[HOST_SIMPLE];
    return slot(&rr->from, k);
}

static void sent(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns)
{
    struct ring_rank *rr = f->arg;

    (void)k, (void)bytes;
    run_sample(&rr->r, ns);
}

static void received(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns)
{
    struct ring_rank *rr = f->arg;

    (void)ns;
    rr->landed[k % SLOTS] = bytes;
}

static void flow_arm(struct ring_rank *rr, struct host_flow *f, struct host_conn *c, uint64_t total)
{
    memset(f, 0, sizeof(*f));
    f->conn = c;
    f->proto = HOST_SIMPLE;
    f->depth = SLOTS;
    f->total = total;
    f->at = c->sends ? send_at : recv_at;
    f->done = c->sends ? sent : received;
    f->arg = rr;
    atomic_store(&f->allowed, c->sends ? 0 : SLOTS);
}

static uint64_t first_wrong(const struct ring_rank *rr)
{
    const struct ring *g = rr->ring;

    for (uint64_t i = 0; i < g->elems; i++)
        if (memcmp(rr->out + i * g->each, g->sum + i * g->each, g->each) != 0)
            return i;
    return UINT64_MAX;
}

static void ring_row(struct ring_rank *rr, uint64_t size)
{
    struct perf_report rep = {.kind = PERF_SAY_ROW, .rank = (int32_t)rr->self};
    struct perf_row *row = &rep.u.row;
    struct host_flow *flows[] = {&rr->recv, &rr->send};
    struct run_result res = {.theirs.counters = true};
    uint64_t before[3], now[3],
        iters = rr->r.seat->opts->iters != 0 ? rr->r.seat->opts->iters : ITERS;
    struct perf_done was;

    rr->ring->elems = size / rr->ring->each;
    reference(rr->ring);
    flow_arm(rr, &rr->send, &rr->to, slices_of_run(rr->ring, iters));
    flow_arm(rr, &rr->recv, &rr->from, rr->send.total);
    rr->sends = rr->recvs = rr->sent_bytes = rr->r.nsamples = 0;
    run_counters(&rr->r, &was, before);
    host_progress_run(&rr->r.progress, flows, 2);
    row->valid = true;
    for (uint64_t i = 0; i < iters; i++) {
        uint64_t start = host_now_ns();
        memset(rr->out, 0xdb, size);
        all_reduce(rr);
        row->seconds += (double)(host_now_ns() - start) / 1e9;
        row->valid &= first_wrong(rr) == UINT64_MAX;
    }
    await(rr, &rr->send.finished, rr->send.total - 1, "ending the ring");
    while (!host_progress_wait(&rr->r.progress, 1000))
        ;
    run_counters(&rr->r, &res.mine, now);
    run_since(&res.mine, &was);
    res.wire_sent = now[0] - before[0];
    res.chunks_coded = now[1] - before[1];
    res.chunks_raw = now[2] - before[2];
    row->size = size;
    row->messages = rr->sends;
    row->raw_bytes = row->all_raw = rr->sent_bytes;
    row->checked = iters;
    row->checked_bytes = iters * size;
    snprintf(row->codec, sizeof(row->codec), "%s", rr->r.session->codec);
    snprintf(row->policy, sizeof(row->policy), "%s", rr->r.session->policy);
    rows_counters(&rr->r, &res, row);
    rows_percentiles(&rr->r, row);
    rows_say(&rr->r, &rep);
}

static void neighbour(struct ring_rank *rr, int fd, enum perf_msg_type type)
{
    if (perf_recv(fd, rr->r.msg, 2 * PERF_WAIT_MS) != 1 || rr->r.msg->type != (uint32_t)type)
        rank_fail(&rr->r, "a neighbour in the ring is gone");
}

static void ring_connect(struct ring_rank *rr)
{
    struct rank *r = &rr->r;

    host_conn_listen(&r->service, &rr->from, &r->net, 0);
    rank_wait_job(r, &rr->from.job, "listen");
    perf_send(rr->prev, PERF_MSG_HANDLES, rr->from.handle, NCCL_NET_HANDLE_MAXSIZE);
    host_conn_accept(&r->service, &rr->from);
    neighbour(rr, rr->next, PERF_MSG_HANDLES);
    if (r->msg->len != NCCL_NET_HANDLE_MAXSIZE)
        rank_fail(r, "a neighbour sent no handle");
    memcpy(rr->to.handle, r->msg->body, NCCL_NET_HANDLE_MAXSIZE);
    host_conn_connect(&r->service, &rr->to, &r->net, 0);
    rank_wait_job(r, &rr->from.job, "accept");
    rank_wait_job(r, &rr->to.job, "connect");
}

/* Nobody closes before both neighbours have taken what is on its way to them. */
static void ring_disconnect(struct ring_rank *rr)
{
    struct rank *r = &rr->r;

    perf_send(rr->prev, PERF_MSG_END, NULL, 0);
    perf_send(rr->next, PERF_MSG_END, NULL, 0);
    neighbour(rr, rr->prev, PERF_MSG_END);
    neighbour(rr, rr->next, PERF_MSG_END);
    host_progress_stop(&r->progress);
    host_conn_close(&r->service, &rr->to);
    rank_wait_job(r, &rr->to.job, "closeSend");
    host_conn_close(&r->service, &rr->from);
    rank_wait_job(r, &rr->from.job, "closeRecv");
    host_conn_free(&rr->to);
    host_conn_free(&rr->from);
}

int ring_main(void *arg)
{
    struct ring_seat *rs = arg;
    struct ring_rank *rr = aligned_alloc(64, (sizeof(*rr) + 63) & ~(size_t)63);
    const struct perf_opts *o = rs->seat.opts;

    if (rr == NULL)
        return PERF_FAILED;
    memset(rr, 0, sizeof(*rr));
    rr->r.seat = &rs->seat;
    rr->r.session = &rs->seat.session;
    rr->ring = rs->ring;
    rr->self = (unsigned)rs->seat.rank;
    rr->next = rs->next;
    rr->prev = rs->prev;
    rank_open(&rr->r);
    rr->out = malloc(rs->seat.session.size_max);
    rs->ring->sum = malloc(rs->seat.session.size_max);
    if (rr->out == NULL || rs->ring->sum == NULL)
        rank_fail(&rr->r, "no memory for the result");
    if (rr->self == 0)
        rank_say(&rr->r, PERF_SAY_PLUGIN, "%s, net v%d", rr->r.net.t.name, rr->r.net.version);
    ring_connect(rr);
    for (int i = 0; i < o->nsizes; i++)
        ring_row(rr, o->sizes[i]);
    ring_disconnect(rr);
    rank_close(&rr->r);
    free(rs->ring->sum);
    free(rr->out);
    free(rr);
    return PERF_OK;
}
