/* control.c - what is said on one watched connection: alive, fail, bye, and what its silence means.
 *
 * Read gw_control_input for what comes, gw_control_tick for what does not.  Everything runs under the watch's lock. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "guest.h"
#include "watch.h"

enum { READS_PER_WAKE = 64 };

/* ---- signs ---- */
static void sign(struct gw_control *c, enum gw_sign s)
{
    if (c->w == NULL)
        return;
    atomic_fetch_or_explicit(&c->w->signs, s, memory_order_release);
    c->due = 1;
}

static int signed_already(const struct gw_control *c, uint32_t signs)
{
    return (atomic_load_explicit(&c->w->signs, memory_order_relaxed) & signs) != 0;
}

void gw_control_tell(struct gw_control *c)
{
    if (!c->due)
        return;
    c->due = 0;
    if (c->w != NULL && c->w->changed != NULL)
        c->w->changed(c->w, c->w->arg);
}

/* The comm may read bye, fail and age_ms as soon as their sign is set: each is written once, before its sign. */
static void sign_age(struct gw_control *c, enum gw_sign s, uint64_t age_ms)
{
    if (c->w != NULL && !signed_already(c, GW_SIGN_TIMEOUT | GW_SIGN_STALL))
        c->w->age_ms = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
    sign(c, s);
}

static void sign_fail(struct gw_control *c, const struct gw_fail *f)
{
    if (c->w == NULL || signed_already(c, GW_SIGN_FAIL))
        return;
    c->w->fail = *f;
    sign(c, GW_SIGN_FAIL);
}

static void sign_bye(struct gw_control *c, const struct gw_bye *b)
{
    if (c->w == NULL || signed_already(c, GW_SIGN_BYE))
        return;
    c->w->bye = *b;
    sign(c, GW_SIGN_BYE);
}

static void end_reading(struct gw_control *c)
{
    c->ended = 1;
    c->out_len = 0;
    gw_watch_interest(c);
}

static void broken(struct gw_control *c, int cause)
{
    /* The system tells the cause to one call only, and that may have been a send. */
    if (cause == 0)
        cause = c->send_errno;
    int no_ack = cause == ETIMEDOUT || cause == EHOSTUNREACH || cause == ENETUNREACH;
    /* After its bye a peer may vanish in any way it likes. */
    if (no_ack && c->w != NULL && !signed_already(c, GW_SIGN_BYE))
        sign_age(c, GW_SIGN_TIMEOUT, c->conf.peer_timeout_ms);
    else
        sign(c, GW_SIGN_EOF);
    end_reading(c);
}

/* ---- saying ---- */
void gw_control_flush(struct gw_control *c)
{
    uint32_t at = 0;
    while (at < c->out_len && !c->ended) {
        ssize_t n = send(c->sock.fd, c->out + at, c->out_len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            /* What the peer said before it went stands unread in the socket: reading, not writing, says how it ended. */
            c->send_errno = errno;
            at = c->out_len;
            break;
        }
        if (n < 0)
            break;
        at += (uint32_t)n;
    }
    if (at > 0) {
        memmove(c->out, c->out + at, c->out_len - at);
        c->out_len -= at;
    }
    if (c->w == NULL && c->out_len == 0 && !c->shut && c->sock.fd >= 0) {
        shutdown(c->sock.fd, SHUT_WR);
        c->shut = 1;
    }
    gw_watch_interest(c);
}

static void say(struct gw_control *c, const uint8_t *msg, uint32_t len)
{
    if (c->ended || c->sock.fd < 0 || len > sizeof c->out - c->out_len)
        return;
    memcpy(c->out + c->out_len, msg, len);
    c->out_len += len;
    gw_control_flush(c);
}

/* A sign of life is worth nothing once older ones still wait to be written, and must leave room for fail and bye. */
static void say_alive(struct gw_control *c, int answer_me)
{
    uint8_t msg[GW_CTL_MAX];
    if (c->out_len == 0 && !c->said_last)
        say(c, msg, gw_alive_write(msg, answer_me));
}

