/* link.h - a lane without faults that moves no bytes: one link of a rate and a delay in virtual time, for questions of speed.
 * Terabytes pass in seconds; only heads and end records are really stored. */
#ifndef GW_TESTS_LINK_H
#define GW_TESTS_LINK_H

#include <lane.h>

enum { LINK_PUTS = 4096, LINK_MSGS = 1024 };

struct link;

struct link_lane {
    struct gw_lane base;
    struct link *link;
};

struct link_put {
    struct gw_put put;
    uint8_t record[GW_END_BYTES];
    uint64_t left, there; /* has left the sender, has arrived */
};

struct link_msg {
    uint8_t bytes[GW_MSG_MAX];
    uint32_t len;
    uint64_t there;
};

/* The queues are rings: everything arrives in the order in which it left. */
struct link {
    uint64_t now, rate, delay_ns, free_ns;
    uint64_t moved; /* user's bytes are counted by the hosts; these are the wire's */
    struct link_lane tx, rx;
    uint32_t head, sent, landed; /* puts: next free, next to say SENT of, next to land */
    uint32_t msg_head, msg_tail;
    struct link_put put[LINK_PUTS];
    struct link_msg msg[LINK_MSGS];
    uint8_t shown[GW_MSG_MAX];
};

extern const struct gw_lane_ops link_ops;

void link_init(struct link *l, uint64_t rate, uint64_t delay_ns);
uint64_t link_next_due(const struct link *l); /* after now; UINT64_MAX: nothing */
#endif
