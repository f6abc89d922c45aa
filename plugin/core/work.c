/* work.c - read gw_work_post, then worker. */
#include "work.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <base/check.h>
#include <base/clock.h>
#include <gradwire/frame.h>

enum { RING = 1024, WORKERS_MAX = 64, SPIN_NS = 50000 };

/* A bounded ring for many producers and consumers: every cell carries the turn it is ready for (D. Vyukov). */
struct cell {
    _Atomic uint64_t turn;
    struct gw_job *job;
};

static struct {
    pthread_mutex_t lock; /* guards opening, closing and starting; never taken with a job in hand */
    unsigned users, want, running;
    pid_t pid;
    pthread_t thread[WORKERS_MAX];
    _Atomic uint32_t started, stop, bell, sleepers;
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    struct cell ring[RING];
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int ring_push(struct gw_job *job)
{
    uint64_t at = atomic_load_explicit(&pool.tail, memory_order_relaxed);

    for (;;) {
        struct cell *c = &pool.ring[at % RING];
        uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);
        if (turn == at) {
            if (!atomic_compare_exchange_weak_explicit(&pool.tail, &at, at + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
                continue;
            c->job = job;
            atomic_store_explicit(&c->turn, at + 1, memory_order_release);
            return 1;
        }
        if ((int64_t)(turn - at) < 0)
            return 0;
        at = atomic_load_explicit(&pool.tail, memory_order_relaxed);
    }
}

static struct gw_job *ring_pop(void)
{
    uint64_t at = atomic_load_explicit(&pool.head, memory_order_relaxed);

    for (;;) {
        struct cell *c = &pool.ring[at % RING];
        uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);
        if (turn == at + 1) {
            if (!atomic_compare_exchange_weak_explicit(&pool.head, &at, at + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
                continue;
            struct gw_job *job = c->job;
            atomic_store_explicit(&c->turn, at + RING, memory_order_release);
            return job;
        }
        if ((int64_t)(turn - (at + 1)) < 0)
            return NULL;
        at = atomic_load_explicit(&pool.head, memory_order_relaxed);
    }
}

static void encode(struct gw_job *job, void *ws)
{
    job->err = gw_frame_encode(job->codec, &job->coding, job->check, job->src, job->src_len, job->dst, job->dst_cap,
                               &job->out_len, ws);
}

#ifdef GW_SLOW
/* For tests/figures/mixed alone: a codec of GRADWIRE_TEST_NS_KIB for each KiB, that sleeps what it does not need.  With
 * GRADWIRE_TEST_CPU all of it passes for CPU time. */
static void be_slow(struct gw_job *job, uint64_t since_ns)
{
    const char *text = getenv("GRADWIRE_TEST_NS_KIB");
    size_t bytes = job->kind == GW_JOB_ENCODE ? job->src_len : job->dst_cap;
    uint64_t until = since_ns + (text ? strtoul(text, NULL, 10) : 0) * bytes / 1024;
    struct timespec ts = { .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };

    while (gw_now_ns() < until)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    job->end_ns = gw_now_ns();
    if (getenv("GRADWIRE_TEST_CPU") != NULL)
        job->cpu_ns = job->end_ns - since_ns;
}
#endif

void gw_job_run(struct gw_job *job, void *ws, uint64_t (*now_ns)(void *arg), void *arg)
{
    uint64_t cpu_ns = gw_thread_cpu_ns(); /* on a crowded host the wall time is somebody else's */

    job->start_ns = now_ns(arg);
    if (job->kind == GW_JOB_ENCODE)
        encode(job, ws);
    else
        job->err = gw_frame_restore(job->src, job->src_len, job->dst, job->dst_cap, ws);
    job->end_ns = now_ns(arg);
    job->cpu_ns = gw_thread_cpu_ns() - cpu_ns;
#ifdef GW_SLOW
    be_slow(job, job->start_ns);
#endif
    atomic_store_explicit(&job->done, 1, memory_order_release);
}

static void sleep_until_bell(uint32_t seen)
{
    atomic_fetch_add(&pool.sleepers, 1);
    if (atomic_load(&pool.bell) == seen)
        syscall(SYS_futex, &pool.bell, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&pool.sleepers, 1);
}

/* The next job, or NULL when the pool stops. */
static struct gw_job *next_job(void)
{
    uint64_t since = gw_now_ns();

    for (;;) {
        uint32_t seen = atomic_load(&pool.bell);
        struct gw_job *job = ring_pop();
        if (job != NULL)
            return job;
        if (atomic_load(&pool.stop))
            return NULL;
        if (gw_now_ns() - since < SPIN_NS) {
            sched_yield();
            continue;
        }
        sleep_until_bell(seen);
        since = gw_now_ns();
    }
}

static uint64_t real_now(void *unused)
{
    (void)unused;
    return gw_now_ns();
}

static void *worker(void *arg)
{
    char name[16];
    void *ws = aligned_alloc(64, (gw_codec_ws_max() + 64) / 64 * 64);
    struct gw_job *job;

    snprintf(name, sizeof name, "gw-codec-%u", (unsigned)(uintptr_t)arg);
    pthread_setname_np(pthread_self(), name);
    gw_assert(ws != NULL);
    while ((job = next_job()) != NULL)
        gw_job_run(job, ws, real_now, NULL);
    free(ws);
    return NULL;
}

/* Signals belong to the host's threads: ours start with all of them blocked. */
static void start_workers(void)
{
    sigset_t all, old;

    pthread_mutex_lock(&pool.lock);
    if (!atomic_load(&pool.started)) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        while (pool.running < pool.want &&
               pthread_create(&pool.thread[pool.running], NULL, worker, (void *)(uintptr_t)pool.running) == 0)
            pool.running++;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        atomic_store(&pool.started, 1);
    }
    pthread_mutex_unlock(&pool.lock);
}

gw_err gw_work_open(unsigned want)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.users++ == 0) {
        pool.want = want < WORKERS_MAX ? want : WORKERS_MAX;
        pool.pid = getpid();
        atomic_store(&pool.head, 0);
        atomic_store(&pool.tail, 0);
        for (uint64_t i = 0; i < RING; i++)
            atomic_store(&pool.ring[i].turn, i);
    }
    pthread_mutex_unlock(&pool.lock);
    return GW_OK;
}

