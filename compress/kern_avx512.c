/* kern_avx512.c - the same bytes as kern_scalar.c, 64 values at a time.  Read encode_group, then decode_group; kern_avx2.c has
 * the same plan.  What 64 bytes at a time make no faster is AVX2's. */
#include "kern.h"

#if defined(__x86_64__)
#include "planes_avx512.h"

#include "holes.h"
#include "kern_sparse.h"
#include "lossy.h"
#include "rans.h"
#include "tight.h"
#include "view.h"
#include "zero.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(GW_SIMDE)
#define NAME "avx512-simde"
static int usable(void)
{
    return gw_kern_avx2.usable();
}
#else
#define NAME "avx512"
/* The compiler's library asks the system too, whether it keeps these registers. */
static int usable(void)
{
    return gw_kern_avx2.usable() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}
#endif

static uint64_t hash(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

/* ---- is anything there? ---- */

ALWAYS int masked_zero(const uint8_t *p, size_t n, uint32_t mask)
{
    __m512i m = _mm512_set1_epi32((int)mask);
    size_t i = 0;
    for (; n - i >= 256; i += 256) {
        __m512i a = _mm512_or_si512(get(p + i), get(p + i + 64)), b = _mm512_or_si512(get(p + i + 128), get(p + i + 192));
        if (_mm512_test_epi32_mask(_mm512_or_si512(a, b), m) != 0)
            return 0;
    }
    for (; n - i >= 64; i += 64)
        if (_mm512_test_epi32_mask(get(p + i), m) != 0)
            return 0;
    return _mm512_test_epi32_mask(get_few(p + i, (unsigned)(n - i)), m) == 0;
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

/* Row r: answers its exponents and puts every fixed plane into the body.  *high: what f16 keeps for later. */
ALWAYS __m512i row_of(enum gw_view view, const uint8_t *src, unsigned r, uint8_t *body, __m512i *high)
{
    uint8_t *plane = body + GW_CODES_BYTES;
    if (view == GW_VIEW_BYTES)
        return get(src + r * ROW);
    __m512i a, b;
    if (view != GW_VIEW_F16) {
        a = split(view, src, r, plane + N, &b);
        put(plane + r * ROW, b);
        return a;
    }
    load_row(view, src, r, NULL, &a, &b);
    put(plane + r * ROW, low_bytes(a, b));
    *high = high_bytes(a, b);
    return _mm512_and_si512(_mm512_srli_epi16(*high, 2), byte(0x1f));
}

/* Exponents to codes where some are 0 or escapes.  Answers how many escapes there are; more than `most` are not written. */
static __attribute__((noinline)) unsigned window_write(const __m512i e[ROWS], unsigned top, int last, unsigned most,
                                                       uint8_t *esc, __m512i code[ROWS], unsigned *zeros_p)
{
    __m512i above = byte((int)top + 1);
    unsigned count = 0;
    uint64_t far[ROWS];
    *zeros_p = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        uint64_t some = _mm512_test_epi8_mask(e[r], e[r]);
        code[r] = _mm512_maskz_mov_epi8(some, _mm512_min_epu8(_mm512_sub_epi8(above, e[r]), byte(last)));
        far[r] = _mm512_cmpeq_epi8_mask(code[r], byte(last));
        *zeros_p += ROW - ones(some), count += ones(far[r]);
    }
    if (count > most)
        return count;
    for (unsigned r = 0; r < ROWS; esc += ones(far[r]), r++)
        put(esc, _mm512_maskz_compress_epi8(far[r], e[r]));
    return count;
}

/* f16: signs go beside the codes, bits 8 and 9 of the mantissa into a plane, two rows to one half. */
ALWAYS void f16_rest(__m512i code[ROWS], const __m512i high[ROWS], uint8_t *twos)
{
    for (unsigned r = 0; r < ROWS; r++)
        code[r] = merge(8, _mm512_srli_epi16(high[r], 4), code[r]);
    for (unsigned k = 0; k < ROWS / 2; k++) {
        __m512i a = _mm512_and_si512(high[2 * k], byte(3)), b = _mm512_and_si512(high[2 * k + 1], byte(3));
        __m512i s = _mm512_or_si512(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_slli_epi16(_mm512_shuffle_i64x2(a, b, 0xee), 2));
        __m256i upper = _mm256_slli_epi16(_mm512_extracti64x4_epi64(s, 1), 4);
        _mm256_storeu_si256((void *)(twos + k * 32), _mm256_or_si256(_mm512_castsi512_si256(s), upper));
    }
}

/* 1 when an exponent is 0 or too far below the top for a code. */
ALWAYS int needs_care(__m512i min, unsigned top, int last)
{
    unsigned far = top >= (unsigned)last ? top - (unsigned)last + 1 : 0;
    return _mm512_cmple_epu8_mask(min, byte((int)far)) != 0;
}

ALWAYS unsigned encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p,
                             unsigned *zeros_p)
{
    const unsigned most = view == GW_VIEW_F16 ? 63 : 127;
    const int last = view == GW_VIEW_F16 ? 7 : 15;
    __m512i e[ROWS], code[ROWS], high[ROWS], max = _mm512_setzero_si512(), min = byte(0xff);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        e[r] = row_of(view, src, r, body, &high[r]);
        max = _mm512_max_epu8(max, e[r]), min = _mm512_min_epu8(min, e[r]);
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
            code[r] = _mm512_sub_epi8(byte((int)top + 1), e[r]);
    }
    if (view == GW_VIEW_F16)
        f16_rest(code, high, body + GW_CODES_BYTES + N);
    put(body, nibbles_of(code[0], code[1])), put(body + ROW, nibbles_of(code[2], code[3]));
    *top_p = (uint8_t)top;
    return GW_KIND_WINDOW + count;
}

