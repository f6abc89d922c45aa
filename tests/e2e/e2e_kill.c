/* e2e_kill.c - one of two ranks is killed or stopped at a message of its own choice: the other one hears of it in bounded
 * time, says one line that names the dead, and takes everything down. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rank.h"

enum how { KILLED, KILLED_WITH_CHILD, KILLED_IDLE, STOPPED, STOPPED_FOR_A_WHILE, HOWS };

struct plan {
    const char *tls;
    const char *policy;
    enum how how;
    int victim; /* side 0 sends, side 1 receives */
};

enum { MESSAGES = 1 << 20, DEADLY = 9, FEW = 8, LIMIT_MS = 10000, CLOSE_MS = 3000 };

static int to_survivor; /* the victim's stream to the other side */
static const struct plan *plan;

static void die(struct traffic *t, uint64_t k)
{
    pid_t pid = 0;

    (void)t;
    if (k != DEADLY)
        return;
    if (plan->how == KILLED_WITH_CHILD && (pid = fork()) == 0)
        for (alarm(CHILD_LIMIT_S);;)
            pause(); /* holds copies of all that the victim had open */
    child_say(to_survivor, &pid, sizeof(pid));
    raise(plan->how >= STOPPED ? SIGSTOP : SIGKILL);
}

static void settings(const struct plan *p)
{
    if (strcmp(p->tls, "tcp") != 0)
        setenv("GRADWIRE_UCX_TLS", p->tls, 1);
    setenv("GRADWIRE_POLICY", p->policy, 1);
    if (p->how == STOPPED)
        setenv("GRADWIRE_STALL_TIMEOUT", "2", 1);
    if (p->how == STOPPED_FOR_A_WHILE)
        setenv("GRADWIRE_STALL_WARN", "1", 1);
}

static void victim(int fd, int side)
{
    struct rank r;
    struct host_conn c;
    struct traffic t, *one = &t;
    int idle = plan->how == KILLED_IDLE;

    to_survivor = fd;
    rank_open(&r, 0);
    far_open(&r, &c, fd, side);
    traffic_init(&t, &c, idle ? FEW : plan->how == STOPPED_FOR_A_WHILE ? 100 : MESSAGES, 4, BYTES_FLOATS);
    t.before = idle ? NULL : die;
    rank_run(&r, &one, 1);
    rank_done(&r);
    child_meet(fd);
    if (idle)
        raise(SIGKILL);
    rank_stop(&r);
    rank_conn_close(&r, &c);
    rank_close(&r);
}

/* ---- the survivor ---- */

static void line_names(const char *before, pid_t peer)
{
    char line[HOST_LOG_LINE], want[200], host[64] = "";

    must(gethostname(host, sizeof(host) - 1) == 0);
    host_log_last(line);
    snprintf(want, sizeof(want), "%s%.50s pid %d", before, host, (int)peer);
    if (host_log_warns() != 1 || strstr(line, want) == NULL)
        fprintf(stderr, "%u lines, the last: %s\n", host_log_warns(), line);
    must(host_log_warns() == 1 && strstr(line, want) != NULL);
}

static unsigned line_age_ms(void)
{
    char line[HOST_LOG_LINE], *at;
    unsigned ms = 0;

    host_log_last(line);
    at = strstr(line, "age_ms=");
    must(at != NULL && sscanf(at, "age_ms=%u", &ms) == 1);
    return ms;
}

static void expect_failure(struct rank *r, int fd, pid_t peer)
{
    uint64_t since;
    pid_t forked;

    child_hear(fd, &forked, sizeof(forked));
    since = host_now_ns();
    must(rank_failed(r, LIMIT_MS) == ncclRemoteError);
    uint64_t ms = (host_now_ns() - since) / 1000000;
    if (plan->how == STOPPED) {
        unsigned age = line_age_ms();
        must(age >= 2000 && age < 4000 && ms >= 1000);
    } else {
        if (ms > 5000)
            fprintf(stderr, "%s: heard of it after %u ms\n", plan->tls, (unsigned)ms);
        must(ms <= 5000);
    }
    line_names("peer=\"", peer);
    if (forked != 0)
        kill(forked, SIGKILL);
}

