/* sim_policy.c - is `auto` ever slower than raw?  The real core over a link and codec workers of given speeds, in virtual time:
 * one cell for each link rate, delay, codec speed, ratio and amount in flight.
 *
 *   sim_policy [--full] [--cell GBIT,DELAY_US,M_OF_B,R,MIB] [--without R] [-v]
 *
 * Without --full a quick part of the grid.  A cell passes where auto moves at least 0.98 of what raw does and, without a rule,
 * at least 0.9 of what it moves with it: two rules are about speed alone.  Read run_cell. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>
#include <base/rule.h>
#include <comm.h>

#include "link.h"

enum { MIB = 1 << 20, CHUNK = 128 << 10, JOBS = 256, PIECES = 512, WINDOW_MAX = 16, MESSAGES_MIN = 640 };

#define RUN_NS 700000000ull /* some probes of trial.c; a first one costs a slow link a twentieth of its first second */
#define AT_LEAST 0.98
#define OF_WITH_RULE 0.9
#define OF_BOUND 0.97
#define TO_SPARE 1.5 /* with less what is in flight is as good as all on the way, and there is nothing to choose from */

struct cell {
    double gbit, delay_us, m_of_b, r;
    unsigned in_flight; /* messages of 1 MiB */
};

struct job {
    struct gw_job *job;
    uint64_t start, due;
};

/* One end, with one codec worker; its jobs are done in their order. */
struct host {
    struct run *run;
    struct gw_env env;
    struct gw_comm *comm;
    struct gw_slab *slab;
    struct gw_mem *mem;
    struct job job[JOBS];
    unsigned first, last;
    uint64_t free_ns, done;
    struct gw_req *req[WINDOW_MAX];
};

struct run {
    struct cell cell;
    struct link link;
    struct host tx, rx;
    double ns_byte; /* of the codec, either way */
};

static uint8_t data[MIB];

/* ---- the world of a comm ---- */

static uint64_t now_ns(void *arg)
{
    return ((struct host *)arg)->run->link.now;
}

static unsigned workers(void *arg)
{
    (void)arg;
    return 1;
}

static gw_err post(void *arg, struct gw_job *job)
{
    struct host *h = arg;
    size_t bytes = job->kind == GW_JOB_ENCODE ? job->src_len : job->dst_cap;
    uint64_t start = gw_max_u64(h->run->link.now, h->free_ns);

    if (h->last - h->first == JOBS)
        return GW_AGAIN;
    h->free_ns = start + (uint64_t)(h->run->ns_byte * (double)bytes) + 1;
    h->job[h->last++ % JOBS] = (struct job){ job, start, h->free_ns };
    return GW_OK;
}

/* No byte is coded: a frame has the length that the ratio says, and decodes. */
static void run_jobs(struct host *h)
{
    for (; h->first != h->last && h->job[h->first % JOBS].due <= h->run->link.now; h->first++) {
        struct job *v = &h->job[h->first % JOBS];
        struct gw_job *job = v->job;
        job->start_ns = v->start, job->end_ns = v->due, job->cpu_ns = v->due - v->start;
        job->out_len = (size_t)(h->run->cell.r * (double)job->src_len);
        job->err = job->kind == GW_JOB_ENCODE && job->out_len > job->dst_cap ? GW_RAW : GW_OK;
        atomic_store(&job->done, 1);
    }
}

static void make_host(struct run *run, struct host *h, int is_send, enum gw_policy_mode mode)
{
    struct gw_place_table *places = NULL;
    struct gw_lane *lane = is_send ? &run->link.tx.base : &run->link.rx.base;
    struct gw_comm_parts parts = { .env = &h->env, .lane = lane, .codec = gw_codec_by_id(GW_CODEC_GROUP),
                                   .agreed = { .chunk_bytes = CHUNK }, .mode = mode, .is_send = is_send };

    h->run = run;
    h->env = (struct gw_env){ .now_ns = now_ns, .post = post, .workers = workers, .arg = h };
    gw_assert(gw_slab_new(&link_ops, NULL, (uint64_t)PIECES * (CHUNK + 4096), CHUNK, &h->slab) == GW_OK);
    parts.slab = h->slab;
    if (!is_send)
        gw_assert(gw_places_new(h->slab, 1, &places) == GW_OK);
    lane->places = places;
    gw_assert(gw_comm_new(&parts, &h->comm) == GW_OK);
    gw_assert(gw_reg(h->comm, data, sizeof data, &h->mem) == GW_OK);
}

static void free_host(struct host *h)
{
    for (; h->first != h->last; h->first++)
        atomic_store(&h->job[h->first % JOBS].job->done, 1);
    gw_comm_take(h->comm);
    gw_comm_down(h->comm);
    gw_dereg(h->comm, h->mem);
    gw_comm_free(h->comm);
    gw_slab_free(h->slab);
}

