/* kern_lossy_scalar.c - the meaning of the lossy codecs, one value at a time. */
#include <base/bytes.h>

#include "lossy.h"

/* ---- numbers ---- */

enum { EXPONENT = 0xff };

static uint32_t exponent(uint32_t bits)
{
    return bits >> 23 & EXPONENT;
}

static uint32_t magnitude(uint32_t bits)
{
    return bits & 0x7fffffff;
}

/* What an addition or multiplication is allowed to leave behind. */
static float settled(float v)
{
    uint32_t bits = gw_f32_bits(v);
    if (exponent(bits) == 0)
        return 0;
    return magnitude(bits) > GW_F32_INF ? gw_f32_of(GW_F32_NAN) : v;
}

/* A subnormal is a zero of its sign. */
static uint32_t flushed(uint32_t bits)
{
    return exponent(bits) == 0 ? bits & 0x80000000 : bits;
}

/* Value i as arithmetic sees it. */
static float value(const uint8_t *p, size_t i)
{
    return gw_f32_of(flushed(gw_get32(p + 4 * i)));
}

static void put(uint8_t *p, size_t i, float v)
{
    gw_put32(p + 4 * i, gw_f32_bits(v));
}

static uint32_t largest(const uint8_t *src, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = magnitude(gw_get32(src + 4 * i));
        max = m > max ? m : max;
    }
    return max;
}

static uint32_t join(const uint8_t *src, const uint8_t *residual, size_t n, uint8_t *acc)
{
    for (size_t i = 0; i < n; i++)
        put(acc, i, settled(value(src, i) + value(residual, i)));
    return largest(acc, n);
}

