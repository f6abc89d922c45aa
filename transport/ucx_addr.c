/* ucx_addr.c - a UCP worker's address on its way through the hello.  Pure.
 *
 * UCX reads an address without checking it, so nothing reaches it that its own peer did not write:
 * the wrapper carries a length and a checksum.  This guards against accidents and strangers' bytes,
 * not against a member of the job. */
#include <base/bytes.h>

#include "ucx_addr.h"

/*  0       4         5   6     8       12          28        44      52
 *  +-------+---------+---+-----+-------+-----------+---------+-------+---------+
 *  | magic | version | 0 | len | depth | transport | segment | check | address |   little-endian
 *  +-------+---------+---+-----+-------+-----------+---------+-------+---------+
 * len: the address's.  depth: puts that this side may have outstanding, so that the other has as
 * many receives.  segment: what must be equal on both sides.  check: over all the rest. */
enum {
    MAGIC = 0x78757767,
    VERSION = 1,
    AT_LEN = 6,
    AT_DEPTH = 8,
    AT_NAME = 12,
    AT_SEGMENT = 28,
    AT_CHECK = 44,
    HEAD = 52
};

/* FNV-1a, 64 bits: an address has a hundred bytes, and the module stays free of another library. */
static uint64_t fnv(uint64_t h, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t check_of(const uint8_t *blob, uint32_t len)
{
    uint64_t h = fnv(0xcbf29ce484222325u, blob, AT_CHECK);
    return fnv(h, blob + HEAD, len);
}

gw_err gw_ucx_addr_write(struct gw_blob *out, const struct gw_ucx_addr *a)
{
    uint8_t *p = out->bytes;
    if (a->len > GW_BLOB_MAX - HEAD)
        return GW_E_LIMIT;
    memset(p, 0, HEAD);
    gw_put32(p, MAGIC);
    p[4] = VERSION;
    gw_put16(p + AT_LEN, (uint16_t)a->len);
    gw_put32(p + AT_DEPTH, a->depth);
    memcpy(p + AT_NAME, a->transport, sizeof(a->transport));
    memcpy(p + AT_SEGMENT, a->segment, sizeof(a->segment));
    memcpy(p + HEAD, a->address, a->len);
    gw_put64(p + AT_CHECK, check_of(p, a->len));
    out->len = HEAD + a->len;
    return GW_OK;
}

/* Printable and closed by zeros: it may stand in a log line. */
static int is_name(const char *name, size_t size)
{
    size_t n = strnlen(name, size);
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return 0;
    return n > 0 && n < size && gw_zero((const uint8_t *)name + n, size - n);
}

gw_err gw_ucx_addr_read(const struct gw_blob *in, struct gw_ucx_addr *a)
{
    const uint8_t *p = in->bytes;
    struct gw_ucx_addr got;
    if (in->len > GW_BLOB_MAX || in->len < HEAD)
        return GW_E_PROTO;
    if (gw_get32(p) != MAGIC || p[4] != VERSION || p[5] != 0)
        return GW_E_PROTO;
    got.len = gw_get16(p + AT_LEN);
    got.depth = gw_get32(p + AT_DEPTH);
    got.address = p + HEAD;
    memcpy(got.transport, p + AT_NAME, sizeof(got.transport));
    memcpy(got.segment, p + AT_SEGMENT, sizeof(got.segment));
    if (got.len == 0 || got.len != in->len - HEAD || gw_get64(p + AT_CHECK) != check_of(p, got.len))
        return GW_E_PROTO;
    if (got.depth == 0 || got.depth > GW_UCX_DEPTH_MAX)
        return GW_E_PROTO;
    if (!is_name(got.transport, sizeof(got.transport)) ||
        !is_name(got.segment, sizeof(got.segment)))
        return GW_E_PROTO;
    *a = got;
    return GW_OK;
}
