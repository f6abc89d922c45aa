/* perf_run.c - one run of messages, both ends of it.  Read run_lead, then run_follow. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gradwire/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "perf_rank.h"

enum { STALL_MS = 30000, NOTE_MS = 250, LAZY_ROUNDS = 4, WIPE = 0xdb };

/* ---- messages -------------------------------------------------------------------------------- */

/* A run that is checked also has short messages, and empty ones where the protocol knows such. */
uint64_t run_msg_bytes(const struct rank *r, uint64_t k)
{
    if (r->run.kind != PERF_RUN_CHECK || k % 8 < 5)
        return r->run.size;
    return k % 8 == 7 && r->session->proto == HOST_SIMPLE ? 0 : r->run.size / 2 + (r->run.size & 1);
}

const char *run_window(const struct dir *d, uint64_t k)
{
    const struct rank *r = d->rank;
    uint64_t windows = r->data.len / r->run.size;

    return r->data.bytes + (k * r->nout + d->index) % windows * r->run.size;
}

void run_digest(struct dir *d, uint64_t k, const void *bytes, size_t len)
{
    if (d->rank->run.kind != PERF_RUN_CHECK)
        return;
    XXH128_hash_t h = XXH3_128bits(bytes, len);
    d->digests[k] = (struct perf_digest){.size = len, .low = h.low64, .high = h.high64};
}

void run_sample(struct rank *r, uint64_t ns)
{
    r->samples[r->nsamples++ % SAMPLES_MAX] = ns;
}

static void *send_at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct dir *d = f->arg;
    const struct perf_run *run = &d->rank->run;
    char *from = (char *)(uintptr_t)run_window(d, k); /* the plugin only reads it */

    *bytes_p = run_msg_bytes(d->rank, k);
    *mh_p = d->mem.mh;
    if (run->kind == PERF_RUN_CHECK && d->prepared == k) {
        if (d->area == NULL)
            memcpy(host_conn_buf(&d->conn, HOST_SIMPLE) + k % d->slots * d->stride, from, *bytes_p);
        run_digest(d, k, from, *bytes_p);
        d->prepared++;
    }
    if (run->kind != PERF_RUN_CHECK || d->area != NULL)
        return from;
    *mh_p = d->conn.mh[HOST_SIMPLE];
    return host_conn_buf(&d->conn, HOST_SIMPLE) + k % d->slots * d->stride;
}

static char *landing(const struct dir *d, uint64_t k)
{
    return (d->area != NULL ? d->area : host_conn_buf(&d->conn, HOST_SIMPLE)) +
           k % d->slots * d->stride;
}

static void *recv_at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct dir *d = f->arg;
    char *slot = landing(d, k);

    *bytes_p = d->rank->run.size;
    *mh_p = d->area != NULL ? d->mem.mh : d->conn.mh[HOST_SIMPLE];
    if (d->rank->run.kind == PERF_RUN_CHECK && d->prepared == k) {
        memset(slot, WIPE, *bytes_p); /* what an earlier message left must not pass for this one */
        d->prepared++;
    }
    return slot;
}

/* LL and LL128: the slot of the step, on both sides. */
static void *line_at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct dir *d = f->arg;
    size_t slot = host_proto_bytes(f->proto) / HOST_SLOTS;

    *bytes_p = f->conn->sends ? gpu_wire_bytes(f->proto, run_msg_bytes(d->rank, k)) : slot;
    *mh_p = f->conn->mh[f->proto];
    return host_conn_buf(f->conn, f->proto) + (d->base + k) % HOST_SLOTS * slot;
}

static void sent(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns)
{
    struct dir *d = f->arg;

    (void)k, (void)bytes;
    if (!d->rank->session->lat)
        run_sample(d->rank, ns);
}

static void received(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns)
{
    struct dir *d = f->arg;
    uint64_t now = host_now_ns();

    (void)ns;
    if (d->rank->run.kind == PERF_RUN_CHECK)
        run_digest(d, k, landing(d, k), bytes);
    atomic_store_explicit(&f->allowed, k + 1 + d->slots, memory_order_relaxed);
    if (d->answer == NULL)
        return;
    run_sample(d->rank, (now - d->landed_ns) / 2);
    d->landed_ns = now;
    atomic_fetch_add_explicit(&d->answer->flow.allowed, 1, memory_order_relaxed);
}

/* ---- before a run ---------------------------------------------------------------------------- */

void run_clean(struct dir *d)
{
    if (d->area == NULL)
        return;
    if (!d->conn.sends) {
        host_mem_dereg(&d->rank->service, &d->mem);
        rank_wait_job(d->rank, &d->mem.job, "deregMr of the landing area");
        free(d->area);
    }
    d->area = NULL;
}

