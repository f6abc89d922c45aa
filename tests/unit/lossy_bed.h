/* lossy_bed.h - one chunk through one lossy codec: what the tests of them share. */
#ifndef GW_TESTS_LOSSY_BED_H
#define GW_TESTS_LOSSY_BED_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>
#include <lossy.h>

enum { MOST = 1 << 16, ROOM = 4 * MOST + 4096 };

static _Alignas(64) uint8_t ws[2 << 20];
static float src[MOST], residual[MOST], out[MOST];
static uint8_t coded[ROOM];
static struct gw_coding c;
static const struct gw_codec *codec;
static size_t len;
static uint32_t count;

static inline uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

static inline float of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static uint64_t state;

static inline uint64_t chance(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A value between -1 and 1, small ones more often. */
static inline float some(void)
{
    return ldexpf((float)(int32_t)chance(), -31 - (int)(chance() % 12));
}

static inline int start(void **s)
{
    (void)s;
    gw_kern_force(NULL);
    state = 1;
    memset(src, 0, sizeof(src)), memset(residual, 0, sizeof(residual)), memset(coded, 0xee, sizeof(coded));
    return 0;
}

static inline void use(const char *name)
{
    codec = gw_codec_by_name(name);
    memset(&c, 0, sizeof(c));
    c.size = sizeof(c), c.view = GW_VIEW_F32;
    if (strcmp(name, "twobit") == 0)
        c.param = bits_of(0.0625f);
    if (strcmp(name, "levels") == 0)
        c.param = bits_of(1), c.bits = 8, c.ranks = 8;
}

static inline gw_err encode_bytes(size_t n, size_t cap)
{
    return codec->encode(&c, src, n, coded, cap, &len, &count, ws);
}

static inline void encode(size_t values)
{
    assert_int_equal(encode_bytes(4 * values, ROOM), GW_OK);
}

static inline struct gw_frame head(size_t n)
{
    struct gw_frame f = {.codec = codec->id, .view = GW_VIEW_F32, .raw_bytes = (uint32_t)n, .count = count, .param = c.param};
    f.wire_bytes = (uint32_t)len;
    return f;
}

static inline gw_err decode_bytes(size_t n)
{
    struct gw_frame f = head(n);
    return codec->decode(&f, coded, out, n, ws);
}

static inline void decode(size_t values)
{
    assert_int_equal(decode_bytes(4 * values), GW_OK);
}

static inline const struct gw_kern *kernel(size_t *k)
{
    const struct gw_kern *kern;
    while ((kern = gw_kern_at((*k)++)) != NULL && !kern->usable())
        ;
    gw_kern_force(kern);
    return kern;
}

#define TEST(name) cmocka_unit_test_setup(name, start)
#endif
