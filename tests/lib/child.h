/* child.h - a test case in processes of its own, so that no case sees the threads, sockets, settings or loaded libraries of
 * another one.  A child answers with its exit status and says on stderr what it missed. */
#ifndef GW_TESTS_CHILD_H
#define GW_TESTS_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* For children, where cmocka's asserts do not reach; on any thread. */
#define must(cond)                                                                          \
    do {                                                                                    \
        if (!(cond)) {                                                                      \
            fprintf(stderr, "%s:%d: pid %d: %s\n", __FILE__, __LINE__, (int)getpid(), #cond); \
            _exit(1);                                                                       \
        }                                                                                   \
    } while (0)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
enum { CHILD_LIMIT_S = 60 }; /* a hang is a failure */

/* side: 0 or 1; fd: a stream to the other side, -1 where there is none. */
typedef void child_fn(const void *arg, int fd, int side);

pid_t child_start(child_fn *fn, const void *arg, int fd, int side);
/* cmocka fails the case unless the child ended well; killed: unless SIGKILL ended it. */
void child_wait(pid_t pid, int killed);

/* Starts both sides; two of these may run beside each other. */
struct children {
    pid_t pid[2];
};
struct children children_start(child_fn *fn, const void *arg);
/* The other side ends first and well.  Then `last` must end too: by SIGKILL where it was to be killed (one that only stopped
 * itself is killed here), else well. */
void children_wait(struct children c, int last, int killed);

void child_one(child_fn *fn, const void *arg);
void child_two(child_fn *fn, const void *arg);

void child_say(int fd, const void *bytes, size_t len);
void child_hear(int fd, void *bytes, size_t len);
/* Both sides call it: neither goes on before the other has come. */
void child_meet(int fd);

/* ---- what a process holds ---- */
int held_fds(void);
int held_threads(void); /* beside those that were there when the child began */
/* Lines of /proc/self/maps that name something. */
int held_maps(const char *name);
/* Resident KiB; 0 under a sanitizer, whose own lists of freed memory it would count. */
long held_kib(void);
#endif
