/* fuzz_codec.c - payloads without a head in the way, and round trips.
 *
 *  byte 0: bit 7 round trip, bits 0..3 codec, bits 4..6 view   1..2: raw length (decode), repeats; small ones more often
 * (round trip) byte 3: count (decode)   the rest: payload, or the bytes to code */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>

#include "kernels.h"

enum { HEAD = 4, REPEATED_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Alignas(64) uint8_t ws[2 << 20];

static gw_err decode_with(const struct gw_kern *kern, const struct gw_codec *codec, unsigned view,
                          uint32_t count, const uint8_t *src, size_t size, uint8_t *dst, size_t n)
{
    gw_kern_force(kern);
    struct gw_frame f = {.codec = codec->id, .view = (uint8_t)view, .count = count};
    f.raw_bytes = (uint32_t)n, f.wire_bytes = (uint32_t)size;
    return codec->decode(&f, src, dst, n, ws);
}

static void hostile(const struct gw_codec *codec, unsigned view, size_t n, uint32_t count,
                    const uint8_t *src, size_t size)
{
    uint8_t *first = malloc(n + 1), *other = malloc(n + 1), *copy = malloc(size + 1);
    uint8_t *exact = copy + 1; /* its end is the end of the allocation */
    memcpy(exact, src, size);
    gw_err err = decode_with(tried, codec, view, count, exact, size, first + 1, n);
    gw_assert(err == GW_OK || err == GW_E_CORRUPT);
    gw_assert(decode_with(&gw_kern_scalar, codec, view, count, exact, size, other + 1, n) == err);
    gw_assert(err != GW_OK || memcmp(first + 1, other + 1, n) == 0);
    free(first), free(other), free(copy);
}

static gw_err encode_with(const struct gw_kern *kern, const struct gw_codec *codec, unsigned view,
                          const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *len,
                          uint32_t *count)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    gw_kern_force(kern);
    return codec->encode(&c, src, n, dst, cap, len, count, ws);
}

static void round_trip(const struct gw_codec *codec, unsigned view, const uint8_t *src, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    size_t cap = codec->bound(n, &c), len = 0, again = 0;
    uint32_t count = 0, count_again = 0;
    uint8_t *coded = malloc(cap + 1), *other = malloc(cap + 1), *out = malloc(n + 1);
    gw_err err = encode_with(tried, codec, view, src, n, coded, cap, &len, &count);
    gw_assert(err == GW_OK || err == GW_RAW);
    gw_assert(encode_with(&gw_kern_scalar, codec, view, src, n, other, cap, &again, &count_again) ==
              err);
    if (err == GW_OK) {
        gw_assert(len <= cap && len == again && count == count_again &&
                  memcmp(coded, other, len) == 0);
        gw_assert(decode_with(tried, codec, view, count, coded, len, out, n) == GW_OK);
        gw_assert(memcmp(out, src, n) == 0);
        gw_assert(len == 0 ||
                  encode_with(tried, codec, view, src, n, other, len - 1, &again, &count) == GW_RAW);
    }
    free(coded), free(other), free(out);
}

static void one(const uint8_t *data, size_t size)
{
    gw_assert(gw_codec_ws_max() <= sizeof(ws));
    if (size < HEAD)
        return;
    const struct gw_codec *codec = gw_codec_by_id(data[0] & 15);
    unsigned view = data[0] >> 4 & 7;
    if (codec == NULL)
        return;
    size_t n = gw_get16(data + 1) >> (data[1] & 15), left = size - HEAD;
    if (!(data[0] & 0x80)) {
        hostile(codec, view, n, data[3], data + HEAD, left);
        return;
    }
    size_t repeats = 1 + n / REPEATED_BYTES;
    uint8_t *src = malloc(left * repeats + 1);
    for (size_t i = 0; i < repeats; i++)
        memcpy(src + i * left, data + HEAD, left);
    if (view < GW_VIEW_COUNT)
        round_trip(codec, view, src, left * repeats);
    free(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_each(one, data, size);
}
