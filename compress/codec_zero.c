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
#include "tiles.h"
#include "zero.h"

struct zero_ws {
    uint8_t tile[GW_TILE_ROOM]; /* of tiles.c */
    uint8_t map[GW_ZERO_MAP], level[GW_ZERO_LEVEL], bytes[GW_ZERO_MAP];
    uint8_t last[4 * GW_ZERO_UNIT]; /* a unit that is short */
};

static size_t width_of(enum gw_view view)
{
    return view == GW_VIEW_BF16 || view == GW_VIEW_F16 ? 2 : 4;
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
static int pays(enum gw_view view, const void *bytes, size_t len)
{
    const uint8_t *src = bytes;
    size_t width = width_of(view), lines = len / LINE, places = gw_min_u64(PLACES, lines), bits = 0;
    for (size_t i = 0; i < places; i++)
        __builtin_prefetch(src + i * lines / places * LINE);
    for (size_t i = 0; i < places; i++)
        bits += line_cost(width, src + i * lines / places * LINE);
    return bits + places * LINE / 4 < places * LINE * 8;
}

/* ---- encode ---- */

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

static void write_tile(const struct gw_kern_zero *kern, const struct shape *s, const uint8_t *src, size_t n, size_t bytes,
                       uint8_t *out, struct zero_ws *ws)
{
    struct gw_zero_units u;
    size_t at = words_at(s, bytes);
    memcpy(out, ws->level, s->level);
    memcpy(out + s->level, ws->bytes, bytes);
    memset(out + s->level + bytes, 0, at - s->level - bytes);
    unsigned last = units_but_short(s, ws, bytes, &u);
    uint8_t *to = kern->pack[s->width / 4](src, &u, out + at, out + GW_TILE_ROOM);
    to = gw_zero_press(s->width, ws->last, last, to);
    memcpy(to, src + n - s->tail, s->tail);
}

static size_t encode_tile(const struct gw_kern *kern, unsigned *view_p, const uint8_t *src, size_t n, uint8_t *out,
                          uint32_t *count_p, void *lent)
{
    struct zero_ws *ws = lent;
    struct shape s = shape_of(width_of((enum gw_view)*view_p), n);
    size_t count = map_of(kern->zeros, &s, src, ws);
    size_t bytes = level_of(&s, ws->map, ws->level, ws->bytes);
    size_t len = words_at(&s, bytes) + count * s.width + s.tail;
    *count_p = (uint32_t)count;
    if (len < n)
        write_tile(kern->zeros, &s, src, n, bytes, out, ws);
    return len;
}

/* ---- decode ---- */

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

/* The words, whose number has been held against what is there: `in` to `end`. */
static int read_words(const struct gw_kern_zero *kern, const struct shape *s, size_t bytes, const uint8_t *in,
                      const uint8_t *end, uint8_t *dst, size_t n, struct zero_ws *ws)
{
    struct gw_zero_units u;
    unsigned last = units_but_short(s, ws, bytes, &u);
    if (last >> s->rest != 0)
        return 0;
    memset(dst, 0, n);
    const uint8_t *from = kern->unpack[s->width / 4](in, end, &u, dst);
    if (last != 0) {
        from = gw_zero_spread(s->width, from, last, ws->last);
        memcpy(dst + (s->units - 1) * GW_ZERO_UNIT * s->width, ws->last, s->rest * s->width);
    }
    memcpy(dst + n - s->tail, from, s->tail);
    return 1;
}

static gw_err decode_tile(const struct gw_kern *kern, unsigned view, const uint8_t *in, size_t len, uint8_t *dst, size_t n,
                          size_t *used_p, uint32_t *count_p, void *lent)
{
    struct shape s = shape_of(width_of((enum gw_view)view), n);
    struct zero_ws *ws = lent;
    size_t bytes, count;
    if (!read_map(&s, in, len, ws, &bytes, &count))
        return GW_E_CORRUPT;
    size_t map = s.level + bytes, first = words_at(&s, bytes);
    size_t used = first + count * s.width + s.tail; /* a tile's worth and its map: cannot wrap */
    if (used > len || !gw_zero(in + map, first - map) ||
        !read_words(kern->zeros, &s, bytes, in + first, in + len, dst, n, ws))
        return GW_E_CORRUPT;
    *used_p = used, *count_p = (uint32_t)count;
    return GW_OK;
}

static const struct gw_tiles tiles = {.views = GW_VIEW_COUNT, .pays = pays, .encode = encode_tile, .decode = decode_tile};

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap, size_t *dst_len,
                     uint32_t *count_p, void *ws)
{
    return gw_tiles_encode(&tiles, c, src, src_len, dst, dst_cap, dst_len, count_p, ws);
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    return gw_tiles_decode(&tiles, f, src, dst, dst_len, ws);
}

const struct gw_codec gw_codec_zero = {
    .id = GW_CODEC_ZERO,
    .name = "zero",
    .traits = 0,
    .ws_bytes = sizeof(struct zero_ws),
    .bound = gw_tiles_bound,
    .encode = encode,
    .decode = decode,
};
