/* abi.h - the layouts by which NCCL and a network plugin know each other: net and CollNet tables v6 to v12.
 *
 * These are facts of a binary interface, written down from observation, not NCCL's own header.  A function type carries
 * the number of the first table version with that signature, so a table reads as a list of what changed when.  The
 * asserts at the end pin every size and offset; an LP64 machine is assumed. */
#ifndef GW_NCCL_ABI_H
#define GW_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results, log, limits --------------------------------------------------------------------------- */

/* 8 is the count of results up to 2.29 and a timeout from 2.30: no plugin should answer it. */
typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7 /* never from a plugin */
} ncclResult_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

typedef enum {
    NCCL_LOG_NONE = 0,
    NCCL_LOG_VERSION = 1,
    NCCL_LOG_WARN = 2,
    NCCL_LOG_INFO = 3,
    NCCL_LOG_ABORT = 4,
    NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;

/* Subsystems of an INFO or TRACE line; by default NCCL shows INIT, BOOTSTRAP and ENV only.  WARN goes out with ALL. */
enum {
    NCCL_INIT = 0x1,
    NCCL_COLL = 0x2,
    NCCL_P2P = 0x4,
    NCCL_SHM = 0x8,
    NCCL_NET = 0x10,
    NCCL_GRAPH = 0x20,
    NCCL_TUNING = 0x40,
    NCCL_ENV = 0x80,
    NCCL_ALLOC = 0x100,
    NCCL_CALL = 0x200,
    NCCL_PROXY = 0x400,
    NCCL_NVLS = 0x800,
    NCCL_BOOTSTRAP = 0x1000,
    NCCL_REG = 0x2000,
    NCCL_PROFILE = 0x4000,
    NCCL_RAS = 0x8000
};
#define NCCL_ALL (~0ul)

typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                                  const char *fmt, ...);
typedef ncclResult_t (*ncclProfilerCallback_t)(void **eHandle, int type, void *phandle, int64_t pluginId,
                                               void *extData);

enum {
    NCCL_PTR_HOST = 0x1,
    NCCL_PTR_CUDA = 0x2,
    NCCL_PTR_DMABUF = 0x4,

    NCCL_NET_HANDLE_MAXSIZE = 128,
    NCCL_NET_MAX_REQUESTS = 32,
    NCCL_NET_OPTIONAL_RECV_COMPLETION = 0x1, /* found in *request by irecv of v9 and later */
    NCCL_NET_MAX_DEVS_PER_NIC_V9 = 4,
    NCCL_NET_MAX_DEVS_PER_NIC_V12 = 8,
    NCCL_NET_TRAFFIC_CLASS_UNDEF = -1,
    NCCL_NET_ID_UNDEF = -1, /* railId and planeId of v12 */
    NCCL_NET_DEVICE_INVALID_VERSION = 0
};
#define NCCL_NET_ATTR_UNDEF 0xffffffffu
#define NCCL_MAX_NET_SIZE_BYTES (1ull << 40) /* bound of maxP2pBytes and maxCollBytes */
#define NCCL_MAX_NET_SIZE (1ull << 30)       /* the largest single message */

typedef enum { NCCL_NET_DEVICE_HOST = 0, NCCL_NET_DEVICE_UNPACK = 1 } ncclNetDeviceType;

/* Bit positions in the attributes of v11. */
enum { NCCL_ALGO_TREE = 0, NCCL_ALGO_RING = 1, NCCL_ALGO_PAT = 6 };
enum { NCCL_PROTO_LL = 0, NCCL_PROTO_LL128 = 1, NCCL_PROTO_SIMPLE = 2 };
enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4,
    ncclFuncSendRecv = 5,
    ncclFuncSend = 6,
    ncclFuncRecv = 7
};

/* ---- structs ---------------------------------------------------------------------------------------- */

typedef struct {
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    void *handle;
    size_t size;
    int needsProxyProgress;
} ncclNetDeviceHandle_t;

