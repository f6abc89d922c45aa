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
#include <unistd.h>

#include "perf.h"

enum {
    CODE_CHARS = 16, /* of five bits each: nobody guesses one */
    HELLO_BYTES = 4 + CODE_CHARS,
    HELLO_MS = 1000, /* how long a stranger may hold the door */
    STRANGERS_MAX = 64
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
        if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, 4) != 0) {
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

static bool greeted(int fd, const char *code, struct perf_msg *m)
{
    const char *reason = "this is another version of gradwire perf";

    if (perf_recv(fd, m, HELLO_MS) != 1 || m->type != PERF_MSG_HELLO || m->len != HELLO_BYTES)
        return false;
    if (m->body[0] == PERF_VERSION && m->body[1] == 0 && m->body[2] == 0 && m->body[3] == 0) {
        if (same_code(m->body + 4, code))
            return perf_send(fd, PERF_MSG_WELCOME, NULL, 0) == 0;
        reason = "the code is not the one that the server printed";
    }
    perf_send(fd, PERF_MSG_REFUSE, reason, strlen(reason));
    return false;
}

int perf_meet_server(const char *address, char *why, size_t why_bytes)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    char code[CODE_CHARS + 1], name[160];
    int one = 1, fd = -1, door = listen_on(address, why, why_bytes);
    struct perf_msg *m = malloc(sizeof(*m));

    if (door < 0 || m == NULL || code_make(code) != 0 ||
        getsockname(door, (struct sockaddr *)&sa, &len) != 0)
        goto out;
    name_of((struct sockaddr *)&sa, len, name, sizeof(name));
    printf("waiting at %s for one client; on the other host:\n  gradwire perf %s --code %s\n", name,
           name, code);
    fflush(stdout);
    snprintf(why, why_bytes, "%s: %d strangers came without the code", address, STRANGERS_MAX);
    for (int strangers = 0; strangers < STRANGERS_MAX; strangers++) {
        len = sizeof(sa);
        fd = accept4(door, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        name_of((struct sockaddr *)&sa, len, name, sizeof(name));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (greeted(fd, code, m)) {
            printf("client %s\n", name);
            goto out;
        }
        fprintf(stderr, "gradwire perf: %s came without the code and was sent away\n", name);
        close(fd);
        fd = -1;
    }
out:
    free(m);
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
