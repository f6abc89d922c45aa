/* library.c - blocks for the codecs of other libraries: a table of one u32 per block, the blocks behind it.
 *
 * A block is stored where its length is that of its bytes.  Read gw_library_encode, then gw_library_decode. */
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>

#include "library.h"

static size_t blocks_of(size_t len)
{
    return len / GW_BLOCK_BYTES + (len % GW_BLOCK_BYTES != 0);
}

size_t gw_library_bound(size_t src_len, const struct gw_coding *c)
{
    (void)c;
    return src_len + 4 * blocks_of(src_len);
}

/* A gain below a thirty-second is not worth the work: what a piece from the middle says. */
static int pays(const struct gw_library *lib, const uint8_t *src, size_t len, uint8_t *ws)
{
    if (len <= 4 * (size_t)GW_BLOCK_SAMPLE)
        return 1;
    size_t most = GW_BLOCK_SAMPLE - GW_BLOCK_SAMPLE / 32;
    return lib->encode(src + len / 2, GW_BLOCK_SAMPLE, ws, most, ws + GW_BLOCK_BYTES) != 0;
}

/* The length of the block at dst, 0 where it does not fit. */
static size_t encode_block(const struct gw_library *lib, const uint8_t *src, size_t n, uint8_t *dst, size_t room, uint8_t *ws)
{
    size_t len = lib->encode(src, n, dst, gw_min_u64(n - 1, room), ws + GW_BLOCK_BYTES);
    if (len > 0)
        return len;
    if (n > room)
        return 0;
    memcpy(dst, src, n);
    return n;
}

gw_err gw_library_encode(const struct gw_library *lib, const struct gw_coding *c, const void *src, size_t src_len, void *dst,
                         size_t dst_cap, size_t *dst_len, uint32_t *count_p, void *ws)
{
    if (c == NULL || c->size < offsetof(struct gw_coding, param) || c->view >= GW_VIEW_COUNT || src_len > GW_CHUNK_MAX)
        return GW_E_ARG;
    size_t blocks = blocks_of(src_len);
    if (src_len == 0 || dst_cap < 4 * blocks || !pays(lib, src, src_len, ws))
        return GW_RAW;
    uint8_t *table = dst, *at = table + 4 * blocks;
    size_t room = dst_cap - 4 * blocks;
    for (size_t i = 0; i < blocks; i++) {
        size_t from = i * GW_BLOCK_BYTES, n = gw_min_u64(GW_BLOCK_BYTES, src_len - from);
        size_t len = encode_block(lib, (const uint8_t *)src + from, n, at, room, ws);
        if (len == 0)
            return GW_RAW;
        gw_put32(table + 4 * i, (uint32_t)len);
        at += len, room -= len;
    }
    *dst_len = dst_cap - room;
    *count_p = (uint32_t)blocks;
    return GW_OK;
}

static gw_err decode_block(const struct gw_library *lib, const uint8_t *in, size_t len, uint8_t *dst, size_t n, uint8_t *ws)
{
    if (len == n) {
        memcpy(dst, in, n);
        return GW_OK;
    }
    gw_copy_once(ws, in, len); /* len is below n, and that is a block at most */
    return lib->decode(ws, len, dst, n, ws + GW_BLOCK_BYTES) ? GW_OK : GW_E_CORRUPT;
}

gw_err gw_library_decode(const struct gw_library *lib, const struct gw_frame *f, const void *src, void *dst, size_t dst_len,
                         void *ws)
{
    size_t blocks = blocks_of(dst_len), left = f->wire_bytes;
    const uint8_t *table = src;
    if (f->view >= GW_VIEW_COUNT || f->param != 0 || dst_len > GW_CHUNK_MAX || f->count != blocks || left < 4 * blocks)
        return GW_E_CORRUPT;
    const uint8_t *at = table + 4 * blocks;
    left -= 4 * blocks;
    for (size_t i = 0; i < blocks; i++) {
        size_t from = i * GW_BLOCK_BYTES, n = gw_min_u64(GW_BLOCK_BYTES, dst_len - from);
        uint8_t entry[4];
        gw_copy_once(entry, table + 4 * i, sizeof(entry));
        size_t len = gw_get32(entry);
        if (len == 0 || len > n || len > left)
            return GW_E_CORRUPT;
        gw_err err = decode_block(lib, at, len, (uint8_t *)dst + from, n, ws);
        if (err != GW_OK)
            return err;
        at += len, left -= len;
    }
    return left == 0 ? GW_OK : GW_E_CORRUPT;
}
