/* entropy_decode.c - one block back, from bytes that anybody may have written.  Read gw_block_decode
 * at the end.
 *
 * The head gives every length, so all of them are added up and held against what is there first.
 * After that the codes may ask for another number of escapes than there are, and the states may not
 * end where they began.  Head and codes are looked at in the scratch only, where no peer can change
 * them. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "entropy.h"

/* Where the parts of a block begin. */
struct shape {
    size_t groups, words, words_n, escapes_n; /* words_n, escapes_n: how many */
    size_t body, odd, tops, tail, esc, end, windows; /* odd: a zero before the words */
};

static unsigned kind_of(const struct gw_entropy_ws *ws, size_t i)
{
    return ws->kinds[i / 4] >> i % 4 * 2 & 3;
}

/* 0 for a head that no encoder writes. */
static int read_head(const uint8_t *in, size_t len, struct shape *s, struct gw_entropy_ws *ws)
{
    uint8_t head[GW_BLOCK_KINDS];
    size_t kinds = gw_block_kinds_bytes(s->groups);
    if (len < GW_BLOCK_KINDS + kinds)
        return 0;
    gw_copy_once(head, in, GW_BLOCK_KINDS);
    memset(ws->kinds, 0, sizeof(ws->kinds));
    gw_copy_once(ws->kinds, in + GW_BLOCK_KINDS, kinds);
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++) {
        uint32_t x = ws->state[lane] = gw_get32(head + 4 * lane);
        if (x < GW_RANS_LOW || x >= GW_RANS_HIGH)
            return 0;
    }
    s->words_n = gw_get16(head + GW_BLOCK_COUNTS);
    s->escapes_n = gw_get16(head + GW_BLOCK_COUNTS + 2);
    s->body = GW_BLOCK_KINDS + kinds;
    for (size_t i = s->groups; i < 4 * kinds; i++)
        if (kind_of(ws, i) != 0)
            return 0;
    return 1;
}

/* Everything after the head: at most 64 groups, so that nothing wraps. */
static int add_up(enum gw_view view, size_t values, size_t tail, struct shape *s,
                  const struct gw_entropy_ws *ws)
{
    size_t bodies = 0;
    for (size_t i = 0; i < s->groups; i++) {
        size_t m = gw_min_u64(GW_GROUP_VALUES, values - i * GW_GROUP_VALUES);
        switch (kind_of(ws, i)) {
        case GW_BLOCK_ZERO:
            break;
        case GW_BLOCK_RAW:
            bodies += gw_raw_bytes(view, m);
            break;
        case GW_BLOCK_WINDOW:
            if (m < GW_GROUP_VALUES)
                return 0;
            bodies += gw_block_plane(view), s->windows++;
            break;
        default:
            return 0;
        }
    }
    s->odd = bodies % 2;
    s->words = s->body + bodies + s->odd;
    s->tops = s->words + 2 * s->words_n;
    s->tail = s->tops + s->windows;
    s->esc = s->tail + tail;
    s->end = s->esc + s->escapes_n;
    return 1;
}

/* All codes of the block.  The words must last exactly, and every state end where the encoder
 * began. */
static int read_codes(const struct gw_kern *kern, const struct shape *s, const uint8_t *in,
                      size_t limit, struct gw_entropy_ws *ws)
{
    const uint8_t *end = kern->rans->decode(&ws->rans, ws->state, in + s->words, in + limit,
                                            ws->codes, s->windows);
    uint32_t differ = 0;
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
        differ |= ws->state[lane] ^ GW_RANS_LOW;
    return end == in + s->tops && differ == 0;
}

struct reader {
    const uint8_t *body, *top, *esc;
    size_t escapes; /* not yet taken */
    const uint8_t *codes;
};

static int read_window(const struct gw_kern *kern, enum gw_view view, struct reader *r,
                       uint8_t *dst, struct gw_entropy_ws *ws)
{
    unsigned n = kern->rans->escapes(r->codes, view == GW_VIEW_F16 ? 7 : 15);
    if (n > r->escapes)
        return 0;
    memcpy(ws->body, r->codes, GW_CODES_BYTES);
    memcpy(ws->body + GW_CODES_BYTES, r->body, gw_block_plane(view));
    const uint8_t *esc = r->esc;
    r->codes += GW_CODES_BYTES, r->body += gw_block_plane(view);
    r->esc += n, r->escapes -= n;
    return kern->decode[view](ws->body, *r->top++, esc, n, dst);
}

static void read_raw(enum gw_view view, struct reader *r, size_t values, uint8_t *dst)
{
    const uint8_t *body = r->body;
    r->body += gw_raw_bytes(view, values);
    if (view != GW_VIEW_F32_BF16) {
        memcpy(dst, body, values * gw_view_shapes[view].width);
        return;
    }
    for (size_t i = 0; i < values; i++) {
        memset(dst + 4 * i, 0, 2);
        memcpy(dst + 4 * i + 2, body + 2 * i, 2);
    }
}

static int read_groups(const struct gw_kern *kern, enum gw_view view, struct reader *r,
                       const struct shape *s, size_t values, uint8_t *dst,
                       struct gw_entropy_ws *ws)
{
    size_t width = gw_view_shapes[view].width;
    for (size_t i = 0; i < s->groups; i++, values -= GW_GROUP_VALUES) {
        size_t m = gw_min_u64(GW_GROUP_VALUES, values);
        uint8_t *to = dst + i * GW_GROUP_VALUES * width;
        unsigned kind = kind_of(ws, i);
        if (kind == GW_BLOCK_ZERO)
            memset(to, 0, m * width);
        else if (kind == GW_BLOCK_RAW)
            read_raw(view, r, m, to);
        else if (!read_window(kern, view, r, to, ws))
            return 0;
    }
    return r->escapes == 0;
}

gw_err gw_block_decode(const struct gw_kern *kern, enum gw_view view, const uint8_t *in, size_t len,
                       size_t limit, uint8_t *dst, size_t n, size_t *used_p,
                       struct gw_entropy_ws *ws)
{
    size_t width = gw_view_shapes[view].width, values = n / width, tail = n % width;
    struct shape s = {.groups = gw_block_groups(view, n)};
    if (!read_head(in, len, &s, ws) || !add_up(view, values, tail, &s, ws) || s.end > len ||
        !gw_zero(in + s.words - s.odd, s.odd))
        return GW_E_CORRUPT;
    if (!read_codes(kern, &s, in, limit, ws))
        return GW_E_CORRUPT;
    struct reader r = {.body = in + s.body, .top = in + s.tops, .esc = in + s.esc};
    r.escapes = s.escapes_n, r.codes = ws->codes;
    if (!read_groups(kern, view, &r, &s, values, dst, ws))
        return GW_E_CORRUPT;
    memcpy(dst + n - tail, in + s.tail, tail);
    *used_p = s.end;
    return GW_OK;
}
