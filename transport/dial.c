/* dial.c - the connecting side: one address after the other, a pause, all of them again, until the peer has answered our
 * hello or the time is up.  Read gw_dial_poll.
 *
 *    WAIT --> CONNECT --> HELLO --> ANSWER --> the peer's hello or reject
 *      ^         |          |          |
 *      '---------+----------+----------'  refused, unreachable, or closed without a word
 *
 * Closed without a word is no refusal: a door that strangers crowd drops its oldest guest, and we may have been it. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>
#include <base/clock.h>

#include "guest.h"

enum { PAUSE_MS_FIRST = 25, PAUSE_MS_MAX = 2000 };

static uint64_t ms(uint32_t n)
{
    return n * 1000000ull;
}

gw_err gw_dial_start(const struct gw_control_conf *conf, const struct gw_handle *handle, const struct gw_hello *mine,
                     struct gw_guest **guest_p)
{
    if (handle->addrs < 1 || handle->addrs > GW_ADDRS_MAX)
        return GW_E_ARG;
    struct gw_guest *g = gw_guest_new(conf->log);
    struct gw_dial *d = calloc(1, sizeof *d);
    if (g == NULL || d == NULL) {
        free(d);
        gw_guest_close(g);
        return GW_E_NOMEM;
    }
    struct gw_hello hello = *mine;
    memcpy(hello.token, handle->token, GW_TOKEN_BYTES);
    d->hello_bytes = gw_hello_write(d->hello, &hello);
    d->handle = *handle;
    d->timeout_ms = conf->hello_timeout_ms;
    d->rounds_left = conf->dial_retries;
    d->pause_ms = PAUSE_MS_FIRST;
    d->began_ns = gw_now_ns();
    d->deadline_ns = d->began_ns + ms(conf->hello_timeout_ms);
    g->dial = d;
    gw_guest_name(g, &handle->addr[0]);
    *guest_p = g;
    return GW_OK;
}

/* ---- what to say when it is over ---- */
static void list_addresses(const struct gw_dial *d, char *out, size_t room)
{
    size_t at = 0;
    for (int i = 0; i < d->handle.addrs; i++) {
        char one[GW_SOCK_TEXT];
        gw_sock_text(&d->handle.addr[i], one);
        if (strlen(one) + 12 > room - at) {
            snprintf(out + at, room - at, " +%d more", d->handle.addrs - i);
            return;
        }
        at += (size_t)snprintf(out + at, room - at, "%s%s", i > 0 ? " " : "", one);
    }
}

static const char *advice(const struct gw_dial *d, int cause)
{
    if (d->step == GW_DIAL_ANSWER)
        return "is gradwire loaded there too, and does that rank still run?";
    switch (cause) {
    case 0:
        return "is that rank ending, or is the port another program's?";
    case ECONNREFUSED:
        return "does that rank still run?";
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
        return "no route between the two subnets: choose an interface with GRADWIRE_IFNAME";
    case EMFILE:
        return "raise the limit of open files (ulimit -n)";
    default:
        return "does a firewall drop it? GRADWIRE_PORTS sets the ports, GRADWIRE_IFNAME the interface";
    }
}

static const char *cause_text(int cause, char *buf, size_t room)
{
    return cause == 0 ? "closed without a word" : strerror_r(cause, buf, room);
}

static gw_err give_up(struct gw_guest *g, gw_err code, int cause, struct gw_reject *why)
{
    struct gw_dial *d = g->dial;
    char addresses[100], buf[64], line[512];
    const char *reason = cause_text(cause, buf, sizeof buf);
    if (d->step == GW_DIAL_ANSWER && code == GW_E_TIMEOUT)
        reason = "connected, but no hello came back";
    list_addresses(d, addresses, sizeof addresses);
    snprintf(line, sizeof line, "connect to %s%s%s: %u tries in %.1f s, %s; %s", addresses, d->from[0] ? " from " : "",
             d->from, d->tries, (double)(gw_now_ns() - d->began_ns) * 1e-9, reason, advice(d, cause));
    memset(why, 0, sizeof *why);
    why->code = code;
    memcpy(why->text, line, strnlen(line, sizeof why->text - 1));
    gw_sock_close(&g->sock);
    return code;
}

/* ---- the steps; each GW_OK (go on), GW_AGAIN, or the end ---- */
static gw_err try_failed(struct gw_guest *g, int cause, struct gw_reject *why)
{
    struct gw_dial *d = g->dial;
    char buf[64];
    d->last_errno = cause;
    gw_sock_close(&g->sock);
    g->in_len = g->out_len = g->out_at = 0;
    gw_log(g->log, GW_LOG_DEBUG, "connect: try %u of %s: %s", d->tries, g->peer, cause_text(cause, buf, sizeof buf));
    d->step_ns = gw_now_ns();
    if (++d->at == d->handle.addrs) {
        d->at = 0;
        if (cause != 0 && d->rounds_left == 0)
            return give_up(g, cause == EMFILE || cause == ENFILE || cause == ENOMEM ? GW_E_SYS : GW_E_PEER, cause, why);
        d->rounds_left -= cause != 0;
        d->step_ns += ms(d->pause_ms);
        d->pause_ms = d->pause_ms * 2 < PAUSE_MS_MAX ? d->pause_ms * 2 : PAUSE_MS_MAX;
    }
    d->step = GW_DIAL_WAIT;
    return GW_OK;
}

