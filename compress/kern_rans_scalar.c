/* kern_rans_scalar.c - the meaning of the entropy codec's states, one value at a time. */
#include <stddef.h>

#include <base/bytes.h>

#include "kern.h"
#include "rans.h"

enum { STEPS = GW_GROUP_VALUES / GW_RANS_LANES };

/* Step 2k of 32 values has its codes in the low nibbles of row k of 32 bytes, step 2k + 1 in the
 * high ones. */
static uint8_t *encode(const struct gw_rans *t, uint32_t state[GW_RANS_LANES], const uint8_t *codes, size_t groups,
                       uint8_t *end)
{
    for (size_t i = groups * STEPS; i-- > 0;)
        for (unsigned lane = GW_RANS_LANES; lane-- > 0;) {
            unsigned s = codes[i / 2 * GW_RANS_LANES + lane] >> i % 2 * 4 & 15;
            uint32_t x = state[lane], f = t->freq[s];
            if (x >= f << 19)
                end -= 2, gw_put16(end, (uint16_t)x), x >>= 16;
            state[lane] = x / f * GW_RANS_ONE + t->start[s] + x % f;
        }
    return end;
}

/* One state back by one symbol, which is the answer: a step without its word. */
static unsigned back(const struct gw_rans *t, uint32_t *x)
{
    uint32_t slot = *x % GW_RANS_ONE;
    unsigned s = t->symbol[slot];
    *x = t->freq[s] * (*x >> GW_RANS_BITS) + slot - t->start[s];
    return s;
}

void gw_rans_rows(const struct gw_rans *t, struct gw_rans_run *run, size_t from, size_t rows)
{
    for (size_t i = 2 * from; i < 2 * (from + rows); i++)
        for (unsigned lane = 0; lane < GW_RANS_LANES; lane++) {
            uint8_t *at = run->codes + i / 2 * GW_RANS_LANES + lane;
            uint32_t *x = &run->state[lane];
            unsigned s = back(t, x);
            *at = (uint8_t)(i % 2 == 0 ? s : *at | s << 4);
            if (*x >= GW_RANS_LOW)
                continue;
            if (run->limit - run->words < 2) {
                run->words = NULL;
                return;
            }
            *x = *x << 16 | gw_get16(run->words);
            run->words += 2;
        }
}

static void decode(const struct gw_rans *t, struct gw_rans_run *run, size_t runs)
{
    for (size_t i = 0; i < runs; i++)
        gw_rans_rows(t, &run[i], 0, run[i].groups * STEPS / 2);
}

static unsigned escapes(const uint8_t *codes, unsigned last)
{
    unsigned n = 0;
    for (unsigned i = 0; i < GW_CODES_BYTES; i++)
        n += ((codes[i] & last) == last) + ((codes[i] >> 4 & last) == last);
    return n;
}

const struct gw_kern_rans gw_kern_rans_scalar = {.encode = encode, .decode = decode, .escapes = escapes};
