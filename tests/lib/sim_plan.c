/* sim_plan.c - what the seed says of a world before it begins: the lane and its faults, messages and their memory, and the
 * one thing that will go wrong. */
#include "sim.h"

#include <string.h>

enum { POOL = 1 << 20, ARENA = 48 << 20, KINDS = 6, KIND_LL = 4, KIND_LL128 = 5 };
enum { FILL_SRC = 0x5c, FILL_DST = 0xa7, BULK = 3 << 20 };

const char *const sim_fault_name[SIM_FAULTS] = { "none", "kill", "stop", "close", "dereg", "cut", "flip", "oversize" };

static uint8_t pool[KINDS][POOL];
static _Alignas(4096) uint8_t arena[ARENA];

/* ---- bytes to send ---- */

static void fill_words(uint32_t *word, unsigned kind, struct sim_world *w)
{
    for (unsigned i = 0; i < POOL / 4; i++) {
        uint32_t bits = (uint32_t)sim_below(w, 1ull << 32), exponent = 115 + (uint32_t)sim_below(w, 8);
        if (kind == 0) /* f32 */
            word[i] = (bits & 0x807fffff) | exponent << 23;
        else if (kind == 1) /* mostly zeros */
            word[i] = bits % 50 == 0 ? (bits & 0x807fffff) | exponent << 23 : 0;
        else if (kind == 2) /* nothing to gain */
            word[i] = bits;
        else if (kind == 3) /* two bf16 */
            word[i] = (bits & 0x807f807f) | exponent << 23 | exponent << 7;
        else if (kind == KIND_LL)
            word[i] = i % 2 == 1 ? 77 : bits;
        else
            word[i] = i % 32 == 30 ? 5 : i % 32 == 31 ? 0 : bits;
    }
}

static void fill_pools(void)
{
    static struct sim_world w = { .chance = 42 };
    static int done;

    for (unsigned kind = 0; !done && kind < KINDS; kind++)
        fill_words((uint32_t *)(void *)pool[kind], kind, &w);
    done = 1;
}

static uint32_t some_size(struct sim_world *w)
{
    unsigned which = (unsigned)sim_below(w, 100);

    if (which < 6)
        return 0;
    return which < 90 ? (uint32_t)sim_wide(w, 1, 16 << 10)
                      : (uint32_t)sim_wide(w, 16 << 10, 6ull * w->conf.chunk_bytes);
}

static void plan_bytes(struct sim_world *w, struct sim_msg *m, size_t *bulk)
{
    unsigned kind = (unsigned)sim_below(w, KINDS);
    uint32_t grain = kind == KIND_LL128 ? 2048 : kind == KIND_LL ? 16 : 1, at;

    m->size = some_size(w);
    if (*bulk + m->size > BULK)
        m->size = (uint32_t)sim_below(w, 1024);
    m->size = m->size / grain * grain;
    *bulk += m->size;
    at = (uint32_t)sim_below(w, POOL - m->size);
    m->bytes = pool[kind] + at / 128 * 128;
    m->src.region = m->dst.region = kind == KIND_LL ? 0 : kind == KIND_LL128 ? 1 : 2;
}

/* ---- memory ---- */

static void buf_take(struct sim_world *w, struct sim_buf *b, uint32_t cap, uint8_t fill)
{
    size_t skew = sim_percent(w, 50) ? 0 : sim_below(w, 64);
    size_t at = (w->arena + SIM_FENCE + skew + 63) / 64 * 64 + (sim_percent(w, 50) ? 0 : skew);

    b->at = arena + at;
    b->cap = cap;
    gw_assert(at + cap + 2 * SIM_FENCE < ARENA);
    w->arena = at + cap + SIM_FENCE;
    memset(b->at - SIM_FENCE, fill, SIM_FENCE);
    memset(b->at + cap, fill, SIM_FENCE);
    sim_buf_give(b, fill);
}

void sim_buf_give(struct sim_buf *b, uint8_t fill)
{
    memset(b->at, fill, b->cap);
    memset(b->at - SIM_FENCE, fill, SIM_FENCE);
    memset(b->at + b->cap, fill, SIM_FENCE);
    b->fill = fill;
    b->lent = 0;
}

static int all(const uint8_t *p, size_t n, uint8_t fill)
{
    return n == 0 || (*p == fill && memcmp(p, p + 1, n - 1) == 0);
}

int sim_buf_whole(const struct sim_buf *b)
{
    return all(b->at - SIM_FENCE, SIM_FENCE, b->fill) && all(b->at + b->cap, SIM_FENCE, b->fill) &&
           (b->lent || all(b->at, b->cap, b->fill));
}

