/* comm_bed.h - the world of fuzz_comm.c: the input as a cursor, workers that work when it says so, a lane that answers as it
 * says, and memory in which every byte that lands outside of an offer shows. */
#ifndef GW_FUZZ_COMM_BED_H
#define GW_FUZZ_COMM_BED_H

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "comm.h"

enum { CHUNK = 1024, SLAB_PIECES = 8, STRIDE = 4096, ARENA = 32 << 10, GUARD = 0xa5, GAP = 48 };
enum { SEND_MAX = 4 * CHUNK + 100, EVENTS = 64, PUTS = 64, JOBS = 8, REGIONS = 128, OFFERS = 32 };

/* One receive buffer. While it is open a put may land there; from then on its bytes stand in `shadow`. */
struct region {
    uint32_t at, cap;
    uint8_t open;
};

static struct {
    const uint8_t *in, *in_end;
    uint64_t now;
    unsigned errors, fails_told, broke; /* at most one each */

    unsigned workers, jobs;
    struct gw_job *job[JOBS];

    struct gw_lane lane;
    struct gw_place_table *places;
    uint8_t again;        /* which calls of the lane answer GW_AGAIN: a bit each, in turn */
    unsigned calls;
    int failed, shut;
    struct gw_event event[EVENTS];
    uint8_t *event_msg[EVENTS]; /* as long as it is, and freed by the next poll: what is read too far or too late shows */
    unsigned events, told;      /* waiting; handed out by the last poll */
    struct gw_put put[PUTS];    /* whose SENT has not come */
    unsigned puts;
    unsigned landed;            /* puts of user bytes; no two in a row are alike */
    struct gw_offer offer[OFFERS]; /* all that the sender can have believed */
    unsigned offers;
    uint8_t bag[GW_MSG_MAX];       /* what the receiver has said of one message of the lane so far */
    uint32_t bagged;

    struct gw_piece held[SLAB_PIECES]; /* staging that other comms have */
    unsigned helds;
    struct region region[REGIONS];
    unsigned regions;
    uint32_t used;        /* of the arena */
} bed;

static struct gw_comm *comm;
static uint8_t arena[ARENA], shadow[ARENA];
static uint8_t pattern[4][SEND_MAX]; /* zeros, floats, noise, flags */
static _Alignas(64) uint8_t ws[2 << 20];
static struct gw_slab *slab;
static volatile uint8_t sink;

/* ---- the input ---- */

static uint8_t u8(void)
{
    return bed.in < bed.in_end ? *bed.in++ : 0;
}

static uint16_t u16(void)
{
    uint8_t low = u8();
    return (uint16_t)(low | u8() << 8);
}

static uint32_t u32(void)
{
    uint16_t low = u16();
    return low | (uint32_t)u16() << 16;
}

/* Up to three bytes are changed: what nearly follows the format gets further than what does not at all. */
static void mutate(uint8_t *p, uint32_t len)
{
    unsigned n = u8();

    for (n = n < 0xc0 ? 0 : 1 + n % 3; n > 0 && len > 0; n--) {
        uint32_t at = u16() % len;
        p[at] = u8();
    }
}

/* ---- time and workers ---- */

static uint64_t bed_now(void *unused)
{
    (void)unused;
    return bed.now += 500;
}

static unsigned bed_workers(void *unused)
{
    (void)unused;
    return bed.workers;
}

static gw_err bed_post(void *unused, struct gw_job *job)
{
    (void)unused;
    if (bed.jobs == JOBS)
        return GW_AGAIN;
    for (unsigned i = 0; i < bed.jobs; i++)
        gw_assert(bed.job[i] != job);
    bed.job[bed.jobs++] = job;
    return GW_OK;
}

static void run_job(unsigned which)
{
    struct gw_job *job;

    if (bed.jobs == 0)
        return;
    which %= bed.jobs;
    job = bed.job[which];
    bed.job[which] = bed.job[--bed.jobs];
    gw_job_run(job, ws, bed_now, NULL);
}

static void run_all_jobs(void)
{
    while (bed.jobs > 0)
        run_job(0);
}

/* Does a worker have anything of these bytes? */
static int worker_has(const uint8_t *p, uint32_t len)
{
    for (unsigned i = 0; i < bed.jobs; i++) {
        const struct gw_job *job = bed.job[i];
        const uint8_t *user = job->kind == GW_JOB_ENCODE ? job->src : job->dst;
        if (len > 0 && user >= p && user < p + len)
            return 1;
    }
    return 0;
}

static const struct gw_env bed_env = { .now_ns = bed_now, .post = bed_post, .workers = bed_workers };

/* ---- the lane ---- */

static void read_all(const uint8_t *p, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        sink ^= p[i];
}

static int says_again(void)
{
    return bed.again >> (bed.calls++ % 8) & 1;
}

static gw_err bed_reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    (void)dev, (void)remote;
    *out = (struct gw_region){ .base = base, .bytes = bytes, .key = { 7, 9 } };
    return GW_OK;
}

static void bed_dereg(void *dev, struct gw_region *region)
{
    (void)dev;
    memset(region, 0, sizeof *region);
}

static gw_err bed_msg(struct gw_lane *lane, const void *msg, uint32_t len)
{
    (void)lane;
    gw_assert(len <= GW_MSG_MAX && !bed.shut);
    if (bed.failed)
        return GW_E_LANE;
    read_all(msg, len);
    return says_again() ? GW_AGAIN : GW_OK;
}

