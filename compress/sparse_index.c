/* sparse_index.c - the index codings without counted blocks, and the choice among all. */
#include <base/bytes.h>
#include <base/check.h>

#include "sparse_bits.h"
#include "f32.h"
#include "sparse_index.h"

/* ---- runs of blocks: u32 first block of each run, then u32 blocks of each ---- */

enum { RUN_LOG = 8, RUN_BLOCK = 1 << RUN_LOG };

/* The set is made of whole blocks when each block that it enters is there from its first to its last coordinate. */
uint64_t gw_runs_plan(const uint32_t *index, size_t n, uint64_t space)
{
    uint64_t runs = 0, end = UINT64_MAX; /* the coordinate after the last block */
    for (size_t i = 0; i < n;) {
        uint64_t first = index[i], m = gw_min_u64(RUN_BLOCK, space - first);
        if (first % RUN_BLOCK != 0 || m > n - i || index[i + m - 1] != first + m - 1)
            return GW_INDEX_NEVER;
        runs += first != end;
        end = first + m, i += m;
    }
    return 8 * runs;
}

void gw_runs_write(const uint32_t *index, size_t n, uint64_t bytes, uint8_t *out)
{
    uint8_t *first = out, *length = out + bytes / 2;
    for (size_t i = 0, m; i < n; i += m, first += 4, length += 4) {
        for (m = 1; i + m < n && index[i + m] == index[i] + m; m++)
            ;
        gw_put32(first, index[i] >> RUN_LOG);
        gw_put32(length, (uint32_t)((m + RUN_BLOCK - 1) >> RUN_LOG));
    }
}

int gw_runs_read(const uint8_t *in, size_t len, uint64_t space, uint32_t *index, size_t n)
{
    uint64_t blocks = ((space - 1) >> RUN_LOG) + 1, least = 0; /* the first block that a run may begin with */
    size_t at = 0, runs = len / 8;
    if (len % 8 != 0)
        return 0;
    for (size_t r = 0; r < runs; r++) {
        uint64_t first = gw_held(gw_get32(in + 4 * r)), many = gw_held(gw_get32(in + 4 * (runs + r)));
        if (first < least || first >= blocks || many == 0 || many > blocks - first)
            return 0;
        uint64_t start = first << RUN_LOG, m = gw_min_u64(many << RUN_LOG, space - start);
        if (m > n - at)
            return 0;
        for (uint64_t i = 0; i < m; i++)
            index[at++] = (uint32_t)(start + i);
        least = first + many + 1; /* two runs that touch are one */
    }
    return at == n;
}

/* ---- shared seed ---- */

/* Part i reaches from i * space / count to (i + 1) * space / count, rounded down; the hash's upper half picks in it. */
void gw_seeded(uint64_t seed, uint64_t space, uint32_t count, uint32_t *index)
{
    if (count == 0)
        return;
    uint64_t whole = space / count, rest = space % count, start = 0, over = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t width = whole;
        over += rest;
        if (over >= count)
            over -= count, width++;
        uint64_t hash = gw_chance_at(seed, i);
        index[i] = (uint32_t)(start + ((hash >> 32) * width >> 32));
        start += width;
    }
}

gw_err gw_sparse_seeded(uint64_t seed, uint64_t space, uint32_t count, uint32_t *index)
{
    if (space == 0 || space > (uint64_t)1 << 32 || count > space)
        return GW_E_ARG;
    gw_seeded(seed, space, count, index);
    return GW_OK;
}

/* ---- any coding ---- */

static void choose(const struct gw_index_plan plan[GW_INDEX_COUNT], unsigned *kind_p)
{
    unsigned best = GW_INDEX_BITMAP;
    for (unsigned k = 0; k < GW_INDEX_SEED; k++)
        if (plan[k].bytes < plan[best].bytes)
            best = k;
    *kind_p = best;
}

gw_err gw_index_plan(const struct gw_kern_sparse *kern, const struct gw_sparse *s, const uint32_t *index, size_t n,
                     unsigned *kind_p, struct gw_index_plan *plan_p)
{
    struct gw_index_plan plan[GW_INDEX_COUNT] = {{.bytes = (s->space + 7) / 8}};
    unsigned kind = s->index;
    int best = kind == GW_INDEX_BEST;
    if (best || gw_index_log(kind) != 0)
        gw_sparse_blocks_plan(kern, index, n, s->space, plan);
    if (best || kind == GW_INDEX_RUNS)
        plan[GW_INDEX_RUNS].bytes = gw_runs_plan(index, n, s->space);
    if (best)
        choose(plan, &kind);
    if (plan[kind].bytes == GW_INDEX_NEVER)
        return GW_E_ARG;
    *kind_p = kind, *plan_p = plan[kind];
    return GW_OK;
}

static uint64_t bound_of(unsigned kind, uint64_t n, uint64_t space)
{
    switch (kind) {
    case GW_INDEX_BITMAP:
        return (space + 7) / 8;
    case GW_INDEX_RUNS:
        return 8 * ((n >> RUN_LOG) + 1);
    case GW_INDEX_SEED:
        return 0;
    default:
        return gw_sparse_blocks_bound(kind, n, space);
    }
}

uint64_t gw_index_bound(const struct gw_sparse *s, uint64_t n)
{
    if (s->index != GW_INDEX_BEST)
        return bound_of(s->index, n, s->space);
    uint64_t least = bound_of(GW_INDEX_BITMAP, n, s->space);
    for (unsigned k = GW_INDEX_U16; k < GW_INDEX_SEED; k++)
        if (k != GW_INDEX_RUNS) /* not every set can be written so */
            least = gw_min_u64(least, bound_of(k, n, s->space));
    return least;
}

void gw_index_write(const struct gw_kern_sparse *kern, unsigned kind, const struct gw_index_plan *plan,
                    const uint32_t *index, size_t n, uint64_t space, uint8_t *out)
{
    if (kind == GW_INDEX_BITMAP)
        kern->map_write(index, n, 0, out, space);
    else if (kind == GW_INDEX_RUNS)
        gw_runs_write(index, n, plan->bytes, out);
    else if (kind != GW_INDEX_SEED)
        gw_sparse_blocks_write(kern, kind, plan, index, n, space, out);
}

int gw_index_read(const struct gw_kern_sparse *kern, const struct gw_sparse *s, const uint8_t *in, size_t len,
                  size_t readable, uint32_t *index, size_t n)
{
    switch (s->index) {
    case GW_INDEX_BITMAP:
        return len == (s->space + 7) / 8 && kern->map_read(in, s->space, 0, index, n, n);
    case GW_INDEX_RUNS:
        return gw_runs_read(in, len, s->space, index, n);
    case GW_INDEX_SEED:
        return len == 0 && (gw_seeded(s->seed, s->space, (uint32_t)n, index), 1);
    default:
        return gw_sparse_blocks_read(kern, s->index, in, len, readable, s->space, index, n);
    }
}
