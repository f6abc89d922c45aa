/* bench_gain.c - what a codec is worth on a link, from its ratio and its rates. */
#include "bench.h"

const double bench_links[BENCH_LINKS] = {10, 25, 100, 200, 400};
const int bench_cores[BENCH_CORES] = {1, 2, 4, 8};

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* All coded: the slowest of encoder, link and decoder sets the pace.  Mixed: what the cores cannot code in time goes raw, and
 * each coded byte frees 1 - ratio of the link. */
struct bench_gain bench_gain(double ratio, double encode, double decode, double link_gbits, int cores)
{
    double link = link_gbits / 8, pace = least(encode, decode) * cores, whole = ratio > 0 ? link / ratio : link * 1e6;
    struct bench_gain g = {.full = least(pace, whole) / link};

    g.mixed = ratio < 1 ? least(whole, link + (1 - ratio) * pace) / link : 1;
    return g;
}
