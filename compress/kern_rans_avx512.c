/* kern_rans_avx512.c - the same bytes as kern_rans_scalar.c, 32 states in two vectors; as kern_rans_avx2.c, but a table of 16 is
 * one permute, and words are pressed together and spread by one instruction. */
#if defined(__x86_64__)
#include "planes_avx512.h"

#include "rans.h"

enum { STEPS = N / GW_RANS_LANES, LANES = 16 };

ALWAYS __m512i all(uint32_t v)
{
    return _mm512_set1_epi32((int)v);
}

/* ---- encode ---- */

/* The upper half of the product of each lane. */
ALWAYS __m512i product_high(__m512i a, __m512i b)
{
    __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    return _mm512_mask_mov_epi32(even, 0xaaaa, odd);
}

/* The low halves of the lanes that the mask names, one after the other, down from `end`. */
ALWAYS uint8_t *words_out(__m512i x, __mmask16 m, uint8_t *end)
{
    unsigned n = ones(m);
    __m256i words = _mm256_maskz_compress_epi16(m, _mm512_cvtepi32_epi16(x));
    end -= 2 * n;
    _mm256_mask_storeu_epi16(end, (__mmask16)first_bits(n), words);
    return end;
}

ALWAYS uint8_t *code_sixteen(__m512i reciprocal, __m512i step, __m512i s, __m512i *x, uint8_t *end)
{
    __m512i p = _mm512_permutexvar_epi32(s, step), f = _mm512_and_si512(p, all(0xfff));
    __mmask16 keep = _mm512_cmpgt_epi32_mask(_mm512_slli_epi32(f, 19), *x);
    end = words_out(*x, (__mmask16)~keep, end);
    __m512i v = _mm512_mask_mov_epi32(_mm512_srli_epi32(*x, 16), keep, *x);
    __m512i q = product_high(v, _mm512_permutexvar_epi32(s, reciprocal));
    q = _mm512_mullo_epi32(_mm512_srlv_epi32(q, _mm512_srli_epi32(p, 28)), _mm512_sub_epi32(all(GW_RANS_ONE), f));
    __m512i bias = _mm512_and_si512(_mm512_srli_epi32(p, 12), all(0x1fff));
    *x = _mm512_add_epi32(_mm512_add_epi32(v, bias), q);
    return end;
}

static uint8_t *encode(const struct gw_rans *t, uint32_t state[GW_RANS_LANES], const uint8_t *codes, size_t groups,
                       uint8_t *end)
{
    __m512i reciprocal = get(t->reciprocal), step = get(t->step), a = get(state), b = get(state + LANES);
    for (size_t i = groups * STEPS / 2; i-- > 0;) {
        const uint8_t *row = codes + i * GW_RANS_LANES;
        __m512i first = _mm512_cvtepu8_epi32(get16(row)), second = _mm512_cvtepu8_epi32(get16(row + LANES));
        end = code_sixteen(reciprocal, step, _mm512_srli_epi32(second, 4), &b, end);
        end = code_sixteen(reciprocal, step, _mm512_srli_epi32(first, 4), &a, end);
        end = code_sixteen(reciprocal, step, _mm512_and_si512(second, all(15)), &b, end);
        end = code_sixteen(reciprocal, step, _mm512_and_si512(first, all(15)), &a, end);
    }
    put(state, a), put(state + LANES, b);
    return end;
}

/* ---- decode ---- */

/* Bounds are one less than where a symbol starts: a slot above it has reached the symbol. */
struct search {
    __m512i quad[3], within[3]; /* of symbols 4, 8, 12; of 4h + 1..3, by h */
    __m512i freq, start;
};

ALWAYS struct search search_of(const struct gw_rans *t)
{
    struct search s;
    for (int k = 0; k < 3; k++) {
        uint16_t bounds[32] = {0};
        for (int h = 0; h < 4; h++)
            bounds[h] = (uint16_t)(t->start[4 * h + k + 1] - 1);
        s.quad[k] = _mm512_set1_epi16((short)(t->start[4 * k + 4] - 1));
        s.within[k] = get(bounds);
    }
    s.freq = _mm512_inserti64x4(_mm512_setzero_si512(), get32(t->freq), 0);
    s.start = _mm512_inserti64x4(_mm512_setzero_si512(), get32(t->start), 0);
    return s;
}

/* 1 in each lane whose slot is above the bound. */
ALWAYS __m512i above(__m512i slot, __m512i bound)
{
    return _mm512_srli_epi16(_mm512_sub_epi16(bound, slot), 15);
}

ALWAYS __m512i above_three(__m512i slot, __m512i a, __m512i b, __m512i c)
{
    return _mm512_add_epi16(_mm512_add_epi16(above(slot, a), above(slot, b)), above(slot, c));
}

