/* abi_conn.c - connections as NCCL makes, forgets and closes them, in every table version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rank.h"

/* ---- on the calling thread, as bootstrap does it ---- */

static void connect_until_up(struct host_net *net, void *handle, void *listen, void **send_p, void **recv_p)
{
    uint64_t until = host_now_ns() + RANK_WAIT_MS * 1000000ull;

    *send_p = *recv_p = NULL;
    while (*send_p == NULL || *recv_p == NULL) {
        must(*send_p != NULL || host_connect(net, 0, handle, send_p) == ncclSuccess);
        must(*recv_p != NULL || host_accept(net, listen, recv_p) == ncclSuccess);
        must(host_now_ns() < until);
    }
}

/* The memory of a handle is the same over the retries of its connection and then the next one's: while the first attempt is
 * half open (NCCL gave it up), and after one that was finished. */
static void handle_memory_child(const void *arg, int fd, int side)
{
    char memory[NCCL_NET_HANDLE_MAXSIZE], handle[3][NCCL_NET_HANDLE_MAXSIZE];
    void *listen[3], *send[3] = {NULL}, *recv[3] = {NULL}, *none;
    struct rank r;

    (void)fd, (void)side;
    rank_open(&r, *(const int *)arg);
    for (int i = 0; i < 3; i++)
        must(host_listen(&r.net, 0, handle[i], &listen[i]) == ncclSuccess);
    memcpy(memory, handle[0], sizeof(memory));
    for (int i = 0; i < 3; i++) /* nobody accepts */
        must(host_connect(&r.net, 0, memory, &none) == ncclSuccess && none == NULL);
    for (int i = 1; i < 3; i++) {
        memcpy(memory, handle[i], sizeof(memory));
        connect_until_up(&r.net, memory, listen[i], &send[i], &recv[i]);
    }
    for (int i = 0; i < 3; i++) {
        must(host_close_listen(&r.net, listen[i]) == ncclSuccess);
        must(send[i] == NULL || host_close_send(&r.net, send[i]) == ncclSuccess);
        must(recv[i] == NULL || host_close_recv(&r.net, recv[i]) == ncclSuccess);
    }
    must(host_log_warns() == 0);
    rank_close(&r);
}

/* What the probe of old drivers does: no place for a device handle at all. */
static void no_device_handle_child(const void *arg, int fd, int side)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen, *send = NULL, *recv = NULL;
    uint64_t until = host_now_ns() + RANK_WAIT_MS * 1000000ull;
    struct rank r;

    (void)arg, (void)fd, (void)side;
    rank_open(&r, 12);
    must(host_listen(&r.net, 0, handle, &listen) == ncclSuccess);
    while (send == NULL || recv == NULL) {
        must(send != NULL || r.net.t.v12.connect(r.net.ctx, 0, handle, &send, NULL) == ncclSuccess);
        must(recv != NULL || r.net.t.v12.accept(listen, &recv, NULL) == ncclSuccess);
        must(host_now_ns() < until);
    }
    must(host_close_send(&r.net, send) == ncclSuccess && host_close_recv(&r.net, recv) == ncclSuccess);
    must(host_close_listen(&r.net, listen) == ncclSuccess);
    rank_close(&r);
}

/* ---- on service threads ---- */

enum { MANY = 12 };

/* All at once, accepts in another order than connects, closes interleaved, then once more with the other ends swapped. */
static void many_pending_child(const void *arg, int fd, int side)
{
    static struct pair p[MANY];
    struct rank a, b;

    (void)fd, (void)side;
    rank_open(&a, *(const int *)arg);
    rank_open(&b, *(const int *)arg);
    for (int i = 0; i < MANY; i++) {
        p[i].tx = i % 2 ? &a : &b;
        p[i].rx = i % 2 ? &b : &a;
        rank_listen(p[i].rx, &p[i].recv);
        memcpy(p[i].send.handle, p[i].recv.handle, sizeof(p[i].send.handle));
    }
    for (int i = 0; i < MANY; i++)
        host_conn_connect(&p[i].tx->service, &p[i].send, &p[i].tx->net, 0);
    for (int i = MANY; i-- > 0;)
        host_conn_accept(&p[i].rx->service, &p[i].recv);
    for (int i = 0; i < MANY; i++)
        rank_wait(p[i].tx, &p[i].send), rank_wait(p[i].rx, &p[i].recv);
    for (int i = 0; i < MANY; i++)
        if (i % 3 == 0)
            pair_close(&p[i]);
    for (int i = 0; i < MANY; i++)
        if (i % 3 != 0)
            pair_close(&p[i]);
    must(host_log_warns() == 0);
    rank_close(&a);
    rank_close(&b);
}

