/* kern_cast_avx2.c - f32 to smaller floats and back, 8 to 32 values at a time. */
#include "kern_lossy_avx2.h"

#if defined(__x86_64__)

/* ---- conversions ---- */

ALWAYS __m256i to_bf16(__m256i v, const uint32_t *r)
{
    __m256i m = live(magnitude(v)), inf = all(GW_F32_INF);
    __m256i tie = _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(m, 16), all(1)), all(0x7fff));
    __m256i c = _mm256_srli_epi32(_mm256_add_epi32(m, r == NULL ? tie : _mm256_srli_epi32(get(r), 16)), 16);
    c = _mm256_min_epi32(c, all(0x7f7f));
    c = _mm256_blendv_epi8(c, all(0x7f80), _mm256_cmpeq_epi32(m, inf));
    c = _mm256_or_si256(c, _mm256_srli_epi32(sign(v), 16));
    return _mm256_blendv_epi8(c, all(0x7fc0), _mm256_cmpgt_epi32(m, inf));
}

/* The same for values below 2^127: nothing saturates, and the sign comes along. */
ALWAYS __m256i near_bf16(__m256i v, const uint32_t *r)
{
    v = flushed(v);
    __m256i tie = _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(v, 16), all(1)), all(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(v, r == NULL ? tie : _mm256_srli_epi32(get(r), 16)), 16);
}

ALWAYS void put_bf16(uint8_t *out, __m256i a, __m256i b, const uint32_t *r)
{
    __m256i m = _mm256_max_epi32(magnitude(a), magnitude(b));
    if (__builtin_expect(_mm256_movemask_epi8(_mm256_cmpgt_epi32(m, all(0x7effffff))) != 0, 0))
        put(out, pack16(to_bf16(a, r), to_bf16(b, AT(r, 8))));
    else
        put(out, pack16(near_bf16(a, r), near_bf16(b, AT(r, 8))));
}

static void code_bf16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) put_bf16(out + 2 * (i), get(acc + 4 * (i)), get(acc + 4 * (i) + 32), r)
    FOR(16, BODY);
#undef BODY
}

ALWAYS void each_bf16(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 8) {
        __m256i v = flushed(_mm256_slli_epi32(words8(in + 2 * i), 16));
        __m256i nan = _mm256_cmpgt_epi32(magnitude(v), all(GW_F32_INF));
        emit(to, i, _mm256_blendv_epi8(v, all(GW_F32_NAN), nan));
    }
}

CAST(bf16)

/* As in kern_lossy_scalar.c; with constants only. */
struct small {
    int mantissa, least, largest, inf, nan, sign_bit;
};
#define F16 ((struct small){10, 113, 0x7bff, 0x7c00, 0x7e00, 15})
#define E4M3 ((struct small){3, 121, 0x7e, 0x7f, 0x7f, 7})
#define E5M2 ((struct small){2, 113, 0x7b, 0x7c, 0x7e, 7})

ALWAYS __m256i to_small(struct small t, __m256i v, const uint32_t *r)
{
    __m256i m = live(magnitude(v)), inf = all(GW_F32_INF);
    __m256i e = _mm256_max_epi32(_mm256_srli_epi32(m, 23), _mm256_set1_epi32(t.least));
    __m256i unit = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(254 + t.mantissa), e), 23);
    __m256i q = rounded(_mm256_mul_ps(floats(m), floats(unit)), r);
    __m256i c = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(t.least)), t.mantissa);
    c = _mm256_min_epi32(_mm256_add_epi32(c, q), _mm256_set1_epi32(t.largest));
    c = _mm256_blendv_epi8(c, _mm256_set1_epi32(t.inf), _mm256_cmpeq_epi32(m, inf));
    c = _mm256_or_si256(c, _mm256_srli_epi32(sign(v), 31 - t.sign_bit));
    __m256i nan = t.inf == t.nan ? _mm256_cmpgt_epi32(m, all(GW_F32_INF - 1)) : _mm256_cmpgt_epi32(m, inf);
    return _mm256_blendv_epi8(c, _mm256_set1_epi32(t.nan), nan);
}

ALWAYS __m256i from_small(struct small t, __m256i c)
{
    __m256i m = _mm256_and_si256(c, _mm256_set1_epi32((1 << t.sign_bit) - 1));
    __m256i s = sign(_mm256_slli_epi32(c, 31 - t.sign_bit));
    __m256i v = _mm256_add_epi32(_mm256_slli_epi32(m, 23 - t.mantissa), _mm256_set1_epi32((t.least - 1) << 23));
    __m256 step = floats(_mm256_set1_epi32((t.least - t.mantissa) << 23));
    __m256i below = bits_of(_mm256_mul_ps(_mm256_cvtepi32_ps(m), step));
    v = _mm256_blendv_epi8(v, below, _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << t.mantissa), m));
    v = _mm256_blendv_epi8(v, all(GW_F32_INF), _mm256_cmpeq_epi32(m, _mm256_set1_epi32(t.inf)));
    v = _mm256_or_si256(v, s);
    __m256i nan = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(t.inf == t.nan ? t.inf - 1 : t.inf));
    return _mm256_blendv_epi8(v, all(GW_F32_NAN), nan);
}

static void code_f16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) \
    put(out + 2 * (i), pack16(to_small(F16, get(acc + 4 * (i)), r), to_small(F16, get(acc + 4 * (i) + 32), AT(r, 8))))
    FOR(16, BODY);
#undef BODY
}

ALWAYS void each_f16(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 8)
        emit(to, i, from_small(F16, words8(in + 2 * i)));
}

CAST(f16)

/* Codes up to 255 as the signed bytes that pack8 wants. */
ALWAYS __m256i byte_small(struct small t, const uint8_t *acc, const uint32_t *r)
{
    __m256i c = to_small(t, get(acc), r);
    return _mm256_srai_epi32(_mm256_slli_epi32(c, 24), 24);
}

ALWAYS void put_small(struct small t, const uint8_t *acc, const uint32_t *r, uint8_t *out)
{
    put(out, pack8(byte_small(t, acc, r), byte_small(t, acc + 32, AT(r, 8)), byte_small(t, acc + 64, AT(r, 16)),
                   byte_small(t, acc + 96, AT(r, 24))));
}

static void code_e4m3(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) put_small(E4M3, acc + 4 * (i), r, out + (i))
    FOR(32, BODY);
#undef BODY
}

ALWAYS void each_e4m3(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 8)
        emit(to, i, from_small(E4M3, bytes8(in + i)));
}

CAST(e4m3)

static void code_e5m2(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)scale, (void)most;
#define BODY(i, r) put_small(E5M2, acc + 4 * (i), r, out + (i))
    FOR(32, BODY);
#undef BODY
}

ALWAYS void each_e5m2(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 8)
        emit(to, i, from_small(E5M2, bytes8(in + i)));
}

CAST(e5m2)
#endif
