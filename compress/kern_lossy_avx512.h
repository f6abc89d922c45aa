/* kern_lossy_avx512.h - what the two AVX-512 files of the lossy codecs share.  As kern_lossy_avx2.h, with masks for choices. */
#ifndef GW_COMPRESS_KERN_LOSSY_AVX512_H
#define GW_COMPRESS_KERN_LOSSY_AVX512_H

#if defined(__x86_64__)
#include "avx512.h"
#include "lossy.h"

ALWAYS __m512i all(uint32_t bits)
{
    return _mm512_set1_epi32((int)bits);
}

ALWAYS __m512 floats(__m512i v)
{
    return _mm512_castsi512_ps(v);
}

ALWAYS __m512i bits_of(__m512 v)
{
    return _mm512_castps_si512(v);
}

ALWAYS __m512i magnitude(__m512i v)
{
    return _mm512_and_si512(v, all(0x7fffffff));
}

ALWAYS __m512i sign(__m512i v)
{
    return _mm512_and_si512(v, all(0x80000000));
}

ALWAYS __m512i flushed(__m512i v)
{
    return _mm512_mask_and_epi32(v, _mm512_testn_epi32_mask(v, all(GW_F32_INF)), v, all(0x80000000));
}

ALWAYS __m512i plain_zero(__m512i v)
{
    return _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(v, all(GW_F32_INF)), v);
}

/* Magnitudes, subnormals as 0. */
ALWAYS __m512i live(__m512i m)
{
    return _mm512_maskz_mov_epi32(_mm512_cmpgt_epi32_mask(m, all(0x007fffff)), m);
}

ALWAYS __m512i choose(__mmask16 m, uint32_t bits, __m512i v)
{
    return _mm512_mask_mov_epi32(v, m, all(bits));
}

ALWAYS __m512i settled(__m512 v)
{
    return plain_zero(choose(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), GW_F32_NAN, bits_of(v)));
}

/* t >= 0 to integers; r is NULL or sixteen numbers. */
ALWAYS __m512i rounded(__m512 t, const uint32_t *r)
{
    if (r == NULL)
        return _mm512_cvtps_epi32(t);
    __m512i whole = _mm512_cvttps_epi32(t);
    __m512 rest = _mm512_sub_ps(t, _mm512_cvtepi32_ps(whole));
    __m512i part = _mm512_cvttps_epi32(_mm512_mul_ps(rest, _mm512_set1_ps(0x1p31f)));
    __mmask16 up = _mm512_cmpgt_epi32_mask(part, _mm512_srli_epi32(get(r), 1));
    return _mm512_mask_add_epi32(whole, up, whole, all(1));
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

/* ---- what becomes of sixteen decoded values ---- */

struct to {
    enum { STORE, PLUS, PLUS_LARGE, PLUS_BY, REMAIN } how;
    uint8_t *out;
    const uint8_t *acc;
    __m512 by;
};

ALWAYS __m512i plus(__m512i dst, __m512i v)
{
    return settled(_mm512_add_ps(floats(dst), floats(v)));
}

/* See kern_lossy_avx2.h. */
ALWAYS int large(float scale)
{
    return scale >= 0x1p-100f;
}

ALWAYS __m512i left_of(const uint8_t *acc, __m512i v)
{
    __m512i a = get(acc), inf = all(GW_F32_INF), rest = bits_of(_mm512_sub_ps(floats(a), floats(v)));
    __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(a, inf), inf);
    return _mm512_maskz_mov_epi32((__mmask16)(finite & _mm512_test_epi32_mask(rest, inf)), rest);
}

ALWAYS void emit(struct to to, size_t i, __m512i v)
{
    uint8_t *out = to.out + 4 * i;
    if (to.how == STORE)
        put(out, v);
    else if (to.how == PLUS)
        put(out, plus(plain_zero(get(out)), v));
    else if (to.how == PLUS_LARGE)
        put(out, plus(get(out), v));
    else if (to.how == PLUS_BY)
        put(out, plus(plain_zero(get(out)), plain_zero(bits_of(_mm512_mul_ps(to.by, floats(v))))));
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
            each_##name(in, n, scale, (struct to){.how = PLUS_BY, .out = dst, .by = _mm512_set1_ps(by)});            \
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
    const struct gw_code_kern gw_avx512_##name = {code_##name, value_##name, add_##name, remain_##name};

extern const struct gw_code_kern gw_avx512_bf16, gw_avx512_f16, gw_avx512_e4m3, gw_avx512_e5m2;
#endif
#endif
