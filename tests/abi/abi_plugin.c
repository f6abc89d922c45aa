/* abi_plugin.c - the plugin as NCCL's loader sees it: tables, properties, init and finalize over and over, a process that
 * stays as it was. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rank.h"

static void load(struct host_net *net, int version)
{
    char why[256] = "";

    if (host_load(net, GW_OUT "/libnccl-net-gradwire.so", version, why, sizeof(why)) != 0)
        fprintf(stderr, "%s\n", why);
    must(why[0] == '\0');
}

/* ---- tables and properties ---- */

static void names_child(const void *arg, int fd, int side)
{
    struct host_net net;

    (void)arg, (void)fd, (void)side;
    load(&net, 0);
    must(net.version == HOST_VERSION_MAX);
    host_unload(&net);
    for (int v = HOST_VERSION_MIN; v <= HOST_VERSION_MAX; v++) {
        load(&net, v);
        must(strcmp(net.t.name, "gradwire") == 0); /* before any init: NCCL compares it with NCCL_NET */
        must(v < 11 || net.t.v11.finalize != NULL);
        if (v >= 11)
            must(net.t.v11.finalize(NULL) == ncclSuccess); /* 2.28 after an init that failed */
        host_unload(&net);
    }
}

static size_t props_bytes(int version)
{
    switch (version) {
    case 6:
        return sizeof(ncclNetProperties_v6_t);
    case 7:
        return sizeof(ncclNetProperties_v7_t);
    case 8:
        return sizeof(ncclNetProperties_v8_t);
    case 9:
    case 10:
        return sizeof(ncclNetProperties_v9_t);
    case 11:
        return sizeof(ncclNetProperties_v11_t);
    default:
        return sizeof(ncclNetProperties_v12_t);
    }
}

/* The slot takes another type in each version, but always (int, pointer). */
static ncclResult_t props_raw(struct host_net *net, int dev, void *props)
{
    return net->t.v12.getProperties(dev, props);
}

/* A member that the plugin leaves out keeps its poison, so two poisons give two results. */
static void props_child(const void *arg, int fd, int side)
{
    int version = *(const int *)arg;
    unsigned char a[256], b[256];
    struct rank r;
    host_props p;

    (void)fd, (void)side;
    rank_open(&r, version);
    for (int dev = 0; dev < r.net.ndev; dev++) {
        memset(a, 0x5a, sizeof(a));
        memset(b, 0xa5, sizeof(b));
        must(props_raw(&r.net, dev, a) == ncclSuccess && props_raw(&r.net, dev, b) == ncclSuccess);
        must(memcmp(a, b, props_bytes(version)) == 0);
        must(a[props_bytes(version)] == 0x5a); /* and nothing behind the struct */
        must(host_props_get(&r.net, dev, &p) == ncclSuccess);
        must(p.name != NULL && p.name[0] != '\0' && p.ptrSupport == NCCL_PTR_HOST && p.speed > 0);
        must(p.maxComms > 0 && p.maxRecvs >= 1 && p.maxRecvs <= 8);
        must(p.vProps.ndevs == 1 && p.vProps.devs[0] == dev);
        must(p.maxMultiRequestSize == 1 && p.railId == -1 && p.planeId == -1);
    }
    must(props_raw(&r.net, -1, a) != ncclSuccess && props_raw(&r.net, r.net.ndev, a) != ncclSuccess);
    rank_close(&r);
}

/* ---- init that fails ---- */

static void redirect(int to, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0 && dup2(fd, to) == to);
    close(fd);
}

static long written(int fd)
{
    return (long)lseek(fd, 0, SEEK_END);
}

static int capture(int to)
{
    char path[] = "/tmp/gradwire-abi-XXXXXX";
    int fd = mkstemp(path), kept = dup(to);

    must(fd >= 0 && kept >= 0);
    close(fd);
    redirect(to, path);
    unlink(path);
    return kept;
}

static void release(int to, int kept)
{
    must(dup2(kept, to) == to);
    close(kept);
}

static ncclResult_t init_v11(struct host_net *net, void **ctx)
{
    return net->t.v11.init(ctx, 7, &net->config, host_log, NULL);
}