/* ---- hearing ---- */
static void babble(struct gw_control *c)
{
    struct gw_fail f = {.code = GW_E_PROTO};
    snprintf(f.text, sizeof f.text, "sent bytes on its control socket that are no control message");
    sign_fail(c, &f);
    end_reading(c);
}

static void obey(struct gw_control *c, enum gw_ctl_kind kind, uint32_t len)
{
    struct gw_fail f;
    struct gw_bye b;
    int answer_me;
    if (kind == GW_CTL_ALIVE && gw_alive_read(c->in, len, &answer_me) == GW_OK) {
        if (answer_me)
            say_alive(c, 0);
    } else if (kind == GW_CTL_FAIL && gw_fail_read(c->in, len, &f) == GW_OK) {
        sign_fail(c, &f);
    } else if (kind == GW_CTL_BYE && gw_bye_read(c->in, len, &b) == GW_OK) {
        sign_bye(c, &b);
    } else {
        babble(c);
    }
}

static void heard(struct gw_control *c)
{
    uint64_t now = gw_now_ns();
    if (c->warned && c->w != NULL)
        gw_log(c->conf.log, GW_LOG_INFO, "watch: %s: %s answers again after %.1f s", c->w->local_name, c->w->peer_name,
               (double)(now - c->heard_ns) * 1e-9);
    c->heard_ns = now;
    c->warned = 0;
}

static void hear_all(struct gw_control *c)
{
    enum gw_ctl_kind kind;
    uint32_t whole;
    gw_err err = GW_AGAIN;
    while (!c->ended && c->in_len > 0 && (err = gw_ctl_read(c->in, c->in_len, &kind, &whole)) == GW_OK) {
        obey(c, kind, whole);
        memmove(c->in, c->in + whole, c->in_len - whole);
        c->in_len -= whole;
    }
    if (err < 0 && !c->ended)
        babble(c);
}

/* A peer that writes without pause is left for the next wake: the others have their turn. */
void gw_control_input(struct gw_control *c)
{
    for (int i = 0; i < READS_PER_WAKE && !c->ended && c->sock.fd >= 0; i++) {
        ssize_t n = recv(c->sock.fd, c->in + c->in_len, sizeof c->in - c->in_len, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            broken(c, n == 0 ? 0 : errno);
            return;
        }
        if (c->w == NULL)
            continue; /* lingering: it only matters that it is read */
        c->in_len += (uint32_t)n;
        heard(c);
        hear_all(c);
    }
}

/* ---- silence ---- */
uint32_t gw_control_patience_ms(const struct gw_control *c)
{
    uint32_t warn = c->conf.stall_warn_ms, timeout = c->conf.stall_timeout_ms;
    return warn == 0 || (timeout != 0 && timeout < warn) ? timeout : warn;
}

static void warn_stall(struct gw_control *c, uint64_t silent_ms)
{
    c->warned = 1;
    /* no error yet, but shown like one: a job that hangs says nothing else */
    gw_log(c->conf.log, GW_LOG_ERROR,
           "gradwire " GW_VERSION " stall: local=\"%s\" peer=\"%s\" open=%u silent_ms=%llu: no sign of life of the peer's "
           "process, though its host acknowledges: stopped, in a debugger, or starved. Next: look at that process; %s",
           c->w->local_name, c->w->peer_name, atomic_load_explicit(&c->w->outstanding, memory_order_relaxed),
           (unsigned long long)silent_ms,
           c->conf.stall_timeout_ms ? "GRADWIRE_STALL_TIMEOUT will end the connection" : "waiting on (GRADWIRE_STALL_TIMEOUT=0)");
}