typedef struct {
    int ndevs;
    int devs[NCCL_NET_MAX_DEVS_PER_NIC_V9];
} ncclNetVDeviceProps_v9_t;

typedef struct {
    int ndevs;
    int devs[NCCL_NET_MAX_DEVS_PER_NIC_V12];
} ncclNetVDeviceProps_v12_t;

typedef struct {
    int trafficClass;
} ncclNetCommConfig_v10_t;

typedef struct {
    int32_t maxConcurrentPeers, minConcurrentPeers, maxFlowsPerPeer, minFlowsPerPeer;
} ncclNetCommAttr_v11_t;

typedef struct {
    ncclNetCommAttr_v11_t sendCommAttr, recvCommAttr;
    uint32_t op, algo, proto; /* bit masks; all ones: not known */
} ncclNetAttr_v11_t;

typedef struct {
    void *mhandle, *address;
    uint32_t size;
} ncclNetSGE_v8_t;

typedef struct {
    void *mhandle, *address;
    size_t size;
} ncclNetSGE_v9_t;

/* NCCL passes properties uninitialised: every member is filled, every time.  speed is in Mbit/s, latency in us. */
typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, speed, port;
    float latency;
    int maxComms, maxRecvs;
} ncclNetProperties_v6_t;

typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, speed, port;
    float latency;
    int maxComms, maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
} ncclNetProperties_v7_t;

typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, speed, port;
    float latency;
    int maxComms, maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, forceFlush, speed, port;
    float latency;
    int maxComms, maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    ncclNetVDeviceProps_v9_t vProps;
    size_t maxP2pBytes, maxCollBytes;
} ncclNetProperties_v9_t;

typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, forceFlush, speed, port;
    float latency;
    int maxComms, maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    ncclNetVDeviceProps_v9_t vProps;
    size_t maxP2pBytes, maxCollBytes;
    int maxMultiRequestSize;
} ncclNetProperties_v11_t;

typedef struct {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, forceFlush, speed, port;
    float latency;
    int maxComms, maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    ncclNetVDeviceProps_v12_t vProps;
    size_t maxP2pBytes, maxCollBytes;
    int maxMultiRequestSize;
    int16_t railId, planeId;
} ncclNetProperties_v12_t;

/* ---- function types, numbered by the first version with that signature ---------------------------------- */

#define GW_FN(name, ...) typedef ncclResult_t (*name)(__VA_ARGS__)

GW_FN(ncclNetInit_v6_t, ncclDebugLogger_t log);
GW_FN(ncclNetInit_v10_t, ncclDebugLogger_t log, ncclProfilerCallback_t prof);
GW_FN(ncclNetInit_v11_t, void **ctx, uint64_t commId, ncclNetCommConfig_v10_t *config, ncclDebugLogger_t log,
      ncclProfilerCallback_t prof);
GW_FN(ncclNetDevices_v6_t, int *ndev);
GW_FN(ncclNetGetProperties_v6_t, int dev, ncclNetProperties_v6_t *props);
GW_FN(ncclNetGetProperties_v7_t, int dev, ncclNetProperties_v7_t *props);
GW_FN(ncclNetGetProperties_v8_t, int dev, ncclNetProperties_v8_t *props);
GW_FN(ncclNetGetProperties_v9_t, int dev, ncclNetProperties_v9_t *props);
GW_FN(ncclNetGetProperties_v11_t, int dev, ncclNetProperties_v11_t *props);
GW_FN(ncclNetGetProperties_v12_t, int dev, ncclNetProperties_v12_t *props);
GW_FN(ncclNetListen_v6_t, int dev, void *handle, void **listenComm);
GW_FN(ncclNetListen_v11_t, void *ctx, int dev, void *handle, void **listenComm);
GW_FN(ncclNetConnect_v6_t, int dev, void *handle, void **sendComm);
GW_FN(ncclNetConnect_v7_t, int dev, void *handle, void **sendComm, ncclNetDeviceHandle_t **sendDevComm);
GW_FN(ncclNetConnect_v10_t, int dev, ncclNetCommConfig_v10_t *config, void *handle, void **sendComm,
      ncclNetDeviceHandle_t **sendDevComm);
