/* entropy_encode.c - one block: groups as `group` codes them, their codes then through the states.
 * Read gw_block_encode at the end. */
#include <string.h>

#include <base/bytes.h>

#include "entropy.h"

/* What has been written of a block. */
struct writer {
    uint8_t *body;
    size_t room; /* bytes from body to where the block must end */
    uint8_t *esc;
    size_t windows;
};

static int take(struct writer *w, const uint8_t *from, size_t n)
{
    if (n > w->room)
        return 0;
    memcpy(w->body, from, n);
    w->body += n, w->room -= n;
    return 1;
}

static int take_raw(struct writer *w, enum gw_view view, const uint8_t *src, size_t values)
{
    size_t n = gw_raw_bytes(view, values);
    if (n > w->room)
        return 0;
    gw_raw_write(view, src, values, w->body);
    w->body += n, w->room -= n;
    return 1;
}

static int take_group(const struct gw_kern *kern, struct writer *w, enum gw_view view, const uint8_t *src, size_t i,
                      struct gw_entropy_ws *ws)
{
    uint8_t *top = &ws->out.tops[w->windows], *codes = &ws->out.codes[w->windows * GW_CODES_BYTES];
    unsigned zeros, kind = kern->encode[view](src, ws->body, w->esc, top, &zeros), shift = i % 4 * 2;
    if (kind == GW_KIND_ZERO)
        return 1;
    if (kind == GW_KIND_RAW) {
        ws->out.kinds[i / 4] |= (uint8_t)(GW_BLOCK_RAW << shift);
        return take_raw(w, view, src, GW_GROUP_VALUES);
    }
    ws->out.kinds[i / 4] |= (uint8_t)(GW_BLOCK_WINDOW << shift);
    memcpy(codes, ws->body, GW_CODES_BYTES);
    w->windows++, w->esc += kind - GW_KIND_WINDOW;
    return take(w, ws->body + GW_CODES_BYTES, gw_block_plane(view));
}

static int take_groups(const struct gw_kern *kern, struct writer *w, enum gw_view view, const uint8_t *src, size_t values,
                       struct gw_entropy_ws *ws)
{
    size_t width = gw_view_shapes[view].width, i = 0;
    for (; values >= GW_GROUP_VALUES; i++, values -= GW_GROUP_VALUES) {
        if (!take_group(kern, w, view, src, i, ws))
            return 0;
        src += GW_GROUP_VALUES * width;
    }
    if (values == 0 || gw_zero(src, values * width))
        return 1;
    ws->out.kinds[i / 4] |= (uint8_t)(GW_BLOCK_RAW << i % 4 * 2);
    return take_raw(w, view, src, values);
}

size_t gw_block_encode(const struct gw_kern *kern, enum gw_view view, const uint8_t *src, size_t n, uint8_t *out, size_t room,
                       struct gw_entropy_ws *ws)
{
    size_t width = gw_view_shapes[view].width, tail = n % width;
    size_t kinds = gw_block_kinds_bytes(gw_block_groups(view, n)), head = GW_BLOCK_KINDS + kinds;
    if (room < head)
        return 0;
    struct writer w = {.body = out + head, .room = room - head, .esc = ws->out.esc};
    memset(ws->out.kinds, 0, sizeof(ws->out.kinds));
    if (!take_groups(kern, &w, view, src, n / width, ws))
        return 0;
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
        ws->out.state[lane] = GW_RANS_LOW;
    uint8_t *end = ws->out.words + sizeof(ws->out.words);
    uint8_t *words = kern->rans->encode(&ws->rans, ws->out.state, ws->out.codes, w.windows, end);
    size_t escapes = (size_t)(w.esc - ws->out.esc), odd = (size_t)(w.body - out) % 2;
    if (!take(&w, (const uint8_t *)"", odd) || !take(&w, words, (size_t)(end - words)) || !take(&w, ws->out.tops, w.windows) ||
        !take(&w, src + n - tail, tail) || !take(&w, ws->out.esc, escapes))
        return 0;
    for (unsigned lane = 0; lane < GW_RANS_LANES; lane++)
        gw_put32(out + 4 * lane, ws->out.state[lane]);
    gw_put16(out + GW_BLOCK_COUNTS, (uint16_t)((end - words) / 2));
    gw_put16(out + GW_BLOCK_COUNTS + 2, (uint16_t)escapes);
    memcpy(out + GW_BLOCK_KINDS, ws->out.kinds, kinds);
    return (size_t)(w.body - out);
}
