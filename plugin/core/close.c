/* close.c - the memory of a comm, and how a comm goes: registered, deregistered, closed. */
#include "ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stat.h"

/* How long the watcher reads on after our bye: a peer that is still busy closes late. */
enum { LINGER_MS = 5000 };

/* ---- memory ---- */

gw_err gw_reg(struct gw_comm *comm, void *base, size_t bytes, struct gw_mem **mem_p)
{
    struct gw_mem *mem = calloc(1, sizeof *mem);
    gw_err err;

    if (mem == NULL)
        return GW_E_NOMEM;
    /* only receive-side registrations may be written from afar */
    err = comm->is.lane->ops->reg(comm->is.lane_dev, base, bytes, !comm->is.is_send, &mem->region);
    if (err != GW_OK) {
        free(mem);
        return err;
    }
    mem->comm = comm;
    pthread_mutex_lock(&comm->mem_lock);
    mem->ordinal = atomic_fetch_add(&comm->mem_count, 1);
    gw_list_append(&comm->mems, &mem->link);
    pthread_mutex_unlock(&comm->mem_lock);
    *mem_p = mem;
    return GW_OK;
}

void gw_dereg(struct gw_comm *comm, struct gw_mem *mem)
{
    if (mem == NULL)
        return;
    if (atomic_load_explicit(&mem->live, memory_order_acquire) > 0 && gw_comm_take(comm)) {
        if (comm->outstanding > 0)
            gw_comm_fail(comm, GW_E_CLOSED, 0, "memory was deregistered with %u requests open on its connection",
                         comm->outstanding);
        gw_comm_down(comm);
    }
    pthread_mutex_lock(&comm->mem_lock);
    gw_list_remove(&mem->link);
    pthread_mutex_unlock(&comm->mem_lock);
    comm->is.lane->ops->dereg(comm->is.lane_dev, &mem->region);
    free(mem);
}

/* ---- close ---- */

static void fill_bye(const struct gw_comm *comm, struct gw_bye *bye)
{
    memset(bye, 0, sizeof *bye);
    bye->receiver = !comm->is.is_send;
    bye->lowest = comm->number; /* nothing is open: a close with open requests says fail instead */
}

static void say_goodbye(struct gw_comm *comm)
{
    struct gw_fail f = { .code = GW_E_CLOSED, .pid = (uint32_t)getpid() };
    struct gw_bye bye;
    int in_order = !atomic_load(&comm->broken) && comm->outstanding == 0;

    if (!atomic_load(&comm->broken) && comm->outstanding > 0) {
        snprintf(f.text, sizeof f.text, "closed with %u of its requests open", comm->outstanding);
        snprintf(f.host, sizeof f.host, "%s", gw_proc.host);
        gw_control_fail(comm->control, &f);
    }
    fill_bye(comm, &bye);
    gw_control_bye(comm->control, in_order ? &bye : NULL, LINGER_MS);
}

void gw_comm_close(struct gw_comm *comm)
{
    int taken;

    if (comm == NULL)
        return;
    taken = gw_comm_take(comm);
    pthread_mutex_lock(&comm->ctx->lock);
    gw_list_remove(&comm->link);
    pthread_mutex_unlock(&comm->ctx->lock);
    GW_PHASE(bye);
    say_goodbye(comm);
    GW_PHASE(shut);
    if (taken)
        gw_comm_down(comm);
    GW_PHASE(return);
    gw_list_each_safe (node, tmp, &comm->mems) {
        struct gw_mem *mem = gw_list_of(node, struct gw_mem, link);
        comm->is.lane->ops->dereg(comm->is.lane_dev, &mem->region);
        free(mem);
    }
    comm->is.lane->ops->close(comm->is.lane);
    gw_comm_free(comm);
    __atomic_fetch_sub(&gw_stat->comms_open, 1, __ATOMIC_RELAXED);
    gw_proc_leave();
    GW_PHASE(linger);
}
