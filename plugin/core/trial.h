/* trial.h - is coding worth its CPU here?  W and Cover see the link; they cannot see that codec and transport want the same
 * cores.  There the bytes that finish per second are compared, with coding and without, and what was faster is kept. */
#ifndef GW_CORE_TRIAL_H
#define GW_CORE_TRIAL_H

#include <stdint.h>

enum { GW_TRIAL_RAW = 0, GW_TRIAL_CODE = 1 };

struct gw_trial {
    uint8_t mode, favoured;     /* GW_TRIAL_*: what is done now, what was faster */
    uint32_t left, rest;        /* epochs until the other is tried again, and how many after that */
    uint32_t settle;            /* sends of the mode before, which do not count */
    uint64_t bytes, since_ns;   /* of this epoch; 0: it has not begun */
    uint64_t turn_bytes, turn_ns; /* since the mode last changed, what settles included */
    uint64_t rate[2];           /* bytes per second, averaged; 0: not known */
};

void gw_trial_init(struct gw_trial *t);
/* A send of `bytes` is done, `outstanding` are left.  Ends an epoch when it is long enough. */
void gw_trial_done(struct gw_trial *t, uint64_t bytes, uint32_t outstanding, uint64_t now_ns);
/* Nothing is outstanding any more: what comes next is a new epoch of the same mode. */
void gw_trial_idle(struct gw_trial *t);
#endif
