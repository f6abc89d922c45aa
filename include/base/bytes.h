/* bytes.h - little-endian fields of a wire message, read and written one at a time; nobody casts. */
#ifndef GW_BASE_BYTES_H
#define GW_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline void gw_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8);
}

static inline void gw_put32(uint8_t *p, uint32_t v)
{
    gw_put16(p, (uint16_t)v), gw_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void gw_put64(uint8_t *p, uint64_t v)
{
    gw_put32(p, (uint32_t)v), gw_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t gw_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t gw_get32(const uint8_t *p)
{
    return gw_get16(p) | (uint32_t)gw_get16(p + 2) << 16;
}

static inline uint64_t gw_get64(const uint8_t *p)
{
    return gw_get32(p) | (uint64_t)gw_get32(p + 4) << 32;
}

/* Copies bytes that somebody may be writing at the same time: what is judged and used afterwards is the copy, and the
 * compiler may not look at src again. */
static inline void gw_copy_once(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
    __asm__ volatile("" ::: "memory");
}

/* 1 when all n bytes are 0 */
static inline int gw_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

/* Compares without telling by its time where the first difference is. */
static inline int gw_same_secret(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint8_t diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}
#endif
