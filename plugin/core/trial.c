/* trial.c - epochs of the favoured way, seldom one of the other. */
#include "trial.h"

enum {
    EPOCH_NS = 16000000, EPOCH_BYTES = 4 << 20, /* shorter ones measure the scheduler */
    HOPELESS_NS = 2000000,
    PROBE_NS = 8000000, PROBE_BYTES = 2 << 20,  /* of the way that is probably slower */
    WINDOWS = 3,                                /* ... and fewer windows what was under way before they began */
    COLD = 8,                                   /* epochs until memory, caches and TCP are warm; raw looks slow before */
    REST_FIRST = 64,                            /* a probe costs at most 2 % of what it can lose */
    REST_MAX = 512,
    CODE_GAIN_PERCENT = 103                     /* less is not worth the CPU */
};

void gw_trial_init(struct gw_trial *t)
{
    *t = (struct gw_trial){ .left = COLD, .rest = REST_FIRST };
}

void gw_trial_idle(struct gw_trial *t)
{
    t->settle = 0;
    t->since_ns = t->bytes = 0;
}

static void turn(struct gw_trial *t, uint8_t mode, uint32_t outstanding)
{
    gw_trial_idle(t);
    /* those of the mode before, and as many until the new way has filled its pipe */
    if (t->mode != mode)
        t->settle = 2 * outstanding, t->turn_bytes = t->turn_ns = 0;
    t->mode = mode;
}

static int other_is_faster(const struct gw_trial *t)
{
    uint64_t other = t->rate[!t->favoured], mine = t->rate[t->favoured];

    return t->favoured == GW_TRIAL_RAW ? other > mine / 100 * CODE_GAIN_PERCENT : other * CODE_GAIN_PERCENT / 100 >= mine;
}

/* The probe is over: what it found is kept for a while, the longer the more often it is found again. */
static void judge(struct gw_trial *t, uint32_t outstanding)
{
    if (other_is_faster(t)) {
        t->favoured = !t->favoured;
        t->rest = t->favoured == GW_TRIAL_CODE ? COLD : REST_FIRST; /* a wrong yes costs more than a wrong no */
    }
    t->left = t->rest;
    t->rest = t->rest < REST_MAX ? t->rest * 2 : REST_MAX;
    turn(t, t->favoured, outstanding);
}

static void epoch_ends(struct gw_trial *t, uint64_t ns, uint32_t outstanding)
{
    uint64_t rate = (uint64_t)((double)t->bytes * 1e9 / (double)ns);
    uint64_t *known = &t->rate[t->mode];

    if (t->mode != t->favoured) {
        *known = rate;
        judge(t, outstanding);
        return;
    }
    *known = *known == 0 ? rate : (*known * 3 + rate) / 4;
    turn(t, --t->left == 0 ? !t->favoured : t->favoured, outstanding);
}

/* A probe that takes twice the time of the favoured way is over before it has cost more. */
static int hopeless(struct gw_trial *t, uint64_t bytes, uint64_t now_ns)
{
    if (t->turn_ns == 0)
        t->turn_ns = now_ns;
    else
        t->turn_bytes += bytes;
    return (double)(now_ns - t->turn_ns) > HOPELESS_NS + 2e9 * (double)t->turn_bytes / (double)t->rate[t->favoured];
}

void gw_trial_done(struct gw_trial *t, uint64_t bytes, uint32_t outstanding, uint64_t now_ns)
{
    int probe = t->mode != t->favoured;
    uint64_t windows = bytes * outstanding * WINDOWS, ns;

    if (probe && hopeless(t, bytes, now_ns)) {
        t->rate[t->mode] = 0;
        judge(t, outstanding);
        return;
    }
    if (t->settle > 0) {
        t->settle--;
        return;
    }
    if (t->since_ns == 0) {
        t->since_ns = now_ns; /* the first one only starts the clock */
        return;
    }
    t->bytes += bytes;
    ns = now_ns - t->since_ns;
    if (ns >= (probe ? PROBE_NS : EPOCH_NS) && t->bytes >= (probe ? PROBE_BYTES : EPOCH_BYTES) && t->bytes >= windows)
        epoch_ends(t, ns, outstanding);
}
