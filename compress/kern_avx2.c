/* kern_avx2.c - the same bytes as kern_scalar.c, 32 values at a time.  Read encode_group, then
 * decode_group.
 *
 * Both are written once for all views and copied out per view by the compiler, to whom the view is
 * a constant.  Most groups have neither zeros nor escapes and take the short way. */
#include "kern.h"
#include "holes.h"
#include "kern_sparse.h"
#include "lossy.h"
#include "tight.h"
#include "view.h"
#include "rans.h"
#include "zero.h"

#if defined(__x86_64__)
#include "planes_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static int usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

static uint64_t hash(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
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

ALWAYS uint32_t mask_of(__m256i code, int last)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(code, byte(last)));
}

/* Row r: answers its exponents and puts every fixed plane into the body.  *extra: what f16 keeps for
 * later. */
ALWAYS __m256i row_of(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *body, __m256i *extra)
{
    uint8_t *plane = body + GW_CODES_BYTES;
    if (view == GW_VIEW_BYTES)
        return get(src + r * ROW);
    if (view != GW_VIEW_F16)
        return split(view, src, r, plane, plane + N);
    struct planes p = load16(src + r * ROW * 2);
    put(plane + r * ROW, p.low);
    *extra = p.high;
    return _mm256_and_si256(_mm256_srli_epi16(p.high, 2), byte(0x1f));
}

/* Exponents to codes where some are 0 or escapes.  Answers how many escapes there are; more than
 * `most` are not written. */
static __attribute__((noinline)) unsigned window_write(const __m256i e[ROWS], unsigned top, int last, unsigned most,
                                                       uint8_t *esc, __m256i code[ROWS], unsigned *zeros_p)
{
    __m256i above = byte((int)top + 1), zeros = _mm256_setzero_si256();
    uint8_t flat[N];
    unsigned count = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        __m256i none = _mm256_cmpeq_epi8(e[r], _mm256_setzero_si256());
        code[r] = _mm256_andnot_si256(none, _mm256_min_epu8(_mm256_sub_epi8(above, e[r]), byte(last)));
        zeros = _mm256_sub_epi8(zeros, none);
        count += (unsigned)__builtin_popcount(mask_of(code[r], last));
        put(flat + r * ROW, e[r]);
    }
    *zeros_p = sum_of(zeros);
    if (count == 0 || count > most)
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

/* 1 when an exponent is 0 or too far below the top for a code. */
ALWAYS int needs_care(__m256i min, unsigned top, int last)
{
    unsigned far = top >= (unsigned)last ? top - (unsigned)last + 1 : 0;
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(min, byte((int)far)), min)) != 0;
}

ALWAYS unsigned encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc,
                             uint8_t *top_p, unsigned *zeros_p)
{
    const unsigned most = view == GW_VIEW_F16 ? 63 : 127;
    const int last = view == GW_VIEW_F16 ? 7 : 15;
    __m256i e[ROWS], code[ROWS], extra[ROWS], max = _mm256_setzero_si256(), min = byte(0xff);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        e[r] = row_of(view, src, r, body, &extra[r]);
        max = _mm256_max_epu8(max, e[r]), min = _mm256_min_epu8(min, e[r]);
    }
    unsigned top = largest(max), count = 0;
    *top_p = 0, *zeros_p = N;
    if (top == 0 && zero(src, (size_t)N * gw_view_shapes[view].width))
        return GW_KIND_ZERO;
    if (needs_care(min, top, last)) {
        count = window_write(e, top, last, most, esc, code, zeros_p);
        if (count > most)
            return GW_KIND_RAW;
    } else {
        *zeros_p = 0;
        UNROLL for (unsigned r = 0; r < ROWS; r++)
            code[r] = _mm256_sub_epi8(byte((int)top + 1), e[r]);
    }
    if (view == GW_VIEW_F16)
        f16_rest(code, extra, body + GW_CODES_BYTES + N);
    UNROLL for (unsigned r = 0; r < ROWS; r += 2)
        put(body + r / 2 * ROW, _mm256_or_si256(code[r], _mm256_slli_epi16(code[r + 1], 4)));
    *top_p = (uint8_t)top;
    return GW_KIND_WINDOW + count;
}

/* ---- decode ---- */

