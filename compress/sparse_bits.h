/* sparse_bits.h - strings of bits, lowest bit of the lowest byte first, for the kernels of sparse sets. */
#ifndef GW_COMPRESS_SPARSE_BITS_H
#define GW_COMPRESS_SPARSE_BITS_H

#include <stddef.h>
#include <stdint.h>

#include <base/bytes.h>

static inline size_t gw_bit_bytes(size_t bits)
{
    return (bits + 7) / 8;
}

/* What was read from memory that a peer may write is in a register from here on: nobody looks there again. */
static inline uint64_t gw_held(uint64_t v)
{
    __asm__ volatile("" : "+r"(v));
    return v;
}

/* Up to 8 bytes from `at` on, zeros beyond len. */
static inline uint64_t gw_word_at(const uint8_t *in, size_t len, size_t at)
{
    uint64_t w = 0;
    if (at < len && len - at >= 8)
        return gw_get64(in + at);
    for (size_t i = 0; at < len && i < len - at; i++)
        w |= (uint64_t)in[at + i] << 8 * i;
    return w;
}

/* 64 bits from a bit on, zeros beyond len bytes. */
static inline uint64_t gw_bits_at(const uint8_t *in, size_t len, size_t bit)
{
    size_t at = bit / 8;
    unsigned off = bit % 8;
    uint64_t w = gw_word_at(in, len, at) >> off;
    if (off != 0 && at < len && len - at > 8)
        w |= (uint64_t)in[at + 8] << (64 - off);
    return w;
}

static inline uint64_t gw_low_mask(size_t bits)
{
    return bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0;
}

/* 1 when the bits of the last byte beyond `bits` are zero. */
static inline int gw_bits_end_clean(const uint8_t *in, size_t bits)
{
    return bits % 8 == 0 || in[bits / 8] >> bits % 8 == 0;
}

/* `acc` holds the next `fill` < 64 bits, whole words before them stand in memory. */
struct gw_bit_writer {
    uint8_t *p;
    uint64_t acc;
    unsigned fill;
};

/* n bits, at most 64; v has none above them. */
static inline void gw_bits_put(struct gw_bit_writer *w, uint64_t v, unsigned n)
{
    w->acc |= v << w->fill;
    w->fill += n;
    if (w->fill < 64)
        return;
    gw_put64(w->p, w->acc);
    w->p += 8, w->fill -= 64;
    w->acc = w->fill != 0 ? v >> (n - w->fill) : 0;
}

/* A string of `bits` bits at the place of w, with a one at bit (index[i] - base >> shift) + i * rank for each entry. */
static inline void gw_bits_marks(struct gw_bit_writer *w, const uint32_t *index, size_t n, uint32_t base, unsigned shift,
                                 unsigned rank, size_t bits)
{
    uint8_t *p = w->p;
    uint64_t acc = w->acc;
    size_t fill = w->fill, word = 0, bytes = gw_bit_bytes(fill + bits);
    for (size_t i = 0; i < n; i++) {
        size_t at = fill + ((index[i] - base) >> shift) + i * rank;
        for (; word < at / 64; word++, acc = 0)
            gw_put64(p + 8 * word, acc);
        acc |= (uint64_t)1 << at % 64;
    }
    for (; 8 * word + 8 <= bytes; word++, acc = 0)
        gw_put64(p + 8 * word, acc);
    for (size_t at = 8 * word; at < bytes; at++, acc >>= 8)
        p[at] = (uint8_t)acc;
}
#endif