GW_FN(ncclNetConnect_v11_t, void *ctx, int dev, void *handle, void **sendComm,
      ncclNetDeviceHandle_t **sendDevComm);
GW_FN(ncclNetAccept_v6_t, void *listenComm, void **recvComm);
GW_FN(ncclNetAccept_v7_t, void *listenComm, void **recvComm, ncclNetDeviceHandle_t **recvDevComm);
GW_FN(ncclNetRegMr_v6_t, void *comm, void *data, int size, int type, void **mhandle);
GW_FN(ncclNetRegMr_v8_t, void *comm, void *data, size_t size, int type, void **mhandle);
GW_FN(ncclNetRegMrDmaBuf_v6_t, void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
      void **mhandle);
GW_FN(ncclNetDeregMr_v6_t, void *comm, void *mhandle);
GW_FN(ncclNetIsend_v6_t, void *sendComm, void *data, int size, int tag, void *mhandle, void **request);
GW_FN(ncclNetIsend_v9_t, void *sendComm, void *data, size_t size, int tag, void *mhandle, void **request);
GW_FN(ncclNetIsend_v10_t, void *sendComm, void *data, size_t size, int tag, void *mhandle, void *phandle,
      void **request);
GW_FN(ncclNetIrecv_v6_t, void *recvComm, int n, void **data, int *sizes, int *tags, void **mhandles,
      void **request);
GW_FN(ncclNetIrecv_v9_t, void *recvComm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
      void **request);
GW_FN(ncclNetIrecv_v10_t, void *recvComm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
      void **phandles, void **request);
GW_FN(ncclNetIflush_v6_t, void *recvComm, int n, void **data, int *sizes, void **mhandles, void **request);
GW_FN(ncclNetTest_v6_t, void *request, int *done, int *sizes);
GW_FN(ncclNetClose_v6_t, void *comm);
GW_FN(ncclNetGetDeviceMr_v7_t, void *comm, void *mhandle, void **dptr_mhandle);
GW_FN(ncclNetIrecvConsumed_v7_t, void *recvComm, int n, void *request);
GW_FN(ncclNetMakeVDevice_v9_t, int *dev, ncclNetVDeviceProps_v9_t *props);
GW_FN(ncclNetMakeVDevice_v12_t, int *dev, ncclNetVDeviceProps_v12_t *props);
GW_FN(ncclNetFinalize_v11_t, void *ctx);
GW_FN(ncclNetSetNetAttr_v11_t, void *ctx, ncclNetAttr_v11_t *attr);

GW_FN(ncclCollInit_v11_t, void **ctx, uint64_t commId, ncclDebugLogger_t log);
GW_FN(ncclCollConnect_v6_t, void *handles[], int nranks, int rank, void *listenComm, void **collComm);
GW_FN(ncclCollReduceSupport_v6_t, ncclDataType_t type, ncclRedOp_t op, int *supported);
GW_FN(ncclCollIallreduce_v6_t, void *collComm, void *sendData, void *recvData, int count, ncclDataType_t type,
      ncclRedOp_t op, void *sendMhandle, void *recvMhandle, void **request);
GW_FN(ncclCollIallreduce_v9_t, void *collComm, void *sendData, void *recvData, size_t count,
      ncclDataType_t type, ncclRedOp_t op, void *sendMhandle, void *recvMhandle, void **request);
GW_FN(ncclCollIallgather_v8_t, void *collComm, void *sendData, int nRecvParts, ncclNetSGE_v8_t *recvParts,
      size_t bytesPerRank, size_t windowOffset, size_t windowBytes, void *sendMhandle, void **request);
