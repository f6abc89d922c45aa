/* e2e_ring.c - four ranks in a ring, each one NCCL communicator: one of them is killed, and all the others end with its name,
 * also the one that has no connection to it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "rank.h"

enum { RANKS = 4, VICTIM = 2, DEADLY = 7 };

static int wire[RANKS][2]; /* edge i: from rank i to rank i + 1 */
static int pids[RANKS][2]; /* a pipe each, of the victim's pid */

struct plan {
    const char *tls;
    int version;
};

static void die(struct traffic *t, uint64_t k)
{
    (void)t;
    if (k == DEADLY)
        raise(SIGKILL);
}

/* "told by" from a neighbour, or the lost connection itself; told ones print the line that the origin wrote. */
static void judge_line(int me, pid_t victim)
{
    char line[HOST_LOG_LINE], name[32];

    snprintf(name, sizeof(name), "pid %d", (int)victim);
    host_log_last(line);
    if (host_log_warns() != 1 || strstr(line, name) == NULL)
        fprintf(stderr, "rank %d: %u lines, the last: %s\n", me, host_log_warns(), line);
    must(host_log_warns() == 1 && strstr(line, name) != NULL);
    if ((me + 2) % RANKS == VICTIM)
        must(strstr(line, "told by") != NULL);
}

static void ring_child(const void *arg, int fd, int me)
{
    const struct plan *p = arg;
    int before = (me + RANKS - 1) % RANKS;
    struct traffic out, in, *both[] = {&out, &in};
    struct host_conn to, from;
    pid_t victim = getpid();
    struct rank r;

    (void)fd;
    if (strcmp(p->tls, "tcp") != 0)
        setenv("GRADWIRE_UCX_TLS", p->tls, 1);
    for (int i = 0; me == VICTIM && i < RANKS; i++)
        must(write(pids[i][1], &victim, sizeof(victim)) == sizeof(victim));
    must(read(pids[me][0], &victim, sizeof(victim)) == sizeof(victim));
    rank_open(&r, p->version);
    rank_listen(&r, &from);
    child_say(wire[before][1], from.handle, sizeof(from.handle));
    memset(&to, 0, sizeof(to));
    child_hear(wire[me][0], to.handle, sizeof(to.handle));
    host_conn_accept(&r.service, &from);
    host_conn_connect(&r.service, &to, &r.net, 0);
    rank_wait(&r, &from);
    rank_wait(&r, &to);
    /* nobody dies before all are up */
    char c = 0;
    for (int i = 0; i < 2 * RANKS; i++) {
        child_say(wire[me][0], &c, 1);
        child_hear(wire[before][1], &c, 1);
    }
    traffic_init(&out, &to, 1 << 20, 50 + (uint64_t)me, BYTES_FLOATS);
    traffic_init(&in, &from, 1 << 20, 50 + (uint64_t)before, BYTES_FLOATS);
    out.before = me == VICTIM ? die : NULL;
    rank_run(&r, both, 2);
    must(rank_failed(&r, 10000) != ncclSuccess);
    judge_line(me, victim);
    rank_stop(&r);
    uint64_t since = host_now_ns();
    rank_conn_close(&r, &to);
    rank_conn_close(&r, &from);
    rank_close(&r);
    must(host_now_ns() - since < 4000000000u);
    if (host_log_warns() != 1 || held_threads() != 0) {
        char last[HOST_LOG_LINE];
        host_log_last(last);
        fprintf(stderr, "%u lines, %d threads; the last: %s\n", host_log_warns(), held_threads(), last);
    }
    must(host_log_warns() == 1 && held_threads() == 0);
}

static void play(struct plan p)
{
    pid_t pid[RANKS];
    int status[RANKS];

    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire[i]), 0);
        assert_int_equal(pipe(pids[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pid[i] = child_start(ring_child, &p, -1, i);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(waitpid(pid[i], &status[i], 0), pid[i]);
    for (int i = 0; i < RANKS; i++) {
        close(wire[i][0]), close(wire[i][1]), close(pids[i][0]), close(pids[i][1]);
        if (i == VICTIM)
            assert_true(WIFSIGNALED(status[i]) && WTERMSIG(status[i]) == SIGKILL);
        else
            assert_int_equal(status[i], 0);
    }
}

static void test_tcp(void **state)
{
    (void)state;
    play((struct plan){"tcp", 12});
}

static void test_posix(void **state)
{
    (void)state;
    play((struct plan){"posix", 11});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tcp), cmocka_unit_test(test_posix)};

    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
