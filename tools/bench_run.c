/* bench_run.c - one rival on one file: first what it makes of the file, then rounds of memcpy, encode and decode.
 *
 * The buffers are larger than the caches, and the three passes of a round stand a third of them apart, so that each finds its
 * bytes cold even where a slow codec takes only a few calls of a round.  Read bench_run from below. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gradwire/frame.h>

#include "bench.h"

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

enum pass { COPY, ENCODE, DECODE, PASSES, LEAVE = PASSES };

struct field {
    const struct bench_opts *o;
    const struct bench_data *d;
    struct bench_call call[BENCH_THREADS_MAX]; /* the same but for ws */
    uint8_t *frames, *back;
    size_t *len; /* of each frame, 0: raw */
    size_t stride, calls, failed;
    /* what all threads do between two meetings at the gate */
    pthread_barrier_t gate;
    pthread_t thread[BENCH_THREADS_MAX];
    int threads;
    enum pass pass;
    size_t first, count;
};

struct seat {
    struct field *f;
    int index;
};

/* ---- one pass ---- */

static int one_call(struct field *f, const struct bench_call *c, size_t i)
{
    size_t n = f->o->size;
    const uint8_t *src = f->d->bytes + i * n;
    uint8_t *back = f->back + i * n, *frame = f->frames + i * f->stride;

    if (f->pass == COPY) {
        memcpy(back, src, n);
        return 0;
    }
    if (f->pass == DECODE)
        return f->len[i] > 0 ? c->rival->decode(c, frame, f->len[i], back, n) : 0;
    ptrdiff_t len = c->rival->encode(c, src, n, frame, f->stride);
    f->len[i] = len > 0 ? (size_t)len : 0;
    return len < 0;
}

static void own_part(struct field *f, int index)
{
    size_t failed = 0;

    for (size_t k = (size_t)index; k < f->count; k += (size_t)f->threads)
        failed += one_call(f, &f->call[index], (f->first + k) % f->calls) != 0;
    if (failed > 0)
        __atomic_add_fetch(&f->failed, failed, __ATOMIC_RELAXED);
}

static void *helper(void *arg)
{
    struct seat *seat = arg;

    for (;;) {
        pthread_barrier_wait(&seat->f->gate);
        if (seat->f->pass == LEAVE)
            break;
        own_part(seat->f, seat->index);
        pthread_barrier_wait(&seat->f->gate);
    }
    free(seat);
    return NULL;
}

