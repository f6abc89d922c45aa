/* perf_meet.c - two hosts find each other: the server binds the address it was told, and lets in
 * whoever has the code. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

enum {
    CODE_CHARS = 16, /* of five bits each: nobody guesses one */
    HELLO_BYTES = 4 + CODE_CHARS,
    HELLO_MS = 1000, /* how long a guest may stay without it */
    LOOK_MS = 100,
    GUESTS_MAX = 64,    /* at a time; one more sends the oldest away */
    STRANGERS_SAID = 16 /* lines about those who were sent away */
};
static const char port_default[] = "27182";

static int fail(char *why, size_t why_bytes, const char *what, const char *error)
{
    snprintf(why, why_bytes, "%s: %s", what, error);
    return -1;
}

/* "host", "host:port", "[v6]:port", "v6" */
static struct addrinfo *resolve(const char *address, int flags, char *why, size_t why_bytes)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags},
                    *list = NULL;
    char host[256];
    const char *port = port_default, *colon = strrchr(address, ':');
    const char *from = address, *end = address + strlen(address);

    if (*address == '[') {
        from++;
        end = strchr(address, ']');
        if (end != NULL && end[1] == ':')
            port = end + 2;
    } else if (colon != NULL && strchr(address, ':') == colon) {
        end = colon;
        port = colon + 1;
    }
    if (end == NULL || end == from || (size_t)(end - from) >= sizeof(host)) {
        fail(why, why_bytes, address, "not an address");
        return NULL;
    }
    char *rest;
    long number = strtol(port, &rest, 10);
    if (*port == '\0' || *rest != '\0' || number < 1 || number > 65535) {
        fail(why, why_bytes, address, "a port is a number from 1 to 65535");
        return NULL;
    }
    memcpy(host, from, (size_t)(end - from));
    host[end - from] = '\0';
    int err = getaddrinfo(host, port, &hints, &list);
    if (err != 0)
        fail(why, why_bytes, address, gai_strerror(err));
    return err == 0 ? list : NULL;
}

static int listen_on(const char *address, char *why, size_t why_bytes)
{
    struct addrinfo *ai = resolve(address, AI_PASSIVE, why, why_bytes);
    int one = 1;

    if (ai == NULL)
        return -1;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
            fail(why, why_bytes, address, strerror(errno));
            close(fd);
            fd = -1;
        }
    } else {
        fail(why, why_bytes, address, strerror(errno));
    }
    freeaddrinfo(ai);
    return fd;
}

