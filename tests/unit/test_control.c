/* test_control.c - doors, dials and the watch, over real loopback sockets.  Every wait has a generous end and no result
 * depends on how long one took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <control.h>
#include <watch.h>

enum { GUARD_MS = 30000 };

/* ---- a log that remembers ---- */
static struct {
    pthread_mutex_t lock;
    char text[1 << 16];
    size_t at;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remember(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg;
    pthread_mutex_lock(&said.lock);
    int n = snprintf(said.text + said.at, sizeof said.text - said.at, "%d %s\n", (int)level, line);
    if (n > 0 && (size_t)n < sizeof said.text - said.at)
        said.at += (size_t)n;
    pthread_mutex_unlock(&said.lock);
}

static int was_said(const char *what)
{
    pthread_mutex_lock(&said.lock);
    int yes = strstr(said.text, what) != NULL;
    pthread_mutex_unlock(&said.lock);
    return yes;
}

static const struct gw_logger logger = {remember, NULL, GW_LOG_INFO};

static struct gw_control_conf conf_now(void)
{
    return (struct gw_control_conf){.log = &logger, .host = "here", .hello_timeout_ms = GUARD_MS, .dial_retries = 3,
                                    .peer_timeout_ms = 60000, .stall_warn_ms = 30000};
}

static int begin(void **state)
{
    (void)state;
    memset(said.text, 0, sizeof said.text);
    said.at = 0;
    return 0;
}

static int sockets_open(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        struct stat st;
        n += fstat(atoi(e->d_name), &st) == 0 && S_ISSOCK(st.st_mode);
    }
    closedir(d);
    return n;
}

static int sockets_before;

/* After each test nothing is left: no lingering, no thread, no socket. */
static int end(void **state)
{
    (void)state;
    gw_watch_settle(5000);
    return sockets_open() == sockets_before ? 0 : -1;
}

/* ---- two ends ---- */
static const struct gw_addr here = {.family = 4, .ip = {127, 0, 0, 1}};

static struct gw_hello hello_of(int role)
{
    return (struct gw_hello){.version_min = 1, .version_max = 1, .pid = (uint32_t)getpid(), .chunk_bytes = 131072,
                             .codecs = 1, .role = (uint8_t)role, .host = "here", .lane = "ucx", .build = "0.1.0"};
}

static struct gw_door *door_open(const struct gw_control_conf *conf, struct gw_handle *h)
{
    struct gw_door *door;
    assert_int_equal(gw_door_open(conf, &here, 1, &door, h), GW_OK);
    assert_true(h->addrs == 1 && h->addr[0].port != 0);
    return door;
}

struct link {
    struct gw_guest *in, *out;
    struct gw_hello at_door, at_dial;
};

/* Polls both ends as NCCL would until both have the other's hello; in the middle, strangers may come. */
static void meet(struct gw_door *door, struct gw_guest *dial, struct link *l)
{
    struct gw_hello mine = hello_of(2);
    struct gw_reject why = {0};
    uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull;
    gw_err err = GW_AGAIN;
    l->in = NULL, l->out = dial;
    while (err == GW_AGAIN && gw_now_ns() < guard) {
        err = gw_dial_poll(dial, &l->at_dial, &why);
        if (l->in == NULL && gw_door_poll(door, &l->in, &l->at_door) == GW_OK)
            while (gw_guest_answer(l->in, &mine) == GW_AGAIN)
                ;
    }
    if (err != GW_OK)
        print_message("dial: %d %s\n", err, why.text);
    assert_int_equal(err, GW_OK);
    assert_non_null(l->in);
}

static void link_up(const struct gw_control_conf *conf, struct link *l)
{
    struct gw_handle h;
    struct gw_door *door = door_open(conf, &h);
    struct gw_hello mine = hello_of(1);
    struct gw_guest *dial;
    assert_int_equal(gw_dial_start(conf, &h, &mine, &dial), GW_OK);
    meet(door, dial, l);
    gw_door_close(door);
}

/* ---- waiting for signs ---- */
struct end {
    struct gw_watched w;
    struct gw_control *c;
    _Atomic int changes;
    struct gw_control *_Atomic tell; /* says fail there when a sign comes */
};

static void changed(struct gw_watched *w, void *arg)
{
    struct end *e = arg;
    atomic_fetch_add(&e->changes, 1);
    struct gw_control *tell = atomic_load(&e->tell);
    if (tell != NULL && (atomic_load(&w->signs) & GW_SIGN_FAIL)) {
        struct gw_fail f = w->fail;
        f.told = 1;
        gw_control_fail(tell, &f);
    }
}