/* 2.28 hands a ctx that a failed init has set to the next plugin's finalize. */
static void bad_setting_child(const void *arg, int fd, int side)
{
    void *const poison = &fd;
    void *ctx = poison;
    char line[HOST_LOG_LINE];
    struct host_net net;
    int kept;

    (void)arg, (void)side;
    load(&net, 12);
    setenv("GRADWIRE_CHUNK", "banana", 1);
    must(init_v11(&net, &ctx) == ncclInvalidUsage && ctx == poison);
    must(net.t.v12.finalize(NULL) == ncclSuccess);
    host_log_last(line);
    must(host_log_warns() == 1 && strstr(line, "GRADWIRE_CHUNK=banana") != NULL && strstr(line, "allowed") != NULL);
    /* with NCCL_DEBUG unset NCCL swallows that line: then it stands on stderr, once, and never on stdout */
    unsetenv("NCCL_DEBUG");
    kept = capture(STDERR_FILENO);
    must(init_v11(&net, &ctx) != ncclSuccess);
    long said = written(STDERR_FILENO);
    setenv("NCCL_DEBUG", "WARN", 1);
    must(init_v11(&net, &ctx) != ncclSuccess);
    long more = written(STDERR_FILENO);
    release(STDERR_FILENO, kept);
    must(said > 40 && said < 400 && more == said);
    setenv("GRADWIRE_CHUNK", "64K", 1);
    must(init_v11(&net, &ctx) == ncclSuccess && ctx != poison);
    must(net.t.v12.finalize(ctx) == ncclSuccess);
    host_unload(&net);
}

/* A net plugin cannot know that bytes are f32: each lossy codec there is, is refused by its name, in one line. */
static void lossy_codec_child(const void *arg, int fd, int side)
{
    static const char *const names[] = { "bf16", "f16", "e4m3", "e5m2", "int8", "int4", "levels", "twobit", "sign" };
    char line[HOST_LOG_LINE], want[64];
    void *ctx = NULL;
    struct host_net net;

    (void)arg, (void)fd, (void)side;
    load(&net, 12);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("GRADWIRE_CODEC", names[i], 1);
        must(init_v11(&net, &ctx) == ncclInvalidUsage && ctx == NULL);
        host_log_last(line);
        snprintf(want, sizeof want, "GRADWIRE_CODEC=%s is lossy", names[i]);
        must(host_log_warns() == i + 1 && strstr(line, want) != NULL && strstr(line, "Next: ") != NULL);
    }
    setenv("GRADWIRE_CODEC", "group", 1);
    must(init_v11(&net, &ctx) == ncclSuccess);
    must(net.t.v12.finalize(ctx) == ncclSuccess);
    host_unload(&net);
}

static void no_device_child(const void *arg, int fd, int side)
{
    void *ctx = NULL;
    struct host_net net;
    int n = -1;

    (void)arg, (void)fd, (void)side;
    setenv("GRADWIRE_IFNAME", "no-such0", 1);
    load(&net, 12);
    must(init_v11(&net, &ctx) != ncclSuccess && ctx == NULL && host_log_warns() == 1);
    must(net.t.v12.devices(&n) != ncclSuccess || n == 0);
    must(net.t.v12.finalize(NULL) == ncclSuccess);
    host_unload(&net);
}

/* A device that no lane of this build uses: the host goes on, and is told once, however many communicators it opens. */
static void no_effect_child(const void *arg, int fd, int side)
{
    char line[HOST_LOG_LINE];
    void *ctx = NULL, *second = NULL;
    struct host_net net;

    (void)arg, (void)fd, (void)side;
    load(&net, 12);
    setenv("GRADWIRE_HCA", "mlx5_0:1", 1);
    must(init_v11(&net, &ctx) == ncclSuccess && init_v11(&net, &second) == ncclSuccess);
    host_log_last(line);
    must(host_log_warns() == 1 && strstr(line, "GRADWIRE_HCA=mlx5_0:1 has no effect") != NULL && strstr(line, "Next: ") != NULL);
    must(net.t.v12.finalize(second) == ncclSuccess && net.t.v12.finalize(ctx) == ncclSuccess);
    host_unload(&net);
}

/* The set of kernels that the environment names is the one that the banner tells of. */
static void kernel_child(const void *arg, int fd, int side)
{
    char line[HOST_LOG_LINE + 64];
    FILE *said = tmpfile();
    struct host_net net;
    void *ctx = NULL;
    int found = 0;

    (void)arg, (void)fd, (void)side;
    load(&net, 12);
    host_log_copy(said, NCCL_LOG_INFO);
    setenv("GRADWIRE_KERNEL", "scalar", 1);
    must(init_v11(&net, &ctx) == ncclSuccess && host_log_warns() == 0);
    host_log_copy(NULL, NCCL_LOG_NONE);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL)
        found |= strstr(line, "kernels scalar") != NULL;
    must(found);
    fclose(said);
    must(net.t.v12.finalize(ctx) == ncclSuccess);
    host_unload(&net);
}

/* ---- over and over ---- */

static void rounds_child(const void *arg, int fd, int side)
{
    enum { ROUNDS = 1000, SETTLED = 20 };
    struct host_net net;
    int fds = 0, threads = 0;
    long kib = 0;

    (void)arg, (void)fd, (void)side;
    load(&net, 12);
    for (int i = 0; i < ROUNDS; i++) {
        void *ctx[2] = {NULL, NULL};
        must(init_v11(&net, &ctx[0]) == ncclSuccess);
        must(i % 2 == 0 || init_v11(&net, &ctx[1]) == ncclSuccess); /* two communicators at once */
        must(net.t.v12.finalize(ctx[0]) == ncclSuccess);
        must(ctx[1] == NULL || net.t.v12.finalize(ctx[1]) == ncclSuccess);
        if (i == SETTLED)
            fds = held_fds(), threads = held_threads(), kib = held_kib();
    }
    must(held_fds() == fds && held_threads() == threads && threads == 0);
    must(held_kib() < kib + 4096);
    host_unload(&net);
}