/* The host finds out when it wants the next message: no call of its own was open. */
static void expect_idle_failure(struct rank *r, struct traffic *t, int fd, pid_t peer)
{
    struct traffic *one = t;

    rank_done(r);
    child_meet(fd);
    while (kill(peer, 0) == 0 && t->flow.total == FEW)
        t->flow.total++; /* any answer does: it is dying or dead */
    usleep(100000);
    t->flow.total = 2 * FEW;
    atomic_store(&t->flow.allowed, t->flow.total);
    rank_run(r, &one, 1);
    must(rank_failed(r, LIMIT_MS) == ncclRemoteError);
    line_names("peer=\"", peer);
}

static void expect_patience(struct rank *r, int fd, pid_t peer)
{
    pid_t none;

    child_hear(fd, &none, sizeof(none));
    for (int i = 0; i < 100 && host_log_warns() == 0; i++)
        must(!host_progress_wait(&r->progress, 50)); /* nothing fails */
    line_names("peer=\"", peer);    /* the warning of STALL_WARN */
    kill(peer, SIGCONT);
    rank_done(r);
    child_meet(fd);
    must(host_log_warns() == 1);
}

static void survivor(int fd, int side, pid_t peer)
{
    struct rank r;
    struct host_conn c;
    struct traffic t, *one = &t;

    rank_warm_up();
    int fds = held_fds(), maps = held_maps("shm");
    host_log_reset();
    rank_open(&r, 0);
    far_open(&r, &c, fd, side);
    must(strcmp(plan->tls, "posix") != 0 || held_maps("shm") > maps);
    traffic_init(&t, &c, plan->how == KILLED_IDLE ? FEW : plan->how == STOPPED_FOR_A_WHILE ? 100 : MESSAGES, 4,
                 BYTES_FLOATS);
    rank_run(&r, &one, 1);
    if (plan->how == KILLED_IDLE)
        expect_idle_failure(&r, &t, fd, peer);
    else if (plan->how == STOPPED_FOR_A_WHILE)
        expect_patience(&r, fd, peer);
    else
        expect_failure(&r, fd, peer);
    uint64_t since = host_now_ns();
    rank_stop(&r);
    rank_conn_close(&r, &c);
    rank_close(&r);
    must(host_now_ns() - since < CLOSE_MS * 1000000ull);
    must(host_log_warns() == 1);
    must(held_fds() == fds && held_threads() == 0 && held_maps("shm") == maps);
}

static void side_child(const void *arg, int fd, int side)
{
    pid_t me = getpid(), peer;

    plan = arg;
    settings(plan);
    child_say(fd, &me, sizeof(me));
    child_hear(fd, &peer, sizeof(peer));
    if (side == plan->victim)
        victim(fd, side);
    else
        survivor(fd, side, peer);
}

/* ---- cases ---- */

static void play(enum how how, const char *policy)
{
    int n = getenv("GRADWIRE_LANE") == NULL ? 4 : 2; /* another lane knows no tcp and posix */
    struct plan p[4];
    struct children c[4];

    /* all of them beside each other: most of this is waiting */
    for (int i = 0; i < n; i++) {
        p[i] = (struct plan){i < 2 ? "tcp" : "posix", policy, how, i % 2};
        c[i] = children_start(side_child, &p[i]);
    }
    for (int i = 0; i < n; i++)
        children_wait(c[i], p[i].victim, how != STOPPED_FOR_A_WHILE);
}

static void test_killed(void **state)
{
    (void)state;
    play(KILLED, "auto");
    play(KILLED, "always");
}

static void test_killed_with_child(void **state)
{
    (void)state;
    play(KILLED_WITH_CHILD, "always");
}

static void test_killed_idle(void **state)
{
    (void)state;
    play(KILLED_IDLE, "auto");
}

static void test_stopped(void **state)
{
    (void)state;
    play(STOPPED, "auto");
}

static void test_stopped_for_a_while(void **state)
{
    (void)state;
    play(STOPPED_FOR_A_WHILE, "always");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed), cmocka_unit_test(test_killed_with_child),
        cmocka_unit_test(test_killed_idle), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_stopped_for_a_while),
    };
    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
