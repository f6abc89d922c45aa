/* test_hca.c - which ports of RDMA devices are taken, over a sysfs that is made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hca.h>

static char root[64], said[1024];

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

static void put_port(const char *name, int port, const char *state, const char *layer, const char *rate, const char *netdev)
{
    put(state, "class/infiniband/%s/ports/%d/state", name, port);
    put(layer, "class/infiniband/%s/ports/%d/link_layer", name, port);
    put(rate, "class/infiniband/%s/ports/%d/rate", name, port);
    if (netdev[0] != 0)
        put(netdev, "class/infiniband/%s/ports/%d/gid_attrs/ndevs/1", name, port);
    put("0002:c903:00a1:b2c3\n", "class/infiniband/%s/node_guid", name);
}

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/gw-hca-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int end(void **state)
{
    (void)state;
    return nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void put_three(void)
{
    put_port("mlx5_0", 1, "4: ACTIVE\n", "Ethernet\n", "100 Gb/sec (4X EDR)\n", "eth0\n");
    put_port("mlx5_1", 1, "1: DOWN\n", "Ethernet\n", "40 Gb/sec (4X QDR)\n", "eth1\n");
    put_port("mlx5_10", 1, "4: ACTIVE\n", "InfiniBand\n", "2.5 Gb/sec (1X SDR)\n", "");
    put_port("mlx5_10", 2, "4: ACTIVE\n", "InfiniBand\n", "200 Gb/sec (4X HDR)\n", "");
}

/* "name:port ..." of what was taken. */
static const char *taken(const char *hca, const char *nccl)
{
    static char text[256];
    struct gw_hca *list;
    int n;
    gw_err err = gw_hca_list(hca, nccl, root, &list, &n, said, sizeof said);

    text[0] = 0;
    assert_int_equal(err, n > 0 ? GW_OK : GW_E_DEVICE);
    for (int i = 0; i < n; i++)
        sprintf(text + strlen(text), "%s%s:%d", i > 0 ? " " : "", list[i].name, list[i].port);
    gw_hca_free(list, n);
    return text;
}

static void test_facts(void **state)
{
    struct gw_hca *list;
    int n;

    (void)state;
    put_three();
    assert_int_equal(gw_hca_list("", NULL, root, &list, &n, said, sizeof said), GW_OK);
    assert_int_equal(n, 3);
    assert_string_equal(list[0].netdev, "eth0");
    assert_int_equal(list[0].speed_mbps, 100000);
    assert_int_equal(list[0].is_ib, 0);
    assert_int_equal(list[0].guid, 0x0002c90300a1b2c3);
    assert_int_equal(list[1].is_ib, 1);
    assert_int_equal(list[1].speed_mbps, 2500);
    assert_string_equal(list[1].netdev, "");
    assert_null(list[0].pci_path);
    gw_hca_free(list, n);
    assert_string_equal(said, "mlx5_1:1 (port is 1: DOWN)");
}

/* Ours is exact: mlx5_1 is not mlx5_10. */
static void test_ours(void **state)
{
    (void)state;
    put_three();
    assert_string_equal(taken("mlx5_10", NULL), "mlx5_10:1 mlx5_10:2");
    assert_string_equal(taken("mlx5_10:2,mlx5_0", NULL), "mlx5_0:1 mlx5_10:2");
    assert_string_equal(taken("mlx5_*:1", NULL), "mlx5_0:1 mlx5_10:1");
    assert_string_equal(taken("^mlx5_10:1", NULL), "mlx5_0:1 mlx5_10:2");
    assert_string_equal(taken("mlx5_0,mlx4_0", NULL), "mlx5_0:1");
    assert_non_null(strstr(said, "\"mlx4_0\" matches no port"));
    assert_string_equal(taken("mlx5_1", NULL), "");
    assert_non_null(strstr(said, "mlx5_1:1 (port is 1: DOWN)"));
}

/* NCCL's is a prefix, unless '=' says otherwise; ours comes first. */
static void test_nccl(void **state)
{
    (void)state;
    put_three();
    assert_string_equal(taken("", "mlx5_1"), "mlx5_10:1 mlx5_10:2");
    assert_string_equal(taken("", "=mlx5_0"), "mlx5_0:1");
    assert_string_equal(taken("", "^mlx5_1"), "mlx5_0:1");
    assert_string_equal(taken("", "^=mlx5_0"), "mlx5_10:1 mlx5_10:2");
    assert_string_equal(taken("mlx5_0", "mlx5_1"), "mlx5_0:1");
}

static void test_none(void **state)
{
    (void)state;
    assert_string_equal(taken("", NULL), "");
    assert_non_null(strstr(said, "no RDMA device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_facts, begin, end),
        cmocka_unit_test_setup_teardown(test_ours, begin, end),
        cmocka_unit_test_setup_teardown(test_nccl, begin, end),
        cmocka_unit_test_setup_teardown(test_none, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
