/* group_decode.c - one tile back, from bytes that anybody may have written.  Read gw_tile_decode at
 * the end.
 *
 * The headers give every length, so all of them are added up and held against what is there before
 * a single value is decoded; after that only the number of escapes that the codes of a group ask
 * for can still be wrong.  A peer that writes memory itself may change the bytes meanwhile: the
 * headers are copied out first, and each kernel takes a code into a register once. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "group.h"

struct reader {
    const uint8_t *head, *body, *esc;
};

/* Bodies and escapes that the headers of so many values promise; 0 for a header that no encoder
 * writes. */
static int lengths(enum gw_view view, const uint8_t *head, size_t values, size_t *bodies_p,
                   size_t *escapes_p)
{
    size_t bodies = 0, escapes = 0;
    for (size_t at = 0; at < values; at += GW_GROUP_VALUES, head += 2) {
        unsigned kind = head[0], top = head[1];
        if (kind == GW_KIND_SPARSE)
            return 0;
        if ((kind == GW_KIND_ZERO || kind == GW_KIND_RAW) && top != 0)
            return 0;
        if (kind == GW_KIND_RAW)
            bodies += gw_raw_bytes(view, gw_min_u64(GW_GROUP_VALUES, values - at));
        else if (kind != GW_KIND_ZERO)
            bodies += gw_view_shapes[view].body, escapes += kind - GW_KIND_WINDOW;
    }
    *bodies_p = bodies, *escapes_p = escapes;
    return 1;
}

static void read_raw(enum gw_view view, const uint8_t *body, size_t values, uint8_t *dst)
{
    if (view != GW_VIEW_F32_BF16) {
        memcpy(dst, body, values * gw_view_shapes[view].width);
        return;
    }
    for (size_t i = 0; i < values; i++) {
        memset(dst + 4 * i, 0, 2);
        memcpy(dst + 4 * i + 2, body + 2 * i, 2);
    }
}

/* A window group that is short decodes beside dst; what it holds beyond the end is zero, so that
 * there is one spelling. */
static int read_window(const struct gw_kern *kern, enum gw_view view, struct reader *r,
                       unsigned kind, unsigned top, uint8_t *dst, size_t n, struct gw_group_ws *ws)
{
    size_t full = (size_t)gw_view_shapes[view].width * GW_GROUP_VALUES;
    unsigned escapes = kind - GW_KIND_WINDOW;
    const uint8_t *body = r->body, *esc = r->esc;
    r->body += gw_view_shapes[view].body, r->esc += escapes;
    if (n == full)
        return kern->decode[view](body, top, esc, escapes, dst);
    if (!kern->decode[view](body, top, esc, escapes, ws->group) ||
        !gw_zero(ws->group + n, full - n))
        return 0;
    memcpy(dst, ws->group, n);
    return 1;
}

/* One group of n bytes. */
static int read_group(const struct gw_kern *kern, enum gw_view view, struct reader *r, uint8_t *dst,
                      size_t n, struct gw_group_ws *ws)
{
    size_t values = n / gw_view_shapes[view].width;
    unsigned kind = r->head[0], top = r->head[1];
    r->head += 2;
    if (kind == GW_KIND_ZERO) {
        memset(dst, 0, n);
        return 1;
    }
    if (kind != GW_KIND_RAW)
        return read_window(kern, view, r, kind, top, dst, n, ws);
    read_raw(view, r->body, values, dst);
    r->body += gw_raw_bytes(view, values);
    return 1;
}

gw_err gw_tile_decode(const struct gw_kern *kern, enum gw_view view, const uint8_t *in, size_t len,
                      uint8_t *dst, size_t n, size_t *used_p, struct gw_group_ws *ws)
{
    size_t width = gw_view_shapes[view].width, full = width * GW_GROUP_VALUES, tail = n % width;
    size_t heads = 2 * gw_tile_groups(view, n), bodies, escapes;
    uint8_t head[2 * GW_TILE_GROUPS];
    if (len < heads)
        return GW_E_CORRUPT;
    gw_copy_once(head, in, heads);
    if (!lengths(view, head, n / width, &bodies, &escapes))
        return GW_E_CORRUPT;
    size_t used = heads + bodies + tail + escapes; /* at most 64 groups: cannot wrap */
    if (used > len)
        return GW_E_CORRUPT;
    struct reader r = {.head = head, .body = in + heads, .esc = in + used - escapes};
    for (size_t at = 0; at < n - tail; at += full)
        if (!read_group(kern, view, &r, dst + at, gw_min_u64(full, n - tail - at), ws))
            return GW_E_CORRUPT;
    memcpy(dst + n - tail, in + heads + bodies, tail);
    *used_p = used;
    return GW_OK;
}
