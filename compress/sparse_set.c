/* sparse_set.c - sets in memory: the union of two, and into dense values. */
#include <base/check.h>

#include <gradwire/sparse.h>

#include "kern.h"
#include "kern_sparse.h"

/* Both heads are looked at, the smaller index goes out, and whoever had it steps on: no branch depends on the data. */
gw_err gw_sparse_merge(const uint32_t *a_index, const float *a_value, size_t a_count, const uint32_t *b_index,
                       const float *b_value, size_t b_count, uint32_t *index, float *value, size_t cap, size_t *count_p)
{
    const struct gw_kern_sparse *kern = gw_kern_get()->sparse;
    size_t a = 0, b = 0, at = 0;
    if (!kern->ascends(a_index, a_count) || !kern->ascends(b_index, b_count))
        return GW_E_ARG;
    while (a < a_count && b < b_count) {
        uint32_t x = a_index[a], y = b_index[b];
        if (at == cap)
            return GW_E_LIMIT;
        float one = x < y ? a_value[a] : b_value[b], both = a_value[a] + b_value[b];
        index[at] = x < y ? x : y;
        value[at++] = x == y ? both : one;
        a += x <= y, b += y <= x;
    }
    if (a_count - a > cap - at || b_count - b > cap - at)
        return GW_E_LIMIT;
    for (; a < a_count; a++, at++)
        index[at] = a_index[a], value[at] = a_value[a];
    for (; b < b_count; b++, at++)
        index[at] = b_index[b], value[at] = b_value[b];
    *count_p = at;
    return GW_OK;
}

static int in_space(const uint32_t *index, size_t count, uint64_t space)
{
    if (count == 0)
        return 1;
    return space != 0 && space <= (uint64_t)1 << 32 && gw_kern_get()->sparse->within(index, count, (uint32_t)(space - 1));
}

gw_err gw_sparse_add(float *dense, uint64_t space, const uint32_t *index, const float *value, size_t count, float scale)
{
    if (!in_space(index, count, space))
        return GW_E_ARG;
    for (size_t i = 0; i < count; i++) {
        float product = scale * value[i];
        dense[index[i]] += product;
    }
    return GW_OK;
}

gw_err gw_sparse_store(float *dense, uint64_t space, const uint32_t *index, const float *value, size_t count, float scale)
{
    if (!in_space(index, count, space))
        return GW_E_ARG;
    for (size_t i = 0; i < count; i++)
        dense[index[i]] = scale * value[i];
    return GW_OK;
}