/* An aborted communicator: listeners that nobody accepted on, connects that were never finished, none of them closed. */
static void half_open_child(const void *arg, int fd, int side)
{
    int fds = 0, threads = 0;

    (void)fd, (void)side;
    for (int round = 0; round < 4; round++) {
        struct rank r;
        static struct host_conn door[3], dial[3];
        rank_open(&r, *(const int *)arg);
        for (int i = 0; i < 3; i++) {
            rank_listen(&r, &door[i]);
            memset(&dial[i], 0, sizeof(dial[i]));
            memcpy(dial[i].handle, door[i].handle, sizeof(dial[i].handle));
            host_conn_connect(&r.service, &dial[i], &r.net, 0);
        }
        must(!host_job_wait(&r.service, &dial[0].job, 20));
        must(host_close_listen(&r.net, door[0].listen) == ncclSuccess); /* PXN: closed without an accept */
        for (int i = 0; i < 3; i++)
            host_job_drop(&r.service, &dial[i].job);
        rank_close(&r);
        if (round == 1)
            fds = held_fds(), threads = held_threads();
    }
    must(host_log_warns() == 0);
    must(held_fds() == fds && held_threads() == threads && threads == 0);
}

static void nobody_home_child(const void *arg, int fd, int side)
{
    char line[HOST_LOG_LINE], me[32];
    struct host_conn door, dial;
    struct rank r;

    (void)arg, (void)fd, (void)side;
    setenv("GRADWIRE_CONNECT_TIMEOUT", "600ms", 1);
    rank_open(&r, 12);
    rank_listen(&r, &door);
    memset(&dial, 0, sizeof(dial));
    memcpy(dial.handle, door.handle, sizeof(dial.handle));
    must(host_close_listen(&r.net, door.listen) == ncclSuccess);
    uint64_t since = host_now_ns();
    host_conn_connect(&r.service, &dial, &r.net, 0);
    must(rank_result(&r, &dial) == ncclRemoteError || dial.job.res == ncclSystemError);
    must(dial.comm == NULL && host_now_ns() - since < 3000000000u);
    host_log_last(line);
    snprintf(me, sizeof(me), "pid %d", (int)getpid());
    must(host_log_warns() == 1 && strstr(line, "op=connect") && strstr(line, me) && strstr(line, "Next:"));
    rank_close(&r);
}

/* The peer never dials: said once, and the end of waiting where the user gave stalls one. */
static void nobody_comes_child(const void *arg, int fd, int side)
{
    char line[HOST_LOG_LINE];
    struct host_conn door;
    struct rank r;

    (void)arg, (void)fd, (void)side;
    setenv("GRADWIRE_CONNECT_TIMEOUT", "200ms", 1);
    setenv("GRADWIRE_STALL_TIMEOUT", "300ms", 1);
    rank_open(&r, 12);
    rank_listen(&r, &door);
    host_conn_accept(&r.service, &door);
    must(rank_result(&r, &door) != ncclSuccess && door.comm == NULL);
    host_log_last(line);
    must(host_log_warns() == 2 && strstr(line, "GW_E_TIMEOUT: op=accept") && strstr(line, "Next:"));
    host_conn_close(&r.service, &door);
    rank_wait(&r, &door);
    rank_close(&r);
}

/* The other side runs another plugin, or none. */
static void garbage_handle_child(const void *arg, int fd, int side)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE], line[HOST_LOG_LINE];
    void *comm;
    struct rank r;

    (void)fd, (void)side;
    rank_open(&r, *(const int *)arg);
    for (unsigned i = 0; i < 4; i++) {
        if (i == 0)
            memset(handle, 0, sizeof(handle));
        else
            bytes_fill(handle, sizeof(handle), i, BYTES_RANDOM);
        must(host_connect(&r.net, 0, handle, &comm) != ncclSuccess && comm == NULL);
        host_log_last(line);
        must(host_log_warns() == i + 1 && strstr(line, "handle") && strstr(line, "NCCL_NET=gradwire"));
    }
    must(host_listen(&r.net, -1, handle, &comm) != ncclSuccess);
    must(host_listen(&r.net, r.net.ndev, handle, &comm) != ncclSuccess);
    rank_close(&r);
}

