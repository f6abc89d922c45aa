/* zero.h - the inner loops of the zero codec: words of 2 or 4 bytes that are 0 are left out.
 *
 * A unit is 8 words.  Its byte of the map has a 1 for each word that is not 0. */
#ifndef GW_COMPRESS_ZERO_H
#define GW_COMPRESS_ZERO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gradwire/codec.h>

enum {
    GW_ZERO_UNIT = 8,                    /* words of a unit */
    GW_ZERO_MAP = GW_TILE_BYTES / 2 / 8, /* most units of a tile: words of 2 bytes */
    GW_ZERO_LEVEL = GW_ZERO_MAP / 8      /* one bit for each of them */
};

/* Units of a tile that hold anything: a bit each in `level`, which ends with zeros up to a multiple of 8
 * bytes, and their bytes of the map one after the other. */
struct gw_zero_units {
    const uint8_t *level, *bytes;
    size_t rows; /* level, in 8 bytes */
};

/* Each has a loop per width: [0] 2 bytes, [1] 4 bytes. */
struct gw_kern_zero {
    /* Sets a byte of the map per unit and answers how many words are not 0. */
    size_t (*map[2])(const uint8_t *src, size_t units, uint8_t *map);
    /* Puts the words that are not 0 one after the other, and answers where they end; writes nothing
     * at `end` or beyond, before which all have room. */
    uint8_t *(*pack[2])(const uint8_t *src, const struct gw_zero_units *u, uint8_t *out, const uint8_t *end);
    /* Puts them back into dst, where units without any are not touched, and answers where those
     * that it took end; reads nothing at `end` or beyond, before which all stand. */
    const uint8_t *(*unpack[2])(const uint8_t *words, const uint8_t *end, const struct gw_zero_units *u, uint8_t *dst);
};

/* One unit of pack and of unpack, a word at a time. */
static inline uint8_t *gw_zero_press(size_t width, const uint8_t *src, unsigned m, uint8_t *out)
{
    for (unsigned i = 0; i < GW_ZERO_UNIT; i++)
        if (m >> i & 1)
            memcpy(out, src + i * width, width), out += width;
    return out;
}

static inline const uint8_t *gw_zero_spread(size_t width, const uint8_t *words, unsigned m, uint8_t *dst)
{
    memset(dst, 0, GW_ZERO_UNIT * width);
    for (unsigned i = 0; i < GW_ZERO_UNIT; i++)
        if (m >> i & 1)
            memcpy(dst + i * width, words, width), words += width;
    return words;
}

extern const struct gw_kern_zero gw_kern_zero_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_zero gw_kern_zero_avx2;
#endif
#endif
