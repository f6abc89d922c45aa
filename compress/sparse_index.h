/* sparse_index.h - how the indices of a set are written: what the parts of the sparse frame share. */
#ifndef GW_COMPRESS_SPARSE_INDEX_H
#define GW_COMPRESS_SPARSE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/sparse.h>

#include "kern_sparse.h"

/* Indices in an array, between `in` and `len` on the wire. */
struct gw_index_plan {
    uint64_t bytes;   /* of the index part; GW_INDEX_NEVER: cannot be written so */
    uint64_t escapes; /* counts that do not fit their byte */
};
#define GW_INDEX_NEVER UINT64_MAX

/* log2 of a block's coordinates, 0 for codings without counted blocks */
unsigned gw_index_log(unsigned kind);

/* By counted blocks: U16 and the EFs. */
void gw_sparse_blocks_plan(const struct gw_kern_sparse *kern, const uint32_t *index, size_t n, uint64_t space,
                    struct gw_index_plan plan[GW_INDEX_COUNT]);
uint64_t gw_sparse_blocks_bound(unsigned kind, uint64_t n, uint64_t space);
void gw_sparse_blocks_write(const struct gw_kern_sparse *kern, unsigned kind, const struct gw_index_plan *plan,
                     const uint32_t *index, size_t n, uint64_t space, uint8_t *out);
/* 1 when `len` bytes are exactly n ascending indices of the space; `readable` of them may be looked at. */
int gw_sparse_blocks_read(const struct gw_kern_sparse *kern, unsigned kind, const uint8_t *in, size_t len, size_t readable,
                   uint64_t space, uint32_t *index, size_t n);

uint64_t gw_runs_plan(const uint32_t *index, size_t n, uint64_t space);
void gw_runs_write(const uint32_t *index, size_t n, uint64_t bytes, uint8_t *out);
int gw_runs_read(const uint8_t *in, size_t len, uint64_t space, uint32_t *index, size_t n);

void gw_seeded(uint64_t seed, uint64_t space, uint32_t count, uint32_t *index);

/* The whole index part of any kind. */
gw_err gw_index_plan(const struct gw_kern_sparse *kern, const struct gw_sparse *s, const uint32_t *index, size_t n,
                     unsigned *kind_p, struct gw_index_plan *plan_p);
uint64_t gw_index_bound(const struct gw_sparse *s, uint64_t n);
void gw_index_write(const struct gw_kern_sparse *kern, unsigned kind, const struct gw_index_plan *plan,
                    const uint32_t *index, size_t n, uint64_t space, uint8_t *out);
int gw_index_read(const struct gw_kern_sparse *kern, const struct gw_sparse *s, const uint8_t *in, size_t len,
                  size_t readable, uint32_t *index, size_t n);

/* The values part. */
uint64_t gw_values_bound(unsigned kind, uint64_t n);
uint64_t gw_values_bytes(const struct gw_kern_sparse *kern, unsigned kind, const float *value, size_t n);
void gw_values_write(const struct gw_kern_sparse *kern, unsigned kind, const float *value, size_t n, uint8_t *out);
int gw_values_read(const struct gw_kern_sparse *kern, unsigned kind, const uint8_t *in, size_t len, float *value, size_t n);
#endif
