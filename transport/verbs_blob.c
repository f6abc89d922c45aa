/* verbs_blob.c - an end of a verbs lane on its way through the hello, and the line of a grant.  Pure; drawn in WIRE.md. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "verbs_blob.h"

#include <base/bytes.h>

enum {
    MAGIC = 0x62767767,
    VERSION = 1,
    AT_PORT = 5,
    AT_IB = 6,
    AT_PATHS = 7,
    AT_MTU = 8,
    AT_INDEX = 9,
    AT_LID = 10,
    AT_KEY = 12,
    AT_INBOX = 16,
    AT_BYTES = 24,
    AT_GID = 32,
    AT_DEVICE = 48,
    AT_QPN = 80,
    AT_PSN = 96,
    BLOB = 112,
    U24 = 0xffffff,
    MTU_MAX = 5 /* 4096 bytes */
};

void gw_verbs_blob_write(struct gw_blob *out, const struct gw_verbs_blob *b)
{
    uint8_t *p = out->bytes;

    memset(p, 0, BLOB);
    gw_put32(p, MAGIC);
    p[4] = VERSION;
    p[AT_PORT] = b->port, p[AT_IB] = b->is_ib, p[AT_PATHS] = b->paths;
    p[AT_MTU] = b->mtu, p[AT_INDEX] = b->gid_index;
    gw_put16(p + AT_LID, b->lid);
    gw_put32(p + AT_KEY, b->inbox_key);
    gw_put64(p + AT_INBOX, b->inbox);
    gw_put32(p + AT_BYTES, b->inbox_bytes);
    memcpy(p + AT_GID, b->gid, sizeof b->gid);
    memcpy(p + AT_DEVICE, b->device, sizeof b->device);
    for (int i = 0; i < b->paths; i++) {
        gw_put32(p + AT_QPN + 4 * i, b->qpn[i]);
        gw_put32(p + AT_PSN + 4 * i, b->psn[i]);
    }
    out->len = BLOB;
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

static int numbers_fit(const uint8_t *p, const struct gw_verbs_blob *b)
{
    if (b->is_ib > 1 || b->port == 0 || b->paths == 0 || b->paths > GW_PATHS_MAX || b->mtu == 0 || b->mtu > MTU_MAX)
        return 0;
    for (int i = 0; i < GW_PATHS_MAX; i++)
        if (b->qpn[i] > U24 || b->psn[i] > U24 || (i >= b->paths && (b->qpn[i] | b->psn[i]) != 0))
            return 0;
    return gw_zero(p + AT_BYTES + 4, 4) && b->inbox_bytes <= UINT64_MAX - b->inbox;
}

gw_err gw_verbs_blob_read(const struct gw_blob *in, struct gw_verbs_blob *b)
{
    const uint8_t *p = in->bytes;
    struct gw_verbs_blob got;

    if (in->len != BLOB || gw_get32(p) != MAGIC || p[4] != VERSION)
        return GW_E_PROTO;
    got.port = p[AT_PORT], got.is_ib = p[AT_IB], got.paths = p[AT_PATHS];
    got.mtu = p[AT_MTU], got.gid_index = p[AT_INDEX];
    got.lid = gw_get16(p + AT_LID);
    got.inbox_key = gw_get32(p + AT_KEY);
    got.inbox = gw_get64(p + AT_INBOX);
    got.inbox_bytes = gw_get32(p + AT_BYTES);
    memcpy(got.gid, p + AT_GID, sizeof got.gid);
    memcpy(got.device, p + AT_DEVICE, sizeof got.device);
    for (int i = 0; i < GW_PATHS_MAX; i++) {
        got.qpn[i] = gw_get32(p + AT_QPN + 4 * i);
        got.psn[i] = gw_get32(p + AT_PSN + 4 * i);
    }
    if (!numbers_fit(p, &got) || !is_name(got.device, sizeof got.device))
        return GW_E_PROTO;
    *b = got;
    return GW_OK;
}

/* ---- the line of a grant ---- */

enum { AT_CHECK = GW_LINE - 8, AT_COUNT = GW_LINE - 4 };

void gw_verbs_grant_write(uint8_t line[GW_LINE], const uint8_t msg[GW_GRANT_BYTES], uint32_t count)
{
    memset(line, 0, GW_LINE);
    memcpy(line, msg, GW_GRANT_BYTES);
    gw_put32(line + AT_CHECK, XXH32(line, AT_CHECK, count));
    gw_put32(line + AT_COUNT, count);
}

gw_err gw_verbs_grant_read(const uint8_t line[GW_LINE], uint8_t msg[GW_GRANT_BYTES], uint32_t *count_p)
{
    uint32_t count = gw_get32(line + AT_COUNT);

    if (gw_get32(line + AT_CHECK) != XXH32(line, AT_CHECK, count) || !gw_zero(line + GW_GRANT_BYTES, AT_CHECK - GW_GRANT_BYTES))
        return GW_AGAIN;
    memcpy(msg, line, GW_GRANT_BYTES);
    *count_p = count;
    return GW_OK;
}
