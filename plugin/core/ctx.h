/* ctx.h - one opened gradwire, and what all of them in a process share: settings, devices, workers. */
#ifndef GW_CORE_CTX_H
#define GW_CORE_CTX_H

#include <pthread.h>
#include <stdatomic.h>

#include <control.h>
#include <gradwire/gradwire.h>
#include <hca.h>
#include <lane.h>
#include <netdev.h>
#include <slab.h>

#include "comm.h"
#include "conf.h"

/* Descriptors that must be free before a connection is made (control socket, worker, its sockets, and what these take while they are
 * made), before a device is opened, before a door is. */
enum { GW_FDS_COMM = 12, GW_FDS_DEVICE = 24, GW_FDS_DOOR = 4, GW_FDS_MAX = 32 };

/* A device of the process.  The lane and the staging are opened with the first connection: UCX costs milliseconds and file
 * descriptors, and many processes only ask for the list. */
struct gw_dev {
    struct gw_netdev net; /* where the control connections go; of a verbs lane the name is the port's */
    struct gw_hca hca;    /* verbs: the port; else without a name */
    const struct gw_lane_ops *ops;
    void *lane_dev;
    struct gw_slab *slab;
    struct gw_logger lane_log;
};

struct gw_proc {
    pthread_mutex_t lock; /* guards all of this; never held on the message path */
    unsigned users;       /* ctxs and comms; a listener lives no longer than its ctx */
    struct gw_conf conf;
    struct gw_dev *dev;
    int devs;
    const struct gw_codec *codec; /* NULL: raw */
    const struct gw_lane_ops *ops;
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
/* GW_E_SYS after one line where fewer than `want` descriptors can still be opened: libraries below us abort on it. */
gw_err gw_proc_descriptors(const struct gw_logger *log, const char *op, int want);
gw_err gw_proc_device(int dev, const struct gw_logger *log, struct gw_dev **dev_p); /* with its lane open */

/* ports.c: what devices there are, for the lane that was chosen.  One line says why there is none. */
gw_err gw_proc_find(const struct gw_logger *log);
/* NCCL's own settings for a cluster's fabric, where ours are unset. */
void gw_proc_obey(struct gw_conf *conf, const struct gw_logger *log);

/* What a lane said first since this was cleared on this thread: why it cannot be opened, for the one line about it. */
char *gw_lane_words(void);

void gw_control_conf_fill(struct gw_control_conf *c, const struct gw_logger *log);

/* accept.c */
void gw_pending_free_all(struct gw_ctx *ctx);
#endif