/* Messages up to a slice go through the Simple buffer in NCCL's way; larger ones, or more of them,
 * through memory of the user's, registered when it is needed. */
static void area_make(struct dir *d)
{
    uint64_t size = d->rank->run.size;
    unsigned slots = size > HOST_SLICE_BYTES / 2 ? HOST_SLOTS / 2 : HOST_SLOTS;

    run_clean(d);
    d->slots = d->rank->session->inflight;
    d->stride = (size + 4095) & ~(uint64_t)4095;
    if (size <= HOST_SLICE_BYTES && d->slots <= slots) {
        d->slots = slots;
        d->stride = HOST_SIMPLE_BYTES / slots;
        return;
    }
    if (d->conn.sends) {
        d->area = d->rank->data.bytes;
        return;
    }
    d->area = aligned_alloc(4096, d->stride * d->slots);
    if (d->area == NULL)
        rank_fail(d->rank, "no memory for %u messages of %llu bytes", d->slots,
                  (unsigned long long)size);
    d->mem = (struct host_mem){.conn = &d->conn, .data = d->area, .bytes = d->stride * d->slots};
    host_mem_reg(&d->rank->service, &d->mem);
    rank_wait_job(d->rank, &d->mem.job, "regMr of the landing area");
}

/* What may start before anything has moved: sends of a Simple run have their bytes already, those
 * of LL wait for the GPU side; receives have all their slots. */
static uint64_t first_allowed(const struct dir *d, uint64_t gate)
{
    bool simple = d->rank->session->proto == HOST_SIMPLE;

    if (d->conn.sends)
        return simple ? gate : 0;
    return simple ? d->slots : HOST_SLOTS;
}

static void dir_arm(struct dir *d)
{
    const struct perf_session *s = d->rank->session;
    bool simple = s->proto == HOST_SIMPLE, sends = d->conn.sends;

    d->base += d->flow.total;
    d->prepared = 0;
    d->landed_ns = host_now_ns();
    if (simple)
        area_make(d);
    uint64_t gate = sends && s->lat ? d->rank->seat->client : UINT64_MAX;
    atomic_store(&d->gate, gate);
    atomic_store(&d->gpu, 0);
    atomic_store(&d->flow.allowed, first_allowed(d, gate));
    atomic_store(&d->flow.finished, 0);
    d->flow.conn = &d->conn;
    d->flow.proto = (enum host_proto)s->proto;
    d->flow.depth = s->inflight;
    d->flow.total = d->rank->run.count;
    d->flow.at = !simple ? line_at : sends ? send_at : recv_at;
    d->flow.done = sends ? sent : simple ? received : NULL;
    d->flow.arg = d;
    d->flow.posted = 0;
    if (d->rank->run.kind == PERF_RUN_CHECK && d->digests == NULL)
        d->digests = calloc(PERF_DIGESTS, sizeof(*d->digests));
    if (d->rank->run.kind == PERF_RUN_CHECK && d->digests == NULL)
        rank_fail(d->rank, "no memory for digests");
}

static void arm(struct rank *r, const struct perf_run *run)
{
    r->run = *run;
    r->nflows = 0;
    r->nsamples = 0;
    for (unsigned i = 0; i < r->nin; i++) {
        dir_arm(&r->in[i]);
        r->flows[r->nflows++] = &r->in[i].flow;
    }
    for (unsigned i = 0; i < r->nout; i++) {
        dir_arm(&r->out[i]);
        r->flows[r->nflows++] = &r->out[i].flow;
    }
}

/* ---- during it ------------------------------------------------------------------------------- */

void run_counters(const struct rank *r, struct perf_done *d, uint64_t chunks[3])
{
    memset(d, 0, sizeof(*d));
    memset(chunks, 0, 3 * sizeof(*chunks));
    if (r->page == NULL || !gw_stat_ready(r->page))
        return;
    d->counters = true;
    d->raw_sent = gw_stat_get(&r->page->raw_sent);
    d->encode_ns = gw_stat_get(&r->page->encode_ns);
    d->decode_ns = gw_stat_get(&r->page->decode_ns);
    d->encode_bytes = gw_stat_get(&r->page->encode_bytes);
    d->decode_bytes = gw_stat_get(&r->page->decode_bytes);
    d->host_ns = gw_stat_get(&r->page->host_ns);
    chunks[0] = gw_stat_get(&r->page->wire_sent);
    chunks[1] = gw_stat_get(&r->page->chunks_coded);
    chunks[2] = gw_stat_get(&r->page->chunks_raw);
}