static float sum(const uint8_t *acc, size_t n)
{
    float part[32] = {0};
    for (size_t i = 0; i < n; i++)
        part[i % 32] += gw_f32_of(magnitude(gw_f32_bits(value(acc, i))));
    for (size_t half = 16; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

/* ---- chance ---- */

static void chance(uint64_t seed, uint64_t first, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t k = gw_chance_at(seed, (first + i) >> 32);
        uint32_t x = (uint32_t)(first + i) ^ (uint32_t)k;
        x = (x ^ x >> 16) * 0x7feb352du ^ (uint32_t)(k >> 32);
        x = (x ^ x >> 15) * 0x846ca68bu;
        out[i] = x ^ x >> 16;
    }
}

/* t >= 0 and below 2^31 to an integer. */
static uint32_t rounded(float t, const uint32_t *r)
{
    uint32_t whole = (uint32_t)t;
    float rest = t - (float)whole;
    if (r != NULL)
        return whole + ((*r >> 1) < (uint32_t)(rest * 0x1p31f));
    return whole + (rest > 0.5f || (rest == 0.5f && (whole & 1)));
}

static const uint32_t *at(const uint32_t *r, size_t i)
{
    return r == NULL ? NULL : r + i;
}

/* The loops of a code whose value i is one_NAME(in, i, scale). */
#define LOOPS(name)                                                                                                  \
    static void value_##name(const uint8_t *in, size_t n, float scale, uint8_t *out)                                 \
    {                                                                                                                \
        for (size_t i = 0; i < n; i++)                                                                               \
            put(out, i, one_##name(in, i, scale));                                                                   \
    }                                                                                                                \
    static void add_##name(const uint8_t *in, size_t n, float scale, float by, uint8_t *dst)                         \
    {                                                                                                                \
        for (size_t i = 0; i < n; i++)                                                                               \
            put(dst, i, settled(value(dst, i) + settled(by * one_##name(in, i, scale))));                            \
    }                                                                                                                \
    static void remain_##name(const uint8_t *in, size_t n, float scale, const uint8_t *acc, uint8_t *residual)       \
    {                                                                                                                \
        for (size_t i = 0; i < n; i++) {                                                                             \
            int whole = exponent(gw_get32(acc + 4 * i)) == EXPONENT;                                                 \
            put(residual, i, whole ? 0 : settled(value(acc, i) - one_##name(in, i, scale)));                         \
        }                                                                                                            \
    }
#define CODE(name) \
    LOOPS(name)    \
    static const struct gw_code_kern name##_kern = {code_##name, value_##name, add_##name, remain_##name};

/* ---- conversions ---- */

static void code_bf16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gw_f32_bits(value(acc, i)), m = magnitude(bits);
        uint32_t v = (m + (r != NULL ? r[i] >> 16 : 0x7fff + (m >> 16 & 1))) >> 16;
        v = m == GW_F32_INF ? 0x7f80 : v < 0x7f80 ? v : 0x7f7f;
        gw_put16(out + 2 * i, (uint16_t)(m > GW_F32_INF ? 0x7fc0 : v | (bits >> 31) << 15));
    }
}

static float one_bf16(const uint8_t *in, size_t i, float scale)
{
    (void)scale;
    uint32_t bits = flushed((uint32_t)gw_get16(in + 2 * i) << 16);
    return gw_f32_of(magnitude(bits) > GW_F32_INF ? GW_F32_NAN : bits);
}

CODE(bf16)

/* A small type: its mantissa bits, its least normal exponent as f32 counts exponents, and three of its magnitudes. */
struct small {
    unsigned mantissa, least, largest, inf, nan;
};
static const struct small f16 = {10, 113, 0x7bff, 0x7c00, 0x7e00}, e4m3 = {3, 121, 0x7e, 0x7f, 0x7f},
                          e5m2 = {2, 113, 0x7b, 0x7c, 0x7e};

/* The distance between neighbours is 2^(e - mantissa); in units of it the value is a number below 2^(mantissa + 1), and a
 * carry out of it is the next exponent. */
static unsigned to_small(struct small t, float v, const uint32_t *r, unsigned sign_bit)
{
    uint32_t bits = gw_f32_bits(v), m = magnitude(bits);
    if (m > GW_F32_INF)
        return t.nan;
    if (m == GW_F32_INF)
        return t.inf == t.nan ? t.nan : t.inf | (bits >> 31) << sign_bit;
    uint32_t e = m >> 23 > t.least ? m >> 23 : t.least;
    float unit = gw_f32_of((254 - e + t.mantissa) << 23);
    uint32_t code = ((e - t.least) << t.mantissa) + rounded(gw_f32_of(m) * unit, r);
    return (code < t.largest ? code : t.largest) | (bits >> 31) << sign_bit;
}

static uint32_t from_small(struct small t, unsigned code, unsigned sign_bit)
{
    uint32_t m = code & ((1u << sign_bit) - 1), sign = (uint32_t)(code >> sign_bit) << 31;
    if (m > t.inf || (m == t.inf && t.inf == t.nan))
        return GW_F32_NAN;
    if (m == t.inf)
        return GW_F32_INF | sign;
    if (m >> t.mantissa == 0)
        return gw_f32_bits((float)m * gw_f32_of((t.least - t.mantissa) << 23)) | sign;
    return ((m << (23 - t.mantissa)) + ((t.least - 1) << 23)) | sign;
}

static void code_f16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
    for (size_t i = 0; i < n; i++)
        gw_put16(out + 2 * i, (uint16_t)to_small(f16, value(acc, i), at(r, i), 15));
}

static float one_f16(const uint8_t *in, size_t i, float scale)
{
    (void)scale;
    return gw_f32_of(from_small(f16, gw_get16(in + 2 * i), 15));
}

CODE(f16)

static void code_e4m3(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)to_small(e4m3, value(acc, i), at(r, i), 7);
}

static float one_e4m3(const uint8_t *in, size_t i, float scale)
{
    (void)scale;
    return gw_f32_of(from_small(e4m3, in[i], 7));
}

CODE(e4m3)

static void code_e5m2(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)to_small(e5m2, value(acc, i), at(r, i), 7);
}

static float one_e5m2(const uint8_t *in, size_t i, float scale)
{
    (void)scale;
    return gw_f32_of(from_small(e5m2, in[i], 7));
}

CODE(e5m2)

/* ---- integers ---- */

static int32_t level(float v, const uint32_t *r, float scale, float most)
{
    float t = gw_f32_of(magnitude(gw_f32_bits(v))) / scale;
    uint32_t q = rounded(t < most ? t : most, r);
    return v < 0 ? -(int32_t)q : (int32_t)q;
}

static void code_int8(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)level(value(acc, i), at(r, i), scale, most);
}

static float one_int8(const uint8_t *in, size_t i, float scale)
{
    return (float)(int8_t)in[i] * scale;
}

CODE(int8)

static void code_int16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        gw_put16(out + 2 * i, (uint16_t)level(value(acc, i), at(r, i), scale, most));
}

