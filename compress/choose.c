/* choose.c - which lossless codec pays on a link: its ratio guessed from a sample, its rates told by the caller.
 *
 * Everything is integers, so that two machines with the same numbers choose the same.  The guess knows what each codec spends on
 * a group of 256 values: the codes of the exponents, the bits that stay as they are, maps.  Read gw_codec_choose from below. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "choose.h"
#include "kern.h"

enum { PLACES = 64, TELLING = 32, N = GW_GROUP_VALUES, FAR = 15, BASES = 4, ONE = 65536, RAW_GAIN = 32 };

/* ---- what a sample holds ---- */

struct sample {
    unsigned groups, empty;     /* looked at; all zero */
    unsigned values, some;      /* of the groups that are not; of them, not zero in all bits */
    unsigned octets;            /* eights of values that hold something, over all groups */
    unsigned distance[FAR + 1]; /* how many exponents lie so far below the top of their group; FAR: further, or 0 */
    unsigned window, tight;     /* bits that the two ways of coding exponents take, the shorter of map and codes */
};

static unsigned exponent(enum gw_view view, const uint8_t *p)
{
    unsigned width = gw_view_shapes[view].width;
    if (width == 1)
        return *p;
    unsigned upper = gw_get16(p + width - 2);
    return view == GW_VIEW_F16 ? upper >> 10 & 0x1f : upper >> 7 & 0xff;
}

/* Bits of a value that are not exponent, as they travel. */
static unsigned rest_bits(enum gw_view view)
{
    static const uint8_t bits[GW_VIEW_COUNT] = {0, 8, 24, 11, 8};
    return bits[view];
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* A group with many zeros keeps a map of the others, and codes those alone. */
static unsigned with_map(unsigned dense, unsigned coded, unsigned rest, unsigned some)
{
    return least(dense + N * rest, N + coded + some * rest);
}

static void count_codes(struct sample *s, enum gw_view view, const uint8_t e[N], unsigned top, unsigned some)
{
    unsigned at[FAR + 1] = {0}, rest = rest_bits(view), near = view == GW_VIEW_F16 ? 6 : 14, escapes = 0, held = 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned d = e[i] == 0 || top - e[i] >= FAR ? FAR : top - e[i];
        at[d]++;
        escapes += e[i] != 0 && top - e[i] >= near;
    }
    for (unsigned base = 0; base < BASES; base++)
        held = (unsigned)gw_max_u64(held, at[base] + at[base + 1] + at[base + 2]);
    unsigned zeros = N - some, outside = N - held, code = view == GW_VIEW_F16 ? 3 : 4;
    s->window += with_map(code * N + 8 * escapes, code * some + 8 * escapes, rest, some);
    s->tight += with_map(2 * N + 4 * outside, code * some + 8 * escapes, rest, some);
    at[FAR] -= least(zeros, at[FAR]); /* a map or a symbol of its own takes them: next to nothing each */
    for (unsigned d = 0; d <= FAR; d++)
        s->distance[d] += at[d];
}

static void count_group(struct sample *s, enum gw_view view, const uint8_t *p)
{
    unsigned width = gw_view_shapes[view].width, top = 0, some = 0;
    uint8_t e[N];
    s->groups++;
    if (gw_kern_get()->zero(p, (size_t)N * width)) {
        s->empty++;
        return;
    }
    for (unsigned i = 0; i < N; i++) {
        e[i] = (uint8_t)exponent(view, p + i * width);
        top = e[i] > top ? e[i] : top;
        some += !gw_zero(p + i * width, width);
    }
    for (unsigned i = 0; i < N; i += 8)
        s->octets += !gw_zero(p + i * width, 8 * width);
    s->values += N, s->some += some;
    count_codes(s, view, e, top, some);
}

/* Six bits turned round: any number of places from the start lies evenly over all. */
static size_t place(unsigned i)
{
    size_t r = 0;
    for (unsigned bit = 0; bit < 6; bit++)
        r |= (size_t)(i >> bit & 1) << (5 - bit);
    return r;
}

/* Whole groups, until enough of them hold something; one that is filled up with zeros where there is less than one. */
static void sample_take(struct sample *s, enum gw_view view, const uint8_t *src, size_t len)
{
    uint8_t only[GW_GROUP_BYTES_MAX] = {0};
    size_t bytes = (size_t)N * gw_view_shapes[view].width, groups = len / bytes;
    memset(s, 0, sizeof(*s));
    if (groups == 0) {
        memcpy(only, src, len);
        count_group(s, view, only);
    }
    for (unsigned i = 0; i < PLACES && s->groups - s->empty < TELLING; i++) {
        size_t at = groups < PLACES ? place(i) : place(i) * groups / PLACES;
        if (at < groups)
            count_group(s, view, src + at * bytes);
    }
}

