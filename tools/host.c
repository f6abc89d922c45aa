/* host.c - every table version behind one face.  Read host_load, then the calls in the order of a
 * connection's life. */
#include "host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

/* ---- log ------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* guards all of it */
    FILE *out;
    ncclDebugLogLevel level;
    unsigned warns;
    char last[HOST_LOG_LINE];
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

void host_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
              const char *fmt, ...)
{
    char text[HOST_LOG_LINE];
    va_list ap;

    (void)flags, (void)file, (void)line;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&logged.lock);
    if (level == NCCL_LOG_WARN) {
        logged.warns++;
        memcpy(logged.last, text, sizeof(text));
    }
    if (logged.out != NULL && level <= logged.level)
        fprintf(logged.out, "plugin: %s\n", text);
    pthread_mutex_unlock(&logged.lock);
}

void host_log_copy(FILE *out, ncclDebugLogLevel level)
{
    pthread_mutex_lock(&logged.lock);
    logged.out = out;
    logged.level = level;
    pthread_mutex_unlock(&logged.lock);
}

unsigned host_log_warns(void)
{
    pthread_mutex_lock(&logged.lock);
    unsigned n = logged.warns;
    pthread_mutex_unlock(&logged.lock);
    return n;
}

void host_log_last(char line[HOST_LOG_LINE])
{
    pthread_mutex_lock(&logged.lock);
    memcpy(line, logged.last, HOST_LOG_LINE);
    pthread_mutex_unlock(&logged.lock);
}

void host_log_reset(void)
{
    pthread_mutex_lock(&logged.lock);
    logged.warns = 0;
    logged.last[0] = '\0';
    pthread_mutex_unlock(&logged.lock);
}

const char *host_result_name(ncclResult_t result)
{
    static const char *const names[] = {"success",        "unhandled CUDA error", "system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error",   "in progress"};
    return (unsigned)result < sizeof(names) / sizeof(*names) ? names[result] : "unknown result";
}

/* The plugin broke the interface: said once here, failed like an error of its own. */
static ncclResult_t breach(const struct host_net *net, const char *what)
{
    host_log(NCCL_LOG_WARN, NCCL_ALL, __FILE__, __LINE__, "plugin %s breaks the v%d interface: %s",
             net->t.name, net->version, what);
    return ncclInternalError;
}

/* ---- load and init --------------------------------------------------------------------------- */

static size_t table_bytes(int version)
{
    static const size_t bytes[] = {
        sizeof(ncclNet_v6_t),  sizeof(ncclNet_v7_t),  sizeof(ncclNet_v8_t), sizeof(ncclNet_v9_t),
        sizeof(ncclNet_v10_t), sizeof(ncclNet_v11_t), sizeof(ncclNet_v12_t)};
    return bytes[version - HOST_VERSION_MIN];
}

static const void *table_find(void *lib, int version)
{
    char symbol[32];

    snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
    return dlsym(lib, symbol);
}

int host_load(struct host_net *net, const char *path, int version, char *why, size_t why_bytes)
{
    const void *table = NULL;
    int v = version != 0 ? version : HOST_VERSION_MAX;

    memset(net, 0, sizeof(*net));
    if (v < HOST_VERSION_MIN || v > HOST_VERSION_MAX) {
        snprintf(why, why_bytes, "net table v%d is not known here, v%d to v%d are", v,
                 HOST_VERSION_MIN, HOST_VERSION_MAX);
        return -1;
    }
    net->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (net->lib == NULL) {
        snprintf(why, why_bytes, "%s", dlerror());
        return -1;
    }
    for (; v >= HOST_VERSION_MIN && table == NULL; v--) {
        table = table_find(net->lib, v);
        net->version = v;
        if (version != 0)
            break;
    }
    if (table == NULL) {
        snprintf(why, why_bytes, "%s exports no ncclNetPlugin_v%d%s", path,
                 version != 0 ? version : 6, version != 0 ? "" : " to v12");
        host_unload(net);
        return -1;
    }
    memcpy(&net->t, table, table_bytes(net->version));
    net->config.trafficClass = NCCL_NET_TRAFFIC_CLASS_UNDEF;
    return 0;
}

