/* kern_lossy_avx512.c - the same bytes as kern_lossy_scalar.c, 16 to 128 values at a time; conversions stand in
 * kern_cast_avx512.c. */
#include "kern_lossy_avx512.h"

#if defined(__x86_64__)

static uint32_t largest(const uint8_t *src, size_t n)
{
    __m512i max = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 16)
        max = _mm512_max_epi32(max, magnitude(get(src + 4 * i)));
    return (uint32_t)_mm512_reduce_max_epi32(max);
}

/* NaNs are rare: they are made alike in a second look. */
static uint32_t join(const uint8_t *src, const uint8_t *residual, size_t n, uint8_t *acc)
{
    __m512i max = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 16) {
        __m512 v = floats(plain_zero(get(src + 4 * i))), kept = floats(plain_zero(get(residual + 4 * i)));
        __m512i s = plain_zero(bits_of(_mm512_add_ps(v, kept)));
        put(acc + 4 * i, s);
        max = _mm512_max_epi32(max, magnitude(s));
    }
    uint32_t most = (uint32_t)_mm512_reduce_max_epi32(max);
    if (most <= GW_F32_INF)
        return most;
    for (size_t i = 0; i < n; i += 16)
        put(acc + 4 * i, settled(floats(get(acc + 4 * i))));
    return largest(acc, n);
}

/* The magnitudes of sixteen values. */
ALWAYS __m512 sizes(const uint8_t *p)
{
    return floats(live(magnitude(get(p))));
}

static float sum(const uint8_t *acc, size_t n)
{
    __m512 a = _mm512_setzero_ps(), b = a;
    for (size_t i = 0; i < n; i += 32) {
        a = _mm512_add_ps(a, sizes(acc + 4 * i));
        b = _mm512_add_ps(b, sizes(acc + 4 * i + 64));
    }
    __m512i both = bits_of(_mm512_add_ps(a, b));
    __m256 q = _mm256_add_ps(_mm256_castsi256_ps(_mm512_castsi512_si256(both)),
                             _mm256_castsi256_ps(_mm512_extracti64x4_epi64(both, 1)));
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(q), _mm256_extractf128_ps(q, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}

/* ---- chance ---- */

ALWAYS __m512i mixed(__m512i x, uint64_t k)
{
    x = _mm512_xor_si512(x, all((uint32_t)k));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), all(0x7feb352d));
    x = _mm512_xor_si512(x, all((uint32_t)(k >> 32)));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)), all(0x846ca68b));
    return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
}

static void chance(uint64_t seed, uint64_t first, size_t n, uint32_t *out)
{
    if (first >> 32 != (first + n - 1) >> 32) { /* two keys: once in 2^32 values */
        gw_kern_lossy_scalar.chance(seed, first, n, out);
        return;
    }
    uint64_t k = gw_chance_at(seed, first >> 32);
    __m512i x = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    x = _mm512_add_epi32(x, all((uint32_t)first));
    for (size_t i = 0; i < n; i += 16, x = _mm512_add_epi32(x, all(16)))
        put(out + i, mixed(x, k));
}

/* ---- integers ---- */

struct by {
    __m512 scale, most;
};

/* To nearest, both signs are alike, and no subnormal is near a half. */
ALWAYS __m512i level(const uint8_t *acc, const uint32_t *r, struct by by)
{
    __m512i v = get(acc);
    if (r == NULL) {
        __m512 t = _mm512_min_ps(_mm512_div_ps(floats(v), by.scale), by.most);
        return _mm512_cvtps_epi32(_mm512_max_ps(t, _mm512_sub_ps(_mm512_setzero_ps(), by.most)));
    }
    __m512 t = _mm512_min_ps(_mm512_div_ps(floats(live(magnitude(v))), by.scale), by.most);
    __m512i q = rounded(t, r);
    return _mm512_mask_sub_epi32(q, _mm512_movepi32_mask(v), _mm512_setzero_si512(), q);
}

#define BY ((struct by){_mm512_set1_ps(scale), _mm512_set1_ps(most)})

static void code_int8(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) _mm_storeu_si128((void *)(out + (i)), _mm512_cvtsepi32_epi8(level(acc + 4 * (i), r, by)))
    FOR(16, BODY);
#undef BODY
}

static void code_int16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) _mm256_storeu_si256((void *)(out + 2 * (i)), _mm512_cvtsepi32_epi16(level(acc + 4 * (i), r, by)))
    FOR(16, BODY);
#undef BODY
}

static void code_int32(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) put(out + 4 * (i), level(acc + 4 * (i), r, by))
    FOR(16, BODY);
#undef BODY
}

/* Sixteen levels beside the sixteen that lie 32 values on. */
ALWAYS __m128i level_pair(const uint8_t *acc, const uint32_t *r, struct by by)
{
    __m512i high = _mm512_slli_epi32(level(acc + 128, AT(r, 32), by), 4);
    return _mm512_cvtepi32_epi8(_mm512_or_si512(high, _mm512_and_si512(level(acc, r, by), all(15))));
}

static void code_int4(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r)                                                                                     \
    do {                                                                                               \
        _mm_storeu_si128((void *)(out + (i) / 2), level_pair(acc + 4 * (i), r, by));                   \
        _mm_storeu_si128((void *)(out + (i) / 2 + 16), level_pair(acc + 4 * (i) + 64, AT(r, 16), by)); \
    } while (0)
    FOR(64, BODY);
