/* test_watch.c - the watch: what it hears, what silence means to it, and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <watch.h>

#include <ends.h>

static void fail_arrives(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct ends_end a, b, c, d;
    ends_pair_up(&conf, &a, &b);
    ends_pair_up(&conf, &c, &d);
    atomic_store(&b.tell, c.c); /* what b hears is passed on over c, as one ctx does */
    struct gw_fail f = {.code = GW_E_CORRUPT, .number = 12, .pid = 99, .host = "node-4", .text = "first cause"};
    gw_control_fail(a.c, &f);
    f.code = GW_E_LANE;
    gw_control_fail(a.c, &f); /* not said */
    ends_wait_sign(&b, GW_SIGN_FAIL);
    assert_true(b.w.fail.code == GW_E_CORRUPT && b.w.fail.number == 12 && b.w.fail.told == 0);
    ends_wait_sign(&d, GW_SIGN_FAIL);
    assert_true(d.w.fail.code == GW_E_CORRUPT && d.w.fail.told == 1);
    assert_string_equal(d.w.fail.host, "node-4");
    assert_string_equal(d.w.fail.text, "first cause");
    struct ends_end *all[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++)
        gw_control_bye(all[i]->c, NULL, 1000);
}

static void bye_arrives(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct ends_end a, b;
    ends_pair_up(&conf, &a, &b);
    struct gw_bye bye = {.lowest = 7, .map = 4, .receiver = 1}, none = {0};
    gw_control_bye(a.c, &bye, 20000);
    ends_wait_sign(&b, GW_SIGN_BYE);
    assert_true(b.w.bye.lowest == 7 && b.w.bye.map == 4 && b.w.bye.receiver == 1);
    ends_wait_sign(&b, GW_SIGN_EOF); /* a has shut down writing */
    gw_control_bye(b.c, &none, 20000);
    uint64_t began = gw_now_ns();
    gw_watch_settle(20000);
    assert_true(gw_now_ns() - began < 15000 * 1000000ull); /* nobody waits out its linger time */
    assert_int_equal(ends_said.at, 0);
}

/* Both ends speak last words at the same time: a socket closed with the fail unread would lose the bye. */
static void fail_crosses_bye(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct ends_end a, b;
    ends_pair_up(&conf, &a, &b);
    atomic_store(&a.w.outstanding, 1);
    atomic_store(&b.w.outstanding, 1);
    struct gw_fail f = {.code = GW_E_LANE, .text = "b goes too"};
    struct gw_bye bye = {.lowest = 1, .receiver = 1};
    gw_control_bye(a.c, &bye, 20000);
    gw_control_fail(b.c, &f);
    ends_wait_sign(&b, GW_SIGN_BYE);
    gw_control_bye(b.c, NULL, 20000);
}

static void read_now(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct ends_end a, b;
    ends_pair_up(&conf, &a, &b);
    struct gw_fail f = {.code = GW_E_SIZE, .text = "too large"};
    gw_control_fail(a.c, &f);
    /* Loopback delivers before send returns, so that one look is enough. */
    gw_control_read_now(b.c);
    assert_true(atomic_load(&b.w.signs) & GW_SIGN_FAIL);
    assert_int_equal(b.w.fail.code, GW_E_SIZE);
    uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull;
    while (atomic_load(&b.changes) == 0 && gw_now_ns() < guard)
        usleep(1000);
    assert_true(atomic_load(&b.changes) > 0);
    gw_control_bye(a.c, NULL, 1000);
    gw_control_bye(b.c, NULL, 1000);
}

static void babble_is_a_failure(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_hello hello = ends_hello_of(1), theirs, mine = ends_hello_of(2);
    struct gw_guest *g;
    struct ends_end e;
    uint8_t msg[GW_CTL_MAX];
    int fd = ends_stranger(&h);
    memcpy(hello.token, h.token, GW_TOKEN_BYTES);
    uint32_t len = gw_hello_write(msg, &hello);
    assert_int_equal(write(fd, msg, len), len);
    assert_int_equal(write(fd, "and now for something else", 26), 26);
    while (gw_door_poll(door, &g, &theirs) == GW_AGAIN)
        ;
    assert_int_equal(gw_guest_answer(g, &mine), GW_OK);
    ends_watch(&conf, &e, g);
    ends_wait_sign(&e, GW_SIGN_FAIL);
    assert_int_equal(e.w.fail.code, GW_E_PROTO);
    gw_control_bye(e.c, NULL, 1000);
    close(fd);
    gw_door_close(door);
}

