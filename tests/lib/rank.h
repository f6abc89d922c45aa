/* rank.h - a rank as NCCL makes it: the plugin of the build folder, a service and a progress thread, connections, and
 * checked traffic on them.  Everything here ends the process (must) where it goes another way than the case asks for. */
#ifndef GW_TESTS_RANK_H
#define GW_TESTS_RANK_H

#include <host_run.h>

#include "child.h"

enum { RANK_WAIT_MS = 30000, SLICES = HOST_SIMPLE_BYTES / HOST_SLICE_BYTES };

struct rank {
    struct host_net net;
    struct host_service service;
    struct host_progress progress;
    bool running; /* the progress thread */
};

/* version 0: the newest.  Lines of the plugin at or above WARN are counted; with TEST_LOG set all of them go to stderr. */
void rank_open(struct rank *r, int version);
/* What NCCL does first when a communicator is destroyed or aborted. */
void rank_stop(struct rank *r);
/* Every conn must have been closed. */
void rank_close(struct rank *r);

/* ---- connections ---- */
void rank_wait(struct rank *r, struct host_conn *c);           /* the job has ended well */
ncclResult_t rank_result(struct rank *r, struct host_conn *c); /* the job has ended */
void rank_listen(struct rank *r, struct host_conn *c);
void rank_conn_close(struct rank *r, struct host_conn *c);

/* A connection from one rank of this process to another one. */
struct pair {
    struct rank *tx, *rx;
    struct host_conn send, recv;
};
void pair_open(struct pair *p, struct rank *tx, struct rank *rx);
void pair_close(struct pair *p);

/* The same between two processes: side 0 sends. */
void far_open(struct rank *r, struct host_conn *c, int fd, int side);

/* ---- traffic ---- */
enum { BYTES_RANDOM, BYTES_FLOATS /* bfloat16 in a few binades: a codec finds something */ };

/* The first n bytes of a sequence that (seed, kind) names. */
void bytes_fill(void *p, size_t n, uint64_t seed, int kind);
bool bytes_are(const void *p, size_t n, uint64_t seed, int kind);

/* A run of messages over slots of one region; both ends know size and content of each by its number. */
struct traffic {
    struct host_flow flow; /* first: the flow is the traffic */
    char *base;            /* the Simple buffer unless set */
    void *mh;
    size_t slot;           /* bytes */
    const size_t *sizes;   /* message k has sizes[k % nsizes] */
    unsigned nsizes;
    uint64_t seed;
    int kind;
    uint64_t filled; /* one more than the last message that was written */
    /* Called once, on the progress thread, before message k is started; NULL: not.  Where victims die. */
    void (*before)(struct traffic *t, uint64_t k);
};
/* Messages of mixed sizes, the empty one too. */
void traffic_init(struct traffic *t, struct host_conn *c, uint64_t total, uint64_t seed, int kind);
void rank_run(struct rank *r, struct traffic **t, unsigned n);
/* All of it is done and was right. */
void rank_done(struct rank *r);
/* It has failed; NCCL's progress thread ends with this result. */
ncclResult_t rank_failed(struct rank *r, int wait_ms);

/* A request of the case's own, polled by requests_end on the calling thread. */
struct request {
    struct host_net *net;
    void *req;
    bool want_sizes; /* else test gets NULL, as in bootstrap */
    int sizes[HOST_TEST_SIZES];
    int done;
    ncclResult_t res;
};
/* All n are polled until one, or each, is done or has failed. */
void requests_poll(struct request *q, unsigned n, unsigned which);
void requests_end(struct request *q, unsigned n);
/* Asked again, with the others polled beside it, until the plugin takes it; the result where it does not. */
ncclResult_t request_send(struct request *q, struct pair *p, size_t size, int tag, struct request *others, unsigned n);
ncclResult_t request_recv(struct request *q, struct pair *p, int n, void **data, size_t *sizes, int *tags);

/* ---- the plugin's counters ---- */
struct gw_stat_page;
/* Before the first rank_open; the plugin finds the page by GRADWIRE_STAT_FD. */
const struct gw_stat_page *stat_page_make(void);
/* Opens and closes a pair once: what UCX and libc keep from the first use on shall not count. */
void rank_warm_up(void);
#endif
