/* entropy_decode.c - blocks back, from bytes that anybody may have written.  Read gw_block_open, then
 * gw_blocks_read.
 *
 * The head gives every length, so all of them are added up and held against what is there first.
 * After that the codes may ask for another number of escapes than there are, and the states may not
 * end where they began. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "entropy.h"

/* ---- the head ---- */

static unsigned kind_of(const struct gw_block *b, size_t i)
{
    return b->kinds[i / 4] >> i % 4 * 2 & 3;
}

/* 0 for states and kinds that no encoder writes.  *words_p: how many. */
static int read_head(struct gw_block *b, const uint8_t *in, size_t kinds, size_t *words_p)
{
    uint8_t head[GW_BLOCK_KINDS];
    gw_copy_once(head, in, GW_BLOCK_KINDS);
    memset(b->kinds, 0, sizeof(b->kinds));
    gw_copy_once(b->kinds, in + GW_BLOCK_KINDS, kinds);
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++) {
        uint32_t x = b->state[lane] = gw_get32(head + 4 * lane);
        if (x < GW_RANS_LOW || x >= GW_RANS_HIGH)
            return 0;
    }
    *words_p = gw_get16(head + GW_BLOCK_COUNTS);
    b->escapes = gw_get16(head + GW_BLOCK_COUNTS + 2);
    for (size_t i = b->groups; i < 4 * kinds; i++)
        if (kind_of(b, i) != 0)
            return 0;
    return 1;
}

/* Counts windows and adds up bodies; 0 for a kind that no encoder writes. */
static int add_up(struct gw_block *b, size_t values, size_t *bodies_p)
{
    size_t bodies = 0;
    for (size_t i = 0; i < b->groups; i++) {
        size_t m = gw_min_u64(GW_GROUP_VALUES, values - i * GW_GROUP_VALUES);
        unsigned kind = kind_of(b, i);
        if (kind > GW_BLOCK_WINDOW || (kind == GW_BLOCK_WINDOW && m < GW_GROUP_VALUES))
            return 0;
        if (kind == GW_BLOCK_RAW)
            bodies += gw_raw_bytes(b->view, m);
        else if (kind == GW_BLOCK_WINDOW)
            bodies += gw_block_plane(b->view), b->windows++;
    }
    *bodies_p = bodies;
    return 1;
}

gw_err gw_block_open(struct gw_block *b, enum gw_view view, const uint8_t *in, size_t len, size_t limit, uint8_t *dst, size_t n,
                     size_t *used_p)
{
    size_t values = n / gw_view_shapes[view].width, tail = n % gw_view_shapes[view].width;
    b->view = view, b->dst = dst, b->n = n, b->windows = 0;
    b->groups = gw_block_groups(view, n);
    size_t kinds = gw_block_kinds_bytes(b->groups), body = GW_BLOCK_KINDS + kinds, bodies, count;
    if (len < body || !read_head(b, in, kinds, &count) || !add_up(b, values, &bodies))
        return GW_E_CORRUPT;
    size_t words = body + bodies + bodies % 2, tops = words + 2 * count;
    size_t esc = tops + b->windows + tail; /* at most 64 groups: cannot wrap */
    if (esc + b->escapes > len || !gw_zero(in + body + bodies, bodies % 2))
        return GW_E_CORRUPT;
    b->body = in + body, b->tops = in + tops, b->tail = in + esc - tail, b->esc = in + esc;
    b->run = (struct gw_rans_run){
        .state = b->state, .words = in + words, .limit = in + limit, .codes = b->codes, .groups = b->windows};
    *used_p = esc + b->escapes;
    return GW_OK;
}

/* ---- the groups, when the codes are there ---- */

/* What is left of a block's bytes. */
struct reader {
    const uint8_t *body, *top, *esc, *codes;
    size_t escapes;
};

static int read_window(const struct gw_kern *kern, enum gw_view view, struct reader *r, uint8_t *dst, uint8_t *body)
{
    unsigned n = kern->rans->escapes(r->codes, view == GW_VIEW_F16 ? 7 : 15);
    const uint8_t *esc = r->esc;
    if (n > r->escapes)
        return 0;
    memcpy(body, r->codes, GW_CODES_BYTES);
    memcpy(body + GW_CODES_BYTES, r->body, gw_block_plane(view));
    r->codes += GW_CODES_BYTES, r->body += gw_block_plane(view);
    r->esc += n, r->escapes -= n;
    return kern->decode[view](body, *r->top++, esc, n, dst);
}

static void read_raw(enum gw_view view, struct reader *r, size_t values, uint8_t *dst)
{
    gw_raw_read(view, r->body, values, dst);
    r->body += gw_raw_bytes(view, values);
}

static int read_groups(const struct gw_kern *kern, const struct gw_block *b, uint8_t *body)
{
    struct reader r = {.body = b->body, .top = b->tops, .esc = b->esc, .codes = b->codes};
    size_t width = gw_view_shapes[b->view].width, values = b->n / width, tail = b->n % width;
    r.escapes = b->escapes;
    for (size_t i = 0; i < b->groups; i++, values -= GW_GROUP_VALUES) {
        size_t m = gw_min_u64(GW_GROUP_VALUES, values);
        uint8_t *to = b->dst + i * GW_GROUP_VALUES * width;
        unsigned kind = kind_of(b, i);
        if (kind == GW_BLOCK_ZERO)
            memset(to, 0, m * width);
        else if (kind == GW_BLOCK_RAW)
            read_raw(b->view, &r, m, to);
        else if (!read_window(kern, b->view, &r, to, body))
            return 0;
    }
    memcpy(b->dst + b->n - tail, b->tail, tail);
    return r.escapes == 0;
}

/* The words have lasted exactly, and every state is where the encoder began. */
static int ended(const struct gw_block *b)
{
    uint32_t differ = 0;
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
        differ |= b->state[lane] ^ GW_RANS_LOW;
    return b->run.words == b->tops && differ == 0;
}

gw_err gw_blocks_read(const struct gw_kern *kern, struct gw_entropy_ws *ws, size_t blocks)
{
    struct gw_rans_run run[GW_BLOCKS_AT_ONCE];
    for (size_t i = 0; i < blocks; i++)
        run[i] = ws->in[i].run;
    kern->rans->decode(&ws->rans, run, blocks);
    for (size_t i = 0; i < blocks; i++) {
        ws->in[i].run.words = run[i].words;
        if (!ended(&ws->in[i]) || !read_groups(kern, &ws->in[i], ws->body))
            return GW_E_CORRUPT;
    }
    return GW_OK;
}
