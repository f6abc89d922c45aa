/* perf_rank.h - what the files of a rank share.  A rank is a process and ends as one: rank_fail
 * does not return. */
#ifndef GW_TOOLS_PERF_RANK_H
#define GW_TOOLS_PERF_RANK_H

#include "host_run.h"
#include "perf.h"

struct gw_stat_page;
struct rank;

/* One connection and the messages on it. */
struct dir {
    struct rank *rank;
    struct host_conn conn;
    struct host_flow flow;
    unsigned index;
    struct host_mem
        mem; /* out: the data; in: the landing area, where the Simple buffer is too small */
    char *area;
    size_t stride; /* of a slot */
    unsigned slots;
    struct dir *answer;    /* ping-pong: landing here lets the next message go there */
    uint64_t landed_ns;    /* ping-pong: the landing before */
    _Atomic uint64_t gate; /* out: messages that may be sent */
    _Atomic uint64_t gpu;  /* ll, ll128: messages that the GPU side has filled or read */
    uint64_t
        prepared;  /* messages whose slot is filled or wiped; NCCL retries must not do it twice */
    uint64_t base; /* ll, ll128: steps before this run */
    struct perf_digest *digests;
};

struct rank {
    const struct perf_seat *seat;
    const struct perf_session *session;
    struct perf_data data;
    struct host_net net;
    struct host_service service;
    struct host_progress progress;
    struct gw_stat_page *page; /* NULL: no memfd */
    struct dir *out, *in;
    unsigned nout, nin;
    struct perf_msg *msg;
    struct perf_run run;
    struct host_flow **flows;
    size_t nflows;
    pthread_t gpu_thread;
    atomic_bool gpu_stop, gpu_ended;
    char *gpu_scratch;
    uint64_t *samples, nsamples; /* ns; the newest stay */
    struct rank_slices {
        uint64_t began_ms; /* since 1970 */
        uint64_t start_ns, since_ns, bytes, chunks[3], encode_bytes; /* since: the slice that runs, and what there was then */
        uint32_t n;
        struct perf_slice slice[PERF_SLICES_MAX];
    } slices; /* of the last timed run, where --every asks for them */
};
enum { SAMPLES_MAX = 1 << 17 };

void rank_fail(struct rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* The plugin answered `res` to `what`; its own last words are added. */
void rank_fail_net(struct rank *r, const char *what, ncclResult_t res) __attribute__((noreturn));
/* Ends the rank where the other one has failed or gone; else returns. */
void rank_check_peer(struct rank *r);
/* The next message, which must be of this type.  Ends the rank otherwise. */
struct perf_msg *rank_expect(struct rank *r, enum perf_msg_type type);
void rank_send(struct rank *r, enum perf_msg_type type, const void *body, size_t len);
void rank_wait_job(struct rank *r, struct host_job *job, const char *what);
/* Environment, plugin and threads of a rank; and their end.  perf_ring.c has ranks of its own and
 * uses these too. */
void rank_open(struct rank *r);
void rank_close(struct rank *r);
void rank_say(struct rank *r, enum perf_say kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* perf_run.c: the two halves of one run */
struct run_result {
    double seconds; /* from the first message to the last landing */
    struct perf_done mine, theirs;
    uint64_t wire_sent, chunks_coded, chunks_raw;
    bool valid; /* of a checked run */
};
void run_lead(struct rank *r, const struct perf_run *run, struct run_result *out);
void run_follow(struct rank *r, const struct perf_run *run);
/* What the page says now; chunks: wire_sent, chunks_coded, chunks_raw. */
void run_counters(const struct rank *r, struct perf_done *now, uint64_t chunks[3]);
void run_since(struct perf_done *now, const struct perf_done *before);
uint64_t run_msg_bytes(const struct rank *r, uint64_t k);
/* Gives back what the last run left registered. */
void run_clean(struct dir *d);
void run_sample(struct rank *r, uint64_t ns);
void run_digest(struct dir *d, uint64_t k, const void *bytes, size_t len);
const char *run_window(const struct dir *d, uint64_t k);

/* perf_rows.c */
void rows_lead(struct rank *r);
void rows_say(struct rank *r, const struct perf_report *rep);
void rows_counters(const struct rank *r, const struct run_result *res, struct perf_row *row);
void rows_percentiles(struct rank *r, struct perf_row *row);

/* perf_gpu.c: the GPU side of ll and ll128 */
void *gpu_main(void *rank);
size_t gpu_wire_bytes(enum host_proto proto, size_t payload);
#endif
