/* rans.h - 16 symbols by 32 interleaved rANS states: one lane of a warp is one state.
 *
 * A state x stands in [2^15, 2^31).  Coding symbol s of frequency f, of 4096 in all, and with
 * `start` the sum of the frequencies before it: while x >= f 2^19, its low 16 bits become a word and
 * x = x / 2^16; then x = x / f 4096 + start + x mod f.  Decoding undoes it.  Value i of a group
 * belongs to state i mod 32; the encoder goes backwards, so that the decoder reads words upwards:
 * those of one step of 32 values in the order of the states. */
#ifndef GW_COMPRESS_RANS_H
#define GW_COMPRESS_RANS_H

#include <stddef.h>
#include <stdint.h>

enum {
    GW_RANS_SYMBOLS = 16,
    GW_RANS_BITS = 12,
    GW_RANS_ONE = 1 << GW_RANS_BITS,
    GW_RANS_LANES = 32,
    GW_RANS_LOW = 1 << 15, /* where every state starts and must end */
    GW_RANS_SLACK = 16     /* bytes before its words that encode may overwrite */
};
#define GW_RANS_HIGH (1u << 31)

/* Frequencies and what follows from them. */
struct gw_rans {
    uint16_t freq[GW_RANS_SYMBOLS], start[GW_RANS_SYMBOLS];
    /* x / f is (x * reciprocal >> 32) >> shift, and the next state x + bias + x / f (4096 - f); for
     * f = 1, which has no such reciprocal, with a bias that makes up for a quotient of x - 1 */
    uint32_t reciprocal[GW_RANS_SYMBOLS];
    uint32_t step[GW_RANS_SYMBOLS]; /* shift << 28 | bias << 12 | f */
    uint8_t symbol[GW_RANS_ONE];    /* of each slot */
};

/* 0 unless all are at least 1 and their sum is 4096. */
int gw_rans_make(struct gw_rans *t, const uint16_t freq[GW_RANS_SYMBOLS]);

/* Frequencies for symbols that were seen so often; each gets at least 1. */
void gw_rans_scale(const uint32_t seen[GW_RANS_SYMBOLS], uint16_t freq[GW_RANS_SYMBOLS]);

/* What one block's states read: `codes` gets groups of 128 bytes of two codes each, as group has
 * them. */
struct gw_rans_run {
    uint32_t *state;
    const uint8_t *words, *limit; /* nothing at limit or beyond is read */
    uint8_t *codes;
    size_t groups;
};

struct gw_kern_rans {
    /* Writes words downwards from `end`, and answers where they begin; before them there is room
     * for one per value and for the slack. */
    uint8_t *(*encode)(const struct gw_rans *t, uint32_t state[GW_RANS_LANES], const uint8_t *codes, size_t groups,
                       uint8_t *end);
    /* One run or two, side by side: a step waits for the one before, and the other run fills the
     * time.  `words` becomes where the words that were read end, NULL where they would not end at or
     * before `limit`.  Every state is in its range before and after.  Hostile words give some
     * codes. */
    void (*decode)(const struct gw_rans *t, struct gw_rans_run *run, size_t runs);
    /* How many of a group's codes are `last` in the bits of `last`. */
    unsigned (*escapes)(const uint8_t *codes, unsigned last);
};

extern const struct gw_kern_rans gw_kern_rans_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_rans gw_kern_rans_avx2, gw_kern_rans_avx512;
#endif

/* The scalar decode of so many rows of 32 bytes, two steps each, from row `from`: for what a vector
 * may not load. */
void gw_rans_rows(const struct gw_rans *t, struct gw_rans_run *run, size_t from, size_t rows);
#endif