/* ---- what a codec makes of it, in bits ---- */

/* log2(x) in 256ths, x at least 1: the whole part, then one bit for each squaring. */
static unsigned log2_256(uint32_t x)
{
    unsigned whole = 31 - (unsigned)__builtin_clz(x), part = 0;
    uint64_t m = (uint64_t)x << (31 - whole); /* 1.31 */
    for (int i = 0; i < 8; i++) {
        m = m * m >> 31;
        part = part << 1 | (unsigned)(m >> 32);
        m >>= m >> 32;
    }
    return whole << 8 | part;
}

/* Order-0 entropy of the distances. */
static unsigned entropy_bits(const struct sample *s)
{
    uint64_t sum = 0, all = 0;
    for (unsigned d = 0; d <= FAR; d++)
        all += s->distance[d];
    for (unsigned d = 0; d <= FAR; d++)
        if (s->distance[d] > 0)
            sum += s->distance[d] * (uint64_t)(log2_256((uint32_t)all) - log2_256(s->distance[d]));
    return (unsigned)(sum / 256) + 8 * s->distance[FAR];
}

/* A bit for each word of an eight that holds something, a bit for each eight. */
static unsigned zero_bits(const struct sample *s, unsigned width)
{
    return s->groups * N / 8 + 8 * s->octets + 8 * width * s->some;
}

static unsigned bits_of(unsigned codec, const struct sample *s, enum gw_view view)
{
    unsigned heads = 16 * s->groups, zeros = s->values - s->some, rest = rest_bits(view);
    switch (codec) {
    case 1: /* group */
        return heads + s->window;
    case 2: /* tight */
        return heads + least(s->tight, s->window);
    case 3: /* entropy */
        return heads + entropy_bits(s) + least(zeros * rest, s->values) + s->some * rest;
    case 4: /* zero */
        return zero_bits(s, gw_view_shapes[view].width);
    default:
        return UINT32_MAX;
    }
}

uint32_t gw_choose_ratio(unsigned codec, enum gw_view view, const void *src, size_t len)
{
    struct sample s;
    if (len == 0 || view >= GW_VIEW_COUNT)
        return ONE;
    sample_take(&s, view, src, len);
    uint64_t all = (uint64_t)s.groups * N * 8 * gw_view_shapes[view].width, bits = bits_of(codec, &s, view);
    return (uint32_t)gw_min_u64(bits * ONE / all, ONE);
}

/* ---- what that is worth ---- */

/* Each byte that is coded in time frees 1 - ratio of the link, until all are: then the link sets the pace again. */
uint32_t gw_choose_rate(uint32_t ratio, uint32_t encode, uint32_t decode, uint32_t link, uint32_t *share_p)
{
    uint64_t pace = gw_min_u64(encode, decode), left = gw_min_u64(ratio, ONE);
    uint64_t mixed = link + (ONE - left) * pace / ONE, whole = (uint64_t)link * ONE / gw_max_u64(left, 1);
    uint64_t rate = gw_min_u64(mixed, whole);
    *share_p = (uint32_t)(rate == 0 ? 0 : gw_min_u64(pace * ONE / rate, ONE));
    return (uint32_t)gw_min_u64(rate, UINT32_MAX);
}

void gw_codec_choose(const void *src, size_t len, enum gw_view view, uint32_t link, const struct gw_codec_rate *rates, size_t n,
                     struct gw_codec_choice *choice_p)
{
    struct gw_codec_choice best = {.ratio = ONE, .rate = link};
    uint32_t pace = 0;
    for (size_t i = 0; i < n; i++) {
        const struct gw_codec *codec = gw_codec_by_id(rates[i].codec);
        if (codec == NULL || codec->traits & (GW_TRAIT_LOSSY | GW_TRAIT_STORED))
            continue;
        struct gw_codec_choice c = {.codec = codec, .ratio = gw_choose_ratio(codec->id, view, src, len)};
        c.rate = gw_choose_rate(c.ratio, rates[i].encode, rates[i].decode, link, &c.share);
        uint32_t own = (uint32_t)gw_min_u64(rates[i].encode, rates[i].decode);
        if (c.ratio >= ONE || (uint64_t)c.rate * RAW_GAIN < (uint64_t)link * (RAW_GAIN + 1))
            continue;
        if (c.rate > best.rate || (c.rate == best.rate && own > pace))
            best = c, pace = own;
    }
    *choice_p = best;
}
