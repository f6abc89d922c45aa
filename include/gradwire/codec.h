/* codec.h - a codec is a value and pure functions.
 *
 * No state outlives a call, nothing is allocated, printed or locked, any bytes may be given to `decode`, and the same input
 * gives the same output, bit for bit, on every machine and kernel (lossy codecs: in a thread that rounds to nearest, as
 * threads begin).  Any number of threads may use one codec at once, each with its own scratch. */
#ifndef GRADWIRE_CODEC_H
#define GRADWIRE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tile is what can be decoded and hashed on its own; a chunk is what one call takes, at most this much. */
enum { GW_TILE_BYTES = 16384, GW_CHUNK_MAX = 1 << 30 };

/* How a codec reads the bytes of a tile.  Numbers are on the wire and for ever. */
enum gw_view {
    GW_VIEW_BYTES = 0,
    GW_VIEW_BF16 = 1,
    GW_VIEW_F32 = 2,
    GW_VIEW_F16 = 3,
    GW_VIEW_F32_BF16 = 4, /* f32 whose low halves are all zero */
    GW_VIEW_COUNT
};

/* What one call of encode is told.  `size` is sizeof(struct gw_coding).  A lossless codec reads size and view alone. */
struct gw_coding {
    uint32_t size;
    uint8_t view;    /* enum gw_view: what gw_view_pick said of this message; lossy codecs: GW_VIEW_F32 */
    uint8_t type;    /* 0 */
    uint16_t flags;  /* GW_CODING_* */
    uint32_t param;  /* the codec's own, in the frame's head too: levels and twobit say which; 0 for all others */
    uint64_t seed;   /* stochastic rounding: a hash of (seed, first + index of the element in this call) */
    uint64_t first;  /* index of this call's first element in its tensor */
    float *residual; /* NULL, or error feedback, one per element: what is coded is src + residual, what is left of it after
                        decoding is the new residual; bytes and residual are final only after GW_OK */
    uint32_t ranks;  /* levels: how many ranks' words may be added, */
    uint32_t bits;   /* in words of 8, 16 or 32 bits; param is the largest magnitude on all ranks, as f32 bits */
};
enum { GW_CODING_STOCHASTIC = 1 /* round by chance, in the mean to the value itself */ };

enum gw_trait {
    GW_TRAIT_LOSSY = 1,      /* what comes back is not what went in */
    GW_TRAIT_FIXED_RATE = 2, /* wire size follows from the count alone */
    GW_TRAIT_STORED = 4      /* raw: never codes anything */
};

/* Ids are on the wire and never reused: lossless from 0, lossy from 16, sparse from 32.  compress/FORMAT.md lists them. */
enum gw_codec_id {
    GW_CODEC_RAW = 0,
    GW_CODEC_GROUP = 1,
    GW_CODEC_TIGHT = 2,
    GW_CODEC_ENTROPY = 3,
    GW_CODEC_ZERO = 4,
    GW_CODEC_ZSTD = 5,
    GW_CODEC_LZ4 = 6,
    GW_CODEC_IDS = 64
};

/* f32 in, by name alone.  int8, int4 and sign keep blocks with Inf or NaN as they are; levels and twobit answer GW_RAW for a
 * chunk that holds one, and change nothing.  twobit: param is the threshold, as f32 bits.  Stochastic rounding: all but
 * twobit and sign. */
enum gw_lossy_id {
    GW_CODEC_BF16 = 16,
    GW_CODEC_F16 = 17,
    GW_CODEC_E4M3 = 18,
    GW_CODEC_E5M2 = 19,
    GW_CODEC_INT8 = 20,
    GW_CODEC_INT4 = 21,
    GW_CODEC_LEVELS = 22,
    GW_CODEC_TWOBIT = 23,
    GW_CODEC_SIGN = 24
};

struct gw_frame;

