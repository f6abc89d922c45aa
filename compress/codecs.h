/* codecs.h - every codec there is.  A new one is a file, a line here and a line in codec.c. */
#ifndef GW_COMPRESS_CODECS_H
#define GW_COMPRESS_CODECS_H

#include <gradwire/codec.h>

extern const struct gw_codec gw_codec_raw;
extern const struct gw_codec gw_codec_group;
extern const struct gw_codec gw_codec_entropy;
extern const struct gw_codec gw_codec_zero;
#endif
