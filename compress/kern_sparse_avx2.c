/* kern_sparse_avx2.c - the same results as kern_sparse_scalar.c, 8 entries at a time.
 *
 * Reading a string of bits: pdep and pext turn 8 of its bits into the list of those that are set, which is stored whole; the
 * next store overwrites what was too much.  The low parts of 8 Elias-Fano entries fill whole bytes, so one shuffle and one
 * shift per lane bring each to its place, whatever its width. */
#include "kern_sparse.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "sparse_bits.h"
#include "sparse_float.h"

static inline __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline void put(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

static inline __m256i all(uint32_t v)
{
    return _mm256_set1_epi32((int)v);
}

static inline __m256i above(__m256i a, __m256i b) /* of numbers below 2^31 */
{
    return _mm256_cmpgt_epi32(a, b);
}

/* ---- indices ---- */

static int ascends(const uint32_t *index, size_t n)
{
    __m256i bad = _mm256_setzero_si256();
    size_t i = 1;
    for (; i + 8 <= n; i += 8) {
        __m256i a = get(index + i - 1), b = get(index + i);
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a));
    }
    unsigned rest = 0;
    for (; i < n; i++)
        rest |= index[i - 1] >= index[i];
    return !rest && _mm256_testz_si256(bad, bad);
}

static int within(const uint32_t *index, size_t n, uint32_t last)
{
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        most = _mm256_max_epu32(most, get(index + i));
    __m256i good = _mm256_cmpeq_epi32(_mm256_max_epu32(most, all(last)), all(last));
    unsigned bad = 0;
    for (; i < n; i++)
        bad |= index[i] > last;
    return !bad && _mm256_movemask_epi8(good) == -1;
}

static size_t span(const uint32_t *index, size_t n, uint32_t last)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i v = get(index + i), good = _mm256_cmpeq_epi32(_mm256_min_epu32(v, all(last)), v);
        unsigned m = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(good));
        if (m != 0xff)
            return i + _tzcnt_u32(~m);
    }
    while (i < n && index[i] <= last)
        i++;
    return i;
}

static void map_write(const uint32_t *index, size_t n, uint32_t base, uint8_t *out, size_t bits)
{
    struct gw_bit_writer w = {.p = out};
    gw_bits_marks(&w, index, n, base, 0, 0, bits);
}

/* Where the ones of 8 bits stand: as many bytes as there are ones, then zeros. */
static inline __m256i places(unsigned bits)
{
    uint64_t mask = _pdep_u64(bits, 0x0101010101010101u) * 0xff;
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)_pext_u64(0x0706050403020100u, mask)));
}

/* The ones of a word whose first bit is bit k of the string, `at` of them before it: base + (place - rank * own number << low).
 * Answers how many, and stores up to 8 more. */
static inline __attribute__((always_inline)) size_t ones(uint64_t w, size_t k, size_t at, uint32_t base, unsigned low,
                                                         int rank, uint32_t *index)
{
    __m256i own = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m128i shift = _mm_cvtsi32_si128((int)low);
    size_t first = at;
    for (; w != 0; w >>= 8, k += 8) {
        unsigned bits = w & 0xff;
        __m256i v = _mm256_add_epi32(places(bits), all((uint32_t)(rank ? k - at : k)));
        if (rank)
            v = _mm256_sll_epi32(_mm256_sub_epi32(v, own), shift);
        put(index + at, _mm256_add_epi32(v, all(base)));
        at += (unsigned)__builtin_popcount(bits);
    }
    return at - first;
}

static inline size_t ones_exact(uint64_t w, size_t k, size_t at, uint32_t base, unsigned low, int rank, uint32_t *index)
{
    size_t first = at;
    for (; w != 0; w &= w - 1, at++) {
        size_t place = k + (size_t)__builtin_ctzll(w);
        index[at] = base + ((uint32_t)(rank ? place - at : place) << low);
    }
    return at - first;
}

/* The string of `bits` bits from bit `start` on: exactly n ones. */
static inline __attribute__((always_inline)) int string_read(const uint8_t *in, size_t readable, size_t start, size_t bits,
                                                             uint32_t base, unsigned low, int rank, uint32_t *index,
                                                             size_t n, size_t room)
{
    size_t at = 0;
    for (size_t k = 0; k < bits; k += 64) {
        uint64_t w = gw_held(gw_bits_at(in, readable, start + k) & gw_low_mask(bits - k));
        size_t many = (size_t)__builtin_popcountll(w);
        if (many > n - at)
            return 0;
        at += many + 8 <= room - at ? ones(w, k, at, base, low, rank, index) : ones_exact(w, k, at, base, low, rank, index);
    }
    return at == n;
}

static int map_read(const uint8_t *in, size_t bits, uint32_t base, uint32_t *index, size_t n, size_t room)
{
    return string_read(in, gw_bit_bytes(bits), 0, bits, base, 0, 0, index, n, room) && gw_bits_end_clean(in, bits);
}

