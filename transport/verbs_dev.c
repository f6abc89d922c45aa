/* verbs_dev.c - the module's one exported table, and a device: a port of an RDMA adapter.  Read open_dev. */
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <base/check.h>

enum { GIDS_MAX = 256 };

void gw_verbs_log(const struct gw_verbs_dev *dev, enum gw_log_level level, const char *fmt, ...)
{
    const struct gw_logger *lg = dev->host.log;
    char line[1000];
    va_list ap;

    if (lg == NULL || level > lg->level)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    lg->write(lg->arg, level, line);
}

/* ---- the source address ---- */

static int is_v4(const union ibv_gid *g)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    return memcmp(g->raw, mapped, sizeof mapped) == 0;
}

/* How well an entry of the port's table serves: only RoCE v2 can be routed; an IPv4 address is what most fabrics route; a
 * link-local one reaches nothing beyond the switch.  0: not at all. */
static int gid_worth(const struct ibv_gid_entry *e, unsigned ifindex)
{
    int worth = 1;

    if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 0;
    if (is_v4(&e->gid))
        worth = 3;
    else if (!(e->gid.raw[0] == 0xfe && (e->gid.raw[1] & 0xc0) == 0x80))
        worth = 2;
    return worth * 2 + (ifindex != 0 && e->ndev_ifindex == ifindex);
}

static const char *worth_text(int worth)
{
    return worth >= 6 ? "RoCE v2 with an IPv4 address" : worth >= 4 ? "RoCE v2 with a global IPv6 address" : "RoCE v2, link-local only";
}

/* On Ethernet: the entry that was asked for, or the best one. */
static gw_err pick_gid(struct gw_verbs_dev *d, struct gw_verbs_blob *b, char *why, size_t why_len)
{
    struct ibv_gid_entry *all = calloc(GIDS_MAX, sizeof *all), *best = NULL;
    ssize_t n = all == NULL ? 0 : ibv_query_gid_table(d->ctx, all, GIDS_MAX, 0);
    unsigned ifindex = d->ifname[0] ? if_nametoindex(d->ifname) : 0;
    int worth = 0;

    for (ssize_t i = 0; i < n; i++) {
        int w = all[i].port_num != d->port || all[i].gid_index > UINT8_MAX ? 0 : d->gid_wish >= 0 ? (int)all[i].gid_index == d->gid_wish : gid_worth(&all[i], ifindex);
        if (w > worth)
            worth = w, best = &all[i];
    }
    if (best != NULL) {
        b->gid_index = (uint8_t)best->gid_index;
        memcpy(b->gid, best->gid.raw, sizeof b->gid);
        gw_verbs_log(d, GW_LOG_DEBUG, "verbs: %s:%d uses gid %u: %s", d->name, d->port, best->gid_index,
                     d->gid_wish >= 0 ? "as was asked for" : worth_text(worth));
    } else {
        snprintf(why, why_len, "%s:%d has no %s in its table of %zd addresses: give its interface an IP address, or name another "
                 "index with GRADWIRE_GID_INDEX", d->name, d->port, d->gid_wish >= 0 ? "such gid index" : "RoCE v2 address", n);
    }
    free(all);
    return best != NULL ? GW_OK : GW_E_DEVICE;
}

gw_err gw_verbs_address(struct gw_verbs_dev *d, struct gw_verbs_blob *b, char *why, size_t why_len)
{
    struct ibv_port_attr port;
    union ibv_gid gid;

    if (ibv_query_port(d->ctx, d->port, &port) != 0) {
        snprintf(why, why_len, "%s has no port %d", d->name, d->port);
        return GW_E_DEVICE;
    }
    if (port.state != IBV_PORT_ACTIVE) {
        snprintf(why, why_len, "port %d of %s is %s: bring its link up", d->port, d->name, ibv_port_state_str(port.state));
        return GW_E_DEVICE;
    }
    snprintf(b->device, sizeof b->device, "%s", d->name);
    b->port = d->port;
    b->is_ib = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
    b->mtu = (uint8_t)port.active_mtu;
    b->lid = port.lid;
    if (!b->is_ib)
        return pick_gid(d, b, why, why_len);
    b->gid_index = (uint8_t)(d->gid_wish >= 0 ? d->gid_wish : 0);
    if (ibv_query_gid(d->ctx, d->port, b->gid_index, &gid) == 0)
        memcpy(b->gid, gid.raw, sizeof b->gid);
    return GW_OK;
}

