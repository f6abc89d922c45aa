/* sparse_frame.c - one set, one frame.  Read gw_sparse_encode, then gw_sparse_decode.
 *
 *  +------------+--------------+-----------+---------------------+---------+--------+
 *  | frame head | space - 1    | bytes of  | seed, 0 unless the  | indices | values |
 *  | 32         | u32          | index u32 | index is SEED, u64  | to 16   |        |
 *  +------------+--------------+-----------+---------------------+---------+--------+
 *                 the payload begins here
 *
 * The head's raw length is 0: a frame speaks for a space of up to 2^32 coordinates, which is more than a chunk may be, and it
 * promises no bytes of it. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "codecs.h"
#include "kern.h"
#include "sparse_index.h"

enum { HEAD = 16, ALIGN = 16 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int valid(const struct gw_sparse *s, uint64_t count)
{
    return s->size >= sizeof(*s) && s->space != 0 && s->space <= (uint64_t)1 << 32 && count <= s->space &&
           (s->index < GW_INDEX_COUNT || s->index == GW_INDEX_BEST) && s->value < GW_VALUE_COUNT &&
           (s->flags & ~GW_SPARSE_CHECK) == 0 && (s->seed == 0 || s->index == GW_INDEX_SEED);
}

uint64_t gw_sparse_bound(const struct gw_sparse *s, uint32_t count)
{
    if (!valid(s, count))
        return 0;
    return GW_FRAME_BYTES + HEAD + aligned(gw_index_bound(s, count)) + gw_values_bound(s->value, count);
}

/* ---- encode ---- */

static int is_set(const struct gw_kern_sparse *kern, const struct gw_sparse *s, const uint32_t *index, uint32_t count)
{
    if (s->index == GW_INDEX_SEED || count == 0)
        return 1;
    return kern->ascends(index, count) && index[count - 1] < s->space;
}

static void head_write(const struct gw_sparse *s, unsigned kind, uint32_t count, uint64_t wire, uint8_t *out)
{
    const uint8_t *payload = out + GW_FRAME_BYTES;
    struct gw_frame f = {.codec = GW_CODEC_SPARSE, .view = GW_VIEW_F32, .header_bytes = GW_FRAME_BYTES};
    f.wire_bytes = (uint32_t)wire, f.count = count, f.param = kind | (uint32_t)s->value << 8;
    if (s->flags & GW_SPARSE_CHECK)
        f.flags = GW_FRAME_CHECK, f.check = gw_check_of(payload, wire);
    gw_frame_write(out, &f);
}

gw_err gw_sparse_encode(const struct gw_sparse *s, const uint32_t *index, const float *value, uint32_t count, void *dst,
                        size_t dst_cap, size_t *dst_len)
{
    const struct gw_kern_sparse *kern = gw_kern_get()->sparse;
    struct gw_index_plan plan;
    unsigned kind;
    if (!valid(s, count) || !is_set(kern, s, index, count))
        return GW_E_ARG;
    gw_err err = gw_index_plan(kern, s, index, count, &kind, &plan);
    if (err != GW_OK)
        return err;
    uint64_t wire = HEAD + aligned(plan.bytes) + gw_values_bytes(kern, s->value, value, count);
    if (wire > UINT32_MAX || dst_cap < GW_FRAME_BYTES || wire > dst_cap - GW_FRAME_BYTES)
        return GW_RAW;
    uint8_t *payload = (uint8_t *)dst + GW_FRAME_BYTES, *body = payload + HEAD;
    gw_put32(payload, (uint32_t)(s->space - 1));
    gw_put32(payload + 4, (uint32_t)plan.bytes);
    gw_put64(payload + 8, s->seed);
    gw_index_write(kern, kind, &plan, index, count, s->space, body);
    memset(body + plan.bytes, 0, aligned(plan.bytes) - plan.bytes);
    gw_values_write(kern, s->value, value, count, body + aligned(plan.bytes));
    head_write(s, kind, count, wire, dst);
    *dst_len = GW_FRAME_BYTES + (size_t)wire;
    return GW_OK;
}

/* ---- decode ---- */

/* Both heads, copied out once. */
struct heads {
    struct gw_frame frame;
    struct gw_sparse set;
    uint32_t index_bytes;
};

static gw_err heads_read(const uint8_t *in, size_t in_len, struct heads *h)
{
    uint8_t own[HEAD];
    gw_err err = gw_frame_read(in, in_len, &h->frame);
    if (err != GW_OK)
        return err;
    const struct gw_frame *f = &h->frame;
    if (f->codec != GW_CODEC_SPARSE)
        return GW_E_NOSYS;
    if (f->view != GW_VIEW_F32 || f->raw_bytes != 0 || f->param >> 16 != 0 || f->wire_bytes < HEAD)
        return GW_E_CORRUPT;
    gw_copy_once(own, in + GW_FRAME_BYTES, HEAD);
    h->index_bytes = gw_get32(own + 4);
    h->set = (struct gw_sparse){.size = sizeof(h->set), .index = (uint8_t)f->param, .value = (uint8_t)(f->param >> 8)};
    h->set.flags = f->flags & GW_FRAME_CHECK ? GW_SPARSE_CHECK : 0;
    h->set.space = (uint64_t)gw_get32(own) + 1, h->set.seed = gw_get64(own + 8);
    if (h->set.index >= GW_INDEX_COUNT || !valid(&h->set, f->count) ||
        aligned(h->index_bytes) > f->wire_bytes - HEAD)
        return GW_E_CORRUPT;
    return GW_OK;
}

gw_err gw_sparse_read(const void *in, size_t in_len, struct gw_sparse *s_p, uint32_t *count_p)
{
    struct heads h;
    gw_err err = heads_read(in, in_len, &h);
    if (err == GW_OK)
        *s_p = h.set, *count_p = h.frame.count;
    return err;
}

gw_err gw_sparse_decode(const void *in, size_t in_len, uint64_t space, uint32_t *index, float *value, size_t cap,
                        uint32_t *count_p)
{
    const struct gw_kern_sparse *kern = gw_kern_get()->sparse;
    struct heads h;
    gw_err err = heads_read(in, in_len, &h);
    if (err != GW_OK)
        return err;
    if (h.set.space != space)
        return GW_E_CORRUPT;
    if (h.frame.count > cap)
        return GW_E_LIMIT;
    const uint8_t *payload = (const uint8_t *)in + GW_FRAME_BYTES, *body = payload + HEAD;
    size_t left = h.frame.wire_bytes - HEAD, n = h.frame.count, values = aligned(h.index_bytes);
    if (!gw_index_read(kern, &h.set, body, h.index_bytes, left, index, n) ||
        !gw_zero(body + h.index_bytes, values - h.index_bytes) ||
        !gw_values_read(kern, h.set.value, body + values, left - values, value, n))
        return GW_E_CORRUPT;
    if ((h.frame.flags & GW_FRAME_CHECK) && h.frame.check != gw_check_of(payload, h.frame.wire_bytes))
        return GW_E_CHECK;
    *count_p = h.frame.count;
    return GW_OK;
}