static void go(struct rank *r)
{
    atomic_store(&r->gpu_stop, false);
    atomic_store(&r->gpu_ended, r->session->proto == HOST_SIMPLE);
    if (r->session->proto != HOST_SIMPLE && pthread_create(&r->gpu_thread, NULL, gpu_main, r) != 0)
        rank_fail(r, "no thread for the GPU side");
    host_progress_run(&r->progress, r->flows, r->nflows);
}

/* NCCL registers users' buffers on live connections while messages move; nothing is ever sent from
 * this one. */
static void register_lazily(struct rank *r)
{
    static char page[65536];
    struct dir *d = r->nout != 0 ? &r->out[0] : &r->in[0];
    struct host_mem mem = {.conn = &d->conn, .data = page, .bytes = sizeof(page)};

    for (int i = 0; i < LAZY_ROUNDS; i++) {
        host_mem_reg(&r->service, &mem);
        rank_wait_job(r, &mem.job, "regMr during traffic");
        host_mem_dereg(&r->service, &mem);
        rank_wait_job(r, &mem.job, "deregMr during traffic");
    }
}

static uint64_t moved_so_far(const struct rank *r)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < r->nout; i++)
        n += atomic_load(&r->out[i].flow.finished) + atomic_load(&r->out[i].gpu);
    for (unsigned i = 0; i < r->nin; i++)
        n += atomic_load(&r->in[i].flow.finished) + atomic_load(&r->in[i].gpu);
    return n;
}

static void note(struct rank *r, uint64_t moved)
{
    static const char *const doing[] = {"warming up", "timing", "checking"};
    uint64_t all = r->run.count * (r->nin + r->nout) * (r->session->proto == HOST_SIMPLE ? 1 : 2);
    char size[16];

    if (r->seat->client && all > 0)
        rank_say(r, PERF_SAY_NOTE, "%s %s: %s %llu%%",
                 r->session->codec[0] != '\0' ? r->session->codec : "perf",
                 perf_size_text(r->run.size, size), doing[r->run.kind],
                 (unsigned long long)(moved * 100 / all));
}

static bool sliced(const struct rank *r)
{
    return r->seat->client && r->seat->opts->every_ms != 0 && r->run.kind == PERF_RUN_TIMED;
}

static uint64_t bytes_sent(const struct rank *r)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < r->nout; i++)
        n += atomic_load(&r->out[i].flow.finished) * r->run.size;
    return n;
}

static void slices_begin(struct rank *r)
{
    struct rank_slices *s = &r->slices;
    struct timespec now;
    struct perf_done d;

    clock_gettime(CLOCK_REALTIME, &now);
    s->began_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    s->start_ns = s->since_ns = host_now_ns();
    s->bytes = s->n = 0;
    run_counters(r, &d, s->chunks);
    s->encode_bytes = d.encode_bytes;
}

static float share(uint64_t part, uint64_t all)
{
    return all != 0 ? (float)((double)part / (double)all) : 0;
}

/* Ends the slice that runs where its time is over. */
static void slice_look(struct rank *r)
{
    struct rank_slices *s = &r->slices;
    uint64_t now = host_now_ns(), bytes = bytes_sent(r), chunks[3];
    struct perf_done d;

    if (s->n == PERF_SLICES_MAX || now - s->start_ns < (s->n + 1) * r->seat->opts->every_ms * 1000000)
        return;
    run_counters(r, &d, chunks);
    uint64_t coded = chunks[1] - s->chunks[1], raw = chunks[2] - s->chunks[2];
    s->slice[s->n++] = (struct perf_slice){
        .at_s = (float)((double)(now - s->start_ns) / 1e9),
        .gbps = (float)((double)(bytes - s->bytes) / (double)(now - s->since_ns)),
        .coded = share(coded, coded + raw),
        .tried = share(d.encode_bytes - s->encode_bytes, bytes - s->bytes),
    };
    s->since_ns = now;
    s->bytes = bytes;
    s->encode_bytes = d.encode_bytes;
    memcpy(s->chunks, chunks, sizeof(chunks));
}

static void wait_end(struct rank *r)
{
    uint64_t before = 0, since = host_now_ns();
    int wait_ms = sliced(r) && r->seat->opts->every_ms < NOTE_MS ? (int)r->seat->opts->every_ms : NOTE_MS;

    if (r->run.kind == PERF_RUN_CHECK)
        register_lazily(r);
    for (;;) {
        int ended = host_progress_wait(&r->progress, wait_ms);
        if (sliced(r))
            slice_look(r);
        if (ended && r->progress.res != ncclSuccess)
            rank_fail_net(r, "moving messages", r->progress.res);
        if (ended && atomic_load_explicit(&r->gpu_ended, memory_order_acquire))
            break;
        if (ended)
            sched_yield();
        rank_check_peer(r);
        uint64_t moved = moved_so_far(r), now = host_now_ns();
        if (moved != before)
            before = moved, since = now;
        else if (now - since > STALL_MS * 1000000ull)
            rank_fail(r, "no message moved for %d seconds", STALL_MS / 1000);
        if (!ended)
            note(r, moved);
    }
    if (r->session->proto != HOST_SIMPLE)
        pthread_join(r->gpu_thread, NULL);
}

