/* perf.h - the parts of `gradwire perf`.
 *
 *   perf.c         modes: local, client, server, ring; ranks are processes, one pair for each codec
 *   perf_opts.c    the command line          perf_help.c    what --help prints
 *   perf_data.c    the bytes that are sent
 *   perf_wire.c    what two ranks say to each other on perf's own connection
 *   perf_meet.c    serve and connect         perf_super.c   watches the ranks, collects their rows
 *   perf_rank.c    a rank: plugin, threads, connections
 *   perf_rows.c    what the leader runs      perf_run.c     one run of messages
 *   perf_gpu.c     LL and LL128 lines, filled and polled as a GPU does
 *   perf_ring.c    a rank of a ring          perf_round.c   the ring itself
 *   perf_print.c   table, JSON, plain words
 */
#ifndef GW_TOOLS_PERF_H
#define GW_TOOLS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum perf_exit {
    PERF_OK = 0,
    PERF_FAILED = 1, /* a rank, the plugin or the connection failed */
    PERF_USAGE = 2,
    PERF_SLOW = 3,  /* a row is below --fail-below */
    PERF_WRONG = 4, /* bytes arrived changed, or a sum differs */
};

enum {
    PERF_CODECS_MAX = 8,
    PERF_SIZES_MAX = 40,
    PERF_CONNS_MAX = 64,
    PERF_RING_MAX = 16,
    PERF_NAME_BYTES = 32,
    PERF_TEXT_BYTES = 600,
    PERF_WAIT_MS = 30000, /* for anything that the other rank should do soon */
    PERF_SLICES_MAX = 200,
};
#define PERF_SIZE_MAX (1ull << 30)
#define PERF_MEMORY_MAX (4ull << 30) /* of receive memory that a session may ask for */
#define PERF_COUNT_MAX (1ull << 32)  /* messages of one run */

/* What the two ends of one codec's rows must agree on; all that a server takes from its client,
 * with perf_run. */
struct perf_session {
    char codec[PERF_NAME_BYTES];  /* "" leaves GRADWIRE_CODEC alone */
    char policy[PERF_NAME_BYTES]; /* "" leaves GRADWIRE_POLICY alone */
    uint32_t proto;               /* enum host_proto */
    uint32_t conns, inflight;
    bool bidir, lat;
    uint64_t size_max;
};

enum perf_lane { PERF_LANE_ANY, PERF_LANE_TCP, PERF_LANE_SHM, PERF_LANE_VERBS };
enum perf_gen { PERF_GEN_F32, PERF_GEN_BF16, PERF_GEN_F16, PERF_GEN_BYTES, PERF_GEN_FILE };
enum perf_mode { PERF_LOCAL, PERF_SERVE, PERF_CLIENT, PERF_RING };

struct perf_opts {
    enum perf_mode mode;
    const char *address, *code;
    const char *plugin; /* NULL: ours */
    int net_version;    /* 0: the newest */
    int ncodecs, nsizes, nfiles, ranks;
    char codecs[PERF_CODECS_MAX][PERF_NAME_BYTES];
    uint64_t sizes[PERF_SIZES_MAX];
    char **files;
    enum perf_gen gen;
    double zeros;
    enum perf_lane lane;
    uint64_t iters, warmup; /* iters 0: as many as fill `seconds` */
    double seconds, fail_below;
    uint64_t every_ms; /* 0: no slices */
    bool json, summary, verbose;
    struct perf_session session; /* without codec and size_max */
};

/* ---- perf_opts.c ---- */
extern const char perf_help[]; /* perf_help.c */
/* -1 when the command is to go on, else the exit code. */
int perf_opts_read(struct perf_opts *o, int argc, char **argv);

/* ---- perf_data.c ---- */
struct perf_data {
    char *bytes;
    size_t len;
    enum perf_gen type; /* PERF_GEN_BYTES where files do not say */
};
/* Files or generated values, repeated until there are at least `need` bytes.  -1 and a sentence. */
int perf_data_make(struct perf_data *d, const struct perf_opts *o, uint64_t need, char *why,
                   size_t why_bytes);

/* ---- a row, from a rank to its parent, and printed ---- */
struct perf_slice {
    float at_s, gbps, coded, tried; /* its end; raw GB/s sent; shares of chunks that went coded, of bytes given to a codec */
};
struct perf_row {
    char codec[PERF_NAME_BYTES], policy[PERF_NAME_BYTES], lane[PERF_NAME_BYTES];
    uint64_t size, messages, checked, checked_bytes;
    uint64_t raw_bytes, wire_bytes; /* the client's direction; of one link of a ring, the mean */
    double seconds;
    bool counters; /* the plugin has a page: wire, coded, codec and host time mean something */
    double coded_share, encode_ns, decode_ns, encode_bytes, decode_bytes, host_ns;
    uint64_t all_raw; /* raw bytes of all directions and links: what the times above were for */
    double p50_us, p99_us;
    uint64_t began_ms; /* since 1970: the first slice */
    uint32_t nslices;
    struct perf_slice slice[PERF_SLICES_MAX];
    bool valid;
};

/* What a rank tells its parent through a pipe; smaller than PIPE_BUF, so records never mix. */
enum perf_say { PERF_SAY_ROW = 1, PERF_SAY_ERROR, PERF_SAY_ECHO, PERF_SAY_NOTE, PERF_SAY_PLUGIN };
struct perf_report {
    uint32_t kind; /* ECHO: an error that only follows from the other rank's */
    int32_t rank;
    union {
        struct perf_row row;
        char text[PERF_TEXT_BYTES];
    } u;
};
_Static_assert(sizeof(struct perf_report) <= 4096, "PIPE_BUF");

