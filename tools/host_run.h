/* host_run.h - the two threads that NCCL has for each communicator, its connections, and the
 * messages on them.
 *
 *   service thread    listen, connect, accept, regMr, deregMr, close*: jobs, all retried in turn,
 * none waits for another progress thread   isend, irecv, test of every flow given to it;
 * sched_yield after a pass that moved nothing
 *
 * A conn is a dedicated connection: its three protocol buffers are registered in NCCL's order right
 * after connect or accept.  A flow is a run of messages on one conn: the "GPU side" raises
 * `allowed` when a slot may go, the progress thread raises `finished` when a message is done. */
#ifndef GW_TOOLS_HOST_RUN_H
#define GW_TOOLS_HOST_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "host.h"

enum host_proto { HOST_LL, HOST_LL128, HOST_SIMPLE, HOST_PROTOS };
enum {
    HOST_LL_BYTES = 524288,
    HOST_LL128_BYTES = 4915200,
    HOST_SIMPLE_BYTES = 4194304,
    HOST_SLOTS = 8,            /* of the LL buffers */
    HOST_SLICE_BYTES = 1 << 20 /* of a ring over the Simple buffer: two of its eight steps */
};

/* ---- service thread -------------------------------------------------------------------------- */

/* step: 1 done, 0 call me again; res is ncclSuccess unless it says otherwise, and a failure ends
 * the job. */
struct host_job {
    int (*step)(struct host_job *job);
    ncclResult_t res;
    int state; /* the service's own; its lock guards it */
    struct host_job *next;
};

struct host_service {
    pthread_t thread;
    pthread_mutex_t lock; /* guards jobs and their states */
    pthread_cond_t changed;
    struct host_job *jobs;
    bool stop;
};

int host_service_start(struct host_service *s);
void host_service_stop(struct host_service *s);
void host_job_post(struct host_service *s, struct host_job *job);
/* 1 ended (job->res tells how), 0 not yet after wait_ms. */
int host_job_wait(struct host_service *s, struct host_job *job, int wait_ms);
/* What an abort does: the job is tried no more.  What it had opened stays open, as NCCL leaves it.
 */
void host_job_drop(struct host_service *s, struct host_job *job);

/* ---- connections ----------------------------------------------------------------------------- */

struct host_conn {
    struct host_job job; /* first: the job is the conn */
    struct host_net *net;
    int dev;
    bool sends;
    void *listen, *comm;
    char *buf; /* LL, LL128 and Simple back to back, as NCCL allocates them */
    void *mh[HOST_PROTOS];
    _Alignas(64) char handle[NCCL_NET_HANDLE_MAXSIZE];
};

char *host_conn_buf(const struct host_conn *c, enum host_proto proto);
size_t host_proto_bytes(enum host_proto proto);

/* Each starts a job of the conn; host_job_wait(&c->job) ends it.  listen fills c->handle; connect
 * uses it. */
void host_conn_listen(struct host_service *s, struct host_conn *c, struct host_net *net, int dev);
void host_conn_accept(struct host_service *s, struct host_conn *c);
void host_conn_connect(struct host_service *s, struct host_conn *c, struct host_net *net, int dev);
/* deregMr of the buffers, closeSend or closeRecv, closeListen where one is left. */
void host_conn_close(struct host_service *s, struct host_conn *c);
/* After the job of close, or where nothing was opened. */
void host_conn_free(struct host_conn *c);

/* Registers or gives back the user's memory on a live conn, on the service thread. */
struct host_mem {
    struct host_job job;
    struct host_conn *conn;
    void *data;
    size_t bytes;
    void *mh;
};
void host_mem_reg(struct host_service *s, struct host_mem *m);
void host_mem_dereg(struct host_service *s, struct host_mem *m);

/* ---- messages -------------------------------------------------------------------------------- */

struct host_flow {
    struct host_conn *conn;
    enum host_proto proto;
    unsigned depth; /* requests in flight, at most NCCL_NET_MAX_REQUESTS */
    uint64_t total;
    /* Where message k lies, its size (room, for a receive) and the handle of that memory. */
    void *(*at)(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p);
    /* Message k is done; bytes as test said, ns since isend or irecv took it.  May be NULL. */
    void (*done)(struct host_flow *f, uint64_t k, size_t bytes, uint64_t ns);
    void *arg;

    _Atomic uint64_t allowed;  /* messages that may be started, raised by the GPU side */
    _Atomic uint64_t finished; /* messages done, raised by the progress thread */

    /* the progress thread's own */
    uint64_t posted;
    ncclResult_t res;
    void *req[NCCL_NET_MAX_REQUESTS];
    size_t bytes[NCCL_NET_MAX_REQUESTS];
    uint64_t since[NCCL_NET_MAX_REQUESTS];
};

/* One pass: starts what may start, tests the oldest.  1 something moved, 0 nothing, -1 failed
 * (f->res). */
int host_flow_pass(struct host_flow *f);

struct host_progress {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below but abort */
    pthread_cond_t changed;
    struct host_net *net;
    struct host_flow **flows;
    size_t nflows;
    bool busy, stop;
    ncclResult_t res; /* of the last run; after a failure the thread has ended, as NCCL's does */
    atomic_bool abort;
};

int host_progress_start(struct host_progress *p, struct host_net *net);
/* Leaves a run in the middle; requests may stay outstanding, as after ncclCommAbort. */
void host_progress_stop(struct host_progress *p);
/* flows stay the caller's and must live until the run ended. */
void host_progress_run(struct host_progress *p, struct host_flow **flows, size_t n);
/* 1 ended (p->res), 0 not yet after wait_ms. */
int host_progress_wait(struct host_progress *p, int wait_ms);

uint64_t host_now_ns(void);
/* A condition on the monotonic clock, and waiting on it: the lock is held, the wait ends when
 * holds(arg) is false or after wait_ms. */
void host_cond_init(pthread_cond_t *cond);
void host_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, bool (*holds)(const void *),
                    const void *arg, int wait_ms);
#endif
