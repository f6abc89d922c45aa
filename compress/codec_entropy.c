/* codec_entropy.c - lossless: what group codes in 4 bits, in as many as it is worth.
 *
 * A payload is the frequencies of the 16 codes, a table of one u16 per block of 16384 values, padded
 * to 16 bytes, and the blocks, each padded to 16 bytes but the last.  Read encode, then decode.
 *
 *  15      13 12         0
 *  +---------+-----------+
 *  |  view   |  length   |   length in units of 16 bytes; 0 = all zero, 8191 = stored, view 0
 *  +---------+-----------+ */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "codecs.h"
#include "entropy.h"
#include "view.h"

enum {
    FREQ_BYTES = 2 * GW_RANS_SYMBOLS,
    LENGTH_BITS = 13,
    STORED = (1 << LENGTH_BITS) - 1,
    SAMPLE = 128 /* groups that are looked at for the frequencies */
};

static size_t units_of(size_t len)
{
    return (len + GW_TILE_UNIT - 1) / GW_TILE_UNIT;
}

static size_t block_of(enum gw_view view)
{
    return (size_t)GW_BLOCK_VALUES * gw_view_shapes[view].width;
}

static size_t blocks_of(enum gw_view view, size_t len)
{
    return len / block_of(view) + (len % block_of(view) != 0);
}

static size_t table_of(enum gw_view view, size_t len)
{
    return units_of(2 * blocks_of(view, len)) * GW_TILE_UNIT;
}

/* As for every codec: the chunk, and two bytes per tile. */
static size_t bound(size_t src_len, const struct gw_coding *c)
{
    (void)c;
    return src_len + table_of(GW_VIEW_BYTES, src_len);
}

/* ---- encode ---- */

struct writer {
    const struct gw_kern *kern;
    struct gw_entropy_ws *ws;
    uint8_t *table, *at;
    size_t room; /* bytes from `at` to where the payload must end */
    uint32_t count;
};

/* Frequencies from groups that lie evenly over the chunk. */
static void sample(const struct gw_kern *kern, enum gw_view view, const uint8_t *src, size_t len, struct gw_entropy_ws *ws,
                   uint16_t freq[GW_RANS_SYMBOLS])
{
    size_t full = (size_t)gw_view_shapes[view].width * GW_GROUP_VALUES, groups = len / full;
    size_t places = gw_min_u64(SAMPLE, groups);
    uint32_t pair[256] = {0}, seen[GW_RANS_SYMBOLS] = {0};
    for (size_t i = 0; i < places; i++) {
        const uint8_t *at = src + i * groups / places * full;
        /* kernels may count on low halves that are zero; where they are not, its block will be f32, with the same codes */
        enum gw_view as = view == GW_VIEW_F32_BF16 && !kern->low_zero(at, full) ? GW_VIEW_F32 : view;
        uint8_t top;
        unsigned zeros, kind = kern->encode[as](at, ws->body, ws->out.esc, &top, &zeros);
        for (size_t k = 0; kind != GW_KIND_ZERO && kind != GW_KIND_RAW && k < GW_CODES_BYTES; k++)
            pair[ws->body[k]]++;
    }
    for (unsigned i = 0; i < 256; i++)
        seen[i & 15] += pair[i], seen[i >> 4] += pair[i];
    gw_rans_scale(seen, freq);
}

static int store(struct writer *w, const uint8_t *src, size_t n)
{
    if (n > w->room)
        return 0;
    memcpy(w->at, src, n);
    gw_put16(w->table, STORED);
    w->at += n, w->room -= n;
    return 1;
}

/* A block that does not fit where it would have been shorter than the chunk's bytes does not fit
 * stored either. */
static int encode_block(struct writer *w, enum gw_view view, const uint8_t *src, size_t n, int last)
{
    if (w->kern->zero(src, n)) {
        gw_put16(w->table, 0);
        return 1;
    }
    if (view == GW_VIEW_F32_BF16 && !w->kern->low_zero(src, n))
        view = GW_VIEW_F32;
    size_t len = gw_block_encode(w->kern, view, src, n, w->at, gw_min_u64(w->room, n - 1), w->ws);
    size_t padded = last ? len : units_of(len) * GW_TILE_UNIT;
    if (len == 0 || padded > w->room)
        return store(w, src, n);
    memset(w->at + len, 0, padded - len);
    gw_put16(w->table, (uint16_t)(view << LENGTH_BITS | units_of(len)));
    w->at += padded, w->room -= padded;
    w->count += (uint32_t)gw_block_groups(view, n);
    return 1;
}

