/* view.c - which view suits some bytes, and whether coding them pays, from a sample.
 *
 * The sample is lines of 64 bytes.  Places are taken in bit-reversed order, so that any number of
 * them lies evenly over the message; a line of zeros says nothing about the type, so up to half of
 * all places may be spent on looking past them. Everything is integers: two machines pick the same
 * view. */
#include <string.h>

#include <base/bytes.h>

#include "group.h"

enum { LINE = 64, PLACES = 64, TELLING = 32 };

struct sample {
    const uint8_t *line[TELLING]; /* lines that are not all zero */
    unsigned telling, zero;
};

/* Six bits turned round. */
static size_t place(unsigned i)
{
    unsigned r = 0;
    for (unsigned bit = 0; bit < 6; bit++)
        r |= (i >> bit & 1) << (5 - bit);
    return r;
}

/* The i-th line to look at, NULL where a short message has no such place. */
static const uint8_t *line_at(const uint8_t *src, size_t lines, unsigned i)
{
    size_t at = lines < PLACES ? place(i) : place(i) * lines / PLACES;
    return at < lines ? src + at * LINE : NULL;
}

static void sample_take(const uint8_t *src, size_t len, struct sample *s)
{
    s->telling = s->zero = 0;
    /* Cold lines come from memory side by side when all are asked for first. */
    for (unsigned i = 0; i < TELLING; i++)
        __builtin_prefetch(line_at(src, len / LINE, i));
    for (unsigned i = 0; i < PLACES && s->telling < TELLING; i++) {
        const uint8_t *line = line_at(src, len / LINE, i);
        if (line == NULL)
            continue;
        if (gw_zero(line, LINE))
            s->zero++;
        else
            s->line[s->telling++] = line;
    }
}

/* How many exponents a window of `steps` codes below the largest does not reach.  Bytes and a fixed
 * count, so that the compiler may take sixteen at a time. */
static unsigned escapes_of(const uint8_t e[LINE], uint8_t steps)
{
    uint8_t top = 0, escapes = 0;
    for (unsigned i = 0; i < LINE; i++)
        top = e[i] > top ? e[i] : top;
    for (unsigned i = 0; i < LINE; i++)
        escapes = (uint8_t)(escapes + (e[i] != 0 && (uint8_t)(top - e[i]) >= steps));
    return escapes;
}

/* The exponents of a line in a view, zeros behind them. */
static void exponents(enum gw_view view, const uint8_t *line, uint8_t e[LINE])
{
    unsigned width = gw_view_shapes[view].width, count = LINE / width,
             shift = view == GW_VIEW_F16 ? 10 : 7;
    unsigned mask = view == GW_VIEW_F16 ? 0x1f : 0xff;
    if (width == 1) {
        memcpy(e, line, LINE);
        return;
    }
    memset(e, 0, LINE);
    for (unsigned i = 0; i < count; i++)
        e[i] = (uint8_t)((unsigned)gw_get16(line + (i + 1) * width - 2) >> shift & mask);
}

static int line_low_zero(const uint8_t *line)
{
    unsigned any = 0;
    for (unsigned i = 0; i < LINE; i += 4)
        any |= gw_get16(line + i);
    return any == 0;
}

/* What a line would cost, in bits; never more than it has. */
static unsigned line_cost(enum gw_view view, const uint8_t *line)
{
    uint8_t e[LINE];
    exponents(view, line, e);
    unsigned count = LINE / gw_view_shapes[view].width;
    unsigned bits = count * gw_view_shapes[view].body * 8 / GW_GROUP_VALUES;
    bits += 8 * escapes_of(e, view == GW_VIEW_F16 ? 6 : 14);
    return bits < LINE * 8 ? bits : LINE * 8;
}

/* The view that tiles like this sample end up with: one low half that is not zero, and f32 cannot
 * be bf16. */
static enum gw_view settled(enum gw_view view, const struct sample *s)
{
    for (unsigned i = 0; view == GW_VIEW_F32_BF16 && i < s->telling; i++)
        if (!line_low_zero(s->line[i]))
            return GW_VIEW_F32;
    return view;
}

static unsigned sample_cost(enum gw_view view, const struct sample *s)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < s->telling; i++)
        bits += line_cost(view, s->line[i]);
    return bits;
}

/* A gain below a thirty-second is not worth the work. */
static int pays(unsigned bits, const struct sample *s)
{
    unsigned all = (s->telling + s->zero) * LINE * 8;
    return bits + all / 32 < all;
}

int gw_view_pays(enum gw_view view, const void *src, size_t len)
{
    struct sample s;
    sample_take(src, len, &s);
    return pays(sample_cost(settled(view, &s), &s), &s);
}

enum gw_view gw_view_pick(const void *src, size_t len, int *pays_p)
{
    /* Ties go to the first: a sample of nothing but zeros is most often a sparse f32 gradient. */
    static const enum gw_view order[] = {GW_VIEW_F32, GW_VIEW_BF16, GW_VIEW_F32_BF16, GW_VIEW_F16,
                                         GW_VIEW_BYTES};
    struct sample s;
    sample_take(src, len, &s);
    enum gw_view best = order[0];
    unsigned least = sample_cost(best, &s);
    for (size_t i = 1; i < GW_VIEW_COUNT; i++) {
        if (settled(order[i], &s) != order[i])
            continue;
        unsigned bits = sample_cost(order[i], &s);
        if (bits < least)
            least = bits, best = order[i];
    }
    if (pays_p != NULL)
        *pays_p = pays(least, &s);
    return best;
}
