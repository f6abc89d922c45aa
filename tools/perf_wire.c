/* perf_wire.c - the messages of perf's own connection.
 *
 *  0         4      6      8        12
 *  +---------+------+------+--------+------
 *  | "GWPF"  | type | zero | length | body      little-endian; length is PERF_MSG_BYTES at most
 *  +---------+------+------+--------+------
 *
 * A body is its fields one after the other, as the _write functions put them; a body of another
 * length is refused. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "host_run.h"
#include "perf.h"

enum { HEAD = PERF_HEAD_BYTES, MAGIC = 0x46505747 };

/* ---- fields: a cursor that goes bad for ever when it would leave the body ---- */

struct cursor {
    uint8_t *out;
    const uint8_t *in;
    size_t left;
    bool bad;
};

static void put(struct cursor *c, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *c->out++ = (uint8_t)(v >> 8 * i);
}

static uint64_t get(struct cursor *c, size_t bytes)
{
    uint64_t v = 0;

    if (c->left < bytes) {
        c->bad = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)*c->in++ << 8 * i;
    c->left -= bytes;
    return v;
}

static void put_name(struct cursor *c, const char *name)
{
    memset(c->out, 0, PERF_NAME_BYTES);
    memcpy(c->out, name, strnlen(name, PERF_NAME_BYTES - 1));
    c->out += PERF_NAME_BYTES;
}

/* These names end in the environment of the process: letters, digits, _ and - only. */
static void get_name(struct cursor *c, char *name)
{
    if (c->left < PERF_NAME_BYTES) {
        c->bad = true;
        return;
    }
    memcpy(name, c->in, PERF_NAME_BYTES);
    c->in += PERF_NAME_BYTES;
    c->left -= PERF_NAME_BYTES;
    size_t n = strnlen(name, PERF_NAME_BYTES);
    if (n == PERF_NAME_BYTES)
        c->bad = true;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-')
            c->bad = true;
}

static struct cursor reader(const struct perf_msg *m)
{
    return (struct cursor){.in = m->body, .left = m->len};
}

static int whole(const struct cursor *c)
{
    return c->bad || c->left != 0 ? -1 : 0;
}

/* ---- bodies ---- */

size_t perf_session_write(uint8_t *out, const struct perf_session *s)
{
    struct cursor c = {.out = out};

    put_name(&c, s->codec);
    put_name(&c, s->policy);
    put(&c, s->proto, 4);
    put(&c, s->conns, 4);
    put(&c, s->inflight, 4);
    put(&c, s->bidir, 1);
    put(&c, s->lat, 1);
    put(&c, s->size_max, 8);
    return (size_t)(c.out - out);
}

int perf_session_read(const struct perf_msg *m, struct perf_session *s)
{
    struct cursor c = reader(m);

    memset(s, 0, sizeof(*s));
    get_name(&c, s->codec);
    get_name(&c, s->policy);
    s->proto = (uint32_t)get(&c, 4);
    s->conns = (uint32_t)get(&c, 4);
    s->inflight = (uint32_t)get(&c, 4);
    uint64_t bidir = get(&c, 1), lat = get(&c, 1);
    s->size_max = get(&c, 8);
    if (whole(&c) != 0 || bidir > 1 || lat > 1 || s->proto >= HOST_PROTOS || s->conns < 1 ||
        s->conns > PERF_CONNS_MAX || s->inflight < 1 || s->inflight > NCCL_NET_MAX_REQUESTS ||
        s->size_max < 1 || s->size_max > PERF_SIZE_MAX ||
        s->size_max > PERF_MEMORY_MAX / s->conns / s->inflight)
        return -1;
    if (s->proto != HOST_SIMPLE && s->inflight > HOST_SLOTS)
        return -1;
    s->bidir = bidir != 0;
    s->lat = lat != 0;
    return 0;
}

size_t perf_run_write(uint8_t *out, const struct perf_run *r)
{
    struct cursor c = {.out = out};

    put(&c, r->kind, 4);
    put(&c, r->size, 8);
    put(&c, r->count, 8);
    return (size_t)(c.out - out);
}

