/* kern_tight_avx2.c - the same bytes as kern_tight_scalar.c, 32 values at a time.  Read encode_group, then decode_group. */
#include "holes.h"
#include "tight.h"

#if defined(__x86_64__)
#include <string.h>

#include "planes_avx2.h"

ALWAYS unsigned bits_of(__m256i mask)
{
    return (unsigned)_mm256_movemask_epi8(mask);
}

ALWAYS unsigned ones(unsigned mask)
{
    return (unsigned)__builtin_popcount(mask);
}

/* ---- encode ---- */

/* Counts of values 0..5 below the top in nibbles, eight rows at most, by three tables of two counters each; then how many each of
 * four windows holds, one u16 each. */
ALWAYS unsigned offset_of(const __m256i e[ROWS], unsigned top)
{
    const __m256i t01 = twice(_mm_setr_epi8(1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i t23 = twice(_mm_setr_epi8(0, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i t45 = twice(_mm_setr_epi8(0, 0, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    __m256i n01 = _mm256_setzero_si256(), n23 = n01, n45 = n01, nought = n01;
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m256i d = _mm256_min_epu8(_mm256_sub_epi8(byte((int)top), e[r]), byte(15));
        n01 = _mm256_add_epi8(n01, _mm256_shuffle_epi8(t01, d));
        n23 = _mm256_add_epi8(n23, _mm256_shuffle_epi8(t23, d));
        n45 = _mm256_add_epi8(n45, _mm256_shuffle_epi8(t45, d));
    }
    __m256i low = byte(15), c0 = _mm256_and_si256(n01, low), c1 = _mm256_and_si256(_mm256_srli_epi16(n01, 4), low);
    __m256i c2 = _mm256_and_si256(n23, low), c3 = _mm256_and_si256(_mm256_srli_epi16(n23, 4), low);
    __m256i c4 = _mm256_and_si256(n45, low), c5 = _mm256_and_si256(_mm256_srli_epi16(n45, 4), low);
    __m256i c12 = _mm256_add_epi8(c1, c2), c34 = _mm256_add_epi8(c3, c4);
    __m256i w0 = _mm256_sad_epu8(_mm256_add_epi8(c0, c12), nought), w1 = _mm256_sad_epu8(_mm256_add_epi8(c12, c3), nought);
    __m256i w2 = _mm256_sad_epu8(_mm256_add_epi8(c2, c34), nought), w3 = _mm256_sad_epu8(_mm256_add_epi8(c34, c5), nought);
    __m256i w = _mm256_or_si256(_mm256_or_si256(w0, _mm256_slli_epi64(w1, 16)),
                                _mm256_or_si256(_mm256_slli_epi64(w2, 32), _mm256_slli_epi64(w3, 48)));
    __m128i s = _mm_add_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    s = _mm_add_epi16(s, _mm_srli_si128(s, 8)); /* no more in the upper half than in the lower */
    s = _mm_xor_si128(s, _mm_set1_epi8(-1));
    return (unsigned)_mm_extract_epi16(_mm_minpos_epu16(s), 1);
}

/* Of eight exponents those whose bits are set, one after the other; answers behind the last. */
ALWAYS uint8_t *near_take8(__m128i e, unsigned mask, uint8_t *out)
{
    __m128i order = _mm_loadl_epi64((const void *)(gw_lanes_taken + mask));
    _mm_storel_epi64((void *)out, _mm_shuffle_epi8(e, order));
    return out + ones(mask);
}

ALWAYS uint8_t *near_take(__m256i e, unsigned mask, uint8_t *out)
{
    __m128i a = _mm256_castsi256_si128(e), b = _mm256_extracti128_si256(e, 1);
    out = near_take8(a, mask & 0xff, out);
    out = near_take8(_mm_unpackhi_epi64(a, a), mask >> 8 & 0xff, out);
    out = near_take8(b, mask >> 16 & 0xff, out);
    return near_take8(_mm_unpackhi_epi64(b, b), mask >> 24, out);
}

/* Where an exponent is 0 or far: the right nibbles, nothing beyond the last of `count`, and the far exponents aside. */
static __attribute__((noinline)) __m256i near_odd(__m256i below, __m256i fits, const uint8_t *near, unsigned count,
                                                  struct gw_tight *t, uint8_t *far)
{
    __m256i zero = _mm256_cmpeq_epi8(get(near), _mm256_setzero_si256());
    unsigned here = count < ROW ? ~(~0u << count) : ~0u, zeros = bits_of(zero), left = ~(bits_of(fits) | zeros) & here;
    uint8_t nibble[2 * ROW];
    t->zeros += ones(zeros & here);
    for (; left != 0; left &= left - 1)
        far[t->far++] = near[__builtin_ctz(left)];
    below = _mm256_blendv_epi8(byte(GW_NEAR_FAR), below, fits);
    put(nibble, _mm256_blendv_epi8(below, byte(GW_NEAR_ZERO), zero));
    put(nibble + (count < ROW ? count : ROW), _mm256_setzero_si256());
    return get(nibble);
}

/* Nibbles of the exponents in near, two to a byte, then the bytes of those that are far.  Behind the last stands what becomes
 * nibble 0. */
ALWAYS void near_write(uint8_t *near, uint8_t *esc, struct gw_tight *t)
{
    uint8_t far[GW_TIGHT_NEAR_MAX];
    __m256i above = byte(t->base + GW_NEAR_ABOVE), last = byte(GW_NEAR_LAST), nought = _mm256_setzero_si256();
    put(near + t->near, above);
    for (unsigned i = 0; i < t->near; i += ROW) {
        __m256i e = get(near + i), below = _mm256_sub_epi8(above, e);
        __m256i fits = _mm256_cmpeq_epi8(_mm256_min_epu8(below, last), below);
        if (bits_of(_mm256_andnot_si256(_mm256_cmpeq_epi8(e, nought), fits)) != ~0u)
            below = near_odd(below, fits, near + i, t->near - i, t, far);
        __m256i two = _mm256_maddubs_epi16(below, _mm256_set1_epi16(0x1001));
        __m128i one = _mm_packus_epi16(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
        _mm_storeu_si128((void *)(esc + i / 2), one);
    }
    if (t->far > 0)
        memcpy(esc + (t->near + 1) / 2, far, t->far);
}

ALWAYS int encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)
{
    uint8_t near[N + ROW], *at = near, *plane = body + GW_TIGHT_CODES_BYTES;
    __m256i e[ROWS], max = _mm256_setzero_si256();
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        e[r] = split(view, src, r, plane, plane + N);
        max = _mm256_max_epu8(max, e[r]);
    }
    unsigned top = largest(max);
    if (top == 0)
        return 0;
    *t = (struct gw_tight){.base = (uint8_t)(top - offset_of(e, top))};
    __m256i base = byte(t->base), three = byte(3);
    UNROLL for (unsigned k = 0; k < 2; k++) {
        __m256i codes = _mm256_setzero_si256();
        UNROLL for (unsigned s = 0; s < 4; s++) {
            unsigned r = 4 * k + s;
            __m256i code = _mm256_min_epu8(_mm256_sub_epi8(base, e[r]), three);
            codes = _mm256_or_si256(codes, _mm256_slli_epi16(code, (int)(2 * s)));
            at = near_take(e[r], bits_of(_mm256_cmpeq_epi8(code, three)), at);
        }
        put(body + k * ROW, codes);
    }
    t->near = (unsigned)(at - near);
    if ((t->near + 1) / 2 >= GW_TIGHT_ESCAPES)
        return 0;
    near_write(near, esc, t);
    return gw_tight_escapes(t->near, t->far) + (t->far > 0 ? 2 : 0) < GW_TIGHT_ESCAPES;
}

/* ---- decode ---- */

/* Where nibbles stand for far exponents: those are filled in; 0 when their number is not far. */
static __attribute__((noinline)) int far_read(const uint8_t *pairs, unsigned near, const uint8_t *esc, unsigned far, uint8_t *e)
{
    for (unsigned i = 0; i < near; i++) {
        if ((pairs[i / 2] >> i % 2 * 4 & 15) != GW_NEAR_FAR)
            continue;
        if (far-- == 0)
            return 0;
        e[i] = *esc++;
    }
    return far == 0;
}

struct odd {
    __m256i far, bad;
};

/* Sixteen pairs of nibbles to 32 exponents. */
ALWAYS void pairs_read(const uint8_t *pairs, __m256i table, uint8_t *e, struct odd *odd)
{
    __m128i two = _mm_loadu_si128((const void *)pairs), low = _mm_set1_epi8(15);
    __m128i a = _mm_and_si128(two, low), b = _mm_and_si128(_mm_srli_epi16(two, 4), low);
    __m256i nibble = _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
    put(e, _mm256_shuffle_epi8(table, nibble));
    odd->far = _mm256_or_si256(odd->far, _mm256_cmpeq_epi8(nibble, byte(GW_NEAR_FAR)));
    odd->bad = _mm256_or_si256(odd->bad, _mm256_cmpeq_epi8(nibble, byte(GW_NEAR_NONE)));
}

/* What the escapes stand for, in order; 0 when they are not what t says.  Blocks of pairs may overlap, so that the usual number of
 * them needs no branch; few pairs are copied to where there is room behind them. */
ALWAYS int near_read(const struct gw_tight *t, const uint8_t *esc, uint8_t e[GW_TIGHT_NEAR_MAX + ROW])
{
    enum { BLOCK = 16, USUAL = 3 * BLOCK };
    const __m256i from = twice(_mm_setr_epi8(0, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m256i keep = twice(_mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    __m256i table = _mm256_and_si256(_mm256_sub_epi8(byte(t->base + GW_NEAR_ABOVE), from), keep);
    struct odd odd = {.far = _mm256_setzero_si256(), .bad = _mm256_setzero_si256()};
    unsigned n = (t->near + 1) / 2, last = n - BLOCK;
    uint8_t few[BLOCK] = {0};
    const uint8_t *pairs = esc;
    if (n < BLOCK)
        memcpy(few, esc, n), pairs = few, last = 0;
    pairs_read(pairs, table, e, &odd);
    if (n > USUAL)
        pairs_read(pairs + 2 * BLOCK, table, e + 4 * BLOCK, &odd);
    unsigned middle = last < BLOCK ? last : BLOCK;
    pairs_read(pairs + middle, table, e + 2 * middle, &odd);
    pairs_read(pairs + last, table, e + 2 * last, &odd);
    if (!_mm256_testz_si256(odd.bad, odd.bad) || (t->near % 2 != 0 && pairs[n - 1] >> 4 != 0))
        return 0;
    if (_mm256_testz_si256(odd.far, odd.far))
        return t->far == 0;
    return far_read(pairs, t->near, esc + n, t->far, e);
}

/* How many of the bytes that are -1 stand in each half before and at each byte. */
ALWAYS __m256i ranks_of(__m256i mask)
{
    __m256i n = _mm256_sub_epi8(_mm256_setzero_si256(), mask);
    n = _mm256_add_epi8(n, _mm256_slli_si256(n, 1));
    n = _mm256_add_epi8(n, _mm256_slli_si256(n, 2));
    n = _mm256_add_epi8(n, _mm256_slli_si256(n, 4));
    return _mm256_add_epi8(n, _mm256_slli_si256(n, 8));
}

/* Exponents from `near` to where the mask is -1, 0 elsewhere; so many of them belong to its first half. */
ALWAYS __m256i near_give(__m256i mask, unsigned first, const uint8_t *near)
{
    __m128i a = _mm_loadu_si128((const void *)near), b = _mm_loadu_si128((const void *)(near + first));
    __m256i order = _mm256_add_epi8(ranks_of(mask), byte(-1));
    return _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set_m128i(b, a), order), mask);
}

ALWAYS int decode_group(enum gw_view view, const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst)
{
    const uint8_t *plane = body + GW_TIGHT_CODES_BYTES;
    const unsigned width = gw_view_shapes[view].width;
    const __m256i keep = twice(_mm_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i from = twice(_mm_setr_epi8(0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    uint8_t near[GW_TIGHT_NEAR_MAX + ROW];
    unsigned used = 0;
    if (!near_read(t, esc, near))
        return 0;
    __m256i table = _mm256_and_si256(_mm256_sub_epi8(byte(t->base), from), keep), three = byte(3);
    UNROLL for (unsigned r = 0; r < ROWS; r++) {
        __m256i code = _mm256_and_si256(_mm256_srli_epi16(get(body + r / 4 * ROW), (int)(r % 4 * 2)), three);
        __m256i far = _mm256_cmpeq_epi8(code, three);
        unsigned mask = bits_of(far), count = ones(mask);
        if (count > t->near - used)
            return 0;
        __m256i e = _mm256_or_si256(_mm256_shuffle_epi8(table, code), near_give(far, ones(mask & 0xffff), near + used));
        used += count;
        e = arrange(view, e);
        join_exponents(view, half_of(e), odd_of(e), plane + r * ROW, plane + N + r * ROW * 2, dst + r * ROW * width);
    }
    return used == t->near;
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                                          \
    static int encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)                 \
    {                                                                                                             \
        return encode_group(view, src, body, esc, t);                                                             \
    }                                                                                                             \
    static int decode_##name(const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst)     \
    {                                                                                                             \
        return decode_group(view, body, t, esc, dst);                                                             \
    }
COPY(bf16, GW_VIEW_BF16)
COPY(f32, GW_VIEW_F32)
COPY(f32_bf16, GW_VIEW_F32_BF16)

const struct gw_kern_tight gw_kern_tight_avx2 = {
    .encode = {[GW_VIEW_BF16] = encode_bf16, [GW_VIEW_F32] = encode_f32, [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BF16] = decode_bf16, [GW_VIEW_F32] = decode_f32, [GW_VIEW_F32_BF16] = decode_f32_bf16},
};
#endif
