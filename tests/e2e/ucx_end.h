/* ucx_end.h - one end of a UCX lane in a child process, for the e2e_ucx programs.
 *
 * The program itself never loads UCX: every end of every lane lives in a child, so that no case
 * sees the threads and sockets of another one.  A child answers with its exit status and says on
 * stderr what it missed. */
#ifndef UCX_END_H
#define UCX_END_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <base/clock.h>
#include <gradwire/log.h>

#include "lane.h"

enum { BIG = 8 << 20, PIECE = BIG + GW_HEAD_BYTES, CANARY = 64, LIMIT_S = 60, KILL_S = 10 };

#define must(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "e2e_ucx: %s:%d: %s\n", __func__, __LINE__, #cond);                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* UCX keeps some memory for good, and a child of fork cannot see who still points to it. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void)
{
    return "leak:libucs\nleak:libuct\nleak:libucp\n";
}

/* ---- one end
 * ---------------------------------------------------------------------------------------------- */

struct end {
    const struct gw_lane_ops *ops;
    void *dev;
    struct gw_lane *lane;
    struct gw_place_table places;
    uint8_t *buf, *piece, *src;
    int sent, landed, msgs, failed; /* events seen */
    gw_err err;
    struct gw_event last; /* LANDED */
    uint8_t msg[GW_MSG_MAX];
    uint32_t msg_len;
};

static int lines_logged;
static char line_last[512];

static void log_keep(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg;
    if (level <= GW_LOG_WARN)
        lines_logged++;
    snprintf(line_last, sizeof(line_last), "%s", line);
    if (getenv("E2E_LOG") != NULL)
        fprintf(stderr, "[%d] %s\n", level, line);
}

static const struct gw_logger logger = {.write = log_keep, .level = GW_LOG_DEBUG};

static inline void end_open(struct end *e, const char *transport)
{
    static const struct gw_host host = {.size = sizeof(host), .log = &logger, .now_ns = gw_now_ns};
    const struct gw_lane_conf conf = {.size = sizeof(conf),
                                      .ifname = "lo",
                                      .transport = transport,
                                      .queue_depth = 16,
                                      .paths = 1};
    memset(e, 0, sizeof(*e));
    must(gw_lane_module("ucx", &logger, &e->ops) == GW_OK);
    must(e->ops->open(&host, &conf, &e->dev) == GW_OK);
    must(e->ops->make(e->dev, &e->lane) == GW_OK);
    e->buf = malloc(BIG + CANARY);
    e->piece = malloc(PIECE + CANARY);
    e->src = malloc(PIECE);
    memset(e->buf, 0xee, BIG + CANARY);
    memset(e->piece, 0xee, PIECE + CANARY);
    e->places.piece_bytes = PIECE;
    e->places.paths = 1;
    e->lane->places = &e->places;
}

static inline void offer(struct end *e, uint32_t number)
{
    struct gw_place_slot *s = &e->places.slot[number % GW_SLOTS];
    memset(s, 0, sizeof(*s));
    s->number = number;
    s->open = s->buffers = s->pieces = 1;
    s->buf[0] = e->buf;
    s->cap[0] = BIG;
    s->piece[0] = e->piece;
}

/* Shut and close, and neither may take long, whatever the peer does.  Twice the contract, for a
 * busy machine. */
static inline void end_close(struct end *e)
{
    uint64_t t = gw_now_ns();
    e->ops->shut(e->lane);
    t = gw_now_ns() - t;
    if (t > 200 * 1000000u)
        fprintf(stderr, "e2e_ucx: shut took %.1f ms\n", (double)t / 1e6);
    must(t < 1000 * 1000000u);
    memset(e->buf, 0, BIG); /* nobody else's any more */
    e->ops->close(e->lane);
    e->ops->close_dev(e->dev);
    free(e->buf);
    free(e->piece);
    free(e->src);
}

static inline void end_poll(struct end *e)
{
    struct gw_event ev[8];
    int n = e->ops->poll(e->lane, ev, 8);
    must(n == 0 || !e->failed);
    for (int i = 0; i < n; i++) {
        e->sent += ev[i].kind == GW_EV_SENT;
        e->failed += ev[i].kind == GW_EV_FAILED;
        if (ev[i].kind == GW_EV_FAILED)
            e->err = ev[i].err;
        if (ev[i].kind == GW_EV_LANDED)
            e->last = ev[i], e->landed++;
        if (ev[i].kind == GW_EV_MSG) {
            e->msgs++;
            e->msg_len = ev[i].len;
            memcpy(e->msg, ev[i].msg, ev[i].len);
        }
    }
}

static inline void fill(uint8_t *p, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(x >> 24);
    }
}

static inline int is_filled(const uint8_t *p, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        if (p[i] != (uint8_t)(x >> 24))
            return 0;
    }
    return 1;
}

static inline void send_put(struct end *e, uint32_t number, enum gw_put_kind kind, uint32_t len,
                            uint32_t flags)
{
    struct gw_put p = {
        .head = {.number = number, .kind = (uint8_t)kind, .length = kind == GW_PUT_END ? 0 : len},
        .flags = flags,
        .src = e->src,
        .len = len,
        .cookie = number};
    gw_err err;
    while ((err = e->ops->put(e->lane, &p)) == GW_AGAIN)
        end_poll(e);
    must(err == GW_OK);
}

static inline void blob_swap(struct end *e, int fd)
{
    struct gw_blob mine, theirs;
    must(e->ops->local(e->lane, &mine) == GW_OK);
    must(send(fd, &mine, sizeof(mine), 0) == sizeof(mine));
    must(recv(fd, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
    must(e->ops->join(e->lane, &theirs) == GW_OK);
}

/* The hello's part: no byte before both have joined, and no close before both are done. */
static inline void meet(struct end *e, int fd)
{
    char c = 'm';
    must(send(fd, &c, 1, 0) == 1);
    while (recv(fd, &c, 1, MSG_DONTWAIT) != 1)
        end_poll(e);
}

/* ---- children
 * --------------------------------------------------------------------------------------------- */

typedef int child_fn(const char *transport, int fd, int side);

static inline pid_t child_start(child_fn *fn, const char *transport, int fd, int side)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(LIMIT_S); /* a hang is a failure */
    _exit(fn(transport, fd, side));
}

/* Runs both sides, or side 0 alone.  Side 1 may be killed by side 0 where the case says so. */
static inline void children_run(child_fn *fn, const char *transport, int sides, int may_be_killed)
{
    int fd[2], status;
    pid_t pid[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int i = 0; i < sides; i++)
        pid[i] = child_start(fn, transport, fd[i], i);
    close(fd[0]);
    close(fd[1]);
    for (int i = 0; i < sides; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        if (i == 1 && may_be_killed)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_int_equal(status, 0);
    }
}

/* The module is looked for by name after our own folder, and ours is a test's: so the loader must
 * know where to look, and it reads that once, at the start of a process. */
static inline void find_module(char **argv)
{
    if (getenv("LD_LIBRARY_PATH") != NULL && strcmp(getenv("LD_LIBRARY_PATH"), GW_OUT) == 0)
        return;
    setenv("LD_LIBRARY_PATH", GW_OUT, 1);
    execv("/proc/self/exe", argv);
    perror("e2e_ucx: execv");
    exit(1);
}
#endif
