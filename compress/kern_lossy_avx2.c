/* kern_lossy_avx2.c - the same bytes as kern_lossy_scalar.c, 8 to 128 values at a time; conversions stand in
 * kern_cast_avx2.c. */
#include "kern_lossy_avx2.h"

#if defined(__x86_64__)

ALWAYS uint32_t largest8(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static uint32_t largest(const uint8_t *src, size_t n)
{
    __m256i max = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8)
        max = _mm256_max_epi32(max, magnitude(get(src + 4 * i)));
    return largest8(max);
}

/* NaNs are rare: they are made alike in a second look. */
static uint32_t join(const uint8_t *src, const uint8_t *residual, size_t n, uint8_t *acc)
{
    __m256i max = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = floats(plain_zero(get(src + 4 * i))), kept = floats(plain_zero(get(residual + 4 * i)));
        __m256i s = plain_zero(bits_of(_mm256_add_ps(v, kept)));
        put(acc + 4 * i, s);
        max = _mm256_max_epi32(max, magnitude(s));
    }
    if (largest8(max) <= GW_F32_INF)
        return largest8(max);
    for (size_t i = 0; i < n; i += 8)
        put(acc + 4 * i, settled(floats(get(acc + 4 * i))));
    return largest(acc, n);
}

/* The magnitudes of eight values. */
ALWAYS __m256 sizes(const uint8_t *p)
{
    return floats(live(magnitude(get(p))));
}

static float sum(const uint8_t *acc, size_t n)
{
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (size_t i = 0; i < n; i += 32) {
        a = _mm256_add_ps(a, sizes(acc + 4 * i));
        b = _mm256_add_ps(b, sizes(acc + 4 * i + 32));
        c = _mm256_add_ps(c, sizes(acc + 4 * i + 64));
        d = _mm256_add_ps(d, sizes(acc + 4 * i + 96));
    }
    a = _mm256_add_ps(_mm256_add_ps(a, c), _mm256_add_ps(b, d));
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}

/* ---- chance ---- */

ALWAYS __m256i mixed(__m256i x, uint64_t k)
{
    x = _mm256_xor_si256(x, all((uint32_t)k));
    x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), all(0x7feb352d));
    x = _mm256_xor_si256(x, all((uint32_t)(k >> 32)));
    x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), all(0x846ca68b));
    return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

static void chance(uint64_t seed, uint64_t first, size_t n, uint32_t *out)
{
    if (first >> 32 != (first + n - 1) >> 32) { /* two keys: once in 2^32 values */
        gw_kern_lossy_scalar.chance(seed, first, n, out);
        return;
    }
    uint64_t k = gw_chance_at(seed, first >> 32);
    __m256i x = _mm256_add_epi32(all((uint32_t)first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (size_t i = 0; i < n; i += 8, x = _mm256_add_epi32(x, all(8)))
        put(out + i, mixed(x, k));
}

/* ---- integers ---- */

struct by {
    __m256 scale, most;
};

/* To nearest, both signs are alike, and no subnormal is near a half. */
ALWAYS __m256i level(const uint8_t *acc, const uint32_t *r, struct by by)
{
    __m256i v = get(acc), s = _mm256_srai_epi32(v, 31);
    if (r == NULL) {
        __m256 t = _mm256_min_ps(_mm256_div_ps(floats(v), by.scale), by.most);
        return _mm256_cvtps_epi32(_mm256_max_ps(t, _mm256_sub_ps(_mm256_setzero_ps(), by.most)));
    }
    __m256 t = _mm256_min_ps(_mm256_div_ps(floats(live(magnitude(v))), by.scale), by.most);
    return _mm256_sub_epi32(_mm256_xor_si256(rounded(t, r), s), s);
}

ALWAYS __m256i level32(const uint8_t *acc, const uint32_t *r, struct by by)
{
    return pack8(level(acc, r, by), level(acc + 32, AT(r, 8), by), level(acc + 64, AT(r, 16), by),
                 level(acc + 96, AT(r, 24), by));
}

#define BY ((struct by){_mm256_set1_ps(scale), _mm256_set1_ps(most)})

static void code_int8(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) put(out + (i), level32(acc + 4 * (i), r, by))
    FOR(32, BODY);
#undef BODY
}

static void code_int16(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r)                                                                                                   \
    put(out + 2 * (i), _mm256_permute4x64_epi64(                                                                     \
                           _mm256_packs_epi32(level(acc + 4 * (i), r, by), level(acc + 4 * (i) + 32, AT(r, 8), by)), 0xd8))
    FOR(16, BODY);
#undef BODY
}

static void code_int32(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) put(out + 4 * (i), level(acc + 4 * (i), r, by))
    FOR(8, BODY);
#undef BODY
}

ALWAYS __m256i nibbles(__m256i low, __m256i high)
{
    __m256i f = _mm256_set1_epi8(15);
    return _mm256_or_si256(_mm256_and_si256(low, f), _mm256_slli_epi16(_mm256_and_si256(high, f), 4));
}

static void code_int4(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    struct by by = BY;
#define BODY(i, r) \
    put(out + (i) / 2, nibbles(level32(acc + 4 * (i), r, by), level32(acc + 4 * (i) + 128, AT(r, 32), by)))
    FOR(64, BODY);
#undef BODY
}