/* ---- decode ---- */

/* The exponent of every code. */
ALWAYS __m512i table_of(unsigned top, int last)
{
    __m512i codes = four_times(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    codes = _mm512_and_si512(codes, byte(last));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(codes, codes), _mm512_sub_epi8(byte((int)top + 1), codes));
}

/* Codes hold the signs; bits 8 and 9 of the mantissa stand in 32 bytes for two rows. */
ALWAYS void store_f16(__m512i e, __m512i code, unsigned r, const uint8_t *body, uint8_t *dst)
{
    const uint8_t *plane = body + GW_CODES_BYTES;
    __m256i two = _mm256_srli_epi16(get32(plane + N + r / 2 * 32), (int)(r % 2 * 4));
    __m512i twos = _mm512_inserti64x4(_mm512_castsi256_si512(two), _mm256_srli_epi16(two, 2), 1);
    __m512i high = merge(0x80, _mm512_slli_epi16(code, 4), _mm512_slli_epi16(_mm512_and_si512(e, byte(0x1f)), 2));
    join(GW_VIEW_F16, merge(3, twos, high), get(plane + r * ROW), NULL, dst + r * ROW * 2);
}

ALWAYS void store_row(enum gw_view view, __m512i e, __m512i code, unsigned r, const uint8_t *body, uint8_t *dst)
{
    const uint8_t *plane = body + GW_CODES_BYTES;
    if (view == GW_VIEW_BYTES)
        put(dst + r * ROW, e);
    else if (view == GW_VIEW_F16)
        store_f16(e, code, r, body, dst);
    else
        join_exponents(view, half_of(e), odd_of(e), plane + r * ROW, plane + N + r * ROW * 2,
                       dst + r * ROW * gw_view_shapes[view].width);
}

ALWAYS uint64_t far_of(__m512i code, int last)
{
    return _mm512_cmpeq_epi8_mask(_mm512_and_si512(code, byte(last)), byte(last));
}

ALWAYS int decode_group(enum gw_view view, const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst)
{
    const int last = view == GW_VIEW_F16 ? 7 : 15;
    __m512i table = table_of(top, last), code[ROWS];
    nibbles_read(get(body), &code[0], &code[1]), nibbles_read(get(body + ROW), &code[2], &code[3]);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m512i e = _mm512_shuffle_epi8(table, code[r]);
        uint64_t far = far_of(code[r], last);
        if (__builtin_expect(far != 0, 0)) {
            unsigned here = ones(far);
            if (here > n)
                return 0;
            e = give(e, far, get_few(esc, here));
            esc += here, n -= here;
        }
        store_row(view, e, code[r], r, body, dst);
    }
    return n == 0;
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                                           \
    static unsigned encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p, unsigned *zeros_p) \
    {                                                                                                              \
        return encode_group(view, src, body, esc, top_p, zeros_p);                                                 \
    }                                                                                                              \
    static int decode_##name(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst)      \
    {                                                                                                              \
        return decode_group(view, body, top, esc, n, dst);                                                         \
    }
COPY(bytes, GW_VIEW_BYTES)
COPY(bf16, GW_VIEW_BF16)
COPY(f16, GW_VIEW_F16)
COPY(f32_bf16, GW_VIEW_F32_BF16)

const struct gw_kern gw_kern_avx512 = {
    .name = NAME,
    .usable = usable,
    .zero = zero,
    .low_zero = low_zero,
    .hash = hash,
    .encode = {[GW_VIEW_BYTES] = encode_bytes,
               [GW_VIEW_BF16] = encode_bf16,
               [GW_VIEW_F32] = gw_avx2_encode_f32,
               [GW_VIEW_F16] = encode_f16,
               [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BYTES] = decode_bytes,
               [GW_VIEW_BF16] = decode_bf16,
               [GW_VIEW_F32] = gw_avx2_decode_f32,
               [GW_VIEW_F16] = decode_f16,
               [GW_VIEW_F32_BF16] = decode_f32_bf16},
    .view = &gw_kern_view_avx2,
    .holes = &gw_kern_holes_avx512,
    .tight = &gw_kern_tight_avx512,
    .lossy = &gw_kern_lossy_avx512,
    .sparse = &gw_kern_sparse_avx2,
    .rans = &gw_kern_rans_avx512,
    .zeros = &gw_kern_zero_avx2,
};
#endif
