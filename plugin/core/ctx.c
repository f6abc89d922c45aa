/* ctx.c - gw_open to gw_close, and what the process shares. */
#include "ctx.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/check.h>

#include "stat.h"
#include "work.h"

/* How long the last close waits for peers that have not read our bye yet. */
enum { SETTLE_MS = 2000 };

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
    if (gw_proc.codec == NULL) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_CODEC=%s is no codec of this build; auto, raw and group are. "
               "Next: correct it, or unset it for auto", name);
        return GW_E_SETTING;
    }
    if (gw_proc.codec->traits & GW_TRAIT_STORED)
        gw_proc.codec = NULL;
    return GW_OK;
}

static gw_err find_devices(const struct gw_logger *log)
{
    char skipped[1024] = "";
    struct gw_netdev *list = NULL;
    int n = 0;
    gw_err err = gw_netdev_list(gw_proc.conf.ifname, getenv("NCCL_SOCKET_IFNAME"), "/sys", &list, &n, skipped,
                                sizeof skipped);

    if (err != GW_OK || n == 0) {
        gw_log(log, GW_LOG_ERROR, "gradwire: no usable network interface (%s). Next: bring one up with an address, or name "
               "one with GRADWIRE_IFNAME", skipped[0] ? skipped : gw_err_text(err));
        return err == GW_OK ? GW_E_DEVICE : err;
    }
    if (skipped[0])
        gw_log(log, GW_LOG_INFO, "gradwire: interfaces left out: %s", skipped);
    gw_proc.dev = calloc((size_t)n, sizeof *gw_proc.dev);
    if (gw_proc.dev == NULL) {
        gw_netdev_free(list, n);
        return GW_E_NOMEM;
    }
    for (int i = 0; i < n; i++) {
        gw_proc.dev[i].net = list[i];
        list[i].pci_path = NULL; /* ours now */
    }
    gw_proc.devs = n;
    gw_netdev_free(list, n);
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

static gw_err load(const struct gw_logger *log)
{
    gw_err err = gw_conf_load(&gw_proc.conf, log);

    if (err == GW_OK && gw_proc.conf.lane == GW_CONF_LANE_LOOP) {
        gw_log(log, GW_LOG_ERROR, "gradwire: GRADWIRE_LANE=loop lives inside one process and is for tests. Next: unset it");
        err = GW_E_SETTING;
    }
    if (err == GW_OK && gw_proc.conf.gdr == GW_CONF_GDR_ON)
        gw_log(log, GW_LOG_WARN, "gradwire: GRADWIRE_GDR=on: the UCX lane takes host pointers only; going on without");
    if (err == GW_OK)
        err = choose_codec(log);
    if (err == GW_OK)
        err = find_devices(log);
    if (err != GW_OK)
        return err;
    if (gethostname(gw_proc.host, sizeof gw_proc.host - 1) != 0 || gw_proc.host[0] == 0)
        strcpy(gw_proc.host, "unknown");
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

static gw_err open_lane(struct gw_dev *d, const struct gw_logger *log)
{
    struct gw_host host = { .size = sizeof host, .log = log, .now_ns = gw_now_ns };
    struct gw_lane_conf conf = { .size = sizeof conf, .ifname = d->net.name, .port_lo = gw_proc.conf.port_lo,
                                 .port_hi = gw_proc.conf.port_hi, .queue_depth = 512, .paths = 1,
                                 .transport = gw_proc.conf.ucx_tls[0] ? gw_proc.conf.ucx_tls : NULL };
    const char *module = gw_proc.conf.lane == GW_CONF_LANE_VERBS ? "verbs" : "ucx";
    gw_err err = gw_lane_module(module, log, &d->ops);

    if (err == GW_OK)
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

gw_err gw_proc_device(int dev, const struct gw_logger *log, struct gw_dev **dev_p)
{
    gw_err err = GW_OK;

    pthread_mutex_lock(&gw_proc.lock);
    if (dev < 0 || dev >= gw_proc.devs)
        err = GW_E_ARG;
    else if (gw_proc.dev[dev].lane_dev == NULL)
        err = open_lane(&gw_proc.dev[dev], log);
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
                               .speed_mbps = net->speed_mbps, .port = 1 };
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
