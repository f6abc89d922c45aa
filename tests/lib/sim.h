/* sim.h - one world for the simulator: two processes ("sides"), one to four connections between them in either direction on
 * the loop lane, hosts that behave as NCCL does, and one fault or none.  Time, codec workers, control sockets and chance are
 * virtual, so that a seed is a world and a bug is a seed.
 *
 *   sim_plan.c   what the seed says: lane, sizes, tags, memory, fault
 *   sim_env.c    clock, jobs, control sockets, log lines
 *   sim_host.c   what a host does with its comm; sim_close.c how it leaves it
 *   sim_world.c  makes a world and turns it to its end; sim_judge.c what must hold
 *
 * Read sim_run in sim_world.c. */
#ifndef GW_TESTS_SIM_H
#define GW_TESTS_SIM_H

#include <stdint.h>

#include <base/check.h>
#include <comm.h>
#include <loop.h>

enum {
    SIM_SIDES = 2,
    SIM_PAIRS = 4,
    SIM_ENDS = 2 * SIM_PAIRS,
    SIM_MSGS = 64,     /* of a world */
    SIM_TAGS = 4,
    SIM_REGIONS = 3,   /* LL, LL128, Simple */
    SIM_JOBS = 32,
    SIM_WORKERS = 2,
    SIM_TROUBLES = 2,
    SIM_FILL_TAKEN = 0x99, /* of memory that its host took back */
    SIM_MORE = 4,      /* posts on a comm that has failed already */
    SIM_FENCE = 64     /* bytes before and behind every buffer that nobody may touch */
};

enum sim_fault { SIM_NO_FAULT = 0, SIM_KILL, SIM_STOP, SIM_CLOSE, SIM_DEREG, SIM_CUT, SIM_FLIP, SIM_OVERSIZE, SIM_FAULTS };
extern const char *const sim_fault_name[SIM_FAULTS];

struct sim_world;

/* Memory of one message at one end.  Whole while its host owns it: every byte is `fill`. */
struct sim_buf {
    uint8_t *at;
    uint32_t cap;
    uint8_t fill, lent, region;
    struct gw_mem *mem; /* of its own, or of its region */
};

struct sim_msg {
    const uint8_t *bytes; /* what shall arrive */
    uint32_t size;
    int tag;
    uint8_t sent, whole;  /* posted; looked at by nobody after done */
    struct sim_buf src, dst;
};

/* One irecv: messages first .. first + n - 1 of its pair. */
struct sim_group {
    uint8_t first, n;
};

struct sim_op {
    struct gw_req *req;
    int what; /* message or group; -1: posted on a failed comm */
};

/* What one end has said on its control socket and the other has not heard. */
struct sim_word {
    uint64_t arrives, noticed; /* is in the socket; the watcher has woken up */
    uint32_t sign;
    struct gw_fail fail;
    struct gw_bye bye;
};

struct sim_control {
    struct sim_word word[4];
    unsigned said, heard;
    uint8_t said_last, closed;
};

enum sim_life {
    SIM_RUNS = 0, /* posts and tests */
    SIM_FAILED,   /* saw an error: ends what is open, then closes */
    SIM_RESTS,    /* all done; polls no more until the world ends */
    SIM_LEAVES,   /* has taken its memory back, and closes after a while */
    SIM_CLOSING,  /* close or dereg waits for workers */
    SIM_CLOSED,
    SIM_DEAD,     /* killed, or stopped for ever */
};

struct sim_end {
    struct sim_world *world;
    struct sim_side *side;
    struct sim_end *peer;
    unsigned index, is_send;
    struct gw_comm *comm; /* NULL: closed */
    struct gw_lane *lane;
    struct gw_logger log;
    struct sim_control control;
    enum sim_life life;
    uint64_t next_ns, period_ns, pause_ns, nap_until_ns;
    unsigned idle;                 /* polls that brought nothing */
    unsigned window, at;           /* receives: next group */
    unsigned open, ended, more;    /* ops; ended well; still to be posted after a failure */
    uint8_t fifo, rests, deregs;   /* tests only its oldest; never closes; takes its memory back before it closes */
    uint8_t took, downs;           /* closing: the comm was ours to take down; dereg, and not yet close */
    unsigned lines;                /* of level ERROR */
    char line[200];
    gw_err err;
    struct sim_op op[GW_SENDS_MAX];
    struct gw_mem *region[SIM_REGIONS];
    uint8_t *region_base[SIM_REGIONS];
    size_t region_bytes[SIM_REGIONS];
    /* of the pair: both ends see the same */
    struct sim_msg *msg;
    struct sim_group *group;
    unsigned msgs, groups;
};