#undef BODY
}

ALWAYS void product(struct to to, size_t i, __m512i q, __m512 scale)
{
    emit(to, i, bits_of(_mm512_mul_ps(_mm512_cvtepi32_ps(q), scale)));
}

ALWAYS void each_int8(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512 by = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 16)
        product(to, i, _mm512_cvtepi8_epi32(get16(in + i)), by);
}

CODE(int8)

ALWAYS void each_int16(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512 by = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 16)
        product(to, i, _mm512_cvtepi16_epi32(get32(in + 2 * i)), by);
}

CODE(int16)

ALWAYS void each_int32(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512 by = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 16)
        product(to, i, get(in + 4 * i), by);
}

CODE(int32)

ALWAYS void each_int4(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512 by = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 64)
        for (size_t k = 0; k < 32; k += 16) {
            __m512i v = _mm512_cvtepi8_epi32(get16(in + i / 2 + k));
            product(to, i + k, _mm512_srai_epi32(_mm512_slli_epi32(v, 28), 28), by);
            product(to, i + k + 32, _mm512_srai_epi32(v, 4), by);
        }
}

CODE(int4)

/* ---- two bits, and one ---- */

/* Sixteen codes from bit `shift` on. */
ALWAYS __m512i two16(const uint8_t *acc, __m512 at, int shift)
{
    __m512 v = floats(get(acc)), below = floats(_mm512_xor_si512(bits_of(at), all(0x80000000)));
    __m512i plus = _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(v, at, _CMP_GE_OQ), all(1u << shift));
    return _mm512_mask_or_epi32(plus, _mm512_cmp_ps_mask(v, below, _CMP_LE_OQ), plus, all(2u << shift));
}

static void code_two(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)most;
    __m512 at = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 128)
        for (size_t k = 0; k < 32; k += 16) {
            const uint8_t *p = acc + 4 * (i + k);
            __m512i a = _mm512_or_si512(two16(p, at, 0), two16(p + 128, at, 2));
            __m512i b = _mm512_or_si512(two16(p + 256, at, 4), two16(p + 384, at, 6));
            _mm_storeu_si128((void *)(out + i / 4 + k), _mm512_cvtepi32_epi8(_mm512_or_si512(a, b)));
        }
}

/* What each code means, four times over: a permute looks at four bits, of which the upper two are the next code. */
ALWAYS void each_two(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512 q = _mm512_cvtepi32_ps(_mm512_setr_epi32(0, 1, -1, 0, 0, 1, -1, 0, 0, 1, -1, 0, 0, 1, -1, 0));
    __m512i means = bits_of(_mm512_mul_ps(q, _mm512_set1_ps(scale)));
    for (size_t i = 0; i < n; i += 128)
        for (size_t k = 0; k < 32; k += 16) {
            __m512i v = _mm512_cvtepu8_epi32(get16(in + i / 4 + k));
            emit(to, i + k, _mm512_permutexvar_epi32(v, means));
            emit(to, i + k + 32, _mm512_permutexvar_epi32(_mm512_srli_epi32(v, 2), means));
            emit(to, i + k + 64, _mm512_permutexvar_epi32(_mm512_srli_epi32(v, 4), means));
            emit(to, i + k + 96, _mm512_permutexvar_epi32(_mm512_srli_epi32(v, 6), means));
        }
}

CODE(two)

static void code_sign(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)scale, (void)most;
    for (size_t i = 0; i < n; i += 16) {
        uint16_t signs = (uint16_t)_mm512_movepi32_mask(get(acc + 4 * i));
        memcpy(out + i / 8, &signs, sizeof(signs));
    }
}

ALWAYS void each_sign(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m512i by = all(gw_f32_bits(scale)), less = _mm512_or_si512(by, all(0x80000000));
    for (size_t i = 0; i < n; i += 16) {
        uint16_t signs;
        memcpy(&signs, in + i / 8, sizeof(signs));
        emit(to, i, _mm512_mask_mov_epi32(by, signs, less));
    }
}

CODE(sign)

/* ---- no code ---- */

static void code_f32(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)scale, (void)most;
    memcpy(out, acc, 4 * n);
}

ALWAYS void each_f32(const uint8_t *in, size_t n, float scale, struct to to)
{
    (void)scale;
    for (size_t i = 0; i < n; i += 16)
        emit(to, i, flushed(get(in + 4 * i)));
}

CODE(f32)

const struct gw_kern_lossy gw_kern_lossy_avx512 = {
    .largest = largest,
    .join = join,
    .chance = chance,
    .sum = sum,
    .codes = {[GW_CODE_BF16] = &gw_avx512_bf16,
              [GW_CODE_F16] = &gw_avx512_f16,
              [GW_CODE_E4M3] = &gw_avx512_e4m3,
              [GW_CODE_E5M2] = &gw_avx512_e5m2,
              [GW_CODE_INT8] = &int8_kern,
              [GW_CODE_INT4] = &int4_kern,
              [GW_CODE_INT16] = &int16_kern,
              [GW_CODE_INT32] = &int32_kern,
              [GW_CODE_TWO] = &two_kern,
              [GW_CODE_SIGN] = &sign_kern,
              [GW_CODE_F32] = &f32_kern},
};
#endif