int perf_run_read(const struct perf_msg *m, struct perf_run *r, uint64_t size_max)
{
    struct cursor c = reader(m);

    r->kind = (uint32_t)get(&c, 4);
    r->size = get(&c, 8);
    r->count = get(&c, 8);
    if (whole(&c) != 0 || r->kind > PERF_RUN_CHECK || r->size < 1 || r->size > size_max ||
        r->count < 1 || r->count > (r->kind == PERF_RUN_CHECK ? PERF_DIGESTS : PERF_COUNT_MAX))
        return -1;
    return 0;
}

size_t perf_done_write(uint8_t *out, const struct perf_done *d)
{
    struct cursor c = {.out = out};

    put(&c, d->counters, 1);
    put(&c, d->raw_sent, 8);
    put(&c, d->encode_ns, 8);
    put(&c, d->decode_ns, 8);
    put(&c, d->encode_bytes, 8);
    put(&c, d->decode_bytes, 8);
    put(&c, d->host_ns, 8);
    return (size_t)(c.out - out);
}

int perf_done_read(const struct perf_msg *m, struct perf_done *d)
{
    struct cursor c = reader(m);

    d->counters = get(&c, 1) != 0;
    d->raw_sent = get(&c, 8);
    d->encode_ns = get(&c, 8);
    d->decode_ns = get(&c, 8);
    d->encode_bytes = get(&c, 8);
    d->decode_bytes = get(&c, 8);
    d->host_ns = get(&c, 8);
    return whole(&c);
}

size_t perf_digest_write(uint8_t *out, const struct perf_digest *d)
{
    struct cursor c = {.out = out};

    put(&c, d->size, 8);
    put(&c, d->low, 8);
    put(&c, d->high, 8);
    return PERF_DIGEST_BYTES;
}

void perf_digest_read(const uint8_t *in, struct perf_digest *d)
{
    struct cursor c = {.in = in, .left = PERF_DIGEST_BYTES};

    d->size = get(&c, 8);
    d->low = get(&c, 8);
    d->high = get(&c, 8);
}

const char *perf_msg_text(struct perf_msg *m)
{
    uint32_t n = m->len < 300 ? m->len : 300;

    m->body[n] = '\0';
    for (uint32_t i = 0; i < n; i++)
        if (m->body[i] < 32 || m->body[i] > 126)
            m->body[i] = '?';
    return (const char *)m->body;
}

/* ---- the socket ---- */

/* Moves len bytes either way; 1 all, 0 nothing within wait_ms, -1 the end or an error, or a stop in
 * the middle. */
static int move(int fd, bool out, uint8_t *p, size_t len, int wait_ms)
{
    uint64_t end = host_now_ns() + (uint64_t)wait_ms * 1000000u;
    size_t at = 0;

    while (at < len) {
        ssize_t n = out ? send(fd, p + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(fd, p + at, len - at, MSG_DONTWAIT);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        uint64_t now = host_now_ns();
        struct pollfd pfd = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (now >= end)
            return at == 0 ? 0 : -1;
        if (poll(&pfd, 1, (int)((end - now) / 1000000u) + 1) < 0 && errno != EINTR)
            return -1;
    }
    return 1;
}

int perf_send(int fd, enum perf_msg_type type, const void *body, size_t len)
{
    uint8_t head[HEAD];
    struct cursor c = {.out = head};

    put(&c, MAGIC, 4);
    put(&c, type, 2);
    put(&c, 0, 2);
    put(&c, len, 4);
    if (move(fd, true, head, HEAD, PERF_WAIT_MS) != 1)
        return -1;
    return len == 0 || move(fd, true, (uint8_t *)(uintptr_t)body, len, PERF_WAIT_MS) == 1 ? 0 : -1;
}

int perf_recv(int fd, struct perf_msg *m, int wait_ms)
{
    uint8_t head[HEAD];
    struct cursor c = {.in = head, .left = HEAD};
    int got = move(fd, false, head, HEAD, wait_ms);

    if (got != 1)
        return got;
    uint64_t magic = get(&c, 4);
    m->type = (uint32_t)get(&c, 2);
    uint64_t zero = get(&c, 2);
    m->len = (uint32_t)get(&c, 4);
    if (magic != MAGIC || zero != 0 || m->len > PERF_MSG_BYTES)
        return -2;
    return m->len == 0 || move(fd, false, m->body, m->len, PERF_WAIT_MS) == 1 ? 1 : -1;
}
