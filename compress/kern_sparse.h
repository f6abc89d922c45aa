/* kern_sparse.h - the inner loops of sparse sets.  As in kern.h the scalar table is the meaning.
 *
 * A kernel trusts its arguments; what `read` functions find in the bytes they do not trust, also when it changes while they
 * read.  `room` is how many entries may be overwritten from `index` on: at least n, and a kernel may leave anything there. */
#ifndef GW_COMPRESS_KERN_SPARSE_H
#define GW_COMPRESS_KERN_SPARSE_H

#include <stddef.h>
#include <stdint.h>

enum { GW_SPARSE_BLOCK = 256 /* entries that share a scale */ };

struct gw_kern_sparse {
    /* 1 when the indices ascend strictly; when none is above last */
    int (*ascends)(const uint32_t *index, size_t n);
    int (*within)(const uint32_t *index, size_t n, uint32_t last);
    /* how many of n ascending indices are at most last */
    size_t (*span)(const uint32_t *index, size_t n, uint32_t last);

    /* One bit per coordinate from base on.  Writes (bits + 7) / 8 bytes. */
    void (*map_write)(const uint32_t *index, size_t n, uint32_t base, uint8_t *out, size_t bits);
    /* 0 unless exactly n bits are set and none beyond `bits` */
    int (*map_read)(const uint8_t *in, size_t bits, uint32_t base, uint32_t *index, size_t n, size_t room);

    /* One Elias-Fano block: n times `low` bits, then the unary rest, `bits` in all. */
    void (*ef_write)(const uint32_t *index, size_t n, uint32_t base, unsigned low, uint8_t *out, size_t bits);
    /* 0 unless the unary part has exactly n ones and nothing stands beyond `bits`.  readable: bytes from `in` on, at least
     * those of the block.  The order of the indices is not judged. */
    int (*ef_read)(const uint8_t *in, size_t readable, size_t bits, unsigned low, uint32_t base, uint32_t *index, size_t n,
                   size_t room);

    void (*bf16_write)(const float *value, size_t n, uint8_t *out);
    void (*bf16_read)(const uint8_t *in, size_t n, float *value);
    /* The largest magnitude of n values as bits without sign. */
    uint32_t (*top)(const float *value, size_t n);
    /* The nearest even of value / scale, clamped to +-127. */
    void (*int8_write)(const float *value, size_t n, float scale, uint8_t *out);
    /* 0 when a code is -128 */
    int (*int8_read)(const uint8_t *in, size_t n, float scale, float *value);
    /* The sum by 32 partial sums, magnitudes below 2^-100 as zero. */
    float (*sum)(const float *value, size_t n);
};

extern const struct gw_kern_sparse gw_kern_sparse_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_sparse gw_kern_sparse_avx2;
#endif
#endif
