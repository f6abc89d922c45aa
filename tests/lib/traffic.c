/* traffic.c - messages whose every byte is known at both ends. */
#include <string.h>

#include "rank.h"

/* ---- bytes ---- */

static uint64_t next_word(uint64_t *x, int kind)
{
    uint64_t w;

    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    w = *x;
    return kind == BYTES_FLOATS ? (w & 0x81ff81ff81ff81ffu) | 0x3c003c003c003c00u : w;
}

void bytes_fill(void *p, size_t n, uint64_t seed, int kind)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u | 1, w;
    char *to = p;

    for (; n >= 8; n -= 8, to += 8) {
        w = next_word(&x, kind);
        memcpy(to, &w, 8);
    }
    w = next_word(&x, kind);
    memcpy(to, &w, n);
}

bool bytes_are(const void *p, size_t n, uint64_t seed, int kind)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u | 1, w, is;
    const char *at = p;

    for (; n >= 8; n -= 8, at += 8) {
        w = next_word(&x, kind);
        memcpy(&is, at, 8);
        if (is != w)
            return false;
    }
    w = next_word(&x, kind);
    return memcmp(at, &w, n) == 0;
}

/* ---- a run of messages ---- */

static const size_t mixed[] = {1 << 20, 0, 4096, 300000, 1, 131072, 999936, 17, 524288, 65536, 100, 262143};

/* A refused isend is asked again: the slot is written once only. */
static void *at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct traffic *t = (struct traffic *)f;
    char *slot = t->base + k % f->depth * t->slot;

    *mh_p = t->mh;
    *bytes_p = f->conn->sends ? t->sizes[k % t->nsizes] : t->slot;
    if (t->filled > k)
        return slot;
    t->filled = k + 1;
    if (t->before != NULL)
        t->before(t, k);
    if (f->conn->sends)
        bytes_fill(slot, *bytes_p, t->seed + k, t->kind);
    else
        memset(slot, 0xee, t->sizes[k % t->nsizes]);
    return slot;
}

static void done(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns)
{
    struct traffic *t = (struct traffic *)f;
    const char *slot = t->base + k % f->depth * t->slot;

    (void)ns;
    must(bytes == t->sizes[k % t->nsizes]);
    must(bytes_are(slot, bytes, t->seed + k, t->kind));
}

void traffic_init(struct traffic *t, struct host_conn *c, uint64_t total, uint64_t seed, int kind)
{
    memset(t, 0, sizeof(*t));
    t->flow.conn = c;
    t->flow.proto = HOST_SIMPLE;
    t->flow.depth = SLICES;
    t->flow.total = total;
    t->flow.at = at;
    t->flow.done = done;
    atomic_store(&t->flow.allowed, total);
    t->base = host_conn_buf(c, HOST_SIMPLE);
    t->mh = c->mh[HOST_SIMPLE];
    t->slot = HOST_SLICE_BYTES;
    t->sizes = mixed;
    t->nsizes = sizeof(mixed) / sizeof(*mixed);
    t->seed = seed;
    t->kind = kind;
}

void rank_run(struct rank *r, struct traffic **t, unsigned n)
{
    /* the flow stands first in a traffic */
    host_progress_run(&r->progress, (struct host_flow **)(void *)t, n);
}

void rank_done(struct rank *r)
{
    must(host_progress_wait(&r->progress, RANK_WAIT_MS));
    must(r->progress.res == ncclSuccess);
}

ncclResult_t rank_failed(struct rank *r, int wait_ms)
{
    must(host_progress_wait(&r->progress, wait_ms));
    must(r->progress.res != ncclSuccess);
    return r->progress.res;
}

/* ---- single requests ---- */

static bool is_over(const struct request *q)
{
    return q->done || q->res != ncclSuccess;
}

static void requests_pass(struct request *q, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!is_over(&q[i]))
            q[i].res = host_test(q[i].net, q[i].req, &q[i].done, q[i].want_sizes ? q[i].sizes : NULL);
}

void requests_poll(struct request *q, unsigned n, unsigned which)
{
    uint64_t until = host_now_ns() + RANK_WAIT_MS * 1000000ull;

    while (!is_over(&q[which])) {
        requests_pass(q, n);
        must(host_now_ns() < until);
    }
}

void requests_end(struct request *q, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        requests_poll(q, n, i);
}

ncclResult_t request_send(struct request *q, struct pair *p, size_t size, int tag, struct request *others, unsigned n)
{
    struct host_conn *c = &p->send;
    uint64_t until = host_now_ns() + RANK_WAIT_MS * 1000000ull;

    memset(q, 0, sizeof(*q));
    q->net = c->net;
    do {
        q->res = host_isend(c->net, c->comm, host_conn_buf(c, HOST_SIMPLE), size, tag, c->mh[HOST_SIMPLE], &q->req);
        requests_pass(others, n);
        must(host_now_ns() < until);
    } while (q->res == ncclSuccess && q->req == NULL);
    return q->res;
}

ncclResult_t request_recv(struct request *q, struct pair *p, int n, void **data, size_t *sizes, int *tags)
{
    struct host_conn *c = &p->recv;
    void *mhs[8];

    for (int i = 0; i < n && i < 8; i++)
        mhs[i] = c->mh[HOST_SIMPLE];
    memset(q, 0, sizeof(*q));
    q->net = c->net;
    q->want_sizes = true;
    q->res = host_irecv(c->net, c->comm, n, data, sizes, tags, mhs, false, &q->req);
    return q->res;
}
