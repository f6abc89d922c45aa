/* work.h - codec workers: threads that turn bytes into fewer bytes and back, and never see a request.
 *
 * One bounded ring of jobs per process.  A worker leaves its result in the job and publishes it with a release store; the
 * comm that owns the job reads it with acquire.  Workers block all signals, sleep on a futex, spin at most 50 us, are named,
 * and start with the first job. */
#ifndef GW_CORE_WORK_H
#define GW_CORE_WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

enum gw_job_kind { GW_JOB_ENCODE = 1, GW_JOB_DECODE = 2 };

struct gw_job {
    _Atomic uint32_t done; /* 0 while anybody but the comm may touch the job or its memory */
    uint8_t kind, check;
    const struct gw_codec *codec; /* ENCODE */
    struct gw_coding coding;
    const void *src;
    size_t src_len;
    void *dst;
    size_t dst_cap; /* DECODE: the exact length */
    size_t out_len; /* ENCODE: of the frame */
    gw_err err;     /* GW_OK, GW_RAW, or a failure */
    uint64_t post_ns, start_ns, end_ns, cpu_ns;
};

/* Time, jobs: what a comm is given of the world, so that a simulator can be one. */
struct gw_env {
    uint64_t (*now_ns)(void *arg);
    /* GW_AGAIN: the ring is full or there are no workers; run it inline or send raw. */
    gw_err (*post)(void *arg, struct gw_job *job);
    /* how many jobs may run at once; 0: only inline */
    unsigned (*workers)(void *arg);
    uint64_t (*cpu_ns)(void *arg); /* what the calling thread has had of a core; NULL: not known */
    void *arg;
};

/* Runs a job here, by that clock.  ws: gw_codec_ws_max() bytes, 64-byte aligned. */
void gw_job_run(struct gw_job *job, void *ws, uint64_t (*now_ns)(void *arg), void *arg);

/* The process's workers; counted, so that the last close stops them.  `want` counts for the first opener only. */
gw_err gw_work_open(unsigned want);
void gw_work_close(void);
gw_err gw_work_post(void *unused, struct gw_job *job);
unsigned gw_work_count(void *unused);
#endif