void gw_verbs_gid_text(const struct gw_verbs_blob *b, char out[64])
{
    char ip[INET6_ADDRSTRLEN] = "?";

    inet_ntop(AF_INET6, b->gid, ip, sizeof ip);
    if (b->is_ib)
        snprintf(out, 64, "lid %u", b->lid);
    else
        snprintf(out, 64, "gid[%u] %s", b->gid_index, ip);
}

/* ---- open ---- */

/* A kernel that has the device and a process that may not use it: containers, mostly. */
static void say_no_device(const struct gw_verbs_dev *d)
{
    if (access("/dev/infiniband", F_OK) != 0)
        gw_verbs_log(d, GW_LOG_WARN, "verbs: there is no /dev/infiniband here: load ib_uverbs, or give the container "
                     "--device=/dev/infiniband");
    else
        gw_verbs_log(d, GW_LOG_WARN, "verbs: libibverbs knows no device %s: install its provider (ibverbs-providers)", d->name);
}

static gw_err open_context(struct gw_verbs_dev *d)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n), *found = NULL;

    for (int i = 0; i < n; i++)
        if (d->name[0] == 0 || strcmp(ibv_get_device_name(list[i]), d->name) == 0) {
            found = list[i];
            break;
        }
    if (found == NULL) {
        say_no_device(d);
    } else {
        snprintf(d->name, sizeof d->name, "%s", ibv_get_device_name(found));
        d->ctx = ibv_open_device(found);
        if (d->ctx == NULL)
            gw_verbs_log(d, GW_LOG_WARN, "verbs: %s cannot be opened: %s: see who may use /dev/infiniband/uverbs*", d->name,
                         strerror(errno));
        else if (found->transport_type != IBV_TRANSPORT_IB) {
            gw_verbs_log(d, GW_LOG_WARN, "verbs: %s is an iWARP device, which has no writes with immediate: take GRADWIRE_LANE=ucx, or "
                         "another device with GRADWIRE_HCA", d->name);
            ibv_close_device(d->ctx);
            d->ctx = NULL;
        }
    }
    if (list != NULL)
        ibv_free_device_list(list);
    return d->ctx != NULL ? GW_OK : GW_E_DEVICE;
}

static void close_dev(void *dev)
{
    struct gw_verbs_dev *d = dev;

    if (d == NULL)
        return;
    gw_verbs_unwatch(d);
    if (d->pd != NULL && ibv_dealloc_pd(d->pd) != 0)
        gw_verbs_log(d, GW_LOG_WARN, "verbs: %s is closed with something of it still in use, please report it", d->name);
    if (d->ctx != NULL)
        ibv_close_device(d->ctx);
    free(d);
}

static gw_err open_port(struct gw_verbs_dev *d)
{
    struct gw_verbs_blob probe = { 0 };
    char why[256], gid[64];
    gw_err err = open_context(d);

    if (err != GW_OK)
        return err;
    d->pd = ibv_alloc_pd(d->ctx);
    if (d->pd == NULL || ibv_query_device(d->ctx, &d->attr) != 0) {
        gw_verbs_log(d, GW_LOG_WARN, "verbs: %s gives no protection domain: %s", d->name, strerror(errno));
        return GW_E_DEVICE;
    }
    d->depth = (uint32_t)gw_min_u64(d->depth, (uint64_t)d->attr.max_qp_wr / 2);
    err = gw_verbs_address(d, &probe, why, sizeof why);
    if (err != GW_OK) {
        gw_verbs_log(d, GW_LOG_WARN, "verbs: %s", why);
        return err;
    }
    err = gw_verbs_watch(d);
    if (err != GW_OK) {
        gw_verbs_log(d, GW_LOG_WARN, "verbs: no thread for the events of %s: %s", d->name, strerror(errno));
        return err;
    }
    gw_verbs_gid_text(&probe, gid);
    gw_verbs_log(d, GW_LOG_INFO, "verbs: %s:%d, %s, %s, MTU %d, timeout %u retry %u tc %u sl %u", d->name, d->port,
                 probe.is_ib ? "InfiniBand" : "RoCE", gid, 128 << probe.mtu, d->timeout, d->retry, d->tc, d->sl);
    return GW_OK;
}

