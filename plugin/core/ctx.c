/* ctx.c - gw_open to gw_close, and what the process shares. */
#include "ctx.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <base/check.h>

#include "stat.h"
#include "work.h"

/* How long the last close waits for peers that have not read our bye yet. */
enum { SETTLE_MS = 2000 };

enum { LANE_WORDS = 256 };

struct gw_proc gw_proc = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *gw_version(void)
{
    return "gradwire " GW_VERSION;
}

/* ---- settings and devices ---- */

static const char *const policy_name[] = { "auto", "always", "never" };

/* `auto` is the lossless codec for unknown bytes. */
static gw_err choose_codec(const struct gw_logger *log)
{
    const char *name = gw_proc.conf.codec;

    if (strcmp(name, "auto") == 0)
        name = "group";
    gw_proc.codec = gw_codec_by_name(name);
    if (gw_proc.codec == NULL && gw_codec_left_out(name)) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_CODEC=%s: built without %s. Next: build with `make %s=1` where the library "
               "is, or unset it for auto", name, name, strcmp(name, "lz4") == 0 ? "LZ4" : "ZSTD");
        return GW_E_SETTING;
    }
    if (gw_proc.codec == NULL) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_CODEC=%s is no codec of this build; auto, raw, group, tight, "
               "entropy and zero are. Next: correct it, or unset it for auto", name);
        return GW_E_SETTING;
    }
    if (gw_proc.codec->traits & GW_TRAIT_LOSSY) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_CODEC=%s is lossy, and a net plugin sees bytes of unknown type that must "
               "arrive as they left. Next: set one that is lossless (group, tight, entropy, zero), or unset it for auto", name);
        return GW_E_SETTING;
    }
    if (gw_proc.codec->traits & GW_TRAIT_STORED)
        gw_proc.codec = NULL;
    return GW_OK;
}

/* A worker on the only CPU that the host's thread has would take turns with it: coding then happens inline. */
static unsigned worker_count(const struct gw_logger *log)
{
    cpu_set_t set;

    if (gw_proc.codec == NULL)
        return 0;
    if (gw_proc.conf.workers > 0 && sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) {
        gw_log(log, GW_LOG_INFO, "gradwire: this thread may use one CPU only: no codec workers");
        return 0;
    }
    return gw_proc.conf.workers;
}

static const char *module_name(void)
{
    return gw_proc.conf.lane == GW_CONF_LANE_VERBS ? "verbs" : "ucx";
}

/* The set that is asked for and no other: who names one wants to compare, or to get round one that fails. */
static gw_err choose_kernel(const struct gw_logger *log)
{
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512"};
    const char *name = names[gw_proc.conf.kernel];

    if (gw_proc.conf.kernel == GW_CONF_KERNEL_AUTO || gw_kern_select(name) == GW_OK)
        return GW_OK;
    gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_KERNEL=%s cannot be had here: the CPU or this build lacks it. Next: unset it, or "
           "take scalar, which runs anywhere", name);
    return GW_E_SETTING;
}

static gw_err load(const struct gw_logger *log)
{
    gw_err err = gw_conf_load(&gw_proc.conf, log);

    if (gethostname(gw_proc.host, sizeof gw_proc.host - 1) != 0 || gw_proc.host[0] == 0)
        strcpy(gw_proc.host, "unknown");
    if (err == GW_OK && gw_proc.conf.lane == GW_CONF_LANE_LOOP) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_LANE=loop lives inside one process and is for tests. Next: unset it");
        err = GW_E_SETTING;
    }
    if (err == GW_OK && gw_proc.conf.gdr == GW_CONF_GDR_ON)
        gw_log(log, GW_LOG_WARN, "gradwire: GRADWIRE_GDR=on: the UCX lane takes host pointers only; going on without");
    if (err == GW_OK && gw_proc.conf.hca[0] != 0 && gw_proc.conf.lane != GW_CONF_LANE_VERBS)
        gw_log(log, GW_LOG_WARN, "gradwire: GRADWIRE_HCA=%s has no effect: the UCX lane goes by interfaces. Next: name the device's "
               "interface with GRADWIRE_IFNAME, or unset GRADWIRE_HCA", gw_proc.conf.hca);
    if (err == GW_OK)
        err = choose_kernel(log);
    if (err == GW_OK)
        err = choose_codec(log);
    if (err == GW_OK)
        gw_proc_obey(&gw_proc.conf, log);
    /* found missing here the host hears of it at init, and not at its first collective */
    if (err == GW_OK)
        err = gw_lane_module(module_name(), log, &gw_proc.ops);
    if (err == GW_OK)
        err = gw_proc_find(log);
    if (err != GW_OK)
        return err;
    gw_stat_open(log, gw_proc.codec ? gw_proc.codec->name : "raw", policy_name[gw_proc.conf.policy]);
    return gw_work_open(worker_count(log));
}

