/* sim_judge.c - what must hold: while a world turns (sim_look), and when it has come to its end (sim_judge). */
#include "sim.h"

/* ---- pieces: each lent once, none lost ---- */

static void count_piece(struct sim_world *w, const struct sim_side *side, const struct gw_piece *p, uint64_t *seen)
{
    if (seen[p->index / 64] >> p->index % 64 & 1)
        sim_wrong(w, "side %d: piece %u is lent twice", (int)(side - w->side), p->index);
    seen[p->index / 64] |= 1ull << p->index % 64;
}

static void count_pieces(const struct sim_end *end, uint64_t *seen)
{
    const struct gw_comm *comm = end->comm;

    for (int i = 0; end->is_send && i < GW_CELLS; i++) {
        const struct gw_cell *c = &comm->cell[i];
        if (c->state == GW_CELL_WORK || c->state == GW_CELL_POSTED ||
            (c->state == GW_CELL_READY && c->job.err == GW_OK))
            count_piece(end->world, end->side, &c->piece, seen);
    }
    for (int i = 0; !end->is_send && i < GW_SLOTS; i++)
        for (int p = 0; p < comm->recv[i].r.pieces; p++)
            count_piece(end->world, end->side, &comm->lent[i * GW_PIECES_MAX + p].piece, seen);
}

static void look_at_slab(struct sim_world *w, struct sim_side *side)
{
    uint64_t seen[1] = { 0 };
    uint32_t left, total, peers = 0;

    if (side->slab == NULL)
        return;
    for (unsigned i = 0; i < w->ends; i++)
        if (w->end[i].side == side && w->end[i].comm != NULL && !w->end[i].is_send)
            count_pieces(&w->end[i], seen);
    peers = (uint32_t)__builtin_popcountll(seen[0]);
    if (peers > gw_slab_total(side->slab, GW_SLAB_PEER))
        sim_wrong(w, "side %d: %u pieces are lent to peers, more than half", (int)(side - w->side), peers);
    for (unsigned i = 0; i < w->ends; i++)
        if (w->end[i].side == side && w->end[i].comm != NULL && w->end[i].is_send)
            count_pieces(&w->end[i], seen);
    left = gw_slab_left(side->slab, GW_SLAB_PEER) + gw_slab_left(side->slab, GW_SLAB_OWN);
    total = gw_slab_total(side->slab, GW_SLAB_PEER) + gw_slab_total(side->slab, GW_SLAB_OWN);
    left += (uint32_t)__builtin_popcountll(seen[0]);
    if (left != total)
        sim_wrong(w, "side %d: %u of %u pieces are accounted for", (int)(side - w->side), left, total);
}

void sim_look(struct sim_world *w)
{
    for (int s = 0; s < SIM_SIDES; s++)
        look_at_slab(w, &w->side[s]);
}

/* ---- judged ---- */

static void judge_memory(struct sim_world *w)
{
    for (unsigned i = 0; i < w->msgs; i++)
        if (!sim_buf_whole(&w->msg[i].src) || !sim_buf_whole(&w->msg[i].dst))
            sim_wrong(w, "message %u of %u bytes: its memory changed where nothing was offered", i, w->msg[i].size);
}

/* Each comm prints its root cause once; with a ctx, each side does. */
static void judge_lines(struct sim_world *w)
{
    unsigned of_side[SIM_SIDES] = { 0 }, broke[SIM_SIDES] = { 0 };

    for (unsigned i = 0; i < w->ends; i++) {
        struct sim_end *end = &w->end[i];
        unsigned s = (unsigned)(end->side - w->side), must = end->err != GW_OK && end->life != SIM_DEAD;
        of_side[s] += end->lines, broke[s] += must;
        if (w->conf.alone && (end->lines > 1 || end->lines < must))
            sim_wrong(w, "end %u failed with %s and printed %u lines", end->index, gw_err_name(end->err), end->lines);
    }
    for (int s = 0; s < SIM_SIDES && !w->conf.alone; s++)
        if (of_side[s] > 1 || (broke[s] > 0 && of_side[s] == 0))
            sim_wrong(w, "side %d: %u comms failed and printed %u lines", s, broke[s], of_side[s]);
}

static void judge_peace(struct sim_world *w)
{
    for (unsigned i = 0; i < w->ends; i++) {
        const struct sim_end *end = &w->end[i];
        if (end->err != GW_OK || end->lines > 0)
            sim_wrong(w, "end %u fails without a fault: %s %.150s", i, gw_err_name(end->err), end->line);
        else if (end->ended != end->msgs)
            sim_wrong(w, "end %u: %u of %u messages", i, end->ended, end->msgs);
    }
}

void sim_judge(struct sim_world *w)
{
    struct gw_loop_stats stats;

    gw_loop_stats(w->net, &stats);
    if ((w->conf.loop.caps & GW_LANE_FENCED) && stats.no_receive > 0)
        sim_wrong(w, "%llu puts found no receive posted", (unsigned long long)stats.no_receive);
    if (stats.refused > 0)
        sim_wrong(w, "%llu puts were refused, %llu of them misplaced", (unsigned long long)stats.refused,
                  (unsigned long long)stats.misplaced);
    if (stats.changed > 0)
        sim_wrong(w, "%llu sources changed before the lane was through with them", (unsigned long long)stats.changed);
    judge_memory(w);
    judge_lines(w);
    if (w->faulted == SIM_NO_FAULT && w->conf.trouble[0].fault != SIM_OVERSIZE)
        judge_peace(w);
}