/* ---- hosts ---- */

static gw_err post_one(struct host *h, struct gw_req **req_p)
{
    void *at = data;
    size_t size = MIB;
    int tag = 0;

    if (h->comm->is.is_send)
        return gw_isend(h->comm, data, MIB, tag, h->mem, req_p);
    return gw_irecv(h->comm, 1, &at, &size, &tag, &h->mem, req_p);
}

/* 1: something was done. */
static int host_turn(struct host *h)
{
    int worked = 0;

    run_jobs(h);
    for (unsigned i = 0; i < h->run->cell.in_flight; i++) {
        int done = 0;
        if (h->req[i] == NULL)
            worked |= post_one(h, &h->req[i]) == GW_OK;
        if (h->req[i] == NULL)
            continue;
        gw_assert(gw_test(h->req[i], &done, NULL) == GW_OK);
        worked |= done || h->comm->worked > 0;
        if (done)
            h->req[i] = NULL, h->done++;
    }
    return worked;
}

static void step(struct run *run)
{
    uint64_t due;

    while (host_turn(&run->tx) + host_turn(&run->rx) > 0)
        ;
    due = link_next_due(&run->link);
    if (run->tx.first != run->tx.last)
        due = gw_min_u64(due, run->tx.job[run->tx.first % JOBS].due);
    if (run->rx.first != run->rx.last)
        due = gw_min_u64(due, run->rx.job[run->rx.first % JOBS].due);
    gw_assert(due > run->link.now && due != UINT64_MAX);
    run->link.now = due;
}

/* User's bytes that have arrived, those of unfinished messages too: with 16 in flight these are a tenth of a run. */
static uint64_t arrived(const struct run *run)
{
    uint64_t bytes = run->rx.done * MIB;

    for (unsigned i = 0; i < run->cell.in_flight; i++)
        if (run->rx.req[i] != NULL)
            bytes += run->rx.req[i]->r.buf[0].raw + run->rx.req[i]->r.buf[0].decoded;
    return bytes;
}

/* Bytes per ns that arrive, after a fifth of the time has been spent on learning. */
static double run_cell(const struct cell *c, enum gw_policy_mode mode)
{
    static struct run run;
    double rate = c->gbit / 8; /* bytes per ns */
    uint64_t until = gw_max_u64(RUN_NS, (uint64_t)(MESSAGES_MIN * (MIB / rate + c->delay_us * 1000)));
    uint64_t from = 0, since = 0;

    memset(&run, 0, sizeof run);
    run.cell = *c;
    run.ns_byte = 1 / (c->m_of_b * rate);
    link_init(&run.link, (uint64_t)(rate * 1e9), (uint64_t)(c->delay_us * 1000));
    make_host(&run, &run.tx, 1, mode);
    make_host(&run, &run.rx, 0, mode);
    while (run.link.now < until) {
        step(&run);
        if (since == 0 && run.link.now > until / 5)
            since = run.link.now, from = arrived(&run);
    }
    rate = (double)(arrived(&run) - from) / (double)(run.link.now - since);
    free_host(&run.tx);
    free_host(&run.rx);
    return rate;
}

/* ---- the grid ---- */

struct sum {
    unsigned cells, slow, of_bound, from_8, loud;
    unsigned free, free_of_bound; /* from 8 MiB, and what is in flight does not bind */
    uint32_t rules_off;
    double worst, worst_of_bound;
};

/* Bytes whose sample says what the ratio says. */
static void fill_data(double r)
{
    uint32_t x = 1;

    for (unsigned i = 0; i < MIB / 4; i++) {
        x = x * 1664525 + 1013904223;
        uint32_t word = r < 1 ? (x >> 8 & 0x7fffff) | (118 + (x >> 29)) << 23 : x ^ x >> 15 ^ i * 2654435761u;
        memcpy(data + 4 * i, &word, 4);
    }
}

static int slow(const struct sum *sum, const struct cell *c, double autom, double raw)
{
    int is_slow = autom < AT_LEAST * raw;

#ifdef GW_RULES
    if (!is_slow && sum->rules_off != 0) {
        gw_rules_off = 0;
        is_slow = autom < OF_WITH_RULE * run_cell(c, GW_POLICY_AUTO);
        gw_rules_off = sum->rules_off;
    }
#else
    (void)sum, (void)c;
#endif
    return is_slow;
}

/* What no policy can pass: the link with every byte coded; link and codec side by side. */
static double bound_of(const struct cell *c, double b, double m)
{
    return fmin(b / c->r, b + (1 - c->r) * m);
}

/* What is in flight can move: a message's bytes come back as an offer, and leave again, after two delays and the link's time for
 * what it became. */
static double in_flight_moves(const struct cell *c, double bound)
{
    return c->in_flight * (double)MIB / (2e3 * c->delay_us + MIB / bound);
}