/* ---- perf_wire.c ---- */
enum perf_msg_type {
    PERF_MSG_HELLO = 1, /* version, code */
    PERF_MSG_WELCOME,
    PERF_MSG_REFUSE,  /* text */
    PERF_MSG_SESSION, /* struct perf_session */
    PERF_MSG_HANDLES, /* 128 bytes each */
    PERF_MSG_UP,      /* all connections are */
    PERF_MSG_RUN,     /* struct perf_run */
    PERF_MSG_READY,
    PERF_MSG_DONE,    /* struct perf_done */
    PERF_MSG_DIGESTS, /* struct perf_digest each */
    PERF_MSG_VERDICT, /* u64: the first wrong message, or all ones */
    PERF_MSG_END,
    PERF_MSG_FAIL, /* text */
};
enum { PERF_HEAD_BYTES = 12, PERF_MSG_BYTES = 128 * 1024, PERF_VERSION = 1, PERF_DIGEST_BYTES = 24, PERF_DIGESTS = 4096 };

struct perf_msg {
    uint32_t type, len;
    uint8_t body[PERF_MSG_BYTES + 1]; /* one more, so that a text can be ended */
};

enum perf_run_kind { PERF_RUN_WARM, PERF_RUN_TIMED, PERF_RUN_CHECK };
struct perf_run {
    uint32_t kind;
    uint64_t size, count; /* count: messages on each connection */
};

/* The far end's share of a run. */
struct perf_done {
    bool counters;
    uint64_t raw_sent, encode_ns, decode_ns, encode_bytes, decode_bytes, host_ns;
};

struct perf_digest {
    uint64_t size;
    uint64_t low, high;
};

/* 0, or -1 where the other end is gone or does not read for PERF_WAIT_MS. */
int perf_send(int fd, enum perf_msg_type type, const void *body, size_t len);
/* 1 one message, 0 none came within wait_ms, -1 the other end is gone, -2 what came is not perf's.
 */
int perf_recv(int fd, struct perf_msg *m, int wait_ms);

size_t perf_session_write(uint8_t *out, const struct perf_session *s);
int perf_session_read(const struct perf_msg *m, struct perf_session *s); /* -1: out of bounds */
size_t perf_run_write(uint8_t *out, const struct perf_run *r);
int perf_run_read(const struct perf_msg *m, struct perf_run *r, uint64_t size_max);
size_t perf_done_write(uint8_t *out, const struct perf_done *d);
int perf_done_read(const struct perf_msg *m, struct perf_done *d);
size_t perf_digest_write(uint8_t *out, const struct perf_digest *d);
void perf_digest_read(const uint8_t *in, struct perf_digest *d);
/* The body as text, harmless to a terminal. */
const char *perf_msg_text(struct perf_msg *m);

/* ---- perf_meet.c ---- */
/* Connected and greeted, or -1 and a sentence. */
int perf_meet_client(const char *address, const char *code, char *why, size_t why_bytes);
int perf_meet_server(const char *address, char *why, size_t why_bytes);

/* ---- perf_super.c ---- */
struct perf_super {
    int nranks;
    pid_t pid[PERF_RING_MAX];
    int status[PERF_RING_MAX];
    bool gone[PERF_RING_MAX];
    int pipe[2];                                         /* ranks write to [1] */
    void (*row)(void *arg, const struct perf_report *r); /* ROW and PLUGIN */
    void *arg;
    char death[PERF_TEXT_BYTES + 64], error[PERF_TEXT_BYTES + 64], echo[PERF_TEXT_BYTES + 64];
    bool tty, noted;
};
void perf_super_init(struct perf_super *s, bool quiet);
/* Before each set of ranks.  -1: no pipe. */
int perf_super_open(struct perf_super *s, void (*row)(void *arg, const struct perf_report *r),
                    void *arg);
/* Forks a rank that runs main_fn(arg) and exits with what it returns.  -1: no process. */
int perf_super_fork(struct perf_super *s, int rank, int (*main_fn)(void *arg), void *arg);
/* Until all ranks have ended.  0, or -1 after the one line that says why. */
int perf_super_wait(struct perf_super *s);

/* ---- perf_rank.c ---- */
struct perf_seat { /* where a rank sits */
    const struct perf_opts *opts;
    struct perf_session session;
    const struct perf_data *data; /* NULL: made by the rank */
    int ctl, report, rank;
    int spare;   /* the other end of ctl, which this rank closes; -1 where there is none */
    bool client; /* leads: says what is run, measures */
};
int perf_rank_main(void *seat);

/* ---- perf_round.c ---- */
int perf_ring(const struct perf_opts *o);

/* ---- perf_print.c ---- */
struct perf_printer;
struct perf_printer *perf_print_new(const struct perf_opts *o);
void perf_print_row(struct perf_printer *p, const struct perf_row *row);
void perf_print_plugin(struct perf_printer *p, const char *text);
/* The last lines; answers the exit code that the rows ask for. */
int perf_print_end(struct perf_printer *p, bool failed);
const char *perf_size_text(uint64_t bytes, char text[16]);

int perf_main(int argc, char **argv);
#endif
