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
    const struct gw_kern_tight *tight; /* NULL: the codec group */
    enum gw_view view;
    unsigned tights, first, windows; /* kinds 1..tights are tight, from first on so many are windows */
    size_t full, window;             /* bytes of a whole group, and of a window's body */
    struct gw_group_ws *ws;
    uint8_t head[2 * GW_TILE_GROUPS], list[2 * GW_TILE_GROUPS];
    const uint8_t *at_head, *at_list, *body, *esc;
};

/* ---- lengths ---- */

/* What a kind says. */
enum form { ZERO, WINDOW, TIGHT, LISTED, SPARSE, RAW };

static void set_kinds(struct reader *r)
{
    r->tights = r->tight != NULL ? GW_TIGHT_WINDOW - GW_TIGHT_KIND : 0;
    r->first = r->tight != NULL ? GW_TIGHT_WINDOW : GW_KIND_WINDOW;
    r->windows = (r->tight != NULL ? GW_TIGHT_LISTED : GW_KIND_SPARSE) - r->first;
}

static inline enum form form_of(const struct reader *r, unsigned kind, unsigned *escapes_p)
{
    *escapes_p = kind - r->first;
    if (*escapes_p < r->windows)
        return WINDOW;
    *escapes_p = kind - GW_TIGHT_KIND;
    if (*escapes_p < r->tights)
        return TIGHT;
    return kind == GW_KIND_ZERO ? ZERO : kind == GW_KIND_RAW ? RAW : kind == GW_KIND_SPARSE ? SPARSE : LISTED;
}

static size_t tight_body(const struct reader *r)
{
    return r->window - (GW_CODES_BYTES - GW_TIGHT_CODES_BYTES);
}

/* What the headers of a tile promise. */
struct sums {
    size_t bodies, listed, escapes;
};

/* 0 for a header that no encoder writes. */
static inline int add_group(const struct reader *r, const uint8_t head[2], size_t values, struct sums *s)
{
    unsigned escapes;
    enum form form = form_of(r, head[0], &escapes);
    switch (form) {
    case ZERO:
        return head[1] == 0;
    case RAW:
        s->bodies += gw_raw_bytes(r->view, values);
        return head[1] == 0;
    case WINDOW:
        s->bodies += r->window, s->escapes += escapes;
        return 1;
    case SPARSE:
        s->bodies += gw_sparse_bytes(r->view, head[1]), s->listed++;
        return head[1] != 0;
    case TIGHT:
        s->escapes += gw_tight_escapes(escapes, 0);
        break;
    case LISTED:
        s->listed++;
        break;
    }
    s->bodies += tight_body(r);
    return r->tight->decode[r->view] != NULL;
}

static int add_up(const struct reader *r, size_t values, struct sums *s)
{
    const uint8_t *head = r->head;
    for (; values > GW_GROUP_VALUES; values -= GW_GROUP_VALUES, head += 2)
        if (!add_group(r, head, GW_GROUP_VALUES, s))
            return 0;
    return values == 0 || add_group(r, head, values, s);
}

/* The escapes of groups that have two bytes in the list; 0 for such bytes as no encoder writes. */
static int add_listed(const struct reader *r, struct sums *s)
{
    const uint8_t *head = r->head;
    for (size_t i = 0; i < s->listed; head += 2) {
        const uint8_t *at = r->list + 2 * i;
        if (head[0] == GW_KIND_SPARSE) {
            s->escapes += at[1], i++;
        } else if (r->tight != NULL && head[0] == GW_TIGHT_LISTED) {
            if (at[0] > GW_TIGHT_NEAR_MAX || at[1] > at[0] || at[1] == 0)
                return 0;
            s->escapes += gw_tight_escapes(at[0], at[1]), i++;
        }
    }
    return 1;
}

/* ---- one group ---- */

static int read_raw(struct reader *r, uint8_t *dst, size_t n)
{
    size_t values = n / gw_view_shapes[r->view].width;
    gw_raw_read(r->view, r->body, values, dst);
    r->body += gw_raw_bytes(r->view, values);
    return 1;
}

