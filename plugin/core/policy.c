/* policy.c - W, Cover and the gate for bytes that do not shrink. */
#include "policy.h"

#include <string.h>

#include <base/check.h>
#include <base/rule.h>

enum {
    RATE_BYTES = 256 << 10,   /* a rate is taken over at least this much ... */
    RATE_NS = 500000,         /* ... and this long: reports come in bursts */
    FIRST_WINDOW = 1 << 20,   /* until the link was measured */
    GUESS_NS_KIB = 1000,      /* about 1 GB/s, until a codec has run */
    SKIP_FIRST = 8,
    SKIP_MAX = 128,           /* messages */
    GUESS_CPU_NS_KIB = 250,   /* what an encode costs; a slow link need not wait for a trial to learn it */
    GUESS_SAVED = 256,        /* of 1024, until something was coded */
    PAUSE_NS = 8000000,
    LOOK_AGAIN = 256,         /* of the time that the link may have to wait: less than half a percent */
    NS_PER_S = 1000000000
};

void gw_policy_init(struct gw_policy *p, enum gw_policy_mode mode, uint32_t chunk_bytes, uint64_t window_fixed)
{
    memset(p, 0, sizeof *p);
    p->mode = mode;
    p->chunk_bytes = chunk_bytes;
    p->window_fixed = window_fixed;
    p->encode_ns_kib = p->decode_ns_kib = GUESS_NS_KIB;
    p->cpu_ns_kib = GUESS_CPU_NS_KIB;
    p->saved = GUESS_SAVED;
    p->skip_next = SKIP_FIRST;
    gw_trial_init(&p->trial);
}

uint64_t gw_policy_on_way(const struct gw_policy *p)
{
    return p->posted - p->landed;
}

void gw_policy_posted(struct gw_policy *p, uint64_t bytes, uint64_t now_ns)
{
    p->posted += bytes;
    if (p->mark_tail - p->mark_head < GW_MARKS) {
        p->mark[p->mark_tail % GW_MARKS].total = p->posted;
        p->mark[p->mark_tail++ % GW_MARKS].ns = now_ns;
    }
}

/* The largest of the last few samples: a sample can only be too small (the link waited for us), except for bursts, which
 * the least length of a sample evens out. */
static void rate_sample(struct gw_policy *p, uint64_t bytes, uint64_t ns)
{
    p->rate[p->rate_at++ % GW_RATES] = (uint64_t)((double)bytes * NS_PER_S / (double)ns);
    p->rate_max = 0;
    for (int i = 0; i < GW_RATES; i++)
        p->rate_max = gw_max_u64(p->rate_max, p->rate[i]);
}

static void measure_rate(struct gw_policy *p, uint64_t now_ns)
{
    uint64_t bytes = p->landed - p->since_landed;
    uint64_t ns = now_ns - p->since_ns;

    if (p->since_ns != 0 && bytes >= RATE_BYTES && ns >= RATE_NS) {
        rate_sample(p, bytes, ns);
        p->since_ns = 0;
    }
    if (p->landed == p->posted)
        p->since_ns = 0; /* the link will idle: what comes next is no measure of it */
    else if (p->since_ns == 0)
        p->since_ns = now_ns, p->since_landed = p->landed;
}

void gw_policy_landed(struct gw_policy *p, uint64_t total, uint64_t now_ns)
{
    if (total <= p->landed || total > p->posted)
        return;
    p->landed = total;
    while (p->mark_head != p->mark_tail && p->mark[p->mark_head % GW_MARKS].total <= total) {
        uint64_t took = now_ns - p->mark[p->mark_head++ % GW_MARKS].ns;
        if (p->delay_ns == 0 || took < p->delay_ns)
            p->delay_ns = gw_max_u64(took, 1);
    }
    measure_rate(p, now_ns);
}

static uint64_t chunk_ns(uint64_t ns_kib, uint32_t chunk_bytes)
{
    return ns_kib * chunk_bytes >> 10;
}

/* double: a product of a rate and a time passes 64 bits at 400 Gbit/s and some seconds */
static uint64_t bytes_in(uint64_t rate, uint64_t ns)
{
    return (uint64_t)((double)rate * (double)ns / NS_PER_S);
}

uint64_t gw_policy_window(const struct gw_policy *p)
{
    if (p->window_fixed != 0)
        return gw_max_u64(p->window_fixed, p->chunk_bytes);
    if (p->rate_max == 0)
        return gw_max_u64(FIRST_WINDOW, p->chunk_bytes);
    /* a chunk more than the link holds: with one too few it idles, is measured slower, and W would follow it down */
    return p->chunk_bytes + bytes_in(p->rate_max, p->delay_ns + chunk_ns(p->encode_ns_kib, p->chunk_bytes));
}

void gw_policy_ahead(struct gw_policy *p, uint32_t chunks)
{
    p->ahead = chunks;
}

/* The average wait is that of the past: a burst of chunks would all be taken before the first of them says how long it was. */
static uint64_t wait_ns(const struct gw_policy *p)
{
    return gw_max_u64(p->wait_ns, p->ahead * chunk_ns(p->encode_ns_kib, p->chunk_bytes));
}

void gw_policy_taken(struct gw_policy *p, uint64_t now_ns)
{
    p->taken_ns = now_ns;
}

