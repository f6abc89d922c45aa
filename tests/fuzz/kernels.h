/* kernels.h - a fuzz target over every set of kernels: `tried` is the one whose turn it is, beside the scalar one. */
#ifndef GW_FUZZ_KERNELS_H
#define GW_FUZZ_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <kern.h>

static const struct gw_kern *tried;

/* The scalar one is tried by itself only where there is no other. */
static inline int try_each(void (*one)(const uint8_t *data, size_t size), const uint8_t *data, size_t size)
{
    unsigned ran = 0;
    for (size_t k = 0; (tried = gw_kern_at(k)) != NULL; k++) {
        if (!tried->usable() || (tried == &gw_kern_scalar && ran > 0))
            continue;
        gw_kern_force(tried);
        one(data, size), ran++;
    }
    gw_kern_force(NULL);
    return 0;
}
#endif