static void unload(void)
{
    for (int i = 0; i < gw_proc.devs; i++) {
        struct gw_dev *d = &gw_proc.dev[i];
        gw_slab_free(d->slab);
        if (d->lane_dev != NULL)
            d->ops->close_dev(d->lane_dev);
        free(d->net.pci_path);
    }
    free(gw_proc.dev);
    gw_proc.dev = NULL;
    gw_proc.devs = 0;
}

gw_err gw_proc_enter(const struct gw_logger *log)
{
    gw_err err = GW_OK;

    pthread_mutex_lock(&gw_proc.lock);
    if (gw_proc.users == 0)
        err = load(log);
    if (err == GW_OK)
        gw_proc.users++;
    else
        unload();
    pthread_mutex_unlock(&gw_proc.lock);
    return err;
}

void gw_proc_leave(void)
{
    pthread_mutex_lock(&gw_proc.lock);
    gw_assert(gw_proc.users > 0);
    if (--gw_proc.users == 0) {
        gw_watch_settle(SETTLE_MS);
        gw_work_close();
        unload();
    }
    pthread_mutex_unlock(&gw_proc.lock);
}

static _Thread_local char lane_words[LANE_WORDS];

char *gw_lane_words(void)
{
    return lane_words;
}

static void lane_line(void *log, enum gw_log_level level, const char *line)
{
    size_t n = strlen(line);

    if (level <= GW_LOG_WARN && lane_words[0] == 0)
        snprintf(lane_words, sizeof lane_words, "%.*s", (int)(n > 0 && line[n - 1] == '.' ? n - 1 : n), line);
    gw_log(log, level == GW_LOG_WARN ? GW_LOG_INFO : level, "%s", line);
}

static gw_err open_lane(struct gw_dev *d, const struct gw_logger *log)
{
    struct gw_host host = { .size = sizeof host, .log = &d->lane_log, .now_ns = gw_now_ns };
    struct gw_lane_conf conf = { .size = sizeof conf, .ifname = d->net.name, .port_lo = gw_proc.conf.port_lo,
                                 .port_hi = gw_proc.conf.port_hi, .queue_depth = 512, .paths = (uint8_t)gw_proc.conf.ib_qps,
                                 .hca = d->hca.name, .hca_port = d->hca.port, .gid_index = (uint16_t)gw_proc.conf.gid_index,
                                 .ib_timeout = (uint8_t)gw_proc.conf.ib_timeout, .ib_retry = (uint8_t)gw_proc.conf.ib_retry,
                                 .ib_tc = (uint8_t)gw_proc.conf.ib_tc, .ib_sl = (uint8_t)gw_proc.conf.ib_sl,
                                 .transport = gw_proc.conf.ucx_tls[0] ? gw_proc.conf.ucx_tls : NULL };
    gw_err err = gw_proc_descriptors(log, "open", GW_FDS_DEVICE);

    if (d->hca.name[0])
        conf.ifname = d->hca.netdev;
    if (err != GW_OK)
        return err;
    d->ops = gw_proc.ops;
    d->lane_log = (struct gw_logger){ .write = lane_line, .arg = (void *)(uintptr_t)log, .level = log ? log->level : 0 };
    lane_words[0] = 0;
    err = d->ops->open(&host, &conf, &d->lane_dev);
    if (err == GW_OK && gw_proc.codec != NULL) {
        err = gw_slab_new(d->ops, d->lane_dev, gw_proc.conf.slab_bytes, gw_proc.conf.chunk_bytes, &d->slab);
        if (err != GW_OK)
            gw_log(log, GW_LOG_WARN, "gradwire: no staging of %llu bytes for chunks of %u (%s): everything goes raw. Next: "
                   "GRADWIRE_SLAB", (unsigned long long)gw_proc.conf.slab_bytes, gw_proc.conf.chunk_bytes,
                   gw_err_text(err));
        err = GW_OK;
    }
    return err;
}

