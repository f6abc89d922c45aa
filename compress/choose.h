/* choose.h - what gw_codec_choose is made of, for tests. */
#ifndef GW_COMPRESS_CHOOSE_H
#define GW_COMPRESS_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

/* About what a codec would make of these bytes, in 65536ths of them, from a sample; 65536 where nothing is known. */
uint32_t gw_choose_ratio(unsigned codec, enum gw_view view, const void *src, size_t len);

/* MB/s over a link that takes `link` of them, when a codec of this ratio codes what it can and the rest goes raw.  *share_p:
 * how much of it is coded, in 65536ths. */
uint32_t gw_choose_rate(uint32_t ratio, uint32_t encode, uint32_t decode, uint32_t link, uint32_t *share_p);
#endif
