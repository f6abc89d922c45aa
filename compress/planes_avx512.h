/* planes_avx512.h - as planes_avx2.h, 64 values at a time; permutes of two vectors keep memory order throughout. */
#ifndef GW_COMPRESS_PLANES_AVX512_H
#define GW_COMPRESS_PLANES_AVX512_H

#include <string.h>

#include "kern.h"

#include "avx512.h"

enum { N = GW_GROUP_VALUES, ROW = 64, ROWS = N / ROW };

ALWAYS __m512i byte(int v)
{
    return _mm512_set1_epi8((char)v);
}

ALWAYS __m512i four_times(__m128i v)
{
    return _mm512_broadcast_i32x4(v);
}

/* Bits of a where those of the mask are set, else of b. */
ALWAYS __m512i merge(int mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(byte(mask), a, b, 0xca);
}

#define FOUR(f, i) f(i), f((i) + 1), f((i) + 2), f((i) + 3)
#define SIXTEEN(f, i) FOUR(f, i), FOUR(f, (i) + 4), FOUR(f, (i) + 8), FOUR(f, (i) + 12)
#define THIRTY_TWO(f, i) SIXTEEN(f, i), SIXTEEN(f, (i) + 16)
#define SIXTY_FOUR(f, i) THIRTY_TWO(f, i), THIRTY_TWO(f, (i) + 32)
#define EVEN(i) 2 * (i)
#define ODD(i) 2 * (i) + 1
#define MIX8(i) (i) / 2 + (i) % 2 * 64
#define MIX16(i) (i) / 2 + (i) % 2 * 32

/* What a permute of two vectors takes: lane i of the one and of the other in turn; or every second. */
static const uint8_t even_bytes[64] = {SIXTY_FOUR(EVEN, 0)}, odd_bytes[64] = {SIXTY_FOUR(ODD, 0)};
static const uint8_t mixed_bytes[128] = {SIXTY_FOUR(MIX8, 0), SIXTY_FOUR(MIX8, 64)};
static const uint16_t even_words[32] = {THIRTY_TWO(EVEN, 0)}, odd_words[32] = {THIRTY_TWO(ODD, 0)};
static const uint16_t mixed_words[64] = {THIRTY_TWO(MIX16, 0), THIRTY_TWO(MIX16, 32)};

/* ---- apart ---- */

ALWAYS __m512i low_bytes(__m512i a, __m512i b)
{
    return _mm512_permutex2var_epi8(a, get(even_bytes), b);
}

ALWAYS __m512i high_bytes(__m512i a, __m512i b)
{
    return _mm512_permutex2var_epi8(a, get(odd_bytes), b);
}

ALWAYS __m512i low_words(__m512i a, __m512i b)
{
    return _mm512_permutex2var_epi16(a, get(even_words), b);
}

ALWAYS __m512i high_words(__m512i a, __m512i b)
{
    return _mm512_permutex2var_epi16(a, get(odd_words), b);
}

/* The upper (or only) 16 bits of row r's values; the low halves of f32 go where they belong. */
ALWAYS void load_row(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *halves, __m512i *first, __m512i *second)
{
    if (view == GW_VIEW_BF16 || view == GW_VIEW_F16) {
        *first = get(src + r * ROW * 2), *second = get(src + r * ROW * 2 + 64);
        return;
    }
    const uint8_t *p = src + r * ROW * 4;
    __m512i a = get(p), b = get(p + 64), c = get(p + 128), d = get(p + 192);
    *first = high_words(a, b), *second = high_words(c, d);
    if (view == GW_VIEW_F32)
        put(halves + r * ROW * 2, low_words(a, b)), put(halves + r * ROW * 2 + 64, low_words(c, d));
}

/* Row r of a group in a view of 8 bits of exponent: its exponents, and signs with mantissas. */
ALWAYS __m512i split(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *halves, __m512i *sm)
{
    __m512i a, b;
    load_row(view, src, r, halves, &a, &b);
    __m512i low = low_bytes(a, b), high = high_bytes(a, b), e = _mm512_add_epi8(high, high);
    *sm = merge(0x80, high, low);
    return _mm512_mask_sub_epi8(e, _mm512_movepi8_mask(low), e, byte(-1));
}

