/* test_netdev.c - which interfaces are taken, over a sysfs and a list of addresses that are made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <ftw.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <netdev.h>

/* ---- a sysfs of our own ---- */
static char root[64];

static void put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *fmt, ...)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/", root);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path + n, sizeof path - (size_t)n, fmt, ap);
    va_end(ap);
    for (char *p = strchr(path + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_link(const char *target, const char *at)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, at);
    assert_int_equal(symlink(target, path), 0);
}

/* An adapter on the bus `slot` with a driver, as Linux shows it. */
static void put_device(const char *name, const char *slot, const char *driver, const char *speed)
{
    char a[256], b[256];
    put("", "devices/%s/vendor", slot);
    put("", "drivers/%s/bind", driver);
    put(speed, "class/net/%s/speed", name);
    put("1500\n", "class/net/%s/mtu", name);
    put("02:00:00:00:00:2a\n", "class/net/%s/address", name);
    snprintf(a, sizeof a, "../../../devices/%s", slot), snprintf(b, sizeof b, "class/net/%s/device", name);
    put_link(a, b);
    snprintf(a, sizeof a, "../../../drivers/%s", driver), snprintf(b, sizeof b, "devices/%s/driver", slot);
    put_link(a, b);
}

static void put_virtual(const char *name, const char *type, const char *speed)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s%s", type[0] ? "DEVTYPE=" : "", type, type[0] ? "\n" : "");
    put(text, "class/net/%s/uevent", name);
    put(speed, "class/net/%s/speed", name);
    put("9000\n", "class/net/%s/mtu", name);
    put("00:00:00:00:00:00\n", "class/net/%s/address", name);
}

static void put_lower(const char *name, const char *lower)
{
    char a[256], b[256];
    snprintf(a, sizeof a, "../%s", lower), snprintf(b, sizeof b, "class/net/%s/lower_%s", name, lower);
    put_link(a, b);
}

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/test_netdev.XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int end(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- addresses of our own ---- */
enum { IFS_MAX = 80 };
static struct ifaddrs ifs[IFS_MAX];
static struct sockaddr_in6 addrs[IFS_MAX];
static char names[IFS_MAX][16];
static int ifs_n;

static void add_flags(const char *name, unsigned flags, const char *ip)
{
    struct sockaddr_in *in = (void *)&addrs[ifs_n];
    struct sockaddr_in6 *in6 = &addrs[ifs_n];
    assert_true(ifs_n < IFS_MAX);
    snprintf(names[ifs_n], sizeof names[0], "%s", name);
    ifs[ifs_n] = (struct ifaddrs){.ifa_name = names[ifs_n], .ifa_flags = flags, .ifa_addr = (void *)in6};
    memset(in6, 0, sizeof *in6);
    if (ip == NULL)
        ifs[ifs_n].ifa_addr = NULL;
    else if (inet_pton(AF_INET, ip, &in->sin_addr) == 1)
        in->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, ip, &in6->sin6_addr) == 1)
        in6->sin6_family = AF_INET6;
    if (ifs_n > 0)
        ifs[ifs_n - 1].ifa_next = &ifs[ifs_n];
    ifs_n++;
}

static void add(const char *name, const char *ip)
{
    add_flags(name, IFF_UP | IFF_RUNNING | (strcmp(name, "lo") == 0 ? IFF_LOOPBACK : 0), ip);
}

/* ---- what comes out: "eth0 eth1" ---- */
static char taken[1024], skipped[1024];
static gw_err choose(const char *ifname, const char *nccl)
{
    struct gw_netdev *list;
    int n;
    taken[0] = 0;
    gw_err err = gw_netdev_choose(ifs, ifname, nccl, root, &list, &n, skipped, sizeof skipped);
    if (err != GW_OK)
        return err;
    for (int i = 0; i < n; i++) {
        strcat(taken, i > 0 ? " " : "");
        strcat(taken, list[i].name);
    }
    gw_netdev_free(list, n);
    return GW_OK;
}

