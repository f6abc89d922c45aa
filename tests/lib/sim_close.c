/* sim_close.c - how a host takes its memory back and leaves.  Both wait for codec workers, on the thread that called; here the
 * world goes on turning instead, and the rest is done when the jobs are. */
#include "sim.h"

#include <stdlib.h>

static void take_back(struct sim_end *end)
{
    for (unsigned i = 0; i < end->msgs; i++)
        if (sim_buf_of(end, i)->lent)
            sim_buf_give(sim_buf_of(end, i), SIM_FILL_TAKEN);
}

/* gw_dereg on another thread waits for the workers; here the world goes on turning instead. */
void sim_host_dereg(struct sim_end *end)
{
    struct gw_comm *comm = end->comm;
    uint32_t live = 0;

    gw_list_each (node, &comm->mems)
        live += gw_list_of(node, struct gw_mem, link)->live;
    end->life = SIM_CLOSING;
    end->downs = 1;
    if (!sim_jobs_of(end) || live == 0 || !gw_comm_take(comm))
        return;
    end->took = 1;
    if (comm->outstanding > 0)
        gw_comm_fail(comm, GW_E_CLOSED, 0, "memory was deregistered with %u requests open on its connection",
                     comm->outstanding);
}

void sim_host_dereg_rest(struct sim_end *end)
{
    struct gw_comm *comm = end->comm;

    if (end->took)
        gw_comm_down(comm);
    gw_list_each_safe (node, tmp, &comm->mems)
        gw_dereg(comm, gw_list_of(node, struct gw_mem, link));
    for (unsigned i = 0; i < end->msgs; i++)
        sim_buf_of(end, i)->mem = NULL;
    take_back(end);
    end->took = end->downs = 0;
    end->life = SIM_FAILED;
    /* its requests end with an error where it was taken down; otherwise nothing will ever end them */
    if (!atomic_load(&comm->torn))
        end->life = SIM_LEAVES;
    end->pause_ns = sim_wide(end->world, 1000, 2000000);
}

/* As gw_comm_close and say_goodbye of connect.c: taken, told, down. */
void sim_host_close(struct sim_end *end)
{
    struct gw_comm *comm = end->comm;
    struct gw_bye bye = { .receiver = !comm->is.is_send, .lowest = comm->number };
    struct gw_fail f = { .code = GW_E_CLOSED };
    int broken = atomic_load(&comm->broken) != 0;

    sim_note(end->world, "end %u closes with %u open", end->index, comm->outstanding);
    end->took = (uint8_t)gw_comm_take(comm);
    end->downs = 0;
    if (!broken && comm->outstanding > 0)
        sim_say_fail(end, &f);
    sim_say_bye(end, !broken && comm->outstanding == 0 ? &bye : NULL);
    end->life = SIM_CLOSING;
}

void sim_host_close_rest(struct sim_end *end)
{
    struct gw_comm *comm = end->comm;

    if (end->took)
        gw_comm_down(comm);
    gw_list_each_safe (node, tmp, &comm->mems) {
        struct gw_mem *mem = gw_list_of(node, struct gw_mem, link);
        comm->is.lane->ops->dereg(comm->is.lane_dev, &mem->region);
        free(mem);
    }
    end->err = atomic_load(&comm->broken) ? comm->cause : end->err;
    comm->is.lane->ops->close(comm->is.lane);
    gw_comm_free(comm);
    end->comm = NULL;
    take_back(end);
    end->open = 0;
    end->life = SIM_CLOSED;
}

void sim_host_free(struct sim_end *end)
{
    enum sim_life was = end->life;

    if (end->comm == NULL)
        return;
    sim_jobs_drop(end);
    if (was != SIM_CLOSING || end->downs) {
        int took = end->took;
        sim_host_close(end);
        end->took |= (uint8_t)took;
    }
    sim_host_close_rest(end);
    end->life = was == SIM_RESTS || was == SIM_DEAD ? was : SIM_CLOSED;
}