static float one_int16(const uint8_t *in, size_t i, float scale)
{
    return (float)(int16_t)gw_get16(in + 2 * i) * scale;
}

CODE(int16)

static void code_int32(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        gw_put32(out + 4 * i, (uint32_t)level(value(acc, i), at(r, i), scale, most));
}

static float one_int32(const uint8_t *in, size_t i, float scale)
{
    return (float)(int32_t)gw_get32(in + 4 * i) * scale;
}

CODE(int32)

/* 64 values in 32 bytes: j in the low nibble of byte j, 32 + j in its high one. */
static void code_int4(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    for (size_t i = 0; i < n / 2; i++) {
        size_t v = i / 32 * 64 + i % 32;
        int32_t low = level(value(acc, v), at(r, v), scale, most), high = level(value(acc, v + 32), at(r, v + 32), scale, most);
        out[i] = (uint8_t)((low & 15) | (high & 15) << 4);
    }
}

static float one_int4(const uint8_t *in, size_t i, float scale)
{
    int q = in[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
    return (float)((q ^ 8) - 8) * scale;
}

CODE(int4)

/* 128 values in 32 bytes: 32s + j in bits 2s and 2s + 1 of byte j. */
static void code_two(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)most;
    memset(out, 0, n / 4);
    for (size_t i = 0; i < n; i++) {
        unsigned c = value(acc, i) >= scale ? 1 : value(acc, i) <= -scale ? 2 : 0;
        out[i / 128 * 32 + i % 32] |= (uint8_t)(c << (i % 128 / 32 * 2));
    }
}

static float one_two(const uint8_t *in, size_t i, float scale)
{
    static const float q[4] = {0, 1, -1, 0};
    return q[in[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3] * scale;
}

CODE(two)

static void code_sign(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)scale, (void)most;
    memset(out, 0, n / 8);
    for (size_t i = 0; i < n; i++)
        out[i / 8] |= (uint8_t)(gw_f32_bits(value(acc, i)) >> 31 << i % 8);
}

static float one_sign(const uint8_t *in, size_t i, float scale)
{
    return gw_f32_of(gw_f32_bits(scale) | (uint32_t)(in[i / 8] >> i % 8 & 1) << 31);
}

CODE(sign)

/* ---- no code ---- */

static void code_f32(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)scale, (void)most;
    memcpy(out, acc, 4 * n);
}

static float one_f32(const uint8_t *in, size_t i, float scale)
{
    (void)scale;
    return value(in, i);
}

CODE(f32)

const struct gw_kern_lossy gw_kern_lossy_scalar = {
    .largest = largest,
    .join = join,
    .chance = chance,
    .sum = sum,
    .codes = {[GW_CODE_BF16] = &bf16_kern,
              [GW_CODE_F16] = &f16_kern,
              [GW_CODE_E4M3] = &e4m3_kern,
              [GW_CODE_E5M2] = &e5m2_kern,
              [GW_CODE_INT8] = &int8_kern,
              [GW_CODE_INT4] = &int4_kern,
              [GW_CODE_INT16] = &int16_kern,
              [GW_CODE_INT32] = &int32_kern,
              [GW_CODE_TWO] = &two_kern,
              [GW_CODE_SIGN] = &sign_kern,
              [GW_CODE_F32] = &f32_kern},
};