gw_err gw_proc_descriptors(const struct gw_logger *log, const char *op, int want)
{
    int fd[GW_FDS_MAX], n = 0;
    struct rlimit limit = { 0 };

    while (n < want && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(fd[i]);
    if (n == want)
        return GW_OK;
    getrlimit(RLIMIT_NOFILE, &limit);
    gw_log(log, GW_LOG_ERROR, "gradwire " GW_VERSION " GW_E_SYS: op=%s local=\"%s pid %d\": %d more open files are needed and %d "
           "are left of RLIMIT_NOFILE=%llu. Next: ulimit -n (or LimitNOFILE= of the service); a connection takes about 6",
           op, gw_proc.host, (int)getpid(), want, n, (unsigned long long)limit.rlim_cur);
    return GW_E_SYS;
}

static void say_not_opened(const struct gw_dev *d, gw_err err, const struct gw_logger *log)
{
    gw_log(log, GW_LOG_ERROR, "gradwire " GW_VERSION " %s: op=open local=\"%s pid %d %s\": the lane cannot be opened: %s. "
           "Next: %s", gw_err_name(err), gw_proc.host, (int)getpid(), d->net.name,
           lane_words[0] ? lane_words : gw_err_text(err),
           d->hca.name[0] ? "see ibv_devinfo; choose the port with GRADWIRE_HCA; GRADWIRE_LANE=ucx needs no RDMA device"
                          : "unset GRADWIRE_UCX_TLS, or make it tcp or posix; choose the interface with GRADWIRE_IFNAME");
}

gw_err gw_proc_device(int dev, const struct gw_logger *log, struct gw_dev **dev_p)
{
    gw_err err = GW_OK;

    pthread_mutex_lock(&gw_proc.lock);
    if (dev < 0 || dev >= gw_proc.devs)
        err = GW_E_ARG;
    else if (gw_proc.dev[dev].lane_dev == NULL) {
        err = open_lane(&gw_proc.dev[dev], log);
        if (err != GW_OK && err != GW_E_SYS) /* which has said its line */
            say_not_opened(&gw_proc.dev[dev], err, log);
        else if (lane_words[0])
            gw_log(log, GW_LOG_WARN, "gradwire: %s", lane_words);
    }
    if (err == GW_OK)
        *dev_p = &gw_proc.dev[dev];
    pthread_mutex_unlock(&gw_proc.lock);
    return err;
}

void gw_control_conf_fill(struct gw_control_conf *c, const struct gw_logger *log)
{
    const struct gw_conf *conf = &gw_proc.conf;

    *c = (struct gw_control_conf){
        .log = log,
        .host = gw_proc.host,
        .port_lo = conf->port_lo,
        .port_hi = conf->port_hi,
        .hello_timeout_ms = conf->connect_timeout_ms,
        .dial_retries = conf->connect_retries,
        .peer_timeout_ms = conf->peer_timeout_ms,
        .stall_warn_ms = conf->stall_warn_ms,
        .stall_timeout_ms = conf->stall_timeout_ms,
    };
}

/* ---- ctx ---- */

static void banner(const struct gw_ctx *ctx)
{
    const struct gw_conf *c = &gw_proc.conf;

    gw_log(ctx->log, GW_LOG_INFO,
           "gradwire " GW_VERSION ": codec %s (lossless), policy %s, %u worker(s), chunk %u, kernels %s, %d interface(s), "
           "first %s, check %s", gw_proc.codec ? gw_proc.codec->name : "raw", policy_name[c->policy], c->workers,
           c->chunk_bytes, gw_kern_name(), gw_proc.devs, gw_proc.dev[0].net.name, c->check ? "on" : "off");
}

gw_err gw_open(const struct gw_config *config, struct gw_ctx **ctx_p)
{
    struct gw_ctx *ctx;
    gw_err err;

    if (config == NULL || config->size < sizeof *config)
        return GW_E_ARG;
    ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return GW_E_NOMEM;
    ctx->log = config->log;
    ctx->id = config->id;
    ctx->flags = config->flags;
    atomic_store(&ctx->hint_simple, 1);
    pthread_mutex_init(&ctx->lock, NULL);
    gw_list_init(&ctx->comms);
    gw_list_init(&ctx->pendings);
    gw_list_init(&ctx->listeners);
    err = gw_proc_enter(ctx->log);
    if (err != GW_OK) {
        pthread_mutex_destroy(&ctx->lock);
        free(ctx);
        return err;
    }
    banner(ctx);
    *ctx_p = ctx;
    return GW_OK;
}

void gw_close(struct gw_ctx *ctx)
{
    if (ctx == NULL)
        return;
    gw_pending_free_all(ctx);
    gw_proc_leave();
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

int gw_devices(const struct gw_ctx *ctx)
{
    (void)ctx;
    return gw_proc.devs;
}

gw_err gw_device(const struct gw_ctx *ctx, int dev, struct gw_device *out)
{
    const struct gw_netdev *net;

    (void)ctx;
    if (dev < 0 || dev >= gw_proc.devs)
        return GW_E_ARG;
    net = &gw_proc.dev[dev].net;
    *out = (struct gw_device){ .name = net->name, .pci_path = net->pci_path, .guid = net->guid,
                               .speed_mbps = net->speed_mbps,
                               .port = gw_proc.dev[dev].hca.name[0] ? gw_proc.dev[dev].hca.port : 1 };
    return GW_OK;
}

void gw_hint_simple(struct gw_ctx *ctx, int simple)
{
    atomic_store_explicit(&ctx->hint_simple, simple != 0, memory_order_relaxed);
}

void gw_stat_read(struct gw_stat_page *out)
{
    memcpy(out, gw_stat, sizeof *out);
}
