/* codec_zero.c - lossless: words of 2 or 4 bytes that are 0 are left out.
 *
 * A payload is a table and tiles, as that of group.  A coded tile says in a map which words are not
 * 0, a bit per word; of the map's bytes only those that are not 0 travel, and a bit per byte says
 * which.  Read encode, then decode.
 *
 *  +-------+---------------+---------+-------+------+---------+
 *  | level | bytes of map  | to word | words | tail | padding |
 *  +-------+---------------+---------+-------+------+---------+ */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "codecs.h"
#include "group.h"
#include "zero.h"

struct zero_ws {
    uint8_t map[GW_ZERO_MAP], level[GW_ZERO_LEVEL], bytes[GW_ZERO_MAP];
    uint8_t last[4 * GW_ZERO_UNIT]; /* a unit that is short */
};

static size_t tiles_of(size_t len)
{
    return len / GW_TILE_BYTES + (len % GW_TILE_BYTES != 0);
}

static size_t units_of(size_t len)
{
    return (len + GW_TILE_UNIT - 1) / GW_TILE_UNIT;
}

static size_t table_of(size_t len)
{
    return units_of(2 * tiles_of(len)) * GW_TILE_UNIT;
}

static size_t width_of(enum gw_view view)
{
    return view == GW_VIEW_BF16 || view == GW_VIEW_F16 ? 2 : 4;
}

static size_t bound(size_t src_len, const struct gw_coding *c)
{
    (void)c;
    return src_len + table_of(src_len);
}

/* Where the parts of a tile of n bytes lie. */
struct shape {
    size_t width, tail, units, level; /* units: of 8 words, the last may be short; level: bytes */
    size_t rest;                      /* words of the last unit where it is short, else 0 */
};

static struct shape shape_of(size_t width, size_t n)
{
    struct shape s = {.width = width, .tail = n % width};
    size_t words = n / width;
    s.rest = words % GW_ZERO_UNIT;
    s.units = (words + GW_ZERO_UNIT - 1) / GW_ZERO_UNIT;
    s.level = (s.units + 7) / 8;
    return s;
}

/* Words are aligned to themselves. */
static size_t words_at(const struct shape *s, size_t bytes)
{
    return (s->level + bytes + s->width - 1) / s->width * s->width;
}

/* ---- does it pay? ---- */

enum { LINE = 64, PLACES = 64 };

/* What a line costs, in bits. */
static size_t line_cost(size_t width, const uint8_t *line)
{
    uint8_t map[LINE / 2 / GW_ZERO_UNIT];
    size_t units = LINE / width / GW_ZERO_UNIT, bits = units;
    bits += 8 * width * gw_kern_zero_scalar.map[width / 4](line, units, map);
    for (size_t u = 0; u < units; u++)
        bits += map[u] != 0 ? 8 : 0;
    return bits;
}

/* From lines that lie evenly over the chunk; a gain below a thirty-second is not worth the work. */
static int pays(size_t width, const uint8_t *src, size_t len)
{
    size_t lines = len / LINE, places = gw_min_u64(PLACES, lines), bits = 0;
    for (size_t i = 0; i < places; i++)
        __builtin_prefetch(src + i * lines / places * LINE);
    for (size_t i = 0; i < places; i++)
        bits += line_cost(width, src + i * lines / places * LINE);
    return bits + places * LINE / 4 < places * LINE * 8;
}

/* ---- encode ---- */

struct writer {
    const struct gw_kern *kern;
    struct zero_ws *ws;
    uint8_t *table, *at;
    size_t room; /* bytes from `at` to the end of dst */
    uint32_t count;
};

/* A short unit is coded beside the tile, as if zeros followed. */
static const uint8_t *last_unit(const struct shape *s, const uint8_t *src, struct zero_ws *ws)
{
    memset(ws->last, 0, sizeof(ws->last));
    memcpy(ws->last, src + (s->units - 1) * GW_ZERO_UNIT * s->width, s->rest * s->width);
    return ws->last;
}

/* The map of a tile's words.  Answers how many are not 0. */
static size_t map_of(const struct gw_kern_zero *kern, const struct shape *s, const uint8_t *src, struct zero_ws *ws)
{
    size_t full = s->units - (s->rest != 0);
    size_t count = kern->map[s->width / 4](src, full, ws->map);
    memset(ws->map + full, 0, 8 * s->level - full);
    if (s->rest != 0)
        count += kern->map[s->width / 4](last_unit(s, src, ws), 1, ws->map + full);
    return count;
}

