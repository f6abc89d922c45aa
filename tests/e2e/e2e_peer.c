/* e2e_peer.c - who else may come to our listener, or sit behind a handle: strangers, other versions, other settings, the dying.
 * Each gets its answer, each of ours one line, and the true peer is never delayed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <hello.h>

#include "rank.h"

/* ---- the other end, by hand ---- */

static int dial(const struct gw_handle *h)
{
    const struct gw_addr *a = &h->addr[0];
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope};
    int fd = socket(a->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(&v4.sin_addr, a->ip, 4);
    memcpy(&v6.sin6_addr, a->ip, 16);
    must(fd >= 0);
    must(a->family == 4 ? connect(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0
                        : connect(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0);
    return fd;
}

static struct gw_hello hello_of(const struct gw_handle *h, int role)
{
    struct gw_hello hello = {.version_min = GW_WIRE_VERSION_MIN, .version_max = GW_WIRE_VERSION, .pid = 4242,
                             .chunk_bytes = 131072, .codecs = 3, .role = (uint8_t)role, .host = "elsewhere",
                             .lane = "ucx", .build = "9.9.9", .blob.len = 16};

    memcpy(hello.token, h->token, sizeof(hello.token));
    return hello;
}

static void say_hello(int fd, const struct gw_hello *hello)
{
    uint8_t bytes[GW_CTL_MAX];

    child_say(fd, bytes, gw_hello_write(bytes, hello));
}

/* One whole control message, or 0 bytes at the end of file. */
static uint32_t hear(int fd, uint8_t bytes[GW_CTL_MAX], enum gw_ctl_kind *kind_p)
{
    uint32_t n = 0, whole;
    struct timeval tv = {.tv_sec = 10};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    while (gw_ctl_read(bytes, n, kind_p, &whole) == GW_AGAIN || n < whole) {
        ssize_t got = recv(fd, bytes + n, 1, 0);
        must(got >= 0 || errno == ECONNRESET);
        if (got <= 0)
            return 0;
        n++;
    }
    return n;
}

/* ---- strangers ---- */

enum { STRANGERS = 40 };

static void strangers_come(const struct gw_handle *h, int fd[3 * STRANGERS])
{
    struct gw_hello wrong = hello_of(h, 1);

    wrong.token[7] ^= 1;
    for (int i = 0; i < STRANGERS; i++) {
        char junk[300];
        fd[3 * i] = dial(h); /* says nothing */
        fd[3 * i + 1] = dial(h);
        bytes_fill(junk, sizeof(junk), (uint64_t)i, BYTES_RANDOM);
        child_say(fd[3 * i + 1], junk, (size_t)(1 + i * 7));
        fd[3 * i + 2] = dial(h);
        say_hello(fd[3 * i + 2], &wrong);
    }
}

static void strangers_child(const void *arg, int unused, int side)
{
    int fd[3 * STRANGERS];
    struct gw_handle h;
    struct rank r;
    struct pair p = {.tx = &r, .rx = &r};
    struct traffic t[2], *both[] = {&t[0], &t[1]};

    (void)arg, (void)unused, (void)side;
    rank_open(&r, 0);
    rank_listen(&r, &p.recv);
    must(gw_handle_read((uint8_t *)p.recv.handle, &h) == GW_OK);
    strangers_come(&h, fd);
    uint64_t since = host_now_ns();
    memcpy(p.send.handle, p.recv.handle, sizeof(p.send.handle));
    host_conn_accept(&r.service, &p.recv);
    host_conn_connect(&r.service, &p.send, &r.net, 0);
    rank_wait(&r, &p.send);
    rank_wait(&r, &p.recv);
    must(host_now_ns() - since < 3000000000u);
    traffic_init(&t[0], &p.send, 12, 1, BYTES_FLOATS);
    traffic_init(&t[1], &p.recv, 12, 1, BYTES_FLOATS);
    rank_run(&r, both, 2);
    rank_done(&r);
    rank_stop(&r);
    pair_close(&p);
    rank_close(&r);
    for (int i = 0; i < 3 * STRANGERS; i++)
        close(fd[i]);
    must(host_log_warns() <= 2); /* however many they were */
}

/* ---- somebody with the right token who cannot be talked to ---- */

enum misfit { NEWER, LOSSY, SAME_ROLE, BAD_BLOB, LEAVES, MISFITS };

static const char *const said_of[MISFITS] = {
    [NEWER] = "GW_E_VERSION", [LOSSY] = "topk=0.01", [SAME_ROLE] = "GW_E_", [BAD_BLOB] = "GW_E_", [LEAVES] = "GW_E_",
};

static void make_misfit(struct gw_hello *hello, enum misfit m)
{
    if (m == NEWER)
        hello->version_min = hello->version_max = 99;
    if (m == LOSSY)
        strcpy(hello->lossy, "topk=0.01");
    if (m == SAME_ROLE)
        hello->role = 3 - hello->role;
}

/* A lane that cannot be joined says so in a line of its own before ours: it alone knows what both ends have. */
static void last_line(const char *op, const char *what, unsigned lines)
{
    char line[HOST_LOG_LINE];

    host_log_last(line);
    if (host_log_warns() != lines || strstr(line, op) == NULL || strstr(line, what) == NULL)
        fprintf(stderr, "%u lines, the last: %s\n", host_log_warns(), line);
    must(host_log_warns() == lines && strstr(line, op) && strstr(line, what) && strstr(line, "Next:"));
}

/* It dials us. */
static void misfit_dials_child(const void *arg, int unused, int side)
{
    enum misfit m = *(const enum misfit *)arg;
    uint8_t bytes[GW_CTL_MAX];
    enum gw_ctl_kind kind = GW_CTL_HELLO;
    struct gw_reject why;
    struct gw_handle h;
    struct host_conn door;
    struct rank r;

    (void)unused, (void)side;
    setenv("GRADWIRE_CONNECT_TIMEOUT", "2", 1);
    rank_open(&r, 0);
    rank_listen(&r, &door);
    must(gw_handle_read((uint8_t *)door.handle, &h) == GW_OK);
    struct gw_hello hello = hello_of(&h, 1);
    make_misfit(&hello, m);
    int fd = dial(&h);
    say_hello(fd, &hello);
    host_conn_accept(&r.service, &door);
    must(rank_result(&r, &door) != ncclSuccess);
    last_line("op=accept", said_of[m], 1);
    if (m <= SAME_ROLE) {
        uint32_t n = hear(fd, bytes, &kind);
        must(n > 0 && kind == GW_CTL_REJECT && gw_reject_read(bytes, n, &why) == GW_OK && why.text[0] != 0);
    }
    host_conn_close(&r.service, &door);
    rank_close(&r);
}

/* We dial it: a listener of our own in its place, behind a handle that is right. */
static int door_by_hand(struct gw_handle *h, const struct gw_handle *model)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 4) == 0);
    must(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    *h = *model;
    h->addrs = 1;
    h->addr[0] = (struct gw_addr){.family = 4, .port = ntohs(a.sin_port)};
    memcpy(h->addr[0].ip, &a.sin_addr, 4);
    return fd;
}