void gw_control_tick(struct gw_control *c, uint64_t now, int anew)
{
    if (c->w == NULL || c->ended || c->stalled || signed_already(c, GW_SIGN_BYE))
        return;
    int waits = atomic_load_explicit(&c->w->outstanding, memory_order_relaxed) != 0;
    if (!waits || !c->waiting || anew)
        c->heard_ns = now, c->warned = 0;
    c->waiting = (uint8_t)waits;
    if (!waits)
        return;
    uint64_t silent_ms = (now - c->heard_ns) / 1000000;
    if (c->conf.stall_timeout_ms != 0 && silent_ms >= c->conf.stall_timeout_ms) {
        c->stalled = 1;
        sign_age(c, GW_SIGN_STALL, silent_ms);
        return;
    }
    if (c->conf.stall_warn_ms != 0 && silent_ms >= c->conf.stall_warn_ms && !c->warned)
        warn_stall(c, silent_ms);
    say_alive(c, 1);
}

/* ---- beginning and end ---- */
static void set_timeouts(int fd, uint32_t peer_timeout_ms)
{
    if (peer_timeout_ms == 0)
        return;
    int on = 1, ms = (int)peer_timeout_ms, idle = (int)(peer_timeout_ms / 3000), step = (int)(peer_timeout_ms / 6000);
    idle = idle < 1 ? 1 : idle;
    step = step < 1 ? 1 : step;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    /* With it set, it alone decides how long unanswered probes and unacknowledged bytes are put up with. */
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

gw_err gw_control_watch(const struct gw_control_conf *conf, struct gw_guest *guest, struct gw_watched *w,
                        struct gw_control **control_p)
{
    struct gw_control *c = calloc(1, sizeof *c);
    gw_err err = c == NULL ? GW_E_NOMEM : guest->sock.fd < 0 ? GW_E_CLOSED : GW_OK;
    if (err == GW_OK) {
        gw_list_init(&c->node);
        gw_sock_move(&c->sock, &guest->sock);
        c->conf = *conf;
        c->w = w;
        c->heard_ns = gw_now_ns();
        set_timeouts(c->sock.fd, conf->peer_timeout_ms);
        gw_watch_lock();
        err = gw_watch_add(c);
        if (err == GW_OK)
            *control_p = c; /* before the first `changed`, which may want it */
        gw_watch_unlock();
        if (err != GW_OK)
            gw_sock_close(&c->sock);
    }
    gw_guest_close(guest);
    if (err != GW_OK)
        free(c);
    return err;
}

void gw_control_fail(struct gw_control *control, const struct gw_fail *f)
{
    uint8_t msg[GW_CTL_MAX];
    gw_watch_lock();
    if (control->fails++ == 0 && !control->said_last) {
        say(control, msg, gw_fail_write(msg, f));
        control->said_last = 1;
    }
    gw_watch_unlock();
}

void gw_control_read_now(struct gw_control *control)
{
    gw_watch_lock();
    gw_control_input(control);
    /* The signs are there for the caller; who else must hear of them does so on the watcher's thread. */
    if (control->due)
        gw_watch_wake();
    gw_watch_unlock();
}

void gw_control_bye(struct gw_control *control, const struct gw_bye *bye, uint32_t linger_ms)
{
    uint8_t msg[GW_CTL_MAX];
    gw_watch_lock();
    if (bye != NULL && !control->said_last)
        say(control, msg, gw_bye_write(msg, bye));
    control->said_last = 1;
    control->w = NULL;
    control->in_len = 0;
    control->linger_ns = gw_now_ns() + linger_ms * 1000000ull;
    gw_control_flush(control);
    gw_watch_wake();
    gw_watch_unlock();
}

int gw_control_through(const struct gw_control *c, uint64_t now)
{
    return c->w == NULL && (c->ended || now >= c->linger_ns);
}

void gw_control_orphan(struct gw_control *c)
{
    c->ended = 1, c->in_epoll = 0;
    gw_list_init(&c->node);
    if (c->w != NULL)
        atomic_fetch_or_explicit(&c->w->signs, GW_SIGN_EOF, memory_order_release);
}
