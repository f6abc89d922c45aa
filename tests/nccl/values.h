/* values.h - what each rank puts in, and what may come out of a sum. */
#ifndef GW_TESTS_NCCL_VALUES_H
#define GW_TESTS_NCCL_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum { RANKS_MAX = 8 };

enum type { TYPE_F32, TYPE_BF16, TYPE_I32, TYPES };
size_t type_bytes(enum type t);

/* Made up, or read from a file of numbers, each rank beginning at another place of it. */
struct values {
    enum type type;
    int ranks;
    const void *file; /* NULL: made up */
    size_t file_count;
};

/* A rank's element i. */
void value_put(const struct values *v, int rank, size_t i, void *to);
/* Whether `got` is that element, bit for bit. */
int value_is(const struct values *v, int rank, size_t i, const void *got);
/* Whether `got` is the sum of all ranks' elements i, rounded after each addition, in some order of the ranks.
 *
 * Where in the ring an element's sum begins depends on NCCL's channels and chunks, and how its tree hangs on the topology, but
 * up to four ranks every ring and every tree adds them one after the other.  Made-up values are chosen so that no sum of up to
 * RANKS_MAX of them rounds. */
int value_is_sum(const struct values *v, size_t i, const void *got);

#endif
