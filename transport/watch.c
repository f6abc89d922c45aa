/* watch.c - the process's one watcher thread: it waits on every control socket, keeps their time, and ends with them.
 *
 * Read run.  Controls enter under the lock from any thread; only the watcher frees them (reap), so no event of a batch can
 * point to one that is gone. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <base/clock.h>

#include "watch.h"

enum { TICK_MS_MAX = 1000, TICK_MS_MIN = 10, EVENTS_PER_WAKE = 32 };
enum state { IDLE = 0, RUNNING, STOPPING };

static struct {
    pthread_mutex_t lock; /* guards everything here and every control */
    pthread_cond_t moved; /* somebody was reaped, or the state changed */
    enum state state;
    pthread_t thread;
    struct gw_sock ep, ev;
    struct gw_list controls;
    uint64_t tick_ns, interval_ns; /* next tick, 0: none; and how far ahead it was planned */
} watch = {
    .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
    .moved = PTHREAD_COND_INITIALIZER,
    .ep = {{&watch.ep.node, &watch.ep.node}, -1},
    .ev = {{&watch.ev.node, &watch.ev.node}, -1},
    .controls = {&watch.controls, &watch.controls},
};

void gw_watch_lock(void)
{
    pthread_mutex_lock(&watch.lock);
}

void gw_watch_unlock(void)
{
    pthread_mutex_unlock(&watch.lock);
}

void gw_watch_wake(void)
{
    uint64_t one = 1;
    if (watch.ev.fd >= 0 && write(watch.ev.fd, &one, sizeof one) < 0)
        return; /* full: it is awake already */
}

/* ---- forks ---- */
static void in_child(void)
{
    /* The lock was taken by a thread whose number the child does not have, so giving it back fails (it only tells the thread
     * sanitizer) and it is made anew.  No watcher runs here; what it watched is dead, and is not freed because its owners
     * still point to it. */
    pthread_mutexattr_t attr;
    pthread_mutex_unlock(&watch.lock);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&watch.lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&watch.moved, NULL);
    gw_list_each_safe(node, next, &watch.controls)
        gw_control_orphan(gw_list_of(node, struct gw_control, node));
    gw_list_init(&watch.controls);
    watch.state = IDLE;
    watch.tick_ns = 0;
}

static void hear_of_forks(void)
{
    pthread_atfork(gw_watch_lock, gw_watch_unlock, in_child);
}

/* ---- time ---- */
static uint64_t interval(void)
{
    uint32_t ms = TICK_MS_MAX;
    gw_list_each(node, &watch.controls) {
        uint32_t patience = gw_control_patience_ms(gw_list_of(node, struct gw_control, node));
        if (patience != 0 && patience / 4 < ms)
            ms = patience / 4;
    }
    return (ms < TICK_MS_MIN ? TICK_MS_MIN : ms) * 1000000ull;
}

static void plan_tick(uint64_t now)
{
    watch.interval_ns = interval();
    watch.tick_ns = now + watch.interval_ns;
}

