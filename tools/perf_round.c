/* perf_round.c - starts the ranks of a ring and makes one row of theirs.  Read perf_ring. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf_ring.h"

struct round {
    struct ring ring;
    struct perf_opts o; /* a copy with the sizes settled */
    struct perf_printer *printer;
    struct perf_row sum[PERF_SIZES_MAX];
    int heard[PERF_SIZES_MAX];
    int next[PERF_RING_MAX]; /* how many rows each rank has sent */
};

static void row_add(struct perf_row *sum, const struct perf_row *row)
{
    sum->messages += row->messages;
    sum->raw_bytes += row->raw_bytes;
    sum->all_raw += row->all_raw;
    sum->wire_bytes += row->wire_bytes;
    sum->checked += row->checked;
    sum->checked_bytes += row->checked_bytes;
    sum->coded_share += row->coded_share;
    sum->encode_ns += row->encode_ns;
    sum->decode_ns += row->decode_ns;
    sum->encode_bytes += row->encode_bytes;
    sum->decode_bytes += row->decode_bytes;
    sum->host_ns += row->host_ns;
    sum->counters &= row->counters;
    sum->valid &= row->valid;
    sum->seconds = row->seconds > sum->seconds ? row->seconds : sum->seconds;
    sum->p50_us = row->p50_us > sum->p50_us ? row->p50_us : sum->p50_us;
    sum->p99_us = row->p99_us > sum->p99_us ? row->p99_us : sum->p99_us;
}

/* The row of a size is printed when all ranks have sent theirs: bytes are those of one link, the
 * mean. */
static void hear(void *arg, const struct perf_report *r)
{
    struct round *rd = arg;
    int n = rd->o.ranks;

    if (r->kind != PERF_SAY_ROW) {
        perf_print_plugin(rd->printer, r->u.text);
        return;
    }
    if (r->rank < 0 || r->rank >= n || rd->next[r->rank] == rd->o.nsizes)
        return;
    int at = rd->next[r->rank]++;
    if (rd->heard[at]++ == 0)
        rd->sum[at] = r->u.row;
    else
        row_add(&rd->sum[at], &r->u.row);
    if (rd->heard[at] < n)
        return;
    rd->sum[at].raw_bytes /= (uint64_t)n;
    rd->sum[at].wire_bytes /= (uint64_t)n;
    rd->sum[at].coded_share /= n;
    perf_print_row(rd->printer, &rd->sum[at]);
}

static int fail(const char *why)
{
    fprintf(stderr, "gradwire perf: %s\n", why);
    return PERF_FAILED;
}

/* Every rank has its own numbers: the data, begun at another place. */
static int vectors(struct round *rd, const struct perf_data *d)
{
    struct ring *g = &rd->ring;
    size_t size = rd->o.session.size_max;

    for (unsigned i = 0; i < g->n; i++) {
        size_t from = d->len / g->each * i / g->n * g->each, at = 0;
        g->in[i] = malloc(size);
        if (g->in[i] == NULL)
            return -1;
        for (; at < size; from = 0) {
            size_t n = d->len - from < size - at ? d->len - from : size - at;
            memcpy(g->in[i] + at, d->bytes + from, n);
            at += n;
        }
    }
    return 0;
}

static int settle(struct round *rd, struct perf_data *d, char *why, size_t why_bytes)
{
    struct ring *g = &rd->ring;
    struct perf_opts *o = &rd->o;

    if (perf_data_make(d, o, o->session.size_max, why, why_bytes) != 0)
        return -1;
    g->o = o;
    g->n = (unsigned)o->ranks;
    g->type = d->type;
    g->each = d->type == PERF_GEN_F32 ? 4 : 2;
    snprintf(why, why_bytes, "a ring sums f32 or bf16: give files of one of these types alone, or say --gen f32 or bf16");
    if (d->type != PERF_GEN_F32 && d->type != PERF_GEN_BF16)
        return -1;
    d->len -= d->len % g->each;
    if (o->nsizes == 0)
        o->sizes[o->nsizes++] = d->len;
    o->session.size_max = 0;
    for (int i = 0; i < o->nsizes; i++) {
        o->sizes[i] -= o->sizes[i] % g->each;
        o->session.size_max = o->sizes[i] > o->session.size_max ? o->sizes[i] : o->session.size_max;
        if (o->sizes[i] == 0) {
            snprintf(why, why_bytes, "a ring's size must hold a value: %zu bytes or more", (size_t)g->each);
            return -1;
        }
    }
    snprintf(why, why_bytes, "the ranks' vectors do not fit 4 GiB");
    return o->session.size_max > PERF_MEMORY_MAX / g->n ? -1 : vectors(rd, d);
}

static int one_codec(struct round *rd, int codec)
{
    struct perf_super super;
    struct ring_seat seat = {.ring = &rd->ring};
    int pair[PERF_RING_MAX][2], n = rd->o.ranks;

    perf_super_init(&super, rd->o.json);
    memset(rd->heard, 0, sizeof(rd->heard));
    memset(rd->next, 0, sizeof(rd->next));
    if (perf_super_open(&super, hear, rd) != 0)
        return fail("no descriptors for the ranks");
    for (int i = 0; i < n; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair[i]) != 0)
            return fail("no descriptors for the ranks");
    seat.seat = (struct perf_seat){
        .opts = &rd->o, .session = rd->o.session, .ctl = -1, .spare = -1, .report = super.pipe[1]};
    memcpy(seat.seat.session.codec, rd->o.codecs[codec], PERF_NAME_BYTES);
    for (int i = 0; i < n; i++) {
        seat.seat.rank = i;
        seat.next = pair[i][0];
        seat.prev = pair[(i + n - 1) % n][1];
        if (perf_super_fork(&super, i, ring_main, &seat) != 0)
            fail("no process for a rank"); /* its neighbours will give up */
    }
    for (int i = 0; i < n; i++) {
        close(pair[i][0]);
        close(pair[i][1]);
    }
    return perf_super_wait(&super) != 0 ? PERF_FAILED : PERF_OK;
}

int perf_ring(const struct perf_opts *o)
{
    struct round *rd = calloc(1, sizeof(*rd));
    struct perf_data data = {0};
    char why[512] = "no memory";
    int failed = 0;

    if (rd == NULL)
        return fail(why);
    rd->o = *o;
    failed = settle(rd, &data, why, sizeof(why));
    rd->printer = failed ? NULL : perf_print_new(&rd->o);
    if (rd->printer == NULL)
        failed = fail(why);
    for (int i = 0; i < o->ncodecs && !failed; i++)
        failed = one_codec(rd, i);
    for (unsigned i = 0; i < rd->ring.n; i++)
        free(rd->ring.in[i]);
    free(data.bytes);
    int code = rd->printer != NULL ? perf_print_end(rd->printer, failed) : PERF_FAILED;
    free(rd);
    return code;
}
