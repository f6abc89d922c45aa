/* tiles.c - tiles into a payload and back.  Read gw_tiles_encode, then gw_tiles_decode.
 *
 * A payload is a table of one u16 per 16 KiB tile, padded to 16 bytes, and the tiles, each padded
 * to 16 bytes but the last.
 *
 *  15       11 10          0
 *  +----------+------------+
 *  |   view   |   length   |   length in units of 16 bytes; 0 = all zero, 1024 = stored, view 0
 *  +----------+------------+ */
#include "tiles.h"

#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

static size_t tiles_of(size_t len)
{
    return len / GW_TILE_BYTES + (len % GW_TILE_BYTES != 0);
}

static size_t table_of(size_t len)
{
    return (2 * tiles_of(len) + GW_TILE_UNIT - 1) / GW_TILE_UNIT * GW_TILE_UNIT;
}

static size_t units_of(size_t len)
{
    return (len + GW_TILE_UNIT - 1) / GW_TILE_UNIT;
}

size_t gw_tiles_bound(size_t src_len, const struct gw_coding *c)
{
    (void)c;
    return src_len + table_of(src_len);
}

/* ---- encode ---- */

struct writer {
    const struct gw_tiles *tiles;
    const struct gw_kern *kern;
    void *ws;
    uint8_t *table, *at;
    size_t room; /* bytes from `at` to the end of dst */
    uint32_t count;
};

static int store(struct writer *w, const uint8_t *src, size_t n)
{
    if (n > w->room)
        return 0;
    memcpy(w->at, src, n);
    gw_put16(w->table, GW_TILE_STORED);
    w->at += n, w->room -= n;
    return 1;
}

/* Ends a coded tile of len bytes at w->at; the last tile has no padding. */
static int finish(struct writer *w, unsigned view, size_t len, int last)
{
    size_t padded = last ? len : units_of(len) * GW_TILE_UNIT;
    if (padded > w->room)
        return 0;
    memset(w->at + len, 0, padded - len);
    gw_put16(w->table, (uint16_t)(view << GW_TILE_LENGTH_BITS | units_of(len)));
    w->at += padded, w->room -= padded;
    return 1;
}

/* Codes straight into dst where there is room for any outcome, else by way of the scratch. */
static int encode_tile(struct writer *w, unsigned view, const uint8_t *src, size_t n, int last)
{
    if (w->kern->zero(src, n)) {
        gw_put16(w->table, GW_TILE_ZERO);
        return 1;
    }
    uint8_t *out = w->room >= GW_TILE_ROOM ? w->at : w->ws;
    uint32_t count = 0;
    size_t len = w->tiles->encode(w->kern, &view, src, n, out, &count, w->ws);
    if (len >= n || len > GW_TILE_CODED_MAX)
        return store(w, src, n);
    if (out != w->at && len <= w->room)
        memcpy(w->at, out, len);
    w->count += count;
    return finish(w, view, len, last);
}

gw_err gw_tiles_encode(const struct gw_tiles *t, const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                       size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws)
{
    if (c == NULL || c->size < offsetof(struct gw_coding, param) || c->view >= GW_VIEW_COUNT ||
        src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    if (dst_cap < table_of(src_len) || !t->pays((enum gw_view)c->view, src, src_len))
        return GW_RAW;
    struct writer w = {.tiles = t, .kern = gw_kern_get(), .ws = ws, .table = dst, .at = (uint8_t *)dst + table_of(src_len)};
    w.room = dst_cap - table_of(src_len);
    memset(dst, 0, table_of(src_len));
    for (size_t at = 0; at < src_len; at += GW_TILE_BYTES, w.table += 2) {
        size_t n = gw_min_u64(GW_TILE_BYTES, src_len - at);
        if (!encode_tile(&w, c->view, (const uint8_t *)src + at, n, n == src_len - at))
            return GW_RAW;
    }
    *dst_len = (size_t)(w.at - (uint8_t *)dst);
    *count_p = w.count;
    return GW_OK;
}

/* ---- decode ---- */

struct reader {
    const struct gw_tiles *tiles;
    const struct gw_kern *kern;
    void *ws;
    const uint8_t *at;
    size_t left;
    uint64_t count;
};

static gw_err load(struct reader *r, uint8_t *dst, size_t n)
{
    if (n > r->left)
        return GW_E_CORRUPT;
    memcpy(dst, r->at, n);
    r->at += n, r->left -= n;
    return GW_OK;
}

static gw_err decode_coded(struct reader *r, unsigned view, size_t units, uint8_t *dst, size_t n, int last)
{
    size_t len = last ? r->left : units * GW_TILE_UNIT, used;
    uint32_t count;
    if (view >= r->tiles->views || units >= GW_TILE_STORED || len > r->left || units_of(len) != units)
        return GW_E_CORRUPT;
    gw_err err = r->tiles->decode(r->kern, view, r->at, len, dst, n, &used, &count, r->ws);
    if (err != GW_OK)
        return err;
    size_t padding = len - used;
    if (padding >= GW_TILE_UNIT || (last && padding != 0) || !gw_zero(r->at + used, padding))
        return GW_E_CORRUPT;
    r->count += count;
    r->at += len, r->left -= len;
    return GW_OK;
}

static gw_err decode_tile(struct reader *r, unsigned entry, uint8_t *dst, size_t n, int last)
{
    if (entry == GW_TILE_ZERO) {
        memset(dst, 0, n);
        return GW_OK;
    }
    if (entry == GW_TILE_STORED)
        return load(r, dst, n);
    unsigned units = entry & ((1u << GW_TILE_LENGTH_BITS) - 1);
    return units == 0 ? GW_E_CORRUPT
                      : decode_coded(r, entry >> GW_TILE_LENGTH_BITS, units, dst, n, last);
}

gw_err gw_tiles_decode(const struct gw_tiles *t, const struct gw_frame *f, const void *src, void *dst, size_t dst_len,
                       void *ws)
{
    size_t table = table_of(dst_len), tiles = tiles_of(dst_len), src_len = f->wire_bytes;
    const uint8_t *in = src;
    if (f->view >= GW_VIEW_COUNT || f->param != 0 || dst_len > GW_CHUNK_MAX || src_len < table ||
        !gw_zero(in + 2 * tiles, table - 2 * tiles))
        return GW_E_CORRUPT;
    struct reader r = {.tiles = t, .kern = gw_kern_get(), .ws = ws, .at = in + table, .left = src_len - table};
    for (size_t i = 0; i < tiles; i++) {
        size_t at = i * GW_TILE_BYTES, n = gw_min_u64(GW_TILE_BYTES, dst_len - at);
        uint8_t entry[2];
        gw_copy_once(entry, in + 2 * i, sizeof(entry));
        gw_err err = decode_tile(&r, gw_get16(entry), (uint8_t *)dst + at, n, i + 1 == tiles);
        if (err != GW_OK)
            return err;
    }
    return r.left == 0 && r.count == f->count ? GW_OK : GW_E_CORRUPT;
}