static void misfit_answers_child(const void *arg, int unused, int side)
{
    enum misfit m = *(const enum misfit *)arg;
    uint8_t bytes[GW_CTL_MAX];
    enum gw_ctl_kind kind;
    struct gw_handle h, fake;
    struct host_conn door, dialer;
    struct rank r;

    (void)unused, (void)side;
    setenv("GRADWIRE_CONNECT_TIMEOUT", "2", 1);
    rank_open(&r, 0);
    rank_listen(&r, &door);
    must(gw_handle_read((uint8_t *)door.handle, &h) == GW_OK);
    int listener = door_by_hand(&fake, &h);
    memset(&dialer, 0, sizeof(dialer));
    gw_handle_write((uint8_t *)dialer.handle, &fake);
    host_conn_connect(&r.service, &dialer, &r.net, 0);
    int fd = accept(listener, NULL, NULL);
    must(fd >= 0 && hear(fd, bytes, &kind) > 0 && kind == GW_CTL_HELLO);
    struct gw_hello hello = hello_of(&fake, 2);
    make_misfit(&hello, m);
    if (m != LEAVES)
        say_hello(fd, &hello);
    else
        close(fd);
    must(rank_result(&r, &dialer) != ncclSuccess && dialer.comm == NULL);
    last_line("op=connect", said_of[m], 1);
    host_conn_close(&r.service, &door);
    rank_wait(&r, &door);
    rank_close(&r);
}

/* It answers with a reason: ours prints that reason. */
static void refused_child(const void *arg, int unused, int side)
{
    struct gw_reject why = {.code = GW_E_SETTING, .text = "this rank was told to refuse 7 of 9", .host = "elsewhere"};
    uint8_t bytes[GW_CTL_MAX];
    enum gw_ctl_kind kind;
    struct gw_handle h, fake;
    struct host_conn door, dialer;
    struct rank r;

    (void)arg, (void)unused, (void)side;
    rank_open(&r, 0);
    rank_listen(&r, &door);
    must(gw_handle_read((uint8_t *)door.handle, &h) == GW_OK);
    int listener = door_by_hand(&fake, &h);
    memset(&dialer, 0, sizeof(dialer));
    gw_handle_write((uint8_t *)dialer.handle, &fake);
    host_conn_connect(&r.service, &dialer, &r.net, 0);
    int fd = accept(listener, NULL, NULL);
    must(fd >= 0 && hear(fd, bytes, &kind) > 0);
    child_say(fd, bytes, gw_reject_write(bytes, &why));
    must(rank_result(&r, &dialer) != ncclSuccess);
    last_line("op=connect", "told to refuse 7 of 9", 1);
    host_conn_close(&r.service, &door);
    rank_wait(&r, &door);
    rank_close(&r);
}

