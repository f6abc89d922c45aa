/* door.c - the listener: who comes with the right hello and token gets in, everybody else is gone soon.  Read gw_door_poll.
 *
 * Whatever strangers do costs at most GUESTS_MAX descriptors, and a stranger is turned away at its first wrong byte. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <base/bytes.h>
#include <base/clock.h>

#include "guest.h"

enum {
    GUESTS_MAX = 64,
    ACCEPTS_PER_POLL = 32, /* below GUESTS_MAX: who is accepted last is read at least once before it can be crowded out */
    PORT_TRIES_MAX = 65536,
};

struct gw_door {
    struct gw_control_conf conf;
    struct gw_handle handle;
    struct gw_sock sock[GW_ADDRS_MAX];
    struct gw_list guests; /* half-open, oldest first */
    int guest_count;
    uint32_t strangers, wrong_tokens, crowded_out, silent;
    uint8_t said_full;
};

/* ---- opening ---- */
static int bind_port(struct gw_sock *s, struct gw_addr *a, uint16_t port)
{
    struct sockaddr_storage ss;
    a->port = port;
    socklen_t len = gw_sock_to(a, &ss);
    /* bind takes a port that another socket holds but does not listen on, so listen is the one that may still say no. */
    if (bind(s->fd, (struct sockaddr *)&ss, len) != 0 || listen(s->fd, SOMAXCONN) != 0)
        return -1;
    len = sizeof ss;
    if (getsockname(s->fd, (struct sockaddr *)&ss, &len) != 0)
        return -1;
    struct gw_addr got;
    gw_sock_from(&ss, &got);
    a->port = got.port;
    return 0;
}

static int open_socket(struct gw_sock *s, const struct gw_addr *a)
{
    int on = 1;
    if (gw_sock_open(s, a->family) != 0)
        return -1;
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->family == 6)
        setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    return 0;
}