/* A byte with a 1 for each of eight bytes that is not 0. */
static unsigned full_bytes(const uint8_t *p)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    uint64_t v = gw_get64(p);
    if (v == 0)
        return 0;
    v = ((((v & low) + low) | v) & ~low) >> 7;
    return (unsigned)(v * 0x0102040810204080 >> 56);
}

/* The bytes of the map that are not 0, and which they are.  Answers how many. */
static size_t level_of(const struct shape *s, const uint8_t *map, uint8_t *level, uint8_t *bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < s->level; i++) {
        level[i] = (uint8_t)full_bytes(map + 8 * i);
        for (unsigned left = level[i]; left != 0; left &= left - 1)
            bytes[n++] = map[8 * i + (unsigned)__builtin_ctz(left)];
    }
    memset(level + s->level, 0, GW_ZERO_LEVEL - s->level);
    return n;
}

static int store(struct writer *w, const uint8_t *src, size_t n)
{
    if (n > w->room)
        return 0;
    memcpy(w->at, src, n);
    gw_put16(w->table, GW_TILE_STORED);
    w->at += n, w->room -= n;
    return 1;
}

/* The units for a kernel, a short one not among them.  Answers its byte of the map, 0 where there is
 * none. */
static unsigned units_but_short(const struct shape *s, struct zero_ws *ws, size_t bytes, struct gw_zero_units *u)
{
    size_t last = s->units - 1;
    *u = (struct gw_zero_units){.level = ws->level, .bytes = ws->bytes, .rows = (s->level + 7) / 8};
    if (s->rest == 0 || !(ws->level[last / 8] >> last % 8 & 1))
        return 0;
    ws->level[last / 8] ^= (uint8_t)(1u << last % 8);
    return ws->bytes[bytes - 1];
}

static void write_tile(struct writer *w, const struct shape *s, const uint8_t *src, size_t n, size_t bytes, size_t padded)
{
    struct gw_zero_units u;
    size_t at = words_at(s, bytes);
    memcpy(w->at, w->ws->level, s->level);
    memcpy(w->at + s->level, w->ws->bytes, bytes);
    memset(w->at + s->level + bytes, 0, at - s->level - bytes);
    unsigned last = units_but_short(s, w->ws, bytes, &u);
    uint8_t *to = w->kern->zeros->pack[s->width / 4](src, &u, w->at + at, w->at + w->room);
    to = gw_zero_press(s->width, w->ws->last, last, to);
    memcpy(to, src + n - s->tail, s->tail);
    to += s->tail;
    memset(to, 0, (size_t)(w->at + padded - to));
}

