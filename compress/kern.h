/* kern.h - the inner loops of all codecs: one table per instruction set, each with a name.
 *
 * The scalar table is the meaning; every other table gives the same bytes for the same input.  A
 * kernel sees exactly one group of 256 values and trusts its arguments, except for what `decode`
 * says about escapes: those come from the wire. */
#ifndef GW_COMPRESS_KERN_H
#define GW_COMPRESS_KERN_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

enum {
    GW_GROUP_VALUES = 256,
    GW_CODES_BYTES = 128, /* 256 codes of 4 bits */
    GW_TILE_GROUPS = 64,  /* most groups of a tile: the bytes view */
    GW_GROUP_BYTES_MAX = 1024
};

/* The first byte of a group header; 1..253 is 1 + the number of escapes. */
enum {
    GW_KIND_ZERO = 0,
    GW_KIND_WINDOW = 1,
    GW_KIND_WINDOW_LAST = 253,
    GW_KIND_SPARSE = 254,
    GW_KIND_RAW = 255
};

/* What a view makes of one group. */
struct gw_view_shape {
    uint8_t width;    /* bytes of a value in memory */
    uint16_t body;    /* bytes of a window group, without its escapes */
    uint16_t raw;     /* bytes of a raw group */
    uint16_t escapes; /* more than these and raw is not longer */
    uint16_t zeros;   /* with fewer exponents that are 0 a sparse group gains too little to be tried */
};
extern const struct gw_view_shape gw_view_shapes[GW_VIEW_COUNT];

/* The parts of a bf16, or of the upper half of an f32. */
static inline uint8_t gw_exponent(unsigned v)
{
    return (uint8_t)(v >> 7);
}

static inline uint8_t gw_sign_mantissa(unsigned v)
{
    return (uint8_t)((v >> 8 & 0x80) | (v & 0x7f));
}

static inline uint16_t gw_join(unsigned e, unsigned sm)
{
    return (uint16_t)((sm & 0x80) << 8 | e << 7 | (sm & 0x7f));
}

struct gw_kern_view;
struct gw_kern_holes;
struct gw_kern_tight;
struct gw_kern_lossy;
struct gw_kern_sparse;
struct gw_kern_zero;
struct gw_kern_rans;

struct gw_kern {
    const char *name;
    int (*usable)(void);
    /* 1 when all n bytes are 0, and when the low half of each of the n / 4 u32 is */
    int (*zero)(const void *p, size_t n);
    int (*low_zero)(const void *p, size_t n);
    /* XXH3-64 */
    uint64_t (*hash)(const void *p, size_t n);
    /* Codes 256 values and answers the group's kind.  body: room for `raw` bytes, which hold
     * nothing of use after ZERO and RAW.  esc: room for 256 bytes, kind - 1 of them are set. *top_p
     * is 0 after ZERO and RAW.  *zeros_p: how many exponents are 0. */
    unsigned (*encode[GW_VIEW_COUNT])(const uint8_t *src, uint8_t *body, uint8_t *esc,
                                      uint8_t *top_p, unsigned *zeros_p);
    /* Decodes a window group.  0 when the codes ask for another number of escapes than n; never
     * reads more than n. */
    int (*decode[GW_VIEW_COUNT])(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n,
                                 uint8_t *dst);
    const struct gw_kern_view *view;     /* view.h */
    const struct gw_kern_holes *holes;   /* holes.h */
    const struct gw_kern_tight *tight;   /* tight.h */
    const struct gw_kern_lossy *lossy;   /* lossy.h */
    const struct gw_kern_sparse *sparse; /* kern_sparse.h */
    const struct gw_kern_rans *rans;     /* rans.h */
    const struct gw_kern_zero *zeros;    /* zero.h */
};

extern const struct gw_kern gw_kern_scalar;
#if defined(__x86_64__)
extern const struct gw_kern gw_kern_avx2, gw_kern_avx512;
/* The avx512 table has these too: from cold memory its own were slower by a tenth and more (gradwire bench). */
unsigned gw_avx2_encode_f32(const uint8_t *src, uint8_t *body, uint8_t *esc, uint8_t *top_p, unsigned *zeros_p);
int gw_avx2_decode_f32(const uint8_t *body, unsigned top, const uint8_t *esc, unsigned n, uint8_t *dst);
/* The same source as gw_kern_avx512, by libsimde's functions: in tests alone. */
extern const struct gw_kern gw_kern_avx512_simde __attribute__((weak, visibility("hidden")));
#endif

/* Walks all tables, best first, usable here or not; NULL ends it. */
const struct gw_kern *gw_kern_at(size_t i);

/* The table in use: the first usable one, found at the first call. */
const struct gw_kern *gw_kern_get(void);

/* For tests: use this table from now on in every thread; NULL goes back to the best. */
void gw_kern_force(const struct gw_kern *kern);
#endif
