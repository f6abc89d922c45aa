/* kern_rans_avx2.c - the same bytes as kern_rans_scalar.c, 32 states in four vectors.
 *
 * A table of 16 u32 is two permutes and a blend.  A symbol is found by comparing and not through a
 * table of 4096 slots: gathers are slow on many machines. */
#include "kern.h"
#include "rans.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "bits.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { STEPS = GW_GROUP_VALUES / GW_RANS_LANES, LANES = 8, VECTORS = GW_RANS_LANES / LANES };

#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

ALWAYS __m256i get(const void *p)
{
    return _mm256_loadu_si256(p);
}

ALWAYS void put(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

ALWAYS unsigned mask_of(__m256i v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(v));
}

/* ---- encode ---- */

struct table32 {
    __m256i low, high;
};

ALWAYS struct table32 table32(const uint32_t *p)
{
    return (struct table32){get(p), get(p + 8)};
}

/* `upper` has its sign set in lanes whose symbol is 8 or more. */
ALWAYS __m256i look(struct table32 t, __m256i s, __m256i upper)
{
    __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t.low, s));
    __m256 high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t.high, s));
    return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper)));
}

/* The upper half of the product of each lane. */
ALWAYS __m256i product_high(__m256i a, __m256i b)
{
    __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    return _mm256_blend_epi32(even, odd, 0xaa);
}

/* The low halves of the lanes that the mask names, one after the other, down from `end`. */
ALWAYS uint8_t *words_out(__m256i x, unsigned m, uint8_t *end)
{
    x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    __m128i i = _mm_cvtsi64_si128((long long)gw_bits_high[m]);
    i = _mm_unpacklo_epi8(i, i);
    i = _mm_add_epi8(_mm_add_epi8(i, i), _mm_set1_epi16(0x100));
    _mm_storeu_si128((void *)(end - 16), _mm_shuffle_epi8(half, i));
    return end - 2 * __builtin_popcount(m);
}

ALWAYS uint8_t *code_eight(struct table32 reciprocal, struct table32 step, __m256i s, __m256i *x, uint8_t *end)
{
    __m256i upper = _mm256_slli_epi32(s, 28), p = look(step, s, upper);
    __m256i f = _mm256_and_si256(p, _mm256_set1_epi32(0xfff));
    __m256i keep = _mm256_cmpgt_epi32(_mm256_slli_epi32(f, 19), *x);
    end = words_out(*x, mask_of(keep) ^ 0xff, end);
    __m256i v = _mm256_blendv_epi8(_mm256_srli_epi32(*x, 16), *x, keep);
    __m256i q = product_high(v, look(reciprocal, s, upper));
    q = _mm256_srlv_epi32(q, _mm256_srli_epi32(p, 28));
    q = _mm256_mullo_epi32(q, _mm256_sub_epi32(_mm256_set1_epi32(GW_RANS_ONE), f));
    __m256i bias = _mm256_and_si256(_mm256_srli_epi32(p, 12), _mm256_set1_epi32(0x1fff));
    *x = _mm256_add_epi32(_mm256_add_epi32(v, bias), q);
    return end;
}

ALWAYS __m256i symbols(const uint8_t *codes, int high)
{
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)codes));
    return high ? _mm256_srli_epi32(v, 4) : _mm256_and_si256(v, _mm256_set1_epi32(15));
}

