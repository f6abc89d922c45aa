/* e2e_phase.c - a rank is killed or stopped exactly at a named phase of a connection, a message or a close (base/phase.h): the
 * other one hears of it by the right sign or deadline, says one line that names the dead, and takes everything down.
 *
 *     e2e_phase ["kill frame sender tcp"]     all cases, or those whose name holds the words; TEST_LINES=1 shows what was said */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "rank.h"

enum { SENDER, RECEIVER };
enum { CONNECT, MESSAGE, CLOSE };
enum { STALL_MS = 2000, GUARD_MS = 10 * STALL_MS, MESSAGES = 1 << 20, FEW = 8, CLOSE_MS = 20000, BESIDE = 6 };

/* sides: a bit for each that passes it. */
struct phase {
    const char *name;
    int kind, sides, nth, forked;
};

static const struct phase phases[] = {
    {"dial", CONNECT, 1, 1, 0},  {"hello", CONNECT, 3, 1, 0}, {"join", CONNECT, 3, 1, 0},
    {"post", MESSAGE, 2, 3, 0},  {"offer", MESSAGE, 3, 3, 1}, {"match", MESSAGE, 1, 3, 0}, {"move", MESSAGE, 3, 3, 0},
    {"frame", MESSAGE, 3, 3, 1}, {"grant", MESSAGE, 3, 3, 0}, {"end", MESSAGE, 3, 3, 0},   {"count", MESSAGE, 3, 3, 0},
    {"done", MESSAGE, 3, 3, 1},  {"bye", CLOSE, 3, 1, 1},     {"shut", CLOSE, 3, 1, 0},    {"return", CLOSE, 3, 1, 0},
    {"linger", CLOSE, 3, 1, 0},
};

struct plan {
    const struct phase *phase;
    const char *tls;
    int stop, victim, forked;
};

static const struct plan *plan;

static void name_of(const struct plan *p, char *to, size_t room)
{
    snprintf(to, room, "%s %s %s %s%s", p->stop ? "stop" : "kill", p->phase->name, p->victim == SENDER ? "sender" : "receiver",
             p->tls, p->forked ? " forked" : "");
}

/* ---- the victim ---- */

static void settings(int is_victim)
{
    char at[64];

    if (strcmp(plan->tls, "tcp") != 0)
        setenv("GRADWIRE_UCX_TLS", plan->tls, 1);
    setenv("GRADWIRE_POLICY", "always", 1);
    setenv("GRADWIRE_STALL_TIMEOUT", "2", 1);
    setenv("GRADWIRE_CONNECT_TIMEOUT", "2", 1);
    snprintf(at, sizeof(at), "%s:%s:%d", plan->stop ? "stop" : "kill", plan->phase->name, plan->phase->nth);
    if (is_victim)
        setenv("GRADWIRE_TEST_PHASE", at, 1);
}

/* Its child holds copies of all that the victim had open, and outlives it: the parent ends the group. */
static void leave_a_child(void)
{
    if (plan->forked && fork() == 0)
        for (alarm(CHILD_LIMIT_S);;)
            pause();
}

static void victim(int fd, int side)
{
    struct traffic t, *one = &t;
    struct host_conn c;
    struct rank r;

    rank_open(&r, 0);
    far_open(&r, &c, fd, side);
    leave_a_child();
    traffic_init(&t, &c, plan->phase->kind == CLOSE ? FEW : MESSAGES, 4, BYTES_FLOATS);
    rank_run(&r, &one, 1);
    rank_done(&r);
    rank_stop(&r);
    child_meet(fd);
    rank_conn_close(&r, &c);
    rank_close(&r);
}

/* ---- the survivor ---- */

/* Nobody dialled: the accept says so once while it waits, and again when GRADWIRE_STALL_TIMEOUT ends it. */
static int nobody_dials(void)
{
    return strcmp(plan->phase->name, "dial") == 0;
}

static int lines_right(void)
{
    return host_log_warns() == (nobody_dials() ? 2u : 1u);
}

/* The last line, and one more only where that is due; with all of the words in it. */
static void said(const char *code, const char *sign, const char *who)
{
    char line[HOST_LOG_LINE], name[80];

    host_log_last(line);
    name_of(plan, name, sizeof(name));
    if (getenv("TEST_LINES") != NULL)
        fprintf(stderr, "%-36s %s\n", name, line);
    if (!lines_right() || !strstr(line, code) || !strstr(line, sign) || !strstr(line, who))
        fprintf(stderr, "%s: not \"%s\", \"%s\" and \"%s\" in %u lines, the last: %s\n", name, code, sign, who, host_log_warns(),
                line);
    must(lines_right() && strstr(line, code) && strstr(line, sign) && strstr(line, who));
}