/* Time is an argument of the tick, so silence needs no waiting here. */
static void silence(void **state)
{
    (void)state;
    enum { S = 1000000000 };
    struct gw_watched w = {.local_name = "recv here:1", .peer_name = "there:2"};
    struct gw_control c = {.conf = ends_conf_now(), .w = &w, .sock.fd = -1};
    c.conf.stall_warn_ms = 30000, c.conf.stall_timeout_ms = 60000;
    gw_list_init(&c.node), gw_list_init(&c.sock.node);
    gw_control_tick(&c, 100ull * S, 0); /* nothing outstanding: silence is no news */
    atomic_store(&w.outstanding, 2);
    gw_control_tick(&c, 200ull * S, 0); /* begins to wait */
    gw_control_tick(&c, 229ull * S, 0);
    assert_int_equal(ends_said.at, 0);
    gw_control_tick(&c, 231ull * S, 0);
    assert_true(ends_was_said("stall: local=\"recv here:1\" peer=\"there:2\" open=2 silent_ms=31000"));
    gw_control_tick(&c, 900ull * S, 1); /* we were stopped ourselves: all begins anew */
    gw_control_tick(&c, 959ull * S, 0);
    assert_int_equal(atomic_load(&w.signs), 0);
    gw_control_tick(&c, 960ull * S, 0);
    assert_int_equal(atomic_load(&w.signs), GW_SIGN_STALL);
    assert_int_equal(w.age_ms, 60000);
    struct gw_watched gone = {.signs = GW_SIGN_BYE, .outstanding = 1};
    c.w = &gone, c.stalled = 0;
    gw_control_tick(&c, 5000ull * S, 0); /* after its bye nobody waits for it */
    assert_int_equal(atomic_load(&gone.signs), GW_SIGN_BYE);
}

/* ---- another process ---- */
/* Forks a peer that dials, watches, signals through the pipe and then does what `then` says. */
static pid_t peer_process(const struct gw_handle *h, const struct gw_control_conf *conf, void (*then)(struct gw_control *))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not even a failed test leaves it behind */
    struct gw_hello mine = ends_hello_of(1), theirs;
    struct gw_reject why;
    struct gw_guest *dial;
    static struct gw_watched w = {.local_name = "child", .peer_name = "parent"};
    struct gw_control *c;
    gw_err err = gw_dial_start(conf, h, &mine, &dial);
    while (err == GW_OK && (err = gw_dial_poll(dial, &theirs, &why)) == GW_AGAIN)
        err = GW_OK, usleep(1000);
    if (err != GW_OK || gw_control_watch(conf, dial, &w, &c) != GW_OK)
        _exit(1);
    then(c);
    for (;;)
        pause();
}

static void just_live(struct gw_control *c)
{
    (void)c;
}

static void accept_one(struct gw_door *door, const struct gw_control_conf *conf, struct ends_end *e)
{
    struct gw_hello theirs, mine = ends_hello_of(2);
    struct gw_guest *g;
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard; usleep(500))
        err = gw_door_poll(door, &g, &theirs);
    assert_int_equal(err, GW_OK);
    assert_int_equal(gw_guest_answer(g, &mine), GW_OK);
    ends_watch(conf, e, g);
}

static void killed_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_control_conf child = conf;
    pid_t pid = peer_process(&h, &child, just_live);
    struct ends_end e;
    accept_one(door, &conf, &e);
    assert_int_equal(kill(pid, SIGKILL), 0);
    uint32_t signs = ends_wait_sign(&e, GW_SIGN_EOF);
    assert_false(signs & (GW_SIGN_BYE | GW_SIGN_FAIL | GW_SIGN_STALL | GW_SIGN_TIMEOUT));
    waitpid(pid, NULL, 0);
    gw_control_bye(e.c, NULL, 1000);
    gw_door_close(door);
}

static void stopped_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    conf.stall_warn_ms = 100, conf.stall_timeout_ms = 300;
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    pid_t pid = peer_process(&h, &conf, just_live);
    struct ends_end e;
    accept_one(door, &conf, &e);
    atomic_store(&e.w.outstanding, 3);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    ends_wait_sign(&e, GW_SIGN_STALL);
    assert_true(e.w.age_ms >= 300);
    assert_true(ends_was_said("stall: local=\"send here:1\" peer=\"there:2\" open=3"));
    kill(pid, SIGKILL);
    ends_wait_sign(&e, GW_SIGN_EOF);
    waitpid(pid, NULL, 0);
    gw_control_bye(e.c, NULL, 1000);
    gw_door_close(door);
}

