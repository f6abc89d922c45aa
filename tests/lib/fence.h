/* fence.h - memory between two pages that nobody may touch, and numbers by chance. */
#ifndef GW_TESTS_FENCE_H
#define GW_TESTS_FENCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t state; /* a seed: the numbers that follow are the same each time */

static inline uint64_t chance(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline size_t below(size_t n)
{
    return (size_t)(chance() % n);
}

enum { FENCE_PAGE = 4096, FENCE_CANARY = 0x5a };

struct fence {
    uint8_t *base;
    size_t room;
};

/* room: a multiple of a page; NULL base when there is no memory. */
static inline struct fence fence_new(size_t room)
{
    struct fence f = {.room = room};
    f.base = mmap(NULL, room + 2 * FENCE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.base == MAP_FAILED || mprotect(f.base + FENCE_PAGE, room, PROT_READ | PROT_WRITE) != 0)
        f.base = NULL;
    return f;
}

static inline void fence_free(struct fence f)
{
    munmap(f.base, f.room + 2 * FENCE_PAGE);
}

/* n bytes whose end is the fence, or whose start is. */
static inline uint8_t *at_end(struct fence f, size_t n)
{
    return f.base + FENCE_PAGE + f.room - n;
}

static inline uint8_t *at_start(struct fence f)
{
    return f.base + FENCE_PAGE;
}

/* One of them, with canaries in the rest. */
static inline uint8_t *fenced(struct fence f, size_t n, int end)
{
    memset(at_start(f), FENCE_CANARY, f.room);
    return end ? at_end(f, n) : at_start(f);
}

static inline int canaries_live(struct fence f, const uint8_t *p, size_t n)
{
    for (const uint8_t *q = at_start(f); q < at_start(f) + f.room; q++)
        if ((q < p || q >= p + n) && *q != FENCE_CANARY)
            return 0;
    return 1;
}
#endif
