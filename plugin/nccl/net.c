/* net.c - NCCL's words to ours and back; nothing is decided here.
 *
 * v11 is the native shape.  A shim carries the number of the first table version with its signature, and each table picks
 * the earliest that fits, so a new NCCL costs one table and two or three shims. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gradwire/gradwire.h>
#include <nccl/abi.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_RECVS = 8, SPEED_UNKNOWN_MBPS = 10000, MAX_COMMS = 65536 };

/* ---- NCCL's logger ---- */

static _Atomic(ncclDebugLogger_t) nccl_log;

/* With NCCL_DEBUG unset NCCL drops every WARN of a plugin: an error would be mute by default. */
static int nccl_is_mute(void)
{
    const char *debug = getenv("NCCL_DEBUG");
    const char *log = getenv("GRADWIRE_LOG");

    return (debug == NULL || *debug == 0) && (log == NULL || strcmp(log, "nccl") != 0);
}

static void write_line(void *arg, enum gw_log_level level, const char *line)
{
    ncclDebugLogger_t log = atomic_load(&nccl_log);

    (void)arg;
    if (level == GW_LOG_ERROR && nccl_is_mute())
        fprintf(stderr, "%s%s\n", strncmp(line, "gradwire", 8) == 0 ? "" : "gradwire: ", line);
    if (log == NULL)
        return;
    if (level <= GW_LOG_WARN)
        log(NCCL_LOG_WARN, NCCL_ALL, "gradwire", 0, "%s", line);
    else
        log(NCCL_LOG_INFO, level == GW_LOG_INFO ? NCCL_INIT | NCCL_NET : NCCL_NET, "gradwire", 0, "%s", line);
}

static const struct gw_logger logger = { .write = write_line, .level = GW_LOG_DEBUG };

/* ---- results ---- */

static ncclResult_t result(gw_err err)
{
    switch (err) {
    case GW_OK:
    case GW_AGAIN:
        return ncclSuccess;
    case GW_E_ARG:
        return ncclInvalidArgument;
    case GW_E_SIZE:
    case GW_E_SETTING:
        return ncclInvalidUsage;
    case GW_E_PROTO:
    case GW_E_CORRUPT:
    case GW_E_CHECK:
    case GW_E_LIMIT:
        return ncclInternalError;
    default:
        return gw_err_scope(err) == GW_SCOPE_COMM ? ncclRemoteError : ncclSystemError;
    }
}

/* ---- the ctx: one per communicator from v11 on, one per process before ---- */

static pthread_mutex_t common_lock = PTHREAD_MUTEX_INITIALIZER; /* guards common */
static struct gw_ctx *common; /* v6..v10 have no finalize: it stays until the process ends */

static ncclResult_t init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v10_t *config, ncclDebugLogger_t log,
                             ncclProfilerCallback_t prof)
{
    struct gw_config c = { .size = sizeof c, .log = &logger, .id = comm_id };
    struct gw_ctx *opened;
    gw_err err;

    (void)config, (void)prof;
    atomic_store(&nccl_log, log);
    err = gw_open(&c, &opened);
    /* set on success only: 2.28 hands it to the next plugin's finalize otherwise */
    if (err == GW_OK)
        *ctx = opened;
    return result(err);
}

static ncclResult_t init_v6(ncclDebugLogger_t log)
{
    struct gw_config c = { .size = sizeof c, .log = &logger, .flags = GW_CONFIG_ALONE };
    gw_err err = GW_OK;

    atomic_store(&nccl_log, log);
    pthread_mutex_lock(&common_lock);
    if (common == NULL)
        err = gw_open(&c, &common);
    pthread_mutex_unlock(&common_lock);
    return result(err);
}

static ncclResult_t init_v10(ncclDebugLogger_t log, ncclProfilerCallback_t prof)
{
    (void)prof;
    return init_v6(log);
}

/* 2.28 calls this with NULL after an init that failed. */
static ncclResult_t finalize_v11(void *ctx)
{
    gw_close(ctx);
    return ncclSuccess;
}

