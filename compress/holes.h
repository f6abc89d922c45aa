/* holes.h - the values of a group that are not zero, and a bitmap of where they stand: bit j of byte k is value 8k + j. */
#ifndef GW_COMPRESS_HOLES_H
#define GW_COMPRESS_HOLES_H

#include <stdint.h>

#include "kern.h"

enum { GW_MAP_BYTES = GW_GROUP_VALUES / 8, GW_SPARSE_SLACK = 32 };

/* The width of a value is 1, 2 or 4 bytes. */
struct gw_kern_holes {
    /* Fills the map of 256 values at src, puts those that are not zero one after the other to out, which has room for 256
     * values and GW_SPARSE_SLACK bytes, and answers how many they are. */
    unsigned (*compact)(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out);
    /* Back, 256 values at dst; answers how many the map asked for.  `values` may be read to GW_SPARSE_SLACK bytes beyond them. */
    unsigned (*expand)(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst);
};

extern const struct gw_kern_holes gw_kern_holes_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_holes gw_kern_holes_avx2, gw_kern_holes_avx512;

/* For a mask of eight lanes: the lanes whose bits are set, in order (then zeros), and back: which of the lanes that were put
 * together each lane is, 0x80 where it is none. */
extern const uint64_t gw_lanes_taken[256], gw_lanes_given[256];
#endif
#endif