ALWAYS void product(struct to to, size_t i, __m256i q, __m256 scale)
{
    emit(to, i, bits_of(_mm256_mul_ps(_mm256_cvtepi32_ps(q), scale)));
}

/* 32 signed bytes. */
ALWAYS void products(struct to to, size_t i, __m256i q, __m256 scale)
{
    __m128i a = _mm256_castsi256_si128(q), b = _mm256_extracti128_si256(q, 1);
    product(to, i, _mm256_cvtepi8_epi32(a), scale);
    product(to, i + 8, _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)), scale);
    product(to, i + 16, _mm256_cvtepi8_epi32(b), scale);
    product(to, i + 24, _mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)), scale);
}

ALWAYS void each_int8(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256 by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8)
        product(to, i, _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(in + i))), by);
}

CODE(int8)

ALWAYS void each_int16(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256 by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8)
        product(to, i, _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(in + 2 * i))), by);
}

CODE(int16)

ALWAYS void each_int32(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256 by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8)
        product(to, i, get(in + 4 * i), by);
}

CODE(int32)

ALWAYS void each_int4(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256 by = _mm256_set1_ps(scale);
    __m256i f = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    for (size_t i = 0; i < n; i += 64) {
        __m256i v = get(in + i / 2);
        __m256i low = _mm256_and_si256(v, f), high = _mm256_and_si256(_mm256_srli_epi16(v, 4), f);
        products(to, i, _mm256_sub_epi8(_mm256_xor_si256(low, eight), eight), by);
        products(to, i + 32, _mm256_sub_epi8(_mm256_xor_si256(high, eight), eight), by);
    }
}

CODE(int4)

/* ---- two bits, and one ---- */

ALWAYS __m256i two8(const uint8_t *acc, __m256 at)
{
    __m256 v = floats(get(acc)), below = _mm256_xor_ps(at, floats(all(0x80000000)));
    __m256i plus = _mm256_and_si256(bits_of(_mm256_cmp_ps(v, at, _CMP_GE_OQ)), all(1));
    __m256i minus = _mm256_and_si256(bits_of(_mm256_cmp_ps(v, below, _CMP_LE_OQ)), all(2));
    return _mm256_or_si256(plus, minus);
}

ALWAYS __m256i two32(const uint8_t *acc, __m256 at)
{
    return pack8(two8(acc, at), two8(acc + 32, at), two8(acc + 64, at), two8(acc + 96, at));
}

static void code_two(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)most;
    __m256 at = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 128) {
        __m256i a = two32(acc + 4 * i, at), b = _mm256_slli_epi16(two32(acc + 4 * i + 128, at), 2);
        __m256i c = _mm256_slli_epi16(two32(acc + 4 * i + 256, at), 4), d = _mm256_slli_epi16(two32(acc + 4 * i + 384, at), 6);
        put(out + i / 4, _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
    }
}

ALWAYS void each_two(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256 by = _mm256_set1_ps(scale);
    __m256i q = _mm256_set1_epi32(0x00ff0100), three = _mm256_set1_epi8(3);
    for (size_t i = 0; i < n; i += 128) {
        __m256i v = get(in + i / 4);
        for (int s = 0; s < 4; s++, v = _mm256_srli_epi16(v, 2))
            products(to, i + 32 * (size_t)s, _mm256_shuffle_epi8(q, _mm256_and_si256(v, three)), by);
    }
}

CODE(two)

static void code_sign(const uint8_t *acc, const uint32_t *r, size_t n, float scale, float most, uint8_t *out)
{
    (void)r, (void)scale, (void)most;
    for (size_t i = 0; i < n; i += 8)
        out[i / 8] = (uint8_t)_mm256_movemask_ps(floats(get(acc + 4 * i)));
}

ALWAYS void each_sign(const uint8_t *in, size_t n, float scale, struct to to)
{
    __m256i up = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24), by = all(gw_f32_bits(scale));
    for (size_t i = 0; i < n; i += 8)
        emit(to, i, _mm256_or_si256(by, sign(_mm256_sllv_epi32(_mm256_set1_epi32(in[i / 8]), up))));
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
    for (size_t i = 0; i < n; i += 8)
        emit(to, i, flushed(get(in + 4 * i)));
}

CODE(f32)

const struct gw_kern_lossy gw_kern_lossy_avx2 = {
    .largest = largest,
    .join = join,
    .chance = chance,
    .sum = sum,
    .codes = {[GW_CODE_BF16] = &gw_avx2_bf16,
              [GW_CODE_F16] = &gw_avx2_f16,
              [GW_CODE_E4M3] = &gw_avx2_e4m3,
              [GW_CODE_E5M2] = &gw_avx2_e5m2,
              [GW_CODE_INT8] = &int8_kern,
              [GW_CODE_INT4] = &int4_kern,
              [GW_CODE_INT16] = &int16_kern,
              [GW_CODE_INT32] = &int32_kern,
              [GW_CODE_TWO] = &two_kern,
              [GW_CODE_SIGN] = &sign_kern,
              [GW_CODE_F32] = &f32_kern},
};
#endif