static int names_no_collective(uint32_t op)
{
    return op == NCCL_NET_ATTR_UNDEF || (op & ((1u << (ncclFuncAllReduce + 1)) - 1)) == 0;
}

/* A hint: for point-to-point traffic NCCL leaves the protocol of the last collective standing. */
static ncclResult_t set_attr_v11(void *ctx, ncclNetAttr_v11_t *attr)
{
    uint32_t proto = attr->proto;

    if (ctx != NULL)
        gw_hint_simple(ctx, names_no_collective(attr->op) || proto == NCCL_NET_ATTR_UNDEF ||
                                (proto & 1u << NCCL_PROTO_SIMPLE));
    return ncclSuccess;
}

/* ---- devices ---- */

static ncclResult_t devices_v6(int *ndev)
{
    *ndev = gw_devices(NULL);
    return ncclSuccess;
}

/* NCCL keeps the pointers longer than we keep the devices: every string that was ever handed out stays. */
static char *keep(const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards kept */
    static struct kept { struct kept *next; char text[]; } *kept;
    struct kept *k;

    if (text == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    for (k = kept; k != NULL && strcmp(k->text, text) != 0; k = k->next)
        ;
    if (k == NULL && (k = malloc(sizeof *k + strlen(text) + 1)) != NULL) {
        strcpy(k->text, text);
        k->next = kept, kept = k;
    }
    pthread_mutex_unlock(&lock);
    return k ? k->text : NULL;
}

static ncclResult_t props_v12(int dev, ncclNetProperties_v12_t *p)
{
    struct gw_device d;
    gw_err err = gw_device(NULL, dev, &d);

    memset(p, 0, sizeof *p);
    if (err != GW_OK)
        return result(err);
    p->name = keep(d.name);
    p->pciPath = keep(d.pci_path);
    p->guid = d.guid;
    p->ptrSupport = NCCL_PTR_HOST;
    p->speed = d.speed_mbps > 0 ? d.speed_mbps : SPEED_UNKNOWN_MBPS;
    p->port = d.port;
    p->maxComms = MAX_COMMS;
    p->maxRecvs = MAX_RECVS;
    p->netDeviceType = NCCL_NET_DEVICE_HOST;
    p->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
    p->vProps.ndevs = 1;
    p->vProps.devs[0] = dev;
    p->maxP2pBytes = p->maxCollBytes = NCCL_MAX_NET_SIZE;
    p->maxMultiRequestSize = 1;
    p->railId = p->planeId = NCCL_NET_ID_UNDEF;
    return p->name ? ncclSuccess : ncclSystemError;
}

/* Older layouts take what they have of the newest. */
#define COMMON_PROPS(to, from)                                                                           \
    (to)->name = (from)->name, (to)->pciPath = (from)->pciPath, (to)->guid = (from)->guid,               \
    (to)->ptrSupport = (from)->ptrSupport, (to)->speed = (from)->speed, (to)->port = (from)->port,       \
    (to)->latency = (from)->latency, (to)->maxComms = (from)->maxComms, (to)->maxRecvs = (from)->maxRecvs
#define DEVICE_PROPS(to, from) \
    (to)->netDeviceType = (from)->netDeviceType, (to)->netDeviceVersion = (from)->netDeviceVersion
#define SIZE_PROPS(to, from)                                                                             \
    (to)->regIsGlobal = (from)->regIsGlobal, (to)->forceFlush = (from)->forceFlush,                      \
    (to)->vProps.ndevs = (from)->vProps.ndevs, (to)->vProps.devs[0] = (from)->vProps.devs[0],            \
    (to)->maxP2pBytes = (from)->maxP2pBytes, (to)->maxCollBytes = (from)->maxCollBytes

#define PROPS_SHIM(v, more)                                                     \
    static ncclResult_t props_##v(int dev, ncclNetProperties_##v##_t *p)        \
    {                                                                           \
        ncclNetProperties_v12_t all;                                            \
        ncclResult_t r = props_v12(dev, &all);                                  \
        if (r != ncclSuccess)                                                   \
            return r;                                                           \
        memset(p, 0, sizeof *p);                                                \
        COMMON_PROPS(p, &all);                                                  \
        more;                                                                   \
        return ncclSuccess;                                                     \
    }
PROPS_SHIM(v6, (void)0)
PROPS_SHIM(v7, DEVICE_PROPS(p, &all))
PROPS_SHIM(v8, (DEVICE_PROPS(p, &all), p->regIsGlobal = all.regIsGlobal))
PROPS_SHIM(v9, (DEVICE_PROPS(p, &all), SIZE_PROPS(p, &all)))
PROPS_SHIM(v11, (DEVICE_PROPS(p, &all), SIZE_PROPS(p, &all), p->maxMultiRequestSize = all.maxMultiRequestSize))

/* ---- connections ---- */

static ncclResult_t listen_v11(void *ctx, int dev, void *handle, void **comm)
{
    struct gw_listener *l = NULL;
    gw_err err = ctx ? gw_listen(ctx, dev, handle, &l) : GW_E_ARG;

    *comm = l;
    return result(err);
}

static ncclResult_t listen_v6(int dev, void *handle, void **comm)
{
    return listen_v11(common, dev, handle, comm);
}

static ncclResult_t connect_v11(void *ctx, int dev, void *handle, void **comm, ncclNetDeviceHandle_t **dh)
{
    struct gw_comm *c = NULL;
    gw_err err = ctx ? gw_connect(ctx, dev, handle, &c) : GW_E_ARG;

    (void)dh;
    *comm = c;
    return result(err);
}

static ncclResult_t connect_v6(int dev, void *handle, void **comm)
{
    return connect_v11(common, dev, handle, comm, NULL);
}

static ncclResult_t connect_v7(int dev, void *handle, void **comm, ncclNetDeviceHandle_t **dh)
{
    return connect_v11(common, dev, handle, comm, dh);
}

static ncclResult_t connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                                ncclNetDeviceHandle_t **dh)
{
    (void)config;
    return connect_v11(common, dev, handle, comm, dh);
}

