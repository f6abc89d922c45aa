/* group_encode.c - one tile into headers, bodies, tail, list and escapes.  Read gw_tile_encode at
 * the end. */
#include <string.h>

#include <base/check.h>

#include "group.h"

/* What has been written of a tile. */
struct writer {
    const struct gw_kern *kern;
    const struct gw_kern_tight *tight; /* NULL: the codec group */
    enum gw_view view;
    const struct gw_view_shape *shape;
    unsigned first, windows; /* from kind `first` on so many are windows */
    int sparse;              /* the last group that could be was */
    struct gw_group_ws *ws;
    uint8_t *head, *body, *list, *esc;
};

static inline void write_head(struct writer *w, unsigned kind, unsigned top, size_t body, size_t escapes)
{
    w->head[0] = (uint8_t)kind, w->head[1] = (uint8_t)top;
    w->head += 2, w->body += body, w->esc += escapes;
}

/* What a group's window is, escapes and all: the same for a sparse group's values alone, because zeros are no escapes
 * and never the top. */
struct window {
    unsigned kind, escapes, zeros;
    uint8_t top;
    size_t raw, len; /* len: raw where a window does not fit */
};

static void measure(const struct writer *w, size_t values, struct window *is)
{
    is->escapes = is->kind - GW_KIND_WINDOW;
    is->raw = gw_raw_bytes(w->view, values);
    is->len = is->escapes < w->windows ? gw_min_u64(w->shape->body + is->escapes, is->raw) : is->raw;
}

static int sparse_pays(const struct writer *w, unsigned some, const struct window *is, size_t best)
{
    return is->kind != GW_KIND_ZERO && is->kind != GW_KIND_RAW && is->zeros >= w->shape->zeros && some < GW_GROUP_VALUES &&
           gw_sparse_bytes(w->view, some) + 2 + is->escapes < gw_min_u64(is->len, best);
}

/* A map and the window of the values that are not zero, where that is shorter than anything else. */
static int write_sparse(struct writer *w, const uint8_t *src, size_t values, size_t best)
{
    uint8_t map[GW_MAP_BYTES];
    unsigned width = w->shape->width;
    struct window is;
    unsigned some = w->kern->holes->compact(width, src, map, w->ws->values);
    memset(w->ws->values + some * width, 0, (GW_GROUP_VALUES - some) * width);
    is.kind = w->kern->encode[w->view](w->ws->values, w->ws->body, w->esc, &is.top, &is.zeros);
    measure(w, values, &is);
    w->sparse = sparse_pays(w, some, &is, best);
    if (!w->sparse)
        return 0;
    memcpy(w->body, map, sizeof(map));
    gw_sparse_pack(w->view, some, w->ws->body, w->body + sizeof(map));
    w->list[0] = is.top, w->list[1] = (uint8_t)is.escapes, w->list += 2;
    write_head(w, GW_KIND_SPARSE, some, gw_sparse_bytes(w->view, some), is.escapes);
    return 1;
}

/* As the codec group writes it, where that is shorter than `best`; 0 where it is not.  After a sparse group the next one is most
 * often sparse too, and is looked at so first; what comes out is the same. */
static int write_window(struct writer *w, const uint8_t *src, size_t values, size_t best)
{
    struct window is;
    int tried = w->sparse && !w->kern->zero(src, (size_t)w->shape->width * GW_GROUP_VALUES);
    if (tried && write_sparse(w, src, values, best))
        return 1;
    is.kind = w->kern->encode[w->view](src, w->body, w->esc, &is.top, &is.zeros);
    is.escapes = is.kind - GW_KIND_WINDOW;
    if (gw_likely(is.escapes < w->windows && is.zeros < w->shape->zeros && values == GW_GROUP_VALUES && best == SIZE_MAX)) {
        write_head(w, w->first + is.escapes, is.top, w->shape->body, is.escapes);
        return 1;
    }
    if (is.kind == GW_KIND_ZERO) {
        write_head(w, is.kind, 0, 0, 0);
        return 1;
    }
    measure(w, values, &is);
    if (!tried && is.kind != GW_KIND_RAW && is.zeros >= w->shape->zeros && write_sparse(w, src, values, best))
        return 1; /* and where not, what it left in esc is what stood there */
    if (is.len >= best)
        return 0;
    if (is.len < is.raw) {
        write_head(w, w->first + is.escapes, is.top, w->shape->body, is.escapes);
        return 1;
    }
    gw_raw_write(w->view, src, values, w->body);
    write_head(w, GW_KIND_RAW, 0, is.raw, 0);
    return 1;
}

static int write_tight(struct writer *w, const uint8_t *src, size_t values)
{
    struct gw_tight t;
    const struct gw_view_shape *shape = w->shape;
    if (w->tight->encode[w->view] == NULL || !w->tight->encode[w->view](src, w->body, w->esc, &t))
        return 0;
    size_t body = shape->body - (GW_CODES_BYTES - GW_TIGHT_CODES_BYTES);
    size_t escapes = gw_tight_escapes(t.near, t.far), len = body + escapes + (t.far > 0 ? 2 : 0);
    if (values < GW_GROUP_VALUES && len >= gw_raw_bytes(w->view, values))
        return 0;
    if (t.zeros >= shape->zeros) {
        if (write_window(w, src, values, len))
            return 1;
        w->tight->encode[w->view](src, w->body, w->esc, &t); /* it was overwritten */
    }
    if (t.far > 0)
        w->list[0] = (uint8_t)t.near, w->list[1] = (uint8_t)t.far, w->list += 2;
    write_head(w, t.far > 0 ? GW_TIGHT_LISTED : GW_TIGHT_KIND + t.near, t.base, body, escapes);
    return 1;
}

/* src holds 256 values, but only the first `values` of them count: a short group may be shorter
 * raw. */
static void write_group(struct writer *w, const uint8_t *src, size_t values)
{
    if (w->tight == NULL || !write_tight(w, src, values))
        write_window(w, src, values, SIZE_MAX);
}

static uint8_t *append(uint8_t *at, const uint8_t *from, const uint8_t *to)
{
    memcpy(at, from, (size_t)(to - from));
    return at + (to - from);
}

size_t gw_tile_encode(const struct gw_kern *kern, const struct gw_kern_tight *tight, enum gw_view view,
                      const uint8_t *src, size_t n, uint8_t *out, struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES;
    size_t tail = n % width, left = n - tail;
    struct writer w = {.kern = kern, .tight = tight, .view = view, .shape = &gw_view_shapes[view], .ws = ws};
    w.first = tight != NULL ? GW_TIGHT_WINDOW : GW_KIND_WINDOW;
    w.windows = (tight != NULL ? GW_TIGHT_LISTED : GW_KIND_SPARSE) - w.first;
    w.head = out, w.list = ws->list, w.esc = ws->esc;
    w.body = out + 2 * gw_tile_groups(view, n);
    for (; left >= full; src += full, left -= full)
        write_group(&w, src, GW_GROUP_VALUES);
    if (left > 0) {
        memcpy(ws->group, src, left);
        memset(ws->group + left, 0, full - left);
        write_group(&w, ws->group, left / width);
    }
    uint8_t *at = append(w.body, src + left, src + left + tail);
    at = append(at, ws->list, w.list);
    at = append(at, ws->esc, w.esc);
    return (size_t)(at - out);
}
