/* crowd.c - see crowd.h. */
#include "crowd.h"

enum {
    EVERY_NS = 4000000,
    LATELY_NS = 100000000,   /* a trial leaves the codec alone for longer */
    ENOUGH_NS = 2000000,   /* less says nothing */
    MEMORY_NS = 128000000, /* longer than a scheduler lets anyone wait */
    CROWDED = 8,           /* a share of 1/8 is waited for: crowded; of less than half that: not any more */
};

static int waits(const struct gw_crowd *c, int kind, uint64_t share)
{
    uint64_t wall = c->wall_ns[kind], cpu = c->cpu_ns[kind];

    return wall >= ENOUGH_NS && wall > cpu && (wall - cpu) * share > wall;
}

static void add(struct gw_crowd *c, int kind, uint64_t wall_ns, uint64_t cpu_ns)
{
    c->wall_ns[kind] += wall_ns;
    c->cpu_ns[kind] += cpu_ns < wall_ns ? cpu_ns : wall_ns;
    if (waits(c, kind, CROWDED))
        c->crowded = 1;
    else if (!waits(c, GW_CROWD_JOBS, 2 * CROWDED) && !waits(c, GW_CROWD_HOST, 2 * CROWDED))
        c->crowded = 0;
    if (c->wall_ns[kind] > MEMORY_NS)
        c->wall_ns[kind] /= 2, c->cpu_ns[kind] /= 2;
}

void gw_crowd_job(struct gw_crowd *c, uint64_t run_ns, uint64_t cpu_ns)
{
    add(c, GW_CROWD_JOBS, run_ns, cpu_ns);
}

int gw_crowd_due(const struct gw_crowd *c, uint64_t now_ns)
{
    return c->since_ns == 0 || now_ns - c->since_ns >= EVERY_NS;
}

void gw_crowd_host(struct gw_crowd *c, uint64_t now_ns, uint64_t cpu_ns)
{
    int lately = c->since_ns != 0 && now_ns > c->since_ns && now_ns - c->since_ns <= LATELY_NS;

    if (lately && cpu_ns >= c->since_cpu_ns) /* less: another thread called */
        add(c, GW_CROWD_HOST, now_ns - c->since_ns, cpu_ns - c->since_cpu_ns);
    c->since_ns = now_ns, c->since_cpu_ns = cpu_ns;
}

void gw_crowd_idle(struct gw_crowd *c)
{
    c->since_ns = 0;
}
