/* kern_zero_scalar.c - the meaning of the zero codec's loops, one word at a time. */
#include <base/bytes.h>

#include "zero.h"

static size_t map_of(const uint8_t *src, size_t units, size_t width, uint8_t *map)
{
    size_t count = 0;
    for (size_t u = 0; u < units; u++) {
        map[u] = 0;
        for (unsigned i = 0; i < GW_ZERO_UNIT; i++, src += width) {
            int full = !gw_zero(src, width);
            map[u] |= (uint8_t)(full << i);
            count += (size_t)full;
        }
    }
    return count;
}

static uint8_t *pack(const uint8_t *src, size_t width, const struct gw_zero_units *u, uint8_t *out)
{
    const uint8_t *byte = u->bytes;
    for (size_t i = 0; i < 64 * u->rows; i++, src += width * GW_ZERO_UNIT)
        if (u->level[i / 8] >> i % 8 & 1)
            out = gw_zero_press(width, src, *byte++, out);
    return out;
}

static const uint8_t *unpack(const uint8_t *words, size_t width, const struct gw_zero_units *u, uint8_t *dst)
{
    const uint8_t *byte = u->bytes;
    for (size_t i = 0; i < 64 * u->rows; i++, dst += width * GW_ZERO_UNIT)
        if (u->level[i / 8] >> i % 8 & 1)
            words = gw_zero_spread(width, words, *byte++, dst);
    return words;
}

#define COPY(width)                                                                                                            \
    static size_t map##width(const uint8_t *src, size_t units, uint8_t *map)                                                   \
    {                                                                                                                          \
        return map_of(src, units, width, map);                                                                                 \
    }                                                                                                                          \
    static uint8_t *pack##width(const uint8_t *src, const struct gw_zero_units *u, uint8_t *out, const uint8_t *end)           \
    {                                                                                                                          \
        (void)end;                                                                                                             \
        return pack(src, width, u, out);                                                                                       \
    }                                                                                                                          \
    static const uint8_t *unpack##width(const uint8_t *words, const uint8_t *end, const struct gw_zero_units *u, uint8_t *dst) \
    {                                                                                                                          \
        (void)end;                                                                                                             \
        return unpack(words, width, u, dst);                                                                                   \
    }
COPY(2)
COPY(4)

const struct gw_kern_zero gw_kern_zero_scalar = {.map = {map2, map4}, .pack = {pack2, pack4}, .unpack = {unpack2, unpack4}};
