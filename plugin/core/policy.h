/* policy.h - what the sender has measured of its link and its codec, and what follows from it.  No clock, no lane: numbers in,
 * numbers out. */
#ifndef GW_CORE_POLICY_H
#define GW_CORE_POLICY_H

#include <stdint.h>

#include "crowd.h"
#include "trial.h"

enum gw_policy_mode { GW_POLICY_AUTO = 0, GW_POLICY_ALWAYS, GW_POLICY_NEVER };
enum { GW_MARKS = 64, GW_RATES = 8 };

struct gw_policy {
    enum gw_policy_mode mode;
    uint32_t chunk_bytes;
    uint64_t window_fixed; /* setting; 0: measured */

    /* the link: bytes posted and bytes known to have landed */
    uint64_t posted, landed;
    struct { uint64_t total, ns; } mark[GW_MARKS]; /* when `posted` reached total */
    uint32_t mark_head, mark_tail;
    uint64_t delay_ns; /* shortest from posting to landed; 0: none seen yet */
    uint64_t rate[GW_RATES], rate_max; /* bytes per second, newest at rate_at - 1 */
    uint32_t rate_at;
    uint64_t since_ns, since_landed; /* the interval being measured; since_ns 0: none */

    /* the codec: moving averages, in ns per KiB and ns */
    uint64_t encode_ns_kib, decode_ns_kib, wait_ns;
    uint32_t jobs_seen, ahead;
    uint64_t taken_ns; /* when a codec was given its last chunk */
    /* bytes that do not shrink: how many chunks to leave out, and how many next time */
    uint32_t skip, skip_next;
    /* where coding a byte may cost more time than it saves the link */
    uint64_t cpu_ns_kib; /* of an encode */
    uint32_t saved;      /* share of the bytes that coding saves, in 1/1024 */
    struct gw_crowd crowd;    /* here; the peer's is told with its offers */
    uint8_t peer_crowded;
    struct gw_trial trial;
    uint64_t idle_ns; /* since when nothing is outstanding; 0: something is */
};

void gw_policy_init(struct gw_policy *p, enum gw_policy_mode mode, uint32_t chunk_bytes, uint64_t window_fixed);

void gw_policy_posted(struct gw_policy *p, uint64_t bytes, uint64_t now_ns);
/* total: the peer's running total; a smaller one than before changes nothing */
void gw_policy_landed(struct gw_policy *p, uint64_t total, uint64_t now_ns);
uint64_t gw_policy_on_way(const struct gw_policy *p);

/* W: raw bytes are posted while less than this is on the way. */
uint64_t gw_policy_window(const struct gw_policy *p);
/* Cover: may a codec take one chunk, when `backlog` bytes (untaken by anybody, plus on the way) keep the link busy? */
int gw_policy_cover(const struct gw_policy *p, uint64_t backlog, uint64_t now_ns);
/* So many chunks of ours a worker has to do before the next one. */
void gw_policy_ahead(struct gw_policy *p, uint32_t chunks);
/* A codec has taken one. */
void gw_policy_taken(struct gw_policy *p, uint64_t now_ns);
/* One was taken lately: others will be. */
int gw_policy_coding(const struct gw_policy *p, uint64_t now_ns);
/* Is the next chunk worth a try?  Counts down what was decided after chunks that did not shrink. */
int gw_policy_try(struct gw_policy *p);

/* What the peer tells with its totals; 0: it does not know. */
void gw_policy_peer(struct gw_policy *p, uint32_t decode_ns_kib);
/* The first send after idleness; a send of size bytes is done and `outstanding` are left. */
void gw_policy_begins(struct gw_policy *p, uint64_t now_ns);
void gw_policy_done(struct gw_policy *p, uint64_t size, uint32_t outstanding, uint64_t now_ns);

/* Receiver: one decode came back. */
void gw_policy_decoded(struct gw_policy *p, uint64_t bytes, uint64_t run_ns, uint64_t cpu_ns);
/* One encode came back: bytes became `wire` bytes (0: they do not shrink), after so long a wait, in so much time and CPU. */
struct gw_encoded {
    uint64_t bytes, wire, wait_ns, run_ns, cpu_ns;
};
void gw_policy_encoded(struct gw_policy *p, const struct gw_encoded *e);
#endif
