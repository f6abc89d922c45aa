/* abi_data.c - messages through the tables as NCCL's threads send them: every byte is checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <gradwire/stat.h>

#include "rank.h"

/* Two ranks of one process, each with its two threads, and a connection each way. */
struct world {
    struct rank a, b;
    struct pair ab, ba;
    struct traffic out[2], in[2]; /* ab, ba */
};

static void world_open(struct world *w, int version)
{
    memset(w, 0, sizeof(*w));
    rank_open(&w->a, version);
    rank_open(&w->b, version);
    pair_open(&w->ab, &w->a, &w->b);
    pair_open(&w->ba, &w->b, &w->a);
}

static void world_close(struct world *w)
{
    rank_stop(&w->a);
    rank_stop(&w->b);
    pair_close(&w->ab);
    pair_close(&w->ba);
    rank_close(&w->a);
    rank_close(&w->b);
}

static void world_start(struct world *w, uint64_t total, int kind)
{
    struct traffic *of_a[] = {&w->out[0], &w->in[1]}, *of_b[] = {&w->in[0], &w->out[1]};

    traffic_init(&w->out[0], &w->ab.send, total, 100, kind);
    traffic_init(&w->in[0], &w->ab.recv, total, 100, kind);
    traffic_init(&w->out[1], &w->ba.send, total, 200, kind);
    traffic_init(&w->in[1], &w->ba.recv, total, 200, kind);
    /* the arrays are read by the progress threads until world_end */
    static _Thread_local struct traffic *lists[2][2];
    memcpy(lists[0], of_a, sizeof(of_a));
    memcpy(lists[1], of_b, sizeof(of_b));
    rank_run(&w->a, lists[0], 2);
    rank_run(&w->b, lists[1], 2);
}

static void world_end(struct world *w)
{
    rank_done(&w->a);
    rank_done(&w->b);
}

/* ---- every table, policy and check ---- */

struct mode {
    int version;
    const char *policy, *check, *workers;
};

static void traffic_child(const void *arg, int fd, int side)
{
    const struct mode *m = arg;
    const struct gw_stat_page *page;
    struct world w;

    (void)fd, (void)side;
    setenv("GRADWIRE_POLICY", m->policy, 1);
    setenv("GRADWIRE_CHECK", m->check, 1);
    setenv("GRADWIRE_WORKERS", m->workers, 1);
    page = stat_page_make();
    world_open(&w, m->version);
    for (int kind = BYTES_RANDOM; kind <= BYTES_FLOATS; kind++) {
        world_start(&w, 36, kind);
        world_end(&w);
    }
    must(host_log_warns() == 0 && gw_stat_ready(page));
    must(gw_stat_get(&page->sends) == 4 * 36 && gw_stat_get(&page->recvs) == 4 * 36);
    must(gw_stat_get(&page->raw_sent) == gw_stat_get(&page->raw_recved));
    must(strcmp(m->policy, "always") != 0 || gw_stat_get(&page->chunks_coded) > 0);
    must(strcmp(m->policy, "never") != 0 || gw_stat_get(&page->chunks_coded) == 0);
    must(strcmp(m->policy, "always") != 0 || gw_stat_get(&page->wire_sent) < gw_stat_get(&page->raw_sent));
    world_close(&w);
    must(gw_stat_get(&page->comms_open) == 0);
}

static void test_traffic(void **state)
{
    (void)state;
    for (int v = HOST_VERSION_MIN; v <= HOST_VERSION_MAX; v++) {
        child_one(traffic_child, &(struct mode){v, "auto", "0", "1"});
        child_one(traffic_child, &(struct mode){v, "always", v % 2 ? "1" : "0", "1"});
    }
    child_one(traffic_child, &(struct mode){12, "auto", "1", "1"});
    child_one(traffic_child, &(struct mode){12, "always", "0", "0"});
    child_one(traffic_child, &(struct mode){12, "always", "1", "3"});
    child_one(traffic_child, &(struct mode){12, "never", "0", "1"});
}

/* ---- one request at a time, on this thread ---- */

