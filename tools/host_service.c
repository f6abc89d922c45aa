/* host_service.c - NCCL's service thread and what it does to connections.  Read service_main, then
 * step_*. */
#include "host_run.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t host_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void host_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void host_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, bool (*holds)(const void *),
                    const void *arg, int wait_ms)
{
    uint64_t end = host_now_ns() + (uint64_t)wait_ms * 1000000u;
    struct timespec ts = {.tv_sec = (time_t)(end / 1000000000u),
                          .tv_nsec = (long)(end % 1000000000u)};

    while (holds(arg))
        if (pthread_cond_timedwait(cond, lock, &ts) == ETIMEDOUT)
            return;
}

/* ---- service thread -------------------------------------------------------------------------- */

enum { JOB_IDLE, JOB_PENDING, JOB_ENDED, JOB_DROPPED };

/* One try of every pending job.  The lock is let go during a try, so posting and dropping never
 * wait for the plugin longer than one call of it. */
static bool service_pass(struct host_service *s)
{
    bool moved = false;

    for (struct host_job **at = &s->jobs; *at != NULL;) {
        struct host_job *job = *at;
        pthread_mutex_unlock(&s->lock);
        bool ended = job->step(job) != 0 || job->res != ncclSuccess;
        pthread_mutex_lock(&s->lock);
        if (!ended && job->state == JOB_PENDING) {
            at = &job->next;
            continue;
        }
        *at = job->next; /* posting puts jobs at the end, so what stands before is unchanged */
        job->state = JOB_ENDED;
        pthread_cond_broadcast(&s->changed);
        moved = true;
    }
    return moved;
}

