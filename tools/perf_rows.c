/* perf_rows.c - the rows of the leading rank: warm up, time, check, for each size.  Read rows_lead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gradwire/stat.h>

#include "perf_rank.h"

enum { WARM_BYTES = 256 << 20, CHECKS_MIN = 3 };

void rows_say(struct rank *r, const struct perf_report *rep)
{
    if (write(r->seat->report, rep, sizeof(*rep)) != (ssize_t)sizeof(*rep))
        _exit(PERF_FAILED); /* the parent is gone */
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

void rows_percentiles(struct rank *r, struct perf_row *row)
{
    size_t n = r->nsamples < SAMPLES_MAX ? r->nsamples : SAMPLES_MAX;

    if (n == 0)
        return;
    qsort(r->samples, n, sizeof(*r->samples), by_value);
    row->p50_us = (double)r->samples[n / 2] / 1e3;
    row->p99_us = (double)r->samples[n - 1 - n / 100] / 1e3;
}

/* Enough messages for a timed run, from what fewer of them took. */
static uint64_t count_for(double seconds, uint64_t count, double took)
{
    double want = (double)count * seconds / (took > 1e-6 ? took : 1e-6);

    return want < 16 ? 16 : want > 1e8 ? (uint64_t)1e8 : (uint64_t)want;
}

static void timed(struct rank *r, uint64_t size, struct run_result *res)
{
    const struct perf_opts *o = r->seat->opts;
    struct perf_run run = {.kind = PERF_RUN_WARM, .size = size, .count = o->warmup};

    if (run.count == 0 && o->iters == 0)
        run.count = 16; /* the length of the timed run is taken from these */
    while (run.count > 2 && run.count > WARM_BYTES / size)
        run.count /= 2;
    if (run.count != 0)
        run_lead(r, &run, res);
    run.kind = PERF_RUN_TIMED;
    run.count = o->iters != 0 ? o->iters : count_for(o->seconds, run.count, res->seconds);
    run_lead(r, &run, res);
    for (int again = 0; o->iters == 0 && res->seconds < o->seconds / 2 && again < 3; again++) {
        run.count = count_for(o->seconds, run.count, res->seconds);
        run_lead(r, &run, res);
    }
}

void rows_counters(const struct rank *r, const struct run_result *res, struct perf_row *row)
{
    row->counters = res->mine.counters && res->theirs.counters;
    if (!row->counters)
        return;
    uint64_t chunks = res->chunks_coded + res->chunks_raw;
    row->wire_bytes = res->wire_sent;
    row->coded_share = chunks != 0 ? (double)res->chunks_coded / (double)chunks : 0;
    row->encode_ns = (double)(res->mine.encode_ns + res->theirs.encode_ns);
    row->decode_ns = (double)(res->mine.decode_ns + res->theirs.decode_ns);
    row->encode_bytes = (double)(res->mine.encode_bytes + res->theirs.encode_bytes);
    row->decode_bytes = (double)(res->mine.decode_bytes + res->theirs.decode_bytes);
    row->host_ns = (double)(res->mine.host_ns + res->theirs.host_ns);
    if (row->codec[0] == '\0')
        snprintf(row->codec, sizeof(row->codec), "%.31s", r->page->codec);
    if (row->policy[0] == '\0')
        snprintf(row->policy, sizeof(row->policy), "%.15s", r->page->policy);
    snprintf(row->lane, sizeof(row->lane), "%.15s", r->page->lane);
}

static void row_fill(struct rank *r, const struct run_result *res, struct perf_row *row)
{
    const struct perf_session *s = r->session;

    row->size = r->run.size;
    row->messages = r->run.count * s->conns;
    row->raw_bytes = row->messages * row->size;
    row->all_raw = row->raw_bytes * (s->bidir || s->lat ? 2 : 1);
    row->seconds = s->lat ? res->seconds / 2 : res->seconds;
    snprintf(row->codec, sizeof(row->codec), "%s", s->codec);
    snprintf(row->policy, sizeof(row->policy), "%s", s->policy);
    rows_counters(r, res, row);
    row->began_ms = r->slices.began_ms;
    row->nslices = r->slices.n;
    memcpy(row->slice, r->slices.slice, sizeof(row->slice));
}

static void check(struct rank *r, uint64_t size, struct perf_row *row)
{
    struct run_result res = {0};
    uint64_t count = r->data.len / size * 8 / 5 + 16, bound = (1ull << 30) / size;
    struct perf_run run = {.kind = PERF_RUN_CHECK, .size = size};

    count = count > bound ? bound : count;
    run.count = count < CHECKS_MIN ? CHECKS_MIN : count > PERF_DIGESTS ? PERF_DIGESTS : count;
    run_lead(r, &run, &res);
    row->valid = res.valid;
    row->checked = run.count * r->session->conns;
    for (uint64_t k = 0; k < run.count; k++)
        row->checked_bytes += run_msg_bytes(r, k) * r->session->conns;
}

void rows_lead(struct rank *r)
{
    const struct perf_opts *o = r->seat->opts;

    for (int i = 0; i < o->nsizes; i++) {
        struct perf_report rep = {.kind = PERF_SAY_ROW, .rank = r->seat->rank};
        struct run_result res = {0};
        timed(r, o->sizes[i], &res);
        row_fill(r, &res, &rep.u.row);
        rows_percentiles(r, &rep.u.row);
        check(r, o->sizes[i], &rep.u.row);
        rows_say(r, &rep);
    }
    rank_send(r, PERF_MSG_END, NULL, 0);
}