struct sim_vjob {
    struct gw_job *job;
    uint64_t start, due;
};

struct sim_side {
    struct sim_world *world;
    void *dev;
    struct gw_slab *slab;
    struct gw_env env;
    unsigned workers, ring;
    uint64_t free_ns[SIM_WORKERS];
    struct sim_vjob job[SIM_JOBS];
    unsigned jobs;
    _Atomic uint32_t hint, said;
    uint8_t hinted;
};

struct sim_conf {
    struct gw_loop_conf loop;
    uint32_t chunk_bytes, slab_pieces;
    uint8_t check, mode, alone, coded, own_regions; /* own_regions: every message registers its own memory */
    uint64_t window, known_rate, codec_ns_kib, control_ns, nap_ns;
    uint32_t first_number;
    unsigned pairs;
    struct {
        enum sim_fault fault;
        unsigned end, step;
    } trouble[SIM_TROUBLES]; /* the second one seldom; OVERSIZE only the first, and from the beginning */
};

struct sim_world {
    uint64_t seed, chance, now;
    struct sim_conf conf;
    struct gw_loop_net *net;
    struct sim_side side[SIM_SIDES];
    struct sim_end end[SIM_ENDS];
    unsigned ends, step, quiet, skips, msgs; /* quiet: steps since anything happened */
    struct sim_msg msg[SIM_MSGS];
    struct sim_group group[SIM_MSGS];
    size_t arena;   /* bytes taken of the process's one arena */
    enum sim_fault faulted; /* what has happened */
    int loud;
    char wrong[256]; /* empty: all is well */
};

/* Runs the world of this seed.  1: all invariants held; else the reason stands in wrong. */
int sim_run(uint64_t seed, int loud, char wrong[256]);

/* ---- chance ---- */
uint64_t sim_below(struct sim_world *w, uint64_t n);      /* 0 .. n-1 */
int sim_percent(struct sim_world *w, unsigned percent);
uint64_t sim_wide(struct sim_world *w, uint64_t lo, uint64_t hi); /* as many small ones as large ones */

/* ---- what went wrong: the first thing stays ---- */
void sim_wrong(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_note(const struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- sim_plan.c ---- */
void sim_plan(struct sim_world *w);
void sim_buf_give(struct sim_buf *b, uint8_t fill);  /* back with its host */
static inline struct sim_buf *sim_buf_of(const struct sim_end *end, unsigned message)
{
    return end->is_send ? &end->msg[message].src : &end->msg[message].dst;
}
int sim_buf_whole(const struct sim_buf *b);          /* nobody wrote where nothing was offered */

/* ---- sim_env.c ---- */
void sim_env_init(struct sim_side *side);
uint64_t sim_jobs_due(const struct sim_world *w);
void sim_jobs_run(struct sim_world *w);
int sim_jobs_of(const struct sim_end *end);
void sim_jobs_drop(struct sim_end *end); /* its process is dead */
void sim_say_fail(struct sim_end *end, const struct gw_fail *f);
void sim_say_bye(struct sim_end *end, const struct gw_bye *bye); /* NULL: end of file alone */
void sim_say_stall(struct sim_end *end);
uint64_t sim_words_due(const struct sim_world *w);
void sim_words_hear(struct sim_end *end, int socket); /* socket: also what only stands in the socket yet */
void sim_parts(struct sim_end *end, struct gw_comm_parts *parts);

/* ---- sim_host.c ---- */
void sim_host_step(struct sim_end *end);
int sim_host_through(const struct sim_end *end);
gw_err sim_host_reg(struct sim_end *end);

/* ---- sim_close.c ---- */
void sim_host_close(struct sim_end *end);
void sim_host_dereg(struct sim_end *end); /* of all its memory */
/* when no worker holds a job of it */
void sim_host_close_rest(struct sim_end *end);
void sim_host_dereg_rest(struct sim_end *end);
void sim_host_free(struct sim_end *end);  /* the world ends */

/* ---- sim_judge.c ---- */
void sim_look(struct sim_world *w);
void sim_judge(struct sim_world *w);
#endif
