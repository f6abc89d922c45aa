/* kern_zero_avx2.c - the same bytes as kern_zero_scalar.c, a unit at a time.
 *
 * Lanes are pressed together and spread by one permute whose indices bits.h has for every mask.
 * That moves a whole unit, so at the end of a buffer words move one by one. */
#include "zero.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "bits.h"

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS uint64_t eight(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

ALWAYS __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* ---- map ---- */

/* So far ahead that a line is there in time; what lies behind the buffer is asked for in vain. */
enum { AHEAD = 4096, LINE = 64 };

ALWAYS void ahead(const uint8_t *p)
{
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD));
}

static size_t map4(const uint8_t *src, size_t units, uint8_t *map)
{
    const __m256i none = _mm256_setzero_si256();
    size_t count = 0, u = 0;
    for (; units - u >= 4; u += 4, src += 128) {
        ahead(src), ahead(src + LINE);
        __m256i a = _mm256_cmpeq_epi32(get(src), none);
        __m256i b = _mm256_cmpeq_epi32(get(src + 32), none);
        __m256i c = _mm256_cmpeq_epi32(get(src + 64), none);
        __m256i d = _mm256_cmpeq_epi32(get(src + 96), none);
        __m256i v = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        uint32_t full = ~(uint32_t)_mm256_movemask_epi8(v);
        memcpy(map + u, &full, 4);
        count += (size_t)__builtin_popcount(full);
    }
    for (; u < units; u++, src += 32) {
        __m256i v = _mm256_cmpeq_epi32(get(src), none);
        map[u] = (uint8_t)~_mm256_movemask_ps(_mm256_castsi256_ps(v));
        count += (size_t)__builtin_popcount(map[u]);
    }
    return count;
}

static size_t map2(const uint8_t *src, size_t units, uint8_t *map)
{
    const __m256i none = _mm256_setzero_si256();
    size_t count = 0, u = 0;
    for (; units - u >= 4; u += 4, src += LINE) {
        ahead(src);
        __m256i a = _mm256_cmpeq_epi16(get(src), none);
        __m256i b = _mm256_cmpeq_epi16(get(src + 32), none);
        __m256i v = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
        uint32_t full = ~(uint32_t)_mm256_movemask_epi8(v);
        memcpy(map + u, &full, 4);
        count += (size_t)__builtin_popcount(full);
    }
    for (; u < units; u++, src += 16) {
        __m128i v = _mm_cmpeq_epi16(_mm_loadu_si128((const void *)src), _mm_setzero_si128());
        map[u] = (uint8_t)~_mm_movemask_epi8(_mm_packs_epi16(v, v));
        count += (size_t)__builtin_popcount(map[u]);
    }
    return count;
}

/* ---- one unit ---- */

ALWAYS __m256i lanes4(uint64_t row)
{
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)row));
}

/* Each index of a word as the two of its bytes. */
ALWAYS __m128i lanes2(uint64_t row)
{
    __m128i v = _mm_cvtsi64_si128((long long)row);
    v = _mm_unpacklo_epi8(v, v);
    return _mm_add_epi8(_mm_add_epi8(v, v), _mm_set1_epi16(0x100));
}

ALWAYS void press(size_t width, const uint8_t *src, unsigned m, uint8_t *out)
{
    if (width == 4)
        _mm256_storeu_si256((void *)out, _mm256_permutevar8x32_epi32(get(src), lanes4(gw_bits_low[m])));
    else
        _mm_storeu_si128((void *)out, _mm_shuffle_epi8(_mm_loadu_si128((const void *)src), lanes2(gw_bits_low[m])));
}

ALWAYS void spread(size_t width, const uint8_t *words, unsigned m, uint8_t *dst)
{
    if (width == 4) {
        const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)m), bit), bit);
        __m256i v = _mm256_permutevar8x32_epi32(get(words), lanes4(gw_bits_rank[m]));
        _mm256_storeu_si256((void *)dst, _mm256_and_si256(v, on));
    } else {
        const __m128i bit = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
        __m128i on = _mm_cmpeq_epi16(_mm_and_si128(_mm_set1_epi16((short)m), bit), bit);
        __m128i v = _mm_shuffle_epi8(_mm_loadu_si128((const void *)words), lanes2(gw_bits_rank[m]));
        _mm_storeu_si128((void *)dst, _mm_and_si128(v, on));
    }
}

/* ---- all units ---- */

ALWAYS uint8_t *pack(size_t width, const uint8_t *src, const struct gw_zero_units *u, uint8_t *out, const uint8_t *end)
{
    const size_t unit = width * GW_ZERO_UNIT;
    const uint8_t *byte = u->bytes;
    for (size_t i = 0; i < u->rows; i++, src += 64 * unit)
        for (uint64_t left = eight(u->level + 8 * i); left != 0; left &= left - 1) {
            const uint8_t *from = src + (size_t)__builtin_ctzll(left) * unit;
            unsigned m = *byte++;
            if (__builtin_expect((size_t)(end - out) < unit, 0)) {
                out = gw_zero_press(width, from, m, out);
                continue;
            }
            press(width, from, m, out);
            out += width * (size_t)__builtin_popcount(m);
        }
    return out;
}

ALWAYS const uint8_t *unpack(size_t width, const uint8_t *words, const uint8_t *end, const struct gw_zero_units *u,
                             uint8_t *dst)
{
    const size_t unit = width * GW_ZERO_UNIT;
    const uint8_t *byte = u->bytes;
    for (size_t i = 0; i < u->rows; i++, dst += 64 * unit)
        for (uint64_t left = eight(u->level + 8 * i); left != 0; left &= left - 1) {
            uint8_t *to = dst + (size_t)__builtin_ctzll(left) * unit;
            unsigned m = *byte++;
            if (__builtin_expect((size_t)(end - words) < unit, 0)) {
                words = gw_zero_spread(width, words, m, to);
                continue;
            }
            spread(width, words, m, to);
            words += width * (size_t)__builtin_popcount(m);
        }
    return words;
}

#define COPY(width)                                                                                                            \
    static uint8_t *pack##width(const uint8_t *src, const struct gw_zero_units *u, uint8_t *out, const uint8_t *end)           \
    {                                                                                                                          \
        return pack(width, src, u, out, end);                                                                                  \
    }                                                                                                                          \
    static const uint8_t *unpack##width(const uint8_t *words, const uint8_t *end, const struct gw_zero_units *u, uint8_t *dst) \
    {                                                                                                                          \
        return unpack(width, words, end, u, dst);                                                                              \
    }
COPY(2)
COPY(4)

const struct gw_kern_zero gw_kern_zero_avx2 = {.map = {map2, map4}, .pack = {pack2, pack4}, .unpack = {unpack2, unpack4}};
#endif