/* ---- the end with work in flight ---- */

static bool is_still(const char *p, size_t n, int c)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (char)c)
            return false;
    return true;
}

/* An abort: the progress thread is gone, then deregMr and closeRecv on the service thread with receives open and bytes on
 * their way.  The memory is the host's again at once; both ends close quickly, the peer fails with one line. */
static void in_flight_child(const void *arg, int fd, int side)
{
    int version = *(const int *)arg, first_is_sender = version % 2;
    struct rank a, b;
    struct pair p;
    struct traffic out, in, *po = &out, *pi = &in;
    char *memory;

    (void)fd, (void)side;
    rank_open(&a, version);
    rank_open(&b, version);
    pair_open(&p, &a, &b);
    traffic_init(&out, &p.send, 1u << 30, 3, BYTES_FLOATS);
    traffic_init(&in, &p.recv, 1u << 30, 3, BYTES_FLOATS);
    rank_run(&a, &po, 1);
    rank_run(&b, &pi, 1);
    while (atomic_load(&in.flow.finished) < 20)
        usleep(200);
    struct rank *one = first_is_sender ? &a : &b, *other = first_is_sender ? &b : &a;
    struct host_conn *c = first_is_sender ? &p.send : &p.recv;
    rank_stop(one);
    uint64_t since = host_now_ns();
    host_conn_close(&one->service, c);
    rank_wait(one, c);
    memory = host_conn_buf(c, HOST_SIMPLE);
    memset(memory, 0x77, HOST_SIMPLE_BYTES);
    must(host_now_ns() - since < 2000000000u);
    must(rank_failed(other, 5000) == ncclRemoteError);
    must(is_still(memory, HOST_SIMPLE_BYTES, 0x77));
    must(host_log_warns() >= 1 && host_log_warns() <= 2);
    rank_conn_close(other, first_is_sender ? &p.recv : &p.send);
    host_conn_free(c);
    rank_close(&a);
    rank_close(&b);
}

/* Memory and descriptors do not grow with connections that were; CONNECTS=1000 is the long run. */
static void again_child(const void *arg, int fd, int side)
{
    enum { SETTLED = 10 };
    int rounds = getenv("CONNECTS") != NULL ? atoi(getenv("CONNECTS")) : 60;
    struct rank a, b;
    struct pair p;
    int fds = 0;
    long kib = 0;

    (void)arg, (void)fd, (void)side;
    rank_open(&a, 12);
    rank_open(&b, 12);
    for (int i = 0; i < rounds; i++) {
        pair_open(&p, &a, &b);
        pair_close(&p);
        if (i == SETTLED)
            fds = held_fds(), kib = held_kib();
    }
    for (int i = 0; i < 100 && held_fds() > fds; i++)
        usleep(10000); /* the watcher closes what lingers */
    must(held_fds() <= fds && held_kib() < kib + 16384);
    rank_close(&a);
    rank_close(&b);
}

#define ONCE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        (void)state;                      \
        child_one(name##_child, NULL);    \
    }
#define FROM(first, name)                                    \
    static void test_##name(void **state)                    \
    {                                                        \
        (void)state;                                         \
        for (int v = first; v <= HOST_VERSION_MAX; v++)      \
            child_one(name##_child, &v);                     \
    }
FROM(6, handle_memory)
FROM(6, many_pending)
FROM(6, garbage_handle)
FROM(6, in_flight)
FROM(11, half_open) /* older tables have no finalize */
ONCE(no_device_handle)
ONCE(nobody_home)
ONCE(nobody_comes)
ONCE(again)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handle_memory), cmocka_unit_test(test_many_pending),
        cmocka_unit_test(test_garbage_handle), cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_half_open), cmocka_unit_test(test_no_device_handle),
        cmocka_unit_test(test_nobody_home), cmocka_unit_test(test_nobody_comes),
        cmocka_unit_test(test_again),
    };
    setenv("NCCL_DEBUG", "WARN", 0); /* else errors that a case provokes also stand on stderr */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
