/* kern_avx2.c - the same bytes as kern_scalar.c, 32 values at a time.  Read encode_group, then
 * decode_group.
 *
 * Both are written once for all views and copied out per view by the compiler, to whom the view is
 * a constant.  AVX2 packs and unpacks within halves of 128 bits; one permute of the quarters before
 * or after puts values back in memory order. */
#include "kern.h"
#include "rans.h"
#include "zero.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ALWAYS static inline __attribute__((always_inline))

/* clang does it without being asked. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { N = GW_GROUP_VALUES, ROW = 32, ROWS = N / ROW };

static int usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

static uint64_t hash(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

ALWAYS __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

ALWAYS void put(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

ALWAYS __m256i in_order(__m256i v)
{
    return _mm256_permute4x64_epi64(v, 0xd8);
}

ALWAYS __m256i byte(int v)
{
    return _mm256_set1_epi8((char)v);
}

/* Two vectors of u16 below 256 to one of bytes, and two of u32 below 65536 to one of u16. */
ALWAYS __m256i pack16(__m256i a, __m256i b)
{
    return in_order(_mm256_packus_epi16(a, b));
}

ALWAYS __m256i pack32(__m256i a, __m256i b)
{
    return in_order(_mm256_packus_epi32(a, b));
}

/* ---- is anything there? ---- */

/* Looks at 128 bytes a time and stops at the first that holds something; `mask` says which bits
 * count. */
ALWAYS int masked_zero(const uint8_t *p, size_t n, uint32_t mask)
{
    __m256i m = _mm256_set1_epi32((int)mask);
    size_t i = 0;
    for (; n - i >= 128; i += 128) {
        __m256i any = _mm256_or_si256(_mm256_or_si256(get(p + i), get(p + i + 32)),
                                      _mm256_or_si256(get(p + i + 64), get(p + i + 96)));
        if (!_mm256_testz_si256(any, m))
            return 0;
    }
    for (; i < n; i++)
        if (p[i] & mask >> i % 4 * 8 & 0xff)
            return 0;
    return 1;
}

static int zero(const void *p, size_t n)
{
    return masked_zero(p, n, 0xffffffff);
}

/* A tail of less than a value does not count. */
static int low_zero(const void *p, size_t n)
{
    return masked_zero(p, n & ~(size_t)3, 0x0000ffff);
}

/* ---- encode ---- */

/* 32 values as two planes of bytes: the upper and the lower of their upper (or only) 16 bits. */
struct planes {
    __m256i high, low;
};

ALWAYS struct planes planes_of(__m256i a, __m256i b)
{
    __m256i ff = _mm256_set1_epi16(0xff);
    struct planes p = {.high = pack16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)),
                       .low = pack16(_mm256_and_si256(a, ff), _mm256_and_si256(b, ff))};
    return p;
}

ALWAYS __m256i high_halves(const uint8_t *src)
{
    return pack32(_mm256_srli_epi32(get(src), 16), _mm256_srli_epi32(get(src + 32), 16));
}

ALWAYS __m256i low_halves(const uint8_t *src)
{
    __m256i nought = _mm256_setzero_si256();
    return pack32(_mm256_blend_epi16(get(src), nought, 0xaa),
                  _mm256_blend_epi16(get(src + 32), nought, 0xaa));
}

/* Loads 32 values, adds their bits to *any, and keeps the low halves of f32 in the body. */
ALWAYS struct planes load(enum gw_view view, const uint8_t *src, uint8_t *halves, __m256i *any)
{
    if (view == GW_VIEW_BF16 || view == GW_VIEW_F16) {
        __m256i a = get(src), b = get(src + 32);
        *any = _mm256_or_si256(*any, _mm256_or_si256(a, b));
        return planes_of(a, b);
    }
    __m256i a = high_halves(src), b = high_halves(src + 64);
    *any = _mm256_or_si256(*any, _mm256_or_si256(a, b));
    if (view == GW_VIEW_F32) {
        __m256i c = low_halves(src), d = low_halves(src + 64);
        *any = _mm256_or_si256(*any, _mm256_or_si256(c, d));
        put(halves, c), put(halves + 32, d);
    }
    return planes_of(a, b);
}

