/* abi_check.h - every size and offset of abi.h, asserted.  Included by abi.h alone. */
#ifndef GW_NCCL_ABI_CHECK_H
#define GW_NCCL_ABI_CHECK_H

#include "abi.h"

#ifdef __cplusplus
#define GW_SAME(a, b) static_assert((a) == (b), #a " is not " #b)
#else
#define GW_SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
#endif
#define GW_AT(type, member, at) GW_SAME(offsetof(type, member), at)

GW_SAME(sizeof(void *), 8);
GW_SAME(sizeof(size_t), 8);
GW_SAME(sizeof(ncclResult_t), 4);
GW_SAME(sizeof(ncclDataType_t), 4);
GW_SAME(sizeof(ncclRedOp_t), 4);
GW_SAME(sizeof(ncclDebugLogLevel), 4);

GW_SAME(sizeof(ncclNetDeviceHandle_t), 32);
GW_AT(ncclNetDeviceHandle_t, netDeviceType, 0);
GW_AT(ncclNetDeviceHandle_t, netDeviceVersion, 4);
GW_AT(ncclNetDeviceHandle_t, handle, 8);
GW_AT(ncclNetDeviceHandle_t, size, 16);
GW_AT(ncclNetDeviceHandle_t, needsProxyProgress, 24);

GW_SAME(sizeof(ncclNetVDeviceProps_v9_t), 20);
GW_SAME(sizeof(ncclNetVDeviceProps_v12_t), 36);
GW_SAME(sizeof(ncclNetCommConfig_v10_t), 4);
GW_SAME(sizeof(ncclNetCommAttr_v11_t), 16);
GW_SAME(sizeof(ncclNetAttr_v11_t), 44);
GW_AT(ncclNetAttr_v11_t, sendCommAttr, 0);
GW_AT(ncclNetAttr_v11_t, recvCommAttr, 16);
GW_AT(ncclNetAttr_v11_t, op, 32);
GW_AT(ncclNetAttr_v11_t, algo, 36);
GW_AT(ncclNetAttr_v11_t, proto, 40);
GW_SAME(sizeof(ncclNetSGE_v8_t), 24);
GW_SAME(sizeof(ncclNetSGE_v9_t), 24);

/* ---- properties ------------------------------------------------------------------------------------- */

#define GW_PROPS(type, size, speed_at)           \
    GW_SAME(sizeof(type), size);                 \
    GW_AT(type, name, 0);                        \
    GW_AT(type, pciPath, 8);                     \
    GW_AT(type, guid, 16);                       \
    GW_AT(type, ptrSupport, 24);                 \
    GW_AT(type, speed, speed_at);                \
    GW_AT(type, port, (speed_at) + 4);           \
    GW_AT(type, latency, (speed_at) + 8);        \
    GW_AT(type, maxComms, (speed_at) + 12);      \
    GW_AT(type, maxRecvs, (speed_at) + 16)
#define GW_PROPS_V7(type, speed_at)                  \
    GW_AT(type, netDeviceType, (speed_at) + 20);     \
    GW_AT(type, netDeviceVersion, (speed_at) + 24)
#define GW_PROPS_V9(type, p2p_at)                \
    GW_AT(type, regIsGlobal, 28);                \
    GW_AT(type, forceFlush, 32);                 \
    GW_AT(type, vProps, 64);                     \
    GW_AT(type, maxP2pBytes, p2p_at);            \
    GW_AT(type, maxCollBytes, (p2p_at) + 8)

GW_PROPS(ncclNetProperties_v6_t, 48, 28);
GW_PROPS(ncclNetProperties_v7_t, 56, 28);
GW_PROPS_V7(ncclNetProperties_v7_t, 28);
GW_PROPS(ncclNetProperties_v8_t, 64, 32);
GW_PROPS_V7(ncclNetProperties_v8_t, 32);
GW_AT(ncclNetProperties_v8_t, regIsGlobal, 28);
GW_PROPS(ncclNetProperties_v9_t, 104, 36);
GW_PROPS_V7(ncclNetProperties_v9_t, 36);
GW_PROPS_V9(ncclNetProperties_v9_t, 88);
GW_PROPS(ncclNetProperties_v11_t, 112, 36);
GW_PROPS_V7(ncclNetProperties_v11_t, 36);
GW_PROPS_V9(ncclNetProperties_v11_t, 88);
GW_AT(ncclNetProperties_v11_t, maxMultiRequestSize, 104);
GW_PROPS(ncclNetProperties_v12_t, 128, 36);
GW_PROPS_V7(ncclNetProperties_v12_t, 36);
GW_PROPS_V9(ncclNetProperties_v12_t, 104);
GW_AT(ncclNetProperties_v12_t, maxMultiRequestSize, 120);
GW_AT(ncclNetProperties_v12_t, railId, 124);
GW_AT(ncclNetProperties_v12_t, planeId, 126);