/* Nanoseconds that all threads together needed for `count` calls from `first` on. */
static uint64_t run_pass(struct field *f, enum pass pass, size_t first, size_t count)
{
    f->pass = pass, f->first = first, f->count = count;
    if (f->threads > 1)
        pthread_barrier_wait(&f->gate);
    uint64_t start = now_ns();
    own_part(f, 0);
    if (f->threads > 1)
        pthread_barrier_wait(&f->gate);
    uint64_t took = now_ns() - start;
    return took > 0 ? took : 1;
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static struct bench_spread spread(double *v, int n)
{
    if (n == 0)
        return (struct bench_spread){0};
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return (struct bench_spread){.q1 = v[n / 4], .mid = n % 2 ? v[n / 2] : (v[n / 2] + v[n / 2 - 1]) / 2,
                                 .q3 = v[n - 1 - n / 4], .n = n};
}

struct samples {
    double v[5][BENCH_ROUNDS_MAX]; /* copy, encode, decode, encode and decode as shares of copy */
    int rounds, decoded;
};

static size_t coded_calls(const struct field *f, size_t first, size_t count)
{
    size_t n = 0;

    for (size_t k = 0; k < count; k++)
        n += f->len[(first + k) % f->calls] > 0;
    return n;
}

/* The order turns round every time, so that no pass is always the one after another. */
static void one_round(struct field *f, size_t count, struct samples *s)
{
    double gb[PASSES], bytes = (double)count * (double)f->o->size;
    size_t at = (size_t)s->rounds * count, coded = 0;

    for (int k = 0; k < PASSES; k++) {
        enum pass pass = (enum pass)(s->rounds % 2 ? PASSES - 1 - k : k);
        size_t first = (at + (size_t)pass * f->calls / PASSES) % f->calls;
        gb[pass] = bytes / (double)run_pass(f, pass, first, count);
        if (pass == DECODE)
            coded = coded_calls(f, first, count);
    }
    s->v[0][s->rounds] = gb[COPY], s->v[1][s->rounds] = gb[ENCODE], s->v[3][s->rounds] = gb[ENCODE] / gb[COPY];
    s->rounds++;
    if (coded == 0) /* nothing to decode */
        return;
    gb[DECODE] *= (double)coded / (double)count;
    s->v[2][s->decoded] = gb[DECODE], s->v[4][s->decoded] = gb[DECODE] / gb[COPY];
    s->decoded++;
}

static int rounds(struct field *f, struct bench_row *row)
{
    struct samples *s = calloc(1, sizeof(*s));
    uint64_t whole = 0;

    if (s == NULL)
        return -1;
    for (int pass = COPY; pass < PASSES; pass++) /* makes every frame, and says how long all calls take */
        whole += run_pass(f, (enum pass)pass, 0, f->calls);
    double fits = f->o->seconds * 1e9 / f->o->rounds / (double)whole;
    row->calls = fits >= 1 ? f->calls : (size_t)(fits * (double)f->calls);
    if (row->calls < (size_t)f->threads)
        row->calls = (size_t)f->threads < f->calls ? (size_t)f->threads : f->calls;
    for (int i = 0; i < f->o->rounds; i++)
        one_round(f, row->calls, s);
    if (row->raw_share == 1) /* other places of the copies may code a little */
        s->decoded = 0;
    row->copy = spread(s->v[0], s->rounds), row->encode = spread(s->v[1], s->rounds);
    row->decode = spread(s->v[2], s->decoded), row->encode_rel = spread(s->v[3], s->rounds);
    row->decode_rel = spread(s->v[4], s->decoded);
    free(s);
    return 0;
}

/* ---- what becomes of the file ---- */

struct error_sum {
    double diff, all, max;
};

/* Values that are no numbers are left out. */
static void error_add(struct error_sum *e, const uint8_t *src, const uint8_t *back, size_t n)
{
    for (size_t at = 0; at + 4 <= n; at += 4) {
        float a, b;
        memcpy(&a, src + at, 4), memcpy(&b, back + at, 4);
        double d = fabs((double)a - (double)b);
        if (!isfinite(d))
            continue;
        e->diff += d * d, e->all += (double)a * (double)a;
        e->max = d > e->max ? d : e->max;
    }
}

static void file_call(struct field *f, struct bench_row *row, struct error_sum *e, size_t at, size_t n)
{
    struct bench_call *c = &f->call[0];
    const uint8_t *src = f->d->bytes + at;

    c->coding.first = at / 4;
    ptrdiff_t len = c->rival->encode(c, src, n, f->frames, f->stride);
    c->coding.first = 0;
    row->raw_bytes += n, row->coded_bytes += len > 0 ? (uint64_t)len : n;
    if (len < 0)
        row->refusal = c->rival->codec != NULL ? "refuses these arguments: see --param" : "failed";
    if (len == 0)
        row->raw_share += (double)n;
    if (len <= 0)
        return;
    memset(f->back, 0xa5, n);
    if (c->rival->decode(c, f->frames, (size_t)len, f->back, n) != 0)
        row->changed = true;
    else if (bench_rival_lossy(c->rival))
        error_add(e, src, f->back, n);
    else if (memcmp(src, f->back, n) != 0)
        row->changed = true;
}

static void file_all(struct field *f, struct bench_row *row)
{
    struct error_sum e = {0};
    size_t len = bench_rival_lossy(row->rival) ? f->d->file_len / 4 * 4 : f->d->file_len;

    for (size_t at = 0; at < len && row->refusal == NULL; at += f->o->size)
        file_call(f, row, &e, at, len - at < f->o->size ? len - at : f->o->size);
    if (row->raw_bytes == 0) {
        row->refusal = "no whole value in the file";
        return;
    }
    row->ratio = (double)row->coded_bytes / (double)row->raw_bytes;
    row->raw_share /= (double)row->raw_bytes;
    row->rel_l2 = e.all > 0 ? sqrt(e.diff / e.all) : 0;
    row->max_error = e.max;
}

/* ---- buffers and threads ---- */

/* A codec that wants a magnitude and was told none, which shows in its bound, gets the file's. */
static void coding_for(struct gw_coding *c, const struct bench_opts *o, const struct bench_data *d, const struct bench_rival *r)
{
    *c = (struct gw_coding){.size = sizeof(*c), .view = (uint8_t)d->view};
    if (!bench_rival_lossy(r))
        return;
    c->view = GW_VIEW_F32, c->param = o->param;
    if (r->codec->id == GW_CODEC_LEVELS)
        c->bits = 8, c->ranks = 2;
    if (c->param == 0 && r->codec->bound(o->size, c) == 0)
        memcpy(&c->param, r->codec->id == GW_CODEC_LEVELS ? &d->most : &d->mean, sizeof(c->param));
}

static int field_open(struct field *f, const struct bench_opts *o, const struct bench_data *d, const struct bench_rival *r,
                      size_t *frames_len)
{
    size_t size = o->size;

    f->o = o, f->d = d;
    for (int i = 0; i < o->threads; i++) {
        f->call[i] = (struct bench_call){.rival = r, .width = d->width};
        coding_for(&f->call[i].coding, o, d, r);
        f->call[i].ws = r->ws_bytes > 0 ? bench_map(r->ws_bytes) : NULL;
        if (r->ws_bytes > 0 && f->call[i].ws == NULL)
            return -1;
    }
    size_t bound = r->bound(&f->call[0], size);
    f->stride = ((bound > size ? bound : size) + 4095) / 4096 * 4096;
    /* other libraries ask for much beyond a small call: then there are fewer of them */
    f->calls = d->len / size;
    if (f->calls > (2 * d->len + f->stride) / f->stride)
        f->calls = (2 * d->len + f->stride) / f->stride;
    *frames_len = f->calls * f->stride;
    f->frames = bench_map(*frames_len);
    f->back = bench_map(d->len);
    f->len = calloc(f->calls, sizeof(*f->len));
    if (f->frames != NULL && f->back != NULL) /* the kernel gives the pages here, not in a pass that is timed */
        memset(f->frames, 1, *frames_len), memset(f->back, 1, d->len);
    return f->frames != NULL && f->back != NULL && f->len != NULL ? 0 : -1;
}

static void field_close(struct field *f, size_t frames_len)
{
    for (int i = 0; i < f->o->threads; i++)
        bench_unmap(f->call[i].ws, f->call[i].rival != NULL ? f->call[i].rival->ws_bytes : 0);
    bench_unmap(f->frames, frames_len);
    bench_unmap(f->back, f->d->len);
    free(f->len);
}

/* All or none: a barrier cannot count those that did not start. */
static int team_start(struct field *f, int threads)
{
    f->threads = 1;
    if (threads == 1)
        return 0;
    if (pthread_barrier_init(&f->gate, NULL, (unsigned)threads) != 0)
        return -1;
    for (int i = 1; i < threads; i++) {
        struct seat *seat = malloc(sizeof(*seat));
        if (seat == NULL)
            return -1;
        *seat = (struct seat){f, i};
        if (pthread_create(&f->thread[i], NULL, helper, seat) != 0)
            return -1;
    }
    f->threads = threads;
    return 0;
}

static void team_stop(struct field *f)
{
    if (f->threads == 1)
        return;
    f->pass = LEAVE;
    pthread_barrier_wait(&f->gate);
    for (int i = 1; i < f->threads; i++)
        pthread_join(f->thread[i], NULL);
    pthread_barrier_destroy(&f->gate);
}

int bench_run(const struct bench_opts *o, const struct bench_data *d, const struct bench_rival *r, struct bench_row *row)
{
    static struct field f;
    size_t frames_len = 0;
    int status;

    memset(&f, 0, sizeof(f));
    row->data = d, row->rival = r;
    status = field_open(&f, o, d, r, &frames_len);
    if (status == 0)
        file_all(&f, row);
    if (status == 0 && row->refusal == NULL && !row->changed) {
        status = team_start(&f, o->threads);
        if (status != 0)
            return status; /* threads wait in there: the program ends */
        status = rounds(&f, row);
        team_stop(&f);
        if (f.failed > 0)
            row->changed = true;
    }
    field_close(&f, frames_len);
    return status;
}
