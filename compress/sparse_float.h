/* sparse_float.h - single f32 values as their bits. */
#ifndef GW_COMPRESS_SPARSE_FLOAT_H
#define GW_COMPRESS_SPARSE_FLOAT_H

#include <stdint.h>
#include <string.h>

#define GW_FLOAT_ABS 0x7fffffffu
#define GW_FLOAT_INF 0x7f800000u
#define GW_FLOAT_NAN 0x7fc00000u  /* the one quiet NaN */
#define GW_FLOAT_LEAST 0x00800000u /* the smallest normal number */
#define GW_FLOAT_TINY 0x0d800000u /* 2^-100 */

static inline uint32_t gw_float_bits(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return b;
}

static inline float gw_float_of(uint32_t b)
{
    float v;
    memcpy(&v, &b, 4);
    return v;
}

/* The nearest integer, halves to even, of what lies within +-2^22: adding 1.5 * 2^23 leaves no bit below one. */
static inline int32_t gw_float_round(float v)
{
    return (int32_t)(gw_float_bits(v + 12582912.0f) - 0x4b400000u);
}

/* bf16 of f32 bits: nearest even; finite stays finite; subnormal is zero, its sign kept; every NaN is the one. */
static inline uint16_t gw_bf16(uint32_t b)
{
    uint32_t sign = b & ~GW_FLOAT_ABS, a = b & GW_FLOAT_ABS;
    if (a > GW_FLOAT_INF)
        return GW_FLOAT_NAN >> 16;
    if (a < GW_FLOAT_LEAST)
        return (uint16_t)(sign >> 16);
    uint32_t r = (a + 0x7fff + (a >> 16 & 1)) >> 16;
    if (a < GW_FLOAT_INF && r > 0x7f7f)
        r = 0x7f7f;
    return (uint16_t)(sign >> 16 | r);
}

/* The f32 bits of any bf16: exponent 0 is zero, every NaN is the one. */
static inline uint32_t gw_of_bf16(uint16_t v)
{
    uint32_t b = (uint32_t)v << 16, a = b & GW_FLOAT_ABS;
    return a > GW_FLOAT_INF ? GW_FLOAT_NAN : a < GW_FLOAT_LEAST ? b & ~GW_FLOAT_ABS : b;
}
#endif
