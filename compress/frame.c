/* frame.c - the head before every encoded chunk.  Only gw_frame_write and gw_frame_read touch its
 * bytes.
 *
 *  0       2     3       4      5       6        8         12         16       20        24      32
 *  +-------+-----+-------+------+-------+--------+---------+----------+--------+---------+-------+
 *  | magic | ver | codec | view | flags | header | raw len | wire len | count  | param   | check |
 *  +-------+-----+-------+------+-------+--------+---------+----------+--------+---------+-------+
 *
 * Little-endian; the payload stands behind it. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <gradwire/frame.h>

#include <base/bytes.h>
#include <base/check.h>

#include "codecs.h"
#include "kern.h"

void gw_frame_write(uint8_t out[GW_FRAME_BYTES], const struct gw_frame *f)
{
    gw_put16(out, GW_FRAME_MAGIC);
    out[2] = GW_FRAME_VERSION;
    out[3] = f->codec, out[4] = f->view, out[5] = f->flags;
    gw_put16(out + 6, f->header_bytes);
    gw_put32(out + 8, f->raw_bytes);
    gw_put32(out + 12, f->wire_bytes);
    gw_put32(out + 16, f->count);
    gw_put32(out + 20, f->param);
    gw_put64(out + 24, f->check);
}

gw_err gw_frame_read(const uint8_t *in, size_t in_len, struct gw_frame *f)
{
    uint8_t head[GW_FRAME_BYTES];
    if (in_len < sizeof(head))
        return GW_E_CORRUPT;
    gw_copy_once(head, in, sizeof(head)); /* a peer that writes memory itself may still do so */
    if (gw_get16(head) != GW_FRAME_MAGIC || head[2] != GW_FRAME_VERSION)
        return GW_E_CORRUPT;
    struct gw_frame h = {
        .codec = head[3], .view = head[4], .flags = head[5], .header_bytes = gw_get16(head + 6)};
    h.raw_bytes = gw_get32(head + 8), h.wire_bytes = gw_get32(head + 12);
    h.count = gw_get32(head + 16), h.param = gw_get32(head + 20), h.check = gw_get64(head + 24);
    if ((h.flags & ~GW_FRAME_FLAGS_KNOWN) != 0 || h.header_bytes != GW_FRAME_BYTES)
        return GW_E_CORRUPT;
    if (h.raw_bytes > GW_CHUNK_MAX || h.wire_bytes > in_len - GW_FRAME_BYTES)
        return GW_E_CORRUPT;
    if (!(h.flags & GW_FRAME_CHECK) && h.check != 0)
        return GW_E_CORRUPT;
    *f = h;
    return GW_OK;
}

/* A list of hashes instead of one long hash, so that tiles can be hashed apart.  The list goes to
 * the outer hash in rows: one of them covers a megabyte. */
uint64_t gw_check_of(const uint8_t *bytes, size_t len)
{
    enum { ROW = 64 };
    const struct gw_kern *kern = gw_kern_get();
    XXH3_state_t list;
    uint8_t row[ROW * 8];
    size_t held = 0;
    XXH3_64bits_reset(&list);
    for (size_t at = 0; at < len; at += GW_TILE_BYTES) {
        gw_put64(row + held, kern->hash(bytes + at, gw_min_u64(GW_TILE_BYTES, len - at)));
        held += 8;
        if (held == sizeof(row))
            XXH3_64bits_update(&list, row, held), held = 0;
    }
    XXH3_64bits_update(&list, row, held);
    return XXH3_64bits_digest(&list);
}

/* What the checksum covers: the bytes that must come back, or, where they do not, those that travel. */
static uint64_t check_for(const struct gw_codec *codec, const void *raw, size_t raw_len,
                          const void *payload, size_t wire)
{
    return codec->traits & GW_TRAIT_LOSSY ? gw_check_of(payload, wire) : gw_check_of(raw, raw_len);
}

gw_err gw_frame_encode(const struct gw_codec *codec, const struct gw_coding *c, int check,
                       const void *src, size_t src_len, void *dst, size_t dst_cap, size_t *dst_len,
                       void *ws)
{
    uint8_t *out = dst;
    size_t wire = 0;
    uint32_t count = 0;
    if (src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    if (dst_cap < GW_FRAME_BYTES)
        return GW_RAW;
    gw_err err = codec->encode(c, src, src_len, out + GW_FRAME_BYTES, dst_cap - GW_FRAME_BYTES,
                               &wire, &count, ws);
    if (err != GW_OK)
        return err;
    struct gw_frame f = {.codec = codec->id, .view = c->view, .header_bytes = GW_FRAME_BYTES};
    f.raw_bytes = (uint32_t)src_len, f.wire_bytes = (uint32_t)wire, f.count = count;
    if (codec->traits & GW_TRAIT_LOSSY) /* which have looked at c->size */
        f.param = c->param;
    if (check)
        f.flags = GW_FRAME_CHECK, f.check = check_for(codec, src, src_len, out + GW_FRAME_BYTES, wire);
    gw_frame_write(out, &f);
    *dst_len = GW_FRAME_BYTES + wire;
    return GW_OK;
}

/* A frame whose head has been read, once: a peer may still change it. */
struct opened {
    struct gw_frame f;
    const struct gw_codec *codec;
    const uint8_t *payload;
};

static gw_err open_frame(const void *in, size_t in_len, struct opened *o)
{
    gw_err err = gw_frame_read(in, in_len, &o->f);
    if (err != GW_OK)
        return err;
    o->codec = gw_codec_by_id(o->f.codec);
    o->payload = (const uint8_t *)in + o->f.header_bytes;
    return o->codec != NULL ? GW_OK : GW_E_NOSYS;
}

static gw_err decode_opened(const struct opened *o, void *dst, size_t dst_len, void *ws)
{
    const struct gw_frame *f = &o->f;
    if (f->raw_bytes != dst_len)
        return GW_E_CORRUPT;
    gw_err err = o->codec->decode(f, o->payload, dst, dst_len, ws);
    if (err == GW_OK && (f->flags & GW_FRAME_CHECK) &&
        f->check != check_for(o->codec, dst, dst_len, o->payload, f->wire_bytes))
        return GW_E_CHECK;
    return err;
}

gw_err gw_frame_decode(const void *in, size_t in_len, void *dst, size_t dst_len, void *ws)
{
    struct opened o;
    gw_err err = open_frame(in, in_len, &o);
    return err != GW_OK ? err : decode_opened(&o, dst, dst_len, ws);
}

gw_err gw_frame_restore(const void *in, size_t in_len, void *dst, size_t dst_len, void *ws)
{
    struct opened o;
    gw_err err = open_frame(in, in_len, &o);
    if (err == GW_OK && (o.codec->traits & GW_TRAIT_LOSSY))
        return GW_E_CORRUPT;
    return err != GW_OK ? err : decode_opened(&o, dst, dst_len, ws);
}

gw_err gw_frame_decode_add(const void *in, size_t in_len, float *dst, size_t dst_len, float scale,
                           void *ws)
{
    struct opened o;
    gw_err err = open_frame(in, in_len, &o);
    if (err != GW_OK)
        return err;
    if (o.codec->decode_add == NULL)
        return GW_E_NOSYS;
    if (o.f.raw_bytes != dst_len)
        return GW_E_CORRUPT;
    if ((o.f.flags & GW_FRAME_CHECK) && o.f.check != gw_check_of(o.payload, o.f.wire_bytes))
        return GW_E_CHECK;
    return o.codec->decode_add(&o.f, o.payload, dst, dst_len, scale, ws);
}
