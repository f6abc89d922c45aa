/* view.c - which view suits some bytes, and whether coding them pays, from a sample.
 *
 * The sample is lines of 128 bytes.  Places are taken in bit-reversed order, so that any number of
 * them lies evenly over the message; a line of zeros says nothing about the type, so up to half of
 * all places may be spent on looking past them. Everything is integers: two machines pick the same
 * view. */
#include "view.h"

#include "kern.h"

enum { LINE = GW_LINE_BYTES, PLACES = 32, TELLING = 16 };

struct sample {
    const uint8_t *line[TELLING]; /* lines that are not all zero */
    unsigned telling, zero;
};

/* Five bits turned round. */
static const uint8_t places[PLACES] = {0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                       1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31};

/* The i-th line to look at, NULL where a short message has no such place. */
static const uint8_t *line_at(const uint8_t *src, size_t lines, unsigned i)
{
    size_t at = lines < PLACES ? places[i] : places[i] * lines / PLACES;
    return at < lines ? src + at * LINE : NULL;
}

static void sample_take(const struct gw_kern *kern, const uint8_t *src, size_t len, struct sample *s)
{
    s->telling = s->zero = 0;
    /* Cold lines come from memory side by side when all are asked for first. */
    for (unsigned i = 0; i < TELLING; i++) {
        const uint8_t *line = line_at(src, len / LINE, i);
        if (line != NULL)
            __builtin_prefetch(line), __builtin_prefetch(line + LINE / 2);
    }
    for (unsigned i = 0; i < PLACES && s->telling < TELLING; i++) {
        const uint8_t *line = line_at(src, len / LINE, i);
        if (line == NULL)
            continue;
        if (kern->zero(line, LINE))
            s->zero++;
        else
            s->line[s->telling++] = line;
    }
}

/* A gain below a thirty-second is not worth the work. */
static int pays(unsigned bits, const struct sample *s)
{
    unsigned all = (s->telling + s->zero) * GW_LINE_BITS;
    return bits + all / 32 < all;
}

static void costs_of(const struct gw_kern *kern, const struct sample *s, unsigned views, uint32_t bits[GW_VIEW_COUNT])
{
    for (unsigned i = 0; i < GW_VIEW_COUNT; i++)
        bits[i] = 0;
    for (unsigned i = 0; i < s->telling; i++)
        kern->view->costs(s->line[i], views, bits);
}

int gw_view_pays(enum gw_view view, const void *src, size_t len)
{
    const struct gw_kern *kern = gw_kern_get();
    uint32_t bits[GW_VIEW_COUNT];
    struct sample s;
    sample_take(kern, src, len, &s);
    costs_of(kern, &s, 1u << view, bits);
    return pays(bits[view], &s);
}

enum gw_view gw_view_pick(const void *src, size_t len, int *pays_p)
{
    /* Ties go to the first: a sample of nothing but zeros is most often a sparse f32 gradient. */
    static const enum gw_view order[] = {GW_VIEW_F32, GW_VIEW_BF16, GW_VIEW_F32_BF16, GW_VIEW_F16,
                                         GW_VIEW_BYTES};
    const struct gw_kern *kern = gw_kern_get();
    uint32_t bits[GW_VIEW_COUNT];
    struct sample s;
    sample_take(kern, src, len, &s);
    costs_of(kern, &s, (1u << GW_VIEW_COUNT) - 1, bits);
    enum gw_view best = order[0];
    for (size_t i = 1; i < GW_VIEW_COUNT; i++)
        if (bits[order[i]] < bits[best])
            best = order[i];
    if (pays_p != NULL)
        *pays_p = pays(bits[best], &s);
    return best;
}