/* A container host: two adapters (one without address), a bond over the first, VLANs, a bridge, docker, a tunnel, veth. */
static void host(void)
{
    memset(ifs, 0, sizeof ifs);
    ifs_n = 0;
    put_device("eth0", "pci0000:00/0000:00:04.0", "mlx5_core", "100000\n");
    put_device("eth1", "pci0000:00/0000:00:05.0", "virtio_net", "40000\n");
    put_device("eth2", "pci0000:00/0000:00:06.0", "mlx5_core", "25000\n");
    put_virtual("bond0", "bond", "200000\n"), put_lower("bond0", "eth0");
    put_virtual("bond0.7", "vlan", "200000\n"), put_lower("bond0.7", "bond0");
    put_virtual("br-1", "bridge", "200000\n"), put_lower("br-1", "eth0");
    put_virtual("vlan9", "vlan", "10000\n"), put_lower("vlan9", "veth1");
    put_virtual("veth1", "", "10000\n");
    put_virtual("docker0", "bridge", "-1\n");
    put_virtual("wg0", "wireguard", "");
    put_virtual("lo", "", "");
    add("lo", NULL), add("lo", "127.0.0.1"), add("lo", "::1");
    add("eth0", "10.0.0.1"), add("eth0", "2001:db8::1"), add("eth0", "fe80::1");
    add("eth1", "10.0.1.1");
    add("eth2", "fe80::2"), add("eth2", "169.254.9.9");
    add("bond0", "10.0.2.1"), add("bond0.7", "10.0.7.1"), add("br-1", "10.0.3.1"), add("vlan9", "10.0.9.1");
    add("veth1", "10.0.4.1"), add("docker0", "172.17.0.1"), add("wg0", "10.9.0.1");
}

static void kinds(void **state)
{
    (void)state;
    host();
    assert_int_equal(choose(NULL, NULL), GW_OK);
    assert_string_equal(taken, "eth0 eth1 bond0 bond0.7");
    assert_non_null(strstr(skipped, "eth2 (link-local address only)"));
    assert_non_null(strstr(skipped, "br-1 (a container's or a tunnel)"));
    assert_non_null(strstr(skipped, "veth1 (no device behind it)"));
    assert_non_null(strstr(skipped, "vlan9 (no device behind it)"));
    assert_non_null(strstr(skipped, "lo (loopback)"));
    assert_int_equal(choose("^eth*,bond*", NULL), GW_OK); /* the next kind */
    assert_string_equal(taken, "vlan9 veth1");
    assert_non_null(strstr(skipped, "eth0 (excluded)"));
    assert_int_equal(choose("^eth*,bond*,v*", NULL), GW_OK);
    assert_string_equal(taken, "br-1 docker0 wg0");
    assert_int_equal(choose("^eth*,bond*,v*,br-1,docker0,wg0", NULL), GW_OK);
    assert_string_equal(taken, "lo");
    assert_int_equal(choose("^*", NULL), GW_E_SETTING);
}

static void by_name(void **state)
{
    (void)state;
    host();
    assert_int_equal(choose("eth0", NULL), GW_OK);
    assert_string_equal(taken, "eth0");
    assert_int_equal(choose("eth", NULL), GW_E_SETTING); /* exact: no prefix */
    assert_non_null(strstr(skipped, "GRADWIRE_IFNAME entry 'eth' matches no interface"));
    assert_int_equal(choose("docker0, lo, eth[01], ib*", "veth1"), GW_OK); /* ours wins */
    assert_string_equal(taken, "lo eth0 eth1 docker0");
    assert_non_null(strstr(skipped, "entry 'ib*' matches no interface"));
    assert_non_null(strstr(skipped, "veth1 (not named)"));
    assert_int_equal(choose("eth2", NULL), GW_E_SETTING);
    assert_non_null(strstr(skipped, "eth2 (link-local address only)"));
}

static void as_nccl_does(void **state)
{
    (void)state;
    host();
    assert_int_equal(choose("", "eth"), GW_OK);
    assert_string_equal(taken, "eth0 eth1");
    assert_int_equal(choose(NULL, "=eth"), GW_E_SETTING);
    assert_int_equal(choose(NULL, "=eth1:3,docker0"), GW_OK);
    assert_string_equal(taken, "eth1 docker0");
    assert_int_equal(choose(NULL, "^eth,bond"), GW_OK);
    assert_string_equal(taken, "vlan9 veth1");
    assert_int_equal(choose(NULL, "^=bond0"), GW_OK);
    assert_string_equal(taken, "eth0 eth1 bond0.7");
    assert_int_equal(choose(NULL, "ib"), GW_E_SETTING);
    assert_non_null(strstr(skipped, "NCCL_SOCKET_IFNAME entry 'ib' matches no interface"));
}

