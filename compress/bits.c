/* bits.c - the tables of bits.h, worked out by the compiler. */
#include "bits.h"

#define BELOW(m, i) __builtin_popcount((m) & ((1u << (i)) - 1))
#define ABOVE(m, i) __builtin_popcount((m) >> ((i) + 1))
#define IS(m, i) ((uint64_t)((m) >> (i)&1))

#define LOW(m, i) (IS(m, i) * (i) << 8 * BELOW(m, i))
#define HIGH(m, i) (IS(m, i) * (i) << 8 * (7 - ABOVE(m, i)))
#define RANK(m, i) ((uint64_t)BELOW(m, i) << 8 * (i))

#define ROW(f, m) (f(m, 0u) | f(m, 1u) | f(m, 2u) | f(m, 3u) | f(m, 4u) | f(m, 5u) | f(m, 6u) | f(m, 7u))
#define ROWS4(f, m) ROW(f, m), ROW(f, (m) + 1u), ROW(f, (m) + 2u), ROW(f, (m) + 3u)
#define ROWS16(f, m) ROWS4(f, m), ROWS4(f, (m) + 4u), ROWS4(f, (m) + 8u), ROWS4(f, (m) + 12u)
#define ROWS64(f, m) ROWS16(f, m), ROWS16(f, (m) + 16u), ROWS16(f, (m) + 32u), ROWS16(f, (m) + 48u)
#define ROWS256(f) ROWS64(f, 0u), ROWS64(f, 64u), ROWS64(f, 128u), ROWS64(f, 192u)

const uint64_t gw_bits_low[256] = {ROWS256(LOW)};
const uint64_t gw_bits_high[256] = {ROWS256(HIGH)};
const uint64_t gw_bits_rank[256] = {ROWS256(RANK)};