void host_unload(struct host_net *net)
{
    if (net->lib != NULL)
        dlclose(net->lib);
    net->lib = NULL;
}

static ncclResult_t no_profiler(void **handle, int type, void *phandle, int64_t id, void *data)
{
    (void)handle, (void)type, (void)phandle, (void)id, (void)data;
    return ncclSuccess;
}

ncclResult_t host_init(struct host_net *net, uint64_t comm_id)
{
    ncclResult_t res;
    host_props props;

    if (net->version >= 11)
        res = net->t.v11.init(&net->ctx, comm_id, &net->config, host_log, no_profiler);
    else if (net->version == 10)
        res = net->t.v10.init(host_log, no_profiler);
    else
        res = net->t.v6.init(host_log);
    if (res != ncclSuccess)
        return res;
    net->ndev = -1;
    res = net->t.v6.devices(&net->ndev);
    if (res == ncclSuccess && net->ndev <= 0)
        res = breach(net, "init succeeded but there is no device");
    if (res == ncclSuccess)
        res = host_props_get(net, 0, &props);
    if (res != ncclSuccess)
        host_finalize(net);
    return res;
}

void host_finalize(struct host_net *net)
{
    if (net->version >= 11)
        net->t.v11.finalize(net->ctx);
    net->ctx = NULL;
}

/* ---- properties ------------------------------------------------------------------------------ */

/* The members that v6 to v8 share with v12 under one name. */
#define LIFT_COMMON(to, from)                                                                      \
    ((to)->name = (from)->name, (to)->pciPath = (from)->pciPath, (to)->guid = (from)->guid,        \
     (to)->ptrSupport = (from)->ptrSupport, (to)->speed = (from)->speed,                           \
     (to)->port = (from)->port, (to)->latency = (from)->latency,                                   \
     (to)->maxComms = (from)->maxComms, (to)->maxRecvs = (from)->maxRecvs)
#define LIFT_V9(to, from)                                                                          \
    (LIFT_COMMON(to, from), (to)->regIsGlobal = (from)->regIsGlobal,                               \
     (to)->forceFlush = (from)->forceFlush, (to)->netDeviceType = (from)->netDeviceType,           \
     (to)->netDeviceVersion = (from)->netDeviceVersion, (to)->maxP2pBytes = (from)->maxP2pBytes,   \
     (to)->maxCollBytes = (from)->maxCollBytes, (to)->vProps.ndevs = (from)->vProps.ndevs,         \
     memcpy((to)->vProps.devs, (from)->vProps.devs, sizeof((from)->vProps.devs)))

static ncclResult_t props_old(struct host_net *net, int dev, host_props *props)
{
    union {
        ncclNetProperties_v6_t v6;
        ncclNetProperties_v7_t v7;
        ncclNetProperties_v8_t v8;
    } p;
    ncclResult_t res;

    memset(&p, 0x5a, sizeof(p));
    if (net->version == 6) {
        res = net->t.v6.getProperties(dev, &p.v6);
        LIFT_COMMON(props, &p.v6);
    } else if (net->version == 7) {
        res = net->t.v7.getProperties(dev, &p.v7);
        LIFT_COMMON(props, &p.v7);
        props->netDeviceType = p.v7.netDeviceType;
    } else {
        res = net->t.v8.getProperties(dev, &p.v8);
        LIFT_COMMON(props, &p.v8);
        props->netDeviceType = p.v8.netDeviceType;
        props->regIsGlobal = p.v8.regIsGlobal;
    }
    props->maxP2pBytes = NCCL_MAX_NET_SIZE;
    props->maxCollBytes = NCCL_MAX_NET_SIZE / 2;
    props->vProps.ndevs = 1;
    props->vProps.devs[0] = dev;
    return res;
}

