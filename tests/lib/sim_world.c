/* sim_world.c - makes a world from its plan and turns it until every host is through.  Read sim_run. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 2000000, STEPS_A_LOOK = 16, IDLE_POLLS = 3 };

#define NS_PER_MS 1000000ull
#define STALL_NS (20000 * NS_PER_MS) /* this long nothing at all has happened */

/* ---- made ---- */

static void make_sides(struct sim_world *w)
{
    uint64_t bytes = (uint64_t)w->conf.slab_pieces * (w->conf.chunk_bytes + 4096);

    for (unsigned s = 0; s < SIM_SIDES; s++) {
        w->side[s].dev = gw_loop_dev(w->net, s);
        if (w->conf.slab_pieces > 0)
            gw_assert(gw_slab_new(&gw_loop_ops, w->side[s].dev, bytes, w->conf.chunk_bytes, &w->side[s].slab) == GW_OK);
    }
}

static void make_lane(struct sim_end *end)
{
    struct gw_place_table *places = NULL;

    gw_assert(gw_loop_ops.make(end->side->dev, &end->lane) == GW_OK);
    if (!end->is_send)
        gw_assert(gw_places_new(end->side->slab, end->lane->paths, &places) == GW_OK);
    end->lane->places = places;
}

static void join(struct sim_end *end)
{
    struct gw_blob blob;
    gw_err err;

    gw_assert(gw_loop_ops.local(end->peer->lane, &blob) == GW_OK);
    while ((err = gw_loop_ops.join(end->lane, &blob)) == GW_AGAIN)
        ;
    gw_assert(err == GW_OK);
}

static void make_end(struct sim_end *end)
{
    const struct sim_conf *conf = &end->world->conf;
    struct gw_comm_parts parts;

    join(end);
    sim_parts(end, &parts);
    gw_assert(gw_comm_new(&parts, &end->comm) == GW_OK);
    end->comm->number = end->comm->next = conf->first_number;
    /* as if megabytes had gone before: a link that nobody has measured is never coded for */
    end->comm->policy.rate_max = end->comm->policy.rate[0] = conf->known_rate;
    gw_assert(sim_host_reg(end) == GW_OK);
    end->next_ns = sim_below(end->world, end->period_ns);
}

static void describe(const struct sim_world *w)
{
    static const char *const modes[] = { "auto", "always", "never" };
    const struct sim_conf *c = &w->conf;
    const struct gw_loop_conf *l = &c->loop;

    sim_note(w, "lane: %s%s%s, %u paths, rate %llu, delay %llu, jitter %llu, again %u, split %u, hold %u, eager %u, queue %u, "
             "messages %u%s", l->caps & GW_LANE_FENCED ? "fenced" : "counts",
             l->caps & GW_LANE_SENT_IS_LANDED ? " sent-is-landed" : "", l->caps & GW_LANE_DIRECT ? " direct" : "", l->paths,
             (unsigned long long)l->rate, (unsigned long long)l->delay_ns, (unsigned long long)l->jitter_ns,
             l->again_permille, l->split_permille, l->hold_permille, l->eager_max, l->queue_depth, l->msg_depth,
             l->mute ? ", mute" : "");
    sim_note(w, "comms: %u of %s, %u messages, chunk %u, %u pieces a side, %s, workers %u and %u, check %u%s%s, number %u",
             c->pairs, c->alone ? "their own" : "one ctx", w->msgs, c->chunk_bytes, c->slab_pieces, modes[c->mode],
             w->side[0].workers, w->side[1].workers, c->check, c->coded ? "" : ", no codec",
             c->own_regions ? ", each its memory" : "", c->first_number);
    for (int i = 0; i < SIM_TROUBLES; i++)
        if (c->trouble[i].fault != SIM_NO_FAULT)
            sim_note(w, "trouble: %s of end %u at step %u", sim_fault_name[c->trouble[i].fault], c->trouble[i].end,
                     c->trouble[i].step);
}

