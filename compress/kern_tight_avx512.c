/* kern_tight_avx512.c - the same bytes as kern_tight_scalar.c, 64 values at a time.  Read encode_group, then decode_group. */
#if defined(__x86_64__)
#include <string.h>

#include "planes_avx512.h"

#include "tight.h"

/* ---- encode ---- */

/* As in kern_tight_avx2.c: counts of 0..5 below the top in nibbles, then how many each of four windows holds. */
ALWAYS unsigned offset_of(const __m512i e[ROWS], unsigned top)
{
    const __m512i t01 = four_times(_mm_setr_epi8(1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i t23 = four_times(_mm_setr_epi8(0, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i t45 = four_times(_mm_setr_epi8(0, 0, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    __m512i n01 = _mm512_setzero_si512(), n23 = n01, n45 = n01, nought = n01;
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m512i d = _mm512_min_epu8(_mm512_sub_epi8(byte((int)top), e[r]), byte(15));
        n01 = _mm512_add_epi8(n01, _mm512_shuffle_epi8(t01, d));
        n23 = _mm512_add_epi8(n23, _mm512_shuffle_epi8(t23, d));
        n45 = _mm512_add_epi8(n45, _mm512_shuffle_epi8(t45, d));
    }
    __m512i low = byte(15), c0 = _mm512_and_si512(n01, low), c1 = _mm512_and_si512(_mm512_srli_epi16(n01, 4), low);
    __m512i c2 = _mm512_and_si512(n23, low), c3 = _mm512_and_si512(_mm512_srli_epi16(n23, 4), low);
    __m512i c4 = _mm512_and_si512(n45, low), c5 = _mm512_and_si512(_mm512_srli_epi16(n45, 4), low);
    __m512i c12 = _mm512_add_epi8(c1, c2), c34 = _mm512_add_epi8(c3, c4);
    __m512i w0 = _mm512_sad_epu8(_mm512_add_epi8(c0, c12), nought), w1 = _mm512_sad_epu8(_mm512_add_epi8(c12, c3), nought);
    __m512i w2 = _mm512_sad_epu8(_mm512_add_epi8(c2, c34), nought), w3 = _mm512_sad_epu8(_mm512_add_epi8(c34, c5), nought);
    __m512i w = _mm512_or_si512(_mm512_or_si512(w0, _mm512_slli_epi64(w1, 16)),
                                _mm512_or_si512(_mm512_slli_epi64(w2, 32), _mm512_slli_epi64(w3, 48)));
    __m256i h = _mm256_add_epi16(_mm512_castsi512_si256(w), _mm512_extracti64x4_epi64(w, 1));
    __m128i s = _mm_add_epi16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    s = _mm_add_epi16(s, _mm_srli_si128(s, 8)); /* no more in the upper half than in the lower */
    s = _mm_xor_si128(s, _mm_set1_epi8(-1));
    return (unsigned)_mm_extract_epi16(_mm_minpos_epu16(s), 1);
}

/* Nibbles of the exponents in near, two to a byte, then the bytes of those that are far. */
ALWAYS void near_write(const uint8_t *near, uint8_t *esc, struct gw_tight *t)
{
    uint8_t far[GW_TIGHT_NEAR_MAX + ROW];
    __m512i above = byte(t->base + GW_NEAR_ABOVE);
    for (unsigned i = 0; i < t->near; i += ROW) {
        uint64_t here = first_bits(t->near - i);
        __m512i e = get(near + i), below = _mm512_sub_epi8(above, e);
        uint64_t some = _mm512_test_epi8_mask(e, e), fits = _mm512_cmple_epu8_mask(below, byte(GW_NEAR_LAST));
        uint64_t out = ~fits & some & here;
        if (__builtin_expect((fits & some & here) != here, 0)) {
            below = _mm512_mask_mov_epi8(below, ~fits, byte(GW_NEAR_FAR));
            below = _mm512_mask_mov_epi8(below, ~some, byte(GW_NEAR_ZERO));
            put(far + t->far, _mm512_maskz_compress_epi8(out, e));
            t->far += ones(out), t->zeros += ones(~some & here);
        }
        __m512i two = _mm512_maddubs_epi16(_mm512_maskz_mov_epi8(here, below), _mm512_set1_epi16(0x1001));
        _mm256_storeu_si256((void *)(esc + i / 2), _mm512_cvtepi16_epi8(two));
    }
    if (t->far > 0)
        memcpy(esc + (t->near + 1) / 2, far, t->far);
}

/* Rows of 32 codes of 2 bits, four to 32 bytes, from two rows of 64. */
ALWAYS void codes_write(__m512i a, __m512i b, uint8_t *out)
{
    __m512i s = _mm512_or_si512(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_slli_epi16(_mm512_shuffle_i64x2(a, b, 0xee), 2));
    __m256i upper = _mm256_slli_epi16(_mm512_extracti64x4_epi64(s, 1), 4);
    _mm256_storeu_si256((void *)out, _mm256_or_si256(_mm512_castsi512_si256(s), upper));
}

ALWAYS int encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)
{
    uint8_t near[N + ROW], *at = near, *plane = body + GW_TIGHT_CODES_BYTES;
    __m512i e[ROWS], sm[ROWS], code[ROWS], max = _mm512_setzero_si512();
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        e[r] = split(view, src, r, plane + N, &sm[r]);
        max = _mm512_max_epu8(max, e[r]);
    }
    unsigned top = largest(max);
    if (top == 0)
        return 0;
    *t = (struct gw_tight){.base = (uint8_t)(top - offset_of(e, top))};
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        code[r] = _mm512_min_epu8(_mm512_sub_epi8(byte(t->base), e[r]), byte(3));
        uint64_t mask = _mm512_cmpeq_epi8_mask(code[r], byte(3));
        put(at, _mm512_maskz_compress_epi8(mask, e[r]));
        at += ones(mask);
    }
    /* Before near is read, what was written there has time to arrive. */
    UNROLL for (unsigned r = 0; r < ROWS; r++)
        put(plane + r * ROW, sm[r]);
    codes_write(code[0], code[1], body), codes_write(code[2], code[3], body + 32);
    t->near = (unsigned)(at - near);
    if ((t->near + 1) / 2 >= GW_TIGHT_ESCAPES)
        return 0;
    near_write(near, esc, t);
    return gw_tight_escapes(t->near, t->far) + (t->far > 0 ? 2 : 0) < GW_TIGHT_ESCAPES;
}

/* ---- decode ---- */

/* 64 nibbles of 32 bytes, the first of each lower. */
ALWAYS __m512i nibbles_at(__m256i pairs)
{
    __m512i v = _mm512_cvtepu8_epi16(pairs);
    return _mm512_and_si512(_mm512_or_si512(v, _mm512_slli_epi16(v, 4)), byte(15));
}

/* What the escapes stand for, in order; 0 when they are not what t says. */
ALWAYS int near_read(const struct gw_tight *t, const uint8_t *esc, uint8_t e[GW_TIGHT_NEAR_MAX + ROW])
{
    const __m512i from = four_times(_mm_setr_epi8(0, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i keep = four_times(_mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    __m512i table = _mm512_and_si512(_mm512_sub_epi8(byte(t->base + GW_NEAR_ABOVE), from), keep);
    unsigned n = (t->near + 1) / 2, left = t->far;
    __m512i pairs = get_few(esc, n);
    const uint8_t *bytes = esc + n;
    for (unsigned i = 0; i < t->near; i += ROW) {
        uint64_t here = first_bits(t->near - i);
        __m512i nibble = nibbles_at(i == 0 ? _mm512_castsi512_si256(pairs) : _mm512_extracti64x4_epi64(pairs, 1));
        __m512i v = _mm512_shuffle_epi8(table, nibble);
        uint64_t far = _mm512_cmpeq_epi8_mask(nibble, byte(GW_NEAR_FAR));
        uint64_t bad = _mm512_cmpeq_epi8_mask(nibble, byte(GW_NEAR_NONE)) | (_mm512_test_epi8_mask(nibble, nibble) & ~here);
        if (bad != 0 || ones(far) > left)
            return 0;
        if (far != 0)
            v = give(v, far, get_few(bytes, ones(far)));
        bytes += ones(far), left -= ones(far);
        put(e + i, v);
    }
    return left == 0;
}

/* Codes of 64 values: those of row 2k from 32 bytes, those of row 2k + 1 four bits higher. */
ALWAYS __m512i codes_read(const uint8_t *body, unsigned r)
{
    __m256i v = _mm256_srli_epi16(get32(body + r / 2 * 32), (int)(r % 2 * 4));
    return _mm512_and_si512(_mm512_inserti64x4(_mm512_castsi256_si512(v), _mm256_srli_epi16(v, 2), 1), byte(3));
}

ALWAYS int decode_group(enum gw_view view, const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst)
{
    const uint8_t *plane = body + GW_TIGHT_CODES_BYTES;
    const unsigned width = gw_view_shapes[view].width;
    const __m512i keep = four_times(_mm_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i from = four_times(_mm_setr_epi8(0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    uint8_t near[GW_TIGHT_NEAR_MAX + ROW];
    unsigned used = 0;
    if (!near_read(t, esc, near))
        return 0;
    __m512i table = _mm512_and_si512(_mm512_sub_epi8(byte(t->base), from), keep);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m512i code = codes_read(body, r);
        uint64_t far = _mm512_cmpeq_epi8_mask(code, byte(3));
        if (ones(far) > t->near - used)
            return 0;
        __m512i e = give(_mm512_shuffle_epi8(table, code), far, get(near + used));
        used += ones(far);
        join_exponents(view, half_of(e), odd_of(e), plane + r * ROW, plane + N + r * ROW * 2, dst + r * ROW * width);
    }
    return used == t->near;
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                                      \
    static int encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)             \
    {                                                                                                         \
        return encode_group(view, src, body, esc, t);                                                         \
    }                                                                                                         \
    static int decode_##name(const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst) \
    {                                                                                                         \
        return decode_group(view, body, t, esc, dst);                                                         \
    }
COPY(bf16, GW_VIEW_BF16)
COPY(f32, GW_VIEW_F32)
COPY(f32_bf16, GW_VIEW_F32_BF16)

const struct gw_kern_tight gw_kern_tight_avx512 = {
    .encode = {[GW_VIEW_BF16] = encode_bf16, [GW_VIEW_F32] = encode_f32, [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BF16] = decode_bf16, [GW_VIEW_F32] = decode_f32, [GW_VIEW_F32_BF16] = decode_f32_bf16},
};
#endif
