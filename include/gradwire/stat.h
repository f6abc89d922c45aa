/* stat.h - one page of counters of one process, for readers outside of it.
 *
 * A reader makes a memfd of GW_STAT_BYTES, zeroed and sealed with F_SEAL_SHRINK, and names its number in GRADWIRE_STAT_FD before the first init; a plugin
 * that finds it maps the page, fills it and keeps its own copy of the mapping.  Nobody waits for anybody: counters only
 * grow, each is read and written with relaxed atomics, and no two of them are promised to belong to the same moment.
 * `magic` is stored last, so a page whose magic is right has every other head field. */
#ifndef GRADWIRE_STAT_H
#define GRADWIRE_STAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_STAT_MAGIC 0x7461747365726977ull /* "wirestat" in memory */
enum { GW_STAT_VERSION = 1, GW_STAT_BYTES = 4096, GW_STAT_LANE_BYTES = 16, GW_STAT_CODEC_BYTES = 32 };

/* Version 1.  Later versions only use what is reserved here. */
struct gw_stat_page {
    uint64_t magic;
    uint32_t version;
    uint32_t size;     /* GW_STAT_BYTES */
    uint32_t pid;
    uint32_t zero;
    uint64_t start_ns; /* CLOCK_MONOTONIC when the page was filled: with pid it tells a process from a later one */

    /* Always ended by a NUL.  lane is empty until the first connection is up. */
    char lane[GW_STAT_LANE_BYTES];
    char codec[GW_STAT_CODEC_BYTES];
    char policy[GW_STAT_LANE_BYTES];

    uint64_t sends;        /* messages whose send is done */
    uint64_t recvs;        /* messages whose receive is done */
    uint64_t raw_sent;     /* the user's bytes */
    uint64_t wire_sent;    /* payload and frame heads that crossed the lane for them */
    uint64_t raw_recved;
    uint64_t wire_recved;
    uint64_t chunks_coded; /* sent chunks that went as frames */
    uint64_t chunks_raw;   /* sent chunks that went as they are */
    uint64_t encode_ns;    /* CPU time of the codec, wherever it ran */
    uint64_t decode_ns;
    uint64_t encode_bytes; /* raw bytes given to encode, useless attempts too */
    uint64_t decode_bytes; /* raw bytes given back by decode */
    uint64_t host_ns;      /* time inside the host's calls, polls that found nothing left out */
    uint64_t control_msgs; /* offers, grants, ends and whatever else is no payload */
    uint64_t late_errors;  /* errors that only follow from an earlier one, not printed */
    uint64_t comms_open;   /* a level, not a sum */

    uint8_t reserved[GW_STAT_BYTES - 4 * 8 - 4 * 16 - 16 * 8];
};

#ifdef __cplusplus
static_assert(sizeof(struct gw_stat_page) == GW_STAT_BYTES, "the page is a page");
#else
_Static_assert(sizeof(struct gw_stat_page) == GW_STAT_BYTES, "the page is a page");
#endif

static inline void gw_stat_add(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t gw_stat_get(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* 1 when the page was filled by a writer whose version this reader knows. */
static inline int gw_stat_ready(const struct gw_stat_page *page)
{
    return __atomic_load_n(&page->magic, __ATOMIC_ACQUIRE) == GW_STAT_MAGIC && page->version == GW_STAT_VERSION;
}

#ifdef __cplusplus
}
#endif
#endif