/* A region's buffers stand side by side, as in NCCL's one allocation for each protocol. */
static void plan_memory(struct sim_world *w, struct sim_end *end, unsigned regions)
{
    for (unsigned r = 0; r < regions; r++) {
        w->arena = (w->arena + 4095) / 4096 * 4096;
        end->region_base[r] = arena + w->arena;
        for (unsigned i = 0; i < end->msgs; i++) {
            struct sim_msg *m = &end->msg[i];
            struct sim_buf *b = end->is_send ? &m->src : &m->dst;
            uint32_t cap = m->size + (end->is_send || sim_percent(w, 60) ? 0 : (uint32_t)sim_wide(w, 1, 4096));
            if (regions == 1)
                b->region = 0;
            if (b->region == r)
                buf_take(w, b, cap, end->is_send ? FILL_SRC : FILL_DST);
        }
        end->region_bytes[r] = (size_t)(arena + w->arena + 1 - end->region_base[r]);
    }
}

/* ---- messages ---- */

static void plan_pair(struct sim_world *w, struct sim_end *end, unsigned budget, size_t *bulk)
{
    unsigned tags = 1 + (unsigned)sim_below(w, SIM_TAGS), grouped = sim_percent(w, 40);
    int tag_base = sim_percent(w, 50) ? 0 : (int)sim_below(w, 1u << 30);

    end->msg = &w->msg[w->msgs];
    end->group = &w->group[w->msgs];
    while (end->msgs < budget) {
        struct sim_group *g = &end->group[end->groups++];
        unsigned n = grouped ? 1 + (unsigned)sim_below(w, GW_BUFFERS_MAX) : 1;
        g->first = (uint8_t)end->msgs;
        g->n = (uint8_t)gw_min_u64(n, budget - end->msgs);
        for (unsigned i = 0; i < g->n; i++) {
            struct sim_msg *m = &end->msg[end->msgs++];
            plan_bytes(w, m, bulk);
            m->tag = tag_base + (int)sim_below(w, tags);
        }
    }
    w->msgs += end->msgs;
    end->peer->msg = end->msg, end->peer->group = end->group;
    end->peer->msgs = end->msgs, end->peer->groups = end->groups;
}

static void plan_oversize(struct sim_world *w)
{
    for (unsigned i = 0, at = (unsigned)sim_below(w, w->msgs); i < w->msgs; i++) {
        struct sim_msg *m = &w->msg[(at + i) % w->msgs];
        if (m->size > 0) {
            m->dst.cap = (uint32_t)sim_below(w, m->size);
            sim_buf_give(&m->dst, FILL_DST);
            return;
        }
    }
    w->conf.trouble[0].fault = SIM_NO_FAULT;
}

static void plan_end(struct sim_world *w, struct sim_end *end)
{
    unsigned regions = sim_percent(w, 50) ? 1 : SIM_REGIONS;

    end->window = (unsigned)(end->is_send ? sim_wide(w, 1, 64) : sim_wide(w, 1, GW_SLOTS + 2));
    end->period_ns = sim_wide(w, 100, 20000);
    end->fifo = (uint8_t)sim_percent(w, 50);
    end->rests = (uint8_t)sim_percent(w, 40);
    end->deregs = (uint8_t)sim_percent(w, 50);
    end->more = (unsigned)sim_below(w, SIM_MORE);
    plan_memory(w, end, regions);
}

static void plan_ends(struct sim_world *w)
{
    unsigned budget = (unsigned)sim_wide(w, 4, SIM_MSGS);
    size_t bulk = 0;

    for (unsigned i = 0; i < w->conf.pairs; i++) {
        struct sim_end *one = &w->end[2 * i], *two = &w->end[2 * i + 1];
        unsigned from = (unsigned)sim_below(w, 2);
        one->peer = two, two->peer = one;
        one->side = &w->side[from], two->side = &w->side[1 - from];
        one->is_send = 1;
        one->world = two->world = w;
        one->index = 2 * i, two->index = 2 * i + 1;
        plan_pair(w, one, (unsigned)gw_max_u64(1, budget / w->conf.pairs), &bulk);
        plan_end(w, one);
        plan_end(w, two);
    }
    w->ends = 2 * w->conf.pairs;
}

/* ---- the world ---- */

