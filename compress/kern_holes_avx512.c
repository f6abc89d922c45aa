/* kern_holes_avx512.c - the same as kern_holes_scalar.c, 64 bytes at a time.
 *
 * What is stored behind the last value that counts never passes the place that as many values without holes would have. */
#if defined(__x86_64__)
#include "planes_avx512.h"

#include "holes.h"

ALWAYS uint64_t some(unsigned width, __m512i v)
{
    return width == 4 ? _mm512_test_epi32_mask(v, v) : width == 2 ? _mm512_test_epi16_mask(v, v) : _mm512_test_epi8_mask(v, v);
}

ALWAYS __m512i press(unsigned width, uint64_t mask, __m512i v)
{
    return width == 4   ? _mm512_maskz_compress_epi32((__mmask16)mask, v)
           : width == 2 ? _mm512_maskz_compress_epi16((__mmask32)mask, v)
                        : _mm512_maskz_compress_epi8(mask, v);
}

ALWAYS __m512i spread(unsigned width, uint64_t mask, __m512i v)
{
    return width == 4   ? _mm512_maskz_expand_epi32((__mmask16)mask, v)
           : width == 2 ? _mm512_maskz_expand_epi16((__mmask32)mask, v)
                        : _mm512_maskz_expand_epi8(mask, v);
}

ALWAYS unsigned compact_all(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out)
{
    const unsigned bytes = 64 / width / 8;
    unsigned count = 0;
    for (unsigned i = 0; i < GW_MAP_BYTES / bytes; i++) {
        __m512i v = get(src + i * 64);
        uint64_t mask = some(width, v);
        put(out + count * width, press(width, mask, v));
        memcpy(map + i * bytes, &mask, bytes), count += ones(mask);
    }
    return count;
}

ALWAYS unsigned expand_all(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst)
{
    const unsigned bytes = 64 / width / 8;
    unsigned count = 0;
    for (unsigned i = 0; i < GW_MAP_BYTES / bytes; i++) {
        uint64_t mask = 0;
        memcpy(&mask, map + i * bytes, bytes);
        unsigned here = ones(mask);
        put(dst + i * 64, spread(width, mask, get_few(values + count * width, here * width)));
        count += here;
    }
    return count;
}

static unsigned compact(unsigned width, const uint8_t *src, uint8_t map[GW_MAP_BYTES], uint8_t *out)
{
    return width == 4   ? compact_all(4, src, map, out)
           : width == 2 ? compact_all(2, src, map, out)
                        : compact_all(1, src, map, out);
}

static unsigned expand(unsigned width, const uint8_t map[GW_MAP_BYTES], const uint8_t *values, uint8_t *dst)
{
    return width == 4   ? expand_all(4, map, values, dst)
           : width == 2 ? expand_all(2, map, values, dst)
                        : expand_all(1, map, values, dst);
}

const struct gw_kern_holes gw_kern_holes_avx512 = {.compact = compact, .expand = expand};
#endif
