/* codec_lossy.c - the lossy codecs by name: lossy.c says what each of them is. */
#include "codecs.h"
#include "lossy.h"

#define LOSSY(NAME, name_, more)                                                                                     \
    static size_t bound_##name_(size_t src_len, const struct gw_coding *c)                                           \
    {                                                                                                                \
        return gw_lossy_bound(GW_CODEC_##NAME, src_len, c);                                                          \
    }                                                                                                                \
    static gw_err encode_##name_(const struct gw_coding *c, const void *src, size_t src_len, void *dst, size_t dst_cap, \
                                 size_t *dst_len, uint32_t *count_p, void *ws)                                       \
    {                                                                                                                \
        return gw_lossy_encode(GW_CODEC_##NAME, c, src, src_len, dst, dst_cap, dst_len, count_p, ws);                \
    }                                                                                                                \
    const struct gw_codec gw_codec_##name_ = {                                                                       \
        .id = GW_CODEC_##NAME,                                                                                       \
        .name = #name_,                                                                                              \
        .traits = GW_TRAIT_LOSSY | (more),                                                                           \
        .ws_bytes = sizeof(struct gw_lossy_ws),                                                                      \
        .bound = bound_##name_,                                                                                      \
        .encode = encode_##name_,                                                                                    \
        .decode = gw_lossy_decode,                                                                                   \
        .decode_add = gw_lossy_decode_add,                                                                           \
    };

LOSSY(BF16, bf16, GW_TRAIT_FIXED_RATE)
LOSSY(F16, f16, GW_TRAIT_FIXED_RATE)
LOSSY(E4M3, e4m3, GW_TRAIT_FIXED_RATE)
LOSSY(E5M2, e5m2, GW_TRAIT_FIXED_RATE)
LOSSY(INT8, int8, 0) /* blocks with Inf or NaN are longer */
LOSSY(INT4, int4, 0)
LOSSY(LEVELS, levels, GW_TRAIT_FIXED_RATE)
LOSSY(TWOBIT, twobit, GW_TRAIT_FIXED_RATE)
LOSSY(SIGN, sign, 0)
