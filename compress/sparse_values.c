/* sparse_values.c - how the values of a set are written.
 *
 *  f32, bf16   one after the other
 *  int8        u32 scale per block of 256 entries, then the bodies: 0 nothing (all zero), a normal number: a byte per entry,
 *              the NaN: f32 as they are
 *  mean        u32, nothing for an empty set */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "sparse_bits.h"
#include "sparse_float.h"
#include "sparse_index.h"

enum { BLOCK = GW_SPARSE_BLOCK };
#define SCALE_LEAST 0xa010204u /* of 2^-100 */
#define SCALE_MOST 0x7c010203u  /* 127 times the next is Inf */

static size_t blocks_of(size_t n)
{
    return n / BLOCK + (n % BLOCK != 0);
}

uint64_t gw_values_bound(unsigned kind, uint64_t n)
{
    switch (kind) {
    case GW_VALUE_F32:
        return 4 * n;
    case GW_VALUE_BF16:
        return 2 * n;
    case GW_VALUE_INT8:
        return 4 * blocks_of(n) + 4 * n;
    default:
        return n != 0 ? 4 : 0;
    }
}

/* A block's scale as the wire has it: 0, a 127th of its largest magnitude, or the NaN where codes cannot say it. */
static uint32_t scale_of(uint32_t top)
{
    if (top < GW_F32_TINY)
        return 0;
    uint32_t scale = gw_f32_bits(gw_f32_of(top) / 127.0f);
    return top >= GW_F32_INF || scale > SCALE_MOST ? GW_F32_NAN : scale;
}

static size_t body_bytes(uint32_t scale, size_t n)
{
    return scale == 0 ? 0 : scale == GW_F32_NAN ? 4 * n : n;
}

uint64_t gw_values_bytes(const struct gw_kern_sparse *kern, unsigned kind, const float *value, size_t n)
{
    uint64_t bytes = 4 * blocks_of(n);
    if (kind != GW_VALUE_INT8)
        return gw_values_bound(kind, n);
    for (size_t i = 0, m; i < n; i += m) {
        m = gw_min_u64(BLOCK, n - i);
        bytes += body_bytes(scale_of(kern->top(value + i, m)), m);
    }
    return bytes;
}

static void f32_write(const float *value, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        gw_put32(out + 4 * i, gw_f32_bits(value[i]));
}

static void f32_read(const uint8_t *in, size_t n, float *value)
{
    for (size_t i = 0; i < n; i++)
        value[i] = gw_f32_of(gw_get32(in + 4 * i));
}

static void int8_write(const struct gw_kern_sparse *kern, const float *value, size_t n, uint8_t *out)
{
    uint8_t *body = out + 4 * blocks_of(n);
    for (size_t i = 0, m; i < n; i += m, out += 4) {
        m = gw_min_u64(BLOCK, n - i);
        uint32_t scale = scale_of(kern->top(value + i, m));
        gw_put32(out, scale);
        if (scale == GW_F32_NAN)
            f32_write(value + i, m, body);
        else if (scale != 0)
            kern->int8_write(value + i, m, gw_f32_of(scale), body);
        body += body_bytes(scale, m);
    }
}

/* A scale that some block can have. */
static int scale_known(uint32_t scale)
{
    return scale == 0 || scale == GW_F32_NAN || (scale >= SCALE_LEAST && scale <= SCALE_MOST);
}

static int int8_read(const struct gw_kern_sparse *kern, const uint8_t *in, size_t len, float *value, size_t n)
{
    size_t heads = 4 * blocks_of(n);
    if (len < heads)
        return 0;
    const uint8_t *body = in + heads;
    size_t left = len - heads;
    for (size_t i = 0, m; i < n; i += m, in += 4) {
        m = gw_min_u64(BLOCK, n - i);
        uint32_t scale = (uint32_t)gw_held(gw_get32(in));
        size_t bytes = body_bytes(scale, m);
        if (!scale_known(scale) || bytes > left)
            return 0;
        if (scale == 0)
            memset(value + i, 0, 4 * m);
        else if (scale == GW_F32_NAN)
            f32_read(body, m, value + i);
        else if (!kern->int8_read(body, m, gw_f32_of(scale), value + i))
            return 0;
        body += bytes, left -= bytes;
    }
    return left == 0;
}

/* The mean, without subnormals and with one NaN. */
static uint32_t mean_of(const struct gw_kern_sparse *kern, const float *value, size_t n)
{
    uint32_t b = gw_f32_bits(kern->sum(value, n) / (float)n), a = b & GW_F32_ABS;
    return a > GW_F32_INF ? GW_F32_NAN : a < GW_F32_TINY ? 0 : b;
}

static int mean_read(const uint8_t *in, float *value, size_t n)
{
    uint32_t b = n != 0 ? gw_get32(in) : 0, a = b & GW_F32_ABS;
    if (a > GW_F32_INF ? b != GW_F32_NAN : a < GW_F32_TINY && b != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        value[i] = gw_f32_of(b);
    return 1;
}

void gw_values_write(const struct gw_kern_sparse *kern, unsigned kind, const float *value, size_t n, uint8_t *out)
{
    if (kind == GW_VALUE_F32)
        f32_write(value, n, out);
    else if (kind == GW_VALUE_BF16)
        kern->bf16_write(value, n, out);
    else if (kind == GW_VALUE_INT8)
        int8_write(kern, value, n, out);
    else if (n != 0)
        gw_put32(out, mean_of(kern, value, n));
}

int gw_values_read(const struct gw_kern_sparse *kern, unsigned kind, const uint8_t *in, size_t len, float *value, size_t n)
{
    if (kind == GW_VALUE_INT8)
        return int8_read(kern, in, len, value, n);
    if (len != gw_values_bound(kind, n))
        return 0;
    if (kind == GW_VALUE_MEAN)
        return mean_read(in, value, n);
    if (kind == GW_VALUE_F32)
        f32_read(in, n, value);
    else
        kern->bf16_read(in, n, value);
    return 1;
}
