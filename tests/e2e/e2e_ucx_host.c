/* e2e_ucx_host.c - what the host of a UCX lane sees: a peer that is killed or stopped, and a
 * process that stays as it was. */
#include <dlfcn.h>

#include "ucx_end.h"

/* Side 1 says that it is ready, with all that can be outstanding outstanding both ways, and is
 * killed or stopped. */
static int victim(const char *transport, int fd, int side, int killed)
{
    struct end e;
    uint64_t until;
    end_open(&e, transport);
    for (uint32_t i = 0; i < GW_SLOTS; i++)
        offer(&e, i);
    blob_swap(&e, fd);
    for (uint32_t i = 0; i < 8; i++)
        send_put(&e, i, GW_PUT_RAW, i % 2 ? BIG : 100, 0);
    while (e.landed == 0)
        end_poll(&e);
    if (side == 1) {
        pid_t me = getpid();
        must(send(fd, &me, sizeof(me), 0) == sizeof(me));
        while (1)
            end_poll(&e);
    }
    pid_t peer;
    while (recv(fd, &peer, sizeof(peer), MSG_DONTWAIT) != sizeof(peer))
        end_poll(&e);
    must(kill(peer, killed ? SIGKILL : SIGSTOP) == 0);
    until = gw_now_ns() + (strcmp(transport, "tcp") == 0 && killed ? KILL_S : 1) * 1000000000ull;
    while (!e.failed && gw_now_ns() < until)
        end_poll(&e);
    must(strcmp(transport, "tcp") != 0 || e.failed == killed);
    must(!e.failed || e.err == GW_E_PEER || e.err == GW_E_LANE);
    end_close(&e);
    kill(peer, SIGKILL);
    return 0;
}

static int killed_child(const char *transport, int fd, int side)
{
    return victim(transport, fd, side, 1);
}

static int stopped_child(const char *transport, int fd, int side)
{
    return victim(transport, fd, side, 0);
}

/* ---- the process stays as it was
 * -------------------------------------------------------------------------- */

static int signals_differ(const struct sigaction *before)
{
    struct sigaction now;
    for (int i = 1; i < 65; i++) {
        memset(&now, 0, sizeof(now));
        if (sigaction(i, NULL, &now) == 0 &&
            (now.sa_handler != before[i].sa_handler || now.sa_flags != before[i].sa_flags))
            return i;
    }
    return 0;
}

static void signals_read(struct sigaction *out)
{
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &out[i]);
}

static int untouched_child(const char *transport, int fd, int side)
{
    static struct sigaction before[65];
    char **env = environ;
    struct end e;
    (void)fd, (void)side;
    setenv("UCX_TLS", "none-such", 1); /* the user's, for MPI: never decides */
    setenv("UCX_NET_DEVICES", "none-such", 1);
    setenv("UCX_HANDLE_ERRORS", "bt,freeze", 1);
    env = environ;
    signals_read(before);
    end_open(&e, transport);
    must(signals_differ(before) == 0);
    must(environ == env && strcmp(getenv("UCX_HANDLE_ERRORS"), "bt,freeze") == 0);
    must(getenv("UCX_MEM_EVENTS") == NULL && getenv("UCX_DEBUG_SIGNO") == NULL);
    must(lines_logged == 0);
    end_close(&e);
    must(signals_differ(before) == 0);
    return 0;
}

/* Somebody else's UCX: we say so and leave it alone. */
static int guest_child(const char *transport, int fd, int side)
{
    const struct gw_lane_ops *ops;
    (void)transport, (void)fd, (void)side;
    must(dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL) != NULL);
    must(gw_lane_module("ucx", &logger, &ops) == GW_OK);
    must(strstr(line_last, "libucs.so.0 was in this process before") != NULL);
    must(gw_lane_module("no-such", &logger, &ops) == GW_E_NOSYS);
    return 0;
}

static int device_child(const char *transport, int fd, int side)
{
    static const struct gw_host host = {.size = sizeof(host), .log = &logger, .now_ns = gw_now_ns};
    const struct gw_lane_conf conf = {
        .size = sizeof(conf), .ifname = "no-such0", .transport = transport};
    const struct gw_lane_ops *ops;
    void *dev;
    (void)fd, (void)side;
    must(gw_lane_module("ucx", &logger, &ops) == GW_OK);
    must(ops->open(&host, &conf, &dev) == GW_E_DEVICE);
    must(strstr(line_last, "no-such0") != NULL);
    return 0;
}

/* A range with room for two lanes: the third is refused at once. */
static int ports_child(const char *transport, int fd, int side)
{
    static const struct gw_host host = {.size = sizeof(host), .log = &logger, .now_ns = gw_now_ns};
    const uint16_t lo = (uint16_t)(20000 + getpid() % 10000);
    const struct gw_lane_conf conf = {.size = sizeof(conf),
                                      .ifname = "lo",
                                      .transport = transport,
                                      .port_lo = lo,
                                      .port_hi = lo + 1};
    const struct gw_lane_ops *ops;
    struct gw_lane *lane[3];
    void *dev;
    gw_err err = GW_OK;
    int n = 0;
    (void)fd, (void)side;
    must(gw_lane_module("ucx", &logger, &ops) == GW_OK);
    must(ops->open(&host, &conf, &dev) == GW_OK);
    while (n < 3 && (err = ops->make(dev, &lane[n])) == GW_OK)
        n++;
    must(n < 3 && err == GW_E_LIMIT && strstr(line_last, "GRADWIRE_PORTS") != NULL);
    while (n > 0)
        ops->close(lane[--n]);
    ops->close_dev(dev);
    return 0;
}

static void test_ports(void **state)
{
    children_run(ports_child, *state, 1, 0);
}

static void test_killed(void **state)
{
    children_run(killed_child, *state, 2, 1);
}

static void test_stopped(void **state)
{
    children_run(stopped_child, *state, 2, 1);
}

static void test_untouched(void **state)
{
    children_run(untouched_child, *state, 1, 0);
}

static void test_guest(void **state)
{
    children_run(guest_child, *state, 1, 0);
}

static void test_device(void **state)
{
    children_run(device_child, *state, 1, 0);
}

int main(int argc, char **argv)
{
    static char tcp[] = "tcp", posix[] = "posix";
    const struct CMUnitTest tests[] = {
        {"killed tcp", test_killed, NULL, NULL, tcp},
        {"killed posix", test_killed, NULL, NULL, posix},
        {"stopped tcp", test_stopped, NULL, NULL, tcp},
        {"stopped posix", test_stopped, NULL, NULL, posix},
        {"untouched tcp", test_untouched, NULL, NULL, tcp},
        {"untouched posix", test_untouched, NULL, NULL, posix},
        {"guest", test_guest, NULL, NULL, tcp},
        {"device", test_device, NULL, NULL, tcp},
        {"ports", test_ports, NULL, NULL, tcp},
    };
    (void)argc;
    find_module(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
