/* frame.h - the 32 bytes that stand before every encoded chunk, and the codec call around them.
 *
 * The bytes are drawn in compress/FORMAT.md.  A frame knows nothing of its place in a message, so the same input gives the
 * same bytes.  Everything here is pure: no memory is taken, nothing is kept, any thread. */
#ifndef GRADWIRE_FRAME_H
#define GRADWIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "codec.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GW_FRAME_BYTES = 32, GW_FRAME_MAGIC = 0x5747, GW_FRAME_VERSION = 1 };
enum { GW_FRAME_CHECK = 1 /* `check` holds a checksum */, GW_FRAME_FLAGS_KNOWN = 1 };

struct gw_frame {
    uint8_t codec;         /* id of the codec */
    uint8_t view;          /* enum gw_view: how the codec read the bytes */
    uint8_t flags;         /* GW_FRAME_* */
    uint16_t header_bytes; /* GW_FRAME_BYTES in this version */
    uint32_t raw_bytes;    /* before encoding */
    uint32_t wire_bytes;   /* payload after the head */
    uint32_t count;        /* groups, words, blocks or entries: the codec's business */
    uint32_t param;
    uint64_t check;        /* XXH3-64 of the per-tile XXH3-64 values (of lossy codecs: per 16 KiB of the payload), 0 without
                              GW_FRAME_CHECK */
};

/* Writes the head; every field is taken as it is. */
GW_API void gw_frame_write(uint8_t out[GW_FRAME_BYTES], const struct gw_frame *f);

/* Reads a head from hostile bytes.  GW_E_CORRUPT unless magic, version, flags and header length are known, the payload
 * fits in_len, raw_bytes is at most GW_CHUNK_MAX, and check is 0 without its flag.  f is set only on GW_OK. */
GW_API gw_err gw_frame_read(const uint8_t *in, size_t in_len, struct gw_frame *f);

/* Encodes [src, src+src_len) with `codec` into head + payload at dst.  GW_RAW: not worth it, or it does not fit dst_cap;
 * dst is meaningless then.  GW_E_ARG: the codec refuses c, or src_len is above GW_CHUNK_MAX.  check != 0: the frame carries
 * the checksum.  ws: codec->ws_bytes of scratch, 64-byte aligned. */
GW_API gw_err gw_frame_encode(const struct gw_codec *codec, const struct gw_coding *c, int check, const void *src,
                              size_t src_len, void *dst, size_t dst_cap, size_t *dst_len, void *ws);

/* Decodes a whole frame into exactly dst_len bytes, from hostile bytes.  GW_E_CORRUPT (format), GW_E_CHECK (checksum),
 * GW_E_NOSYS (unknown codec).  Nothing outside [dst, dst+dst_len) is ever written; after a failure its contents are
 * undefined.  ws: the frame may name any codec, so gw_codec_ws_max() bytes, 64-byte aligned. */
GW_API gw_err gw_frame_decode(const void *in, size_t in_len, void *dst, size_t dst_len, void *ws);

/* The same, but a frame of a lossy codec is GW_E_CORRUPT: for bytes of unknown type, which must come back as they were. */
GW_API gw_err gw_frame_restore(const void *in, size_t in_len, void *dst, size_t dst_len, void *ws);

/* The same as gw_frame_decode for f32 that are added: dst + scale * value.  The checksum is held against the coded bytes before the first
 * addition, and dst is as it was unless the answer is GW_OK.  GW_E_NOSYS too for a codec that cannot add. */
GW_API gw_err gw_frame_decode_add(const void *in, size_t in_len, float *dst, size_t dst_len, float scale, void *ws);

#ifdef __cplusplus
}
#endif
#endif
