/* host.h - one NCCL net plugin, of any table version, called as NCCL calls it.
 *
 * Every version is lifted to one shape, that of v12.  What a caller of the plugin may rely on is
 * checked at each call: *request and *done go in poisoned, *request holds the 0x1 hint where NCCL
 * would set it, and a plugin that leaves one of them as it was gets ncclInternalError and a line in
 * the log.  The threads of NCCL are in host_run.h. */
#ifndef GW_TOOLS_HOST_H
#define GW_TOOLS_HOST_H

#include <stdbool.h>
#include <stdio.h>

#include <nccl/abi.h>

enum { HOST_VERSION_MIN = 6, HOST_VERSION_MAX = 12, HOST_TEST_SIZES = 64, HOST_LOG_LINE = 1024 };

union host_table {
    const char *name; /* slot 0 of every version */
    ncclNet_v6_t v6;
    ncclNet_v7_t v7;
    ncclNet_v8_t v8;
    ncclNet_v9_t v9;
    ncclNet_v10_t v10;
    ncclNet_v11_t v11;
    ncclNet_v12_t v12;
};

struct host_net {
    void *lib;
    int version;        /* of the table in use */
    union host_table t; /* a copy: NCCL too reads the table once */
    void *ctx;          /* of v11 and later */
    ncclNetCommConfig_v10_t config;
    int ndev;
};

typedef ncclNetProperties_v12_t host_props;

/* dlopen as NCCL does, and the newest table, or exactly `version` where that is not 0.  0, or -1
 * and a sentence. */
int host_load(struct host_net *net, const char *path, int version, char *why, size_t why_bytes);
void host_unload(struct host_net *net);

/* init, devices, getProperties(0); none of them, or no device, may fail.  The reason is in the log.
 */
ncclResult_t host_init(struct host_net *net, uint64_t comm_id);
void host_finalize(struct host_net *net);

ncclResult_t host_props_get(struct host_net *net, int dev, host_props *props);
void host_attr_set(struct host_net *net, const ncclNetAttr_v11_t *attr);
ncclResult_t host_listen(struct host_net *net, int dev, void *handle, void **comm_p);
ncclResult_t host_connect(struct host_net *net, int dev, void *handle, void **comm_p);
ncclResult_t host_accept(struct host_net *net, void *listen, void **comm_p);
ncclResult_t host_reg(struct host_net *net, void *comm, void *data, size_t size, int type,
                      void **mh_p);
ncclResult_t host_dereg(struct host_net *net, void *comm, void *mh);

/* *req_p is NULL where the plugin says "later". */
ncclResult_t host_isend(struct host_net *net, void *comm, void *data, size_t size, int tag,
                        void *mh, void **req_p);
/* n receives in one request, at most 8; `hint` is the 0x1 that NCCL leaves in *request for LL and
 * LL128 (v9 and later). */
ncclResult_t host_irecv(struct host_net *net, void *comm, int n, void **data, const size_t *sizes,
                        int *tags, void **mhs, bool hint, void **req_p);
ncclResult_t host_iflush(struct host_net *net, void *comm, int n, void **data, int *sizes,
                         void **mhs, void **req_p);
/* sizes: NULL, or HOST_TEST_SIZES ints, zeroed here. */
ncclResult_t host_test(struct host_net *net, void *req, int *done_p, int *sizes);
void host_consumed(struct host_net *net, void *comm, int n, void *req);

ncclResult_t host_close_send(struct host_net *net, void *comm);
ncclResult_t host_close_recv(struct host_net *net, void *comm);
ncclResult_t host_close_listen(struct host_net *net, void *comm);

/* The logger that plugins get.  It keeps the last WARN line and counts them, for all plugins of the
 * process, and copies what is at least as urgent as `level` to `out` (NULL: nothing). */
void host_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void host_log_copy(FILE *out, ncclDebugLogLevel level);
unsigned host_log_warns(void);
void host_log_last(char line[HOST_LOG_LINE]);
void host_log_reset(void);

const char *host_result_name(ncclResult_t result);
#endif
