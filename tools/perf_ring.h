/* perf_ring.h - what the two files of the ring share. */
#ifndef GW_TOOLS_PERF_RING_H
#define GW_TOOLS_PERF_RING_H

#include "perf_rank.h"

struct ring {
    const struct perf_opts *o;
    unsigned n;
    size_t each; /* bytes of an element */
    uint64_t elems;
    enum perf_gen type;
    char *in[PERF_RING_MAX]; /* the ranks' vectors, as long as the longest size */
    char *sum;               /* the reference for `elems` elements, made by each rank for itself */
};

struct ring_seat {
    struct perf_seat seat;
    struct ring *ring;
    int next, prev; /* perf's own connections with the two neighbours */
};

/* A rank of the ring; seat is a struct ring_seat. */
int ring_main(void *seat);
#endif
