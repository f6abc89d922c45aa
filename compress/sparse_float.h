/* sparse_float.h - single f32 values as their bits. */
#ifndef GW_COMPRESS_SPARSE_FLOAT_H
#define GW_COMPRESS_SPARSE_FLOAT_H

#include "f32.h"

/* The nearest integer, halves to even, of what lies within +-2^22: adding 1.5 * 2^23 leaves no bit below one. */
static inline int32_t gw_float_round(float v)
{
    return (int32_t)(gw_f32_bits(v + 12582912.0f) - 0x4b400000u);
}

/* bf16 of f32 bits: nearest even; finite stays finite; subnormal is zero, its sign kept; every NaN is the one. */
static inline uint16_t gw_bf16(uint32_t b)
{
    uint32_t sign = b & ~GW_F32_ABS, a = b & GW_F32_ABS;
    if (a > GW_F32_INF)
        return GW_F32_NAN >> 16;
    if (a < GW_F32_LEAST)
        return (uint16_t)(sign >> 16);
    uint32_t r = (a + 0x7fff + (a >> 16 & 1)) >> 16;
    if (a < GW_F32_INF && r > 0x7f7f)
        r = 0x7f7f;
    return (uint16_t)(sign >> 16 | r);
}

/* The f32 bits of any bf16: exponent 0 is zero, every NaN is the one. */
static inline uint32_t gw_of_bf16(uint16_t v)
{
    uint32_t b = (uint32_t)v << 16, a = b & GW_F32_ABS;
    return a > GW_F32_INF ? GW_F32_NAN : a < GW_F32_LEAST ? b & ~GW_F32_ABS : b;
}
#endif