/* ---- Elias-Fano ---- */

/* 8 low parts of at most 16 bits at the front of 16 bytes, of which `low` count. */
static inline __m128i low_pack(__m256i v, unsigned low)
{
    __m256i pair = _mm256_or_si256(v, _mm256_srl_epi64(v, _mm_cvtsi32_si128(32 - (int)low)));
    pair = _mm256_and_si256(pair, _mm256_set1_epi64x((long long)gw_low_mask(2 * low)));
    __m128i a = _mm256_castsi256_si128(pair), b = _mm256_extracti128_si256(pair, 1), two = _mm_cvtsi32_si128(2 * (int)low);
    __m128i even = _mm_unpacklo_epi64(a, b), odd = _mm_unpackhi_epi64(a, b), four = _mm_or_si128(even, _mm_sll_epi64(odd, two));
    __m128i upper = _mm_unpackhi_epi64(four, _mm_setzero_si128());
    __m128i in_first = _mm_sll_epi64(upper, _mm_cvtsi32_si128(4 * (int)low)), /* a shift by 64 gives 0 */
        in_second = _mm_srl_epi64(upper, _mm_cvtsi32_si128(64 - 4 * (int)low));
    return _mm_unpacklo_epi64(_mm_or_si128(_mm_move_epi64(four), in_first), in_second);
}

/* Answers how many entries were written; what stands behind them in the block is rubbish. */
static size_t lows_write(const uint32_t *index, size_t n, unsigned low, uint8_t *out, size_t bytes)
{
    __m256i mask = all((uint32_t)gw_low_mask(low));
    size_t i = 0;
    for (size_t at = 0; i + 8 <= n && bytes - at >= 16; i += 8, at += low)
        _mm_storeu_si128((__m128i *)(void *)(out + at), low_pack(_mm256_and_si256(get(index + i), mask), low));
    return i;
}

/* base has no bits below a block's size, so the low bits are those of the index. */
static void ef_write(const uint32_t *index, size_t n, uint32_t base, unsigned low, uint8_t *out, size_t bits)
{
    uint32_t mask = (uint32_t)gw_low_mask(low);
    size_t i = low != 0 && low <= 16 ? lows_write(index, n, low, out, gw_bit_bytes(bits)) : 0;
    struct gw_bit_writer w = {.p = out + i / 8 * low};
    for (; i < n; i++)
        gw_bits_put(&w, index[i] & mask, low);
    gw_bits_marks(&w, index, n, base, low, 1, bits - n * low);
}

/* Adds the low parts.  4 entries take at most 80 bits, so those of each half lie in 16 bytes. */
static void lows_read(const uint8_t *in, size_t bytes, size_t readable, unsigned low, uint32_t *index, size_t n, size_t room)
{
    uint32_t half = 4 * low, skip = half / 8, mask = (uint32_t)gw_low_mask(low);
    __m256i own = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3), shift = _mm256_mullo_epi32(own, all(low));
    shift = _mm256_add_epi32(shift, _mm256_setr_epi32(0, 0, 0, 0, half & 7, half & 7, half & 7, half & 7));
    __m256i from = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(shift, 3), all(0x01010101)), all(0x03020100));
    shift = _mm256_and_si256(shift, all(7));
    size_t i = 0;
    for (size_t at = 0; i < n && room - i >= 8 && readable - at >= skip + 16; i += 8, at += low) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(in + at)),
                b = _mm_loadu_si128((const __m128i *)(const void *)(in + at + skip));
        __m256i v = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1), from);
        v = _mm256_and_si256(_mm256_srlv_epi32(v, shift), all(mask));
        put(index + i, _mm256_add_epi32(get(index + i), v));
    }
    for (; i < n; i++)
        index[i] += (uint32_t)gw_bits_at(in, bytes, i * low) & mask;
}

static int ef_read(const uint8_t *in, size_t readable, size_t bits, unsigned low, uint32_t base, uint32_t *index, size_t n,
                   size_t room)
{
    size_t start = n * low;
    if (!string_read(in, readable, start, bits - start, base, low, 1, index, n, room) || !gw_bits_end_clean(in, bits))
        return 0;
    if (low != 0)
        lows_read(in, gw_bit_bytes(bits), readable, low, index, n, room);
    return 1;
}

/* ---- values ---- */

static __m256i bf16_of(__m256i b)
{
    __m256i a = _mm256_and_si256(b, all(GW_F32_ABS)), sign = _mm256_srli_epi32(_mm256_andnot_si256(all(GW_F32_ABS), b), 16);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(a, 16), all(1));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(a, all(0x7fff)), odd), 16);
    r = _mm256_min_epu32(r, all(0x7f7f));
    r = _mm256_blendv_epi8(r, all(GW_F32_INF >> 16), _mm256_cmpeq_epi32(a, all(GW_F32_INF)));
    r = _mm256_or_si256(_mm256_andnot_si256(above(all(GW_F32_LEAST), a), r), sign);
    return _mm256_blendv_epi8(r, all(GW_F32_NAN >> 16), above(a, all(GW_F32_INF)));
}

