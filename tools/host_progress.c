/* host_progress.c - NCCL's progress thread.  Read progress_main, then host_flow_pass. */
#include "host_run.h"

#include <sched.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

static int flow_fail(struct host_flow *f, ncclResult_t res)
{
    f->res = res;
    return -1;
}

static int flow_post(struct host_flow *f)
{
    uint64_t k = f->posted, done = atomic_load_explicit(&f->finished, memory_order_relaxed);
    unsigned i = (unsigned)(k % NCCL_NET_MAX_REQUESTS);
    struct host_conn *c = f->conn;
    ncclResult_t res;
    void *mh = NULL;

    if (k == f->total || k - done >= f->depth ||
        k >= atomic_load_explicit(&f->allowed, memory_order_acquire))
        return 0;
    void *data = f->at(f, k, &f->bytes[i], &mh);
    f->since[i] = host_now_ns();
    if (c->sends) {
        res = host_isend(c->net, c->comm, data, f->bytes[i], 0, mh, &f->req[i]);
    } else {
        int tag = 0;
        res = host_irecv(c->net, c->comm, 1, &data, &f->bytes[i], &tag, &mh,
                         f->proto != HOST_SIMPLE, &f->req[i]);
    }
    if (res != ncclSuccess)
        return flow_fail(f, res);
    if (f->req[i] == NULL)
        return 0;
    f->posted++;
    return 1;
}

static int flow_test(struct host_flow *f)
{
    uint64_t k = atomic_load_explicit(&f->finished, memory_order_relaxed);
    unsigned i = (unsigned)(k % NCCL_NET_MAX_REQUESTS);
    int done, sizes[HOST_TEST_SIZES];

    if (k == f->posted)
        return 0;
    ncclResult_t res = host_test(f->conn->net, f->req[i], &done, sizes);
    if (res != ncclSuccess)
        return flow_fail(f, res);
    if (!done)
        return 0;
    if (sizes[0] < 0 || (size_t)sizes[0] > f->bytes[i]) {
        host_log(NCCL_LOG_WARN, NCCL_ALL, __FILE__, __LINE__,
                 "test says %d bytes, the request was for %zu", sizes[0], f->bytes[i]);
        return flow_fail(f, ncclInternalError);
    }
    if (!f->conn->sends)
        host_consumed(f->conn->net, f->conn->comm, 1, f->req[i]);
    if (f->done != NULL)
        f->done(f, k, (size_t)sizes[0], host_now_ns() - f->since[i]);
    atomic_store_explicit(&f->finished, k + 1, memory_order_release);
    return 1;
}

int host_flow_pass(struct host_flow *f)
{
    int posted = flow_post(f);
    int tested = posted < 0 ? -1 : flow_test(f);

    return tested < 0 ? -1 : posted | tested;
}

static bool flow_ended(const struct host_flow *f)
{
    return atomic_load_explicit(&f->finished, memory_order_relaxed) == f->total;
}

/* NCCL tells the plugin what the next messages belong to when that differs from before. */
static void attr_run(struct host_net *net, const struct host_flow *f)
{
    const ncclNetAttr_v11_t attr = {.sendCommAttr = {1, 1, 1, 1},
                                    .recvCommAttr = {1, 1, 1, 1},
                                    .op = 1u << ncclFuncAllReduce,
                                    .algo = 1u << NCCL_ALGO_RING,
                                    .proto = 1u << f->proto};
    host_attr_set(net, &attr);
}

static ncclResult_t run_flows(struct host_progress *p, struct host_flow **flows, size_t n)
{
    size_t left = n;

    if (n != 0)
        attr_run(p->net, flows[0]);
    while (left != 0 && !atomic_load_explicit(&p->abort, memory_order_relaxed)) {
        bool moved = false;
        left = 0;
        for (size_t i = 0; i < n; i++) {
            if (flow_ended(flows[i]))
                continue;
            int got = host_flow_pass(flows[i]);
            if (got < 0)
                return flows[i]->res;
            moved |= got > 0;
            left += !flow_ended(flows[i]);
        }
        if (!moved)
            sched_yield();
    }
    return left == 0 ? ncclSuccess : ncclInternalError;
}

static void *progress_main(void *arg)
{
    struct host_progress *p = arg;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->busy && !p->stop)
            pthread_cond_wait(&p->changed, &p->lock);
        if (p->stop)
            break;
        pthread_mutex_unlock(&p->lock);
        ncclResult_t res = run_flows(p, p->flows, p->nflows);
        pthread_mutex_lock(&p->lock);
        p->res = res;
        p->busy = false;
        pthread_cond_broadcast(&p->changed);
        if (res != ncclSuccess)
            break;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int host_progress_start(struct host_progress *p, struct host_net *net)
{
    memset(p, 0, sizeof(*p));
    p->net = net;
    pthread_mutex_init(&p->lock, NULL);
    host_cond_init(&p->changed);
    return pthread_create(&p->thread, NULL, progress_main, p) == 0 ? 0 : -1;
}

void host_progress_stop(struct host_progress *p)
{
    atomic_store(&p->abort, true);
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
}

void host_progress_run(struct host_progress *p, struct host_flow **flows, size_t n)
{
    pthread_mutex_lock(&p->lock);
    p->flows = flows;
    p->nflows = n;
    p->busy = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static bool progress_busy(const void *arg)
{
    return ((const struct host_progress *)arg)->busy;
}

int host_progress_wait(struct host_progress *p, int wait_ms)
{
    pthread_mutex_lock(&p->lock);
    host_cond_wait(&p->changed, &p->lock, progress_busy, p, wait_ms);
    int ended = !p->busy;
    pthread_mutex_unlock(&p->lock);
    return ended;
}
