/* crowd.h - do our threads have to wait for a core?  While a codec works, its jobs and the thread that calls us are asked how much
 * of their time they had one.  Numbers in, numbers out. */
#ifndef GW_CORE_CROWD_H
#define GW_CORE_CROWD_H

#include <stdint.h>

enum gw_crowd_of { GW_CROWD_JOBS = 0, GW_CROWD_HOST, GW_CROWD_KINDS };

struct gw_crowd {
    uint64_t wall_ns[GW_CROWD_KINDS], cpu_ns[GW_CROWD_KINDS]; /* halved as they grow: the last tenth of a second counts most */
    uint64_t since_ns, since_cpu_ns; /* the host's interval; since_ns 0: none */
    uint8_t crowded;
};

/* A job took run_ns, and cpu_ns of a core. */
void gw_crowd_job(struct gw_crowd *c, uint64_t run_ns, uint64_t cpu_ns);
/* A job is back: is a sample of the host's thread due?  One costs a system call. */
int gw_crowd_due(const struct gw_crowd *c, uint64_t now_ns);
/* cpu_ns: what the calling thread has had of a core since it began.  Only where a job came back lately as well: a host that has
 * its core while all goes raw is no reason to code again. */
void gw_crowd_host(struct gw_crowd *c, uint64_t now_ns, uint64_t cpu_ns);
/* The host paused: what it did meanwhile is no sample. */
void gw_crowd_idle(struct gw_crowd *c);
#endif
