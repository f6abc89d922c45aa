/* codecs.h - every codec there is.  A new one is a file, a line here and a line in codec.c. */
#ifndef GW_COMPRESS_CODECS_H
#define GW_COMPRESS_CODECS_H

#include <gradwire/codec.h>

extern const struct gw_codec gw_codec_raw;
extern const struct gw_codec gw_codec_group;
extern const struct gw_codec gw_codec_tight;
extern const struct gw_codec gw_codec_entropy;
extern const struct gw_codec gw_codec_zero;
extern const struct gw_codec gw_codec_bf16, gw_codec_f16, gw_codec_e4m3, gw_codec_e5m2, gw_codec_int8, gw_codec_int4,
    gw_codec_levels, gw_codec_twobit, gw_codec_sign;

/* frame.c: the checksum of so many bytes. */
uint64_t gw_check_of(const uint8_t *bytes, size_t len);
/* Codecs of other libraries, each NULL where its file is not linked. */
#define GW_OPTIONAL __attribute__((weak, visibility("hidden")))
extern const struct gw_codec gw_codec_zstd GW_OPTIONAL, gw_codec_lz4 GW_OPTIONAL;
#endif