/* What a sender writes goes into a buffer or a piece that it was offered with that number. */
static int was_offered(const struct gw_put *put)
{
    if (put->head.kind == GW_PUT_END)
        return 1;
    for (unsigned i = 0; i < bed.offers; i++) {
        const struct gw_offer *o = &bed.offer[i];
        if (o->number != put->head.number)
            continue;
        for (int b = 0; put->head.kind != GW_PUT_CODED && b < o->buffers; b++)
            if (put->addr - o->buf[b].addr <= o->buf[b].cap &&
                put->len <= o->buf[b].cap - (put->addr - o->buf[b].addr))
                return 1;
        for (int p = 0; put->head.kind == GW_PUT_CODED && p < o->pieces; p++)
            if (put->addr == o->piece_addr[p])
                return 1;
    }
    return 0;
}

static gw_err bed_put(struct gw_lane *lane, const struct gw_put *put)
{
    uint8_t bytes[GW_HEAD_BYTES];
    struct gw_head h;
    struct gw_end e;

    gw_assert(!bed.shut && put->path < lane->paths);
    gw_head_write(bytes, &put->head);
    gw_assert(gw_head_read(bytes, sizeof bytes, &h) == GW_OK && was_offered(put));
    gw_assert(h.kind != GW_PUT_END || gw_end_read(put->src, put->len, &e) == GW_OK);
    if (bed.failed)
        return GW_E_LANE;
    if (bed.puts == PUTS || says_again())
        return GW_AGAIN;
    read_all(put->src, put->len);
    bed.put[bed.puts] = *put;
    if (h.kind == GW_PUT_END)
        bed.put[bed.puts].len = 0; /* was copied */
    bed.puts++;
    return GW_OK;
}

static void forget_told(void)
{
    for (unsigned i = 0; i < bed.told; i++)
        free(bed.event_msg[i]);
    bed.events -= bed.told;
    memmove(bed.event, bed.event + bed.told, bed.events * sizeof *bed.event);
    memmove(bed.event_msg, bed.event_msg + bed.told, bed.events * sizeof *bed.event_msg);
    bed.told = 0;
}

static int bed_poll(struct gw_lane *lane, struct gw_event *ev, int max)
{
    (void)lane;
    gw_assert(!bed.shut);
    forget_told();
    while (bed.told < bed.events && bed.told < (unsigned)max) {
        ev[bed.told] = bed.event[bed.told];
        bed.told++;
    }
    return (int)bed.told;
}

static void bed_shut(struct gw_lane *lane)
{
    (void)lane;
    bed.shut = 1;
}

static const struct gw_lane_ops bed_ops = { .size = sizeof bed_ops, .name = "bed", .reg = bed_reg, .dereg = bed_dereg,
                                            .msg = bed_msg, .put = bed_put, .poll = bed_poll, .shut = bed_shut };

static void report(const struct gw_event *ev, const uint8_t *msg, uint32_t len)
{
    if (bed.events == EVENTS || bed.failed || bed.shut)
        return;
    bed.failed = ev->kind == GW_EV_FAILED;
    bed.event[bed.events] = *ev;
    bed.event_msg[bed.events] = NULL;
    if (ev->kind == GW_EV_MSG) {
        uint8_t *copy = malloc(len > 0 ? len : 1);
        memcpy(copy, msg, len);
        bed.event[bed.events].msg = bed.event_msg[bed.events] = copy;
        bed.event[bed.events].len = len;
    }
    bed.events++;
}

/* ---- memory ---- */

static void end_region(struct region *r)
{
    if (r->open)
        memcpy(shadow + r->at, arena + r->at, r->cap);
    r->open = 0;
}

static struct region *new_region(uint32_t cap)
{
    struct region *r = &bed.region[bed.regions];

    if (bed.regions == REGIONS || cap + GAP > ARENA - bed.used)
        return NULL;
    bed.regions++;
    *r = (struct region){ .at = bed.used, .cap = cap, .open = 1 };
    bed.used += cap + 16 + bed.regions % (GAP - 16); /* odd places, and a gap behind each */
    return r;
}

static void hold_own_pieces(void)
{
    while (gw_slab_lend(slab, GW_SLAB_OWN, &bed.held[bed.helds]) == GW_OK)
        bed.helds++;
}

static void free_held_piece(void)
{
    if (bed.helds > 0)
        gw_slab_back(slab, &bed.held[--bed.helds]);
}

static void pieces_each(int fill)
{
    uint8_t *base = gw_slab_region(slab)->base;

    for (uint32_t i = 0; i < SLAB_PIECES; i++) {
        uint8_t *piece = base + (size_t)i * STRIDE, *end = piece + GAP + GW_HEAD_BYTES + CHUNK;
        if (fill)
            memset(piece, GUARD, GAP), memset(piece + GAP, 0, GW_HEAD_BYTES + CHUNK), memset(end, GUARD, GAP);
        for (int k = 0; k < GAP; k++)
            gw_assert(piece[k] == GUARD && end[k] == GUARD);
    }
}

static void begin_memory(void)
{
    bed.used = GAP;
    memset(arena, GUARD, sizeof arena);
    memset(shadow, GUARD, sizeof shadow);
    pieces_each(1);
}

static void judge_memory(void)
{
    for (unsigned i = 0; i < bed.regions; i++)
        end_region(&bed.region[i]);
    gw_assert(memcmp(arena, shadow, sizeof arena) == 0);
    pieces_each(0);
    for (int half = GW_SLAB_PEER; half <= GW_SLAB_OWN; half++)
        gw_assert(gw_slab_left(slab, half) == gw_slab_total(slab, half));
}
#endif
