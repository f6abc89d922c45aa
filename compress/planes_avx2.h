/* planes_avx2.h - values taken apart into planes of bytes and put together again, 32 at a time, for the kernels whose file names
 * end in _avx2.c.  AVX2 shuffles within halves of 128 bits, so values leave memory order; a permute of the quarters or eighths
 * brings them back where a plane is written, or is done once on what a plane is read from. */
#ifndef GW_COMPRESS_PLANES_AVX2_H
#define GW_COMPRESS_PLANES_AVX2_H

#include <immintrin.h>

#include "kern.h"

#define ALWAYS static inline __attribute__((always_inline))

/* clang does it without being asked. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { N = GW_GROUP_VALUES, ROW = 32, ROWS = N / ROW };

ALWAYS __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

ALWAYS void put(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

ALWAYS __m256i byte(int v)
{
    return _mm256_set1_epi8((char)v);
}

ALWAYS __m256i in_order(__m256i v)
{
    return _mm256_permute4x64_epi64(v, 0xd8);
}

ALWAYS __m256i twice(__m128i v)
{
    return _mm256_broadcastsi128_si256(v);
}

/* The rows of f32 that come together lie in eighths. */
ALWAYS __m256i eighths_in_order(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* ---- apart ---- */

/* 32 values as two planes of bytes: the upper and the lower of their upper (or only) 16 bits. */
struct planes {
    __m256i high, low;
};

ALWAYS struct planes load16(const uint8_t *src)
{
    __m256i halves = twice(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    __m256i a = _mm256_shuffle_epi8(get(src), halves), b = _mm256_shuffle_epi8(get(src + 32), halves);
    struct planes p = {.high = in_order(_mm256_unpackhi_epi64(a, b)), .low = in_order(_mm256_unpacklo_epi64(a, b))};
    return p;
}

/* low: where the low halves go, NULL where nobody wants them. */
ALWAYS struct planes load32(const uint8_t *src, uint8_t *low)
{
    __m256i apart = twice(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i a = _mm256_shuffle_epi8(get(src), apart), b = _mm256_shuffle_epi8(get(src + 32), apart);
    __m256i c = _mm256_shuffle_epi8(get(src + 64), apart), d = _mm256_shuffle_epi8(get(src + 96), apart);
    if (low != NULL) {
        put(low, in_order(_mm256_unpacklo_epi64(a, b)));
        put(low + 32, in_order(_mm256_unpacklo_epi64(c, d)));
    }
    __m256 ab = _mm256_castsi256_ps(_mm256_unpackhi_epi64(a, b)), cd = _mm256_castsi256_ps(_mm256_unpackhi_epi64(c, d));
    struct planes p = {.high = eighths_in_order(_mm256_castps_si256(_mm256_shuffle_ps(ab, cd, 0xdd))),
                       .low = eighths_in_order(_mm256_castps_si256(_mm256_shuffle_ps(ab, cd, 0x88)))};
    return p;
}

/* Row r of a group in a view of 8 bits of exponent: answers its exponents and puts the planes of sign and mantissa and of low
 * halves where they belong. */
ALWAYS __m256i split(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *plane, uint8_t *halves)
{
    struct planes p = view == GW_VIEW_BF16  ? load16(src + r * ROW * 2)
                      : view == GW_VIEW_F32 ? load32(src + r * ROW * 4, halves + r * ROW * 2)
                                            : load32(src + r * ROW * 4, NULL);
    put(plane + r * ROW,
        _mm256_or_si256(_mm256_and_si256(p.high, byte(0x80)), _mm256_and_si256(p.low, byte(0x7f))));
    __m256i odd = _mm256_cmpgt_epi8(_mm256_setzero_si256(), p.low); /* -1 where the last bit of the exponent is set */
    return _mm256_sub_epi8(_mm256_add_epi8(p.high, p.high), odd);
}

ALWAYS unsigned largest(__m256i v)
{
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu8(m, _mm_srli_epi16(m, 8));
    m = _mm_xor_si128(_mm_and_si128(m, _mm_set1_epi16(0xff)), _mm_set1_epi16(0xff));
    return 0xff ^ (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(m)) % 256;
}

ALWAYS unsigned sum_of(__m256i v)
{
    v = _mm256_sad_epu8(v, _mm256_setzero_si256());
    __m128i s = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (unsigned)_mm_cvtsi128_si32(_mm_add_epi64(s, _mm_unpackhi_epi64(s, s)));
}

/* ---- together ---- */

/* 32 bytes in the order that `join` wants them. */
ALWAYS __m256i arrange(enum gw_view view, __m256i v)
{
    if (view == GW_VIEW_BYTES)
        return v;
    if (view == GW_VIEW_BF16 || view == GW_VIEW_F16)
        return in_order(v);
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

ALWAYS __m256i fetch(enum gw_view view, const void *p)
{
    return arrange(view, get(p));
}

/* Upper and lower byte of each value's upper (or only) half, and f32's low halves, to 32 values. */
ALWAYS void join(enum gw_view view, __m256i high, __m256i low, const uint8_t *halves, uint8_t *dst)
{
    __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high), nought = _mm256_setzero_si256();
    if (view == GW_VIEW_BF16 || view == GW_VIEW_F16) {
        put(dst, a), put(dst + 32, b);
        return;
    }
    __m256i c = view == GW_VIEW_F32 ? in_order(get(halves)) : nought;
    __m256i d = view == GW_VIEW_F32 ? in_order(get(halves + 32)) : nought;
    put(dst, _mm256_unpacklo_epi16(c, a)), put(dst + 32, _mm256_unpackhi_epi16(c, a));
    put(dst + 64, _mm256_unpacklo_epi16(d, b)), put(dst + 96, _mm256_unpackhi_epi16(d, b));
}

/* half: exponents shifted right by one; odd: their last bits in bit 7; both in join's order, as is what `plane` gives. */
ALWAYS void join_exponents(enum gw_view view, __m256i half, __m256i odd, const uint8_t *plane, const uint8_t *halves,
                           uint8_t *dst)
{
    __m256i sm = fetch(view, plane);
    join(view, _mm256_or_si256(_mm256_and_si256(sm, byte(0x80)), half),
         _mm256_or_si256(_mm256_and_si256(sm, byte(0x7f)), odd), halves, dst);
}

ALWAYS __m256i half_of(__m256i e)
{
    return _mm256_and_si256(_mm256_srli_epi16(e, 1), byte(0x7f));
}

ALWAYS __m256i odd_of(__m256i e)
{
    return _mm256_and_si256(_mm256_slli_epi16(e, 7), byte(0x80));
}
#endif