static void name_of(const struct sockaddr *sa, socklen_t len, char *out, size_t out_bytes)
{
    char host[128], port[16];

    if (getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(out, out_bytes, "?");
    else
        snprintf(out, out_bytes, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

static int code_make(char code[CODE_CHARS + 1])
{
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    uint8_t chance[CODE_CHARS];

    if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
        return -1;
    for (int i = 0; i < CODE_CHARS; i++)
        code[i] = letters[chance[i] & 31];
    code[CODE_CHARS] = '\0';
    return 0;
}

static bool same_code(const uint8_t *a, const char *b)
{
    uint8_t diff = 0;

    for (int i = 0; i < CODE_CHARS; i++)
        diff |= (uint8_t)(a[i] ^ (uint8_t)b[i]);
    return diff == 0;
}

/* ---- the door: everybody who comes is heard at the same time, and has a second to say the code ---- */

struct guest {
    struct sockaddr_storage from;
    socklen_t from_len;
    uint64_t until_ms;
};

struct door {
    struct pollfd fd[1 + GUESTS_MAX]; /* the listener, then the guests, oldest first */
    struct guest guest[1 + GUESTS_MAX];
    nfds_t n;
    unsigned strangers;
    const char *code;
    struct perf_msg m;
};

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* The guest's whole hello is there, so nobody waits for it here. */
static bool greeted(struct door *d, int fd)
{
    const char *reason = "this is another version of gradwire perf";
    struct perf_msg *m = &d->m;

    if (perf_recv(fd, m, HELLO_MS) != 1 || m->type != PERF_MSG_HELLO || m->len != HELLO_BYTES)
        return false;
    if (m->body[0] == PERF_VERSION && m->body[1] == 0 && m->body[2] == 0 && m->body[3] == 0) {
        if (same_code(m->body + 4, d->code))
            return perf_send(fd, PERF_MSG_WELCOME, NULL, 0) == 0;
        reason = "the code is not the one that the server printed";
    }
    perf_send(fd, PERF_MSG_REFUSE, reason, strlen(reason));
    return false;
}

/* 1: a hello may stand there.  0: not all of it yet.  -1: that will never be one. */
static int hello_here(int fd)
{
    uint8_t bytes[PERF_HEAD_BYTES + HELLO_BYTES];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
    if (n == 0 || bytes[0] != 'G')
        return -1;
    if (n < PERF_HEAD_BYTES)
        return 0;
    if (bytes[8] != HELLO_BYTES || bytes[9] != 0 || bytes[10] != 0 || bytes[11] != 0)
        return -1;
    return n == sizeof(bytes);
}

static void forget(struct door *d, nfds_t at)
{
    d->n--;
    memmove(&d->fd[at], &d->fd[at + 1], (d->n - at) * sizeof(*d->fd));
    memmove(&d->guest[at], &d->guest[at + 1], (d->n - at) * sizeof(*d->guest));
}

static void send_away(struct door *d, nfds_t at)
{
    char name[160];

    name_of((struct sockaddr *)&d->guest[at].from, d->guest[at].from_len, name, sizeof(name));
    if (d->strangers++ < STRANGERS_SAID)
        fprintf(stderr, "gradwire perf: %s came without the code and was sent away%s\n", name,
                d->strangers == STRANGERS_SAID ? "; more of them go unsaid" : "");
    close(d->fd[at].fd);
    forget(d, at);
}

static void let_in(struct door *d)
{
    struct guest g = {.from_len = sizeof(g.from), .until_ms = now_ms() + HELLO_MS};
    int one = 1, fd = accept4(d->fd[0].fd, (struct sockaddr *)&g.from, &g.from_len, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (d->n == 1 + GUESTS_MAX)
        send_away(d, 1);
    d->fd[d->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    d->guest[d->n++] = g;
}

/* The one who has the code, taken out of the door; -1: not yet. */
static int look_round(struct door *d)
{
    char name[160];

    for (nfds_t at = 1; at < d->n;) {
        int fd = d->fd[at].fd, here = hello_here(fd);
        if (here > 0 && greeted(d, fd)) {
            name_of((struct sockaddr *)&d->guest[at].from, d->guest[at].from_len, name,
                    sizeof(name));
            printf("client %s\n", name);
            forget(d, at);
            return fd;
        }
        if (here != 0 || now_ms() >= d->guest[at].until_ms)
            send_away(d, at);
        else
            at++;
    }
    return -1;
}

/* A part of a hello wakes poll again and again, so then it only sleeps a little. */
static int wait_for_code(struct door *d)
{
    int fd = -1;

    while (fd < 0) {
        int ready = poll(d->fd, d->n, d->n > 1 ? LOOK_MS : -1);
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready > 0 && d->fd[0].revents != 0)
            let_in(d);
        else if (ready > 0)
            poll(NULL, 0, 1);
        fd = look_round(d);
    }
    return fd;
}

int perf_meet_server(const char *address, char *why, size_t why_bytes)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    char code[CODE_CHARS + 1], name[160];
    int fd = -1, door = listen_on(address, why, why_bytes);
    struct door *d = calloc(1, sizeof(*d));

    if (door < 0 || d == NULL || code_make(code) != 0 ||
        getsockname(door, (struct sockaddr *)&sa, &len) != 0)
        goto out;
    name_of((struct sockaddr *)&sa, len, name, sizeof(name));
    printf("waiting at %s for one client; on the other host:\n  gradwire perf %s --code %s\n", name,
           name, code);
    fflush(stdout);
    d->code = code;
    d->fd[d->n++] = (struct pollfd){.fd = door, .events = POLLIN};
    fd = wait_for_code(d);
    if (fd < 0)
        fail(why, why_bytes, address, strerror(errno));
    while (d->n > 1)
        send_away(d, 1);
out:
    free(d);
    if (door >= 0)
        close(door);
    return fd;
}

static int connect_to(const char *address, char *why, size_t why_bytes)
{
    struct addrinfo *list = resolve(address, 0, why, why_bytes);
    int one = 1, fd = -1;

    for (struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next) {
        struct timeval bound = {.tv_sec = PERF_WAIT_MS / 1000};
        fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(fd, ai->ai_addr, ai->ai_addrlen) != 0) {
            fail(why, why_bytes, address, strerror(errno == EINPROGRESS ? ETIMEDOUT : errno));
            close(fd);
            fd = -1;
        }
    }
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

int perf_meet_client(const char *address, const char *code, char *why, size_t why_bytes)
{
    uint8_t hello[HELLO_BYTES] = {PERF_VERSION};
    int fd = connect_to(address, why, why_bytes);
    struct perf_msg *m = malloc(sizeof(*m));

    if (fd < 0 || m == NULL)
        goto out;
    memcpy(hello + 4, code, strnlen(code, CODE_CHARS));
    if (perf_send(fd, PERF_MSG_HELLO, hello, sizeof(hello)) == 0 &&
        perf_recv(fd, m, PERF_WAIT_MS) == 1) {
        if (m->type == PERF_MSG_WELCOME)
            goto out;
        if (m->type == PERF_MSG_REFUSE)
            fail(why, why_bytes, address, perf_msg_text(m));
        else
            fail(why, why_bytes, address, "this is no gradwire perf server");
    } else {
        fail(why, why_bytes, address, "the server does not answer as gradwire perf");
    }
    close(fd);
    fd = -1;
out:
    free(m);
    return fd;
}
