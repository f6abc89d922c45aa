/* kern_view_scalar.c - what a line would cost in each view, one value at a time. */
#include <base/bytes.h>

#include "kern.h"
#include "view.h"

enum { MOST = GW_LINE_BYTES };

/* How many exponents a window of `steps` codes below the largest does not reach; zeros have a code of their own. */
static unsigned escapes_of(const uint8_t *e, unsigned count, unsigned steps)
{
    unsigned top = 0, escapes = 0;
    for (unsigned i = 0; i < count; i++)
        top = e[i] > top ? e[i] : top;
    for (unsigned i = 0; i < count; i++)
        escapes += e[i] != 0 && top - e[i] >= steps;
    return escapes;
}

static unsigned cost(const uint8_t *line, unsigned width, unsigned shift, unsigned mask, unsigned steps, unsigned each)
{
    uint8_t e[MOST];
    unsigned count = MOST / width, some = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *at = line + i * width;
        e[i] = (uint8_t)(width == 1 ? *at : (unsigned)gw_get16(at + width - 2) >> shift & mask);
        some += !gw_zero(at, width);
    }
    return gw_line_price(count, some, each, escapes_of(e, count, steps));
}

static int low_zero(const uint8_t *line)
{
    unsigned any = 0;
    for (unsigned i = 0; i < MOST; i += 4)
        any |= gw_get16(line + i);
    return any == 0;
}

static void costs(const uint8_t *line, unsigned views, uint32_t bits[GW_VIEW_COUNT])
{
    if (views & 1u << GW_VIEW_BYTES)
        bits[GW_VIEW_BYTES] += cost(line, 1, 0, 0xff, 14, GW_PRICE_BYTES);
    if (views & 1u << GW_VIEW_BF16)
        bits[GW_VIEW_BF16] += cost(line, 2, 7, 0xff, 14, GW_PRICE_BF16);
    if (views & 1u << GW_VIEW_F16)
        bits[GW_VIEW_F16] += cost(line, 2, 10, 0x1f, 6, GW_PRICE_F16);
    if (views & 1u << GW_VIEW_F32)
        bits[GW_VIEW_F32] += cost(line, 4, 7, 0xff, 14, GW_PRICE_F32);
    if (views & 1u << GW_VIEW_F32_BF16)
        bits[GW_VIEW_F32_BF16] += cost(line, 4, 7, 0xff, 14, low_zero(line) ? GW_PRICE_BF16 : GW_PRICE_F32);
}

const struct gw_kern_view gw_kern_view_scalar = {.costs = costs};