static __m256i f32_of(__m256i b)
{
    __m256i a = _mm256_and_si256(b, all(GW_F32_ABS)), zero = above(all(GW_F32_LEAST), a);
    b = _mm256_andnot_si256(_mm256_and_si256(zero, all(GW_F32_ABS)), b);
    return _mm256_blendv_epi8(b, all(GW_F32_NAN), above(a, all(GW_F32_INF)));
}

static void bf16_write(const float *value, size_t n, uint8_t *out)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i two = _mm256_packus_epi32(bf16_of(get(value + i)), bf16_of(get(value + i + 8)));
        put(out + 2 * i, _mm256_permute4x64_epi64(two, 0xd8));
    }
    for (; i < n; i++)
        gw_put16(out + 2 * i, gw_bf16(gw_f32_bits(value[i])));
}

static void bf16_read(const uint8_t *in, size_t n, float *value)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i)));
        put(value + i, f32_of(_mm256_slli_epi32(v, 16)));
    }
    for (; i < n; i++)
        value[i] = gw_f32_of(gw_of_bf16(gw_get16(in + 2 * i)));
}

static uint32_t top(const float *value, size_t n)
{
    __m256i most = _mm256_setzero_si256();
    uint32_t lane[8], best = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        most = _mm256_max_epu32(most, _mm256_and_si256(get(value + i), all(GW_F32_ABS)));
    put(lane, most);
    for (unsigned k = 0; k < 8; k++)
        best = lane[k] > best ? lane[k] : best;
    for (; i < n; i++) {
        uint32_t b = gw_f32_bits(value[i]) & GW_F32_ABS;
        best = b > best ? b : best;
    }
    return best;
}

static __m256i rounded(const float *value, __m256 scale)
{
    __m256 half = _mm256_set1_ps(12582912.0f), v = _mm256_add_ps(_mm256_div_ps(_mm256_loadu_ps(value), scale), half);
    return _mm256_sub_epi32(_mm256_castps_si256(v), all(0x4b400000));
}

static void int8_write(const float *value, size_t n, float scale, uint8_t *out)
{
    __m256 s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = _mm256_packs_epi32(rounded(value + i, s), rounded(value + i + 8, s)),
                b = _mm256_packs_epi32(rounded(value + i + 16, s), rounded(value + i + 24, s));
        __m256i v = _mm256_max_epi8(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-127));
        put(out + i, _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    }
    for (; i < n; i++) {
        int32_t q = gw_float_round(value[i] / scale);
        out[i] = (uint8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

static int int8_read(const uint8_t *in, size_t n, float scale, float *value)
{
    __m256i bad = _mm256_setzero_si256();
    __m256 s = _mm256_set1_ps(scale);
    unsigned rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(in + i)));
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(q, all((uint32_t)-128)));
        _mm256_storeu_ps(value + i, _mm256_mul_ps(_mm256_cvtepi32_ps(q), s));
    }
    for (; i < n; i++) {
        int8_t q = (int8_t)in[i];
        rest |= q == -128;
        value[i] = (float)q * scale;
    }
    return !rest && _mm256_testz_si256(bad, bad);
}

static __m256 large(const float *value)
{
    __m256i b = get(value), tiny = above(all(GW_F32_TINY), _mm256_and_si256(b, all(GW_F32_ABS)));
    return _mm256_castsi256_ps(_mm256_andnot_si256(tiny, b));
}

static float sum(const float *value, size_t n)
{
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    float part[32];
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (unsigned k = 0; k < 4; k++)
            acc[k] = _mm256_add_ps(acc[k], large(value + i + 8 * k));
    for (unsigned k = 0; k < 4; k++)
        _mm256_storeu_ps(part + 8 * k, acc[k]);
    for (; i < n; i++) {
        uint32_t b = gw_f32_bits(value[i]);
        part[i % 32] += gw_f32_of((b & GW_F32_ABS) < GW_F32_TINY ? 0 : b);
    }
    for (unsigned half = 16; half > 0; half /= 2)
        for (unsigned k = 0; k < half; k++)
            part[k] += part[k + half];
    return part[0];
}

const struct gw_kern_sparse gw_kern_sparse_avx2 = {
    .ascends = ascends,
    .within = within,
    .span = span,
    .map_write = map_write,
    .map_read = map_read,
    .ef_write = ef_write,
    .ef_read = ef_read,
    .bf16_write = bf16_write,
    .bf16_read = bf16_read,
    .top = top,
    .int8_write = int8_write,
    .int8_read = int8_read,
    .sum = sum,
};
#endif