static ncclResult_t accept_v6(void *listen, void **comm)
{
    struct gw_comm *c = NULL;
    gw_err err = gw_accept(listen, &c);

    *comm = c;
    return result(err);
}

static ncclResult_t accept_v7(void *listen, void **comm, ncclNetDeviceHandle_t **dh)
{
    (void)dh;
    return accept_v6(listen, comm);
}

static ncclResult_t close_comm_v6(void *comm)
{
    gw_comm_close(comm);
    return ncclSuccess;
}

static ncclResult_t close_listen_v6(void *listen)
{
    gw_listener_close(listen);
    return ncclSuccess;
}

/* ---- memory ---- */

static ncclResult_t reg_v8(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct gw_mem *mem = NULL;
    gw_err err = type == NCCL_PTR_HOST ? gw_reg(comm, data, size, &mem) : GW_E_ARG;

    *mhandle = mem;
    return result(err);
}

static ncclResult_t reg_v6(void *comm, void *data, int size, int type, void **mhandle)
{
    return size < 0 ? ncclInvalidArgument : reg_v8(comm, data, (size_t)size, type, mhandle);
}

static ncclResult_t dereg_v6(void *comm, void *mhandle)
{
    gw_dereg(comm, mhandle);
    return ncclSuccess;
}

/* ---- messages ---- */

/* *request may hold a hint on entry: it is always overwritten. */
static ncclResult_t isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
    struct gw_req *req = NULL;
    gw_err err = gw_isend(comm, data, size, tag, mhandle, &req);

    *request = req;
    return result(err);
}

static ncclResult_t isend_v6(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    *request = NULL;
    return size < 0 ? ncclInvalidArgument : isend_v9(comm, data, (size_t)size, tag, mhandle, request);
}