static int encode_tile(struct writer *w, enum gw_view view, const uint8_t *src, size_t n, int last)
{
    if (w->kern->zero(src, n)) {
        gw_put16(w->table, GW_TILE_ZERO);
        return 1;
    }
    struct shape s = shape_of(width_of(view), n);
    size_t count = map_of(w->kern->zeros, &s, src, w->ws);
    size_t bytes = level_of(&s, w->ws->map, w->ws->level, w->ws->bytes);
    size_t len = words_at(&s, bytes) + count * s.width + s.tail;
    if (len >= n || len > GW_TILE_CODED_MAX)
        return store(w, src, n);
    size_t padded = last ? len : units_of(len) * GW_TILE_UNIT;
    if (padded > w->room)
        return 0;
    write_tile(w, &s, src, n, bytes, padded);
    gw_put16(w->table, (uint16_t)(view << GW_TILE_LENGTH_BITS | units_of(len)));
    w->at += padded, w->room -= padded, w->count += (uint32_t)count;
    return 1;
}

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap, size_t *dst_len,
                     uint32_t *count_p, void *ws)
{
    if (c == NULL || c->size < offsetof(struct gw_coding, param) || c->view >= GW_VIEW_COUNT || src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    enum gw_view view = (enum gw_view)c->view;
    if (dst_cap < table_of(src_len) || !pays(width_of(view), src, src_len))
        return GW_RAW;
    struct writer w = {.kern = gw_kern_get(), .ws = ws, .table = dst, .at = (uint8_t *)dst + table_of(src_len)};
    w.room = dst_cap - table_of(src_len);
    memset(dst, 0, table_of(src_len));
    for (size_t at = 0; at < src_len; at += GW_TILE_BYTES, w.table += 2) {
        size_t n = gw_min_u64(GW_TILE_BYTES, src_len - at);
        if (!encode_tile(&w, view, (const uint8_t *)src + at, n, n == src_len - at))
            return GW_RAW;
    }
    *dst_len = (size_t)(w.at - (uint8_t *)dst);
    *count_p = w.count;
    return GW_OK;
}

/* ---- decode ---- */

struct reader {
    const struct gw_kern *kern;
    struct zero_ws *ws;
    const uint8_t *at;
    size_t left;
    uint64_t count;
};

/* The map into the scratch, where no peer can change it any more.  0 where it is not one that an
 * encoder makes; *bytes_p: how many of its bytes came, *count_p: how many words they name. */
static int read_map(const struct shape *s, const uint8_t *in, size_t len, struct zero_ws *ws, size_t *bytes_p, size_t *count_p)
{
    size_t n = 0, count = 0;
    if (len < s->level)
        return 0;
    memset(ws->level, 0, sizeof(ws->level));
    gw_copy_once(ws->level, in, s->level);
    for (size_t i = 0; i < s->level; i++)
        n += (size_t)__builtin_popcount(ws->level[i]);
    if (n > s->units || n > len - s->level || (s->units % 8 != 0 && ws->level[s->level - 1] >> s->units % 8 != 0))
        return 0;
    gw_copy_once(ws->bytes, in + s->level, n);
    for (size_t i = 0; i < n; i++) {
        if (ws->bytes[i] == 0)
            return 0;
        count += (size_t)__builtin_popcount(ws->bytes[i]);
    }
    *bytes_p = n, *count_p = count;
    return 1;
}

/* The words, whose number has been held against what is there. */
static int read_words(struct reader *r, const struct shape *s, size_t bytes, size_t first, uint8_t *dst, size_t n)
{
    struct gw_zero_units u;
    unsigned last = units_but_short(s, r->ws, bytes, &u);
    if (last >> s->rest != 0)
        return 0;
    memset(dst, 0, n);
    const uint8_t *from = r->kern->zeros->unpack[s->width / 4](r->at + first, r->at + r->left, &u, dst);
    if (last != 0) {
        from = gw_zero_spread(s->width, from, last, r->ws->last);
        memcpy(dst + (s->units - 1) * GW_ZERO_UNIT * s->width, r->ws->last, s->rest * s->width);
    }
    memcpy(dst + n - s->tail, from, s->tail);
    return 1;
}

static gw_err decode_coded(struct reader *r, unsigned view, size_t units, uint8_t *dst, size_t n, int last)
{
    size_t len = last ? r->left : units * GW_TILE_UNIT, bytes, count;
    if (view >= GW_VIEW_COUNT || units >= GW_TILE_STORED || len > r->left || units_of(len) != units)
        return GW_E_CORRUPT;
    struct shape s = shape_of(width_of((enum gw_view)view), n);
    if (!read_map(&s, r->at, len, r->ws, &bytes, &count))
        return GW_E_CORRUPT;
    size_t map = s.level + bytes, first = words_at(&s, bytes);
    size_t used = first + count * s.width + s.tail; /* a tile's worth and its map: cannot wrap */
    if (used > len)
        return GW_E_CORRUPT;
    size_t padding = len - used;
    if (padding >= GW_TILE_UNIT || (last && padding != 0) || !gw_zero(r->at + used, padding) ||
        !gw_zero(r->at + map, first - map) || !read_words(r, &s, bytes, first, dst, n))
        return GW_E_CORRUPT;
    r->count += count;
    r->at += len, r->left -= len;
    return GW_OK;
}

static gw_err decode_tile(struct reader *r, unsigned entry, uint8_t *dst, size_t n, int last)
{
    unsigned units = entry & ((1u << GW_TILE_LENGTH_BITS) - 1);
    if (entry == GW_TILE_ZERO) {
        memset(dst, 0, n);
        return GW_OK;
    }
    if (entry == GW_TILE_STORED) {
        if (n > r->left)
            return GW_E_CORRUPT;
        memcpy(dst, r->at, n);
        r->at += n, r->left -= n;
        return GW_OK;
    }
    return units == 0 ? GW_E_CORRUPT : decode_coded(r, entry >> GW_TILE_LENGTH_BITS, units, dst, n, last);
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    size_t table = table_of(dst_len), tiles = tiles_of(dst_len), src_len = f->wire_bytes;
    const uint8_t *in = src;
    if (f->view >= GW_VIEW_COUNT || f->param != 0 || dst_len > GW_CHUNK_MAX || src_len < table ||
        !gw_zero(in + 2 * tiles, table - 2 * tiles))
        return GW_E_CORRUPT;
    struct reader r = {.kern = gw_kern_get(), .ws = ws, .at = in + table, .left = src_len - table};
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

const struct gw_codec gw_codec_zero = {
    .id = GW_CODEC_ZERO,
    .name = "zero",
    .traits = 0,
    .ws_bytes = sizeof(struct zero_ws),
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