/* How long a codec, and the link after it, would keep one more chunk of ours. */
static uint64_t held_ns(const struct gw_policy *p)
{
    return wait_ns(p) + chunk_ns(p->encode_ns_kib, p->chunk_bytes) + chunk_ns(p->decode_ns_kib, p->chunk_bytes) + p->delay_ns;
}

int gw_policy_coding(const struct gw_policy *p, uint64_t now_ns)
{
    return p->taken_ns != 0 && now_ns - p->taken_ns <= 2 * held_ns(p);
}

int gw_policy_cover(const struct gw_policy *p, uint64_t backlog, uint64_t now_ns)
{
    uint64_t held;

    if (p->mode == GW_POLICY_ALWAYS || !GW_RULE(9))
        return 1;
    if (p->mode == GW_POLICY_NEVER || p->rate_max == 0)
        return 0;
    if (p->jobs_seen == 0 && p->ahead > 0)
        return 0; /* one chunk alone finds out how fast the codec is */
    held = held_ns(p);
    if (bytes_in(p->rate_max, held + held / 4) <= backlog)
        return 1;
    /* what is known of the codec may be a guess, or a bad day: now and then one chunk finds out, whatever it costs */
    return p->ahead == 0 && now_ns - p->taken_ns >= held * LOOK_AGAIN;
}

/* Where codec and transport share cores, coding a byte takes its CPU time twice (encode and decode) from a link that it saves the
 * time of `saved` bytes.  As long as that is a gain, or as nobody waits for a core, W and Cover decide alone: they are right, at
 * once.  Beyond, only a trial can tell. */
static int on_trial(const struct gw_policy *p)
{
    /* while a codec takes the link's cores the link looks slow: what it did raw counts then */
    uint64_t raw = p->trial.mode == GW_TRIAL_CODE ? p->trial.rate[GW_TRIAL_RAW] : 0;
    uint64_t rate = gw_max_u64(p->rate_max, raw);

    return (p->crowd.crowded || p->peer_crowded) && bytes_in(rate, 2 * p->cpu_ns_kib) > p->saved;
}

void gw_policy_peer(struct gw_policy *p, uint32_t decode_ns_kib)
{
    if (decode_ns_kib != 0)
        p->decode_ns_kib = decode_ns_kib;
}

/* A sender that outruns its receiver's window has nothing outstanding many times in an epoch, and what it waits for then may be
 * the very codec that is on trial: only a pause of the host itself begins a new epoch. */
void gw_policy_begins(struct gw_policy *p, uint64_t now_ns)
{
    if (p->idle_ns != 0 && now_ns - p->idle_ns >= PAUSE_NS)
        gw_trial_idle(&p->trial), gw_crowd_idle(&p->crowd);
    p->idle_ns = 0;
}

void gw_policy_done(struct gw_policy *p, uint64_t size, uint32_t outstanding, uint64_t now_ns)
{
    if (p->mode != GW_POLICY_AUTO || !on_trial(p))
        gw_trial_idle(&p->trial);
    else
        gw_trial_done(&p->trial, size, outstanding, now_ns);
    if (outstanding == 0)
        p->idle_ns = now_ns;
}

int gw_policy_try(struct gw_policy *p)
{
    if (p->mode == GW_POLICY_ALWAYS)
        return 1;
    if (p->mode == GW_POLICY_NEVER)
        return 0;
    if (p->skip > 0) {
        p->skip--;
        return 0;
    }
    return !on_trial(p) || p->trial.mode == GW_TRIAL_CODE;
}

static uint64_t average(uint64_t old, uint64_t sample, uint32_t seen)
{
    return seen == 0 ? sample : (old * 7 + sample) / 8;
}

static uint64_t per_kib(uint64_t ns, uint64_t bytes)
{
    return gw_max_u64(ns * 1024 / gw_max_u64(bytes, 1), 1);
}

void gw_policy_decoded(struct gw_policy *p, uint64_t bytes, uint64_t run_ns, uint64_t cpu_ns)
{
    gw_crowd_job(&p->crowd, run_ns, cpu_ns);
    p->decode_ns_kib = average(p->decode_ns_kib, per_kib(run_ns, bytes), p->jobs_seen);
    if (p->jobs_seen < UINT32_MAX)
        p->jobs_seen++;
}

static void shrank(struct gw_policy *p, const struct gw_encoded *e)
{
    uint64_t saved = e->wire < e->bytes ? (e->bytes - e->wire) * 1024 / e->bytes : 0;

    p->encode_ns_kib = average(p->encode_ns_kib, per_kib(e->run_ns, e->bytes), p->jobs_seen);
    p->cpu_ns_kib = average(p->cpu_ns_kib, per_kib(e->cpu_ns, e->bytes), p->jobs_seen);
    p->saved = (uint32_t)average(p->saved, saved, p->jobs_seen);
    p->skip_next = SKIP_FIRST;
}

void gw_policy_encoded(struct gw_policy *p, const struct gw_encoded *e)
{
    if (e->run_ns != 0)
        gw_crowd_job(&p->crowd, e->run_ns, e->cpu_ns);
    if (e->wire != 0) {
        shrank(p, e);
    } else if (p->skip == 0) { /* else this one was given away before the first of them came back */
        p->skip = p->skip_next;
        p->skip_next = p->skip_next < SKIP_MAX ? p->skip_next * 2 : SKIP_MAX;
    }
    p->wait_ns = average(p->wait_ns, e->wait_ns, p->jobs_seen);
    if (p->jobs_seen < UINT32_MAX)
        p->jobs_seen++;
}
