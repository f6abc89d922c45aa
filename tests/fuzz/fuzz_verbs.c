/* fuzz_verbs.c - the verbs lane's blob in a stranger's hello, and the line of a grant in our memory: what is accepted is written
 * again to the same bytes, and a blob holds numbers and a name that may be used.
 *
 * A line whose first byte is an 's' more gets its sum put right, or no mutation would get past it. */
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <verbs_blob.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void line_of_grant(const uint8_t *data, int seal)
{
    uint8_t line[GW_LINE], again[GW_LINE], msg[GW_GRANT_BYTES];
    uint32_t count;

    memcpy(line, data, sizeof line);
    if (seal)
        gw_verbs_grant_write(line, data, gw_get32(data + GW_LINE - 4));
    gw_assert(!seal || gw_verbs_grant_read(line, msg, &count) == GW_OK);
    if (gw_verbs_grant_read(line, msg, &count) != GW_OK)
        return;
    gw_verbs_grant_write(again, msg, count);
    gw_assert(memcmp(again, line, sizeof line) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_blob *in = malloc(sizeof *in), out;
    struct gw_verbs_blob b;

    if (in != NULL && size <= GW_BLOB_MAX) {
        in->len = (uint32_t)size;
        memcpy(in->bytes, data, size);
        if (gw_verbs_blob_read(in, &b) == GW_OK) {
            gw_assert(b.paths >= 1 && b.paths <= GW_PATHS_MAX && b.port > 0 && b.is_ib <= 1);
            gw_assert(strnlen(b.device, sizeof b.device) < sizeof b.device);
            gw_verbs_blob_write(&out, &b);
            gw_assert(out.len == in->len && memcmp(out.bytes, in->bytes, in->len) == 0);
        }
    }
    if (size == GW_LINE || (size == GW_LINE + 1 && data[0] == 's'))
        line_of_grant(data + size - GW_LINE, size > GW_LINE);
    free(in);
    return 0;
}