static void ring_bell(int all)
{
    atomic_fetch_add(&pool.bell, 1);
    if (atomic_load(&pool.sleepers) > 0)
        syscall(SYS_futex, &pool.bell, FUTEX_WAKE_PRIVATE, all ? WORKERS_MAX : 1, NULL, NULL, 0);
}

void gw_work_close(void)
{
    pthread_mutex_lock(&pool.lock);
    if (--pool.users == 0 && pool.running > 0) {
        /* a forked child has none of these threads to join */
        if (pool.pid == getpid()) {
            atomic_store(&pool.stop, 1);
            ring_bell(1);
            for (unsigned i = 0; i < pool.running; i++)
                pthread_join(pool.thread[i], NULL);
        }
        pool.running = 0;
        atomic_store(&pool.stop, 0);
    }
    if (pool.users == 0)
        atomic_store(&pool.started, 0);
    pthread_mutex_unlock(&pool.lock);
}

gw_err gw_work_post(void *unused, struct gw_job *job)
{
    (void)unused;
    if (pool.want == 0)
        return GW_AGAIN;
    if (!atomic_load_explicit(&pool.started, memory_order_acquire))
        start_workers();
    if (pool.running == 0 || !ring_push(job))
        return GW_AGAIN;
    ring_bell(0);
    return GW_OK;
}

unsigned gw_work_count(void *unused)
{
    (void)unused;
    return pool.want;
}
