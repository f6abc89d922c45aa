/* sim_env.c - what a comm is given of the world: clock, workers, control socket, logger, each of them virtual. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- chance ---- */

static uint64_t draw(struct sim_world *w)
{
    uint64_t z = w->chance += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t sim_below(struct sim_world *w, uint64_t n)
{
    return n == 0 ? 0 : draw(w) % n;
}

int sim_percent(struct sim_world *w, unsigned percent)
{
    return sim_below(w, 100) < percent;
}

uint64_t sim_wide(struct sim_world *w, uint64_t lo, uint64_t hi)
{
    unsigned doublings = 0;

    while (lo << (doublings + 1) <= hi)
        doublings++;
    lo <<= sim_below(w, doublings + 1);
    return lo + sim_below(w, gw_min_u64(lo, hi - lo) + 1);
}

/* ---- words for people ---- */

void sim_wrong(struct sim_world *w, const char *fmt, ...)
{
    va_list ap;

    if (w->wrong[0] != 0)
        return;
    va_start(ap, fmt);
    vsnprintf(w->wrong, sizeof w->wrong, fmt, ap);
    va_end(ap);
}

void sim_note(const struct sim_world *w, const char *fmt, ...)
{
    va_list ap;

    if (!w->loud)
        return;
    printf("%12.3f us  %5u  ", (double)w->now / 1000, w->step);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

static void write_line(void *arg, enum gw_log_level level, const char *line)
{
    struct sim_end *end = arg;

    if (level != GW_LOG_ERROR)
        return;
    end->lines++;
    snprintf(end->line, sizeof end->line, "%s", line);
    sim_note(end->world, "end %u: %s", end->index, line);
}

/* ---- clock and workers ---- */

static uint64_t now_ns(void *arg)
{
    return ((struct sim_side *)arg)->world->now;
}

static unsigned workers(void *arg)
{
    return ((struct sim_side *)arg)->workers;
}

/* Now and then a worker loses its core. */
static uint64_t run_time(struct sim_world *w, const struct gw_job *job)
{
    size_t bytes = job->kind == GW_JOB_ENCODE ? job->src_len : job->dst_cap;
    uint64_t ns = (w->conf.codec_ns_kib * bytes >> 10) + 1;

    return ns / 2 + sim_below(w, ns * 2) + (sim_percent(w, 3) ? sim_below(w, 20 * ns) : 0);
}

static gw_err post(void *arg, struct gw_job *job)
{
    struct sim_side *side = arg;
    struct sim_world *w = side->world;
    struct sim_vjob *v = &side->job[side->jobs];
    unsigned who = 0;

    if (side->workers == 0 || side->jobs >= side->ring)
        return GW_AGAIN;
    for (unsigned i = 1; i < side->workers; i++)
        who = side->free_ns[i] < side->free_ns[who] ? i : who;
    v->job = job;
    v->start = gw_max_u64(w->now, side->free_ns[who]);
    side->free_ns[who] = v->due = v->start + run_time(w, job);
    side->jobs++;
    return GW_OK;
}

void sim_env_init(struct sim_side *side)
{
    side->env = (struct gw_env){ .now_ns = now_ns, .post = post, .workers = workers, .arg = side };
}

uint64_t sim_jobs_due(const struct sim_world *w)
{
    uint64_t due = UINT64_MAX;

    for (int s = 0; s < SIM_SIDES; s++)
        for (unsigned i = 0; i < w->side[s].jobs; i++)
            due = gw_min_u64(due, w->side[s].job[i].due);
    return due;
}

static void *scratch(void)
{
    static void *ws;

    if (ws == NULL)
        ws = aligned_alloc(64, (gw_codec_ws_max() + 64) / 64 * 64);
    gw_assert(ws != NULL);
    return ws;
}

/* The bytes are touched at the last moment, so that memory given back too early shows. */
static void run_job(struct sim_side *side, unsigned i)
{
    struct sim_vjob v = side->job[i];

    side->job[i] = side->job[--side->jobs];
    gw_job_run(v.job, scratch(), now_ns, side);
    v.job->start_ns = v.start;
    v.job->end_ns = v.due;
    v.job->cpu_ns = v.due - v.start;
}

void sim_jobs_run(struct sim_world *w)
{
    for (int s = 0; s < SIM_SIDES; s++)
        for (unsigned i = w->side[s].jobs; i-- > 0;)
            if (w->side[s].job[i].due <= w->now)
                run_job(&w->side[s], i);
}

static int is_of(const struct sim_end *end, const struct gw_job *job)
{
    const struct gw_comm *comm = end->comm;
    const struct gw_cell *cells = comm->is.is_send ? comm->cell : comm->lent;
    uintptr_t n = comm->is.is_send ? GW_CELLS : GW_SLOTS * GW_PIECES_MAX;

    return (uintptr_t)job - (uintptr_t)cells < n * sizeof *cells;
}

int sim_jobs_of(const struct sim_end *end)
{
    for (unsigned i = 0; i < end->side->jobs; i++)
        if (is_of(end, end->side->job[i].job))
            return 1;
    return 0;
}

void sim_jobs_drop(struct sim_end *end)
{
    struct sim_side *side = end->side;

    for (unsigned i = side->jobs; i-- > 0;)
        if (is_of(end, side->job[i].job)) {
            atomic_store(&side->job[i].job->done, 1);
            side->job[i] = side->job[--side->jobs];
        }
}

/* ---- the control socket ---- */

static void say(struct sim_end *end, const struct sim_word *what)
{
    struct sim_control *c = &end->control;
    struct sim_world *w = end->world;
    struct sim_word *word = &c->word[c->said];

    gw_assert(c->said < GW_LEN(c->word));
    *word = *what;
    word->arrives = w->now + w->conf.control_ns / 2 + sim_below(w, w->conf.control_ns);
    if (c->said > 0)
        word->arrives = gw_max_u64(word->arrives, c->word[c->said - 1].arrives);
    word->noticed = word->arrives + sim_below(w, w->conf.control_ns);
    if (c->said > 0)
        word->noticed = gw_max_u64(word->noticed, c->word[c->said - 1].noticed);
    c->said++;
}

void sim_say_fail(struct sim_end *end, const struct gw_fail *f)
{
    struct sim_word word = { .sign = GW_SIGN_FAIL, .fail = *f };

    if (end->control.said_last)
        return;
    end->control.said_last = 1;
    say(end, &word);
}

void sim_say_bye(struct sim_end *end, const struct gw_bye *bye)
{
    struct sim_word word = { .sign = GW_SIGN_BYE };

    if (bye != NULL && !end->control.said_last) {
        word.bye = *bye;
        say(end, &word);
    }
    end->control.said_last = end->control.closed = 1;
    word.sign = GW_SIGN_EOF;
    say(end, &word);
}

/* No word of the stopped one, or of its host: its peer's watcher has lost patience. */
void sim_say_stall(struct sim_end *end)
{
    struct sim_word word = { .sign = sim_percent(end->world, 50) ? GW_SIGN_STALL : GW_SIGN_TIMEOUT };

    say(end, &word);
    end->control.said_last = end->control.closed = 1;
}

uint64_t sim_words_due(const struct sim_world *w)
{
    uint64_t due = UINT64_MAX;

    for (unsigned i = 0; i < w->ends; i++) {
        const struct sim_control *c = &w->end[i].control;
        if (c->heard < c->said)
            due = gw_min_u64(due, c->word[c->heard].noticed);
    }
    return due;
}

/* As the watcher does it: each is written once, before its sign. */
static void hear(struct sim_end *end, const struct sim_word *word)
{
    struct gw_watched *watched;

    if (end->comm == NULL || end->control.closed)
        return;
    sim_note(end->world, "end %u hears sign %u", end->index, word->sign);
    watched = &end->comm->watched;
    if (watched->signs & word->sign)
        return;
    if (word->sign == GW_SIGN_FAIL)
        watched->fail = word->fail;
    if (word->sign == GW_SIGN_BYE)
        watched->bye = word->bye;
    if (word->sign == GW_SIGN_STALL || word->sign == GW_SIGN_TIMEOUT)
        watched->age_ms = 1000;
    atomic_fetch_or_explicit(&watched->signs, word->sign, memory_order_release);
}

/* Signs of life are missed only by who waits for something (gw_control_tick): then again, a while later. */
static int not_missed_yet(const struct sim_end *end, struct sim_word *word)
{
    if (word->sign != GW_SIGN_STALL || end->comm == NULL || atomic_load(&end->comm->watched.outstanding) > 0)
        return 0;
    word->arrives = word->noticed = end->world->now + 1000000;
    return 1;
}

void sim_words_hear(struct sim_end *end, int socket)
{
    struct sim_control *c = &end->peer->control;

    while (c->heard < c->said) {
        struct sim_word *word = &c->word[c->heard];
        if ((socket ? word->arrives : word->noticed) > end->world->now || not_missed_yet(end, word))
            return;
        c->heard++;
        hear(end, word);
    }
}

static void tell_fail(void *arg, const struct gw_fail *f)
{
    sim_say_fail(arg, f);
}

static void listen_now(void *arg)
{
    sim_words_hear(arg, 1);
}

/* As connect.c does it: every other control socket of this communicator carries the cause. */
static void broke(void *arg, const struct gw_fail *f)
{
    struct sim_end *end = arg;
    struct gw_fail told_fail = *f;

    told_fail.told = 1;
    for (unsigned i = 0; i < end->world->ends; i++) {
        struct sim_end *other = &end->world->end[i];
        if (other != end && other->side == end->side && other->comm != NULL)
            sim_say_fail(other, &told_fail);
    }
}

void sim_parts(struct sim_end *end, struct gw_comm_parts *parts)
{
    const struct sim_conf *conf = &end->world->conf;
    struct sim_side *side = end->side;

    end->log = (struct gw_logger){ .write = write_line, .arg = end, .level = GW_LOG_ERROR };
    *parts = (struct gw_comm_parts){
        .env = &side->env,
        .log = &end->log,
        .lane = end->lane,
        .lane_dev = side->dev,
        .slab = side->slab,
        .codec = conf->coded ? gw_codec_by_id(GW_CODEC_GROUP) : NULL,
        .agreed = { .version = GW_WIRE_VERSION, .chunk_bytes = conf->chunk_bytes, .check = conf->check },
        .mode = (enum gw_policy_mode)conf->mode,
        .window_fixed = conf->window,
        .hint_simple = side->hinted ? &side->hint : NULL,
        .said = conf->alone ? NULL : &side->said,
        .is_send = (int)end->is_send,
        .tell_fail = tell_fail,
        .listen_now = listen_now,
        .broke = conf->alone ? NULL : broke,
        .arg = end,
    };
    snprintf(parts->local, sizeof parts->local, "side%d pid %u", (int)(side - end->world->side), end->index);
    snprintf(parts->peer, sizeof parts->peer, "side%d pid %u", 1 - (int)(side - end->world->side), end->peer->index);
}
