/* sparse.h - sets of coordinates of a dense space: coded, decoded, joined, added to dense memory.
 *
 * A set is two arrays of one length: indices that ascend strictly, each below `space`, and their f32 values.  An index that
 * stands twice is no set and is refused wherever a set is asked for, so nothing has to say which of two values counts; whoever
 * has lists with duplicates merges them, which adds.  A set may be empty.
 *
 * All memory is lent, nothing is kept, any thread.  The bytes are drawn in compress/FORMAT.md: one frame per set, codec id 32,
 * the same set gives the same bytes on every machine. */
#ifndef GRADWIRE_SPARSE_H
#define GRADWIRE_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Id of these frames.  gw_codec_by_id does not know it: a set is no array of bytes, and gw_frame_decode says GW_E_NOSYS. */
enum { GW_CODEC_SPARSE = 32 };

/* How the indices are written.  Numbers are on the wire and for ever. */
enum gw_sparse_index {
    GW_INDEX_BITMAP = 0, /* one bit per coordinate of the space */
    GW_INDEX_U16 = 1,    /* 16 bits per entry, by blocks of 65536 coordinates */
    GW_INDEX_RUNS = 2,   /* runs of blocks of 256 coordinates; only for sets of whole blocks */
    GW_INDEX_EF12 = 3,   /* Elias-Fano by blocks of 4096, 65536 and 1048576 coordinates */
    GW_INDEX_EF16 = 4,
    GW_INDEX_EF20 = 5,
    GW_INDEX_SEED = 6, /* nothing: the indices are those of gw_sparse_seeded */
    GW_INDEX_COUNT,
    GW_INDEX_BEST = 255 /* encode only: the smallest of all but SEED; among equals the lowest number */
};

/* How the values are written. */
enum gw_sparse_value {
    GW_VALUE_F32 = 0,  /* every bit */
    GW_VALUE_BF16 = 1, /* nearest even */
    GW_VALUE_INT8 = 2, /* blocks of 256 entries, 1/127 of the block's largest magnitude; with Inf or NaN they stay f32 */
    GW_VALUE_MEAN = 3, /* one number for all: their mean */
    GW_VALUE_COUNT
};

enum { GW_SPARSE_CHECK = 1 /* the frame carries a checksum of its payload */ };

struct gw_sparse {
    uint32_t size;  /* sizeof(struct gw_sparse) */
    uint8_t index;  /* enum gw_sparse_index */
    uint8_t value;  /* enum gw_sparse_value */
    uint16_t flags; /* GW_SPARSE_* */
    uint64_t space; /* 1 .. 2^32 coordinates */
    uint64_t seed;  /* GW_INDEX_SEED, else 0 */
};

/* The largest frame, head included, that so many entries may take; 0 where s is not valid. */
GW_API uint64_t gw_sparse_bound(const struct gw_sparse *s, uint32_t count);

/* Codes a set into one frame.  With GW_INDEX_SEED `index` is not read.  GW_RAW: the frame does not fit dst_cap or 2^32 - 1
 * bytes of payload, dst is meaningless; who wants no growth passes the size of the dense values.  GW_E_ARG: s is not valid,
 * the indices are no set in the space, or GW_INDEX_RUNS was asked for a set that is not made of whole blocks. */
GW_API gw_err gw_sparse_encode(const struct gw_sparse *s, const uint32_t *index, const float *value, uint32_t count,
                               void *dst, size_t dst_cap, size_t *dst_len);

/* What a frame says of itself, from hostile bytes, without decoding it. */
GW_API gw_err gw_sparse_read(const void *in, size_t in_len, struct gw_sparse *s_p, uint32_t *count_p);

/* Decodes a frame, from hostile bytes, into a set of at most cap entries of a space that both ends know.  GW_E_CORRUPT (also
 * for another space), GW_E_CHECK, GW_E_LIMIT when cap is too small; the arrays are meaningless then.  Nothing beyond the
 * count that the frame names is written. */
GW_API gw_err gw_sparse_decode(const void *in, size_t in_len, uint64_t space, uint32_t *index, float *value, size_t cap,
                               uint32_t *count_p);

/* The indices that (seed, space, count) stand for: the space is cut into `count` equal parts and each gives one coordinate, by
 * a hash.  GW_E_ARG unless count <= space <= 2^32. */
GW_API gw_err gw_sparse_seeded(uint64_t seed, uint64_t space, uint32_t count, uint32_t *index);

/* The union of two sets: an index that both hold gets a + b, one f32 addition; the others keep their bits; a sum of 0 stays an
 * entry.  GW_E_LIMIT: the union is larger than cap.  GW_E_ARG: one of them is no set.  out may not overlap a or b. */
GW_API gw_err gw_sparse_merge(const uint32_t *a_index, const float *a_value, size_t a_count, const uint32_t *b_index,
                              const float *b_value, size_t b_count, uint32_t *index, float *value, size_t cap,
                              size_t *count_p);

/* dense[index[i]] += scale * value[i], a product and then a sum, in the order of i; dense[index[i]] = scale * value[i].  The
 * indices may stand in any order and more than once.  GW_E_ARG, and dense is as it was, when one is not below space. */
GW_API gw_err gw_sparse_add(float *dense, uint64_t space, const uint32_t *index, const float *value, size_t count,
                            float scale);
GW_API gw_err gw_sparse_store(float *dense, uint64_t space, const uint32_t *index, const float *value, size_t count,
                              float scale);

#ifdef __cplusplus
}
#endif
#endif
