/* masks.c - see masks.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <base/check.h>
#include <kern.h>

#include "masks.h"

enum { PAGE = 4096 };

/* ---- chance ---- */

uint64_t mask_state;

uint64_t mask_chance(void)
{
    mask_state += 0x9e3779b97f4a7c15u;
    uint64_t z = mask_state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t mask_below(uint64_t n)
{
    return (size_t)(mask_chance() % n);
}

/* ---- memory between two pages that nobody may touch ---- */

static uint8_t *fence[FENCES];

uint8_t *fence_end(int which, size_t n)
{
    return fence[which] + PAGE + MASK_ROOM - n;
}

uint8_t *fence_new(int which, size_t n, int end)
{
    uint8_t *start = fence[which] + PAGE;
    memset(start, MASK_CANARY, MASK_ROOM);
    return end ? fence_end(which, n) : start;
}

static int all_canaries(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == MASK_CANARY && memcmp(p, p + 1, n - 1) == 0);
}

int fence_live(int which, const uint8_t *p, size_t n)
{
    const uint8_t *start = fence[which] + PAGE, *end = start + MASK_ROOM;
    return all_canaries(start, (size_t)(p - start)) && all_canaries(p + n, (size_t)(end - p) - n);
}

int fence_setup(void **s)
{
    (void)s;
    for (int i = 0; i < FENCES; i++) {
        fence[i] = mmap(NULL, MASK_ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(fence[i] != MAP_FAILED);
        assert_int_equal(mprotect(fence[i] + PAGE, MASK_ROOM, PROT_READ | PROT_WRITE), 0);
    }
    return 0;
}

int fence_teardown(void **s)
{
    (void)s;
    for (int i = 0; i < FENCES; i++)
        munmap(fence[i], MASK_ROOM + 2 * PAGE);
    gw_kern_force(NULL);
    return 0;
}

/* ---- sets ---- */

static uint8_t mask[MASK_MOST];

float mask_value(unsigned odd)
{
    static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x80000000,
                                       0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x00000000};
    uint64_t r = mask_chance();
    uint32_t b = (uint32_t)(r >> 41 & 1) << 31 | (uint32_t)(120 - mask_below(20)) << 23 | (uint32_t)(r >> 42 & 0x7fffff);
    if (mask_below(256) < odd)
        b = special[mask_below(GW_LEN(special))];
    float v;
    memcpy(&v, &b, 4);
    return v;
}

/* Random, in clusters, in runs, in whole blocks, everything, nothing, one. */
static void draw(uint64_t space, unsigned shape)
{
    static const unsigned rare[] = {2, 3, 10, 40, 100, 1000, 10000};
    unsigned in = rare[mask_below(GW_LEN(rare))];
    memset(mask, shape == 5, space);
    if (shape == 4)
        mask[mask_below(2) ? space - 1 : mask_below(space)] = 1;
    for (uint64_t i = 0; shape < 4 && i < space;) {
        uint64_t len = shape == 0 ? 1 : shape == 3 ? 256 : 1 + mask_below(shape == 1 ? 5000 : 40);
        len = gw_min_u64(len, space - i);
        if (shape != 1)
            memset(mask + i, mask_chance() % in == 0, len);
        for (uint64_t j = i; shape == 1 && j < i + len; j++)
            mask[j] = mask_chance() % in == 0;
        in = rare[shape == 1 ? mask_below(GW_LEN(rare)) : 2];
        i += len;
    }
    if (shape == 7) /* blocks that are full but for a few */
        for (uint64_t i = 0; i < space; i++)
            mask[i] = i / 4096 % 2 == 0 ? mask_chance() % 500 != 0 : mask_chance() % 500 == 0;
}

struct mask_set mask_set_new(uint64_t space, unsigned shape, unsigned odd)
{
    struct mask_set s = {.space = space};
    draw(space, shape);
    for (uint64_t i = 0; i < space; i++)
        s.n += mask[i] != 0;
    s.index = (uint32_t *)(void *)fence_end(F_INDEX, 4 * s.n), s.value = (float *)(void *)fence_end(F_VALUE, 4 * s.n);
    size_t at = 0;
    for (uint64_t i = 0; i < space; i++)
        if (mask[i])
            s.index[at++] = (uint32_t)i;
    for (size_t i = 0; i < s.n; i++)
        s.value[i] = mask_value(odd);
    return s;
}

uint64_t mask_space(void)
{
    static const uint64_t edges[] = {1,    2,    7,    8,    255,   256,   257,   511,   512,   4095,  4096,
                                     4097, 8192, 8200, 9000, 65535, 65536, 65537, 69632, 69640, 131072};
    return mask_below(2) ? edges[mask_below(GW_LEN(edges))] : 1 + mask_below(MASK_MOST);
}