/* ---- after it -------------------------------------------------------------------------------- */

static void digests_send(struct rank *r)
{
    uint8_t *body = malloc(PERF_DIGESTS * PERF_DIGEST_BYTES);

    if (body == NULL)
        rank_fail(r, "no memory for digests");
    for (unsigned i = 0; i < r->nout; i++) {
        size_t at = 0;
        for (uint64_t k = 0; k < r->run.count; k++)
            at += perf_digest_write(body + at, &r->out[i].digests[k]);
        rank_send(r, PERF_MSG_DIGESTS, body, at);
    }
    free(body);
}

/* All ones, or the first message whose bytes are not those that were sent. */
static uint64_t digests_compare(struct rank *r)
{
    uint64_t wrong = UINT64_MAX;
    struct perf_digest was;

    for (unsigned i = 0; i < r->nin; i++) {
        struct perf_msg *m = rank_expect(r, PERF_MSG_DIGESTS);
        if (m->len != r->run.count * PERF_DIGEST_BYTES)
            rank_fail(r, "the other rank sent %u bytes of digests", m->len);
        for (uint64_t k = 0; k < r->run.count; k++) {
            const struct perf_digest *is = &r->in[i].digests[k];
            perf_digest_read(m->body + k * PERF_DIGEST_BYTES, &was);
            if ((was.size != is->size || was.low != is->low || was.high != is->high) && k < wrong)
                wrong = k;
        }
    }
    return wrong;
}

static bool verdict(struct rank *r)
{
    struct perf_msg *m = rank_expect(r, PERF_MSG_VERDICT);
    bool fine = m->len == 8;

    for (uint32_t i = 0; i < m->len && fine; i++)
        fine = m->body[i] == 0xff;
    return fine;
}

static void verdict_send(struct rank *r, uint64_t wrong)
{
    uint8_t body[8];

    for (int i = 0; i < 8; i++)
        body[i] = (uint8_t)(wrong >> 8 * i);
    rank_send(r, PERF_MSG_VERDICT, body, sizeof(body));
}

void run_since(struct perf_done *now, const struct perf_done *before)
{
    now->raw_sent -= before->raw_sent;
    now->encode_ns -= before->encode_ns;
    now->decode_ns -= before->decode_ns;
    now->encode_bytes -= before->encode_bytes;
    now->decode_bytes -= before->decode_bytes;
    now->host_ns -= before->host_ns;
}

void run_lead(struct rank *r, const struct perf_run *run, struct run_result *out)
{
    uint8_t body[64];
    uint64_t chunks[3], now[3];
    struct perf_done before;

    rank_send(r, PERF_MSG_RUN, body, perf_run_write(body, run));
    arm(r, run);
    rank_expect(r, PERF_MSG_READY);
    run_counters(r, &before, chunks);
    uint64_t start = host_now_ns();
    if (sliced(r))
        slices_begin(r);
    go(r);
    wait_end(r);
    if (perf_done_read(rank_expect(r, PERF_MSG_DONE), &out->theirs) != 0)
        rank_fail(r, "the other rank's counters cannot be read");
    out->seconds = (double)(host_now_ns() - start) / 1e9;
    run_counters(r, &out->mine, now);
    run_since(&out->mine, &before);
    out->wire_sent = now[0] - chunks[0];
    out->chunks_coded = now[1] - chunks[1];
    out->chunks_raw = now[2] - chunks[2];
    if (run->kind != PERF_RUN_CHECK)
        return;
    digests_send(r);
    out->valid = verdict(r) && digests_compare(r) == UINT64_MAX;
}

void run_follow(struct rank *r, const struct perf_run *run)
{
    uint8_t body[64];
    uint64_t chunks[3];
    struct perf_done before, now;

    arm(r, run);
    run_counters(r, &before, chunks);
    rank_send(r, PERF_MSG_READY, NULL, 0);
    go(r);
    wait_end(r);
    run_counters(r, &now, chunks);
    run_since(&now, &before);
    rank_send(r, PERF_MSG_DONE, body, perf_done_write(body, &now));
    if (run->kind != PERF_RUN_CHECK)
        return;
    verdict_send(r, digests_compare(r));
    digests_send(r);
}
