/* fuzz_verbs.c - the verbs lane's blob in a stranger's hello: what is accepted is written again to the same bytes, and holds
 * numbers and a name that may be used. */
#include <stdlib.h>
#include <string.h>

#include <base/check.h>
#include <verbs_blob.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    free(in);
    return 0;
}