static void grouped_child(const void *arg, int fd, int side)
{
    enum { N = 8, PART = 65536 };
    static const int order[N] = {5, 0, 7, 2, 1, 6, 3, 4};
    struct world w;
    struct request q[N + 1];
    void *data[N];
    size_t room[N];
    int tags[N];

    (void)fd, (void)side;
    world_open(&w, *(const int *)arg);
    char *from = host_conn_buf(&w.ab.send, HOST_SIMPLE), *to = host_conn_buf(&w.ab.recv, HOST_SIMPLE);
    for (int n = 1; n <= N; n++) {
        int sent = 0;
        for (int i = 0; i < n; i++)
            data[i] = to + i * PART, room[i] = PART, tags[i] = 1000 * i + 7;
        memset(to, 0xee, N * PART);
        must(request_recv(&q[0], &w.ab, n, data, room, tags) == ncclSuccess && q[0].req != NULL);
        for (int i = 0; i < N; i++) {
            size_t size = order[i] == 2 ? 0 : (size_t)(PART - order[i] * 1000);
            if (order[i] >= n)
                continue;
            /* one send buffer: each is done, with test's sizes NULL, before the next is written */
            bytes_fill(from, size, (uint64_t)(n * 10 + order[i]), BYTES_FLOATS);
            must(request_send(&q[1], &w.ab, size, tags[order[i]], q, 1) == ncclSuccess);
            requests_poll(q, 2, 1);
            must(q[1].res == ncclSuccess && q[0].done <= (++sent == n));
        }
        requests_end(q, 1);
        for (int i = 0; i < n; i++) {
            size_t size = i == 2 ? 0 : (size_t)(PART - i * 1000);
            must(q[0].sizes[i] == (int)size && bytes_are(data[i], size, (uint64_t)(n * 10 + i), BYTES_FLOATS));
            must(size == PART || ((unsigned char *)data[i])[size] == 0xee);
        }
        must(n == HOST_TEST_SIZES || q[0].sizes[n] == 0);
    }
    world_close(&w);
}

/* A send without a receive is "later", for as long as it takes, and leaves nothing behind. */
static void refused_child(const void *arg, int fd, int side)
{
    struct world w;
    struct request q[2];
    void *data, *req;
    size_t room = 4096;
    int tag = 3;

    (void)fd, (void)side;
    world_open(&w, *(const int *)arg);
    struct host_conn *c = &w.ab.send;
    for (int i = 0; i < 2000; i++)
        must(host_isend(c->net, c->comm, host_conn_buf(c, HOST_SIMPLE), 100, tag, c->mh[HOST_SIMPLE], &req) ==
                 ncclSuccess && req == NULL);
    data = host_conn_buf(&w.ab.recv, HOST_SIMPLE);
    bytes_fill(host_conn_buf(c, HOST_SIMPLE), 100, 1, BYTES_RANDOM);
    must(request_recv(&q[0], &w.ab, 1, &data, &room, &tag) == ncclSuccess);
    q[0].want_sizes = false;
    must(request_send(&q[1], &w.ab, 100, tag, q, 1) == ncclSuccess);
    requests_end(q, 2);
    must(q[0].res == ncclSuccess && q[1].res == ncclSuccess && bytes_are(data, 100, 1, BYTES_RANDOM));
    /* 32 receives of one comm, then "later" until one is done */
    for (int i = 0; i < 33; i++)
        must(request_recv(&q[0], &w.ab, 1, &data, &room, &tag) == ncclSuccess && (q[0].req == NULL) == (i == 32));
    world_close(&w);
}

/* More than fits: both ends fail, each says one line, no byte is written past the buffer. */
static void oversize_child(const void *arg, int fd, int side)
{
    struct world w;
    struct request q[2];
    void *data;
    size_t room = 4000;
    int tag = 0;
    char line[HOST_LOG_LINE];

    (void)fd, (void)side;
    world_open(&w, *(const int *)arg);
    data = host_conn_buf(&w.ab.recv, HOST_SIMPLE);
    memset(data, 0xee, 8192);
    must(request_recv(&q[0], &w.ab, 1, &data, &room, &tag) == ncclSuccess);
    ncclResult_t res = request_send(&q[1], &w.ab, 4001, tag, q, 1);
    requests_end(q, 2);
    must(res == ncclInvalidUsage || q[1].res == ncclInvalidUsage);
    must(q[0].res == ncclInvalidUsage);
    for (int i = 0; i < 8192; i++)
        must(((unsigned char *)data)[i] == 0xee);
    host_log_last(line);
    must(host_log_warns() == 2 && strstr(line, "4001") != NULL && strstr(line, "4000") != NULL);
    /* a broken comm: requests that fail at their test, and no more lines */
    must(request_recv(&q[0], &w.ab, 1, &data, &room, &tag) == ncclSuccess && q[0].req != NULL);
    requests_end(q, 1);
    must(q[0].res == ncclInvalidUsage && host_log_warns() == 2);
    world_close(&w);
    must(host_log_warns() == 2);
}