static void make(struct sim_world *w)
{
    sim_plan(w);
    describe(w);
    gw_assert(gw_loop_net_new(&w->conf.loop, &w->net) == GW_OK);
    make_sides(w);
    for (unsigned i = 0; i < w->ends; i++)
        make_lane(&w->end[i]);
    for (unsigned i = 0; i < w->ends; i++)
        make_end(&w->end[i]);
}

/* ---- faults ---- */

static void kill_end(struct sim_end *end, int stopped)
{
    if (end->comm == NULL)
        return;
    if (!stopped)
        gw_loop_kill(end->lane);
    sim_jobs_drop(end);
    if (!end->control.closed)
        stopped ? sim_say_stall(end) : sim_say_bye(end, NULL);
    end->life = SIM_DEAD;
}

static void flip(struct sim_world *w, uint8_t *at, uint32_t bytes)
{
    if (bytes == 0)
        return;
    at[sim_below(w, bytes)] ^= (uint8_t)(1u << sim_below(w, 8));
    w->faulted = SIM_FLIP;
}

/* One bit of an open receive, in its buffer or in what it has lent: it may not have landed yet, and then nothing happens. */
static void flip_bit(struct sim_end *end)
{
    struct sim_world *w = end->world;
    const struct sim_op *op = end->comm != NULL && end->open > 0 ? &end->op[sim_below(w, end->open)] : NULL;
    const struct gw_req *req = op ? op->req : NULL;
    const struct sim_msg *m;
    unsigned i;

    if (end->is_send || op == NULL || req->state != GW_REQ_MOVE || atomic_load(&end->comm->torn))
        return;
    i = (unsigned)sim_below(w, req->r.n);
    m = &end->msg[end->group[op->what].first + i];
    if (sim_percent(w, 50) && req->r.pieces > 0)
        flip(w, end->comm->lent[req->index * GW_PIECES_MAX].piece.base + GW_HEAD_BYTES, w->conf.chunk_bytes / 4);
    else if (!req->r.buf[i].done)
        flip(w, m->dst.at, (uint32_t)gw_min_u64(m->size, m->dst.cap));
}

static void fault_now(struct sim_world *w, enum sim_fault fault, struct sim_end *end)
{
    if (end->comm == NULL || sim_host_through(end) || end->life == SIM_CLOSING)
        return;
    if (fault == SIM_FLIP) {
        flip_bit(end->is_send ? end->peer : end);
        return;
    }
    sim_note(w, "end %u: %s", end->index, sim_fault_name[fault]);
    w->faulted = fault;
    w->quiet = 0;
    for (unsigned i = 0; (fault == SIM_KILL || fault == SIM_STOP) && i < w->ends; i++)
        if (w->end[i].side == end->side)
            kill_end(&w->end[i], fault == SIM_STOP);
    if (fault == SIM_CUT)
        gw_loop_cut(end->lane);
    else if (fault == SIM_CLOSE)
        sim_host_close(end);
    else if (fault == SIM_DEREG)
        sim_host_dereg(end);
}

/* ---- time ---- */

static struct sim_end *first_host(struct sim_world *w)
{
    struct sim_end *first = NULL;

    for (unsigned i = 0; i < w->ends; i++)
        if (!sim_host_through(&w->end[i]) && (first == NULL || w->end[i].next_ns < first->next_ns))
            first = &w->end[i];
    return first;
}

static void set_now(struct sim_world *w, uint64_t now)
{
    w->now = gw_max_u64(w->now, now);
    gw_loop_set_now(w->net, w->now);
}

static int naps(const struct sim_world *w, const struct sim_end *end)
{
    return !sim_host_through(end) && end->nap_until_ns > w->now;
}

/* Has every host that is awake polled a few times since anything happened, or since the last skip? */
static int all_idle(struct sim_world *w)
{
    int idle = 1;

    for (unsigned i = 0; i < w->ends; i++) {
        w->end[i].idle = w->quiet == 0 ? 0 : w->end[i].idle;
        idle &= w->end[i].idle >= IDLE_POLLS || sim_host_through(&w->end[i]) || naps(w, &w->end[i]);
    }
    return idle;
}