static void remember_from(struct gw_guest *g)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct gw_addr a;
    if (getsockname(g->sock.fd, (struct sockaddr *)&ss, &len) == 0 && gw_sock_from(&ss, &a) && a.port != 0)
        gw_sock_text(&a, g->dial->from);
}

static gw_err begin_try(struct gw_guest *g, uint64_t now, struct gw_reject *why)
{
    struct gw_dial *d = g->dial;
    if (now < d->step_ns)
        return GW_AGAIN;
    const struct gw_addr *a = &d->handle.addr[d->at];
    struct sockaddr_storage ss;
    socklen_t len = gw_sock_to(a, &ss);
    int on = 1;
    d->tries++;
    gw_guest_name(g, a);
    if (gw_sock_open(&g->sock, a->family) != 0)
        return try_failed(g, errno, why);
    setsockopt(g->sock.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(g->sock.fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)
        return try_failed(g, errno, why);
    remember_from(g);
    d->step = GW_DIAL_CONNECT;
    /* One address that swallows everything must leave time for the others. */
    d->step_ns = d->handle.addrs == 1 ? d->deadline_ns : now + ms(d->timeout_ms) / (2u * d->handle.addrs);
    return GW_OK;
}

static gw_err finish_connect(struct gw_guest *g, uint64_t now, struct gw_reject *why)
{
    struct gw_dial *d = g->dial;
    struct pollfd p = {.fd = g->sock.fd, .events = POLLOUT};
    int cause = 0;
    socklen_t len = sizeof cause;
    if (poll(&p, 1, 0) <= 0)
        return now < d->step_ns ? GW_AGAIN : try_failed(g, ETIMEDOUT, why);
    if (getsockopt(g->sock.fd, SOL_SOCKET, SO_ERROR, &cause, &len) != 0)
        cause = errno;
    if (cause != 0)
        return try_failed(g, cause, why);
    remember_from(g);
    memcpy(g->out, d->hello, d->hello_bytes);
    g->out_len = d->hello_bytes, g->out_at = 0, g->in_len = 0;
    d->step = GW_DIAL_HELLO;
    return GW_OK;
}

static gw_err say_hello(struct gw_guest *g, struct gw_reject *why)
{
    gw_err err = gw_guest_write(g);
    if (err == GW_E_PEER)
        return try_failed(g, errno == EPIPE || errno == ECONNRESET ? 0 : errno, why);
    if (err == GW_OK)
        g->dial->step = GW_DIAL_ANSWER;
    return err;
}

static gw_err not_ours(struct gw_guest *g, gw_err code, struct gw_reject *why)
{
    memset(why, 0, sizeof *why);
    why->code = code;
    snprintf(why->text, sizeof why->text, code == GW_E_VERSION
                 ? "%s answered with control messages of another version; install one build of gradwire on both hosts"
                 : "%s answered with bytes that are no hello; something else than gradwire listens there", g->peer);
    gw_sock_close(&g->sock);
    return code;
}

/* The end of the story: GW_OK with *theirs set, or how it ended. */
static gw_err hear_answer(struct gw_guest *g, struct gw_hello *theirs, struct gw_reject *why, int *done)
{
    enum gw_ctl_kind kind;
    gw_err err = gw_guest_read(g, &kind);
    if (err == GW_AGAIN)
        return err;
    if (err == GW_E_PEER)
        return try_failed(g, errno == ECONNRESET || errno == EPIPE ? 0 : errno, why);
    if (err != GW_OK)
        return not_ours(g, err, why);
    *done = 1;
    if (kind == GW_CTL_REJECT && gw_reject_read(g->in, g->in_len, why) == GW_OK)
        return GW_E_REFUSED;
    if (kind != GW_CTL_HELLO || gw_hello_read(g->in, g->in_len, theirs) != GW_OK)
        return not_ours(g, GW_E_PROTO, why);
    g->in_len = g->out_len = g->out_at = 0;
    return GW_OK;
}

gw_err gw_dial_poll(struct gw_guest *guest, struct gw_hello *theirs, struct gw_reject *why)
{
    struct gw_dial *d = guest->dial;
    for (;;) {
        uint64_t now = gw_now_ns();
        gw_err err = GW_OK;
        int done = 0;
        if (d->step != GW_DIAL_WAIT && guest->sock.fd < 0)
            return GW_E_CLOSED; /* the child of a fork */
        switch (d->step) {
        case GW_DIAL_WAIT:
            err = begin_try(guest, now, why);
            break;
        case GW_DIAL_CONNECT:
            err = finish_connect(guest, now, why);
            break;
        case GW_DIAL_HELLO:
            err = say_hello(guest, why);
            break;
        case GW_DIAL_ANSWER:
            err = hear_answer(guest, theirs, why, &done);
            break;
        }
        if (err < 0 || done)
            return err;
        if (now >= d->deadline_ns)
            return give_up(guest, GW_E_TIMEOUT, d->step == GW_DIAL_WAIT ? d->last_errno : ETIMEDOUT, why);
        if (err == GW_AGAIN)
            return GW_AGAIN;
    }
}