/* Two ranks of one job whose lanes do not meet: neither hangs, each says why. */
static void lanes_differ_child(const void *arg, int fd, int side)
{
    struct rank r;
    struct host_conn c;

    (void)arg;
    setenv("GRADWIRE_CONNECT_TIMEOUT", "2", 1);
    setenv("GRADWIRE_UCX_TLS", side ? "posix" : "tcp", 1);
    rank_open(&r, 0);
    memset(&c, 0, sizeof(c));
    if (side == 0) {
        child_hear(fd, c.handle, sizeof(c.handle));
        host_conn_connect(&r.service, &c, &r.net, 0);
    } else {
        rank_listen(&r, &c);
        child_say(fd, c.handle, sizeof(c.handle));
        host_conn_accept(&r.service, &c);
    }
    must(rank_result(&r, &c) != ncclSuccess);
    last_line(side ? "op=accept" : "op=connect", "GW_E_", 1);
    child_meet(fd);
    host_conn_close(&r.service, &c);
    rank_wait(&r, &c);
    rank_close(&r);
}

/* ---- a rank that is killed while it connects ---- */

static ncclResult_t try_once(struct rank *r, struct host_conn *c, int side, void **comm_p)
{
    return side == 1 ? host_accept(&r->net, c->listen, comm_p) : host_connect(&r->net, 0, c->handle, comm_p);
}

/* It has said hello, so an accept may still succeed; then the first receive fails. */
static ncclResult_t receive(struct rank *r, void *comm)
{
    static char room[4096];
    void *data = room, *mh;
    size_t size = sizeof(room);
    int tag = 0;
    struct request q = {.net = &r->net};

    must(host_reg(&r->net, comm, room, sizeof(room), NCCL_PTR_HOST, &mh) == ncclSuccess);
    must(host_irecv(&r->net, comm, 1, &data, &size, &tag, &mh, false, &q.req) == ncclSuccess && q.req != NULL);
    requests_end(&q, 1);
    must(host_dereg(&r->net, comm, mh) == ncclSuccess && host_close_recv(&r->net, comm) == ncclSuccess);
    return q.res;
}

static void killed_connecting_child(const void *arg, int fd, int side)
{
    int victim = *(const int *)arg;
    uint64_t until = host_now_ns() + 10000000000u;
    ncclResult_t res = ncclSuccess;
    void *comm = NULL;
    struct host_conn c;
    struct rank r;

    setenv("GRADWIRE_CONNECT_TIMEOUT", "1", 1);
    rank_open(&r, 0);
    memset(&c, 0, sizeof(c));
    if (side == 1) {
        rank_listen(&r, &c);
        child_say(fd, c.handle, sizeof(c.handle));
    } else {
        child_hear(fd, c.handle, sizeof(c.handle));
    }
    while (res == ncclSuccess && comm == NULL && host_now_ns() < until) {
        res = try_once(&r, &c, side, &comm);
        if (side == victim)
            raise(SIGKILL);
    }
    must(res == ncclSuccess ? comm != NULL && receive(&r, comm) != ncclSuccess : true);
    last_line(side == 1 ? "op=" : "op=connect", "GW_E_", 1);
    if (c.listen != NULL)
        host_close_listen(&r.net, c.listen);
    rank_close(&r);
}

static void test_killed_connecting(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++)
        children_wait(children_start(killed_connecting_child, &victim), victim, 1);
}

static void test_lanes_differ(void **state)
{
    (void)state;
    child_two(lanes_differ_child, NULL);
}

static void test_strangers(void **state)
{
    (void)state;
    child_one(strangers_child, NULL);
}

static void test_misfits(void **state)
{
    (void)state;
    for (enum misfit m = 0; m < MISFITS; m++) {
        if (m != LEAVES) /* one that leaves after its hello is told from a slow one by the lane only */
            child_one(misfit_dials_child, &m);
        child_one(misfit_answers_child, &m);
    }
    child_one(refused_child, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strangers), cmocka_unit_test(test_misfits),
                                       cmocka_unit_test(test_lanes_differ), cmocka_unit_test(test_killed_connecting)};

    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