static gw_err open_dev(const struct gw_host *host, const struct gw_lane_conf *conf, void **dev_p)
{
    struct gw_verbs_dev *d;
    gw_err err;

    if (host->size < sizeof *host || conf->size < sizeof *conf)
        return GW_E_ARG;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return GW_E_NOMEM;
    d->host = *host;
    d->port = conf->hca_port ? conf->hca_port : 1;
    d->timeout = conf->ib_timeout, d->retry = conf->ib_retry, d->tc = conf->ib_tc, d->sl = conf->ib_sl;
    d->gid_wish = conf->gid_index == GW_GID_CHOSEN ? -1 : conf->gid_index;
    d->paths = (uint8_t)gw_max_u64(1, gw_min_u64(conf->paths, GW_PATHS_MAX));
    d->depth = conf->queue_depth ? conf->queue_depth : GW_VERBS_DEPTH;
    snprintf(d->name, sizeof d->name, "%s", conf->hca != NULL ? conf->hca : "");
    snprintf(d->ifname, sizeof d->ifname, "%s", conf->ifname != NULL ? conf->ifname : "");
    err = open_port(d);
    if (err != GW_OK) {
        close_dev(d);
        return err;
    }
    *dev_p = d;
    return GW_OK;
}

/* ---- memory ---- */

static void say_not_registered(struct gw_verbs_dev *d, size_t bytes, int code)
{
    struct rlimit limit = { 0 };

    getrlimit(RLIMIT_MEMLOCK, &limit);
    gw_verbs_log(d, GW_LOG_ERROR,
                 "gradwire " GW_VERSION " GW_E_SYS: op=reg device=%s: %zu bytes cannot be registered (%s) beside %llu that are; "
                 "RLIMIT_MEMLOCK=%lld, pages of %ld. Next: ulimit -l unlimited (LimitMEMLOCK=infinity of the service, --ulimit "
                 "memlock=-1 of the container)", d->name, bytes, strerror(code), (unsigned long long)d->registered,
                 (long long)limit.rlim_cur, sysconf(_SC_PAGESIZE));
}

/* Without relaxed ordering: bytes are written in address order, and a reader that polls flags inside them may rely on it. */
static gw_err reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    struct gw_verbs_dev *d = dev;
    int access = remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
    struct ibv_mr *mr;

    if (bytes == 0) {
        *out = (struct gw_region){ .base = base };
        return GW_OK;
    }
    mr = ibv_reg_mr(d->pd, base, bytes, access);
    if (mr == NULL) {
        say_not_registered(d, bytes, errno);
        return GW_E_SYS;
    }
    d->registered += bytes;
    *out = (struct gw_region){ .base = base, .bytes = bytes, .key = { mr->rkey }, .priv = mr };
    return GW_OK;
}

static void dereg(void *dev, struct gw_region *region)
{
    struct gw_verbs_dev *d = dev;

    if (region->priv == NULL)
        return;
    if (ibv_dereg_mr(region->priv) != 0)
        gw_verbs_log(d, GW_LOG_WARN, "verbs: %s keeps %zu bytes registered: %s", d->name, region->bytes, strerror(errno));
    d->registered -= region->bytes;
    region->priv = NULL;
    region->base = NULL;
}

/* Kernels that copy pinned pages at fork need no help, and the help costs a mapping for each registration. */
static void own_libraries(void)
{
    if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
        ibv_fork_init();
}

static const struct gw_lane_ops ops = {
    .size = sizeof(ops),
    .name = "verbs",
    .open = open_dev,
    .close_dev = close_dev,
    .make = gw_verbs_make,
    .local = gw_verbs_local,
    .join = gw_verbs_join,
    .reg = reg,
    .dereg = dereg,
    .msg = gw_verbs_msg,
    .put = gw_verbs_put,
    .poll = gw_verbs_poll,
    .shut = gw_verbs_shut,
    .close = gw_verbs_close,
};

GW_API extern const struct gw_lane_module gw_lane_module_v1;
const struct gw_lane_module gw_lane_module_v1 = {
    .size = sizeof(gw_lane_module_v1),
    .build = GW_LANE_BUILD,
    .ops = &ops,
    .own = own_libraries,
};