static void judge(struct sum *sum, const struct cell *c, double autom, double raw)
{
    double b = c->gbit / 8, m = c->m_of_b * b;
    double most = bound_of(c, b, m), moves = in_flight_moves(c, most), bound = fmin(most, moves);
    double of_raw = autom / raw, of_bound = autom / bound;
    int is_slow = slow(sum, c, autom, raw);

    sum->cells++;
    sum->slow += (unsigned)is_slow;
    sum->from_8 += c->in_flight >= 8;
    sum->of_bound += c->in_flight >= 8 && of_bound >= OF_BOUND;
    sum->free += c->in_flight >= 8 && moves >= TO_SPARE * most;
    sum->free_of_bound += c->in_flight >= 8 && moves >= TO_SPARE * most && of_bound >= OF_BOUND;
    sum->worst = of_raw < sum->worst ? of_raw : sum->worst;
    if (sum->loud || is_slow)
        printf("%6.1f Gbit/s  delay %6.0f us  m/B %4.2f  r %4.2f  %2u MiB: %.3f of raw, %.3f of the bound%s\n", c->gbit,
               c->delay_us, c->m_of_b, c->r, c->in_flight, of_raw, of_bound, is_slow ? "  SLOW" : "");
}

static void run_link(struct sum *sum, struct cell c, int full)
{
    static const double ms[] = { 0.1, 0.3, 1, 4, 0.2, 0.5, 2 }, rs[] = { 0.05, 0.6, 1, 0.3, 0.8 };
    size_t m_n = full ? GW_LEN(ms) : 4, r_n = full ? GW_LEN(rs) : 3;
    double raw = run_cell(&c, GW_POLICY_NEVER);

    for (size_t r = 0; r < r_n; r++) {
        c.r = rs[r];
        fill_data(c.r);
        for (size_t m = 0; m < m_n; m++) {
            c.m_of_b = ms[m];
            judge(sum, &c, run_cell(&c, GW_POLICY_AUTO), raw);
        }
    }
}

static void run_grid(struct sum *sum, int full)
{
    static const double gbits[] = { 0.1, 1, 10, 100, 25, 400 }, delays[] = { 5, 50, 5000, 500 };
    size_t b_n = full ? GW_LEN(gbits) : 3, d_n = full ? GW_LEN(delays) : 2;

    for (size_t b = 0; b < b_n; b++)
        for (size_t d = 0; d < d_n; d++)
            for (unsigned in_flight = 4; in_flight <= WINDOW_MAX; in_flight *= 2) {
                struct cell c = { .gbit = gbits[b], .delay_us = delays[d], .m_of_b = 1, .r = 1, .in_flight = in_flight };
                if (full || in_flight != 16)
                    run_link(sum, c, full);
            }
}

static int run_one(struct sum *sum, const char *text)
{
    struct cell c;

    if (sscanf(text, "%lf,%lf,%lf,%lf,%u", &c.gbit, &c.delay_us, &c.m_of_b, &c.r, &c.in_flight) != 5 || c.gbit <= 0 ||
        c.delay_us < 0 || c.m_of_b <= 0 || c.r <= 0 || c.in_flight < 1 || c.in_flight > WINDOW_MAX)
        return 0;
    fill_data(c.r);
    sum->loud = 1;
    judge(sum, &c, run_cell(&c, GW_POLICY_AUTO), run_cell(&c, GW_POLICY_NEVER));
    return 1;
}

static void switch_off(struct sum *sum, int rule)
{
    sum->rules_off = 1u << rule;
#ifdef GW_RULES
    gw_rules_off = sum->rules_off;
#else
    fprintf(stderr, "sim_policy: --without needs a build with TEST=-DGW_RULES: make sim-rules\n");
    exit(2);
#endif
}

int main(int argc, char **argv)
{
    struct sum sum = { .worst = 1e9 };
    int full = 0, one = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            full = 1;
        else if (strcmp(argv[i], "--cell") == 0 && i + 1 < argc && run_one(&sum, argv[i + 1]))
            one = ++i;
        else if (strcmp(argv[i], "-v") == 0)
            sum.loud = 1;
        else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0 && atoi(argv[i + 1]) < 32)
            switch_off(&sum, atoi(argv[++i]));
        else
            return fprintf(stderr, "usage: sim_policy [--full] [--cell GBIT,DELAY_US,M_OF_B,R,MIB] [--without R] [-v]\n"), 2;
    }
    if (!one)
        run_grid(&sum, full);
    printf("worst cell %.3f of raw; from 8 MiB in flight %u of %u cells reach %.2f of the bound, %u of the %u where that is half "
           "as much again as the link's delay takes\n", sum.worst, sum.of_bound, sum.from_8, OF_BOUND, sum.free_of_bound, sum.free);
    printf("%u passed, %u failed, 0 skipped\n", sum.cells - sum.slow, sum.slow);
    return sum.slow > 0;
}
