/* perf_super.c - ranks are child processes: started, listened to, and never outlived. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_run.h"
#include "perf.h"

enum { GRACE_MS = 3000 }; /* what the others get to tell their side after the first has failed */

void perf_super_init(struct perf_super *s, bool quiet)
{
    memset(s, 0, sizeof(*s));
    s->pipe[0] = s->pipe[1] = -1;
    s->tty = !quiet && isatty(STDERR_FILENO);
}

int perf_super_open(struct perf_super *s, void (*row)(void *arg, const struct perf_report *r),
                    void *arg)
{
    s->row = row;
    s->arg = arg;
    s->nranks = 0;
    for (int i = 0; i < PERF_RING_MAX; i++)
        s->gone[i] = true; /* until it is forked */
    s->death[0] = s->error[0] = s->echo[0] = '\0';
    return pipe2(s->pipe, O_CLOEXEC);
}

/* Every connection costs a lane several descriptors; the plugin never raises this, the program
 * does. */
static void raise_nofile(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
}

int perf_super_fork(struct perf_super *s, int rank, int (*main_fn)(void *arg), void *arg)
{
    pid_t parent = getpid();

    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(PERF_FAILED);
        close(s->pipe[0]);
        raise_nofile();
        exit(main_fn(arg));
    }
    s->pid[rank] = pid;
    s->gone[rank] = false;
    s->nranks = rank + 1 > s->nranks ? rank + 1 : s->nranks;
    return 0;
}

/* ---- what ranks say -------------------------------------------------------------------------- */

static void note_clear(struct perf_super *s)
{
    if (s->noted)
        fputs("\r\033[K", stderr);
    s->noted = false;
}

static void keep(char *line, size_t bytes, const char *fmt, int rank, const char *text)
{
    if (line[0] == '\0')
        snprintf(line, bytes, fmt, rank, text);
}

static void hear(struct perf_super *s, struct perf_report *r)
{
    if (r->kind != PERF_SAY_ROW)
        r->u.text[PERF_TEXT_BYTES - 1] = '\0';
    if (r->kind == PERF_SAY_ERROR)
        keep(s->error, sizeof(s->error), "rank %d: %s", r->rank, r->u.text);
    else if (r->kind == PERF_SAY_ECHO)
        keep(s->echo, sizeof(s->echo), "rank %d: %s", r->rank, r->u.text);
    else if (r->kind == PERF_SAY_NOTE && s->tty) {
        fprintf(stderr, "\r\033[K%s", r->u.text);
        s->noted = true;
    } else if (r->kind == PERF_SAY_ROW || r->kind == PERF_SAY_PLUGIN) {
        note_clear(s);
        s->row(s->arg, r);
    }
}

/* 1 heard something, 0 nothing within wait_ms, -1 nobody is left to speak */
static int listen_once(struct perf_super *s, int wait_ms)
{
    struct perf_report r;
    struct pollfd pfd = {.fd = s->pipe[0], .events = POLLIN};

    if (poll(&pfd, 1, wait_ms) <= 0)
        return 0;
    ssize_t n = read(s->pipe[0], &r, sizeof(r));
    if (n == (ssize_t)sizeof(r))
        hear(s, &r);
    return n == (ssize_t)sizeof(r) ? 1 : n < 0 && errno == EINTR ? 0 : -1;
}

/* ---- how ranks end --------------------------------------------------------------------------- */

static void reap_one(struct perf_super *s, int rank, int status)
{
    char text[128];

    s->gone[rank] = true;
    s->status[rank] = status;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, sizeof(text), "ended with code %d and said nothing", WEXITSTATUS(status));
    else
        return;
    while (listen_once(s, 0) == 1) /* its own words come first */
        ;
    /* a death explains whatever the others saw of it */
    if (WIFSIGNALED(status))
        keep(s->death, sizeof(s->death), "rank %d %s", rank, text);
    else if (s->echo[0] == '\0')
        keep(s->error, sizeof(s->error), "rank %d %s", rank, text);
}

/* How many still run. */
static int reap(struct perf_super *s)
{
    int left = 0, status;

    for (int i = 0; i < s->nranks; i++) {
        if (s->gone[i])
            continue;
        if (waitpid(s->pid[i], &status, WNOHANG) == s->pid[i])
            reap_one(s, i, status);
        else
            left++;
    }
    return left;
}

static const char *worst(const struct perf_super *s)
{
    return s->death[0] != '\0' ? s->death : s->error[0] != '\0' ? s->error : s->echo;
}

static void kill_rest(struct perf_super *s)
{
    int status;

    for (int i = 0; i < s->nranks; i++) {
        if (s->gone[i])
            continue;
        kill(s->pid[i], SIGKILL);
        waitpid(s->pid[i], &status, 0);
        s->gone[i] = true;
    }
}

int perf_super_wait(struct perf_super *s)
{
    uint64_t deadline = UINT64_MAX;

    close(s->pipe[1]);
    s->pipe[1] = -1;
    for (;;) {
        int heard = listen_once(s, 100);
        int left = reap(s);
        bool failed = *worst(s) != '\0';
        if (left == 0 && heard <= 0)
            break;
        if (failed && deadline == UINT64_MAX)
            deadline = host_now_ns() + GRACE_MS * 1000000ull;
        if (host_now_ns() >= deadline)
            break;
    }
    kill_rest(s);
    while (listen_once(s, 0) == 1)
        ;
    close(s->pipe[0]);
    note_clear(s);
    const char *line = worst(s);
    if (*line != '\0')
        fprintf(stderr, "gradwire perf: %s\n", line);
    return *line != '\0' ? -1 : 0;
}