static void end_watch(const struct gw_control_conf *conf, struct end *e, struct gw_guest *g)
{
    memset(e, 0, sizeof *e);
    e->w.changed = changed, e->w.arg = e, e->w.local_name = "send here:1", e->w.peer_name = "there:2";
    assert_int_equal(gw_control_watch(conf, g, &e->w, &e->c), GW_OK);
}

static uint32_t wait_sign(struct end *e, uint32_t sign)
{
    uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull;
    uint32_t signs;
    while (!((signs = atomic_load_explicit(&e->w.signs, memory_order_acquire)) & sign) && gw_now_ns() < guard)
        usleep(1000);
    assert_true(signs & sign);
    return signs;
}

static void wait_said(const char *what)
{
    uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull;
    while (!was_said(what) && gw_now_ns() < guard)
        usleep(1000);
    assert_true(was_said(what));
}

/* ---- strangers ---- */
static int stranger(const struct gw_handle *h)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(h->addr[0].port)};
    memcpy(&in.sin_addr, h->addr[0].ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_true(connect(fd, (struct sockaddr *)&in, sizeof in) == 0 || errno == EINPROGRESS);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&p, 1, GUARD_MS), 1);
    return fd;
}

/* Polls a door until the stranger sees what it gets; answers the bytes read, 0 for an end without a word. */
static ssize_t stranger_hears(struct gw_door *door, int fd, uint8_t *out, size_t room)
{
    struct gw_guest *g;
    struct gw_hello theirs;
    size_t at = 0;
    uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull;
    while (gw_now_ns() < guard) {
        assert_int_equal(gw_door_poll(door, &g, &theirs), GW_AGAIN);
        ssize_t n = recv(fd, out + at, room - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return (ssize_t)at;
        at += n > 0 ? (size_t)n : 0;
    }
    fail_msg("the stranger still stands at the door");
    return -1;
}

/* ---- hello ---- */
static void hello_both_ways(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct link l;
    link_up(&conf, &l);
    assert_int_equal(l.at_door.role, 1);
    assert_int_equal(l.at_dial.role, 2);
    assert_string_equal(l.at_door.host, "here");
    assert_non_null(strstr(gw_guest_peer(l.in), "127.0.0.1:"));
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    assert_int_equal(said.at, 0);
}

static void port_range(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h[3];
    struct gw_door *door[3] = {NULL};
    /* A free port, whichever: three doors want it and its neighbour. */
    door[0] = door_open(&conf, &h[0]);
    gw_door_close(door[0]);
    conf.port_lo = h[0].addr[0].port & 0xfffe;
    conf.port_hi = (uint16_t)(conf.port_lo + 1);
    int n = 0;
    while (n < 3 && gw_door_open(&conf, &here, 1, &door[n], &h[n]) == GW_OK)
        n++;
    assert_true(n <= 2);
    for (int i = 0; i < n; i++)
        assert_true(h[i].addr[0].port >= conf.port_lo && h[i].addr[0].port <= conf.port_hi);
    assert_true(was_said("no free port in GRADWIRE_PORTS"));
    for (int i = 0; i < n; i++)
        gw_door_close(door[i]);
}

static void wrong_token(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct gw_handle bad = h;
    struct gw_hello mine = hello_of(1), theirs;
    struct gw_guest *dial, *g;
    struct gw_reject why;
    bad.token[7] ^= 1;
    assert_int_equal(gw_dial_start(&conf, &bad, &mine, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;) {
        err = gw_dial_poll(dial, &theirs, &why);
        assert_int_equal(gw_door_poll(door, &g, &theirs), GW_AGAIN);
    }
    assert_int_equal(err, GW_E_REFUSED);
    assert_int_equal(why.code, GW_E_REFUSED);
    assert_non_null(strstr(why.text, "wrong token"));
    assert_string_equal(why.host, "here");
    gw_guest_close(dial);
    gw_door_close(door);
    assert_true(was_said("1 with a wrong token"));
}

static void rejected_with_reason(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct gw_hello old = hello_of(1), mine = hello_of(2), theirs;
    struct gw_guest *dial, *g = NULL;
    struct gw_reject why, told = {0};
    struct gw_agreed a;
    old.version_min = old.version_max = 9;
    assert_int_equal(gw_dial_start(&conf, &h, &old, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;) {
        err = gw_dial_poll(dial, &theirs, &told);
        if (g == NULL && gw_door_poll(door, &g, &theirs) == GW_OK) {
            assert_int_equal(gw_hello_agree(&mine, &theirs, &a, &why), GW_E_VERSION);
            gw_guest_reject(g, &why);
        }
    }
    assert_int_equal(err, GW_E_REFUSED);
    assert_int_equal(told.code, GW_E_VERSION);
    assert_string_equal(told.text, why.text);
    gw_guest_close(dial);
    gw_door_close(door);
}

static void garbage_and_silence(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    conf.hello_timeout_ms = 50;
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    uint8_t heard[GW_CTL_MAX];
    int fd = stranger(&h);
    assert_true(write(fd, "GET / HTTP/1.1\r\n\r\n", 18) == 18);
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = stranger(&h); /* says nothing at all */
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = stranger(&h); /* half a hello, then nothing */
    struct gw_hello half = hello_of(1);
    uint8_t msg[GW_CTL_MAX];
    gw_hello_write(msg, &half);
    assert_int_equal(write(fd, msg, 100), 100);
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = stranger(&h); /* another version of the messages themselves: told so */
    msg[5] = 2;
    assert_int_equal(write(fd, msg, 8), 8);
    ssize_t n = stranger_hears(door, fd, heard, sizeof heard);
    struct gw_reject why;
    assert_int_equal(gw_reject_read(heard, (uint32_t)n, &why), GW_OK);
    assert_int_equal(why.code, GW_E_VERSION);
    close(fd);
    gw_door_close(door);
    assert_true(was_said("turned away 4 connections"));
}

/* A thousand at the door, silent or babbling; the true peer, who comes in their midst, is not kept waiting by any of their
 * deadlines, which are far beyond this test's end. */
static void thousand_strangers(void **state)
{
    (void)state;
    enum { STRANGERS = 1000 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int n = limit.rlim_cur > STRANGERS + 200 ? STRANGERS : (int)limit.rlim_cur - 200;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct gw_hello mine = hello_of(1);
    struct gw_guest *dial;
    int *fd = calloc((size_t)n, sizeof *fd);
    for (int i = 0; i < n; i++) {
        fd[i] = stranger(&h);
        if (i % 3 == 0)
            assert_int_equal(write(fd[i], "GWCLx", 5), 5);
        if (i == n / 2)
            assert_int_equal(gw_dial_start(&conf, &h, &mine, &dial), GW_OK);
    }
    struct link l;
    meet(door, dial, &l);
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    for (int i = 0; i < n; i++)
        close(fd[i]);
    free(fd);
    gw_door_close(door);
    assert_true(was_said("turned away"));
}

static gw_err dial_to_end(const struct gw_control_conf *conf, const struct gw_handle *h, struct gw_reject *why)
{
    struct gw_hello mine = hello_of(1), theirs;
    struct gw_guest *dial;
    assert_int_equal(gw_dial_start(conf, h, &mine, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;)
        err = gw_dial_poll(dial, &theirs, why);
    gw_guest_close(dial);
    return err;
}

static void nobody_there(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_reject why;
    gw_door_close(door_open(&conf, &h)); /* the port is free again: refused */
    conf.dial_retries = 2;
    assert_int_equal(dial_to_end(&conf, &h, &why), GW_E_PEER);
    assert_int_equal(why.code, GW_E_PEER);
    assert_non_null(strstr(why.text, "connect to 127.0.0.1:"));
    assert_non_null(strstr(why.text, "3 tries"));
    assert_non_null(strstr(why.text, "refused"));
}

static void nobody_answers(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_reject why;
    struct gw_door *door = door_open(&conf, &h); /* never polled */
    conf.hello_timeout_ms = 100;
    assert_int_equal(dial_to_end(&conf, &h, &why), GW_E_TIMEOUT);
    assert_non_null(strstr(why.text, "no hello came back"));
    gw_door_close(door);
}

static void second_address(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h, closed;
    gw_door_close(door_open(&conf, &closed));
    struct gw_door *door = door_open(&conf, &h);
    struct gw_hello mine = hello_of(1);
    struct gw_guest *dial;
    struct link l;
    h.addr[1] = h.addr[0], h.addr[0] = closed.addr[0], h.addrs = 2;
    assert_int_equal(gw_dial_start(&conf, &h, &mine, &dial), GW_OK);
    meet(door, dial, &l);
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    gw_door_close(door);
}

/* ---- the watch ---- */
static void pair_up(const struct gw_control_conf *conf, struct end *a, struct end *b)
{
    struct link l;
    link_up(conf, &l);
    end_watch(conf, a, l.out);
    end_watch(conf, b, l.in);
}

static void fail_arrives(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct end a, b, c, d;
    pair_up(&conf, &a, &b);
    pair_up(&conf, &c, &d);
    atomic_store(&b.tell, c.c); /* what b hears is passed on over c, as one ctx does */
    struct gw_fail f = {.code = GW_E_CORRUPT, .number = 12, .pid = 99, .host = "node-4", .text = "first cause"};
    gw_control_fail(a.c, &f);
    f.code = GW_E_LANE;
    gw_control_fail(a.c, &f); /* not said */
    wait_sign(&b, GW_SIGN_FAIL);
    assert_true(b.w.fail.code == GW_E_CORRUPT && b.w.fail.number == 12 && b.w.fail.told == 0);
    wait_sign(&d, GW_SIGN_FAIL);
    assert_true(d.w.fail.code == GW_E_CORRUPT && d.w.fail.told == 1);
    assert_string_equal(d.w.fail.host, "node-4");
    assert_string_equal(d.w.fail.text, "first cause");
    struct end *all[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++)
        gw_control_bye(all[i]->c, NULL, 1000);
}

static void bye_arrives(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct end a, b;
    pair_up(&conf, &a, &b);
    struct gw_bye bye = {.lowest = 7, .map = 4, .receiver = 1}, none = {0};
    gw_control_bye(a.c, &bye, 20000);
    wait_sign(&b, GW_SIGN_BYE);
    assert_true(b.w.bye.lowest == 7 && b.w.bye.map == 4 && b.w.bye.receiver == 1);
    wait_sign(&b, GW_SIGN_EOF); /* a has shut down writing */
    gw_control_bye(b.c, &none, 20000);
    uint64_t began = gw_now_ns();
    gw_watch_settle(20000);
    assert_true(gw_now_ns() - began < 15000 * 1000000ull); /* nobody waits out its linger time */
    assert_int_equal(said.at, 0);
}

/* Both ends speak last words at the same time: a socket closed with the fail unread would lose the bye. */
static void fail_crosses_bye(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct end a, b;
    pair_up(&conf, &a, &b);
    atomic_store(&a.w.outstanding, 1);
    atomic_store(&b.w.outstanding, 1);
    struct gw_fail f = {.code = GW_E_LANE, .text = "b goes too"};
    struct gw_bye bye = {.lowest = 1, .receiver = 1};
    gw_control_bye(a.c, &bye, 20000);
    gw_control_fail(b.c, &f);
    wait_sign(&b, GW_SIGN_BYE);
    gw_control_bye(b.c, NULL, 20000);
}

static void read_now(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct end a, b;
    pair_up(&conf, &a, &b);
    struct gw_fail f = {.code = GW_E_SIZE, .text = "too large"};
    gw_control_fail(a.c, &f);
    /* Loopback delivers before send returns, so that one look is enough. */
    gw_control_read_now(b.c);
    assert_true(atomic_load(&b.w.signs) & GW_SIGN_FAIL);
    assert_int_equal(b.w.fail.code, GW_E_SIZE);
    uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull;
    while (atomic_load(&b.changes) == 0 && gw_now_ns() < guard)
        usleep(1000);
    assert_true(atomic_load(&b.changes) > 0);
    gw_control_bye(a.c, NULL, 1000);
    gw_control_bye(b.c, NULL, 1000);
}

static void babble_is_a_failure(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct gw_hello hello = hello_of(1), theirs, mine = hello_of(2);
    struct gw_guest *g;
    struct end e;
    uint8_t msg[GW_CTL_MAX];
    int fd = stranger(&h);
    memcpy(hello.token, h.token, GW_TOKEN_BYTES);
    uint32_t len = gw_hello_write(msg, &hello);
    assert_int_equal(write(fd, msg, len), len);
    assert_int_equal(write(fd, "and now for something else", 26), 26);
    while (gw_door_poll(door, &g, &theirs) == GW_AGAIN)
        ;
    assert_int_equal(gw_guest_answer(g, &mine), GW_OK);
    end_watch(&conf, &e, g);
    wait_sign(&e, GW_SIGN_FAIL);
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
    struct gw_control c = {.conf = conf_now(), .w = &w, .sock.fd = -1};
    c.conf.stall_warn_ms = 30000, c.conf.stall_timeout_ms = 60000;
    gw_list_init(&c.node), gw_list_init(&c.sock.node);
    gw_control_tick(&c, 100ull * S, 0); /* nothing outstanding: silence is no news */
    atomic_store(&w.outstanding, 2);
    gw_control_tick(&c, 200ull * S, 0); /* begins to wait */
    gw_control_tick(&c, 229ull * S, 0);
    assert_int_equal(said.at, 0);
    gw_control_tick(&c, 231ull * S, 0);
    assert_true(was_said("recv here:1 waits for there:2: requests=2 silent_ms=31000"));
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
    struct gw_hello mine = hello_of(1), theirs;
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

static void accept_one(struct gw_door *door, const struct gw_control_conf *conf, struct end *e)
{
    struct gw_hello theirs, mine = hello_of(2);
    struct gw_guest *g;
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard; usleep(500))
        err = gw_door_poll(door, &g, &theirs);
    assert_int_equal(err, GW_OK);
    assert_int_equal(gw_guest_answer(g, &mine), GW_OK);
    end_watch(conf, e, g);
}

static void killed_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct gw_control_conf child = conf;
    pid_t pid = peer_process(&h, &child, just_live);
    struct end e;
    accept_one(door, &conf, &e);
    assert_int_equal(kill(pid, SIGKILL), 0);
    uint32_t signs = wait_sign(&e, GW_SIGN_EOF);
    assert_false(signs & (GW_SIGN_BYE | GW_SIGN_FAIL | GW_SIGN_STALL | GW_SIGN_TIMEOUT));
    waitpid(pid, NULL, 0);
    gw_control_bye(e.c, NULL, 1000);
    gw_door_close(door);
}

static void stopped_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    conf.stall_warn_ms = 100, conf.stall_timeout_ms = 300;
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    pid_t pid = peer_process(&h, &conf, just_live);
    struct end e;
    accept_one(door, &conf, &e);
    atomic_store(&e.w.outstanding, 3);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    wait_sign(&e, GW_SIGN_STALL);
    assert_true(e.w.age_ms >= 300);
    assert_true(was_said("send here:1 waits for there:2: requests=3"));
    kill(pid, SIGKILL);
    wait_sign(&e, GW_SIGN_EOF);
    waitpid(pid, NULL, 0);
    gw_control_bye(e.c, NULL, 1000);
    gw_door_close(door);
}

/* The peer's host does nothing, but its watcher answers: no stall, however long we wait. */
static void living_peer(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    conf.stall_warn_ms = 200, conf.stall_timeout_ms = 0;
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    pid_t pid = peer_process(&h, &conf, just_live);
    struct end e;
    accept_one(door, &conf, &e);
    atomic_store(&e.w.outstanding, 1);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    wait_said("waits for there:2");
    assert_int_equal(kill(pid, SIGCONT), 0);
    wait_said("answers again after"); /* only an answer to our question can bring this line */
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
    struct gw_control_conf conf = conf_now();
    conf.peer_timeout_ms = 300, conf.stall_warn_ms = 200;
    struct end a, b;
    loopback(1);
    pair_up(&conf, &a, &b);
    loopback(0);
    atomic_store(&a.w.outstanding, 1); /* so that there is something to acknowledge */
    uint32_t signs = wait_sign(&a, GW_SIGN_TIMEOUT);
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
    struct gw_control_conf conf = conf_now();
    struct gw_handle h;
    struct gw_door *door = door_open(&conf, &h);
    struct end a, b;
    int to_child[2], to_parent[2];
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    pair_up(&conf, &a, &b);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to_child[1]);
        struct gw_guest *g;
        struct gw_hello theirs;
        int ok = sockets_open() == sockets_before && (atomic_load(&a.w.signs) & GW_SIGN_EOF) &&
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
    wait_sign(&b, GW_SIGN_EOF);
    gw_control_bye(b.c, &none, 20000);
    close(to_child[1]), close(to_parent[0]), close(to_parent[1]);
    waitpid(pid, NULL, 0);
    gw_door_close(door);
}

static void many_rounds(void **state)
{
    (void)state;
    struct gw_control_conf conf = conf_now();
    struct gw_bye none = {0};
    for (int i = 0; i < 100; i++) {
        struct end a, b;
        pair_up(&conf, &a, &b);
        gw_control_bye(a.c, &none, 5000);
        gw_control_bye(b.c, &none, 5000);
        gw_watch_settle(5000); /* stops the thread; the next round starts it again */
    }
    assert_int_equal(said.at, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(hello_both_ways),   CASE(port_range),      CASE(wrong_token),      CASE(rejected_with_reason),
        CASE(garbage_and_silence), CASE(thousand_strangers), CASE(nobody_there), CASE(nobody_answers),
        CASE(second_address),    CASE(fail_arrives),    CASE(bye_arrives),      CASE(fail_crosses_bye),
        CASE(silence),           CASE(read_now),        CASE(babble_is_a_failure), CASE(killed_peer),  CASE(stopped_peer),
        CASE(living_peer),       CASE(no_acknowledgement), CASE(child_keeps_nothing), CASE(many_rounds),
    };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    sockets_before = sockets_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
