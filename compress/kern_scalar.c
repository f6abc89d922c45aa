/* kern_scalar.c - the meaning of the group codec, one value at a time.  Read window_encode, then
 * encode_bf16. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <base/bytes.h>

#include "kern.h"
#include "holes.h"
#include "kern_sparse.h"
#include "lossy.h"
#include "tight.h"
#include "view.h"
#include "rans.h"
#include "zero.h"

enum { N = GW_GROUP_VALUES };

static int always(void)
{
    return 1;
}

static int zero(const void *p, size_t n)
{
    return gw_zero(p, n);
}

static int low_zero(const void *p, size_t n)
{
    const uint8_t *b = p;
    unsigned any = 0;
    for (size_t i = 0; i + 4 <= n; i += 4)
        any |= gw_get16(b + i);
    return any == 0;
}

static uint64_t hash(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

/* ---- the window: how far an exponent lies below the group's largest ---- */

/* Value i in the order of memory: row i / 64, byte i % 32 of it, low nibble for the first 32 values
 * of the row. */
static void nibbles_pack(const uint8_t code[N], uint8_t *out)
{
    for (unsigned i = 0; i < GW_CODES_BYTES; i++) {
        unsigned first = i / 32 * 64 + i % 32;
        out[i] = (uint8_t)(code[first] | code[first + 32] << 4);
    }
}

static void nibbles_unpack(const uint8_t *in, uint8_t code[N])
{
    for (unsigned i = 0; i < GW_CODES_BYTES; i++) {
        unsigned first = i / 32 * 64 + i % 32;
        code[first] = in[i] & 15;
        code[first + 32] = in[i] >> 4;
    }
}

/* Codes 1..last-1 are exponents top..top-last+2, `last` is an escape, 0 is exponent 0 (zeros and
 * subnormals of either sign, whose other bits are kept elsewhere).  Answers how many escapes. */
static unsigned window_encode(const uint8_t e[N], unsigned last, uint8_t code[N], uint8_t *esc,
                              uint8_t *top_p, unsigned *zeros_p)
{
    unsigned top = 0, escapes = 0;
    *zeros_p = 0;
    for (unsigned i = 0; i < N; i++)
        top = e[i] > top ? e[i] : top;
    for (unsigned i = 0; i < N; i++) {
        unsigned below = top - e[i] + 1;
        code[i] = (uint8_t)(e[i] == 0 ? 0 : below < last ? below : last);
        if (code[i] == last)
            esc[escapes++] = e[i];
        *zeros_p += e[i] == 0;
    }
    *top_p = (uint8_t)top;
    return escapes;
}

static int window_decode(const uint8_t code[N], unsigned last, unsigned top, const uint8_t *esc,
                         unsigned n, uint8_t e[N])
{
    unsigned used = 0;
    for (unsigned i = 0; i < N; i++) {
        if (code[i] < last) {
            e[i] = (uint8_t)(code[i] == 0 ? 0 : top + 1 - code[i]);
            continue;
        }
        if (used == n)
            return 0;
        e[i] = esc[used++];
    }
    return used == n;
}

/* What all views but f16 do once the exponents stand alone. */
static unsigned finish(const uint8_t e[N], unsigned any, uint8_t *body, uint8_t *esc,
                       uint8_t *top_p, unsigned *zeros_p)
{
    uint8_t code[N];
    *top_p = 0, *zeros_p = N;
    if (any == 0)
        return GW_KIND_ZERO;
    unsigned escapes = window_encode(e, 15, code, esc, top_p, zeros_p);
    if (escapes > gw_view_shapes[GW_VIEW_BF16].escapes) {
        *top_p = 0;
        return GW_KIND_RAW;
    }
    nibbles_pack(code, body);
    return GW_KIND_WINDOW + escapes;
}

static int start(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t e[N])
{
    uint8_t code[N];
    nibbles_unpack(body, code);
    return window_decode(code, 15, top, esc, n, e);
}

/* ---- bytes: the byte is its own exponent ---- */

static unsigned encode_bytes(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    return finish(src, !gw_zero(src, N), body, esc, top_p, zeros_p);
}

static int decode_bytes(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                        uint8_t *dst)
{
    return start(body, top, esc, n, dst);
}

/* ---- bf16, and f32 as bf16 with a low half ---- */

static unsigned encode_bf16(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    uint8_t e[N];
    unsigned any = 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned v = gw_get16(src + 2 * i);
        e[i] = gw_exponent(v);
        body[GW_CODES_BYTES + i] = gw_sign_mantissa(v);
        any |= v;
    }
    return finish(e, any, body, esc, top_p, zeros_p);
}

static int decode_bf16(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                       uint8_t *dst)
{
    uint8_t e[N];
    if (!start(body, top, esc, n, e))
        return 0;
    for (unsigned i = 0; i < N; i++)
        gw_put16(dst + 2 * i, gw_join(e[i], body[GW_CODES_BYTES + i]));
    return 1;
}

