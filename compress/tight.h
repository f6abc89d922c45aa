/* tight.h - the window of three exponents: 2 bits to a value, nibbles for what lies near, bytes for the rest.  The bytes are drawn
 * in FORMAT.md; group_encode.c and group_decode.c make tiles of such groups. */
#ifndef GW_COMPRESS_TIGHT_H
#define GW_COMPRESS_TIGHT_H

#include <stdint.h>

#include "kern.h"

enum {
    GW_TIGHT_CODES_BYTES = 64,
    GW_TIGHT_NEAR_MAX = 128, /* most nibbles */
    GW_TIGHT_ESCAPES = 64,   /* with so many bytes of escapes a window of 4 bits is as good */
    GW_TIGHT_OFFSETS = 4     /* so far below the top may the window begin */
};

/* The first byte of a group header, where it differs from the codec group's. */
enum {
    GW_TIGHT_KIND = 1,    /* 1..129: kind - 1 nibbles, no bytes */
    GW_TIGHT_WINDOW = 130, /* 130..252: a window of 4 bits with kind - 130 escapes */
    GW_TIGHT_LISTED = 253  /* nibbles and bytes, how many says the list */
};

/* A nibble is how far an exponent lies below base + 3; 3, 4, 5 would be the window's and mean something else. */
enum { GW_NEAR_ABOVE = 3, GW_NEAR_ZERO = 3, GW_NEAR_FAR = 4, GW_NEAR_NONE = 5, GW_NEAR_LAST = 15 };

struct gw_tight {
    uint8_t base;             /* the largest exponent of the window */
    unsigned near, far, zeros; /* nibbles, bytes, nibbles that stand for exponent 0 */
};

static inline unsigned gw_tight_escapes(unsigned near, unsigned far)
{
    return (near + 1) / 2 + far;
}

struct gw_kern_tight {
    /* Codes 256 values; NULL for views without.  0: a window of 4 bits is better (all exponents 0, or escapes, with two bytes of
     * list where there are far ones, take GW_TIGHT_ESCAPES bytes).  body: room for codes and planes.  esc: room for 256 bytes. */
    int (*encode[GW_VIEW_COUNT])(const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t);
    /* Decodes.  near is at most GW_TIGHT_NEAR_MAX, far at most near, zeros is not read.  0 when codes ask for another number of
     * nibbles or nibbles for another number of bytes; never reads more than gw_tight_escapes() of esc. */
    int (*decode[GW_VIEW_COUNT])(const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst);
};

extern const struct gw_kern_tight gw_kern_tight_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_tight gw_kern_tight_avx2, gw_kern_tight_avx512;
#endif
#endif