static uint8_t *encode(const struct gw_rans *t, uint32_t state[GW_RANS_LANES], const uint8_t *codes, size_t groups,
                       uint8_t *end)
{
    struct table32 reciprocal = table32(t->reciprocal), step = table32(t->step);
    __m256i x[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        x[v] = get(state + v * LANES);
    for (size_t i = groups * STEPS / 2; i-- > 0;) {
        const uint8_t *row = codes + i * GW_RANS_LANES;
        UNROLL for (int v = VECTORS - 1; v >= 0; v--) end =
            code_eight(reciprocal, step, symbols(row + v * LANES, 1), &x[v], end);
        UNROLL for (int v = VECTORS - 1; v >= 0; v--) end =
            code_eight(reciprocal, step, symbols(row + v * LANES, 0), &x[v], end);
    }
    for (int v = 0; v < VECTORS; v++)
        put(state + v * LANES, x[v]);
    return end;
}

/* ---- decode ---- */

/* Bounds are one less than where a symbol starts: a slot above it has reached the symbol. */
struct search {
    __m256i quad[3], within[3];                         /* of symbols 4, 8, 12; of 4h + 1..3, h = 0..3 */
    __m256i freq_low, freq_high, start_low, start_high; /* bytes of the u16 */
};

ALWAYS __m256i both(__m128i v)
{
    return _mm256_broadcastsi128_si256(v);
}

/* The low bytes and the high bytes of 16 u16. */
ALWAYS void bytes_of(const uint16_t *p, __m256i *low, __m256i *high)
{
    __m128i a = _mm_loadu_si128((const void *)p), b = _mm_loadu_si128((const void *)(p + 8));
    __m128i ff = _mm_set1_epi16(0xff);
    *low = both(_mm_packus_epi16(_mm_and_si128(a, ff), _mm_and_si128(b, ff)));
    *high = both(_mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
}

ALWAYS struct search search_of(const struct gw_rans *t)
{
    struct search s;
    for (int k = 0; k < 3; k++) {
        const uint16_t *w = t->start + k + 1;
        s.quad[k] = _mm256_set1_epi16((short)(t->start[4 * k + 4] - 1));
        s.within[k] =
            both(_mm_setr_epi16((short)(w[0] - 1), (short)(w[4] - 1), (short)(w[8] - 1), (short)(w[12] - 1), 0, 0, 0, 0));
    }
    bytes_of(t->freq, &s.freq_low, &s.freq_high);
    bytes_of(t->start, &s.start_low, &s.start_high);
    return s;
}

/* How many of three bounds are below each slot, as a negative number in both of its bytes. */
ALWAYS __m256i above(__m256i slot, __m256i a, __m256i b, __m256i c)
{
    return _mm256_add_epi8(_mm256_add_epi8(_mm256_cmpgt_epi16(slot, a), _mm256_cmpgt_epi16(slot, b)),
                           _mm256_cmpgt_epi16(slot, c));
}

/* The symbols of 16 slots, each in both bytes. */
ALWAYS __m256i find(const struct search *t, __m256i slot)
{
    __m256i quad = above(slot, t->quad[0], t->quad[1], t->quad[2]);
    __m256i twice = _mm256_add_epi8(quad, quad);
    __m256i i = _mm256_sub_epi8(_mm256_set1_epi16(0x100), twice);
    __m256i rest = above(slot, _mm256_shuffle_epi8(t->within[0], i), _mm256_shuffle_epi8(t->within[1], i),
                         _mm256_shuffle_epi8(t->within[2], i));
    rest = _mm256_add_epi8(rest, _mm256_add_epi8(twice, twice));
    return _mm256_sub_epi8(_mm256_setzero_si256(), rest);
}

/* 16 states back by one symbol each; the answer are the symbols. */
ALWAYS __m256i back_sixteen(const struct search *t, __m256i *a, __m256i *b)
{
    const __m256i slots = _mm256_set1_epi32(GW_RANS_ONE - 1), none = _mm256_setzero_si256();
    __m256i slot = _mm256_packus_epi32(_mm256_and_si256(*a, slots), _mm256_and_si256(*b, slots));
    __m256i s = find(t, slot);
    __m256i low = _mm256_or_si256(s, _mm256_set1_epi16((short)0x8000));
    __m256i high = _mm256_or_si256(s, _mm256_set1_epi16(0x80));
    __m256i f = _mm256_or_si256(_mm256_shuffle_epi8(t->freq_low, low), _mm256_shuffle_epi8(t->freq_high, high));
    __m256i start = _mm256_or_si256(_mm256_shuffle_epi8(t->start_low, low), _mm256_shuffle_epi8(t->start_high, high));
    __m256i past = _mm256_sub_epi16(slot, start);
    *a = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(*a, GW_RANS_BITS), _mm256_unpacklo_epi16(f, none)),
                          _mm256_unpacklo_epi16(past, none));
    *b = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(*b, GW_RANS_BITS), _mm256_unpackhi_epi16(f, none)),
                          _mm256_unpackhi_epi16(past, none));
    return s;
}

ALWAYS const uint8_t *words_in(__m256i *x, const uint8_t *words)
{
    __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(GW_RANS_LOW), *x);
    unsigned m = mask_of(low);
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)words));
    __m256i i = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)gw_bits_rank[m]));
    w = _mm256_or_si256(_mm256_slli_epi32(*x, 16), _mm256_permutevar8x32_epi32(w, i));
    *x = _mm256_blendv_epi8(*x, w, low);
    return words + 2 * __builtin_popcount(m);
}

