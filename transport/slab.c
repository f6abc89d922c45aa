/* slab.c - a stack of free pieces for each half; 32 bits of the head count the changes, so that a piece that went and came
 * back between a read and its swap does not pass for untouched. */
#include "slab.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <base/check.h>

enum { NONE = 0xffffffff, FRAME_ALIGN = 64, STRIDE_ALIGN = 4096 };

struct stack {
    _Atomic uint64_t head; /* changes << 32 | index of the first free piece */
    _Atomic uint32_t left;
    uint32_t total;
};

struct gw_slab {
    const struct gw_lane_ops *ops;
    void *dev;
    uint8_t *base;
    size_t bytes;
    uint32_t stride, piece_bytes;
    struct gw_region region;
    struct stack half[2];
    _Atomic uint32_t *next;
};

static void push(struct gw_slab *slab, struct stack *s, uint32_t index)
{
    uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    uint64_t want;

    do {
        atomic_store_explicit(&slab->next[index], (uint32_t)head, memory_order_relaxed);
        want = ((head >> 32) + 1) << 32 | index;
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &head, want, memory_order_release, memory_order_relaxed));
    atomic_fetch_add_explicit(&s->left, 1, memory_order_relaxed);
}

static uint32_t pop(struct gw_slab *slab, struct stack *s)
{
    uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
    uint64_t want;

    do {
        if ((uint32_t)head == NONE)
            return NONE;
        uint32_t next = atomic_load_explicit(&slab->next[(uint32_t)head], memory_order_relaxed);
        want = ((head >> 32) + 1) << 32 | next;
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &head, want, memory_order_acquire, memory_order_acquire));
    atomic_fetch_sub_explicit(&s->left, 1, memory_order_relaxed);
    return (uint32_t)head;
}

static void fill(struct gw_slab *slab, uint32_t pieces)
{
    for (int h = 0; h < 2; h++)
        atomic_store(&slab->half[h].head, NONE);
    for (uint32_t i = pieces; i-- > 0;)
        push(slab, &slab->half[i % 2], i);
    for (int h = 0; h < 2; h++)
        slab->half[h].total = atomic_load(&slab->half[h].left);
}

gw_err gw_slab_new(const struct gw_lane_ops *ops, void *dev, uint64_t bytes, uint32_t chunk_bytes, struct gw_slab **slab_p)
{
    uint64_t stride = ((uint64_t)chunk_bytes + FRAME_ALIGN + STRIDE_ALIGN - 1) / STRIDE_ALIGN * STRIDE_ALIGN;
    uint64_t pieces = bytes / stride;
    struct gw_slab *slab;
    gw_err err = GW_E_NOMEM;

    if (pieces < 2 || pieces > 1u << 24)
        return GW_E_ARG;
    slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return GW_E_NOMEM;
    slab->ops = ops, slab->dev = dev;
    slab->stride = (uint32_t)stride, slab->piece_bytes = GW_HEAD_BYTES + chunk_bytes;
    slab->bytes = stride * pieces;
    slab->next = calloc(pieces, sizeof *slab->next);
    if (slab->next == NULL)
        goto free_slab;
    /* pages come as they are touched: a job that never codes pays for none */
    slab->base = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab->base == MAP_FAILED)
        goto free_next;
    err = ops->reg(dev, slab->base, slab->bytes, 1, &slab->region);
    if (err != GW_OK)
        goto unmap;
    fill(slab, (uint32_t)pieces);
    *slab_p = slab;
    return GW_OK;

unmap:
    munmap(slab->base, slab->bytes);
free_next:
    free(slab->next);
free_slab:
    free(slab);
    return err;
}

void gw_slab_free(struct gw_slab *slab)
{
    if (slab == NULL)
        return;
    slab->ops->dereg(slab->dev, &slab->region);
    munmap(slab->base, slab->bytes);
    free(slab->next);
    free(slab);
}

gw_err gw_slab_lend(struct gw_slab *slab, enum gw_slab_half half, struct gw_piece *piece_p)
{
    uint32_t index = pop(slab, &slab->half[half]);

    if (index == NONE)
        return GW_AGAIN;
    piece_p->index = index;
    piece_p->half = (uint8_t)half;
    piece_p->base = slab->base + (size_t)index * slab->stride + FRAME_ALIGN - GW_HEAD_BYTES;
    return GW_OK;
}

void gw_slab_back(struct gw_slab *slab, const struct gw_piece *piece)
{
    gw_assert(piece->index % 2 == piece->half);
    push(slab, &slab->half[piece->half], piece->index);
}

uint32_t gw_slab_left(const struct gw_slab *slab, enum gw_slab_half half)
{
    return atomic_load_explicit(&slab->half[half].left, memory_order_relaxed);
}

uint32_t gw_slab_total(const struct gw_slab *slab, enum gw_slab_half half)
{
    return slab->half[half].total;
}

uint32_t gw_slab_piece_bytes(const struct gw_slab *slab)
{
    return slab->piece_bytes;
}

const struct gw_region *gw_slab_region(const struct gw_slab *slab)
{
    return &slab->region;
}
