/* check.h - gw_assert stays in release: only for states of ours that would put wrong bytes into user memory.  Nothing
 * from a peer, a file, the environment or the host may reach one. */
#ifndef GW_BASE_CHECK_H
#define GW_BASE_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define gw_assert(cond)                                                                             \
    do {                                                                                            \
        if (__builtin_expect(!(cond), 0)) {                                                         \
            fprintf(stderr, "gradwire: bug: %s:%d: %s; please report this line\n", __FILE__, __LINE__, #cond); \
            abort();                                                                                \
        }                                                                                           \
    } while (0)

#define GW_LEN(a) (sizeof(a) / sizeof(*(a)))
#define gw_likely(x) __builtin_expect(!!(x), 1)
#define gw_unlikely(x) __builtin_expect(!!(x), 0)

static inline uint64_t gw_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t gw_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
#endif