static ncclResult_t props_call(struct host_net *net, int dev, host_props *props)
{
    ncclNetProperties_v9_t v9;
    ncclNetProperties_v11_t v11;
    ncclResult_t res;

    if (net->version >= 12)
        return net->t.v12.getProperties(dev, props);
    props->railId = props->planeId = NCCL_NET_ID_UNDEF;
    props->maxMultiRequestSize = 1;
    if (net->version == 11) {
        memset(&v11, 0x5a, sizeof(v11));
        res = net->t.v11.getProperties(dev, &v11);
        LIFT_V9(props, &v11);
        props->maxMultiRequestSize = v11.maxMultiRequestSize;
        return res;
    }
    if (net->version < 9)
        return props_old(net, dev, props);
    memset(&v9, 0x5a, sizeof(v9));
    res = net->t.v9.getProperties(dev, &v9);
    LIFT_V9(props, &v9);
    return res;
}

ncclResult_t host_props_get(struct host_net *net, int dev, host_props *props)
{
    memset(props, net->version >= 12 ? 0x5a : 0, sizeof(*props));
    ncclResult_t res = props_call(net, dev, props);
    if (res != ncclSuccess)
        return res;
    if (props->maxP2pBytes < 1 || props->maxP2pBytes > NCCL_MAX_NET_SIZE_BYTES)
        return breach(net, "maxP2pBytes is not in 1 byte to 1 TiB");
    if (props->maxCollBytes < 1 || props->maxCollBytes > NCCL_MAX_NET_SIZE_BYTES)
        return breach(net, "maxCollBytes is not in 1 byte to 1 TiB");
    if (props->netDeviceType != NCCL_NET_DEVICE_HOST)
        return breach(net, "the device is not of type host");
    return ncclSuccess;
}

void host_attr_set(struct host_net *net, const ncclNetAttr_v11_t *attr)
{
    ncclNetAttr_v11_t copy = *attr;

    if (net->version >= 11 && net->t.v11.setNetAttr != NULL)
        net->t.v11.setNetAttr(net->ctx, &copy);
}

/* ---- connections ----------------------------------------------------------------------------- */

ncclResult_t host_listen(struct host_net *net, int dev, void *handle, void **comm_p)
{
    *comm_p = NULL;
    memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
    ncclResult_t res = net->version >= 11 ? net->t.v11.listen(net->ctx, dev, handle, comm_p)
                                          : net->t.v6.listen(dev, handle, comm_p);
    if (res == ncclSuccess && *comm_p == NULL)
        return breach(net, "listen succeeded without a comm");
    return res;
}

ncclResult_t host_connect(struct host_net *net, int dev, void *handle, void **comm_p)
{
    ncclNetDeviceHandle_t *dev_comm = NULL;

    *comm_p = NULL;
    if (net->version >= 11)
        return net->t.v11.connect(net->ctx, dev, handle, comm_p, &dev_comm);
    if (net->version == 10)
        return net->t.v10.connect(dev, &net->config, handle, comm_p, &dev_comm);
    if (net->version >= 7)
        return net->t.v7.connect(dev, handle, comm_p, &dev_comm);
    return net->t.v6.connect(dev, handle, comm_p);
}

ncclResult_t host_accept(struct host_net *net, void *listen, void **comm_p)
{
    ncclNetDeviceHandle_t *dev_comm = NULL;

    *comm_p = NULL;
    return net->version >= 7 ? net->t.v7.accept(listen, comm_p, &dev_comm)
                             : net->t.v6.accept(listen, comm_p);
}

ncclResult_t host_reg(struct host_net *net, void *comm, void *data, size_t size, int type,
                      void **mh_p)
{
    ncclResult_t res;

    *mh_p = NULL;
    if (net->version >= 8)
        res = net->t.v8.regMr(comm, data, size, type, mh_p);
    else if (size <= INT32_MAX)
        res = net->t.v6.regMr(comm, data, (int)size, type, mh_p);
    else
        return ncclInternalError;
    if (res == ncclSuccess && *mh_p == NULL)
        return breach(net, "regMr succeeded without a handle");
    return res;
}