/* The deadlines that fired, each of 2 s, recorded how old they were, told at the next tick. */
static void recorded_age(unsigned deadlines)
{
    unsigned least = deadlines * STALL_MS, most = deadlines == 0 ? 0 : least + STALL_MS - 1;
    char line[HOST_LOG_LINE], *at;
    unsigned ms = 0;

    host_log_last(line);
    at = strstr(line, "age_ms=");
    must(at != NULL && sscanf(at, "age_ms=%u", &ms) == 1);
    if (ms < least || ms > most)
        fprintf(stderr, "age_ms=%u: %s\n", ms, line);
    must(ms >= least && ms <= most);
}

static void peer_is(pid_t pid, char *to, size_t room)
{
    char host[64] = "";

    must(gethostname(host, sizeof(host) - 1) == 0);
    snprintf(to, room, "peer=\"%.50s pid %d", host, (int)pid);
}

/* The connection was made, and a message is wanted of it. */
static void lost(struct rank *r, pid_t pid)
{
    int heard_bye = plan->phase->kind == CLOSE && strcmp(plan->phase->name, "bye") != 0;
    char who[100];

    must(rank_failed(r, GUARD_MS) == ncclRemoteError);
    peer_is(pid, who, sizeof(who));
    if (heard_bye)
        said("GW_E_CLOSED", "closed", who);
    else if (plan->stop)
        said("GW_E_TIMEOUT", "no sign of life", who);
    else
        said("GW_E_PEER", "gone without a word", who);
    recorded_age(!heard_bye && plan->stop);
}

/* It was not made.  A dialler knows an address only until it has heard a hello. */
static void never_met(pid_t pid, const struct host_conn *c, int side)
{
    char who[100];

    must(c->comm == NULL);
    peer_is(pid, who, sizeof(who));
    if (plan->stop) {
        said("GW_E_TIMEOUT", "connected, but no hello came back", "op=connect");
        recorded_age(1);
    } else if (side == SENDER && strcmp(plan->phase->name, "hello") == 0) {
        said("GW_E_TIMEOUT", "Connection refused; does that rank still run?", "op=connect"); /* it had only an address */
        recorded_age(1);
    } else {
        said("GW_E_PEER", "the peer has gone before the lanes were joined", who); /* at once: no deadline */
    }
}

/* Nobody says hello: GRADWIRE_CONNECT_TIMEOUT passes, then GRADWIRE_STALL_TIMEOUT. */
static void nobody_came(struct rank *r, struct host_conn *c)
{
    must(host_job_wait(&r->service, &c->job, GUARD_MS));
    must(c->job.res == ncclRemoteError);
    said("GW_E_TIMEOUT", "no rank has connected yet", "op=accept");
    recorded_age(2);
}

static void meet_and_lose(struct rank *r, struct host_conn *c, int fd, int side, pid_t pid)
{
    struct traffic t, *one = &t;

    if (side == SENDER) {
        child_hear(fd, c->handle, sizeof(c->handle));
        host_conn_connect(&r->service, c, &r->net, 0);
    } else {
        rank_listen(r, c);
        child_say(fd, c->handle, sizeof(c->handle));
        host_conn_accept(&r->service, c);
    }
    if (nobody_dials()) {
        nobody_came(r, c);
        return;
    }
    must(host_job_wait(&r->service, &c->job, GUARD_MS));
    if (c->job.res != ncclSuccess) {
        must(plan->phase->kind == CONNECT);
        never_met(pid, c, side);
        return;
    }
    traffic_init(&t, c, plan->phase->kind == CLOSE ? FEW : MESSAGES, 4, BYTES_FLOATS);
    rank_run(r, &one, 1);
    if (plan->phase->kind == CLOSE) {
        rank_done(r);
        child_meet(fd);
        t.flow.total = MESSAGES;
        atomic_store(&t.flow.allowed, t.flow.total);
        rank_run(r, &one, 1);
    }
    lost(r, pid);
}

