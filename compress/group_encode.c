/* group_encode.c - one tile into headers, bodies, tail and escapes.  Read gw_tile_encode at the
 * end. */
#include <string.h>

#include "group.h"

/* What has been written of a tile. */
struct writer {
    uint8_t *head, *body, *esc;
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

/* src holds 256 values, but only the first `values` of them count: a short group may be shorter
 * raw. */
static void write_group(const struct gw_kern *kern, enum gw_view view, const uint8_t *src,
                        size_t values, struct writer *w)
{
    uint8_t top;
    unsigned kind = kern->encode[view](src, w->body, w->esc, &top);
    size_t raw = gw_raw_bytes(view, values), body = gw_view_shapes[view].body;
    if (kind != GW_KIND_ZERO && kind != GW_KIND_RAW && body + kind - GW_KIND_WINDOW >= raw)
        kind = GW_KIND_RAW, top = 0;
    w->head[0] = (uint8_t)kind, w->head[1] = top;
    w->head += 2;
    if (kind == GW_KIND_ZERO)
        return;
    if (kind == GW_KIND_RAW) {
        write_raw(view, src, values, w->body);
        w->body += raw;
        return;
    }
    w->body += body, w->esc += kind - GW_KIND_WINDOW;
}

size_t gw_tile_encode(const struct gw_kern *kern, enum gw_view view, const uint8_t *src, size_t n,
                      uint8_t *out, struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES;
    size_t tail = n % width, left = n - tail;
    struct writer w = {.head = out, .body = out + 2 * gw_tile_groups(view, n), .esc = ws->esc};
    for (; left >= full; src += full, left -= full)
        write_group(kern, view, src, GW_GROUP_VALUES, &w);
    if (left > 0) {
        memcpy(ws->group, src, left);
        memset(ws->group + left, 0, full - left);
        write_group(kern, view, ws->group, left / width, &w);
    }
    memcpy(w.body, src + left, tail);
    size_t escapes = (size_t)(w.esc - ws->esc);
    memcpy(w.body + tail, ws->esc, escapes);
    return (size_t)(w.body - out) + tail + escapes;
}