static gw_err encode(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap, size_t *dst_len,
                     uint32_t *count_p, void *ws)
{
    if (c == NULL || c->size < offsetof(struct gw_coding, param) || c->view >= GW_VIEW_COUNT || src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    enum gw_view view = (enum gw_view)c->view;
    size_t head = FREQ_BYTES + table_of(view, src_len), cap = gw_min_u64(dst_cap, bound(src_len, c));
    uint16_t freq[GW_RANS_SYMBOLS];
    if (cap < head || !gw_view_pays(view, src, src_len))
        return GW_RAW;
    struct writer w = {.kern = gw_kern_get(), .ws = ws, .table = (uint8_t *)dst + FREQ_BYTES};
    w.at = (uint8_t *)dst + head, w.room = cap - head;
    sample(w.kern, view, src, src_len, ws, freq);
    gw_assert(gw_rans_make(&w.ws->rans, freq));
    memset(dst, 0, head);
    for (unsigned s = 0; s < GW_RANS_SYMBOLS; s++)
        gw_put16((uint8_t *)dst + 2 * s, freq[s]);
    for (size_t at = 0; at < src_len; at += block_of(view), w.table += 2) {
        size_t n = gw_min_u64(block_of(view), src_len - at);
        if (!encode_block(&w, view, (const uint8_t *)src + at, n, n == src_len - at))
            return GW_RAW;
    }
    *dst_len = (size_t)(w.at - (uint8_t *)dst);
    *count_p = w.count;
    return GW_OK;
}

/* ---- decode ---- */

struct reader {
    const struct gw_kern *kern;
    struct gw_entropy_ws *ws;
    enum gw_view view; /* of the frame: says how long blocks are */
    const uint8_t *at;
    size_t left, opened; /* opened: blocks whose head has been read */
    uint64_t count;
};

static gw_err read_opened(struct reader *r)
{
    size_t blocks = r->opened;
    r->opened = 0;
    return blocks == 0 ? GW_OK : gw_blocks_read(r->kern, r->ws, blocks);
}

static gw_err decode_coded(struct reader *r, unsigned view, size_t units, uint8_t *dst, size_t n, int last)
{
    size_t len = last ? r->left : units * GW_TILE_UNIT, used;
    if (view >= GW_VIEW_COUNT || len > r->left || units_of(len) != units ||
        gw_view_shapes[view].width != gw_view_shapes[r->view].width)
        return GW_E_CORRUPT;
    gw_err err = gw_block_open(&r->ws->in[r->opened], (enum gw_view)view, r->at, len, r->left, dst, n, &used);
    if (err != GW_OK)
        return err;
    size_t padding = len - used;
    if (padding >= GW_TILE_UNIT || (last && padding != 0) || !gw_zero(r->at + used, padding))
        return GW_E_CORRUPT;
    r->count += gw_block_groups((enum gw_view)view, n);
    r->at += len, r->left -= len;
    return ++r->opened == GW_BLOCKS_AT_ONCE ? read_opened(r) : GW_OK;
}

static gw_err decode_block(struct reader *r, unsigned entry, uint8_t *dst, size_t n, int last)
{
    unsigned units = entry & STORED;
    if (entry == 0) {
        memset(dst, 0, n);
        return GW_OK;
    }
    if (entry == STORED) {
        if (n > r->left)
            return GW_E_CORRUPT;
        memcpy(dst, r->at, n);
        r->at += n, r->left -= n;
        return GW_OK;
    }
    return units == 0 || units == STORED ? GW_E_CORRUPT : decode_coded(r, entry >> LENGTH_BITS, units, dst, n, last);
}

static gw_err read_frequencies(const uint8_t *in, struct gw_rans *t)
{
    uint8_t bytes[FREQ_BYTES];
    uint16_t freq[GW_RANS_SYMBOLS];
    gw_copy_once(bytes, in, sizeof(bytes));
    for (unsigned s = 0; s < GW_RANS_SYMBOLS; s++)
        freq[s] = gw_get16(bytes + 2 * s);
    return gw_rans_make(t, freq) ? GW_OK : GW_E_CORRUPT;
}

static gw_err decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws)
{
    if (f->view >= GW_VIEW_COUNT || f->param != 0 || dst_len > GW_CHUNK_MAX)
        return GW_E_CORRUPT;
    struct reader r = {.kern = gw_kern_get(), .ws = ws, .view = (enum gw_view)f->view};
    size_t blocks = blocks_of(r.view, dst_len), head = FREQ_BYTES + table_of(r.view, dst_len);
    const uint8_t *in = src, *table = in + FREQ_BYTES;
    if (f->wire_bytes < head || read_frequencies(in, &r.ws->rans) != GW_OK ||
        !gw_zero(table + 2 * blocks, head - FREQ_BYTES - 2 * blocks))
        return GW_E_CORRUPT;
    r.at = in + head, r.left = f->wire_bytes - head;
    for (size_t i = 0; i < blocks; i++) {
        size_t at = i * block_of(r.view), n = gw_min_u64(block_of(r.view), dst_len - at);
        uint8_t entry[2];
        gw_copy_once(entry, table + 2 * i, sizeof(entry));
        gw_err err = decode_block(&r, gw_get16(entry), (uint8_t *)dst + at, n, i + 1 == blocks);
        if (err != GW_OK)
            return err;
    }
    if (r.left != 0 || r.count != f->count)
        return GW_E_CORRUPT;
    return read_opened(&r);
}

const struct gw_codec gw_codec_entropy = {
    .id = GW_CODEC_ENTROPY,
    .name = "entropy",
    .traits = 0,
    .ws_bytes = sizeof(struct gw_entropy_ws),
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
