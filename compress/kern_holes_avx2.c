/* kern_holes_avx2.c - the same as kern_holes_scalar.c, eight values at a time, by tables of which lanes go where. */
#include "holes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS static inline __attribute__((always_inline))

/* ---- the tables, by the compiler ---- */

#define RANK(m, b) __builtin_popcount((m) & ((1u << (b)) - 1))
#define TAKE(m, b) ((m) >> (b) & 1 ? (uint64_t)(b) << 8 * RANK(m, b) : 0)
#define GIVE(m, b) ((m) >> (b) & 1 ? (uint64_t)RANK(m, b) << 8 * (b) : (uint64_t)0x80 << 8 * (b))
#define ALL(F, m) (F(m, 0) | F(m, 1) | F(m, 2) | F(m, 3) | F(m, 4) | F(m, 5) | F(m, 6) | F(m, 7))
#define FOUR(F, m) ALL(F, m), ALL(F, (m) + 1), ALL(F, (m) + 2), ALL(F, (m) + 3)
#define SIXTEEN(F, m) FOUR(F, m), FOUR(F, (m) + 4), FOUR(F, (m) + 8), FOUR(F, (m) + 12)
#define EVERY(F, m) SIXTEEN(F, m), SIXTEEN(F, (m) + 16), SIXTEEN(F, (m) + 32), SIXTEEN(F, (m) + 48)

const uint64_t gw_lanes_taken[256] = {EVERY(TAKE, 0u), EVERY(TAKE, 64u), EVERY(TAKE, 128u), EVERY(TAKE, 192u)};
const uint64_t gw_lanes_given[256] = {EVERY(GIVE, 0u), EVERY(GIVE, 64u), EVERY(GIVE, 128u), EVERY(GIVE, 192u)};

ALWAYS __m128i lanes(const uint64_t *table, unsigned mask)
{
    return _mm_loadl_epi64((const void *)(table + mask));
}

/* Lanes of two bytes as bytes for a shuffle: 2i and 2i + 1; what has its upper bit keeps it. */
ALWAYS __m128i pairs(__m128i i)
{
    i = _mm_add_epi8(i, _mm_and_si128(i, _mm_set1_epi8(0x7f)));
    return _mm_add_epi8(_mm_unpacklo_epi8(i, i), _mm_set1_epi16(0x0100));
}

/* ---- eight values ---- */

ALWAYS unsigned take8(unsigned width, const uint8_t *src, uint8_t *out)
{
    if (width == 4) {
        __m256i v = _mm256_loadu_si256((const void *)src);
        __m256i zero = _mm256_cmpeq_epi32(v, _mm256_setzero_si256());
        unsigned mask = 0xff ^ (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(zero));
        __m256i order = _mm256_cvtepu8_epi32(lanes(gw_lanes_taken, mask));
        _mm256_storeu_si256((void *)out, _mm256_permutevar8x32_epi32(v, order));
        return mask;
    }
    __m128i v = width == 2 ? _mm_loadu_si128((const void *)src) : _mm_loadl_epi64((const void *)src), nought = _mm_setzero_si128();
    __m128i zero = width == 2 ? _mm_packs_epi16(_mm_cmpeq_epi16(v, nought), nought) : _mm_cmpeq_epi8(v, nought);
    unsigned mask = 0xff & ~(unsigned)_mm_movemask_epi8(zero);
    __m128i order = lanes(gw_lanes_taken, mask);
    v = _mm_shuffle_epi8(v, width == 2 ? pairs(order) : order);
    if (width == 2)
        _mm_storeu_si128((void *)out, v);
    else
        _mm_storel_epi64((void *)out, v);
    return mask;
}

ALWAYS void give8(unsigned width, unsigned mask, const uint8_t *values, uint8_t *dst)
{
    __m128i order = lanes(gw_lanes_given, mask);
    if (width == 4) {
        __m256i wide = _mm256_cvtepi8_epi32(order), v = _mm256_loadu_si256((const void *)values);
        v = _mm256_permutevar8x32_epi32(v, wide);
        _mm256_storeu_si256((void *)dst, _mm256_andnot_si256(_mm256_srai_epi32(wide, 31), v));
    } else if (width == 2) {
        __m128i v = _mm_loadu_si128((const void *)values);
        _mm_storeu_si128((void *)dst, _mm_shuffle_epi8(v, pairs(order)));
    } else {
        __m128i v = _mm_loadl_epi64((const void *)values);
        _mm_storel_epi64((void *)dst, _mm_shuffle_epi8(v, order));
    }
}

/* ---- a group ---- */

ALWAYS unsigned compact_all(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GW_MAP_BYTES; i++) {
        unsigned mask = take8(width, src + i * 8 * width, out + count * width);
        map[i] = (uint8_t)mask, count += (unsigned)__builtin_popcount(mask);
    }
    return count;
}

ALWAYS unsigned expand_all(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GW_MAP_BYTES; i++) {
        give8(width, map[i], values + count * width, dst + i * 8 * width);
        count += (unsigned)__builtin_popcount(map[i]);
    }
    return count;
}

static unsigned compact(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out)
{
    return width == 4   ? compact_all(4, src, map, out)
           : width == 2 ? compact_all(2, src, map, out)
                        : compact_all(1, src, map, out);
}

static unsigned expand(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst)
{
    return width == 4   ? expand_all(4, map, values, dst)
           : width == 2 ? expand_all(2, map, values, dst)
                        : expand_all(1, map, values, dst);
}

const struct gw_kern_holes gw_kern_holes_avx2 = {.compact = compact, .expand = expand};
#endif