static void traffic_between(int version)
{
    struct rank a, b;
    struct pair p;
    struct traffic out, in, *po = &out, *pi = &in;

    rank_open(&a, version);
    rank_open(&b, version);
    pair_open(&p, &a, &b);
    traffic_init(&out, &p.send, 24, 5, BYTES_FLOATS);
    traffic_init(&in, &p.recv, 24, 5, BYTES_FLOATS);
    rank_run(&a, &po, 1);
    rank_run(&b, &pi, 1);
    rank_done(&a);
    rank_done(&b);
    rank_stop(&a);
    rank_stop(&b);
    pair_close(&p);
    rank_close(&a);
    rank_close(&b);
}

/* Load, use, unload, again: what the first round leaves (UCX stays mapped) is all that stays. */
static void reload_child(const void *arg, int fd, int side)
{
    int fds = 0, threads = 0, maps = 0;

    (void)arg, (void)fd, (void)side;
    for (int i = 0; i < 6; i++) {
        traffic_between(i % 2 ? 11 : 12);
        if (i == 1)
            fds = held_fds(), threads = held_threads(), maps = held_maps(".so");
        if (i > 1)
            must(held_fds() == fds && held_threads() == threads && held_maps(".so") == maps);
    }
    must(held_threads() == 0);
}

/* ---- the host's process ---- */

static void signals_read(struct sigaction *out)
{
    for (int i = 1; i < 65; i++) {
        memset(&out[i], 0, sizeof(out[i]));
        sigaction(i, NULL, &out[i]);
    }
}

/* libc leaves all of the mask but its first word as it finds it on the stack. */
static bool signals_same(const struct sigaction *a, const struct sigaction *b)
{
    for (int i = 1; i < 65; i++)
        if (a[i].sa_handler != b[i].sa_handler || a[i].sa_flags != b[i].sa_flags ||
            memcmp(&a[i].sa_mask, &b[i].sa_mask, 8) != 0)
            return false;
    return true;
}

static const void *function_of(void *(*fn)(void *, size_t, int, int, int, off_t))
{
    const void *p;

    memcpy(&p, &fn, sizeof(p));
    return p;
}

static void host_state_child(const void *arg, int fd, int side)
{
    static struct sigaction before[65], after[65];
    unsigned char code[16];
    extern char **environ;
    int kept_out = capture(STDOUT_FILENO), kept_err = capture(STDERR_FILENO);
    char **env = environ;
    size_t n = 0;

    (void)fd, (void)side;
    while (env[n] != NULL)
        n++;
    signals_read(before);
    memcpy(code, function_of(mmap), sizeof(code));
    traffic_between(*(const int *)arg);
    signals_read(after);
    long out = written(STDOUT_FILENO), err = written(STDERR_FILENO);
    release(STDOUT_FILENO, kept_out);
    release(STDERR_FILENO, kept_err);
    must(signals_same(before, after));
    must(memcmp(code, function_of(mmap), sizeof(code)) == 0); /* UCX would patch it */
    must(environ == env && env[n] == NULL && getenv("UCX_HANDLE_ERRORS") == NULL);
    must(out == 0 && err == 0 && host_log_warns() == 0); /* a normal life has nothing to say */
}

#define CASE(name, arg)                                 \
    static void test_##name(void **state)               \
    {                                                   \
        (void)state;                                    \
        child_one(name##_child, arg);                   \
    }
CASE(names, NULL)
CASE(bad_setting, NULL)
CASE(lossy_codec, NULL)
CASE(no_device, NULL)
CASE(no_effect, NULL)
CASE(kernel, NULL)
CASE(rounds, NULL)
CASE(reload, NULL)

static void test_props(void **state)
{
    (void)state;
    for (int v = HOST_VERSION_MIN; v <= HOST_VERSION_MAX; v++)
        child_one(props_child, &v);
}

static void test_host_state(void **state)
{
    static const int oldest = 6, newest = 12;

    (void)state;
    child_one(host_state_child, &newest);
    child_one(host_state_child, &oldest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_props),  cmocka_unit_test(test_bad_setting),
        cmocka_unit_test(test_lossy_codec), cmocka_unit_test(test_no_device), cmocka_unit_test(test_no_effect),
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_rounds), cmocka_unit_test(test_reload),
        cmocka_unit_test(test_host_state),
    };
    setenv("NCCL_DEBUG", "WARN", 0); /* else errors that a case provokes also stand on stderr */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
