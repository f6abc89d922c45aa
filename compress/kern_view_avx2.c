/* kern_view_avx2.c - the same costs as kern_view_scalar.c, a line at a time.  The order of values in a vector does not matter
 * here: they are only counted. */
#include "view.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS static inline __attribute__((always_inline))

/* clang does it without being asked. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { VECTORS = GW_LINE_BYTES / 32 };

ALWAYS unsigned count_of(__m256i mask)
{
    return (unsigned)__builtin_popcount((unsigned)_mm256_movemask_epi8(mask));
}

ALWAYS unsigned largest(__m256i v)
{
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu8(m, _mm_srli_epi16(m, 8));
    m = _mm_xor_si128(_mm_and_si128(m, _mm_set1_epi16(0xff)), _mm_set1_epi16(0xff));
    return 0xff ^ (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(m)) % 256;
}

/* An escape lies in 1..top - steps: one less, and zero has become the largest. */
ALWAYS unsigned escapes_of(const __m256i *e, unsigned vectors, unsigned steps)
{
    __m256i max = e[0];
    UNROLL for (unsigned i = 1; i < vectors; i++)
        max = _mm256_max_epu8(max, e[i]);
    unsigned top = largest(max), escapes = 0;
    if (top <= steps)
        return 0;
    __m256i last = _mm256_set1_epi8((char)(top - steps - 1));
    UNROLL for (unsigned i = 0; i < vectors; i++) {
        __m256i less = _mm256_add_epi8(e[i], _mm256_set1_epi8(-1));
        escapes += count_of(_mm256_cmpeq_epi8(_mm256_min_epu8(less, last), less));
    }
    return escapes;
}

ALWAYS unsigned bytes_cost(const __m256i v[VECTORS])
{
    unsigned none = 0;
    UNROLL for (unsigned i = 0; i < VECTORS; i++)
        none += count_of(_mm256_cmpeq_epi8(v[i], _mm256_setzero_si256()));
    return gw_line_price(128, 128 - none, GW_PRICE_BYTES, escapes_of(v, VECTORS, 14));
}

ALWAYS unsigned none16(const __m256i v[VECTORS])
{
    unsigned none = 0;
    __m256i zero = _mm256_setzero_si256();
    UNROLL for (unsigned i = 0; i < VECTORS; i += 2)
        none += count_of(_mm256_packs_epi16(_mm256_cmpeq_epi16(v[i], zero), _mm256_cmpeq_epi16(v[i + 1], zero)));
    return none;
}

ALWAYS unsigned halves_cost(const __m256i v[VECTORS], unsigned none, int shift, int mask, unsigned steps, unsigned each)
{
    __m256i e[VECTORS / 2], m = _mm256_set1_epi16((short)mask);
    UNROLL for (unsigned i = 0; i < VECTORS; i += 2)
        e[i / 2] = _mm256_packus_epi16(_mm256_and_si256(_mm256_srli_epi16(v[i], shift), m),
                                       _mm256_and_si256(_mm256_srli_epi16(v[i + 1], shift), m));
    return gw_line_price(64, 64 - none, each, escapes_of(e, VECTORS / 2, steps));
}

/* Both views of f32 differ in the price of a value alone. */
ALWAYS void floats_cost(const __m256i v[VECTORS], unsigned views, uint32_t bits[GW_VIEW_COUNT])
{
    __m256i e[VECTORS], no[VECTORS], any = _mm256_setzero_si256(), zero = any;
    UNROLL for (unsigned i = 0; i < VECTORS; i++) {
        e[i] = _mm256_srli_epi32(_mm256_add_epi32(v[i], v[i]), 24);
        no[i] = _mm256_cmpeq_epi32(v[i], zero);
        any = _mm256_or_si256(any, v[i]);
    }
    __m256i all = _mm256_packus_epi16(_mm256_packus_epi32(e[0], e[1]), _mm256_packus_epi32(e[2], e[3]));
    unsigned none = count_of(_mm256_packs_epi16(_mm256_packs_epi32(no[0], no[1]), _mm256_packs_epi32(no[2], no[3])));
    unsigned escapes = escapes_of(&all, 1, 14), full = gw_line_price(32, 32 - none, GW_PRICE_F32, escapes);
    if (views & 1u << GW_VIEW_F32)
        bits[GW_VIEW_F32] += full;
    if (views & 1u << GW_VIEW_F32_BF16)
        bits[GW_VIEW_F32_BF16] += _mm256_testz_si256(any, _mm256_set1_epi32(0xffff))
                                      ? gw_line_price(32, 32 - none, GW_PRICE_BF16, escapes)
                                      : full;
}

static void costs(const uint8_t *line, unsigned views, uint32_t bits[GW_VIEW_COUNT])
{
    const unsigned halves = 1u << GW_VIEW_BF16 | 1u << GW_VIEW_F16, floats = 1u << GW_VIEW_F32 | 1u << GW_VIEW_F32_BF16;
    __m256i v[VECTORS];
    UNROLL for (unsigned i = 0; i < VECTORS; i++)
        v[i] = _mm256_loadu_si256((const void *)(line + 32 * i));
    if (views & floats)
        floats_cost(v, views, bits);
    if (views & 1u << GW_VIEW_BYTES)
        bits[GW_VIEW_BYTES] += bytes_cost(v);
    unsigned none = views & halves ? none16(v) : 0;
    if (views & 1u << GW_VIEW_BF16)
        bits[GW_VIEW_BF16] += halves_cost(v, none, 7, 0xff, 14, GW_PRICE_BF16);
    if (views & 1u << GW_VIEW_F16)
        bits[GW_VIEW_F16] += halves_cost(v, none, 10, 0x1f, 6, GW_PRICE_F16);
}

const struct gw_kern_view gw_kern_view_avx2 = {.costs = costs};
#endif