GW_FN(ncclCollIallgather_v9_t, void *collComm, void *sendData, int nRecvParts, ncclNetSGE_v9_t *recvParts,
      size_t bytesPerRank, size_t windowOffset, size_t windowBytes, void *sendMhandle, void **request);
GW_FN(ncclCollIreducescatter_v8_t, void *collComm, int nSendParts, ncclNetSGE_v8_t *sendParts, void *recvData,
      size_t bytesPerRank, size_t windowOffset, size_t windowBytes, ncclDataType_t type, ncclRedOp_t op,
      void *recvMhandle, void **request);
GW_FN(ncclCollIreducescatter_v9_t, void *collComm, int nSendParts, ncclNetSGE_v9_t *sendParts, void *recvData,
      size_t bytesPerRank, size_t windowOffset, size_t windowBytes, ncclDataType_t type, ncclRedOp_t op,
      void *recvMhandle, void **request);
GW_FN(ncclCollIflush_v6_t, void *collComm, void *data, int size, void *mhandle, void **request);
#undef GW_FN

/* ---- tables: a version is the versions of its parts ----------------------------------------------------- */

#define GW_NET_SLOTS(init_v, props_v, listen_v, connect_v, accept_v, reg_v, send_v) \
    const char *name;                                                               \
    ncclNetInit_##init_v##_t init;                                                  \
    ncclNetDevices_v6_t devices;                                                    \
    ncclNetGetProperties_##props_v##_t getProperties;                               \
    ncclNetListen_##listen_v##_t listen;                                            \
    ncclNetConnect_##connect_v##_t connect;                                         \
    ncclNetAccept_##accept_v##_t accept;                                            \
    ncclNetRegMr_##reg_v##_t regMr;                                                 \
    ncclNetRegMrDmaBuf_v6_t regMrDmaBuf; /* may be NULL */                          \
    ncclNetDeregMr_v6_t deregMr;                                                    \
    ncclNetIsend_##send_v##_t isend;                                                \
    ncclNetIrecv_##send_v##_t irecv;                                                \
    ncclNetIflush_v6_t iflush;                                                      \
    ncclNetTest_v6_t test;                                                          \
    ncclNetClose_v6_t closeSend;                                                    \
    ncclNetClose_v6_t closeRecv;                                                    \
    ncclNetClose_v6_t closeListen;
#define GW_NET_SLOTS_V7                    \
    ncclNetGetDeviceMr_v7_t getDeviceMr;     /* may be NULL */ \
    ncclNetIrecvConsumed_v7_t irecvConsumed; /* may be NULL */
#define GW_NET_SLOTS_V11                                                    \
    ncclNetFinalize_v11_t finalize; /* never NULL; called with NULL too */ \
    ncclNetSetNetAttr_v11_t setNetAttr; /* may be NULL */

typedef struct {
    GW_NET_SLOTS(v6, v6, v6, v6, v6, v6, v6)
} ncclNet_v6_t;

typedef struct {
    GW_NET_SLOTS(v6, v7, v6, v7, v7, v6, v6)
    GW_NET_SLOTS_V7
} ncclNet_v7_t;

typedef struct {
    GW_NET_SLOTS(v6, v8, v6, v7, v7, v8, v6)
    GW_NET_SLOTS_V7
} ncclNet_v8_t;

typedef struct {
    GW_NET_SLOTS(v6, v9, v6, v7, v7, v8, v9)
    GW_NET_SLOTS_V7
    ncclNetMakeVDevice_v9_t makeVDevice; /* may be NULL */
} ncclNet_v9_t;

typedef struct {
    GW_NET_SLOTS(v10, v9, v6, v10, v7, v8, v10)
    GW_NET_SLOTS_V7
    ncclNetMakeVDevice_v9_t makeVDevice;
} ncclNet_v10_t;