/* Nobody gets anywhere: on to the next moment at which anything is due.  Nothing is: on to what only time may bring. */
static void skip_idle(struct sim_world *w)
{
    uint64_t due;

    if (!all_idle(w))
        return;
    due = gw_min_u64(gw_loop_next_due(w->net), gw_min_u64(sim_jobs_due(w), sim_words_due(w)));
    for (unsigned i = 0; i < w->ends; i++)
        if (naps(w, &w->end[i]))
            due = gw_min_u64(due, w->end[i].nap_until_ns);
    if (due == UINT64_MAX)
        due = w->skips++ < 100 ? w->now : w->now + 50 * NS_PER_MS;
    for (unsigned i = 0; i < w->ends; i++) {
        w->end[i].idle = 0;
        if (w->end[i].next_ns < due)
            w->end[i].next_ns = due + sim_below(w, w->end[i].period_ns);
    }
}

static void hear_words(struct sim_world *w)
{
    for (unsigned i = 0; i < w->ends; i++)
        sim_words_hear(&w->end[i], 0);
}

/* A host that finds nothing looks less often: real ones do not, but their empty polls say nothing new. */
static uint64_t patience(const struct sim_end *host)
{
    return host->period_ns << gw_min_u64(host->idle / IDLE_POLLS, 6);
}

static void step(struct sim_world *w, struct sim_end *host)
{
    uint64_t due = gw_min_u64(sim_jobs_due(w), sim_words_due(w));

    w->step++;
    for (int i = 0; i < SIM_TROUBLES; i++) {
        enum sim_fault fault = w->conf.trouble[i].fault;
        if (fault != SIM_NO_FAULT && fault != SIM_OVERSIZE && w->step == w->conf.trouble[i].step)
            fault_now(w, fault, &w->end[w->conf.trouble[i].end]);
    }
    if (due < host->next_ns) {
        set_now(w, due);
        w->quiet = 0;
        sim_jobs_run(w);
        hear_words(w);
    } else {
        set_now(w, host->next_ns);
        w->quiet++, host->idle++;
        sim_host_step(host);
        host->next_ns = w->now + 1 + sim_below(w, patience(host)) + host->pause_ns;
        host->pause_ns = 0;
        if (w->conf.nap_ns > 0 && sim_percent(w, 1))
            host->next_ns = host->nap_until_ns = host->next_ns + sim_below(w, w->conf.nap_ns);
        skip_idle(w);
    }
    if (w->step % STEPS_A_LOOK == 0)
        sim_look(w);
}

static void turn(struct sim_world *w)
{
    struct sim_end *host;
    uint64_t moved = 0;

    while (w->wrong[0] == 0 && (host = first_host(w)) != NULL) {
        step(w, host);
        if (w->quiet == 0)
            moved = w->now, w->skips = 0;
        if (w->now - moved > STALL_NS || w->step > STEPS_MAX)
            sim_wrong(w, "end %u (%s, %u open, %u of %u ended) never ends: fault %s", host->index,
                      host->is_send ? "send" : "recv", host->open, host->ended, host->msgs,
                      sim_fault_name[w->faulted]);
    }
}

/* ---- from beginning to end ---- */

static void unmake(struct sim_world *w)
{
    for (unsigned i = 0; i < w->ends; i++)
        sim_host_free(&w->end[i]);
    sim_look(w);
    for (int s = 0; s < SIM_SIDES; s++)
        gw_slab_free(w->side[s].slab);
}

int sim_run(uint64_t seed, int loud, char wrong[256])
{
    struct sim_world *w = calloc(1, sizeof *w);

    gw_assert(w != NULL);
    w->seed = w->chance = seed;
    w->loud = loud;
    make(w);
    turn(w);
    unmake(w);
    sim_judge(w);
    gw_loop_net_free(w->net);
    memcpy(wrong, w->wrong, sizeof w->wrong);
    free(w);
    return wrong[0] == 0;
}