ALWAYS unsigned largest(__m512i v)
{
    __m256i h = _mm256_max_epu8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    m = _mm_max_epu8(m, _mm_srli_epi16(m, 8));
    m = _mm_xor_si128(_mm_and_si128(m, _mm_set1_epi16(0xff)), _mm_set1_epi16(0xff));
    return 0xff ^ (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(m)) % 256;
}

/* ---- together ---- */

ALWAYS void store_words(enum gw_view view, __m512i a, __m512i b, const uint8_t *halves, uint8_t *dst)
{
    if (view == GW_VIEW_BF16 || view == GW_VIEW_F16) {
        put(dst, a), put(dst + 64, b);
        return;
    }
    const __m512i lower = get(mixed_words), upper = get(mixed_words + 32);
    __m512i c = view == GW_VIEW_F32 ? get(halves) : _mm512_setzero_si512();
    __m512i d = view == GW_VIEW_F32 ? get(halves + 64) : _mm512_setzero_si512();
    put(dst, _mm512_permutex2var_epi16(c, lower, a)), put(dst + 64, _mm512_permutex2var_epi16(c, upper, a));
    put(dst + 128, _mm512_permutex2var_epi16(d, lower, b)), put(dst + 192, _mm512_permutex2var_epi16(d, upper, b));
}

/* 64 values from the two bytes of their upper (or only) halves. */
ALWAYS void join(enum gw_view view, __m512i high, __m512i low, const uint8_t *halves, uint8_t *dst)
{
    __m512i a = _mm512_permutex2var_epi8(low, get(mixed_bytes), high);
    __m512i b = _mm512_permutex2var_epi8(low, get(mixed_bytes + 64), high);
    store_words(view, a, b, halves, dst);
}

/* half: exponents shifted right by one; odd: their last bits in bit 7; both may have anything in other bits. */
ALWAYS void join_exponents(enum gw_view view, __m512i half, __m512i odd, const uint8_t *plane, const uint8_t *halves,
                           uint8_t *dst)
{
    __m512i sm = get(plane);
    join(view, merge(0x80, sm, half), merge(0x80, odd, sm), halves, dst);
}

ALWAYS __m512i half_of(__m512i e)
{
    return _mm512_srli_epi16(e, 1);
}

ALWAYS __m512i odd_of(__m512i e)
{
    return _mm512_slli_epi16(e, 7);
}

/* ---- codes of four bits: 32 values in the lower halves of 32 bytes, the next 32 in the upper ---- */

/* Rows of codes below 16, two to 64 bytes. */
ALWAYS __m512i nibbles_of(__m512i a, __m512i b)
{
    return _mm512_or_si512(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_slli_epi16(_mm512_shuffle_i64x2(a, b, 0xee), 4));
}

ALWAYS void nibbles_read(__m512i codes, __m512i *a, __m512i *b)
{
    __m512i low = _mm512_and_si512(codes, byte(15)), high = _mm512_and_si512(_mm512_srli_epi16(codes, 4), byte(15));
    *a = _mm512_shuffle_i64x2(low, high, 0x44), *b = _mm512_shuffle_i64x2(low, high, 0xee);
}

ALWAYS unsigned ones(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

/* The lowest n bits. */
ALWAYS uint64_t first_bits(unsigned n)
{
    return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
}

/* n bytes at p for the places of the mask, of which there are n; e elsewhere. */
ALWAYS __m512i give(__m512i e, uint64_t mask, __m512i bytes)
{
    return _mm512_mask_mov_epi8(e, mask, _mm512_maskz_expand_epi8(mask, bytes));
}

ALWAYS __m512i get_few(const uint8_t *p, unsigned n)
{
    return _mm512_maskz_loadu_epi8(first_bits(n), p);
}
#endif
