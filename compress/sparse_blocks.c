/* sparse_blocks.c - indices by blocks of the space that say how many they hold: 16-bit offsets, or Elias-Fano.
 *
 *  +---------------------+--------------------------+------------------------+
 *  | counts, u8 a block  | escapes, u32 per count   | bodies of the blocks   |
 *  | 255: see escapes    | of 255 and more          | each a whole of bytes  |
 *  +---------------------+--------------------------+------------------------+
 *
 * What a body takes follows from its count, so a block is found by adding up counts and is decoded without its neighbours. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "sparse_bits.h"
#include "sparse_index.h"

enum { ESCAPE = 255, OFFSET_LOG = 16 };

unsigned gw_index_log(unsigned kind)
{
    static const uint8_t logs[GW_INDEX_COUNT] = {
        [GW_INDEX_U16] = OFFSET_LOG, [GW_INDEX_EF12] = 12, [GW_INDEX_EF16] = 16, [GW_INDEX_EF20] = 20};
    return logs[kind];
}

/* ---- one block ---- */

/* How n of u coordinates are written. */
struct shape {
    enum { NOTHING, MAP, EF } as; /* none or all of them need no bits */
    unsigned low;
    size_t bits;
};

static unsigned log2_of(uint64_t v)
{
    return 63 - (unsigned)__builtin_clzll(v);
}

/* Elias-Fano with 2^low just not above u / n, or one bit per coordinate where that is not longer. */
static struct shape shape_of(uint64_t n, uint64_t u)
{
    struct shape s = {.as = NOTHING};
    if (n == 0 || n == u)
        return s;
    s.low = log2_of(u) - log2_of(n);
    if (n << s.low > u)
        s.low--;
    s.as = EF, s.bits = n * (s.low + 1) + ((u - 1) >> s.low);
    if (s.bits >= u)
        s.as = MAP, s.bits = u;
    return s;
}

static size_t body_bytes(unsigned kind, uint64_t n, uint64_t u)
{
    return kind == GW_INDEX_U16 ? 2 * n : gw_bit_bytes(shape_of(n, u).bits);
}

/* Answers the block's bytes. */
static size_t body_write(const struct gw_kern_sparse *kern, unsigned kind, const uint32_t *index, size_t n, uint32_t base,
                         uint64_t u, uint8_t *out)
{
    if (kind == GW_INDEX_U16) {
        for (size_t i = 0; i < n; i++)
            gw_put16(out + 2 * i, (uint16_t)index[i]);
        return 2 * n;
    }
    struct shape s = shape_of(n, u);
    if (s.as == MAP)
        kern->map_write(index, n, base, out, s.bits);
    else if (s.as == EF)
        kern->ef_write(index, n, base, s.low, out, s.bits);
    return gw_bit_bytes(s.bits);
}

static void all_of(uint32_t *index, size_t n, uint32_t base)
{
    for (size_t i = 0; i < n; i++)
        index[i] = base + (uint32_t)i;
}

static int body_read(const struct gw_kern_sparse *kern, unsigned kind, const uint8_t *in, size_t readable, size_t n,
                     uint32_t base, uint64_t u, uint32_t *index, size_t room)
{
    if (kind == GW_INDEX_U16) {
        for (size_t i = 0; i < n; i++)
            index[i] = base + gw_get16(in + 2 * i);
    } else {
        struct shape s = shape_of(n, u);
        if (s.as == MAP)
            return kern->map_read(in, s.bits, base, index, n, room);
        if (s.as == NOTHING)
            return all_of(index, n, base), 1;
        if (!kern->ef_read(in, readable, s.bits, s.low, base, index, n, room))
            return 0;
    }
    return kern->ascends(index, n) && index[n - 1] - base <= u - 1;
}

/* ---- how long ---- */

struct tally {
    unsigned kind, log;
    uint64_t block, held; /* what the open block holds so far */
    uint64_t bodies, escapes;
};

static void tally_close(struct tally *t, uint64_t space)
{
    uint64_t base = t->block << t->log, u = gw_min_u64((uint64_t)1 << t->log, space - base);
    t->bodies += body_bytes(t->kind, t->held, u);
    t->escapes += t->held >= ESCAPE;
    t->held = 0;
}

static void tally_add(struct tally *t, uint32_t first, uint64_t n, uint64_t space)
{
    if (first >> t->log != t->block) {
        tally_close(t, space);
        t->block = first >> t->log;
    }
    t->held += n;
}

/* All codings in one pass: the larger blocks are made of the smallest. */
void gw_sparse_blocks_plan(const struct gw_kern_sparse *kern, const uint32_t *index, size_t n, uint64_t space,
                    struct gw_index_plan plan[GW_INDEX_COUNT])
{
    static const uint8_t kinds[] = {GW_INDEX_EF12, GW_INDEX_U16, GW_INDEX_EF16, GW_INDEX_EF20};
    struct tally t[GW_LEN(kinds)];
    for (size_t k = 0; k < GW_LEN(kinds); k++)
        t[k] = (struct tally){.kind = kinds[k], .log = gw_index_log(kinds[k])};
    for (size_t i = 0, m; i < n; i += m) {
        uint32_t first = index[i];
        m = kern->span(index + i, n - i, first | ((1u << t[0].log) - 1));
        for (size_t k = 0; k < GW_LEN(kinds); k++)
            tally_add(&t[k], first, m, space);
    }
    for (size_t k = 0; k < GW_LEN(kinds); k++) {
        struct gw_index_plan *p = &plan[kinds[k]];
        tally_close(&t[k], space);
        p->escapes = t[k].escapes;
        p->bytes = ((space - 1) >> t[k].log) + 1 + 4 * p->escapes + t[k].bodies;
    }
}

