/* fuzz_frame.c - a whole frame from a stranger.  A head that is accepted has one spelling; decoding
 * stays inside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>
#include <gradwire/frame.h>
#include <kern.h>

#include "kernels.h"

enum { MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Alignas(64) uint8_t ws[2 << 20];

/* Every kernel gives the same answer, and after GW_OK the same bytes. */
static void decode(const uint8_t *data, size_t size, size_t n)
{
    uint8_t *first = malloc(n + 1), *other = malloc(n + 1);
    gw_err err = gw_frame_decode(data, size, first, n, ws);
    gw_assert(err == GW_OK || err == GW_E_CORRUPT || err == GW_E_CHECK || err == GW_E_NOSYS);
    gw_kern_force(&gw_kern_scalar);
    gw_assert(gw_frame_decode(data, size, other, n, ws) == err);
    gw_kern_force(tried);
    gw_assert(err != GW_OK || memcmp(first, other, n) == 0);
    free(first), free(other);
}

static void one(const uint8_t *data, size_t size)
{
    gw_assert(gw_codec_ws_max() <= sizeof(ws));
    struct gw_frame f;
    uint8_t again[GW_FRAME_BYTES];
    if (gw_frame_read(data, size, &f) != GW_OK) {
        uint8_t none[16];
        gw_assert(gw_frame_decode(data, size, none, sizeof(none), ws) == GW_E_CORRUPT);
        return;
    }
    gw_frame_write(again, &f);
    gw_assert(memcmp(again, data, sizeof(again)) == 0);
    gw_assert(f.wire_bytes <= size - GW_FRAME_BYTES);
    if (f.raw_bytes <= MOST)
        decode(data, size, f.raw_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_each(one, data, size);
}
