/* clock.h - monotonic nanoseconds, and those that the calling thread has had of a core. */
#ifndef GW_BASE_CLOCK_H
#define GW_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gw_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t gw_thread_cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#endif