/* ---- tables: slot n stands at 8 n ----------------------------------------------------------------------- */

#define GW_NET(type, slots)            \
    GW_SAME(sizeof(type), (slots) * 8); \
    GW_AT(type, name, 0);              \
    GW_AT(type, init, 8);              \
    GW_AT(type, devices, 16);          \
    GW_AT(type, getProperties, 24);    \
    GW_AT(type, listen, 32);           \
    GW_AT(type, connect, 40);          \
    GW_AT(type, accept, 48);           \
    GW_AT(type, regMr, 56);            \
    GW_AT(type, regMrDmaBuf, 64);      \
    GW_AT(type, deregMr, 72);          \
    GW_AT(type, isend, 80);            \
    GW_AT(type, irecv, 88);            \
    GW_AT(type, iflush, 96);           \
    GW_AT(type, test, 104);            \
    GW_AT(type, closeSend, 112);       \
    GW_AT(type, closeRecv, 120);       \
    GW_AT(type, closeListen, 128)
#define GW_NET_V7(type)            \
    GW_AT(type, getDeviceMr, 136); \
    GW_AT(type, irecvConsumed, 144)
#define GW_NET_V11(type)            \
    GW_AT(type, makeVDevice, 152);  \
    GW_AT(type, finalize, 160);     \
    GW_AT(type, setNetAttr, 168)

GW_NET(ncclNet_v6_t, 17);
GW_NET(ncclNet_v7_t, 19);
GW_NET_V7(ncclNet_v7_t);
GW_NET(ncclNet_v8_t, 19);
GW_NET_V7(ncclNet_v8_t);
GW_NET(ncclNet_v9_t, 20);
GW_NET_V7(ncclNet_v9_t);
GW_AT(ncclNet_v9_t, makeVDevice, 152);
GW_NET(ncclNet_v10_t, 20);
GW_NET_V7(ncclNet_v10_t);
GW_AT(ncclNet_v10_t, makeVDevice, 152);
GW_NET(ncclNet_v11_t, 22);
GW_NET_V7(ncclNet_v11_t);
GW_NET_V11(ncclNet_v11_t);
GW_NET(ncclNet_v12_t, 22);
GW_NET_V7(ncclNet_v12_t);
GW_NET_V11(ncclNet_v12_t);

#define GW_COLL(type, slots, flush_at)          \
    GW_SAME(sizeof(type), (slots) * 8);         \
    GW_AT(type, connect, 40);                   \
    GW_AT(type, reduceSupport, 48);             \
    GW_AT(type, regMr, 56);                     \
    GW_AT(type, regMrDmaBuf, 64);               \
    GW_AT(type, deregMr, 72);                   \
    GW_AT(type, iallreduce, 80);                \
    GW_AT(type, iflush, flush_at);              \
    GW_AT(type, test, (flush_at) + 8);          \
    GW_AT(type, closeColl, (flush_at) + 16);    \
    GW_AT(type, closeListen, (flush_at) + 24)
#define GW_COLL_V8(type)         \
    GW_AT(type, iallgather, 88); \
    GW_AT(type, ireducescatter, 96)

GW_COLL(ncclCollNet_v6_t, 15, 88);
GW_COLL(ncclCollNet_v7_t, 15, 88);
GW_COLL(ncclCollNet_v8_t, 17, 104);
GW_COLL_V8(ncclCollNet_v8_t);
GW_COLL(ncclCollNet_v9_t, 18, 104);
GW_COLL_V8(ncclCollNet_v9_t);
GW_AT(ncclCollNet_v9_t, makeVDevice, 136);
GW_COLL(ncclCollNet_v11_t, 19, 104);
GW_COLL_V8(ncclCollNet_v11_t);
GW_AT(ncclCollNet_v11_t, makeVDevice, 136);
GW_AT(ncclCollNet_v11_t, finalize, 144);
GW_COLL(ncclCollNet_v12_t, 19, 104);
GW_COLL_V8(ncclCollNet_v12_t);
GW_AT(ncclCollNet_v12_t, makeVDevice, 136);
GW_AT(ncclCollNet_v12_t, finalize, 144);

#undef GW_SAME
#undef GW_AT
#undef GW_PROPS
#undef GW_PROPS_V7
#undef GW_PROPS_V9
#undef GW_NET
#undef GW_NET_V7
#undef GW_NET_V11
#undef GW_COLL
#undef GW_COLL_V8
#endif