/* The exponent of every code; 16 of them, so that a shuffle finds it. */
ALWAYS __m256i table_of(unsigned top)
{
    __m256i codes = twice(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    __m256i none = _mm256_cmpeq_epi8(codes, _mm256_setzero_si256());
    return _mm256_andnot_si256(none, _mm256_sub_epi8(byte((int)top + 1), codes));
}

/* f16: beside the exponent the sign, which is the upper bit of a nibble. */
ALWAYS __m256i f16_table_of(unsigned top)
{
    __m256i codes = twice(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
    __m256i none = _mm256_cmpeq_epi8(codes, _mm256_setzero_si256());
    __m256i e = _mm256_andnot_si256(none, _mm256_sub_epi8(byte((int)top + 1), codes));
    e = _mm256_and_si256(_mm256_slli_epi16(e, 2), byte(0x7c));
    return _mm256_or_si256(e, twice(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, -128, -128, -128, -128, -128, -128, -128, -128)));
}

ALWAYS void store_f16(__m256i high, unsigned r, const uint8_t *body, uint8_t *dst)
{
    const uint8_t *plane = body + GW_CODES_BYTES;
    __m256i two = _mm256_srli_epi16(fetch(GW_VIEW_F16, plane + N + r / 4 * ROW), (int)(r % 4 * 2));
    join(GW_VIEW_F16, _mm256_or_si256(high, _mm256_and_si256(two, byte(3))), fetch(GW_VIEW_F16, plane + r * ROW), NULL,
         dst + r * ROW * 2);
}

/* Rows r and r + 1 share a row of codes. */
ALWAYS __m256i nibbles(__m256i codes, unsigned r)
{
    return _mm256_and_si256(r % 2 ? _mm256_srli_epi16(codes, 4) : codes, byte(0x0f));
}

/* Without escapes: what a code becomes is in a table. */
ALWAYS int decode_near(enum gw_view view, const uint8_t *body, unsigned top, uint8_t *dst)
{
    const uint8_t *plane = body + GW_CODES_BYTES;
    const unsigned width = gw_view_shapes[view].width;
    __m256i table = view == GW_VIEW_F16 ? f16_table_of(top) : table_of(top), far = _mm256_setzero_si256();
    __m256i half = half_of(table), odd = odd_of(table);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m256i code = nibbles(fetch(view, body + r / 2 * ROW), r);
        far = _mm256_max_epu8(far, view == GW_VIEW_F16 ? _mm256_or_si256(code, byte(8)) : code);
        if (view == GW_VIEW_BYTES)
            put(dst + r * ROW, _mm256_shuffle_epi8(table, code));
        else if (view == GW_VIEW_F16)
            store_f16(_mm256_shuffle_epi8(table, code), r, body, dst);
        else
            join_exponents(view, _mm256_shuffle_epi8(half, code), _mm256_shuffle_epi8(odd, code), plane + r * ROW,
                           plane + N + r * ROW * 2, dst + r * ROW * width);
    }
    return mask_of(far, 15) == 0;
}

/* Exponents of all codes in memory order, escapes at their places; 0 when their number is not n. */
static __attribute__((noinline)) int window_read(const uint8_t *codes, unsigned top, int last, const uint8_t *esc,
                                                 unsigned n, uint8_t e[N])
{
    __m256i table = table_of(top);
    for (unsigned r = 0; r < ROWS; r++) {
        __m256i code = _mm256_and_si256(nibbles(get(codes + r / 2 * ROW), r), byte(last));
        uint32_t mask = mask_of(code, last);
        put(e + r * ROW, _mm256_shuffle_epi8(table, code));
        if ((unsigned)__builtin_popcount(mask) > n)
            return 0;
        for (; mask != 0; mask &= mask - 1, n--)
            e[r * ROW + (unsigned)__builtin_ctz(mask)] = *esc++;
    }
    return n == 0;
}

ALWAYS int decode_far(enum gw_view view, const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst)
{
    const uint8_t *plane = body + GW_CODES_BYTES;
    const unsigned width = gw_view_shapes[view].width;
    uint8_t flat[N];
    if (!window_read(body, top, view == GW_VIEW_F16 ? 7 : 15, esc, n, view == GW_VIEW_BYTES ? dst : flat))
        return 0;
    for (unsigned r = 0; view != GW_VIEW_BYTES && r < ROWS; r++) {
        __m256i e = fetch(view, flat + r * ROW);
        if (view != GW_VIEW_F16) {
            join_exponents(view, half_of(e), odd_of(e), plane + r * ROW, plane + N + r * ROW * 2, dst + r * ROW * width);
            continue;
        }
        __m256i sign = _mm256_slli_epi16(nibbles(fetch(view, body + r / 2 * ROW), r), 4);
        e = _mm256_and_si256(_mm256_slli_epi16(e, 2), byte(0x7c));
        store_f16(_mm256_or_si256(e, _mm256_and_si256(sign, byte(0x80))), r, body, dst);
    }
    return 1;
}

ALWAYS int decode_group(enum gw_view view, const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                        uint8_t *dst)
{
    return n == 0 ? decode_near(view, body, top, dst) : decode_far(view, body, top, esc, n, dst);
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                           \
    static unsigned encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p, \
                                  unsigned *zeros_p)                                               \
    {                                                                                              \
        return encode_group(view, src, body, esc, top_p, zeros_p);                                          \
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

unsigned gw_avx2_encode_f32(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p, unsigned *zeros_p)
{
    return encode_f32(src, body, esc, top_p, zeros_p);
}

int gw_avx2_decode_f32(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst)
{
    return decode_f32(body, top, esc, n, dst);
}

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
    .view = &gw_kern_view_avx2,
    .holes = &gw_kern_holes_avx2,
    .tight = &gw_kern_tight_avx2,
    .lossy = &gw_kern_lossy_avx2,
    .sparse = &gw_kern_sparse_avx2,
    .rans = &gw_kern_rans_avx2,
    .zeros = &gw_kern_zero_avx2,
};
#endif
