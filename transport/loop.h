/* loop.h - a lane inside one process, with faults from a seed: for tests and for the simulator.
 *
 * A net is the world between some hosts ("sides").  Each side has one link outwards with a rate and a delay,
 * shared by all its lanes.  In virtual time nothing is ever concurrent, the caller says what time it is, and
 * the same seed and the same calls give the same events.  In real time any thread may use any lane; bytes are
 * copied by the receiver's poll.
 *
 * A lane does all that the contract of lane.h allows and a real one does seldom: it answers GW_AGAIN to
 * anything, lets puts, messages and events overtake each other, makes part of a put visible early, reports SENT
 * before the bytes have left or after they have landed, and drops all that was under way when an end is shut. */
#ifndef GW_TRANSPORT_LOOP_H
#define GW_TRANSPORT_LOOP_H

#include "lane.h"

enum { GW_LOOP_SIDES = 16 };

/* All 0 but caps is a quick and faultless net in virtual time. */
struct gw_loop_conf {
    uint64_t seed;
    uint32_t caps;           /* one of GW_LANE_COUNTS and GW_LANE_FENCED; also SENT_IS_LANDED, ORDERED and
                                DIRECT: bytes land while nobody polls (not in real time) */
    uint8_t paths;           /* 0: 1 */
    uint8_t realtime;
    uint8_t quiet;           /* FENCED: a put without GW_PUTF_SIGNAL has no SENT of its own and keeps its place in
                                the queue until a later one of its path has, as verbs do.  0: all are told */
    uint8_t owns;            /* a source that changes while it is the lane's, from its put to SENT or to shut, is counted */
    uint8_t mute;            /* the death of an end is not reported, as on UCX over shared memory */
    uint64_t rate;           /* bytes per second of each side's link; 0: no limit */
    uint64_t delay_ns;       /* one way */
    uint64_t jitter_ns;      /* added to every due time, anew: what makes things overtake each other */
    uint32_t again_permille; /* of join, msg and put */
    uint32_t split_permille; /* of puts: bytes that become visible in two steps */
    uint32_t hold_permille;  /* of puts, on a lane that is not DIRECT: they stay, SENT or not, until the sender
                                polls once more a while later.  A host that never does keeps them for ever */
    uint32_t eager_max;      /* puts up to this size may be SENT at once, out of a copy; not with SENT_IS_LANDED */
    uint32_t queue_depth;    /* puts outstanding on a lane; 0: 64 */
    uint32_t msg_depth;      /* messages outstanding; 0: 64 */
    uint32_t recv_depth;     /* LANDED events that wait for the receiver's poll; 0: 512.  Beyond it a put waits,
                                and gw_loop_stats.no_receive tells: on verbs that must not happen */
};

struct gw_loop_stats {
    uint64_t puts, msgs, bytes; /* puts and payload bytes that are visible, messages reported */
    uint64_t landed, sent, again;
    uint64_t refused;    /* puts that gw_place_find refused; the receiver's lane failed with GW_E_PROTO */
    uint64_t misplaced;  /* FENCED: of these, good heads whose address or key was not the place's */
    uint64_t changed;    /* sources: somebody took bytes back that were the lane's; conf.owns */
    uint64_t no_receive; /* LANDED had no room once */
    uint64_t lanes, regions; /* alive now */
};

struct gw_loop_net;

/* GW_E_ARG when the conf says nothing possible. */
gw_err gw_loop_net_new(const struct gw_loop_conf *conf, struct gw_loop_net **net_p);
/* Every lane and every region of it must be gone: a test that leaks one stops here. */
void gw_loop_net_free(struct gw_loop_net *net);

/* A device of that side, for the slots of gw_loop_ops.  It belongs to the net; close_dev leaves it alone. */
void *gw_loop_dev(struct gw_loop_net *net, unsigned side);
/* From now on gw_loop_ops.open hands out sides 0, 1, 2 ... of this net.  NULL: of one net of the process in
 * real time without faults, FENCED if conf->transport is "fenced" and COUNTS otherwise, freed with its last
 * device. */
void gw_loop_net_use(struct gw_loop_net *net);

/* Virtual time; it never goes back. */
void gw_loop_set_now(struct gw_loop_net *net, uint64_t now_ns);
/* The first moment after now at which anything becomes due; UINT64_MAX: none.  All that is due now has been said
 * after two rounds of polls without an event: one poll may only make another lane's event possible. */
uint64_t gw_loop_next_due(struct gw_loop_net *net);

/* The process behind this end is dead: nothing moves any more in either direction.  The other end gets
 * GW_EV_FAILED (GW_E_PEER) a while later, unless the net is mute; this one never reports anything again and can
 * only be closed. */
void gw_loop_kill(struct gw_lane *lane);
/* The way between is broken: nothing moves any more, both ends get GW_EV_FAILED (GW_E_LANE), each in its own
 * time. */
void gw_loop_cut(struct gw_lane *lane);

void gw_loop_stats(struct gw_loop_net *net, struct gw_loop_stats *stats);
#endif