/* One step; symbols of lanes 0..15 in s[0], of 16..31 in s[1], in the order of a pack. */
ALWAYS const uint8_t *step_back(const struct search *t, __m256i x[VECTORS], const uint8_t *words, __m256i s[2])
{
    s[0] = back_sixteen(t, &x[0], &x[1]);
    s[1] = back_sixteen(t, &x[2], &x[3]);
    UNROLL for (int v = 0; v < VECTORS; v++) words = words_in(&x[v], words);
    return words;
}

ALWAYS void codes_out(const __m256i low[2], const __m256i high[2], uint8_t *codes)
{
    __m256i a = _mm256_or_si256(low[0], _mm256_slli_epi16(high[0], 4));
    __m256i b = _mm256_or_si256(low[1], _mm256_slli_epi16(high[1], 4));
    a = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
    put(codes, _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

/* A run in registers, where the compiler finds room. */
struct live {
    __m256i x[VECTORS];
    const uint8_t *words;
};

ALWAYS struct live live_of(const struct gw_rans_run *run)
{
    struct live l = {.words = run->words};
    for (int v = 0; v < VECTORS; v++)
        l.x[v] = get(run->state + v * LANES);
    return l;
}

ALWAYS void back_to(struct gw_rans_run *run, const struct live *l)
{
    for (int v = 0; v < VECTORS; v++)
        put(run->state + v * LANES, l->x[v]);
    run->words = l->words;
}

/* Two steps. */
ALWAYS void row_back(const struct search *t, struct live *l, uint8_t *codes)
{
    __m256i low[2], high[2];
    l->words = step_back(t, l->x, l->words, low);
    l->words = step_back(t, l->x, l->words, high);
    codes_out(low, high, codes);
}

enum { ROW_WORDS = 2 * 2 * GW_RANS_LANES }; /* bytes that a row can take, and its loads may touch */

/* The rest of a run from row i on. */
static void decode_one(const struct gw_rans *t, const struct search *search, struct gw_rans_run *run, size_t i)
{
    struct live l = live_of(run);
    size_t rows = run->groups * STEPS / 2;
    for (; i < rows && run->limit - l.words >= ROW_WORDS; i++)
        row_back(search, &l, run->codes + i * GW_RANS_LANES);
    back_to(run, &l);
    gw_rans_rows(t, run, i, rows - i);
}

static size_t decode_both(const struct search *search, struct gw_rans_run *a, struct gw_rans_run *b)
{
    struct live m = live_of(a), n = live_of(b);
    size_t rows = (a->groups < b->groups ? a->groups : b->groups) * STEPS / 2, i = 0;
    for (; i < rows && a->limit - m.words >= ROW_WORDS && b->limit - n.words >= ROW_WORDS; i++) {
        __m256i low[4], high[4];
        m.words = step_back(search, m.x, m.words, low);
        n.words = step_back(search, n.x, n.words, low + 2);
        m.words = step_back(search, m.x, m.words, high);
        n.words = step_back(search, n.x, n.words, high + 2);
        codes_out(low, high, a->codes + i * GW_RANS_LANES);
        codes_out(low + 2, high + 2, b->codes + i * GW_RANS_LANES);
    }
    back_to(a, &m), back_to(b, &n);
    return i;
}

static void decode(const struct gw_rans *t, struct gw_rans_run *run, size_t runs)
{
    struct search search = search_of(t);
    size_t done = runs == 2 ? decode_both(&search, &run[0], &run[1]) : 0;
    for (size_t i = 0; i < runs; i++)
        decode_one(t, &search, &run[i], done);
}

static unsigned escapes(const uint8_t *codes, unsigned last)
{
    __m256i v = _mm256_set1_epi8((char)last), n = _mm256_setzero_si256();
    for (unsigned i = 0; i < GW_CODES_BYTES; i += 32) {
        __m256i c = get(codes + i);
        n = _mm256_sub_epi8(n, _mm256_cmpeq_epi8(_mm256_and_si256(c, v), v));
        n = _mm256_sub_epi8(n, _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_srli_epi16(c, 4), v), v));
    }
    n = _mm256_sad_epu8(n, _mm256_setzero_si256());
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    return (unsigned)(_mm_cvtsi128_si64(sum) + _mm_extract_epi64(sum, 1));
}

const struct gw_kern_rans gw_kern_rans_avx2 = {.encode = encode, .decode = decode, .escapes = escapes};
#endif
