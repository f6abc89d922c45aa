/* simde_avx512.h - AVX-512 by libsimde, for compress/ *_avx512.c on any machine with AVX2; what libsimde 0.7.4 lacks is put together
 * here from halves, or word by word.  A macro stands before each name because the compiler's header has it too. */
#ifndef GW_TESTS_SIMDE_AVX512_H
#define GW_TESTS_SIMDE_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#define SIMDE_OWN static inline __attribute__((always_inline, unused))

SIMDE_OWN __m256i gw_half_(__m512i v, int upper)
{
    return upper ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

SIMDE_OWN __m512i gw_whole_(__m256i a, __m256i b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* ---- halves ---- */

#define WIDEN(name)                                                                                                      \
    SIMDE_OWN __m512i gw_##name##_(__m128i v)                                                                            \
    {                                                                                                                    \
        return gw_whole_(_mm256_##name(v), _mm256_##name(_mm_unpackhi_epi64(v, v)));                                     \
    }
WIDEN(cvtepi8_epi32)
WIDEN(cvtepu8_epi32)
#undef WIDEN
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(v) gw_cvtepi8_epi32_(v)
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(v) gw_cvtepu8_epi32_(v)

#define WIDEN(name)                                                                                                      \
    SIMDE_OWN __m512i gw_##name##_(__m256i v)                                                                            \
    {                                                                                                                    \
        return gw_whole_(_mm256_##name(_mm256_castsi256_si128(v)), _mm256_##name(_mm256_extracti128_si256(v, 1)));       \
    }
WIDEN(cvtepi16_epi32)
WIDEN(cvtepu16_epi32)
WIDEN(cvtepu8_epi16)
#undef WIDEN
#undef _mm512_cvtepi16_epi32
#define _mm512_cvtepi16_epi32(v) gw_cvtepi16_epi32_(v)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v) gw_cvtepu16_epi32_(v)
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16(v) gw_cvtepu8_epi16_(v)

#define BOTH(name, call)                                                                                                 \
    SIMDE_OWN __m512i gw_##name##_(__m512i v)                                                                            \
    {                                                                                                                    \
        __m256i a = gw_half_(v, 0), b = gw_half_(v, 1);                                                                  \
        return gw_whole_(call(a), call(b));                                                                              \
    }
#define GW_TO_INT(h) _mm256_cvtps_epi32(_mm256_castsi256_ps(h))
#define GW_CUT(h) _mm256_cvttps_epi32(_mm256_castsi256_ps(h))
#define GW_TO_FLOAT(h) _mm256_castps_si256(_mm256_cvtepi32_ps(h))
BOTH(cvtps_epi32, GW_TO_INT)
BOTH(cvttps_epi32, GW_CUT)
BOTH(cvtepi32_ps, GW_TO_FLOAT)
#undef BOTH
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(v) gw_cvtps_epi32_(_mm512_castps_si512(v))
#undef _mm512_cvttps_epi32
#define _mm512_cvttps_epi32(v) gw_cvttps_epi32_(_mm512_castps_si512(v))
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v) _mm512_castsi512_ps(gw_cvtepi32_ps_(v))

SIMDE_OWN __m512i gw_srai_epi32_(__m512i v, unsigned n)
{
    return gw_whole_(_mm256_srai_epi32(gw_half_(v, 0), (int)n), _mm256_srai_epi32(gw_half_(v, 1), (int)n));
}
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(v, n) gw_srai_epi32_(v, n)

/* Lower halves (0x44) or upper ones (0xee). */
#undef _mm512_shuffle_i64x2
#define _mm512_shuffle_i64x2(a, b, which) gw_whole_(gw_half_(a, (which) == 0xee), gw_half_(b, (which) == 0xee))

/* ---- masks ---- */

#undef _mm512_testn_epi32_mask
#define _mm512_testn_epi32_mask(a, b) ((__mmask16)~_mm512_test_epi32_mask(a, b))
#undef _mm512_testn_epi8_mask
#define _mm512_testn_epi8_mask(a, b) (~_mm512_test_epi8_mask(a, b))
#undef _mm512_cmpneq_epi32_mask
#define _mm512_cmpneq_epi32_mask(a, b) ((__mmask16)~_mm512_cmpeq_epi32_mask(a, b))

/* ---- word by word ---- */

SIMDE_OWN int gw_reduce_max_epi32_(__m512i v)
{
    int32_t lane[16], most;
    _mm512_storeu_si512(lane, v);
    most = lane[0];
    for (int i = 1; i < 16; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}
#undef _mm512_reduce_max_epi32
#define _mm512_reduce_max_epi32(v) gw_reduce_max_epi32_(v)

SIMDE_OWN __m128i gw_cvtepi32_epi8_(__m512i v)
{
    uint32_t lane[16];
    uint8_t out[16];
    _mm512_storeu_si512(lane, v);
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)lane[i];
    return _mm_loadu_si128((const void *)out);
}
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(v) gw_cvtepi32_epi8_(v)

SIMDE_OWN __m256i gw_cvtepi32_epi16_(__m512i v)
{
    uint32_t lane[16];
    uint16_t out[16];
    _mm512_storeu_si512(lane, v);
    for (int i = 0; i < 16; i++)
        out[i] = (uint16_t)lane[i];
    return _mm256_loadu_si256((const void *)out);
}
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(v) gw_cvtepi32_epi16_(v)

/* Lanes pressed together, lanes spread again. */
#define LANES(bits)                                                             \
    SIMDE_OWN __m512i gw_compress_epi##bits##_(uint64_t mask, __m512i v)        \
    {                                                                           \
        uint##bits##_t lane[512 / bits], out[512 / bits] = {0};                 \
        _mm512_storeu_si512(lane, v);                                           \
        for (int i = 0, n = 0; i < 512 / bits; i++)                             \
            if (mask >> i & 1)                                                  \
                out[n++] = lane[i];                                             \
        return _mm512_loadu_si512(out);                                         \
    }                                                                           \
    SIMDE_OWN __m512i gw_expand_epi##bits##_(uint64_t mask, __m512i v)          \
    {                                                                           \
        uint##bits##_t lane[512 / bits], out[512 / bits] = {0};                 \
        _mm512_storeu_si512(lane, v);                                           \
        for (int i = 0, n = 0; i < 512 / bits; i++)                             \
            if (mask >> i & 1)                                                  \
                out[i] = lane[n++];                                             \
        return _mm512_loadu_si512(out);                                         \
    }
LANES(8)
LANES(16)
LANES(32)
#undef LANES
#undef _mm512_maskz_compress_epi8
#define _mm512_maskz_compress_epi8(mask, v) gw_compress_epi8_(mask, v)
#undef _mm512_maskz_compress_epi16
#define _mm512_maskz_compress_epi16(mask, v) gw_compress_epi16_(mask, v)
#undef _mm512_maskz_compress_epi32
#define _mm512_maskz_compress_epi32(mask, v) gw_compress_epi32_(mask, v)
#undef _mm512_maskz_expand_epi8
#define _mm512_maskz_expand_epi8(mask, v) gw_expand_epi8_(mask, v)
#undef _mm512_maskz_expand_epi16
#define _mm512_maskz_expand_epi16(mask, v) gw_expand_epi16_(mask, v)
#undef _mm512_maskz_expand_epi32
#define _mm512_maskz_expand_epi32(mask, v) gw_expand_epi32_(mask, v)

/* Words of one half. */
SIMDE_OWN __m256i gw_compress_words_(uint16_t mask, __m256i v)
{
    return gw_half_(gw_compress_epi16_(mask, _mm512_castsi256_si512(v)), 0);
}
SIMDE_OWN __m256i gw_expand_words_(uint16_t mask, __m256i v)
{
    return gw_half_(gw_expand_epi16_(mask, _mm512_castsi256_si512(v)), 0);
}
#undef _mm256_maskz_compress_epi16
#define _mm256_maskz_compress_epi16(mask, v) gw_compress_words_(mask, v)
#undef _mm256_maskz_expand_epi16
#define _mm256_maskz_expand_epi16(mask, v) gw_expand_words_(mask, v)

SIMDE_OWN void gw_store_words_(void *p, uint16_t mask, __m256i v)
{
    uint16_t lane[16];
    _mm256_storeu_si256((void *)lane, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((uint8_t *)p + 2 * i, &lane[i], 2);
}
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16(p, mask, v) gw_store_words_(p, mask, v)

SIMDE_OWN __m512i gw_loadu_epi8_(uint64_t mask, const void *p)
{
    uint8_t out[64] = {0};
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1)
            out[i] = ((const uint8_t *)p)[i];
    return _mm512_loadu_si512(out);
}
#undef _mm512_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi8(mask, p) gw_loadu_epi8_(mask, p)

#endif
