/* ctx.h - one opened gradwire, and what all of them in a process share: settings, devices, workers. */
#ifndef GW_CORE_CTX_H
#define GW_CORE_CTX_H

#include <pthread.h>
#include <stdatomic.h>

#include <control.h>
#include <gradwire/gradwire.h>
#include <lane.h>
#include <netdev.h>
#include <slab.h>

#include "comm.h"
#include "conf.h"

/* A device of the process.  The lane and the staging are opened with the first connection: UCX costs milliseconds and file
 * descriptors, and many processes only ask for the list. */
struct gw_dev {
    struct gw_netdev net;
    const struct gw_lane_ops *ops;
    void *lane_dev;
    struct gw_slab *slab;
};

struct gw_proc {
    pthread_mutex_t lock; /* guards all of this; never held on the message path */
    unsigned users;       /* ctxs and comms; a listener lives no longer than its ctx */
    struct gw_conf conf;
    struct gw_dev *dev;
    int devs;
    const struct gw_codec *codec; /* NULL: raw */
    char host[GW_HOST_MAX];
};

struct gw_ctx {
    const struct gw_logger *log;
    uint64_t id;
    uint32_t flags;
    _Atomic uint32_t hint_simple, said;
    pthread_mutex_t lock;   /* guards the lists; taken before the watcher's lock, never after it */
    struct gw_list comms, pendings, listeners;
    uint64_t pending_last;
};

extern struct gw_proc gw_proc;

gw_err gw_proc_enter(const struct gw_logger *log); /* loads settings and devices for the first user */
void gw_proc_leave(void);                          /* the last one takes them down */
gw_err gw_proc_device(int dev, const struct gw_logger *log, struct gw_dev **dev_p); /* with its lane open */

void gw_control_conf_fill(struct gw_control_conf *c, const struct gw_logger *log);

/* accept.c */
void gw_pending_free_all(struct gw_ctx *ctx);
#endif