/* Row r of a group: answers its exponents and puts every fixed plane into the body.  extra: what
 * f16 keeps for later. */
ALWAYS __m256i split(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *body, __m256i *any,
                     __m256i *extra)
{
    if (view == GW_VIEW_BYTES) {
        __m256i v = get(src + r * ROW);
        *any = _mm256_or_si256(*any, v);
        return v;
    }
    uint8_t *plane = body + GW_CODES_BYTES + r * ROW;
    unsigned width = view == GW_VIEW_BF16 || view == GW_VIEW_F16 ? 2 : 4;
    struct planes p =
        load(view, src + r * ROW * width, body + GW_CODES_BYTES + N + r * ROW * 2, any);
    if (view == GW_VIEW_F16) {
        put(plane, p.low);
        *extra = p.high;
        return _mm256_and_si256(_mm256_srli_epi16(p.high, 2), byte(0x1f));
    }
    put(plane,
        _mm256_or_si256(_mm256_and_si256(p.high, byte(0x80)), _mm256_and_si256(p.low, byte(0x7f))));
    __m256i carry = _mm256_and_si256(_mm256_srli_epi16(p.low, 7), byte(1));
    return _mm256_or_si256(_mm256_add_epi8(p.high, p.high), carry);
}

ALWAYS unsigned largest(__m256i v)
{
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu8(m, _mm_srli_epi16(m, 8));
    m = _mm_xor_si128(_mm_and_si128(m, _mm_set1_epi16(0xff)), _mm_set1_epi16(0xff));
    return 0xff ^ (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(m)) % 256;
}

/* Codes instead of exponents. */
ALWAYS __m256i window(__m256i e, __m256i above, int last)
{
    __m256i code = _mm256_min_epu8(_mm256_sub_epi8(above, e), byte(last));
    return _mm256_andnot_si256(_mm256_cmpeq_epi8(e, _mm256_setzero_si256()), code);
}

ALWAYS uint32_t mask_of(__m256i code, int last)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(code, byte(last)));
}

/* Most groups have no escape and never come here.  Answers how many there are; more than `most` are
 * not written. */
static __attribute__((noinline)) unsigned escapes_write(const __m256i e[ROWS],
                                                        const __m256i code[ROWS], int last,
                                                        unsigned most, uint8_t *esc)
{
    uint8_t flat[N];
    unsigned count = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        count += (unsigned)__builtin_popcount(mask_of(code[r], last));
        put(flat + r * ROW, e[r]);
    }
    if (count > most)
        return count;
    for (unsigned r = 0; r < ROWS; r++)
        for (uint32_t left = mask_of(code[r], last); left != 0; left &= left - 1)
            *esc++ = flat[r * ROW + (unsigned)__builtin_ctz(left)];
    return count;
}

/* f16: signs go beside the codes, bits 8 and 9 of the mantissa into a plane, four rows to one. */
ALWAYS void f16_rest(__m256i code[ROWS], const __m256i high[ROWS], uint8_t *twos)
{
    for (unsigned r = 0; r < ROWS; r++)
        code[r] =
            _mm256_or_si256(code[r], _mm256_and_si256(_mm256_srli_epi16(high[r], 4), byte(8)));
    for (unsigned k = 0; k < ROWS / 4; k++) {
        __m256i sum = _mm256_setzero_si256();
        for (unsigned s = 0; s < 4; s++)
            sum = _mm256_or_si256(
                sum, _mm256_slli_epi16(_mm256_and_si256(high[4 * k + s], byte(3)), (int)(2 * s)));
        put(twos + k * ROW, sum);
    }
}

