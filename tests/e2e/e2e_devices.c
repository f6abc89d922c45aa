/* e2e_devices.c - two hosts made of network namespaces: interfaces that are down, without carrier, added later, a container's
 * bridge, only a loopback, IPv6 only, settings meant for MPI.  The plugin takes the right ones, and bytes cross between them.
 *
 * Each side is a child in network and mount namespaces of its own, so nothing outside of them is touched. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "rank.h"

/* %d is the side: 0 or 1.  up: what is done in its namespace; wa and wb are wires to the other one; late: after init. */
struct plan {
    const char *up, *late, *name, *value;
    const char *devices; /* as the plugin lists them, "wa wb" */
    int ways;            /* connections are made over the first so many of them; 0: none */
};

static void shell(const char *script, int side)
{
    char text[2000];

    snprintf(text, sizeof(text), "set -e; n=%d; %s", side + 1, script);
    must(system(text) == 0);
}

/* UCX and we look into /sys, which shows the namespace that mounted it. */
static void enter(void)
{
    must(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0);
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must(mount("sysfs", "/sys", "sysfs", 0, NULL) == 0);
}

/* Side 0 makes both wires and gives their other ends to side 1. */
static void wire(int fd, int side)
{
    pid_t me = getpid(), peer;
    char text[300];

    child_say(fd, &me, sizeof(me));
    child_hear(fd, &peer, sizeof(peer));
    if (side == 0) {
        snprintf(text, sizeof(text), "ip link add wa type veth peer name wa netns %d; ip link add wb type veth peer name wb netns %d",
                 (int)peer, (int)peer);
        shell(text, side);
    }
    child_meet(fd);
}

/* Both ends are up; the kernel says so a moment later. */
static void set_up(const char *script, int fd, int side)
{
    shell(script, side);
    child_meet(fd);
    shell("for d in wa wb; do ip link show $d | grep -q 'LOWER_UP' || continue; for i in $(seq 100); do "
          "[ $(cat /sys/class/net/$d/operstate) = up ] && break; sleep 0.05; done; done", side);
    child_meet(fd);
}

static void devices_are(struct rank *r, const char *want)
{
    char have[200] = "";
    host_props props;

    for (int i = 0; i < r->net.ndev; i++) {
        must(host_props_get(&r->net, i, &props) == ncclSuccess);
        snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s", i > 0 ? " " : "", props.name);
    }
    if (strcmp(have, want) != 0)
        fprintf(stderr, "devices are \"%s\", not \"%s\"\n", have, want);
    must(strcmp(have, want) == 0);
}

static void cross(struct rank *r, int dev, int fd, int side)
{
    struct traffic t, *one = &t;
    struct host_conn c;

    memset(&c, 0, sizeof(c));
    if (side == 0) {
        child_hear(fd, c.handle, sizeof(c.handle));
        host_conn_connect(&r->service, &c, &r->net, dev);
    } else {
        host_conn_listen(&r->service, &c, &r->net, dev);
        rank_wait(r, &c);
        child_say(fd, c.handle, sizeof(c.handle));
        host_conn_accept(&r->service, &c);
    }
    rank_wait(r, &c);
    traffic_init(&t, &c, 24, 7, BYTES_FLOATS);
    rank_run(r, &one, 1);
    rank_done(r);
    child_meet(fd);
    rank_conn_close(r, &c);
}

static void side_child(const void *arg, int fd, int side)
{
    const struct plan *p = arg;
    struct rank r;

    enter();
    wire(fd, side);
    set_up(p->up, fd, side);
    if (p->name != NULL)
        setenv(p->name, p->value, 1);
    setenv("GRADWIRE_CONNECT_TIMEOUT", "10", 1);
    rank_open(&r, 0);
    devices_are(&r, p->devices);
    if (p->late != NULL) {
        set_up(p->late, fd, side);
        devices_are(&r, p->devices); /* NCCL has their numbers: the list stands until the last user is gone */
    }
    for (int dev = 0; dev < p->ways; dev++)
        cross(&r, dev, fd, side);
    rank_close(&r);
    must(host_log_warns() == 0);
    if (p->late != NULL) {
        rank_open(&r, 0);
        devices_are(&r, "wa wb");
        cross(&r, 1, fd, side);
        rank_close(&r);
    }
}

/* ---- cases ---- */

#define LO "ip link set lo up; "
#define WA "ip addr add 10.77.1.$n/24 dev wa; ip link set wa up; "
#define WB "ip addr add 10.77.2.$n/24 dev wb; ip link set wb up; "

static int may(void)
{
    if (getuid() != 0 || system("unshare -n -m true 2>/dev/null && command -v ip >/dev/null") != 0) {
        printf("skipped: needs root and iproute2\n");
        return 0;
    }
    return 1;
}

static void play(struct plan p)
{
    if (!may())
        skip();
    child_two(side_child, &p);
}

static void test_both(void **state)
{
    (void)state;
    play((struct plan){.up = LO WA WB, .devices = "wa wb", .ways = 2});
}

static void test_one_down(void **state)
{
    (void)state;
    play((struct plan){.up = LO WA "ip addr add 10.77.2.$n/24 dev wb", .devices = "wa", .ways = 1});
}

/* The other end of pb stays down. */
static void test_no_carrier(void **state)
{
    (void)state;
    play((struct plan){.up = LO WB "ip link add pa type veth peer name pb; ip addr add 10.77.3.$n/24 dev pa; ip link set pa up",
                       .devices = "wb", .ways = 1});
}

static void test_added_later(void **state)
{
    (void)state;
    play((struct plan){.up = LO WA, .late = WB, .devices = "wa", .ways = 1});
}

/* Every host has the same address on its bridge: who takes it talks to itself. */
static void test_container_bridge(void **state)
{
    (void)state;
    play((struct plan){.up = LO "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up; "
                             "ip link add p0 type veth peer name p1; ip link set p0 master docker0 up; ip link set p1 up; " WA,
                       .devices = "wa", .ways = 1});
}

static void test_only_loopback(void **state)
{
    (void)state;
    play((struct plan){.up = LO, .devices = "lo", .ways = 0});
}

static void test_ipv6_only(void **state)
{
    (void)state;
    play((struct plan){.up = LO "ip addr add fd77::$n/64 dev wa nodad; ip link set wa up; ip link set wb up", .devices = "wa",
                       .ways = 1});
}

/* Set for MPI, in every job script: they choose nothing here. */
static void test_settings_of_mpi(void **state)
{
    (void)state;
    play((struct plan){.up = LO WA WB, .devices = "wa wb", .ways = 2, .name = "UCX_TLS", .value = "rc,ud,sm,self"});
    play((struct plan){.up = LO WA WB, .devices = "wa wb", .ways = 2, .name = "UCX_NET_DEVICES", .value = "mlx5_0:1"});
}

static void test_named(void **state)
{
    (void)state;
    play((struct plan){.up = LO WA WB, .devices = "wb", .ways = 1, .name = "GRADWIRE_IFNAME", .value = "wb"});
    play((struct plan){.up = LO WA WB, .devices = "wb", .ways = 1, .name = "NCCL_SOCKET_IFNAME", .value = "^lo,wa"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both),          cmocka_unit_test(test_one_down),         cmocka_unit_test(test_no_carrier),
        cmocka_unit_test(test_added_later),   cmocka_unit_test(test_container_bridge), cmocka_unit_test(test_only_loopback),
        cmocka_unit_test(test_ipv6_only),     cmocka_unit_test(test_settings_of_mpi),  cmocka_unit_test(test_named),
    };
    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