/* The peer's host does nothing, but its watcher answers: no stall, however long we wait. */
static void living_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    conf.stall_warn_ms = 200, conf.stall_timeout_ms = 0;
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    pid_t pid = peer_process(&h, &conf, just_live);
    struct ends_end e;
    accept_one(door, &conf, &e);
    atomic_store(&e.w.outstanding, 1);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    ends_wait_said("peer=\"there:2\"");
    assert_int_equal(kill(pid, SIGCONT), 0);
    ends_wait_said("answers again after"); /* only an answer to our question can bring this line */
    assert_int_equal(atomic_load(&e.w.signs), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    gw_control_bye(e.c, NULL, 1000);
    gw_door_close(door);
}

static void loopback(int up)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP : 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
    close(fd);
}

/* A network that swallows everything: loopback of a network namespace, taken down under a living connection. */
static void no_acknowledgement(void **state)
{
    (void)state;
    int ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (ours < 0 || unshare(CLONE_NEWNET) != 0) {
        print_message("no namespace may be made here (%s): skipped\n", strerror(errno));
        close(ours);
        skip();
    }
    struct gw_control_conf conf = ends_conf_now();
    conf.peer_timeout_ms = 300, conf.stall_warn_ms = 200;
    struct ends_end a, b;
    loopback(1);
    ends_pair_up(&conf, &a, &b);
    loopback(0);
    atomic_store(&a.w.outstanding, 1); /* so that there is something to acknowledge */
    uint32_t signs = ends_wait_sign(&a, GW_SIGN_TIMEOUT);
    assert_false(signs & GW_SIGN_EOF);
    assert_int_equal(a.w.age_ms, 300);
    gw_control_bye(a.c, NULL, 100);
    gw_control_bye(b.c, NULL, 100);
    assert_int_equal(setns(ours, CLONE_NEWNET), 0);
    close(ours);
}

/* A forked child holds nothing of ours: the peer sees the end although the child lives, and the child sees it too. */
static void child_keeps_nothing(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct ends_end a, b;
    int to_child[2], to_parent[2];
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    ends_pair_up(&conf, &a, &b);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to_child[1]);
        struct gw_guest *g;
        struct gw_hello theirs;
        int ok = ends_sockets_open() == ends_sockets_before && (atomic_load(&a.w.signs) & GW_SIGN_EOF) &&
                 gw_door_poll(door, &g, &theirs) == GW_E_CLOSED;
        /* None of these may do anything, or wait. */
        struct gw_fail f = {.code = GW_E_LANE};
        gw_control_fail(a.c, &f);
        gw_control_read_now(a.c);
        gw_control_bye(a.c, NULL, 1000);
        gw_watch_settle(1000);
        gw_door_close(door);
        char byte = (char)ok;
        ok = write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 0;
        _exit(0);
    }
    char byte = 0;
    close(to_child[0]);
    assert_int_equal(read(to_parent[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    assert_int_equal(atomic_load(&b.w.signs), 0); /* what the child did reached nobody */
    struct gw_bye none = {0};
    gw_control_bye(a.c, &none, 20000);
    ends_wait_sign(&b, GW_SIGN_EOF);
    gw_control_bye(b.c, &none, 20000);
    close(to_child[1]), close(to_parent[0]), close(to_parent[1]);
    waitpid(pid, NULL, 0);
    gw_door_close(door);
}

static void many_rounds(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_bye none = {0};
    for (int i = 0; i < 100; i++) {
        struct ends_end a, b;
        ends_pair_up(&conf, &a, &b);
        gw_control_bye(a.c, &none, 5000);
        gw_control_bye(b.c, &none, 5000);
        gw_watch_settle(5000); /* stops the thread; the next round starts it again */
    }
    assert_int_equal(ends_said.at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENDS_CASE(fail_arrives), ENDS_CASE(bye_arrives), ENDS_CASE(fail_crosses_bye), ENDS_CASE(read_now),
        ENDS_CASE(babble_is_a_failure), ENDS_CASE(silence), ENDS_CASE(killed_peer), ENDS_CASE(stopped_peer),
        ENDS_CASE(living_peer), ENDS_CASE(no_acknowledgement), ENDS_CASE(child_keeps_nothing),
        ENDS_CASE(many_rounds),
    };
    ends_first();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