static void *service_main(void *arg)
{
    struct host_service *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->jobs == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else if (!service_pass(s)) {
            pthread_mutex_unlock(&s->lock);
            sched_yield();
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int host_service_start(struct host_service *s)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    host_cond_init(&s->changed);
    return pthread_create(&s->thread, NULL, service_main, s) == 0 ? 0 : -1;
}

void host_service_stop(struct host_service *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
}

void host_job_post(struct host_service *s, struct host_job *job)
{
    pthread_mutex_lock(&s->lock);
    struct host_job **at = &s->jobs;
    while (*at != NULL)
        at = &(*at)->next;
    job->res = ncclSuccess;
    job->state = JOB_PENDING;
    job->next = NULL;
    *at = job;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool job_pending(const void *arg)
{
    return ((const struct host_job *)arg)->state != JOB_ENDED;
}

int host_job_wait(struct host_service *s, struct host_job *job, int wait_ms)
{
    pthread_mutex_lock(&s->lock);
    host_cond_wait(&s->changed, &s->lock, job_pending, job, wait_ms);
    int ended = job->state == JOB_ENDED;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

void host_job_drop(struct host_service *s, struct host_job *job)
{
    pthread_mutex_lock(&s->lock);
    if (job->state == JOB_PENDING)
        job->state = JOB_DROPPED; /* service_pass takes it out after the try that is under way */
    while (job->state == JOB_DROPPED)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* ---- connections ----------------------------------------------------------------------------- */

static const size_t proto_bytes[] = {HOST_LL_BYTES, HOST_LL128_BYTES, HOST_SIMPLE_BYTES};

size_t host_proto_bytes(enum host_proto proto)
{
    return proto_bytes[proto];
}

char *host_conn_buf(const struct host_conn *c, enum host_proto proto)
{
    return c->buf + (proto > HOST_LL ? HOST_LL_BYTES : 0) +
           (proto > HOST_LL128 ? HOST_LL128_BYTES : 0);
}

/* NCCL says this before every try of connect and accept. */
static void attr_connect(struct host_net *net)
{
    const ncclNetAttr_v11_t attr = {.sendCommAttr = {1, 1, 1, 1},
                                    .recvCommAttr = {1, 1, 1, 1},
                                    .op = NCCL_NET_ATTR_UNDEF,
                                    .algo = NCCL_NET_ATTR_UNDEF,
                                    .proto = NCCL_NET_ATTR_UNDEF};
    host_attr_set(net, &attr);
}

static ncclResult_t conn_reg(struct host_conn *c)
{
    size_t all = HOST_LL_BYTES + HOST_LL128_BYTES + HOST_SIMPLE_BYTES;
    ncclResult_t res = ncclSuccess;

    c->buf = aligned_alloc(4096, all);
    if (c->buf == NULL)
        return ncclSystemError;
    memset(c->buf, 0, all);
    for (int p = 0; p < HOST_PROTOS && res == ncclSuccess; p++)
        res = host_reg(c->net, c->comm, host_conn_buf(c, (enum host_proto)p), proto_bytes[p],
                       NCCL_PTR_HOST, &c->mh[p]);
    return res;
}

static int step_listen(struct host_job *job)
{
    struct host_conn *c = (struct host_conn *)job;

    job->res = host_listen(c->net, c->dev, c->handle, &c->listen);
    return 1;
}

static int step_connect(struct host_job *job)
{
    struct host_conn *c = (struct host_conn *)job;

    attr_connect(c->net);
    job->res = host_connect(c->net, c->dev, c->handle, &c->comm);
    if (job->res != ncclSuccess || c->comm == NULL)
        return 0;
    job->res = conn_reg(c);
    return 1;
}

static int step_accept(struct host_job *job)
{
    struct host_conn *c = (struct host_conn *)job;

    attr_connect(c->net);
    job->res = host_accept(c->net, c->listen, &c->comm);
    if (job->res != ncclSuccess || c->comm == NULL)
        return 0;
    job->res = host_close_listen(c->net, c->listen);
    c->listen = NULL;
    if (job->res == ncclSuccess)
        job->res = conn_reg(c);
    return 1;
}

static int step_close(struct host_job *job)
{
    struct host_conn *c = (struct host_conn *)job;

    for (int p = 0; p < HOST_PROTOS; p++)
        if (c->mh[p] != NULL && host_dereg(c->net, c->comm, c->mh[p]) != ncclSuccess)
            job->res = ncclInternalError;
    if (c->comm != NULL) {
        ncclResult_t res =
            c->sends ? host_close_send(c->net, c->comm) : host_close_recv(c->net, c->comm);
        job->res = res != ncclSuccess ? res : job->res;
    }
    if (c->listen != NULL)
        host_close_listen(c->net, c->listen);
    c->comm = c->listen = NULL;
    memset(c->mh, 0, sizeof(c->mh));
    return 1;
}

static void conn_post(struct host_service *s, struct host_conn *c, int (*step)(struct host_job *))
{
    c->job.step = step;
    host_job_post(s, &c->job);
}

void host_conn_listen(struct host_service *s, struct host_conn *c, struct host_net *net, int dev)
{
    c->net = net;
    c->dev = dev;
    c->sends = false;
    conn_post(s, c, step_listen);
}

void host_conn_accept(struct host_service *s, struct host_conn *c)
{
    conn_post(s, c, step_accept);
}

void host_conn_connect(struct host_service *s, struct host_conn *c, struct host_net *net, int dev)
{
    c->net = net;
    c->dev = dev;
    c->sends = true;
    conn_post(s, c, step_connect);
}

void host_conn_close(struct host_service *s, struct host_conn *c)
{
    conn_post(s, c, step_close);
}

void host_conn_free(struct host_conn *c)
{
    free(c->buf);
    c->buf = NULL;
}

static int step_reg(struct host_job *job)
{
    struct host_mem *m = (struct host_mem *)job;

    job->res = host_reg(m->conn->net, m->conn->comm, m->data, m->bytes, NCCL_PTR_HOST, &m->mh);
    return 1;
}

static int step_dereg(struct host_job *job)
{
    struct host_mem *m = (struct host_mem *)job;

    job->res = host_dereg(m->conn->net, m->conn->comm, m->mh);
    m->mh = NULL;
    return 1;
}

void host_mem_reg(struct host_service *s, struct host_mem *m)
{
    m->job.step = step_reg;
    host_job_post(s, &m->job);
}

void host_mem_dereg(struct host_service *s, struct host_mem *m)
{
    m->job.step = step_dereg;
    host_job_post(s, &m->job);
}
