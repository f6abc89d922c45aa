/* gradwire.h - move messages between two processes, coded where that pays.
 *
 * A ctx is one opened gradwire: settings, devices, logger.  A listener hands out 128 bytes that the caller carries to its
 * peer by whatever means it has; the peer connects with them.  A comm is one-way, from connect to accept.  Nothing here
 * blocks: GW_AGAIN means call again.
 *
 * Threads: a ctx may be used by any number of threads.  A comm's gw_isend, gw_irecv and gw_test belong to one thread at a
 * time; gw_reg and gw_dereg may run beside them on another; gw_comm_close comes after the last of them has returned. */
#ifndef GRADWIRE_GRADWIRE_H
#define GRADWIRE_GRADWIRE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "log.h"
#include "stat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gw_ctx;
struct gw_listener;
struct gw_comm;
struct gw_mem;
struct gw_req;

enum { GW_HANDLE_SIZE = 128, GW_SIZE_MAX = 1 << 30, GW_RECV_BUFFERS_MAX = 8 };

struct gw_config {
    uint32_t size;               /* sizeof(struct gw_config) */
    const struct gw_logger *log; /* as long-lived as the ctx; NULL: silent */
    uint64_t id;                 /* of the communicator, for lines; 0 */
    uint32_t flags;              /* enum gw_config_flags */
};

/* ALONE: the comms of this ctx have nothing to do with each other.  Without it the failure of one ends them all, here and
 * at their peers, and only the first is printed. */
enum gw_config_flags { GW_CONFIG_ALONE = 1 };

struct gw_device {
    const char *name;     /* "eth0"; lives as long as the ctx */
    const char *pci_path; /* NULL for a virtual interface */
    uint64_t guid;
    int speed_mbps;       /* 0: unknown */
    int port;
    uint32_t caps;        /* 0 */
};

/* Reads the settings, finds the devices.  GW_E_SETTING, GW_E_DEVICE (no usable interface), GW_E_NOMEM; one line says why. */
GW_API gw_err gw_open(const struct gw_config *config, struct gw_ctx **ctx_p);
/* Closes half-open connections and listeners that are still there.  Every comm must have been closed.  NULL is fine. */
GW_API void gw_close(struct gw_ctx *ctx);

GW_API int gw_devices(const struct gw_ctx *ctx);
GW_API gw_err gw_device(const struct gw_ctx *ctx, int dev, struct gw_device *out);

/* Opens a door on device dev and fills the handle: GW_HANDLE_SIZE bytes of the caller's.  GW_E_ARG (no such device), GW_E_SYS
 * (descriptors, ports), GW_E_DEVICE, GW_E_NOMEM. */
GW_API gw_err gw_listen(struct gw_ctx *ctx, int dev, void *handle, struct gw_listener **listener_p);
GW_API void gw_listener_close(struct gw_listener *listener);
/* GW_AGAIN until a peer has come: without a bound, as a rank may be late, but said once after the connect timeout; with
 * GRADWIRE_STALL_TIMEOUT GW_E_TIMEOUT after both.  From its hello on at most the connect timeout.  The listener stays usable. */
GW_API gw_err gw_accept(struct gw_listener *listener, struct gw_comm **comm_p);
/* The handle's memory must be the same and writable until this answers something else than GW_AGAIN.  GW_E_PROTO or GW_E_VERSION
 * (not a handle of ours), GW_E_REFUSED, GW_E_SETTING, GW_E_TIMEOUT, GW_E_PEER, GW_E_SYS, GW_E_NOMEM; one line was printed. */
GW_API gw_err gw_connect(struct gw_ctx *ctx, int dev, void *handle, struct gw_comm **comm_p);
/* Never waits for the peer.  Open requests are given up; the peer is told. */
GW_API void gw_comm_close(struct gw_comm *comm);

/* Registers [base, base+bytes) for messages of this comm.  Any thread.  GW_E_NOMEM, or what the lane's device answers. */
GW_API gw_err gw_reg(struct gw_comm *comm, void *base, size_t bytes, struct gw_mem **mem_p);
/* After this nothing of the peer's lands in the memory.  With receives open on it the comm is broken. */
GW_API void gw_dereg(struct gw_comm *comm, struct gw_mem *mem);

/* GW_AGAIN: could not start, call again.  GW_OK: data must stay unchanged until gw_test says done.  A broken comm hands out
 * a request too; its gw_test says what is wrong.  size may be 0; at most GW_SIZE_MAX. */
GW_API gw_err gw_isend(struct gw_comm *comm, const void *data, size_t size, int tag, struct gw_mem *mem,
                       struct gw_req **req_p);
/* n buffers, at most GW_RECV_BUFFERS_MAX, matched by tag; equal tags in order.  The arrays are read before this returns.
 * GW_AGAIN: 32 receives are open.  Both answer GW_E_ARG for a comm of the other direction and sizes out of range. */
GW_API gw_err gw_irecv(struct gw_comm *comm, int n, void *const *data, const size_t *sizes, const int *tags,
                       struct gw_mem *const *mems, struct gw_req **req_p);
/* *done_p becomes 0 or 1.  When done, sizes (may be NULL) gets 1 (send) or n (receive) byte counts and the request is gone.
 * An error ends the request too. */
GW_API gw_err gw_test(struct gw_req *req, int *done_p, size_t *sizes);
/* How many sizes gw_test writes. */
GW_API int gw_req_count(const struct gw_req *req);

/* What the host says of the traffic to come: 0 may carry flags that are polled (not coded), 1 plain data. */
GW_API void gw_hint_simple(struct gw_ctx *ctx, int simple);

/* This process's counters. */
GW_API void gw_stat_read(struct gw_stat_page *out);

/* One setting: what it is, what it is now, and where that was found.  Strings are valid during the call only. */
struct gw_setting_info {
    const char *name;    /* "GRADWIRE_CHUNK" */
    const char *type;    /* "one of", "number", "bytes", "time", "bool", "text", "ports", "passed on" */
    const char *allowed; /* "16K to 16M in steps of 16K" */
    const char *help;    /* one sentence */
    const char *value;   /* as it could be written in a file */
    const char *fallback; /* the default, likewise */
    const char *origin;  /* "default", "environment", "~/.gradwire.conf:3" */
};

/* Reads the settings as gw_open would and walks the table.  GW_E_SETTING after a line for each that cannot be used; the walk
 * is made all the same. */
GW_API gw_err gw_settings(const struct gw_logger *log, void (*each)(void *arg, const struct gw_setting_info *s), void *arg);

/* "gradwire 0.1.0". */
GW_API const char *gw_version(void);

#ifdef __cplusplus
}
#endif
#endif
