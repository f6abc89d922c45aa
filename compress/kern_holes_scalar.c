/* kern_holes_scalar.c - which values of a group are not zero, one value at a time. */
#include <string.h>

#include <base/bytes.h>

#include "holes.h"

enum { N = GW_GROUP_VALUES };

static unsigned compact(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out)
{
    unsigned count = 0;
    memset(map, 0, GW_MAP_BYTES);
    for (unsigned i = 0; i < N; i++) {
        if (gw_zero(src + i * width, width))
            continue;
        map[i / 8] |= (uint8_t)(1 << i % 8);
        memcpy(out + count++ * width, src + i * width, width);
    }
    return count;
}

static unsigned expand(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst)
{
    unsigned count = 0;
    memset(dst, 0, (size_t)N * width);
    for (unsigned i = 0; i < N; i++)
        if (map[i / 8] >> i % 8 & 1)
            memcpy(dst + i * width, values + count++ * width, width);
    return count;
}

const struct gw_kern_holes gw_kern_holes_scalar = {.compact = compact, .expand = expand};
