/* group_decode.c - one tile back, from bytes that anybody may have written.  Read gw_tile_decode at
 * the end.
 *
 * The headers and the list give every length, so all of them are added up and held against what is
 * there before a single value is decoded; after that only the number of escapes that the codes of a
 * group ask for, and the number of values that a map asks for, can still be wrong.  A peer that
 * writes memory itself may change the bytes meanwhile: headers, list and maps are copied out first,
 * and each kernel takes a code into a register once. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "group.h"

struct reader {
    const struct gw_kern *kern;
    enum gw_view view;
    struct gw_group_ws *ws;
    uint8_t head[2 * GW_TILE_GROUPS], list[2 * GW_TILE_GROUPS];
    const uint8_t *at_head, *at_list, *body, *esc;
};

/* What the headers of so many values promise. */
struct sums {
    size_t bodies, listed, escapes;
};

/* 0 for a header that no encoder writes. */
static int add_group(enum gw_view view, unsigned kind, unsigned top, size_t values, struct sums *s)
{
    if (kind == GW_KIND_SPARSE) {
        s->bodies += gw_sparse_bytes(view, top), s->listed++;
        return top != 0;
    }
    if (kind == GW_KIND_RAW)
        s->bodies += gw_raw_bytes(view, values);
    else if (kind != GW_KIND_ZERO)
        s->bodies += gw_view_shapes[view].body, s->escapes += kind - GW_KIND_WINDOW;
    return top == 0 || (kind != GW_KIND_ZERO && kind != GW_KIND_RAW);
}

static int add_up(enum gw_view view, const uint8_t *head, size_t values, struct sums *s)
{
    for (; values > GW_GROUP_VALUES; values -= GW_GROUP_VALUES, head += 2)
        if (!add_group(view, head[0], head[1], GW_GROUP_VALUES, s))
            return 0;
    return values == 0 || add_group(view, head[0], head[1], values, s);
}

static size_t listed_escapes(const uint8_t *list, size_t listed)
{
    size_t escapes = 0;
    for (size_t i = 0; i < listed; i++)
        escapes += list[2 * i + 1];
    return escapes;
}

/* ---- one group ---- */

static int read_raw(struct reader *r, uint8_t *dst, size_t n)
{
    size_t values = n / gw_view_shapes[r->view].width;
    if (r->view != GW_VIEW_F32_BF16) {
        memcpy(dst, r->body, n);
    } else {
        for (size_t i = 0; i < values; i++) {
            memset(dst + 4 * i, 0, 2);
            memcpy(dst + 4 * i + 2, r->body + 2 * i, 2);
        }
    }
    r->body += gw_raw_bytes(r->view, values);
    return 1;
}

/* Each of these decodes a full group. */
static int read_window(struct reader *r, unsigned kind, unsigned top, uint8_t *dst)
{
    unsigned escapes = kind - GW_KIND_WINDOW;
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += gw_view_shapes[r->view].body, r->esc += escapes;
    return r->kern->decode[r->view](body, top, esc, escapes, dst);
}

static unsigned ones(const uint8_t map[GW_MAP_BYTES])
{
    unsigned n = 0;
    for (size_t i = 0; i < GW_MAP_BYTES; i += 8)
        n += (unsigned)__builtin_popcountll(gw_get64(map + i));
    return n;
}

static int read_sparse(struct reader *r, unsigned some, uint8_t *dst)
{
    uint8_t map[GW_MAP_BYTES];
    unsigned top = r->at_list[0], escapes = r->at_list[1];
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += gw_sparse_bytes(r->view, some), r->esc += escapes, r->at_list += 2;
    gw_copy_once(map, body, sizeof(map));
    if (ones(map) != some || !gw_sparse_unpack(r->view, some, body + sizeof(map), r->ws->body) ||
        !r->kern->decode[r->view](r->ws->body, top, esc, escapes, r->ws->values))
        return 0;
    r->kern->holes->expand(gw_view_shapes[r->view].width, map, r->ws->values, dst);
    return 1;
}

/* A group that is short decodes beside dst; what it holds beyond the end is zero, so that there is
 * one spelling. */
static int read_group(struct reader *r, uint8_t *dst, size_t n)
{
    size_t full = (size_t)gw_view_shapes[r->view].width * GW_GROUP_VALUES;
    unsigned kind = r->at_head[0], top = r->at_head[1];
    uint8_t *to = n == full ? dst : r->ws->group;
    r->at_head += 2;
    if (kind == GW_KIND_ZERO) {
        memset(dst, 0, n);
        return 1;
    }
    if (kind == GW_KIND_RAW)
        return read_raw(r, dst, n);
    if (!(kind == GW_KIND_SPARSE ? read_sparse(r, top, to) : read_window(r, kind, top, to)))
        return 0;
    if (to == dst)
        return 1;
    memcpy(dst, to, n);
    return gw_zero(to + n, full - n);
}

gw_err gw_tile_decode(const struct gw_kern *kern, enum gw_view view, const uint8_t *in, size_t len,
                      uint8_t *dst, size_t n, size_t *used_p, struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES, tail = n % width;
    size_t heads = 2 * gw_tile_groups(view, n);
    struct reader r = {.kern = kern, .view = view, .ws = ws};
    struct sums s = {0};
    if (len < heads)
        return GW_E_CORRUPT;
    gw_copy_once(r.head, in, heads);
    if (!add_up(view, r.head, n / width, &s))
        return GW_E_CORRUPT;
    size_t list = heads + s.bodies + tail, end = list + 2 * s.listed; /* at most 64 groups: cannot wrap */
    if (end > len)
        return GW_E_CORRUPT;
    gw_copy_once(r.list, in + list, 2 * s.listed);
    s.escapes += listed_escapes(r.list, s.listed);
    if (s.escapes > len - end)
        return GW_E_CORRUPT;
    r.at_head = r.head, r.at_list = r.list, r.body = in + heads, r.esc = in + end;
    for (size_t at = 0; at < n - tail; at += full)
        if (!read_group(&r, dst + at, gw_min_u64(full, n - tail - at)))
            return GW_E_CORRUPT;
    memcpy(dst + n - tail, in + heads + s.bodies, tail);
    *used_p = end + s.escapes;
    return GW_OK;
}