/* The symbols of 32 slots. */
ALWAYS __m512i find(const struct search *t, __m512i slot)
{
    __m512i h = above_three(slot, t->quad[0], t->quad[1], t->quad[2]);
    __m512i rest = above_three(slot, _mm512_permutexvar_epi16(h, t->within[0]), _mm512_permutexvar_epi16(h, t->within[1]),
                               _mm512_permutexvar_epi16(h, t->within[2]));
    return _mm512_add_epi16(_mm512_slli_epi16(h, 2), rest);
}

ALWAYS __m512i back(__m512i x, __m256i f, __m256i past)
{
    x = _mm512_mullo_epi32(_mm512_srli_epi32(x, GW_RANS_BITS), _mm512_cvtepu16_epi32(f));
    return _mm512_add_epi32(x, _mm512_cvtepu16_epi32(past));
}

ALWAYS const uint8_t *words_in(__m512i *x, const uint8_t *words)
{
    __mmask16 m = _mm512_cmpgt_epi32_mask(all(GW_RANS_LOW), *x);
    __m512i w = _mm512_cvtepu16_epi32(_mm256_maskz_expand_epi16(m, get32(words)));
    *x = _mm512_mask_or_epi32(*x, m, _mm512_slli_epi32(*x, 16), w);
    return words + 2 * ones(m);
}

/* A run in registers. */
struct live {
    __m512i a, b;
    const uint8_t *words;
};

/* One step; the answer are the symbols. */
ALWAYS __m512i step_back(const struct search *t, struct live *l)
{
    __m512i slot = _mm512_and_si512(low_words(l->a, l->b), _mm512_set1_epi16(GW_RANS_ONE - 1)), s = find(t, slot);
    __m512i f = _mm512_permutexvar_epi16(s, t->freq), past = _mm512_sub_epi16(slot, _mm512_permutexvar_epi16(s, t->start));
    l->a = back(l->a, _mm512_castsi512_si256(f), _mm512_castsi512_si256(past));
    l->b = back(l->b, _mm512_extracti64x4_epi64(f, 1), _mm512_extracti64x4_epi64(past, 1));
    l->words = words_in(&l->a, l->words);
    l->words = words_in(&l->b, l->words);
    return s;
}

ALWAYS void codes_out(__m512i low, __m512i high, uint8_t *codes)
{
    __m512i both = _mm512_or_si512(low, _mm512_slli_epi16(high, 4));
    _mm256_storeu_si256((void *)codes, _mm512_cvtepi16_epi8(both));
}

ALWAYS struct live live_of(const struct gw_rans_run *run)
{
    return (struct live){.a = get(run->state), .b = get(run->state + LANES), .words = run->words};
}

ALWAYS void back_to(struct gw_rans_run *run, const struct live *l)
{
    put(run->state, l->a), put(run->state + LANES, l->b);
    run->words = l->words;
}

enum { ROW_WORDS = 2 * 2 * GW_RANS_LANES }; /* bytes that a row can take, and its loads may touch */

/* The rest of a run from row i on. */
static void decode_one(const struct gw_rans *t, const struct search *search, struct gw_rans_run *run, size_t i)
{
    struct live l = live_of(run);
    size_t rows = run->groups * STEPS / 2;
    for (; i < rows && run->limit - l.words >= ROW_WORDS; i++) {
        __m512i low = step_back(search, &l), high = step_back(search, &l);
        codes_out(low, high, run->codes + i * GW_RANS_LANES);
    }
    back_to(run, &l);
    gw_rans_rows(t, run, i, rows - i);
}

static size_t decode_both(const struct search *search, struct gw_rans_run *a, struct gw_rans_run *b)
{
    struct live m = live_of(a), n = live_of(b);
    size_t rows = (a->groups < b->groups ? a->groups : b->groups) * STEPS / 2, i = 0;
    for (; i < rows && a->limit - m.words >= ROW_WORDS && b->limit - n.words >= ROW_WORDS; i++) {
        __m512i low_m = step_back(search, &m), low_n = step_back(search, &n);
        __m512i high_m = step_back(search, &m), high_n = step_back(search, &n);
        codes_out(low_m, high_m, a->codes + i * GW_RANS_LANES);
        codes_out(low_n, high_n, b->codes + i * GW_RANS_LANES);
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
    unsigned n = 0;
    for (unsigned i = 0; i < GW_CODES_BYTES; i += 64) {
        __m512i c = get(codes + i), v = byte((int)last), upper = _mm512_srli_epi16(c, 4);
        n += ones(_mm512_cmpeq_epi8_mask(_mm512_and_si512(c, v), v)) + ones(_mm512_cmpeq_epi8_mask(_mm512_and_si512(upper, v), v));
    }
    return n;
}

const struct gw_kern_rans gw_kern_rans_avx512 = {.encode = encode, .decode = decode, .escapes = escapes};
#endif
