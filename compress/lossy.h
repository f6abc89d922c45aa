/* lossy.h - what the lossy codecs share: the shape of their payloads, and their inner loops as a family of gw_kern.
 *
 * All of them do the same to each block of f32: prepare (add the residual), find a scale, code, and, where there is a
 * residual, decode again and keep what is left.  They differ in block, bits and scale alone, which is what a plan says.
 * The bytes are drawn in FORMAT.md. */
#ifndef GW_COMPRESS_LOSSY_H
#define GW_COMPRESS_LOSSY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gradwire/codec.h>

#include "f32.h"

struct gw_frame;

/* How a value becomes a code. */
enum gw_code {
    GW_CODE_BF16,
    GW_CODE_F16,
    GW_CODE_E4M3,
    GW_CODE_E5M2,
    GW_CODE_INT8,
    GW_CODE_INT4,
    GW_CODE_INT16,
    GW_CODE_INT32,
    GW_CODE_TWO,
    GW_CODE_SIGN,
    GW_CODE_F32, /* no code: a block as it is */
    GW_CODE_COUNT
};

enum {
    GW_LOSSY_TILE = GW_TILE_BYTES / 4, /* values */
    GW_LOSSY_BLOCK_MAX = 1024,
    GW_LOSSY_SCALES_MAX = GW_LOSSY_TILE / 64 /* of a tile */
};

#define GW_F32_LEVELS_TINY (37u << 23) /* 2^-90: a common maximum below it is none */
#define GW_F32_SCALE_LEAST (17u << 23) /* 2^-110: no scale of an encoder is below it */

/* Inner loops over f32 in memory of any alignment.  n is a multiple of the code's unit and of 32; `chance` is NULL (round to
 * nearest even) or a number for each value.  A subnormal that is read counts as a zero of its sign; what arithmetic makes
 * is +0 where its exponent is 0, and GW_F32_NAN where it is a NaN: so modes that flush to zero, and machines with other
 * NaNs, change no byte. */
struct gw_code_kern {
    /* acc / scale, at most `most` in magnitude, to codes, and back.  scale and most mean nothing to conversions. */
    void (*code)(const uint8_t *acc, const uint32_t *chance, size_t n, float scale, float most, uint8_t *out);
    void (*value)(const uint8_t *in, size_t n, float scale, uint8_t *out);
    /* dst + by * value: a product, then a sum; by is no subnormal */
    void (*add)(const uint8_t *in, size_t n, float scale, float by, uint8_t *dst);
    /* acc - value; 0 where acc is Inf or NaN */
    void (*remain)(const uint8_t *in, size_t n, float scale, const uint8_t *acc, uint8_t *residual);
};

struct gw_kern_lossy {
    /* the largest magnitude, as bits */
    uint32_t (*largest)(const uint8_t *src, size_t n);
    /* acc = src + residual; answers the largest magnitude */
    uint32_t (*join)(const uint8_t *src, const uint8_t *residual, size_t n, uint8_t *acc);
    /* the hash of (seed, first + i): the upper half of the index picks two keys, gw_chance_at, the lower goes between them */
    void (*chance)(uint64_t seed, uint64_t first, size_t n, uint32_t *out);
    /* of the magnitudes: 32 strided partial sums, folded in halves */
    float (*sum)(const uint8_t *acc, size_t n);
    const struct gw_code_kern *codes[GW_CODE_COUNT];
};

extern const struct gw_kern_lossy gw_kern_lossy_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_lossy gw_kern_lossy_avx2, gw_kern_lossy_avx512;
#endif

/* What a codec and its parameters make of a chunk. */
struct gw_plan {
    enum gw_code code;
    uint16_t block; /* values */
    uint8_t bits;   /* of a code; 0: nothing is sent */
    uint8_t scaled; /* a scale per block, and blocks with Inf or NaN as they are; else one scale for all */
    uint8_t finite; /* a chunk with Inf or NaN is not coded */
    uint16_t unit;  /* codes of a short block are padded to this many values */
    float scale;    /* unless scaled */
    float most;
    uint32_t count; /* unless scaled: what the frame's count must be */
};

/* The scratch of a call.  Distances of a power of two would make loads wait for stores that are none of theirs. */
enum { GW_LOSSY_WS_BLOCK = 4 * GW_LOSSY_BLOCK_MAX + 320 };
struct gw_lossy_ws {
    uint8_t acc[GW_LOSSY_WS_BLOCK], val[GW_LOSSY_WS_BLOCK], codes[GW_LOSSY_WS_BLOCK];
    uint8_t src[GW_LOSSY_WS_BLOCK], residual[GW_LOSSY_WS_BLOCK];
    uint32_t chance[GW_LOSSY_BLOCK_MAX];
};

/* What encode does with c, what decode does with a head; 0 when they cannot be. */
int gw_plan_encode(unsigned codec, const struct gw_coding *c, struct gw_plan *p);
int gw_plan_decode(const struct gw_frame *f, size_t raw, struct gw_plan *p);

/* Bytes of the codes of so many values of one block, of a whole tile with its scales, and of what stands before the raw
 * blocks of a chunk of `values`. */
size_t gw_plan_codes(const struct gw_plan *p, size_t values);
size_t gw_plan_tile(const struct gw_plan *p, size_t values);
size_t gw_plan_fixed(const struct gw_plan *p, size_t values);

/* A raw block begins where its codes would stand and goes on behind all tiles: how much of it does either. */
size_t gw_plan_head(const struct gw_plan *p, size_t values);
size_t gw_plan_rest(const struct gw_plan *p, size_t values);

size_t gw_lossy_bound(unsigned codec, size_t src_len, const struct gw_coding *c);
gw_err gw_lossy_encode(unsigned codec, const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap,
                       size_t *dst_len, uint32_t *count_p, void *ws);
gw_err gw_lossy_decode(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws);
gw_err gw_lossy_decode_add(const struct gw_frame *f, const void *src, float *dst, size_t dst_len, float scale, void *ws);
#endif