/* n (low + 1) + u / 2^low, drawn over n, is a chain of straight pieces each less steep than the one before, so of all ways to
 * spread the entries the even one takes most; and each block that holds something rounds up once. */
uint64_t gw_sparse_blocks_bound(unsigned kind, uint64_t n, uint64_t space)
{
    uint64_t blocks = ((space - 1) >> gw_index_log(kind)) + 1, used = gw_min_u64(blocks, n);
    uint64_t counts = blocks + 4 * gw_min_u64(blocks, n / ESCAPE);
    if (kind == GW_INDEX_U16)
        return counts + 2 * n;
    if (n == 0)
        return counts;
    unsigned low = log2_of(space) - log2_of(n);
    low -= n << low > space;
    uint64_t bits = n * (low + 1) + (space >> low) + 1;
    return counts + gw_min_u64(bits, space) / 8 + 1 + used;
}

/* ---- all blocks ---- */

void gw_sparse_blocks_write(const struct gw_kern_sparse *kern, unsigned kind, const struct gw_index_plan *plan,
                     const uint32_t *index, size_t n, uint64_t space, uint8_t *out)
{
    unsigned log = gw_index_log(kind);
    uint64_t size = (uint64_t)1 << log, blocks = ((space - 1) >> log) + 1;
    uint8_t *escape = out + blocks, *body = escape + 4 * plan->escapes;
    memset(out, 0, blocks);
    for (size_t i = 0, m; i < n; i += m) {
        uint32_t block = index[i] >> log, base = block << log;
        uint64_t u = gw_min_u64(size, space - base);
        m = kern->span(index + i, n - i, (uint32_t)(base + u - 1));
        out[block] = (uint8_t)gw_min_u64(m, ESCAPE);
        if (m >= ESCAPE)
            gw_put32(escape, (uint32_t)m), escape += 4;
        body += body_write(kern, kind, index + i, m, base, u, body);
    }
}

static size_t escapes_in(const uint8_t *counts, size_t blocks)
{
    size_t escapes = 0;
    for (size_t i = 0; i < blocks; i++)
        escapes += counts[i] == ESCAPE;
    return escapes;
}

/* The first block from i on that holds something, or `blocks`. */
static size_t next_used(const uint8_t *counts, size_t i, size_t blocks)
{
    while (blocks - i >= 8 && gw_get64(counts + i) == 0)
        i += 8;
    while (i < blocks && counts[i] == 0)
        i++;
    return i;
}

struct cursor {
    const uint8_t *escape, *body, *end; /* escapes stand up to the first body, bodies up to end */
    const uint8_t *escapes_end;
};

/* A block's count, its escape included; 0 is refused: only blocks that hold something come here. */
static uint32_t count_of(struct cursor *c, uint8_t count)
{
    if (count < ESCAPE)
        return count;
    if (c->escapes_end - c->escape < 4)
        return 0;
    uint32_t n = (uint32_t)gw_held(gw_get32(c->escape));
    c->escape += 4;
    return n >= ESCAPE ? n : 0;
}

int gw_sparse_blocks_read(const struct gw_kern_sparse *kern, unsigned kind, const uint8_t *in, size_t len, size_t readable,
                   uint64_t space, uint32_t *index, size_t n)
{
    unsigned log = gw_index_log(kind);
    uint64_t size = (uint64_t)1 << log, blocks = ((space - 1) >> log) + 1;
    if (len < blocks)
        return 0;
    size_t escapes = escapes_in(in, blocks), at = 0;
    if ((len - blocks) / 4 < escapes)
        return 0;
    struct cursor c = {.escape = in + blocks, .end = in + len};
    c.body = c.escapes_end = c.escape + 4 * escapes;
    for (size_t i = next_used(in, 0, blocks); i < blocks; i = next_used(in, i + 1, blocks)) {
        uint64_t u = gw_min_u64(size, space - ((uint64_t)i << log));
        uint32_t m = count_of(&c, (uint8_t)gw_held(in[i]));
        if (m == 0 || m > u || m > n - at)
            return 0;
        size_t bytes = body_bytes(kind, m, u);
        if (bytes > (size_t)(c.end - c.body) ||
            !body_read(kern, kind, c.body, readable - (size_t)(c.body - in), m, (uint32_t)((uint64_t)i << log), u, index + at,
                       n - at))
            return 0;
        c.body += bytes, at += m;
    }
    return at == n && c.body == c.end && c.escape == c.escapes_end;
}
