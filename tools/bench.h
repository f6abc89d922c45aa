/* bench.h - gradwire bench: what each codec makes of a file and how fast, beside memcpy and other libraries.
 *
 * Read bench.c: for each file, each rival with each kernel gives one row.  bench_run.c measures it, bench_rival.c and
 * bench_peer.c say what can be measured, bench_print.c and bench_plot.c show it. */
#ifndef GW_TOOLS_BENCH_H
#define GW_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gradwire/codec.h>

enum { BENCH_OK = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_CHANGED = 4 };
enum { BENCH_ROUNDS_MAX = 1000, BENCH_THREADS_MAX = 256, BENCH_RIVALS_MAX = 64, BENCH_NAME_BYTES = 32 };

int bench_main(int argc, char **argv);

/* ---- the command line ---- */

struct bench_opts {
    int type;                    /* enum gw_view, -1: from the file's ending or the picker */
    const char *codecs, *kernels; /* lists with commas; NULL: all */
    uint32_t param;              /* for lossy codecs that want one */
    int threads, rounds;
    double seconds;              /* at most so long for the rounds of one row */
    uint64_t size, bytes, span;  /* of a call; at most of a file; of the cold buffers */
    const char *plot, *json;     /* paths; json "-": standard output */
    char **files;
    int nfiles;
};
/* -1: go on; else the exit code */
int bench_opts_read(struct bench_opts *o, int argc, char **argv);
/* 1 when a list with commas has the word */
int bench_listed(const char *list, const char *word);
const char *bench_size_text(uint64_t bytes, char text[16]);

/* ---- a file, repeated until it is larger than any cache ---- */

struct bench_data {
    const char *file;
    uint8_t *bytes;            /* len of them: the file's file_len, again and again */
    size_t file_len, len, mapped;
    bool cut;                  /* the file has more */
    enum gw_view view;
    unsigned width;            /* bytes of a value of this view */
    float mean, most;          /* magnitudes of its f32, 0 for other views */
};
/* 0, or -1 and a line in why */
int bench_data_read(struct bench_data *d, const struct bench_opts *o, const char *file, char *why, size_t why_size);
void bench_data_free(struct bench_data *d);
/* Zeroed memory on huge pages where there are any; NULL where there is none. */
void *bench_map(size_t len);
void bench_unmap(void *p, size_t len);

/* ---- what is measured ---- */

struct bench_rival;
struct bench_call {
    const struct bench_rival *rival;
    struct gw_coding coding;
    unsigned width;
    void *ws; /* ws_bytes of its own for each thread */
};
struct bench_rival {
    const char *name;
    const struct gw_codec *codec; /* NULL: somebody else's */
    size_t ws_bytes;
    size_t (*bound)(const struct bench_call *c, size_t n);
    /* bytes written, 0: it says that this does not pay, -1: it failed */
    ptrdiff_t (*encode)(const struct bench_call *c, const void *src, size_t n, void *dst, size_t cap);
    int (*decode)(const struct bench_call *c, const void *src, size_t n, void *dst, size_t dst_len); /* 0: well */
};
/* Our codecs, then memcpy, then what else was there at build time; NULL ends it. */
const struct bench_rival *bench_rival_at(size_t i);
const struct bench_rival *bench_peer_at(size_t i);
bool bench_rival_lossy(const struct bench_rival *r);

/* ---- a row ---- */

struct bench_spread {
    double q1, mid, q3;
    int n; /* rounds in it */
};
struct bench_row {
    const struct bench_data *data;
    const struct bench_rival *rival;
    char kernel[16];
    const char *refusal;       /* NULL, or why there is nothing more in this row */
    bool changed;              /* a lossless codec gave back other bytes */
    uint64_t raw_bytes, coded_bytes; /* of the file, heads included */
    double ratio, raw_share;   /* raw_share: of the file's bytes that stay as they are */
    double rel_l2, max_error;  /* 0 for lossless */
    size_t calls;              /* of one round */
    struct bench_spread copy, encode, decode, encode_rel, decode_rel; /* GB/s, and shares of memcpy */
};
/* 0, or -1: no memory or no threads */
int bench_run(const struct bench_opts *o, const struct bench_data *d, const struct bench_rival *r, struct bench_row *row);

/* How much sooner a message is through, 1 = raw: all of it coded, and as much as `cores` can code with the rest raw. */
struct bench_gain {
    double full, mixed;
};
enum { BENCH_LINKS = 5, BENCH_CORES = 4 };
extern const double bench_links[BENCH_LINKS]; /* Gb/s */
extern const int bench_cores[BENCH_CORES];
struct bench_gain bench_gain(double ratio, double encode, double decode, double link_gbits, int cores);

/* ---- showing ---- */

void bench_print_file(const struct bench_opts *o, const struct bench_data *d);
void bench_print_row(const struct bench_opts *o, const struct bench_row *row);
void bench_print_gains(const struct bench_opts *o, const struct bench_row *rows, size_t n);
/* 0, or -1 with errno */
int bench_json(const struct bench_opts *o, const struct bench_row *rows, size_t n);
int bench_plot(const struct bench_opts *o, const struct bench_row *rows, size_t n);
/* The row of the fastest kernel of its file and codec is the one to show. */
bool bench_row_best(const struct bench_row *rows, size_t n, size_t i);
#endif