static ncclResult_t isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle, void *phandle, void **request)
{
    (void)phandle;
    return isend_v9(comm, data, size, tag, mhandle, request);
}

static ncclResult_t irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, void **request)
{
    struct gw_req *req = NULL;
    gw_err err = gw_irecv(comm, n, data, sizes, tags, (struct gw_mem *const *)mhandles, &req);

    *request = req;
    return result(err);
}

static ncclResult_t irecv_v6(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
    size_t wide[MAX_RECVS];

    *request = NULL;
    if (n < 1 || n > MAX_RECVS)
        return ncclInvalidArgument;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return ncclInvalidArgument;
        wide[i] = (size_t)sizes[i];
    }
    return irecv_v9(comm, n, data, wide, tags, mhandles, request);
}

static ncclResult_t irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, void **phandles,
                              void **request)
{
    (void)phandles;
    return irecv_v9(comm, n, data, sizes, tags, mhandles, request);
}

/* Host memory only: what has landed is visible. */
static ncclResult_t iflush_v6(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    (void)comm, (void)n, (void)data, (void)sizes, (void)mhandles;
    *request = NULL;
    return ncclSuccess;
}

static ncclResult_t test_v6(void *request, int *done, int *sizes)
{
    size_t wide[MAX_RECVS];
    int n = gw_req_count(request); /* before the test: a finished request is gone */
    gw_err err;

    err = gw_test(request, done, wide);
    if (err != GW_OK)
        return result(err);
    for (int i = 0; *done && sizes != NULL && i < n; i++)
        sizes[i] = (int)wide[i];
    return ncclSuccess;
}

/* ---- tables ---- */

#define NET_HEAD(iv, pv, lv, cv, av, rv, sv)                                                              \
    .name = "gradwire", .init = init_##iv, .devices = devices_v6, .getProperties = props_##pv,            \
    .listen = listen_##lv, .connect = connect_##cv, .accept = accept_##av, .regMr = reg_##rv,             \
    .regMrDmaBuf = NULL, .deregMr = dereg_v6, .isend = isend_##sv, .irecv = irecv_##sv, .iflush = iflush_v6, \
    .test = test_v6, .closeSend = close_comm_v6, .closeRecv = close_comm_v6, .closeListen = close_listen_v6

extern const ncclNet_v6_t ncclNetPlugin_v6;
extern const ncclNet_v7_t ncclNetPlugin_v7;
extern const ncclNet_v8_t ncclNetPlugin_v8;
extern const ncclNet_v9_t ncclNetPlugin_v9;
extern const ncclNet_v10_t ncclNetPlugin_v10;
extern const ncclNet_v11_t ncclNetPlugin_v11;
extern const ncclNet_v12_t ncclNetPlugin_v12;

EXPORT const ncclNet_v6_t ncclNetPlugin_v6 = { NET_HEAD(v6, v6, v6, v6, v6, v6, v6) };
EXPORT const ncclNet_v7_t ncclNetPlugin_v7 = { NET_HEAD(v6, v7, v6, v7, v7, v6, v6) };
EXPORT const ncclNet_v8_t ncclNetPlugin_v8 = { NET_HEAD(v6, v8, v6, v7, v7, v8, v6) };
EXPORT const ncclNet_v9_t ncclNetPlugin_v9 = { NET_HEAD(v6, v9, v6, v7, v7, v8, v9) };
EXPORT const ncclNet_v10_t ncclNetPlugin_v10 = { NET_HEAD(v10, v9, v6, v10, v7, v8, v10) };
EXPORT const ncclNet_v11_t ncclNetPlugin_v11 = { NET_HEAD(v11, v11, v11, v11, v7, v8, v10), .finalize = finalize_v11,
                                                 .setNetAttr = set_attr_v11 };
EXPORT const ncclNet_v12_t ncclNetPlugin_v12 = { NET_HEAD(v11, v12, v11, v11, v7, v8, v10), .finalize = finalize_v11,
                                                 .setNetAttr = set_attr_v11 };