typedef struct {
    GW_NET_SLOTS(v11, v11, v11, v11, v7, v8, v10)
    GW_NET_SLOTS_V7
    ncclNetMakeVDevice_v9_t makeVDevice;
    GW_NET_SLOTS_V11
} ncclNet_v11_t;

typedef struct {
    GW_NET_SLOTS(v11, v12, v11, v11, v7, v8, v10)
    GW_NET_SLOTS_V7
    ncclNetMakeVDevice_v12_t makeVDevice;
    GW_NET_SLOTS_V11
} ncclNet_v12_t;

#define GW_COLL_SLOTS(init_t, props_v, listen_v, reg_v, reduce_v) \
    const char *name;                                             \
    init_t init;                                                  \
    ncclNetDevices_v6_t devices;                                  \
    ncclNetGetProperties_##props_v##_t getProperties;             \
    ncclNetListen_##listen_v##_t listen;                          \
    ncclCollConnect_v6_t connect; /* may block */                 \
    ncclCollReduceSupport_v6_t reduceSupport;                     \
    ncclNetRegMr_##reg_v##_t regMr;                               \
    ncclNetRegMrDmaBuf_v6_t regMrDmaBuf;                          \
    ncclNetDeregMr_v6_t deregMr;                                  \
    ncclCollIallreduce_##reduce_v##_t iallreduce;
#define GW_COLL_SLOTS_V8(gather_v)                      \
    ncclCollIallgather_##gather_v##_t iallgather;         \
    ncclCollIreducescatter_##gather_v##_t ireducescatter;
#define GW_COLL_SLOTS_END         \
    ncclCollIflush_v6_t iflush;   \
    ncclNetTest_v6_t test;        \
    ncclNetClose_v6_t closeColl;  \
    ncclNetClose_v6_t closeListen;

typedef struct {
    GW_COLL_SLOTS(ncclNetInit_v6_t, v6, v6, v6, v6)
    GW_COLL_SLOTS_END
} ncclCollNet_v6_t;

typedef struct {
    GW_COLL_SLOTS(ncclNetInit_v6_t, v7, v6, v6, v6)
    GW_COLL_SLOTS_END
} ncclCollNet_v7_t;

typedef struct {
    GW_COLL_SLOTS(ncclNetInit_v6_t, v8, v6, v8, v6)
    GW_COLL_SLOTS_V8(v8)
    GW_COLL_SLOTS_END
} ncclCollNet_v8_t;

typedef struct {
    GW_COLL_SLOTS(ncclNetInit_v6_t, v9, v6, v8, v9)
    GW_COLL_SLOTS_V8(v9)
    GW_COLL_SLOTS_END
    ncclNetMakeVDevice_v9_t makeVDevice;
} ncclCollNet_v9_t;

typedef ncclCollNet_v9_t ncclCollNet_v10_t;

typedef struct {
    GW_COLL_SLOTS(ncclCollInit_v11_t, v11, v11, v8, v9)
    GW_COLL_SLOTS_V8(v9)
    GW_COLL_SLOTS_END
    ncclNetMakeVDevice_v9_t makeVDevice;
    ncclNetFinalize_v11_t finalize;
} ncclCollNet_v11_t;

typedef struct {
    GW_COLL_SLOTS(ncclCollInit_v11_t, v12, v11, v8, v9)
    GW_COLL_SLOTS_V8(v9)
    GW_COLL_SLOTS_END
    ncclNetMakeVDevice_v12_t makeVDevice;
    ncclNetFinalize_v11_t finalize;
} ncclCollNet_v12_t;

#undef GW_NET_SLOTS
#undef GW_NET_SLOTS_V7
#undef GW_NET_SLOTS_V11
#undef GW_COLL_SLOTS
#undef GW_COLL_SLOTS_V8
#undef GW_COLL_SLOTS_END

#ifdef __cplusplus
}
#endif

#include "abi_check.h"
#endif
