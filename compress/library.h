/* library.h - the payload of codecs that a library makes: independent blocks of 128 KiB, so that the scratch of a call has a
 * fixed size and a decoder works on a copy that no peer can change under the library. */
#ifndef GW_COMPRESS_LIBRARY_H
#define GW_COMPRESS_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

enum { GW_BLOCK_BYTES = 128 << 10, GW_BLOCK_SAMPLE = 16 << 10 };

struct gw_library {
    /* Bytes written to dst, 0 where they would be more than cap.  ws is what is left of the scratch. */
    size_t (*encode)(const void *src, size_t n, void *dst, size_t cap, void *ws);
    /* 1 when src gave exactly n bytes */
    int (*decode)(const void *src, size_t len, void *dst, size_t n, void *ws);
};

/* The copy of a block comes first in the scratch, then `own` bytes for the library. */
#define GW_LIBRARY_WS(own) ((size_t)GW_BLOCK_BYTES + (own))

size_t gw_library_bound(size_t src_len, const struct gw_coding *c);
gw_err gw_library_encode(const struct gw_library *lib, const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                         size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws);
gw_err gw_library_decode(const struct gw_library *lib, const struct gw_frame *f, const void *src, void *dst, size_t dst_len,
                         void *ws);
#endif
