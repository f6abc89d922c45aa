/* kern.c - which table of inner loops this machine uses. */
#include <stdatomic.h>
#include <string.h>

#include "kern.h"

const struct gw_view_shape gw_view_shapes[GW_VIEW_COUNT] = {
    [GW_VIEW_BYTES] = {.width = 1, .body = 128, .raw = 256, .escapes = 127, .zeros = 96},
    [GW_VIEW_BF16] = {.width = 2, .body = 384, .raw = 512, .escapes = 127, .zeros = 40},
    [GW_VIEW_F32] = {.width = 4, .body = 896, .raw = 1024, .escapes = 127, .zeros = 24},
    [GW_VIEW_F16] = {.width = 2, .body = 448, .raw = 512, .escapes = 63, .zeros = 40},
    [GW_VIEW_F32_BF16] = {.width = 4, .body = 384, .raw = 512, .escapes = 127, .zeros = 40},
};

const struct gw_kern *gw_kern_at(size_t i)
{
    static const struct gw_kern *const all[] = {
#if defined(__x86_64__)
        &gw_kern_avx512, &gw_kern_avx2, &gw_kern_avx512_simde,
#endif
        &gw_kern_scalar,
    };
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        if (all[k] != NULL && i-- == 0)
            return all[k];
    return NULL;
}

static _Atomic(const struct gw_kern *) chosen;

/* Two threads may both look; they find the same table.  The scalar one stands last and is usable
 * everywhere. */
static const struct gw_kern *choose(void)
{
    const struct gw_kern *kern = &gw_kern_scalar, *at;
    for (size_t i = 0; (at = gw_kern_at(i)) != NULL; i++) {
        if (at->usable()) {
            kern = at;
            break;
        }
    }
    atomic_store_explicit(&chosen, kern, memory_order_relaxed);
    return kern;
}

const struct gw_kern *gw_kern_get(void)
{
    const struct gw_kern *kern = atomic_load_explicit(&chosen, memory_order_relaxed);
    return kern != NULL ? kern : choose();
}

void gw_kern_force(const struct gw_kern *kern)
{
    atomic_store_explicit(&chosen, kern, memory_order_relaxed);
}

/* A set that is known but not built in is one that cannot be had, not a slip of the pen. */
static int known(const char *name)
{
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

gw_err gw_kern_select(const char *name)
{
    const struct gw_kern *at = NULL;
    for (size_t i = 0; name != NULL && (at = gw_kern_at(i)) != NULL; i++)
        if (strcmp(at->name, name) == 0)
            break;
    if (name != NULL && (at == NULL || !at->usable()))
        return known(name) ? GW_E_NOSYS : GW_E_ARG;
    gw_kern_force(at);
    return GW_OK;
}

const char *gw_kern_name(void)
{
    return gw_kern_get()->name;
}

const char *gw_kern_name_at(size_t i)
{
    const struct gw_kern *at;
    for (size_t k = 0; (at = gw_kern_at(k)) != NULL; k++)
        if (at->usable() && i-- == 0)
            return at->name;
    return NULL;
}
