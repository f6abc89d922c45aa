/* kern_cast_avx512.c - f32 to smaller floats and back, 16 or 32 values at a time. */
#include "kern_lossy_avx512.h"

#if defined(__x86_64__)

/* ---- bf16: codes in the upper halves ---- */

ALWAYS __m512i nudge(__m512i v, const uint32_t *r)
{
    if (r != NULL)
        return _mm512_srli_epi32(get(r), 16);
    return _mm512_add_epi32(_mm512_and_si512(_mm512_srli_epi32(v, 16), all(1)), all(0x7fff));
}

ALWAYS __m512i to_bf16(__m512i v, const uint32_t *r)
{
    __m512i m = live(magnitude(v)), inf = all(GW_F32_INF);
    __m512i c = _mm512_min_epi32(_mm512_srli_epi32(_mm512_add_epi32(m, nudge(m, r)), 16), all(0x7f7f));
    c = choose(_mm512_cmpeq_epi32_mask(m, inf), 0x7f80, c);
    c = _mm512_or_si512(_mm512_slli_epi32(c, 16), sign(v));
    return choose(_mm512_cmpgt_epi32_mask(m, inf), 0x7fc00000, c);
}

/* The same for values below 2^127: nothing saturates, and the sign comes along. */
ALWAYS __m512i near_bf16(__m512i v, const uint32_t *r)
{
    v = flushed(v);
    return _mm512_add_epi32(v, nudge(v, r));
}

ALWAYS __m512i upper_halves(__m512i a, __m512i b)
{
    const __m512i odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19,
                                         17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(a, odd, b);
}

ALWAYS void put_bf16(uint8_t *out, __m512i a, __m512i b, const uint32_t *r)
{
    __m512i m = _mm512_max_epi32(magnitude(a), magnitude(b));
    if (__builtin_expect(_mm512_cmpgt_epi32_mask(m, all(0x7effffff)) != 0, 0))
        put(out, upper_halves(to_bf16(a, r), to_bf16(b, AT(r, 16))));
    else
        put(out, upper_halves(near_bf16(a, r), near_bf16(b, AT(r, 16))));
}

static void code_bf16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) put_bf16(out + 2 * (i), get(acc + 4 * (i)), get(acc + 4 * (i) + 64), r)
    FOR(32, BODY);
#undef BODY
}

ALWAYS void each_bf16(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 16) {
        __m512i v = flushed(_mm512_slli_epi32(_mm512_cvtepu16_epi32(get32(in + 2 * i)), 16));
        emit(to, i, choose(_mm512_cmpgt_epi32_mask(magnitude(v), all(GW_F32_INF)), GW_F32_NAN, v));
    }
}

CAST(bf16)

/* ---- smaller exponents ---- */

/* As in kern_lossy_scalar.c; with constants only. */
struct small {
    int mantissa, least, largest, inf, nan, sign_bit;
};
#define F16 ((struct small){10, 113, 0x7bff, 0x7c00, 0x7e00, 15})
#define E4M3 ((struct small){3, 121, 0x7e, 0x7f, 0x7f, 7})
#define E5M2 ((struct small){2, 113, 0x7b, 0x7c, 0x7e, 7})

ALWAYS __m512i number(int v)
{
    return _mm512_set1_epi32(v);
}

ALWAYS __m512i to_small(struct small t, __m512i v, const uint32_t *r)
{
    __m512i m = live(magnitude(v)), inf = all(GW_F32_INF);
    __m512i e = _mm512_max_epi32(_mm512_srli_epi32(m, 23), number(t.least));
    __m512i unit = _mm512_slli_epi32(_mm512_sub_epi32(number(254 + t.mantissa), e), 23);
    __m512i q = rounded(_mm512_mul_ps(floats(m), floats(unit)), r);
    __m512i c = _mm512_slli_epi32(_mm512_sub_epi32(e, number(t.least)), (unsigned)t.mantissa);
    c = _mm512_min_epi32(_mm512_add_epi32(c, q), number(t.largest));
    c = choose(_mm512_cmpeq_epi32_mask(m, inf), (uint32_t)t.inf, c);
    c = _mm512_or_si512(c, _mm512_srli_epi32(sign(v), (unsigned)(31 - t.sign_bit)));
    return choose(_mm512_cmpgt_epi32_mask(m, t.inf == t.nan ? all(GW_F32_INF - 1) : inf), (uint32_t)t.nan, c);
}

ALWAYS __m512i from_small(struct small t, __m512i c)
{
    __m512i m = _mm512_and_si512(c, number((1 << t.sign_bit) - 1));
    __m512i s = sign(_mm512_slli_epi32(c, (unsigned)(31 - t.sign_bit)));
    __m512i v = _mm512_add_epi32(_mm512_slli_epi32(m, (unsigned)(23 - t.mantissa)), number((t.least - 1) << 23));
    __m512 step = floats(number((t.least - t.mantissa) << 23));
    __m512i below = bits_of(_mm512_mul_ps(_mm512_cvtepi32_ps(m), step));
    v = _mm512_mask_mov_epi32(v, _mm512_cmpgt_epi32_mask(number(1 << t.mantissa), m), below);
    v = choose(_mm512_cmpeq_epi32_mask(m, number(t.inf)), GW_F32_INF, v);
    return choose(_mm512_cmpgt_epi32_mask(m, number(t.inf == t.nan ? t.inf - 1 : t.inf)), GW_F32_NAN, _mm512_or_si512(v, s));
}

static void code_f16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) \
    _mm256_storeu_si256((void *)(out + 2 * (i)), _mm512_cvtepi32_epi16(to_small(F16, get(acc + 4 * (i)), r)))
    FOR(16, BODY);
#undef BODY
}

ALWAYS void each_f16(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 16)
        emit(to, i, from_small(F16, _mm512_cvtepu16_epi32(get32(in + 2 * i))));
}

CAST(f16)

#define BYTES(name, type)                                                                                                  \
    static void code_##name(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)        \
    {                                                                                                                      \
        (void)scale, (void)most;                                                                                           \
        FOR(16, BODY_##name);                                                                                              \
    }                                                                                                                      \
    ALWAYS void each_##name(const uint8_t *in, size_t n, float scale, struct to to)                                        \
    {                                                                                                                      \
        (void)scale;                                                                                                       \
        for (size_t i = 0; i < n; i += 16)                                                                                 \
            emit(to, i, from_small(type, _mm512_cvtepu8_epi32(get16(in + i))));                                            \
    }                                                                                                                      \
    CAST(name)
#define BODY_OF(type, i, r) _mm_storeu_si128((void *)(out + (i)), _mm512_cvtepi32_epi8(to_small(type, get(acc + 4 * (i)), r)))
#define BODY_e4m3(i, r) BODY_OF(E4M3, i, r)
#define BODY_e5m2(i, r) BODY_OF(E5M2, i, r)
BYTES(e4m3, E4M3)
BYTES(e5m2, E5M2)
#endif