static void plan_lane(struct sim_world *w)
{
    static const uint32_t caps[] = { GW_LANE_COUNTS, GW_LANE_COUNTS, GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED,
                                     GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED,
                                     GW_LANE_COUNTS | GW_LANE_SENT_IS_LANDED };
    struct gw_loop_conf *l = &w->conf.loop;

    l->seed = sim_below(w, UINT64_MAX);
    l->caps = caps[sim_below(w, GW_LEN(caps))];
    l->caps |= (sim_percent(w, 40) ? GW_LANE_DIRECT : 0) | (sim_percent(w, 30) ? GW_LANE_ORDERED : 0);
    l->paths = (uint8_t)(1 + sim_below(w, 3));
    l->owns = 1;
    l->mute = (uint8_t)sim_percent(w, 30);
    l->rate = sim_percent(w, 30) ? 0 : sim_wide(w, 12500000, 50000000000);
    l->delay_ns = sim_percent(w, 20) ? 0 : sim_wide(w, 500, sim_percent(w, 20) ? 5000000 : 50000);
    l->jitter_ns = sim_percent(w, 30) ? 0 : sim_below(w, 4 * l->delay_ns + 1000);
    l->again_permille = sim_percent(w, 50) ? 0 : (uint32_t)sim_below(w, 500);
    l->split_permille = sim_percent(w, 50) ? 0 : (uint32_t)sim_below(w, 1000);
    l->hold_permille = sim_percent(w, 50) ? 0 : (uint32_t)sim_below(w, 500);
    l->eager_max = sim_percent(w, 40) ? 0 : (uint32_t)sim_wide(w, 64, 4096);
    l->queue_depth = (uint32_t)sim_wide(w, 2, 64);
    l->msg_depth = (uint32_t)sim_wide(w, 2, 64);
    /* what verbs would have: all paths share it here */
    if (l->caps & GW_LANE_FENCED)
        l->recv_depth = GW_SLOTS * GW_BUFFERS_MAX * l->paths + 128;
}

static void plan_sides(struct sim_world *w)
{
    for (int s = 0; s < SIM_SIDES; s++) {
        struct sim_side *side = &w->side[s];
        side->world = w;
        side->workers = (unsigned)sim_below(w, SIM_WORKERS + 1);
        side->ring = (unsigned)sim_wide(w, 1, SIM_JOBS);
        side->hinted = (uint8_t)sim_percent(w, 40);
        atomic_store(&side->hint, !sim_percent(w, 20));
        sim_env_init(side);
    }
}

static void plan_trouble(struct sim_world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        enum sim_fault fault = (enum sim_fault)(1 + sim_below(w, SIM_FAULTS - 1 - (i > 0)));
        w->conf.trouble[i].fault = fault;
        w->conf.trouble[i].end = (unsigned)sim_below(w, 2 * w->conf.pairs);
        w->conf.trouble[i].step = (unsigned)sim_wide(w, 1, 40 * SIM_MSGS);
        if (fault == SIM_CUT)
            w->conf.loop.mute = 0; /* then nobody would ever know */
        if (fault == SIM_FLIP)
            w->conf.check = 1; /* who does not check will not notice */
    }
}

void sim_plan(struct sim_world *w)
{
    struct sim_conf *c = &w->conf;
    unsigned mode = (unsigned)sim_below(w, 10);

    fill_pools();
    plan_lane(w);
    c->pairs = sim_percent(w, 50) ? 1 : 1 + (unsigned)sim_below(w, SIM_PAIRS);
    c->chunk_bytes = (1 + (uint32_t)sim_below(w, 4)) * GW_TILE_BYTES;
    c->slab_pieces = sim_percent(w, 5) ? 0 : (uint32_t)sim_wide(w, 2, 64);
    c->check = (uint8_t)sim_percent(w, 50);
    c->mode = mode < 4 ? GW_POLICY_AUTO : mode < 9 ? GW_POLICY_ALWAYS : GW_POLICY_NEVER;
    c->coded = !sim_percent(w, 5);
    c->alone = (uint8_t)sim_percent(w, 50);
    c->own_regions = (uint8_t)sim_percent(w, 30);
    c->window = sim_percent(w, 70) ? 0 : sim_wide(w, 1, 1 << 20);
    c->known_rate = sim_percent(w, 30) ? 0 : c->loop.rate ? c->loop.rate : sim_wide(w, 12500000, 50000000000);
    c->codec_ns_kib = sim_wide(w, 50, 50000);
    c->control_ns = sim_wide(w, 1000, 50000000);
    c->nap_ns = sim_percent(w, 80) ? 0 : sim_wide(w, 100000, 3000000);
    c->first_number = sim_percent(w, 50) ? 0 : sim_percent(w, 50) ? 0u - (uint32_t)sim_below(w, 40)
                                                                  : 0x10000u - (uint32_t)sim_below(w, 40);
    plan_sides(w);
    plan_trouble(w, sim_percent(w, 50) ? 0 : sim_percent(w, 80) ? 1 : 2);
    plan_ends(w);
    if (c->trouble[0].fault == SIM_OVERSIZE)
        plan_oversize(w);
}
