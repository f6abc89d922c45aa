/* f32.h - f32 values as their bits, the magnitudes that rules name, and the numbers that stand for chance. */
#ifndef GW_COMPRESS_F32_H
#define GW_COMPRESS_F32_H

#include <stdint.h>
#include <string.h>

#define GW_F32_ABS 0x7fffffffu
#define GW_F32_INF 0x7f800000u
#define GW_F32_NAN 0x7fc00000u   /* the one NaN that arithmetic here makes */
#define GW_F32_LEAST 0x00800000u /* the smallest normal number */
#define GW_F32_TINY (27u << 23)  /* 2^-100: a block below it becomes zeros */

static inline uint32_t gw_f32_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

static inline float gw_f32_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

/* Number i of the sequence that a seed begins (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014), without those before it. */
static inline uint64_t gw_chance_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * (i + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
#endif
