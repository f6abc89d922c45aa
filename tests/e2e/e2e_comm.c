/* e2e_comm.c - two processes over the real plugin, over tcp and over shared memory: data of all sizes, settings that differ,
 * a host that forks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <gradwire/stat.h>

#include "rank.h"

struct plan {
    const char *tls;       /* GRADWIRE_UCX_TLS */
    const char *policy;
    const char *name[2], *value[2]; /* one more setting of each side */
};

static void settings(const struct plan *p, int side)
{
    if (strcmp(p->tls, "tcp") != 0)
        setenv("GRADWIRE_UCX_TLS", p->tls, 1);
    setenv("GRADWIRE_POLICY", p->policy, 1);
    if (p->name[side] != NULL)
        setenv(p->name[side], p->value[side], 1);
}

/* A connection each way: ahead carries what side 0 sends, back what side 1 sends. */
struct ends {
    struct rank r;
    struct host_conn ahead, back;
    struct traffic out, in;
};

static void ends_open(struct ends *e, const struct plan *p, int fd, int side)
{
    settings(p, side);
    rank_open(&e->r, 0);
    far_open(&e->r, &e->ahead, fd, side);
    far_open(&e->r, &e->back, fd, !side);
}

/* Both ways at once until all of it has arrived. */
static void ends_run(struct ends *e, int side, uint64_t total, int kind)
{
    struct traffic *both[] = {&e->out, &e->in};

    traffic_init(&e->out, side == 0 ? &e->ahead : &e->back, total, 1 + (uint64_t)side, kind);
    traffic_init(&e->in, side == 0 ? &e->back : &e->ahead, total, 2 - (uint64_t)side, kind);
    rank_run(&e->r, both, 2);
    rank_done(&e->r);
}

/* Ranks of a job end at different times, and say nothing. */
static void ends_close(struct ends *e, int side)
{
    rank_stop(&e->r);
    if (side == 0)
        usleep(50000);
    rank_conn_close(&e->r, &e->ahead);
    rank_conn_close(&e->r, &e->back);
    rank_close(&e->r);
    must(host_log_warns() == 0 && held_threads() == 0);
}

static void mixed_child(const void *arg, int fd, int side)
{
    const struct plan *p = arg;
    const struct gw_stat_page *page = stat_page_make();
    struct ends e;

    ends_open(&e, p, fd, side);
    ends_run(&e, side, 60, BYTES_RANDOM);
    ends_run(&e, side, 60, BYTES_FLOATS);
    must(gw_stat_get(&page->sends) == 120 && gw_stat_get(&page->recvs) == 120);
    must(strcmp(p->policy, "always") != 0 || gw_stat_get(&page->chunks_coded) > 0);
    ends_close(&e, side);
}

/* ---- sizes up to 64 MiB, in memory that is registered while the connection lives ---- */

static void large_child(const void *arg, int fd, int side)
{
    enum { LARGE = 64 << 20, DEPTH = 2 };
    static const size_t sizes[] = {LARGE, 0, LARGE - 1, 8 << 20, 3, (16 << 20) + 12345, LARGE};
    struct rank r;
    struct host_conn c;
    struct host_mem m;
    struct traffic t, *one = &t;

    settings(arg, side);
    rank_open(&r, 0);
    far_open(&r, &c, fd, side);
    m = (struct host_mem){.conn = &c, .bytes = (size_t)DEPTH * LARGE, .data = malloc((size_t)DEPTH * LARGE)};
    must(m.data != NULL);
    host_mem_reg(&r.service, &m);
    must(host_job_wait(&r.service, &m.job, RANK_WAIT_MS) && m.job.res == ncclSuccess);
    traffic_init(&t, &c, sizeof(sizes) / sizeof(*sizes), 9, BYTES_FLOATS);
    t.base = m.data;
    t.mh = m.mh;
    t.slot = LARGE;
    t.flow.depth = DEPTH;
    t.sizes = sizes;
    t.nsizes = sizeof(sizes) / sizeof(*sizes);
    rank_run(&r, &one, 1);
    rank_done(&r);
    rank_stop(&r);
    host_mem_dereg(&r.service, &m);
    must(host_job_wait(&r.service, &m.job, RANK_WAIT_MS) && m.job.res == ncclSuccess);
    rank_conn_close(&r, &c);
    rank_close(&r);
    must(host_log_warns() == 0);
    free(m.data);
}

/* ---- the host forks in the middle of traffic, and its children leave by exit and by _exit ---- */

static void fork_once(int by_exit)
{
    int status;
    pid_t pid = fork();

    must(pid >= 0);
    if (pid == 0 && by_exit && !SANITIZED) /* which would look for leaks of threads that are not there */
        exit(0);
    if (pid == 0)
        _exit(0);
    must(waitpid(pid, &status, 0) == pid && status == 0);
}

static void forks_child(const void *arg, int fd, int side)
{
    struct ends e;

    ends_open(&e, arg, fd, side);
    struct traffic *both[] = {&e.out, &e.in};
    traffic_init(&e.out, side == 0 ? &e.ahead : &e.back, 200, 1 + (uint64_t)side, BYTES_FLOATS);
    traffic_init(&e.in, side == 0 ? &e.back : &e.ahead, 200, 2 - (uint64_t)side, BYTES_FLOATS);
    rank_run(&e.r, both, 2);
    for (int i = 0; i < 4; i++)
        fork_once(i % 2);
    rank_done(&e.r);
    child_meet(fd);
    ends_close(&e, side);
}

/* ---- cases ---- */

static void on_both_lanes(child_fn *fn, struct plan p)
{
    static const char *const tls[] = {"tcp", "posix"};

    for (int i = 0; i < 2; i++) {
        p.tls = tls[i];
        child_two(fn, &p);
    }
}

static void test_mixed(void **state)
{
    (void)state;
    on_both_lanes(mixed_child, (struct plan){.policy = "auto"});
    on_both_lanes(mixed_child, (struct plan){.policy = "always"});
}

static void test_large(void **state)
{
    (void)state;
    on_both_lanes(large_child, (struct plan){.policy = "auto"});
    child_two(large_child, &(struct plan){.tls = "tcp", .policy = "always"});
}

/* What need not agree: each pair of settings talks, by the smaller chunk, the common codecs, the stricter check. */
static void test_settings_differ(void **state)
{
    static const struct plan plans[] = {
        {"tcp", "always", {"GRADWIRE_CHUNK", "GRADWIRE_CHUNK"}, {"32K", "256K"}},
        {"tcp", "always", {"GRADWIRE_CHECK", "GRADWIRE_CHECK"}, {"0", "1"}},
        {"tcp", "auto", {"GRADWIRE_CODEC", NULL}, {"raw", NULL}},
        {"tcp", "auto", {NULL, "GRADWIRE_CODEC"}, {NULL, "raw"}},
        {"tcp", "always", {"GRADWIRE_WORKERS", NULL}, {"0", NULL}},
        {"posix", "always", {"GRADWIRE_SLAB", "GRADWIRE_CHUNK"}, {"1M", "1M"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++)
        child_two(mixed_child, &plans[i]);
}

static void test_forks(void **state)
{
    (void)state;
    on_both_lanes(forks_child, (struct plan){.policy = "always"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed), cmocka_unit_test(test_large),
        cmocka_unit_test(test_settings_differ), cmocka_unit_test(test_forks),
    };
    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
