/* codecs.h - every codec there is.  A new one is a file, a line here and a line in codec.c. */
#ifndef GW_COMPRESS_CODECS_H
#define GW_COMPRESS_CODECS_H

#include <gradwire/codec.h>

extern const struct gw_codec gw_codec_raw;
extern const struct gw_codec gw_codec_group;
/* Codecs of other libraries, each NULL where its file is not linked. */
#define GW_OPTIONAL __attribute__((weak, visibility("hidden")))
extern const struct gw_codec gw_codec_zstd GW_OPTIONAL, gw_codec_lz4 GW_OPTIONAL;
#endif
