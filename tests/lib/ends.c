/* ends.c - two ends of a control connection over loopback, for the tests of doors and of the watch. */
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
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/clock.h>

#include "ends.h"

/* ---- a log that remembers ---- */
struct ends_said ends_said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remember(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg;
    pthread_mutex_lock(&ends_said.lock);
    int n = snprintf(ends_said.text + ends_said.at, sizeof ends_said.text - ends_said.at, "%d %s\n", (int)level, line);
    if (n > 0 && (size_t)n < sizeof ends_said.text - ends_said.at)
        ends_said.at += (size_t)n;
    pthread_mutex_unlock(&ends_said.lock);
}

int ends_was_said(const char *what)
{
    pthread_mutex_lock(&ends_said.lock);
    int yes = strstr(ends_said.text, what) != NULL;
    pthread_mutex_unlock(&ends_said.lock);
    return yes;
}

static const struct gw_logger logger = {remember, NULL, GW_LOG_INFO};

struct gw_control_conf ends_conf_now(void)
{
    return (struct gw_control_conf){.log = &logger, .host = "here", .hello_timeout_ms = ENDS_GUARD_MS, .dial_retries = 3,
                                    .peer_timeout_ms = 60000, .stall_warn_ms = 30000};
}

int ends_begin(void **state)
{
    (void)state;
    memset(ends_said.text, 0, sizeof ends_said.text);
    ends_said.at = 0;
    return 0;
}

int ends_sockets_open(void)
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

int ends_sockets_before;

void ends_first(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    ends_sockets_before = ends_sockets_open();
}

int ends_end_all(void **state)
{
    (void)state;
    gw_watch_settle(5000);
    return ends_sockets_open() == ends_sockets_before ? 0 : -1;
}

/* ---- two ends ---- */
const struct gw_addr ends_here = {.family = 4, .ip = {127, 0, 0, 1}};

struct gw_hello ends_hello_of(int role)
{
    return (struct gw_hello){.version_min = 1, .version_max = 1, .pid = (uint32_t)getpid(), .chunk_bytes = 131072,
                             .codecs = 1, .role = (uint8_t)role, .host = "here", .lane = "ucx", .build = "0.1.0"};
}

struct gw_door *ends_door_open(const struct gw_control_conf *conf, struct gw_handle *h)
{
    struct gw_door *door;
    assert_int_equal(gw_door_open(conf, &ends_here, 1, &door, h), GW_OK);
    assert_true(h->addrs == 1 && h->addr[0].port != 0);
    return door;
}

void ends_meet(struct gw_door *door, struct gw_guest *dial, struct ends_link *l)
{
    struct gw_hello mine = ends_hello_of(2);
    struct gw_reject why = {0};
    uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull;
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

void ends_link_up(const struct gw_control_conf *conf, struct ends_link *l)
{
    struct gw_handle h;
    struct gw_door *door = ends_door_open(conf, &h);
    struct gw_hello mine = ends_hello_of(1);
    struct gw_guest *dial;
    assert_int_equal(gw_dial_start(conf, &h, &mine, &dial), GW_OK);
    ends_meet(door, dial, l);
    gw_door_close(door);
}

/* ---- waiting for signs ---- */
static void changed(struct gw_watched *w, void *arg)
{
    struct ends_end *e = arg;
    atomic_fetch_add(&e->changes, 1);
    struct gw_control *tell = atomic_load(&e->tell);
    if (tell != NULL && (atomic_load(&w->signs) & GW_SIGN_FAIL)) {
        struct gw_fail f = w->fail;
        f.told = 1;
        gw_control_fail(tell, &f);
    }
}

void ends_watch(const struct gw_control_conf *conf, struct ends_end *e, struct gw_guest *g)
{
    memset(e, 0, sizeof *e);
    e->w.changed = changed, e->w.arg = e, e->w.local_name = "send here:1", e->w.peer_name = "there:2";
    assert_int_equal(gw_control_watch(conf, g, &e->w, &e->c), GW_OK);
}

uint32_t ends_wait_sign(struct ends_end *e, uint32_t sign)
{
    uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull;
    uint32_t signs;
    while (!((signs = atomic_load_explicit(&e->w.signs, memory_order_acquire)) & sign) && gw_now_ns() < guard)
        usleep(1000);
    assert_true(signs & sign);
    return signs;
}

void ends_wait_said(const char *what)
{
    uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull;
    while (!ends_was_said(what) && gw_now_ns() < guard)
        usleep(1000);
    assert_true(ends_was_said(what));
}

/* ---- strangers ---- */
int ends_stranger(const struct gw_handle *h)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(h->addr[0].port)};
    memcpy(&in.sin_addr, h->addr[0].ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_true(connect(fd, (struct sockaddr *)&in, sizeof in) == 0 || errno == EINPROGRESS);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&p, 1, ENDS_GUARD_MS), 1);
    return fd;
}

void ends_pair_up(const struct gw_control_conf *conf, struct ends_end *a, struct ends_end *b)
{
    struct ends_link l;
    ends_link_up(conf, &l);
    ends_watch(conf, a, l.out);
    ends_watch(conf, b, l.in);
}
