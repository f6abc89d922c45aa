/* verbs_event.c - what devices say of themselves: one thread for all of a process, there while a device is open.  It prints a
 * line, sets flags that lanes look at when they are polled, and does nothing else.
 *
 * An event of a queue pair is acknowledged after its lane's flag is set, and a queue pair that is destroyed waits for that:
 * so the lane is there. */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { DEVS_AT_ONCE = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; the thread holds it while it reads events */
static struct gw_verbs_dev *devs;
static pthread_t thread;
static int wake_fd = -1, stop;

/* ---- one event ---- */

static void port_changed(struct gw_verbs_dev *d, int up)
{
    if (d->port_down == !up)
        return;
    d->port_down = !up;
    if (up)
        gw_verbs_log(d, GW_LOG_ERROR, "gradwire " GW_VERSION " port: device=%s:%d is up again after %llu ms", d->name, d->port,
                     (unsigned long long)((d->host.now_ns() - d->down_ns) / 1000000));
    else
        gw_verbs_log(d, GW_LOG_ERROR, "gradwire " GW_VERSION " port: device=%s:%d is down, and its connections wait for it as long as "
                     "GRADWIRE_IB_TIMEOUT=%u and _IB_RETRY=%u let them. Next: see its cable, and the switch", d->name, d->port,
                     d->timeout, d->retry);
    d->down_ns = d->host.now_ns();
}

static void qp_died(const struct ibv_async_event *e)
{
    struct gw_verbs_lane *l = e->element.qp->qp_context;

    if (l != NULL)
        l->event = (int)e->event_type;
}

void gw_verbs_event(struct gw_verbs_dev *d, const struct ibv_async_event *e)
{
    switch (e->event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        if (e->element.port_num == d->port)
            port_changed(d, e->event_type == IBV_EVENT_PORT_ACTIVE);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        d->fatal = 1;
        gw_verbs_log(d, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_DEVICE: device=%s says that it has failed, and so do its "
                     "connections. Next: see the kernel's log; the job must start again", d->name);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        qp_died(e);
        break;
    case IBV_EVENT_GID_CHANGE:
        gw_verbs_log(d, GW_LOG_INFO, "verbs: the addresses of %s have changed; new connections use what is there then", d->name);
        break;
    default:
        gw_verbs_log(d, GW_LOG_DEBUG, "verbs: %s: %s", d->name, ibv_event_type_str(e->event_type));
    }
}

/* ---- the thread ---- */

static void read_events(void)
{
    struct ibv_async_event e;

    for (struct gw_verbs_dev *d = devs; d != NULL; d = d->next) {
        while (ibv_get_async_event(d->ctx, &e) == 0) {
            gw_verbs_event(d, &e);
            ibv_ack_async_event(&e);
        }
    }
}

/* The descriptors are not ours to hold: a device that closes meanwhile wakes us, and a stale one is only a look too many. */
static void *watch(void *unused)
{
    struct pollfd fds[DEVS_AT_ONCE + 1];

    (void)unused;
    prctl(PR_SET_NAME, "gw-verbs");
    pthread_mutex_lock(&lock);
    while (!stop) {
        nfds_t n = 0;
        uint64_t rung;
        fds[n++] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
        for (struct gw_verbs_dev *d = devs; d != NULL && n <= DEVS_AT_ONCE; d = d->next)
            fds[n++] = (struct pollfd){ .fd = d->ctx->async_fd, .events = POLLIN };
        pthread_mutex_unlock(&lock);
        poll(fds, n, -1);
        pthread_mutex_lock(&lock);
        if (fds[0].revents != 0 && read(wake_fd, &rung, sizeof rung) < 0)
            rung = 0;
        read_events();
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static gw_err start(void)
{
    sigset_t all, before;
    int code;

    stop = 0;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return GW_E_SYS;
    sigfillset(&all); /* the host's signals are the host's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return GW_OK;
    close(wake_fd);
    wake_fd = -1;
    return GW_E_SYS;
}

static void wake(void)
{
    uint64_t one = 1;

    if (write(wake_fd, &one, sizeof one) < 0)
        return; /* it is full: somebody rang already */
}

gw_err gw_verbs_watch(struct gw_verbs_dev *d)
{
    int flags = fcntl(d->ctx->async_fd, F_GETFL);
    gw_err err = flags < 0 || fcntl(d->ctx->async_fd, F_SETFL, flags | O_NONBLOCK) != 0 ? GW_E_SYS : GW_OK;

    pthread_mutex_lock(&lock);
    if (err == GW_OK && devs == NULL)
        err = start();
    if (err == GW_OK) {
        d->next = devs;
        devs = d;
        d->watched = 1;
        wake();
    }
    pthread_mutex_unlock(&lock);
    return err;
}

void gw_verbs_unwatch(struct gw_verbs_dev *d)
{
    struct gw_verbs_dev **p = &devs;
    int last;

    if (!d->watched)
        return;
    pthread_mutex_lock(&lock);
    while (*p != d)
        p = &(*p)->next;
    *p = d->next;
    last = stop = devs == NULL;
    wake();
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    pthread_join(thread, NULL);
    close(wake_fd);
    wake_fd = -1;
}
