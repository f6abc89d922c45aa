/* child.c - see child.h. */
#include "child.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Present under the address sanitizer only.  A child leaves by _exit, so nobody else would look. */
extern void __lsan_do_leak_check(void) __attribute__((weak));

static int held_at_start; /* threads: a sanitizer has one of its own */

static void *nothing(void *arg)
{
    return arg;
}

/* It starts that one with our first. */
static void wake_sanitizer(void)
{
    pthread_t t;

    must(pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0);
}

pid_t child_start(child_fn *fn, const void *arg, int fd, int side)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(CHILD_LIMIT_S);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    wake_sanitizer();
    held_at_start = held_threads();
    fn(arg, fd, side);
    fflush(NULL);
    if (__lsan_do_leak_check != NULL)
        __lsan_do_leak_check();
    _exit(0);
}

static void judge(int status, int killed)
{
    if (killed)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
        assert_int_equal(status, 0);
}

void child_wait(pid_t pid, int killed)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    judge(status, killed);
}

void child_one(child_fn *fn, const void *arg)
{
    child_wait(child_start(fn, arg, -1, 0), 0);
}

struct children children_start(child_fn *fn, const void *arg)
{
    struct children c;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int side = 0; side < 2; side++)
        c.pid[side] = child_start(fn, arg, fd[side], side);
    close(fd[0]);
    close(fd[1]);
    return c;
}

void children_wait(struct children c, int last, int killed)
{
    int status[2];

    assert_int_equal(waitpid(c.pid[!last], &status[!last], 0), c.pid[!last]);
    if (killed || status[!last] != 0)
        kill(c.pid[last], SIGKILL);
    assert_int_equal(waitpid(c.pid[last], &status[last], 0), c.pid[last]);
    judge(status[!last], 0);
    judge(status[last], killed);
}

void child_two(child_fn *fn, const void *arg)
{
    children_wait(children_start(fn, arg), 1, 0);
}

void child_say(int fd, const void *bytes, size_t len)
{
    must(send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

void child_hear(int fd, void *bytes, size_t len)
{
    must(recv(fd, bytes, len, MSG_WAITALL) == (ssize_t)len);
}

void child_meet(int fd)
{
    char c = 'm';

    child_say(fd, &c, 1);
    child_hear(fd, &c, 1);
}

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = -2; /* . and .. */

    must(d != NULL);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

int held_fds(void)
{
    return entries("/proc/self/fd");
}

/* A joined thread may be listed for a moment longer than its join takes: the least of a few looks is the truth. */
int held_threads(void)
{
    int least = entries("/proc/self/task");

    for (int i = 0; i < 40; i++) {
        int now = (usleep(1000), entries("/proc/self/task"));
        least = now < least ? now : least;
    }
    return least - held_at_start;
}

int held_maps(const char *name)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[1024];
    int n = 0;

    must(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, name) != NULL;
    fclose(f);
    return n;
}

long held_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    must(f != NULL);
    if (SANITIZED || (getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), "vgpreload") != NULL))
        kib = 0; /* a tool's own memory grows */
    while (kib < 0 && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) != 1)
            kib = -1;
    fclose(f);
    return kib;
}
