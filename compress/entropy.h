/* entropy.h - one block of the entropy codec.  The bytes are drawn in FORMAT.md; codec_entropy.c
 * puts blocks into a payload. */
#ifndef GW_COMPRESS_ENTROPY_H
#define GW_COMPRESS_ENTROPY_H

#include "group.h"
#include "rans.h"

enum {
    GW_BLOCK_VALUES = 16384,
    GW_BLOCK_GROUPS = GW_BLOCK_VALUES / GW_GROUP_VALUES,
    GW_BLOCK_COUNTS = 4 * GW_RANS_LANES, /* states first, then how many words and escapes */
    GW_BLOCK_KINDS = GW_BLOCK_COUNTS + 4
};

/* Two bits per group. */
enum gw_block_kind { GW_BLOCK_ZERO = 0, GW_BLOCK_RAW = 1, GW_BLOCK_WINDOW = 2 };

/* A block that is being decoded.  Head and codes are looked at here only, where no peer can change
 * them. */
struct gw_block {
    enum gw_view view;
    uint8_t *dst;
    size_t n, groups, windows, escapes; /* n: bytes of dst */
    const uint8_t *body, *tops, *tail, *esc;
    struct gw_rans_run run;
    uint32_t state[GW_RANS_LANES];
    uint8_t kinds[GW_BLOCK_GROUPS / 4];
    uint8_t codes[GW_BLOCK_GROUPS * GW_CODES_BYTES];
};
enum { GW_BLOCKS_AT_ONCE = 2 };

struct gw_block_writer {
    uint32_t state[GW_RANS_LANES];
    uint8_t kinds[GW_BLOCK_GROUPS / 4], tops[GW_BLOCK_GROUPS];
    uint8_t codes[GW_BLOCK_GROUPS * GW_CODES_BYTES];
    uint8_t esc[GW_BLOCK_GROUPS * GW_CODES_BYTES + GW_GROUP_VALUES];
    uint8_t words[GW_RANS_SLACK + 2 * GW_BLOCK_VALUES];
};

/* The scratch of a call. */
struct gw_entropy_ws {
    struct gw_rans rans;
    uint8_t body[GW_GROUP_BYTES_MAX]; /* of one group, as group has it */
    union {
        struct gw_block_writer out;
        struct gw_block in[GW_BLOCKS_AT_ONCE];
    };
};

static inline size_t gw_block_groups(enum gw_view view, size_t n)
{
    return (n / gw_view_shapes[view].width + GW_GROUP_VALUES - 1) / GW_GROUP_VALUES;
}

/* Kinds stand in whole u32. */
static inline size_t gw_block_kinds_bytes(size_t groups)
{
    return (groups + 15) / 16 * 4;
}

/* What a window group has beside its codes, in bytes. */
static inline size_t gw_block_plane(enum gw_view view)
{
    return gw_view_shapes[view].body - GW_CODES_BYTES;
}

/* Codes the n bytes at src into out, with ws->rans.  Answers the length; 0 where it is more than
 * room: what is in out is meaningless then, and nothing beyond room was touched. */
size_t gw_block_encode(const struct gw_kern *kern, enum gw_view view, const uint8_t *src, size_t n, uint8_t *out, size_t room,
                       struct gw_entropy_ws *ws);

/* Reads the head of a block from hostile bytes: of `in`, len are its own, padding included, and those
 * up to limit may be read.  *used_p: how many of the len belong to it. */
gw_err gw_block_open(struct gw_block *b, enum gw_view view, const uint8_t *in, size_t len, size_t limit, uint8_t *dst, size_t n,
                     size_t *used_p);

/* Decodes so many blocks that were opened, at most GW_BLOCKS_AT_ONCE. */
gw_err gw_blocks_read(const struct gw_kern *kern, struct gw_entropy_ws *ws, size_t blocks);
#endif
