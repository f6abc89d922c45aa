/* masks.h - for the tests of sparse sets: sets drawn by chance, and memory between pages that nobody may touch. */
#ifndef GW_TESTS_MASKS_H
#define GW_TESTS_MASKS_H

#include <stddef.h>
#include <stdint.h>

enum { MASK_MOST = 150000, MASK_ROOM = 1 << 20, MASK_SHAPES = 8, MASK_CANARY = 0x5a };

extern uint64_t mask_state; /* of the numbers that chance gives */
uint64_t mask_chance(void);
size_t mask_below(uint64_t n);

/* Some buffers of MASK_ROOM bytes, each between two such pages. */
enum { F_INDEX, F_VALUE, F_CODED, F_OTHER, F_OUT_INDEX, F_OUT_VALUE, FENCES };
int fence_setup(void **s);
int fence_teardown(void **s);
/* n bytes whose end is the page. */
uint8_t *fence_end(int which, size_t n);
/* n bytes at the end or at the start; all others of the buffer are canaries. */
uint8_t *fence_new(int which, size_t n, int end);
int fence_live(int which, const uint8_t *p, size_t n);

struct mask_set {
    uint64_t space;
    size_t n;
    uint32_t *index;
    float *value;
};

/* The set in F_INDEX and F_VALUE: random, in clusters, in runs, in whole blocks, one, all, none, nearly full blocks.  odd of
 * 256 values are special ones. */
struct mask_set mask_set_new(uint64_t space, unsigned shape, unsigned odd);
float mask_value(unsigned odd);
/* Up to MASK_MOST coordinates, often at the edge of a block. */
uint64_t mask_space(void);
#endif