static unsigned encode_f32(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    uint8_t e[N];
    unsigned any = 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned low = gw_get16(src + 4 * i), v = gw_get16(src + 4 * i + 2);
        e[i] = gw_exponent(v);
        body[GW_CODES_BYTES + i] = gw_sign_mantissa(v);
        gw_put16(body + GW_CODES_BYTES + N + 2 * i, (uint16_t)low);
        any |= v | low;
    }
    return finish(e, any, body, esc, top_p, zeros_p);
}

static int decode_f32(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                      uint8_t *dst)
{
    uint8_t e[N];
    if (!start(body, top, esc, n, e))
        return 0;
    for (unsigned i = 0; i < N; i++) {
        memcpy(dst + 4 * i, body + GW_CODES_BYTES + N + 2 * i, 2);
        gw_put16(dst + 4 * i + 2, gw_join(e[i], body[GW_CODES_BYTES + i]));
    }
    return 1;
}

static unsigned encode_f32_bf16(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    uint8_t e[N];
    unsigned any = 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned v = gw_get16(src + 4 * i + 2);
        e[i] = gw_exponent(v);
        body[GW_CODES_BYTES + i] = gw_sign_mantissa(v);
        any |= v;
    }
    return finish(e, any, body, esc, top_p, zeros_p);
}

static int decode_f32_bf16(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                           uint8_t *dst)
{
    uint8_t e[N];
    if (!start(body, top, esc, n, e))
        return 0;
    for (unsigned i = 0; i < N; i++)
        gw_put32(dst + 4 * i, (uint32_t)gw_join(e[i], body[GW_CODES_BYTES + i]) << 16);
    return 1;
}

/* ---- f16: 5 bits of exponent leave room for a window of 3 bits beside the sign ---- */

enum { F16_LAST = 7, F16_LOW = GW_CODES_BYTES, F16_TWO = GW_CODES_BYTES + N };

/* Bits 8 and 9 of the mantissa: byte 32k + j holds those of value 128k + 32s + j in its bits 2s and
 * 2s + 1. */
static void twos_pack(const uint8_t *src, uint8_t *out)
{
    memset(out, 0, N / 4);
    for (unsigned i = 0; i < N; i++)
        out[i / 128 * 32 + i % 32] |= (uint8_t)((src[2 * i + 1] & 3) << i / 32 % 4 * 2);
}

static unsigned encode_f16(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    uint8_t e[N], code[N];
    *top_p = 0, *zeros_p = N;
    if (gw_zero(src, 2 * N))
        return GW_KIND_ZERO;
    for (unsigned i = 0; i < N; i++)
        e[i] = src[2 * i + 1] >> 2 & 0x1f, body[F16_LOW + i] = src[2 * i];
    unsigned escapes = window_encode(e, F16_LAST, code, esc, top_p, zeros_p);
    if (escapes > gw_view_shapes[GW_VIEW_F16].escapes) {
        *top_p = 0;
        return GW_KIND_RAW;
    }
    for (unsigned i = 0; i < N; i++)
        code[i] |= src[2 * i + 1] >> 4 & 8;
    nibbles_pack(code, body);
    twos_pack(src, body + F16_TWO);
    return GW_KIND_WINDOW + escapes;
}

static int decode_f16(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                      uint8_t *dst)
{
    uint8_t e[N], code[N], sign[N];
    nibbles_unpack(body, code);
    for (unsigned i = 0; i < N; i++)
        sign[i] = (uint8_t)((code[i] & 8) << 4), code[i] &= F16_LAST;
    if (!window_decode(code, F16_LAST, top, esc, n, e))
        return 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned two = body[F16_TWO + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
        dst[2 * i] = body[F16_LOW + i];
        dst[2 * i + 1] = (uint8_t)(sign[i] | (e[i] & 0x1f) << 2 | two);
    }
    return 1;
}

const struct gw_kern gw_kern_scalar = {
    .name = "scalar",
    .usable = always,
    .zero = zero,
    .low_zero = low_zero,
    .hash = hash,
    .encode = {[GW_VIEW_BYTES] = encode_bytes,
               [GW_VIEW_BF16] = encode_bf16,
               [GW_VIEW_F32] = encode_f32,
               [GW_VIEW_F16] = encode_f16,
               [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BYTES] = decode_bytes,
               [GW_VIEW_BF16] = decode_bf16,
               [GW_VIEW_F32] = decode_f32,
               [GW_VIEW_F16] = decode_f16,
               [GW_VIEW_F32_BF16] = decode_f32_bf16},
    .view = &gw_kern_view_scalar,
    .holes = &gw_kern_holes_scalar,
    .tight = &gw_kern_tight_scalar,
    .lossy = &gw_kern_lossy_scalar,
    .sparse = &gw_kern_sparse_scalar,
    .rans = &gw_kern_rans_scalar,
    .zeros = &gw_kern_zero_scalar,
};