static int wait_ms(uint64_t now)
{
    uint64_t until = watch.tick_ns == 0 ? UINT64_MAX : watch.tick_ns;
    gw_list_each(node, &watch.controls) {
        const struct gw_control *c = gw_list_of(node, struct gw_control, node);
        if (c->w == NULL && c->linger_ns < until)
            until = c->linger_ns;
    }
    if (until == UINT64_MAX)
        return -1;
    return until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

static void tick(uint64_t now)
{
    int watched = 0;
    if (watch.tick_ns == 0 || now < watch.tick_ns)
        return;
    /* This late, we were stopped ourselves: the peers' silence is ours. */
    int anew = now - watch.tick_ns > 2 * watch.interval_ns;
    gw_list_each(node, &watch.controls) {
        struct gw_control *c = gw_list_of(node, struct gw_control, node);
        watched += c->w != NULL;
        gw_control_tick(c, now, anew);
        gw_control_tell(c);
    }
    watch.tick_ns = 0;
    if (watched > 0)
        plan_tick(gw_now_ns());
}

static void reap(uint64_t now)
{
    gw_list_each_safe(node, next, &watch.controls) {
        struct gw_control *c = gw_list_of(node, struct gw_control, node);
        if (!gw_control_through(c, now))
            continue;
        gw_list_remove(&c->node);
        gw_sock_close(&c->sock);
        free(c);
        pthread_cond_broadcast(&watch.moved);
    }
}

/* ---- the thread ---- */
static void on_wake(void)
{
    uint64_t count;
    while (read(watch.ev.fd, &count, sizeof count) > 0)
        ;
    gw_list_each(node, &watch.controls)
        gw_control_tell(gw_list_of(node, struct gw_control, node));
}

static void on_event(const struct epoll_event *ev)
{
    struct gw_control *c = ev->data.ptr;
    if (c == NULL) {
        on_wake();
        return;
    }
    gw_control_input(c);
    if (ev->events & EPOLLOUT)
        gw_control_flush(c);
    gw_control_tell(c);
}

static void *run(void *arg)
{
    (void)arg;
    struct epoll_event ev[EVENTS_PER_WAKE];
    gw_watch_lock();
    while (watch.state == RUNNING) {
        int ms = wait_ms(gw_now_ns()), ep = watch.ep.fd;
        gw_watch_unlock();
        int n = epoll_wait(ep, ev, EVENTS_PER_WAKE, ms);
        gw_watch_lock();
        for (int i = 0; i < n; i++)
            on_event(&ev[i]);
        /* Input first: what came while we slept is no silence. */
        uint64_t now = gw_now_ns();
        tick(now);
        reap(now);
    }
    gw_watch_unlock();
    return NULL;
}

static void close_fds(void)
{
    gw_sock_close(&watch.ep);
    gw_sock_close(&watch.ev);
}

/* Signals are the host's: its handlers must not run here. */
static int start_thread(void)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int err = pthread_create(&watch.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        pthread_setname_np(watch.thread, "gw-watch");
    return err;
}

static gw_err start(const struct gw_logger *log)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct epoll_event wake = {.events = EPOLLIN};
    pthread_once(&once, hear_of_forks);
    if (gw_sock_epoll(&watch.ep) != 0 || gw_sock_event(&watch.ev) != 0 ||
        epoll_ctl(watch.ep.fd, EPOLL_CTL_ADD, watch.ev.fd, &wake) != 0) {
        gw_log(log, GW_LOG_WARN, "gradwire: watch: epoll: %m");
        close_fds();
        return GW_E_SYS;
    }
    watch.state = RUNNING;
    int err = start_thread();
    if (err == 0)
        return GW_OK;
    errno = err;
    gw_log(log, GW_LOG_WARN, "gradwire: watch: thread: %m");
    watch.state = IDLE;
    close_fds();
    return GW_E_SYS;
}

/* ---- who is watched ---- */
gw_err gw_watch_add(struct gw_control *c)
{
    while (watch.state == STOPPING)
        pthread_cond_wait(&watch.moved, &watch.lock);
    gw_err err = watch.state == RUNNING ? GW_OK : start(c->conf.log);
    if (err != GW_OK)
        return err;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(watch.ep.fd, EPOLL_CTL_ADD, c->sock.fd, &ev) != 0) {
        gw_log(c->conf.log, GW_LOG_WARN, "gradwire: watch: epoll_ctl: %m");
        return GW_E_SYS;
    }
    c->in_epoll = 1;
    gw_list_append(&watch.controls, &c->node);
    uint64_t now = gw_now_ns();
    if (watch.tick_ns == 0 || watch.tick_ns > now + interval())
        plan_tick(now);
    gw_watch_wake();
    return GW_OK;
}

void gw_watch_interest(struct gw_control *c)
{
    if (!c->in_epoll || c->sock.fd < 0)
        return;
    struct epoll_event ev = {.events = EPOLLIN | (c->out_len > 0 ? (uint32_t)EPOLLOUT : 0), .data.ptr = c};
    if (c->ended) {
        epoll_ctl(watch.ep.fd, EPOLL_CTL_DEL, c->sock.fd, &ev);
        c->in_epoll = 0;
    } else if (c->want_out != (c->out_len > 0)) {
        epoll_ctl(watch.ep.fd, EPOLL_CTL_MOD, c->sock.fd, &ev);
        c->want_out = c->out_len > 0;
    }
}

/* ---- the end ---- */
static int count(int lingering)
{
    int n = 0;
    gw_list_each(node, &watch.controls)
        n += (gw_list_of(node, struct gw_control, node)->w == NULL) == lingering;
    return n;
}

static void stop(void)
{
    watch.state = STOPPING;
    gw_watch_wake();
    gw_watch_unlock();
    pthread_join(watch.thread, NULL);
    gw_watch_lock();
    reap(UINT64_MAX); /* who still lingers has had its time */
    close_fds();
    watch.tick_ns = 0;
    watch.state = IDLE;
    pthread_cond_broadcast(&watch.moved);
}

void gw_watch_settle(uint32_t ms)
{
    uint64_t until = gw_now_ns() + ms * 1000000ull;
    struct timespec ts = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    gw_watch_lock();
    while (watch.state == STOPPING || (watch.state == RUNNING && count(1) > 0))
        if (pthread_cond_clockwait(&watch.moved, &watch.lock, CLOCK_MONOTONIC, &ts) != 0)
            break;
    if (watch.state == RUNNING && count(0) == 0)
        stop();
    gw_watch_unlock();
}