static void survivor(int fd, int side, pid_t pid)
{
    struct host_conn c;
    struct rank r;

    rank_warm_up();
    int fds = held_fds(), maps = held_maps("shm");
    host_log_reset();
    memset(&c, 0, sizeof(c));
    rank_open(&r, 0);
    meet_and_lose(&r, &c, fd, side, pid);
    uint64_t since = host_now_ns();
    rank_stop(&r);
    rank_conn_close(&r, &c);
    rank_close(&r);
    must(host_now_ns() - since < CLOSE_MS * 1000000ull);
    must(lines_right());
    if (held_fds() != fds || held_threads() != 0 || held_maps("shm") != maps)
        fprintf(stderr, "%d fds more, %d threads, %d maps more\n", held_fds() - fds, held_threads(), held_maps("shm") - maps);
    must(held_fds() == fds && held_threads() == 0 && held_maps("shm") == maps);
}

static void side_child(const void *arg, int fd, int side)
{
    pid_t me = getpid(), peer;

    plan = arg;
    setpgid(0, 0);
    settings(side == plan->victim);
    child_say(fd, &me, sizeof(me));
    child_hear(fd, &peer, sizeof(peer));
    if (side == plan->victim)
        victim(fd, side);
    else
        survivor(fd, side, peer);
}

/* ---- cases ---- */

/* 1: the victim came to its phase and the survivor ended well. */
static int judge(const struct plan *p, struct children c)
{
    pid_t dead = c.pid[p->victim];
    int v = 0, s = 0, ok;
    char name[80];

    waitpid(dead, &v, WUNTRACED);
    ok = p->stop ? WIFSTOPPED(v) && WSTOPSIG(v) == SIGSTOP : WIFSIGNALED(v) && WTERMSIG(v) == SIGKILL;
    waitpid(c.pid[!p->victim], &s, 0);
    kill(-dead, SIGKILL); /* also the child that it left */
    if (WIFSTOPPED(v))
        waitpid(dead, NULL, 0);
    name_of(p, name, sizeof(name));
    if (!ok || s != 0)
        fprintf(stderr, "FAILED %s: victim %#x, survivor %#x\n", name, (unsigned)v, (unsigned)s);
    return ok && s == 0;
}

static int wanted(const struct plan *p, const char *words)
{
    char name[80];

    name_of(p, name, sizeof(name));
    return words == NULL || strstr(name, words) != NULL;
}

static size_t add(struct plan *all, size_t n, struct plan p, const char *words)
{
    if (!(p.phase->sides & 1 << p.victim) || (p.forked && !p.phase->forked) || !wanted(&p, words))
        return n;
    all[n] = p;
    return n + 1;
}

static size_t list(struct plan *all, const char *words)
{
    size_t n = 0;

    /* the slow ones, that wait for a deadline, beside each other */
    for (int stop = 0; stop < 2; stop++)
        for (size_t i = 0; i < sizeof(phases) / sizeof(*phases); i++)
            for (int victim = 0; victim < 2; victim++)
                for (int posix = 0; posix < 2; posix++)
                    for (int forked = 0; forked < 2; forked++)
                        n = add(all, n, (struct plan){&phases[i], posix ? "posix" : "tcp", stop, victim, forked}, words);
    return n;
}

/* Named segments of shared memory that nobody took away; UCX of other jobs on this machine makes some too, and soon unlinks. */
static int segments(void)
{
    return system("for i in 1 2 3 4 5; do set -- /dev/shm/ucx_shm_posix_*; [ -e \"$1\" ] || exit 0; sleep 1; done; exit 1");
}

int main(int argc, char **argv)
{
    static struct plan all[400];
    size_t n = list(all, argc > 1 ? argv[1] : NULL), passed = 0;

    setenv("NCCL_DEBUG", "WARN", 0);
    for (size_t at = 0; at < n; at += BESIDE) {
        struct children c[BESIDE];
        for (size_t i = at; i < n && i < at + BESIDE; i++)
            c[i - at] = children_start(side_child, &all[i]);
        for (size_t i = at; i < n && i < at + BESIDE; i++)
            passed += (size_t)judge(&all[i], c[i - at]);
    }
    int left = segments() != 0;
    if (left)
        fprintf(stderr, "FAILED: segments are left in /dev/shm\n");
    printf("%zu passed, %zu failed, 0 skipped\n", passed, n - passed + (size_t)left);
    return n == 0 || passed != n || left;
}