ALWAYS unsigned encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc,
                             uint8_t *top_p)
{
    const unsigned most = view == GW_VIEW_F16 ? 63 : 127;
    const int last = view == GW_VIEW_F16 ? 7 : 15;
    __m256i e[ROWS], code[ROWS], extra[ROWS], any = _mm256_setzero_si256(), max = any, far = any;
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        e[r] = split(view, src, r, body, &any, &extra[r]);
        max = _mm256_max_epu8(max, e[r]);
    }
    *top_p = 0;
    if (_mm256_testz_si256(any, any))
        return GW_KIND_ZERO;
    unsigned top = largest(max), count = 0;
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        code[r] = window(e[r], byte((int)top + 1), last);
        far = _mm256_max_epu8(far, code[r]);
    }
    if (mask_of(far, last) != 0)
        count = escapes_write(e, code, last, most, esc);
    if (count > most)
        return GW_KIND_RAW;
    if (view == GW_VIEW_F16)
        f16_rest(code, extra, body + GW_CODES_BYTES + N);
    UNROLL for (unsigned r = 0; r < ROWS; r += 2)
        put(body + r / 2 * ROW, _mm256_or_si256(code[r], _mm256_slli_epi16(code[r + 1], 4)));
    *top_p = (uint8_t)top;
    return GW_KIND_WINDOW + count;
}

/* ---- decode ---- */

/* What is left of a group's escapes. */
struct escapes {
    const uint8_t *at;
    unsigned left;
};

/* Puts escapes where the mask has bits; 0 when there are not enough. */
static __attribute__((noinline)) int escapes_read(struct escapes *esc, uint32_t mask, __m256i *e)
{
    uint8_t flat[ROW];
    if ((unsigned)__builtin_popcount(mask) > esc->left)
        return 0;
    put(flat, *e);
    for (; mask != 0; mask &= mask - 1, esc->left--)
        flat[__builtin_ctz(mask)] = *esc->at++;
    *e = get(flat);
    return 1;
}

ALWAYS int exponents(__m256i code, __m256i above, int last, struct escapes *esc, __m256i *e)
{
    uint32_t mask = mask_of(code, last);
    *e = _mm256_andnot_si256(_mm256_cmpeq_epi8(code, _mm256_setzero_si256()),
                             _mm256_sub_epi8(above, code));
    return __builtin_expect(mask == 0, 1) || escapes_read(esc, mask, e);
}

/* Two planes of bytes back to 32 values of 16 bits. */
ALWAYS void store16(__m256i high, __m256i low, __m256i *a, __m256i *b)
{
    high = in_order(high), low = in_order(low);
    *a = _mm256_unpacklo_epi8(low, high), *b = _mm256_unpackhi_epi8(low, high);
}

ALWAYS void store32(__m256i halves, __m256i low, uint8_t *dst)
{
    halves = in_order(halves), low = in_order(low);
    put(dst, _mm256_unpacklo_epi16(low, halves));
    put(dst + 32, _mm256_unpackhi_epi16(low, halves));
}

ALWAYS void store_bf16(enum gw_view view, __m256i e, unsigned r, const uint8_t *body, uint8_t *dst)
{
    const uint8_t *halves = body + GW_CODES_BYTES + N + r * ROW * 2;
    __m256i sm = get(body + GW_CODES_BYTES + r * ROW), a, b, none = _mm256_setzero_si256();
    __m256i high = _mm256_or_si256(_mm256_and_si256(sm, byte(0x80)),
                                   _mm256_and_si256(_mm256_srli_epi16(e, 1), byte(0x7f)));
    __m256i low = _mm256_or_si256(_mm256_and_si256(sm, byte(0x7f)),
                                  _mm256_and_si256(_mm256_slli_epi16(e, 7), byte(0x80)));
    store16(high, low, &a, &b);
    if (view == GW_VIEW_BF16) {
        put(dst + r * ROW * 2, a), put(dst + r * ROW * 2 + 32, b);
        return;
    }
    store32(a, view == GW_VIEW_F32 ? get(halves) : none, dst + r * ROW * 4);
    store32(b, view == GW_VIEW_F32 ? get(halves + 32) : none, dst + r * ROW * 4 + 64);
}

