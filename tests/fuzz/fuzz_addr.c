/* fuzz_addr.c - the lane's blob in a stranger's hello: what is accepted is written again to the same bytes, and has names that may
 * stand in a log line.
 *
 * An input whose first byte is 's' gets its length and its sum put right, or no mutation would get past them. */
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <ucx_addr.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AT_LEN = 6, AT_CHECK = 44, HEAD = 52 };

static uint64_t fnv(uint64_t h, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static void seal(struct gw_blob *blob)
{
    uint64_t h;

    gw_put16(blob->bytes + AT_LEN, (uint16_t)(blob->len - HEAD));
    h = fnv(0xcbf29ce484222325u, blob->bytes, AT_CHECK);
    gw_put64(blob->bytes + AT_CHECK, fnv(h, blob->bytes + HEAD, blob->len - HEAD));
}

static int printable(const char *name, size_t room)
{
    size_t n = strnlen(name, room);

    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return 0;
    return n > 0 && n < room;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_blob *in = malloc(sizeof *in), out;
    struct gw_ucx_addr a;

    if (size > 0 && size <= GW_BLOB_MAX + 1) {
        in->len = (uint32_t)size - 1;
        memcpy(in->bytes, data + 1, in->len);
        if (data[0] == 's' && in->len >= HEAD)
            seal(in);
        if (gw_ucx_addr_read(in, &a) == GW_OK) {
            gw_assert(a.len == in->len - HEAD && a.depth > 0 && a.depth <= GW_UCX_DEPTH_MAX);
            gw_assert(printable(a.transport, sizeof a.transport) && printable(a.segment, sizeof a.segment));
            gw_assert(gw_ucx_addr_write(&out, &a) == GW_OK && out.len == in->len);
            gw_assert(memcmp(out.bytes, in->bytes, in->len) == 0);
        }
    }
    free(in);
    return 0;
}
