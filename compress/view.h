/* view.h - what a sample of some bytes would cost in each view.  view.c takes the sample. */
#ifndef GW_COMPRESS_VIEW_H
#define GW_COMPRESS_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

/* Two cache lines that are neighbours: they come from memory together. */
enum { GW_LINE_BYTES = 128, GW_LINE_BITS = 8 * GW_LINE_BYTES };

struct gw_kern_view {
    /* Adds to bits[v], for each v whose bit is set in `views`, what the line would cost in it: the window codes and planes of
     * its values, or a bit for each value and those of the values that are not zero; 8 bits for each exponent too far below
     * the line's largest; never more than the line has.  f32-that-holds-bf16 costs as f32 where a low half is not zero. */
    void (*costs)(const uint8_t *line, unsigned views, uint32_t bits[GW_VIEW_COUNT]);
};

extern const struct gw_kern_view gw_kern_view_scalar;
#if defined(__x86_64__)
extern const struct gw_kern_view gw_kern_view_avx2;
#endif

/* The price of `count` values of which `some` are not zero, at `each` bits, with so many escapes. */
static inline unsigned gw_line_price(unsigned count, unsigned some, unsigned each, unsigned escapes)
{
    unsigned dense = count * each, sparse = count + some * each, bits = (dense < sparse ? dense : sparse) + 8 * escapes;
    return bits < GW_LINE_BITS ? bits : GW_LINE_BITS;
}

/* Bits that a window takes for a value, escapes aside. */
enum { GW_PRICE_BYTES = 4, GW_PRICE_BF16 = 12, GW_PRICE_F32 = 28, GW_PRICE_F16 = 14 };

/* 1 when a sample of at most 4 KiB says that coding these bytes in this view makes them smaller. */
int gw_view_pays(enum gw_view view, const void *src, size_t len);
#endif
