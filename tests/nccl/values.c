/* values.c - see values.h. */
#include "values.h"

#include <string.h>

size_t type_bytes(enum type t)
{
    return t == TYPE_BF16 ? 2 : 4;
}

static uint32_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static float of_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To nearest, ties to even.  A sum of two that was rounded to a float first comes out the same: a float has more than twice the
 * digits. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Whole numbers times a power of two that all ranks' elements i share: 8 of them add up to less than the type's digits hold. */
static float made_up(const struct values *v, int rank, size_t i)
{
    int32_t limit = v->type == TYPE_BF16 ? 31 : (1 << 21) - 1;
    int32_t m = (int32_t)(mix((uint64_t)i * RANKS_MAX + (uint64_t)rank) % (uint32_t)(2 * limit + 1)) - limit;

    return (float)m / (float)(1u << mix(~(uint64_t)i) % 12);
}

static float value(const struct values *v, int rank, size_t i)
{
    size_t at = v->file == NULL ? 0 : (i + (size_t)rank * (v->file_count / (size_t)v->ranks)) % v->file_count;

    if (v->file == NULL)
        return made_up(v, rank, i);
    return v->type == TYPE_BF16 ? of_bf16(((const uint16_t *)v->file)[at]) : ((const float *)v->file)[at];
}

void value_put(const struct values *v, int rank, size_t i, void *to)
{
    if (v->type == TYPE_I32) {
        uint32_t n = mix((uint64_t)i * RANKS_MAX + (uint64_t)rank);
        memcpy(to, &n, sizeof n);
    } else if (v->type == TYPE_F32) {
        float f = value(v, rank, i);
        memcpy(to, &f, sizeof f);
    } else {
        uint16_t h = to_bf16(value(v, rank, i));
        memcpy(to, &h, sizeof h);
    }
}

int value_is(const struct values *v, int rank, size_t i, const void *got)
{
    unsigned char want[8];

    value_put(v, rank, i, want);
    return memcmp(want, got, type_bytes(v->type)) == 0;
}

static float rounded(const struct values *v, float f)
{
    return v->type == TYPE_BF16 ? of_bf16(to_bf16(f)) : f;
}

/* left: the ranks that are not yet in `sum`, a bit each. */
static int some_order(const struct values *v, const float *x, unsigned left, float sum, float want)
{
    if (left == 0)
        return sum == want;
    for (int r = 0; r < v->ranks; r++)
        if (left & 1u << r && some_order(v, x, left & ~(1u << r), rounded(v, sum + x[r]), want))
            return 1;
    return 0;
}

int value_is_sum(const struct values *v, size_t i, const void *got)
{
    float x[RANKS_MAX], sum = 0, want;
    uint32_t n = 0, own, n_got;
    uint16_t h;

    if (v->type == TYPE_I32) {
        for (int r = 0; r < v->ranks; r++)
            value_put(v, r, i, &own), n += own;
        memcpy(&n_got, got, sizeof n_got);
        return n == n_got;
    }
    if (v->type == TYPE_F32) {
        memcpy(&want, got, sizeof want);
    } else {
        memcpy(&h, got, sizeof h);
        want = of_bf16(h);
    }
    for (int r = 0; r < v->ranks; r++)
        x[r] = value(v, r, i), sum += x[r];
    if (v->file == NULL)
        return sum == want;
    return some_order(v, x, (1u << v->ranks) - 1, 0, want);
}