struct gw_codec {
    uint8_t id;
    const char *name;
    uint32_t traits;
    size_t ws_bytes; /* scratch the caller lends to every call, 64-byte aligned */
    /* the largest payload encode may write for src_len bytes, without the frame head; 0 where a lossy codec refuses c */
    size_t (*bound)(size_t src_len, const struct gw_coding *c);
    /* GW_OK; GW_RAW from a sample, before dst is touched, or when dst_cap is short; GW_E_ARG.  count_p gets the
     * frame's `count`.  A caller that wants no growth passes a dst_cap below src_len. */
    gw_err (*encode)(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap,
                     size_t *dst_len, uint32_t *count_p, void *ws);
    /* f: the head, whose wire_bytes are the length of the payload src.  GW_E_CORRUPT on anything that does not give exactly
     * dst_len bytes */
    gw_err (*decode)(const struct gw_frame *f, const void *src, void *dst, size_t dst_len, void *ws);
    /* NULL where there is none, else: decodes f32 and adds scale * value (a product, then a sum) to each of dst; 1 to 3 bytes
     * beyond the last value are left alone.  A payload is judged whole before the first addition: dst is as it was unless
     * the answer is GW_OK */
    gw_err (*decode_add)(const struct gw_frame *f, const void *src, float *dst, size_t dst_len, float scale, void *ws);
};

/* By id or by name (exact); NULL where there is none.  gw_codec_at walks the registry, NULL ends it. */
GW_API const struct gw_codec *gw_codec_by_id(unsigned id);
GW_API const struct gw_codec *gw_codec_by_name(const char *name);
GW_API const struct gw_codec *gw_codec_at(size_t i);

/* How many levels stand on either side of 0 in words of so many bits, so that words of so many ranks can be added; 0: none,
 * encode would refuse. */
GW_API uint32_t gw_levels(uint32_t bits, uint32_t ranks);

/* Adds `count` words of one levels payload to another's, made with the same param, bits and ranks.  GW_E_LIMIT when a sum
 * left the words (more payloads than ranks, or words of no encoder): what is in sum then is of no use. */
GW_API gw_err gw_levels_add(void *sum, const void *words, size_t count, uint32_t bits);

/* 1 when the name is that of a codec which this build was made without: zstd and lz4 need their libraries. */
GW_API int gw_codec_left_out(const char *name);

/* Largest ws_bytes of all codecs. */
GW_API size_t gw_codec_ws_max(void);

/* Which view suits these bytes: a pure function of an integer-only sample of at most 4 KiB spread over them.  *pays_p (may
 * be NULL) is 0 where the sample says that no lossless codec would shrink them. */
GW_API enum gw_view gw_view_pick(const void *src, size_t len, int *pays_p);

/* What a codec does here, in MB/s of raw bytes, with all the cores that may work for this flow; `gradwire bench` measures it. */
struct gw_codec_rate {
    uint8_t codec; /* id */
    uint32_t encode, decode;
};
struct gw_codec_choice {
    const struct gw_codec *codec; /* NULL: raw is as good as any */
    uint32_t ratio, share;        /* expected size, and how much of the bytes to code, in 65536ths */
    uint32_t rate;                /* expected MB/s of raw bytes; `link` for raw */
};

/* Which of the lossless codecs in `rates` gets these bytes through a link of so many MB/s soonest, when what the cores cannot
 * code in time goes raw.  A pure function of its arguments, from an integer-only sample of at most 64 groups of 256 values, 32 that are
 * not all zero; less than a
 * thirty-second is no gain.  Nothing is known beforehand of what zstd and lz4 make of bytes: they are never chosen. */
GW_API void gw_codec_choose(const void *src, size_t len, enum gw_view view, uint32_t link, const struct gw_codec_rate *rates,
                            size_t n, struct gw_codec_choice *choice_p);

/* The name of the kernel set in use: "scalar", "avx2", ... */
GW_API const char *gw_kern_name(void);

/* From now on every thread uses the set of this name: "scalar", "avx2", "avx512"; NULL: the best that runs here.  All give the
 * same bytes.  GW_E_ARG: no such name; GW_E_NOSYS: not in this build, or not on this CPU. */
GW_API gw_err gw_kern_select(const char *name);

/* The kernel sets that this machine can run, best first; NULL ends the walk. */
GW_API const char *gw_kern_name_at(size_t i);

#ifdef __cplusplus
}
#endif
#endif