static void usable(void **state)
{
    (void)state;
    memset(ifs, 0, sizeof ifs);
    ifs_n = 0;
    add_flags("eth0", IFF_RUNNING, "10.0.0.1");
    add_flags("eth1", IFF_UP, "10.0.0.2");
    add("eth2", NULL);
    assert_int_equal(choose(NULL, NULL), GW_E_DEVICE);
    assert_string_equal(skipped, "eth0 (down), eth1 (no carrier), eth2 (no IP address)");
    char small[12];
    struct gw_netdev *list;
    int n;
    assert_int_equal(gw_netdev_choose(ifs, NULL, NULL, root, &list, &n, small, sizeof small), GW_E_DEVICE);
    assert_string_equal(small, "eth0 (down)");
    assert_int_equal(gw_netdev_choose(ifs, NULL, NULL, root, &list, &n, NULL, 0), GW_E_DEVICE);
    assert_int_equal(gw_netdev_choose(NULL, NULL, NULL, root, &list, &n, small, sizeof small), GW_E_DEVICE);
}

static const struct gw_netdev *find(const struct gw_netdev *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("%s is missing", name);
    return NULL;
}

static void facts(void **state)
{
    (void)state;
    host();
    struct gw_netdev *list;
    int n;
    assert_int_equal(gw_netdev_choose(ifs, "*", NULL, root, &list, &n, skipped, sizeof skipped), GW_OK);
    const struct gw_netdev *d = find(list, n, "eth0");
    assert_true(d->speed_mbps == 100000 && d->mtu == 1500 && d->guid == 0x02000000002a && d->addrs == 2);
    assert_true(d->addr[0].family == 4 && d->addr[0].ip[3] == 1 && d->addr[0].port == 0);
    assert_true(d->addr[1].family == 6 && d->addr[1].ip[0] == 0x20);
    assert_non_null(strstr(d->pci_path, "/devices/pci0000:00/0000:00:04.0"));
    d = find(list, n, "eth1");
    assert_true(d->speed_mbps == 0); /* virtio says what it was told to say */
    d = find(list, n, "bond0.7");
    assert_true(d->speed_mbps == 200000 && d->mtu == 9000);
    assert_non_null(strstr(d->pci_path, "/0000:00:04.0"));
    d = find(list, n, "veth1");
    assert_true(d->speed_mbps == 0 && d->pci_path == NULL && d->guid != 0);
    assert_true(d->guid != find(list, n, "docker0")->guid);
    gw_netdev_free(list, n);
}

static void many(void **state)
{
    (void)state;
    memset(ifs, 0, sizeof ifs);
    ifs_n = 0;
    for (int i = 0; i < 70; i++) {
        char name[16], ip[32];
        snprintf(name, sizeof name, "en%d", i), snprintf(ip, sizeof ip, "10.0.0.%d", i + 1);
        add(name, ip);
    }
    for (int i = 0; i < 6; i++)
        add("en0", "10.1.1.1"); /* more addresses than a handle carries */
    struct gw_netdev *list;
    int n;
    assert_int_equal(gw_netdev_choose(ifs, NULL, NULL, root, &list, &n, skipped, sizeof skipped), GW_OK);
    assert_int_equal(n, 70);
    assert_int_equal(list[0].addrs, GW_ADDRS_MAX);
    gw_netdev_free(list, n);
}

static void this_machine(void **state)
{
    (void)state;
    struct gw_netdev *list;
    int n;
    assert_int_equal(gw_netdev_list("lo", NULL, "/sys", &list, &n, skipped, sizeof skipped), GW_OK);
    assert_true(n == 1 && list[0].addrs > 0 && list[0].speed_mbps == 0 && list[0].guid != 0);
    gw_netdev_free(list, n);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(kinds),  CASE(by_name), CASE(as_nccl_does), CASE(usable),
                                       CASE(facts),  CASE(many),    CASE(this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
