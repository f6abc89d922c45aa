/* bits.h - what a byte of mask bits says, for kernels that press lanes together and spread them
 * again. */
#ifndef GW_COMPRESS_BITS_H
#define GW_COMPRESS_BITS_H

#include <stdint.h>

/* Eight bytes each, the first one lowest, for every mask of 8 bits. */
extern const uint64_t gw_bits_low[256];  /* the places of its 1 bits, upwards from byte 0 */
extern const uint64_t gw_bits_high[256]; /* the same, but the last of them in byte 7 */
extern const uint64_t gw_bits_rank[256]; /* byte i: how many of the bits below i are 1 */
#endif
