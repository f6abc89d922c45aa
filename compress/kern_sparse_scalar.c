/* kern_sparse_scalar.c - the meaning of the inner loops of sparse sets, one entry at a time. */
#include <string.h>

#include <base/bytes.h>

#include "kern_sparse.h"
#include "sparse_bits.h"
#include "sparse_float.h"

/* ---- indices ---- */

static int ascends(const uint32_t *index, size_t n)
{
    unsigned bad = 0;
    for (size_t i = 1; i < n; i++)
        bad |= index[i - 1] >= index[i];
    return !bad;
}

static int within(const uint32_t *index, size_t n, uint32_t last)
{
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= index[i] > last;
    return !bad;
}

static size_t span(const uint32_t *index, size_t n, uint32_t last)
{
    size_t i = 0;
    while (i < n && index[i] <= last)
        i++;
    return i;
}

static void map_write(const uint32_t *index, size_t n, uint32_t base, uint8_t *out, size_t bits)
{
    struct gw_bit_writer w = {.p = out};
    gw_bits_marks(&w, index, n, base, 0, 0, bits);
}

static int map_read(const uint8_t *in, size_t bits, uint32_t base, uint32_t *index, size_t n, size_t room)
{
    size_t bytes = gw_bit_bytes(bits), at = 0;
    (void)room;
    for (size_t k = 0; k < bits; k += 64) {
        uint64_t w = gw_word_at(in, bytes, k / 8) & gw_low_mask(bits - k);
        for (; w != 0; w &= w - 1) {
            if (at == n)
                return 0;
            index[at++] = base + (uint32_t)(k + (size_t)__builtin_ctzll(w));
        }
    }
    return at == n && gw_bits_end_clean(in, bits);
}

static void ef_write(const uint32_t *index, size_t n, uint32_t base, unsigned low, uint8_t *out, size_t bits)
{
    struct gw_bit_writer w = {.p = out};
    uint32_t mask = (uint32_t)gw_low_mask(low);
    for (size_t i = 0; i < n; i++)
        gw_bits_put(&w, (index[i] - base) & mask, low);
    gw_bits_marks(&w, index, n, base, low, 1, bits - n * low);
}

static int ef_read(const uint8_t *in, size_t readable, size_t bits, unsigned low, uint32_t base, uint32_t *index, size_t n,
                   size_t room)
{
    size_t bytes = gw_bit_bytes(bits), start = n * low, at = 0;
    uint32_t mask = (uint32_t)gw_low_mask(low);
    (void)readable, (void)room;
    for (size_t k = 0; start + k < bits; k += 64) {
        uint64_t w = gw_bits_at(in, bytes, start + k) & gw_low_mask(bits - start - k);
        for (; w != 0; w &= w - 1, at++) {
            if (at == n)
                return 0;
            uint32_t high = (uint32_t)(k + (size_t)__builtin_ctzll(w) - at);
            index[at] = base + (high << low) + ((uint32_t)gw_bits_at(in, bytes, at * low) & mask);
        }
    }
    return at == n && gw_bits_end_clean(in, bits);
}

/* ---- values ---- */

static void bf16_write(const float *value, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        gw_put16(out + 2 * i, gw_bf16(gw_f32_bits(value[i])));
}

static void bf16_read(const uint8_t *in, size_t n, float *value)
{
    for (size_t i = 0; i < n; i++)
        value[i] = gw_f32_of(gw_of_bf16(gw_get16(in + 2 * i)));
}

static uint32_t top(const float *value, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t b = gw_f32_bits(value[i]) & GW_F32_ABS;
        most = b > most ? b : most;
    }
    return most;
}

static void int8_write(const float *value, size_t n, float scale, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        int32_t q = gw_float_round(value[i] / scale);
        out[i] = (uint8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

static int int8_read(const uint8_t *in, size_t n, float scale, float *value)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        int8_t q = (int8_t)in[i];
        bad |= q == -128;
        value[i] = (float)q * scale;
    }
    return !bad;
}

static float sum(const float *value, size_t n)
{
    float part[32] = {0};
    for (size_t i = 0; i < n; i++) {
        uint32_t b = gw_f32_bits(value[i]);
        part[i % 32] += gw_f32_of((b & GW_F32_ABS) < GW_F32_TINY ? 0 : b);
    }
    for (unsigned half = 16; half > 0; half /= 2)
        for (unsigned i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

const struct gw_kern_sparse gw_kern_sparse_scalar = {
    .ascends = ascends,
    .within = within,
    .span = span,
    .map_write = map_write,
    .map_read = map_read,
    .ef_write = ef_write,
    .ef_read = ef_read,
    .bf16_write = bf16_write,
    .bf16_read = bf16_read,
    .top = top,
    .int8_write = int8_write,
    .int8_read = int8_read,
    .sum = sum,
};