/* ---- several at once ---- */

static atomic_bool attr_stop;

static void *attr_main(void *arg)
{
    struct host_net *net = arg;
    ncclNetAttr_v11_t attr;
    uint64_t n = 0;

    for (; !atomic_load(&attr_stop); n++) {
        memset(&attr, n % 5 == 0 ? 0xff : 0, sizeof(attr));
        if (n % 5 != 0)
            attr.op = 1u << (n % 8), attr.algo = 1u << (n % 7), attr.proto = 1u << (n % 3);
        host_attr_set(net, &attr);
    }
    return NULL;
}

static void reg_rounds(struct world *w, int rounds)
{
    static char memory[1 << 20];
    struct host_mem m[2];

    for (int i = 0; i < rounds; i++) {
        m[0] = (struct host_mem){.conn = &w->ab.send, .data = memory, .bytes = sizeof(memory)};
        m[1] = (struct host_mem){.conn = &w->ab.recv, .data = memory + i, .bytes = 4096};
        host_mem_reg(&w->a.service, &m[0]);
        host_mem_reg(&w->b.service, &m[1]);
        must(host_job_wait(&w->a.service, &m[0].job, RANK_WAIT_MS) && m[0].job.res == ncclSuccess);
        must(host_job_wait(&w->b.service, &m[1].job, RANK_WAIT_MS) && m[1].job.res == ncclSuccess);
        host_mem_dereg(&w->a.service, &m[0]);
        host_mem_dereg(&w->b.service, &m[1]);
        must(host_job_wait(&w->a.service, &m[0].job, RANK_WAIT_MS) && m[0].job.res == ncclSuccess);
        must(host_job_wait(&w->b.service, &m[1].job, RANK_WAIT_MS) && m[1].job.res == ncclSuccess);
    }
}

/* The service thread says setNetAttr and registers the user's memory while the progress thread sends. */
static void racing_child(const void *arg, int fd, int side)
{
    struct world w;
    pthread_t t[2];

    (void)fd, (void)side;
    setenv("GRADWIRE_POLICY", "always", 1);
    world_open(&w, *(const int *)arg);
    atomic_store(&attr_stop, false);
    must(pthread_create(&t[0], NULL, attr_main, &w.a.net) == 0);
    must(pthread_create(&t[1], NULL, attr_main, &w.b.net) == 0);
    world_start(&w, 60, BYTES_FLOATS);
    reg_rounds(&w, 50);
    world_end(&w);
    atomic_store(&attr_stop, true);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    must(host_log_warns() == 0);
    world_close(&w);
}

static void *world_main(void *arg)
{
    struct world *w = calloc(1, sizeof(*w));

    must(w != NULL);
    for (int round = 0; round < 2; round++) {
        world_open(w, *(const int *)arg);
        world_start(w, 24, BYTES_FLOATS);
        world_end(w);
        world_close(w);
    }
    free(w);
    return NULL;
}

/* Communicators of several threads come and go while others send. */
static void several_child(const void *arg, int fd, int side)
{
    static int versions[] = {12, 11, 12};
    pthread_t t[3];

    (void)fd, (void)side;
    for (int i = 0; i < 3; i++)
        must(pthread_create(&t[i], NULL, world_main, arg != NULL ? (void *)arg : &versions[i]) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    must(host_log_warns() == 0);
}

static void each_version(child_fn *fn)
{
    for (int v = HOST_VERSION_MIN; v <= HOST_VERSION_MAX; v++)
        child_one(fn, &v);
}

static void test_grouped(void **state)
{
    (void)state;
    each_version(grouped_child);
}

static void test_refused(void **state)
{
    (void)state;
    each_version(refused_child);
}

static void test_oversize(void **state)
{
    (void)state;
    each_version(oversize_child);
}

static void test_racing(void **state)
{
    static const int versions[] = {11, 12};

    (void)state;
    child_one(racing_child, &versions[0]);
    child_one(racing_child, &versions[1]);
}

static void test_several(void **state)
{
    static int oldest = 6;

    (void)state;
    child_one(several_child, NULL);
    child_one(several_child, &oldest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic), cmocka_unit_test(test_grouped), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_oversize), cmocka_unit_test(test_racing), cmocka_unit_test(test_several),
    };
    setenv("NCCL_DEBUG", "WARN", 0); /* else errors that a case provokes also stand on stderr */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
