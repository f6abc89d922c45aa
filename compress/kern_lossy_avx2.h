/* kern_lossy_avx2.h - what the two AVX2 files of the lossy codecs share. */
#ifndef GW_COMPRESS_KERN_LOSSY_AVX2_H
#define GW_COMPRESS_KERN_LOSSY_AVX2_H

#include "lossy.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

ALWAYS void put(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

ALWAYS __m256i all(uint32_t bits)
{
    return _mm256_set1_epi32((int)bits);
}

ALWAYS __m256 floats(__m256i v)
{
    return _mm256_castsi256_ps(v);
}

ALWAYS __m256i bits_of(__m256 v)
{
    return _mm256_castps_si256(v);
}

ALWAYS __m256i magnitude(__m256i v)
{
    return _mm256_and_si256(v, all(0x7fffffff));
}

ALWAYS __m256i sign(__m256i v)
{
    return _mm256_and_si256(v, all(0x80000000));
}

/* All ones where the exponent is 0. */
ALWAYS __m256i none(__m256i v)
{
    return _mm256_cmpeq_epi32(_mm256_and_si256(v, all(GW_F32_INF)), _mm256_setzero_si256());
}

ALWAYS __m256i flushed(__m256i v)
{
    return _mm256_andnot_si256(_mm256_srli_epi32(none(v), 1), v);
}

ALWAYS __m256i plain_zero(__m256i v)
{
    return _mm256_andnot_si256(none(v), v);
}

/* Magnitudes, subnormals as 0. */
ALWAYS __m256i live(__m256i m)
{
    return _mm256_and_si256(m, _mm256_cmpgt_epi32(m, all(0x007fffff)));
}

ALWAYS __m256i settled(__m256 v)
{
    __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    return plain_zero(bits_of(_mm256_blendv_ps(v, floats(all(GW_F32_NAN)), nan)));
}

/* t >= 0 to integers; r is NULL or eight numbers. */
ALWAYS __m256i rounded(__m256 t, const uint32_t *r)
{
    if (r == NULL)
        return _mm256_cvtps_epi32(t);
    __m256i whole = _mm256_cvttps_epi32(t);
    __m256 rest = _mm256_sub_ps(t, _mm256_cvtepi32_ps(whole));
    __m256i part = _mm256_cvttps_epi32(_mm256_mul_ps(rest, _mm256_set1_ps(0x1p31f)));
    return _mm256_sub_epi32(whole, _mm256_cmpgt_epi32(part, _mm256_srli_epi32(get(r), 1)));
}

ALWAYS const uint32_t *AT(const uint32_t *r, size_t i)
{
    return r == NULL ? NULL : r + i;
}

/* A loop over a body that is told, as a constant, whether there is chance. */
#define FOR(step, body)                                                                                              \
    do {                                                                                                             \
        if (r == NULL)                                                                                               \
            for (size_t i = 0; i < n; i += (step))                                                                   \
                body(i, NULL);                                                                                       \
        else                                                                                                         \
            for (size_t i = 0; i < n; i += (step))                                                                   \
                body(i, r + i);                                                                                      \
    } while (0)

/* ---- packing: in the order of memory ---- */

/* u32 below 65536. */
ALWAYS __m256i pack16(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

/* i32 that are bytes of either sign. */
ALWAYS __m256i pack8(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i v = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

ALWAYS __m256i bytes8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

ALWAYS __m256i words8(const uint8_t *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
}

/* ---- what becomes of eight decoded values: one decoder, four loops ---- */

struct to {
    enum { STORE, PLUS, PLUS_LARGE, PLUS_BY, REMAIN } how;
    uint8_t *out;
    const uint8_t *acc;
    __m256 by;
};

/* A zero of either sign adds nothing, and a sum of zeros is +0. */
ALWAYS __m256i plus(__m256i dst, __m256i v)
{
    return settled(_mm256_add_ps(floats(dst), floats(v)));
}

/* Scaled values are 0 or not below their scale.  Against 2^-100 a subnormal is less than half of the last bit, and beside 0
 * it is settled away: dst need not be looked at before. */
ALWAYS int large(float scale)
{
    return scale >= 0x1p-100f;
}

/* acc is what `join` made: it has no subnormals, and the value of what is finite is finite. */
ALWAYS __m256i left_of(const uint8_t *acc, __m256i v)
{
    __m256i a = get(acc), inf = all(GW_F32_INF);
    __m256i whole = _mm256_cmpeq_epi32(_mm256_and_si256(a, inf), inf);
    return _mm256_andnot_si256(whole, plain_zero(bits_of(_mm256_sub_ps(floats(a), floats(v)))));
}

ALWAYS void emit(struct to to, size_t i, __m256i v)
{
    uint8_t *out = to.out + 4 * i;
    if (to.how == STORE)
        put(out, v);
    else if (to.how == PLUS)
        put(out, plus(plain_zero(get(out)), v));
    else if (to.how == PLUS_LARGE)
        put(out, plus(get(out), v));
    else if (to.how == PLUS_BY)
        put(out, plus(plain_zero(get(out)), plain_zero(bits_of(_mm256_mul_ps(to.by, floats(v))))));
    else
        put(out, left_of(to.acc + 4 * i, v));
}

#define LOOPS(name)                                                                                                  \
    static void value_##name(const uint8_t *in, size_t n, float scale, uint8_t *out)                                 \
    {                                                                                                                \
        each_##name(in, n, scale, (struct to){.how = STORE, .out = out});                                            \
    }                                                                                                                \
    static void add_##name(const uint8_t *in, size_t n, float scale, float by, uint8_t *dst)                         \
    {                                                                                                                \
        if (by == 1 && large(scale))                                                                                 \
            each_##name(in, n, scale, (struct to){.how = PLUS_LARGE, .out = dst});                                   \
        else if (by == 1)                                                                                            \
            each_##name(in, n, scale, (struct to){.how = PLUS, .out = dst});                                         \
        else                                                                                                         \
            each_##name(in, n, scale, (struct to){.how = PLUS_BY, .out = dst, .by = _mm256_set1_ps(by)});            \
    }                                                                                                                \
    static void remain_##name(const uint8_t *in, size_t n, float scale, const uint8_t *acc, uint8_t *residual)       \
    {                                                                                                                \
        each_##name(in, n, scale, (struct to){.how = REMAIN, .out = residual, .acc = acc});                          \
    }
#define CODE(name) \
    LOOPS(name)    \
    static const struct gw_code_kern name##_kern = {code_##name, value_##name, add_##name, remain_##name};
#define CAST(name) \
    LOOPS(name)    \
    const struct gw_code_kern gw_avx2_##name = {code_##name, value_##name, add_##name, remain_##name};

extern const struct gw_code_kern gw_avx2_bf16, gw_avx2_f16, gw_avx2_e4m3, gw_avx2_e5m2;
#endif
#endif
