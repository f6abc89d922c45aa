/* rans.c - frequencies, and what the states need to know of them. */
#include <string.h>

#include "rans.h"

/* A reciprocal is rounded up, which is exact for x below 2^31. */
static void make_symbol(struct gw_rans *t, unsigned s)
{
    uint32_t f = t->freq[s], bias = t->start[s], shift = 0;
    if (f == 1) {
        t->reciprocal[s] = UINT32_MAX;
        bias += GW_RANS_ONE - 1;
    } else {
        unsigned up = 32 - (unsigned)__builtin_clz(f - 1); /* f <= 2^up */
        t->reciprocal[s] = (uint32_t)((((uint64_t)1 << (up + 31)) + f - 1) / f);
        shift = up - 1;
    }
    t->step[s] = shift << 28 | bias << 12 | f;
}

int gw_rans_make(struct gw_rans *t, const uint16_t freq[GW_RANS_SYMBOLS])
{
    uint32_t sum = 0;
    for (unsigned s = 0; s < GW_RANS_SYMBOLS; s++) {
        t->freq[s] = freq[s], t->start[s] = (uint16_t)sum;
        sum += freq[s];
        if (freq[s] == 0 || sum > GW_RANS_ONE)
            return 0;
        make_symbol(t, s);
        memset(t->symbol + t->start[s], (int)s, freq[s]);
    }
    return sum == GW_RANS_ONE;
}

void gw_rans_scale(const uint32_t seen[GW_RANS_SYMBOLS], uint16_t freq[GW_RANS_SYMBOLS])
{
    uint64_t all = 0;
    unsigned sum = 0, most = 0;
    for (unsigned s = 0; s < GW_RANS_SYMBOLS; s++)
        all += seen[s];
    for (unsigned s = 0; s < GW_RANS_SYMBOLS; s++) {
        uint64_t part = all == 0 ? GW_RANS_ONE / GW_RANS_SYMBOLS : GW_RANS_ONE * (uint64_t)seen[s] / all;
        freq[s] = (uint16_t)(part == 0 ? 1 : part);
        sum += freq[s];
        most = freq[s] > freq[most] ? s : most;
    }
    /* what rounding left over, or the others' ones took */
    freq[most] = (uint16_t)(freq[most] + GW_RANS_ONE - sum);
}
