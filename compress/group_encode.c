/* group_encode.c - one tile into headers, bodies, tail, list and escapes.  Read gw_tile_encode at
 * the end. */
#include <string.h>

#include "group.h"

/* What has been written of a tile. */
struct writer {
    const struct gw_kern *kern;
    enum gw_view view;
    struct gw_group_ws *ws;
    uint8_t *head, *body, *list, *esc;
};

/* A raw group as it stands, except that f32-that-holds-bf16 leaves out the low halves, which are
 * zero. */
static void write_raw(enum gw_view view, const uint8_t *src, size_t values, uint8_t *body)
{
    if (view != GW_VIEW_F32_BF16) {
        memcpy(body, src, values * gw_view_shapes[view].width);
        return;
    }
    for (size_t i = 0; i < values; i++)
        memcpy(body + 2 * i, src + 4 * i + 2, 2);
}

/* A map and the window of the values that are not zero, where that is shorter than `best`.  Zeros
 * are no escapes and never the top: both are what the whole group's window has. */
static int write_sparse(struct writer *w, const uint8_t *src, unsigned escapes, size_t best)
{
    uint8_t map[GW_MAP_BYTES], top;
    unsigned width = gw_view_shapes[w->view].width, zeros;
    unsigned some = w->kern->holes->compact(width, src, map, w->ws->values);
    if (some == GW_GROUP_VALUES || gw_sparse_bytes(w->view, some) + 2 + escapes >= best)
        return 0;
    memset(w->ws->values + some * width, 0, (GW_GROUP_VALUES - some) * width);
    w->kern->encode[w->view](w->ws->values, w->ws->body, w->esc, &top, &zeros);
    memcpy(w->body, map, sizeof(map));
    gw_sparse_pack(w->view, some, w->ws->body, w->body + sizeof(map));
    w->head[0] = GW_KIND_SPARSE, w->head[1] = (uint8_t)some;
    w->list[0] = top, w->list[1] = (uint8_t)escapes;
    w->head += 2, w->list += 2, w->esc += escapes;
    w->body += gw_sparse_bytes(w->view, some);
    return 1;
}

/* src holds 256 values, but only the first `values` of them count: a short group may be shorter
 * raw. */
static void write_group(struct writer *w, const uint8_t *src, size_t values)
{
    const struct gw_view_shape *shape = &gw_view_shapes[w->view];
    uint8_t top;
    unsigned zeros, kind = w->kern->encode[w->view](src, w->body, w->esc, &top, &zeros);
    size_t raw = gw_raw_bytes(w->view, values), len = raw;
    if (kind != GW_KIND_ZERO && kind != GW_KIND_RAW) {
        len = shape->body + kind - GW_KIND_WINDOW;
        if (zeros >= shape->zeros &&
            write_sparse(w, src, kind - GW_KIND_WINDOW, len < raw ? len : raw))
            return;
    }
    if (kind != GW_KIND_ZERO && len >= raw)
        kind = GW_KIND_RAW, top = 0;
    w->head[0] = (uint8_t)kind, w->head[1] = top;
    w->head += 2;
    if (kind == GW_KIND_ZERO)
        return;
    if (kind == GW_KIND_RAW) {
        write_raw(w->view, src, values, w->body);
        w->body += raw;
        return;
    }
    w->body += shape->body, w->esc += kind - GW_KIND_WINDOW;
}

static uint8_t *append(uint8_t *at, const uint8_t *from, const uint8_t *to)
{
    memcpy(at, from, (size_t)(to - from));
    return at + (to - from);
}

size_t gw_tile_encode(const struct gw_kern *kern, enum gw_view view, const uint8_t *src, size_t n,
                      uint8_t *out, struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES;
    size_t tail = n % width, left = n - tail;
    struct writer w = {.kern = kern, .view = view, .ws = ws, .head = out, .list = ws->list, .esc = ws->esc};
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