ncclResult_t host_dereg(struct host_net *net, void *comm, void *mh)
{
    return net->t.v6.deregMr(comm, mh);
}

/* ---- data ------------------------------------------------------------------------------------ */

static char poison; /* its address is no request of any plugin */

ncclResult_t host_isend(struct host_net *net, void *comm, void *data, size_t size, int tag,
                        void *mh, void **req_p)
{
    ncclResult_t res;

    *req_p = &poison;
    if (net->version >= 10)
        res = net->t.v10.isend(comm, data, size, tag, mh, NULL, req_p);
    else if (net->version == 9)
        res = net->t.v9.isend(comm, data, size, tag, mh, req_p);
    else if (size <= NCCL_MAX_NET_SIZE)
        res = net->t.v6.isend(comm, data, (int)size, tag, mh, req_p);
    else
        return ncclInternalError;
    if (res == ncclSuccess && *req_p == &poison)
        return breach(net, "isend left *request as it was");
    return res;
}

static ncclResult_t irecv_old(struct host_net *net, void *comm, int n, void **data,
                              const size_t *sizes, int *tags, void **mhs, void **req_p)
{
    int small[8];

    for (int i = 0; i < n; i++)
        small[i] = (int)(sizes[i] <= NCCL_MAX_NET_SIZE ? sizes[i] : NCCL_MAX_NET_SIZE);
    *req_p = NULL; /* NCCL takes the hint away from plugins of these versions */
    return net->t.v6.irecv(comm, n, data, small, tags, mhs, req_p);
}

ncclResult_t host_irecv(struct host_net *net, void *comm, int n, void **data, const size_t *sizes,
                        int *tags, void **mhs, bool hint, void **req_p)
{
    void *const hinted = (void *)(uintptr_t)NCCL_NET_OPTIONAL_RECV_COMPLETION;
    void *phandles[8] = {0};
    size_t room[8];
    ncclResult_t res;

    if (n < 1 || n > 8)
        return ncclInvalidArgument;
    if (net->version < 9)
        return irecv_old(net, comm, n, data, sizes, tags, mhs, req_p);
    memcpy(room, sizes, sizeof(*sizes) * (size_t)n);
    *req_p = hint ? hinted : NULL;
    if (net->version >= 10)
        res = net->t.v10.irecv(comm, n, data, room, tags, mhs, phandles, req_p);
    else
        res = net->t.v9.irecv(comm, n, data, room, tags, mhs, req_p);
    if (res == ncclSuccess && *req_p == hinted)
        return breach(net, "irecv left the hint 0x1 in *request");
    return res;
}

ncclResult_t host_iflush(struct host_net *net, void *comm, int n, void **data, int *sizes,
                         void **mhs, void **req_p)
{
    *req_p = NULL;
    return net->t.v6.iflush == NULL ? ncclSuccess
                                    : net->t.v6.iflush(comm, n, data, sizes, mhs, req_p);
}

ncclResult_t host_test(struct host_net *net, void *req, int *done_p, int *sizes)
{
    *done_p = 0x5a5a5a5a;
    if (sizes != NULL)
        memset(sizes, 0, HOST_TEST_SIZES * sizeof(*sizes));
    ncclResult_t res = net->t.v6.test(req, done_p, sizes);
    if (res == ncclSuccess && *done_p != 0 && *done_p != 1)
        return breach(net, "test left *done neither 0 nor 1");
    return res;
}

void host_consumed(struct host_net *net, void *comm, int n, void *req)
{
    if (net->version >= 7 && net->t.v7.irecvConsumed != NULL)
        net->t.v7.irecvConsumed(comm, n, req);
}

ncclResult_t host_close_send(struct host_net *net, void *comm)
{
    return net->t.v6.closeSend(comm);
}

ncclResult_t host_close_recv(struct host_net *net, void *comm)
{
    return net->t.v6.closeRecv(comm);
}

ncclResult_t host_close_listen(struct host_net *net, void *comm)
{
    return net->t.v6.closeListen(comm);
}
