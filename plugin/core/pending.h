/* pending.h - a connection being made, from either side: both walk the same stages, one step a call. */
#ifndef GW_CORE_PENDING_H
#define GW_CORE_PENDING_H

#include "ctx.h"

enum gw_pending_stage { GW_PENDING_HELLO, GW_PENDING_ANSWER, GW_PENDING_JOIN };

struct gw_pending {
    struct gw_list link;
    uint64_t id;
    uint8_t token[GW_TOKEN_BYTES];
    enum gw_pending_stage stage;
    int is_send;
    struct gw_ctx *ctx;
    struct gw_dev *dev;
    struct gw_guest *guest;
    struct gw_lane *lane;
    struct gw_hello mine, theirs;
    struct gw_agreed agreed;
    uint64_t since_ns, deadline_ns;
    int peers_own; /* it refused us for a trouble of its own */
    gw_err join_err;
    uint64_t join_failed_ns; /* 0: it has not */
};

/* With its lane made and its hello filled; one line says why not. */
gw_err gw_pending_new(struct gw_ctx *ctx, struct gw_dev *dev, int is_send, const uint8_t *token, struct gw_pending **p_p);
void gw_pending_free(struct gw_pending *p);
/* Prints the line of a connection that will not be, and answers err. */
gw_err gw_pending_why(const struct gw_pending *p, gw_err err, const char *text);
/* The last stage: GW_AGAIN until the lane is up and the comm is made. */
gw_err gw_pending_join(struct gw_pending *p, struct gw_comm **comm_p);
#endif
