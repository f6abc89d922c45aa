/* instr.c - messages one after the other over the loop lane in virtual time, for callgrind: tests/figures/instructions counts
 * what is executed below send_side, recv_side and code_side.
 *
 *   instr raw|coded BYTES MESSAGES FILE
 *   instr poll 0 POLLS FILE
 *
 * Nothing depends on a clock or on chance, so that two runs of different counts differ by the price of a message alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gradwire/codec.h>
#include <loop.h>

#include "child.h"
#include "comm.h"

/* callgrind finds it by its name: one copy, under that name */
#ifdef __clang__
#define NOT_INLINE __attribute__((noinline))
#else
#define NOT_INLINE __attribute__((noinline, noclone))
#endif

enum { CHUNK = 128 << 10, SLAB = 16 << 20, SIZE_MAX_ = 1 << 20, TAG = 1, JOBS = 64, TURN_NS = 1000, RATE = 1000000000 };

#define SIDE static NOT_INLINE

struct world {
    struct gw_loop_net *net;
    uint64_t now;
    struct gw_env env;
    struct gw_comm *comm[2]; /* sender, receiver */
    struct gw_job *job[JOBS];
    unsigned first, last;
    char *src, *dst;
    size_t size;
    void *scratch;
    struct gw_req *send, *recv;
};

static uint64_t env_now(void *arg)
{
    return ((struct world *)arg)->now;
}

static unsigned env_workers(void *arg)
{
    (void)arg;
    return 1;
}

static gw_err env_post(void *arg, struct gw_job *job)
{
    struct world *w = arg;

    if (w->last - w->first == JOBS)
        return GW_AGAIN;
    w->job[w->last++ % JOBS] = job;
    return GW_OK;
}

static void open_end(struct world *w, int side, enum gw_policy_mode mode, void *dev, struct gw_lane *lane, struct gw_slab *slab)
{
    struct gw_comm_parts parts = { .env = &w->env, .lane = lane, .lane_dev = dev, .slab = slab, .mode = mode,
                                   .codec = gw_codec_by_name("group"), .is_send = side == 0,
                                   .agreed = { .version = 1, .chunk_bytes = CHUNK, .codecs = 3 } };

    must(gw_comm_new(&parts, &w->comm[side]) == GW_OK);
}

static void open_world(struct world *w, enum gw_policy_mode mode)
{
    struct gw_loop_conf conf = { .caps = GW_LANE_COUNTS, .rate = RATE };
    struct gw_place_table *places;
    struct gw_slab *slab[2];
    struct gw_lane *lane[2];
    struct gw_blob blob[2];
    void *dev[2];

    w->env = (struct gw_env){ .now_ns = env_now, .post = env_post, .workers = env_workers, .arg = w };
    must(gw_loop_net_new(&conf, &w->net) == GW_OK);
    for (int i = 0; i < 2; i++) {
        dev[i] = gw_loop_dev(w->net, (unsigned)i);
        must(gw_slab_new(&gw_loop_ops, dev[i], SLAB, CHUNK, &slab[i]) == GW_OK);
        must(gw_loop_ops.make(dev[i], &lane[i]) == GW_OK);
    }
    must(gw_places_new(slab[1], lane[1]->paths, &places) == GW_OK);
    lane[1]->places = places;
    for (int i = 0; i < 2; i++)
        must(gw_loop_ops.local(lane[i], &blob[i]) == GW_OK);
    for (int i = 0; i < 2; i++)
        while (gw_loop_ops.join(lane[i], &blob[!i]) == GW_AGAIN)
            ;
    for (int i = 0; i < 2; i++)
        open_end(w, i, mode, dev[i], lane[i], slab[i]);
}

/* ---- what is counted ---- */

SIDE int recv_side(struct world *w)
{
    void *data = w->dst;
    size_t cap = w->size, got = 0;
    int tag = TAG, done = 0;

    if (w->recv == NULL)
        must(gw_irecv(w->comm[1], 1, &data, &cap, &tag, NULL, &w->recv) == GW_OK);
    must(gw_test(w->recv, &done, &got) == GW_OK);
    if (done)
        w->recv = NULL;
    return done;
}

/* The offer is there before the send is wanted: receives are posted early. */
SIDE int send_side(struct world *w)
{
    int done = 0;

    if (w->send == NULL)
        must(gw_isend(w->comm[0], w->src, w->size, TAG, NULL, &w->send) == GW_OK);
    must(gw_test(w->send, &done, NULL) == GW_OK);
    if (done)
        w->send = NULL;
    return done;
}

SIDE void code_side(struct world *w)
{
    for (; w->first != w->last; w->first++)
        gw_job_run(w->job[w->first % JOBS], w->scratch, env_now, w);
}

/* ---- */

/* To the next moment at which anything happens: no poll is empty that need not be. */
static void turn(struct world *w)
{
    uint64_t due = gw_loop_next_due(w->net);

    w->now = due != UINT64_MAX ? due : w->now + TURN_NS;
    gw_loop_set_now(w->net, w->now);
}

static void message(struct world *w)
{
    int sent = 0, received = recv_side(w);

    must(!received);
    turn(w);
    while (!sent || !received) {
        sent = sent || send_side(w);
        code_side(w);
        received = received || recv_side(w);
        code_side(w);
        turn(w);
    }
}

static void load(struct world *w, const char *file)
{
    FILE *in = fopen(file, "rb");

    w->src = aligned_alloc(4096, SIZE_MAX_);
    w->dst = aligned_alloc(4096, SIZE_MAX_);
    w->scratch = aligned_alloc(64, (gw_codec_ws_max() + 64) / 64 * 64);
    must(in != NULL && w->src != NULL && w->dst != NULL && w->scratch != NULL);
    must(fread(w->src, 1, SIZE_MAX_, in) == SIZE_MAX_);
    fclose(in);
    memset(w->dst, 0, SIZE_MAX_);
}

int main(int argc, char **argv)
{
    static struct world w;

    must(argc == 5);
    int coded = strcmp(argv[1], "coded") == 0, poll = strcmp(argv[1], "poll") == 0, count = atoi(argv[3]);
    w.size = poll ? 64 : (size_t)atol(argv[2]);
    must(w.size > 0 && w.size <= SIZE_MAX_);
    load(&w, argv[4]);
    open_world(&w, coded ? GW_POLICY_ALWAYS : GW_POLICY_NEVER);
    for (int i = 0; i < count && !poll; i++)
        message(&w);
    for (int i = 0; i < count && poll; i++)
        must(!recv_side(&w));
    must(poll || memcmp(w.src, w.dst, w.size) == 0);
    _exit(0);
}