/* Many ranks of one machine begin at once: each starts somewhere else in the range, and walks on. */
static int open_address(const struct gw_control_conf *conf, struct gw_sock *s, struct gw_addr *a, uint32_t start)
{
    uint32_t ports = conf->port_lo == 0 ? 1 : (uint32_t)conf->port_hi - conf->port_lo + 1;
    for (uint32_t i = 0; i < ports && i < PORT_TRIES_MAX; i++) {
        uint16_t port = conf->port_lo == 0 ? 0 : (uint16_t)(conf->port_lo + (start + i) % ports);
        if (open_socket(s, a) != 0)
            return -1;
        if (bind_port(s, a, port) == 0)
            return 0;
        gw_sock_close(s);
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

static void say_not_opened(const struct gw_control_conf *conf, const struct gw_addr *a, int cause)
{
    char text[GW_SOCK_TEXT];
    struct gw_addr any = *a;
    any.port = 0;
    gw_sock_text(&any, text);
    errno = cause;
    if (cause == EADDRINUSE && conf->port_lo != 0)
        gw_log(conf->log, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_SYS: op=listen local=\"%s\": no free port in GRADWIRE_PORTS "
               "%u-%u: %m. Next: a wider range; each connection to us takes one, and so does each one's lane", text,
               conf->port_lo, conf->port_hi);
    else if (cause == EMFILE)
        gw_log(conf->log, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_SYS: op=listen local=\"%s\": %m. Next: raise the limit of open "
               "files (ulimit -n)", text);
    else
        gw_log(conf->log, GW_LOG_WARN, "gradwire: listen on %s: %m", text);
}

static gw_err open_all(struct gw_door *door, const struct gw_addr *addrs, int n)
{
    uint32_t start;
    int cause = 0;
    memcpy(&start, door->handle.token, sizeof start);
    start ^= (uint32_t)gw_now_ns(); /* the port tells nothing of the token */
    for (int i = 0; i < n && door->handle.addrs < GW_ADDRS_MAX; i++) {
        int at = door->handle.addrs;
        door->handle.addr[at] = addrs[i];
        if (open_address(&door->conf, &door->sock[at], &door->handle.addr[at], start) == 0)
            door->handle.addrs++;
        else
            say_not_opened(&door->conf, &addrs[i], cause = errno);
    }
    if (door->handle.addrs > 0)
        return GW_OK;
    errno = cause;
    if (cause != EADDRINUSE && cause != EMFILE) /* these were said as errors */
        gw_log(door->conf.log, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_SYS: op=listen: none of our %d addresses can be "
               "listened on: %m. Next: choose another interface with GRADWIRE_IFNAME", n);
    return GW_E_SYS;
}

gw_err gw_door_open(const struct gw_control_conf *conf, const struct gw_addr *addrs, int n, struct gw_door **door_p,
                    struct gw_handle *handle)
{
    if (n < 1 || conf->port_lo > conf->port_hi)
        return GW_E_ARG;
    struct gw_door *door = calloc(1, sizeof *door);
    if (door == NULL)
        return GW_E_NOMEM;
    door->conf = *conf;
    gw_list_init(&door->guests);
    for (int i = 0; i < GW_ADDRS_MAX; i++)
        gw_sock_init(&door->sock[i]);
    gw_err err = GW_E_SYS;
    if (getrandom(door->handle.token, GW_TOKEN_BYTES, 0) != GW_TOKEN_BYTES)
        gw_log(conf->log, GW_LOG_ERROR, "listen: getrandom for the token: %m");
    else
        err = open_all(door, addrs, n);
    if (err != GW_OK) {
        gw_door_close(door);
        return err;
    }
    *handle = door->handle;
    handle->local = 0;
    *door_p = door;
    return GW_OK;
}

/* ---- who comes in ---- */
static void drop(struct gw_door *door, struct gw_guest *g, uint32_t *counter, const char *why)
{
    ++*counter;
    gw_log(door->conf.log, GW_LOG_DEBUG, "hello: %s dropped: %s", g->peer, why);
    door->guest_count--;
    gw_guest_close(g);
}

static void refuse(struct gw_door *door, struct gw_guest *g, uint32_t *counter, gw_err code, const char *text)
{
    struct gw_reject why = {.code = code};
    ++*counter;
    gw_log(door->conf.log, GW_LOG_DEBUG, "hello: %s refused: %s", g->peer, text);
    strncpy(why.text, text, sizeof why.text - 1);
    if (door->conf.host != NULL)
        strncpy(why.host, door->conf.host, sizeof why.host - 1);
    door->guest_count--;
    gw_guest_reject(g, &why);
}

static struct gw_guest *oldest(struct gw_door *door)
{
    return gw_list_empty(&door->guests) ? NULL : gw_list_of(door->guests.next, struct gw_guest, node);
}

/* 1: a guest more. */
static int let_in(struct gw_door *door, const struct gw_sock *listener)
{
    struct gw_sock sock;
    struct gw_addr from;
    if (gw_sock_accept(&sock, listener, &from) != 0) {
        /* Out of descriptors: strangers must not hold those that the true peer needs. */
        if ((errno == EMFILE || errno == ENFILE) && !door->said_full) {
            gw_log(door->conf.log, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_SYS: op=accept: %m. Next: raise the limit of open "
                   "files (ulimit -n)");
            door->said_full = 1;
        }
        if ((errno == EMFILE || errno == ENFILE) && oldest(door) != NULL)
            drop(door, oldest(door), &door->crowded_out, "its descriptor is needed");
        return 0;
    }
    struct gw_guest *g = gw_guest_new(door->conf.log);
    if (g == NULL) {
        gw_sock_close(&sock);
        return 0;
    }
    int on = 1;
    gw_sock_move(&g->sock, &sock);
    setsockopt(g->sock.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    gw_guest_name(g, &from);
    g->deadline_ns = gw_now_ns() + door->conf.hello_timeout_ms * 1000000ull;
    if (door->guest_count == GUESTS_MAX)
        drop(door, oldest(door), &door->crowded_out, "too many connections that have not said hello");
    gw_list_append(&door->guests, &g->node);
    door->guest_count++;
    return 1;
}

/* A whole message has come: 1 if it is the true peer's hello. */
static int judge(struct gw_door *door, struct gw_guest *g, enum gw_ctl_kind kind, struct gw_hello *theirs)
{
    if (kind != GW_CTL_HELLO || gw_hello_read(g->in, g->in_len, theirs) != GW_OK) {
        drop(door, g, &door->strangers, "its first message is no hello");
        return 0;
    }
    if (!gw_same_secret(theirs->token, door->handle.token, GW_TOKEN_BYTES)) {
        refuse(door, g, &door->wrong_tokens, GW_E_REFUSED,
               "wrong token: this port belongs to another connection, perhaps of an earlier job");
        return 0;
    }
    gw_list_remove(&g->node);
    door->guest_count--;
    g->in_len = 0;
    return 1;
}

/* 1: g is through, and no longer the door's. */
static int hear(struct gw_door *door, struct gw_guest *g, uint64_t now, struct gw_hello *theirs)
{
    enum gw_ctl_kind kind;
    switch (gw_guest_read(g, &kind)) {
    case GW_OK:
        return judge(door, g, kind, theirs);
    case GW_AGAIN:
        if (now >= g->deadline_ns)
            drop(door, g, &door->silent, "no hello in time");
        return 0;
    case GW_E_PEER:
        drop(door, g, &door->strangers, "closed before its hello");
        return 0;
    case GW_E_VERSION:
        refuse(door, g, &door->strangers, GW_E_VERSION,
               "control messages of another version; install one build of gradwire on both hosts");
        return 0;
    default:
        drop(door, g, &door->strangers, "its bytes are no hello");
        return 0;
    }
}

gw_err gw_door_poll(struct gw_door *door, struct gw_guest **guest_p, struct gw_hello *theirs)
{
    if (door->sock[0].fd < 0)
        return GW_E_CLOSED; /* the child of a fork */
    int room = ACCEPTS_PER_POLL;
    for (int i = 0; i < door->handle.addrs; i++)
        while (room > 0 && let_in(door, &door->sock[i]))
            room--;
    uint64_t now = gw_now_ns();
    gw_list_each_safe(node, next, &door->guests) {
        struct gw_guest *g = gw_list_of(node, struct gw_guest, node);
        if (hear(door, g, now, theirs)) {
            *guest_p = g;
            return GW_OK;
        }
    }
    return GW_AGAIN;
}

void gw_door_close(struct gw_door *door)
{
    if (door == NULL)
        return;
    gw_list_each_safe(node, next, &door->guests)
        gw_guest_close(gw_list_of(node, struct gw_guest, node));
    for (int i = 0; i < GW_ADDRS_MAX; i++)
        gw_sock_close(&door->sock[i]);
    uint32_t turned_away = door->strangers + door->wrong_tokens + door->crowded_out + door->silent;
    if (turned_away > 0)
        gw_log(door->conf.log, GW_LOG_INFO,
               "hello: turned away %u connections: %u with a wrong token, %u silent, %u crowded out, %u others", turned_away,
               door->wrong_tokens, door->silent, door->crowded_out, door->strangers);
    free(door);
}