ALWAYS void store_f16(__m256i e, __m256i nibble, unsigned r, const uint8_t *body, uint8_t *dst)
{
    __m256i two = _mm256_srli_epi16(get(body + GW_CODES_BYTES + N + r / 4 * ROW), (int)(r % 4 * 2)),
            a, b;
    __m256i high = _mm256_and_si256(_mm256_slli_epi16(nibble, 4), byte(0x80));
    high = _mm256_or_si256(high, _mm256_and_si256(_mm256_slli_epi16(e, 2), byte(0x7c)));
    high = _mm256_or_si256(high, _mm256_and_si256(two, byte(3)));
    store16(high, get(body + GW_CODES_BYTES + r * ROW), &a, &b);
    put(dst + r * ROW * 2, a), put(dst + r * ROW * 2 + 32, b);
}

ALWAYS int decode_row(enum gw_view view, __m256i nibble, unsigned r, __m256i above,
                      const uint8_t *body, struct escapes *esc, uint8_t *dst)
{
    const int last = view == GW_VIEW_F16 ? 7 : 15;
    __m256i e, code = view == GW_VIEW_F16 ? _mm256_and_si256(nibble, byte(last)) : nibble;
    if (!exponents(code, above, last, esc, &e))
        return 0;
    if (view == GW_VIEW_BYTES)
        put(dst + r * ROW, e);
    else if (view == GW_VIEW_F16)
        store_f16(e, nibble, r, body, dst);
    else
        store_bf16(view, e, r, body, dst);
    return 1;
}

ALWAYS int decode_group(enum gw_view view, const uint8_t *body, unsigned top, const uint8_t *at,
                        unsigned n, uint8_t *dst)
{
    struct escapes esc = {.at = at, .left = n};
    __m256i above = byte((int)top + 1), low = byte(0x0f);
    for (unsigned r = 0; r < ROWS; r += 2) {
        __m256i codes = get(body + r / 2 * ROW);
        if (!decode_row(view, _mm256_and_si256(codes, low), r, above, body, &esc, dst) ||
            !decode_row(view, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low), r + 1, above,
                        body, &esc, dst))
            return 0;
    }
    return esc.left == 0;
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                           \
    static unsigned encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p) \
    {                                                                                              \
        return encode_group(view, src, body, esc, top_p);                                          \
    }                                                                                              \
    static int decode_##name(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,    \
                             uint8_t *dst)                                                         \
    {                                                                                              \
        return decode_group(view, body, top, esc, n, dst);                                         \
    }
COPY(bytes, GW_VIEW_BYTES)
COPY(bf16, GW_VIEW_BF16)
COPY(f32, GW_VIEW_F32)
COPY(f16, GW_VIEW_F16)
COPY(f32_bf16, GW_VIEW_F32_BF16)

const struct gw_kern gw_kern_avx2 = {
    .name = "avx2",
    .usable = usable,
    .zero = zero,
    .low_zero = low_zero,
    .hash = hash,
    .encode = {[GW_VIEW_BYTES] = encode_bytes,
               [GW_VIEW_BF16] = encode_bf16,
               [GW_VIEW_F32] = encode_f32,
               [GW_VIEW_F16] = encode_f16,
               [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BYTES] = decode_bytes,
               [GW_VIEW_BF16] = decode_bf16,
               [GW_VIEW_F32] = decode_f32,
               [GW_VIEW_F16] = decode_f16,
               [GW_VIEW_F32_BF16] = decode_f32_bf16},
    .rans = &gw_kern_rans_avx2,
    .zeros = &gw_kern_zero_avx2,
};
#endif