/* Each of these decodes a full group. */
static int read_window(struct reader *r, unsigned escapes, unsigned top, uint8_t *dst)
{
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += r->window, r->esc += escapes;
    return r->kern->decode[r->view](body, top, esc, escapes, dst);
}

static int read_tight(struct reader *r, unsigned near, unsigned far, unsigned base, uint8_t *dst)
{
    struct gw_tight t = {.base = (uint8_t)base, .near = near, .far = far};
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += tight_body(r), r->esc += gw_tight_escapes(near, far);
    return r->tight->decode[r->view](body, &t, esc, dst);
}

static int read_listed(struct reader *r, unsigned base, uint8_t *dst)
{
    const uint8_t *at = r->at_list;
    r->at_list += 2;
    return read_tight(r, at[0], at[1], base, dst);
}

static int read_sparse(struct reader *r, unsigned some, uint8_t *dst)
{
    uint8_t map[GW_MAP_BYTES];
    unsigned top = r->at_list[0], escapes = r->at_list[1];
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += gw_sparse_bytes(r->view, some), r->esc += escapes, r->at_list += 2;
    gw_copy_once(map, body, sizeof(map));
    return gw_sparse_unpack(r->view, some, body + sizeof(map), r->ws->body) &&
           r->kern->decode[r->view](r->ws->body, top, esc, escapes, r->ws->values) &&
           r->kern->holes->expand(gw_view_shapes[r->view].width, map, r->ws->values, dst) == some;
}

static inline int read_full(struct reader *r, enum form form, unsigned escapes, unsigned top, uint8_t *dst)
{
    return form == WINDOW   ? read_window(r, escapes, top, dst)
           : form == TIGHT  ? read_tight(r, escapes, 0, top, dst)
           : form == LISTED ? read_listed(r, top, dst)
                            : read_sparse(r, top, dst);
}

/* A group that is short decodes beside dst; what it holds beyond the end is zero, so that there is
 * one spelling. */
static int read_short(struct reader *r, enum form form, unsigned escapes, unsigned top, uint8_t *dst, size_t n)
{
    if (!read_full(r, form, escapes, top, r->ws->group))
        return 0;
    memcpy(dst, r->ws->group, n);
    return gw_zero(r->ws->group + n, r->full - n);
}

static inline int read_group(struct reader *r, uint8_t *dst, size_t n)
{
    unsigned escapes, top = r->at_head[1];
    enum form form = form_of(r, r->at_head[0], &escapes);
    r->at_head += 2;
    if (form == ZERO) {
        memset(dst, 0, n);
        return 1;
    }
    if (form == RAW)
        return read_raw(r, dst, n);
    return n == r->full ? read_full(r, form, escapes, top, dst) : read_short(r, form, escapes, top, dst, n);
}

gw_err gw_tile_decode(const struct gw_kern *kern, const struct gw_kern_tight *tight, enum gw_view view,
                      const uint8_t *in, size_t len, uint8_t *dst, size_t n, size_t *used_p,
                      struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES, tail = n % width;
    size_t heads = 2 * gw_tile_groups(view, n);
    struct reader r;
    r.kern = kern, r.tight = tight, r.view = view, r.ws = ws, r.full = full;
    r.window = gw_view_shapes[view].body;
    set_kinds(&r);
    struct sums s = {0};
    if (len < heads)
        return GW_E_CORRUPT;
    gw_copy_once(r.head, in, heads);
    if (!add_up(&r, n / width, &s))
        return GW_E_CORRUPT;
    size_t list = heads + s.bodies + tail, end = list + 2 * s.listed; /* at most 64 groups: cannot wrap */
    if (end > len)
        return GW_E_CORRUPT;
    gw_copy_once(r.list, in + list, 2 * s.listed);
    if (!add_listed(&r, &s) || s.escapes > len - end)
        return GW_E_CORRUPT;
    r.at_head = r.head, r.at_list = r.list, r.body = in + heads, r.esc = in + end;
    for (size_t at = 0; at < n - tail; at += full)
        if (!read_group(&r, dst + at, gw_min_u64(full, n - tail - at)))
            return GW_E_CORRUPT;
    memcpy(dst + n - tail, in + heads + s.bodies, tail);
    *used_p = end + s.escapes;
    return GW_OK;
}
