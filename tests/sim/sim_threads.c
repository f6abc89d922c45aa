/* sim_threads.c - the real core over the loop lane in real time: two host threads, real workers, and a service thread that
 * registers memory beside the traffic.  For the thread sanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <gradwire/codec.h>
#include <loop.h>

#include "comm.h"

enum { CHUNK = 16 << 10, MESSAGES = 120, WINDOW = 4, SIZE_MAX_ = 200000, SLAB = 4 << 20 };

struct world {
    struct gw_loop_net *net;
    void *dev[2];
    struct gw_slab *slab[2];
    struct gw_comm *comm[2]; /* sender, receiver */
    enum gw_policy_mode mode;
    uint8_t check;
};

static uint64_t env_now(void *unused)
{
    (void)unused;
    return gw_now_ns();
}

static const struct gw_env env = { .now_ns = env_now, .post = gw_work_post, .workers = gw_work_count };

static struct gw_lane *new_lane(struct world *w, int side, struct gw_blob *blob)
{
    struct gw_place_table *places = NULL;
    struct gw_lane *lane;

    assert_int_equal(gw_loop_ops.make(w->dev[side], &lane), GW_OK);
    if (side == 1)
        assert_int_equal(gw_places_new(w->slab[1], lane->paths, &places), GW_OK);
    lane->places = places;
    assert_int_equal(gw_loop_ops.local(lane, blob), GW_OK);
    return lane;
}

static void join(struct gw_lane *lane, const struct gw_blob *peer)
{
    while (gw_loop_ops.join(lane, peer) == GW_AGAIN)
        ;
}

static void open_world(struct world *w, uint64_t seed, enum gw_policy_mode mode, uint8_t check)
{
    struct gw_loop_conf conf = { .seed = seed, .caps = GW_LANE_COUNTS, .realtime = 1, .again_permille = 50,
                                 .split_permille = 100, .jitter_ns = 20000, .delay_ns = 5000, .rate = 400000000 };
    struct gw_blob blob[2];
    struct gw_lane *lane[2];

    memset(w, 0, sizeof *w);
    assert_int_equal(gw_loop_net_new(&conf, &w->net), GW_OK);
    for (int i = 0; i < 2; i++) {
        w->dev[i] = gw_loop_dev(w->net, (unsigned)i);
        assert_int_equal(gw_slab_new(&gw_loop_ops, w->dev[i], SLAB, CHUNK, &w->slab[i]), GW_OK);
    }
    for (int i = 0; i < 2; i++)
        lane[i] = new_lane(w, i, &blob[i]);
    for (int i = 0; i < 2; i++)
        join(lane[i], &blob[!i]);
    for (int i = 0; i < 2; i++) {
        struct gw_comm_parts parts = { .env = &env, .lane = lane[i], .lane_dev = w->dev[i], .slab = w->slab[i],
                                       .codec = gw_codec_by_name("group"), .mode = mode, .is_send = i == 0,
                                       .agreed = { .version = 1, .chunk_bytes = CHUNK, .codecs = 3, .check = check } };
        snprintf(parts.local, sizeof parts.local, "side %d", i);
        snprintf(parts.peer, sizeof parts.peer, "side %d", !i);
        assert_int_equal(gw_comm_new(&parts, &w->comm[i]), GW_OK);
    }
}

static void close_world(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gw_comm_take(w->comm[i]), 1);
        gw_comm_down(w->comm[i]);
    }
    for (int i = 0; i < 2; i++) {
        gw_loop_ops.close(w->comm[i]->is.lane);
        gw_comm_free(w->comm[i]);
        assert_int_equal(gw_slab_left(w->slab[i], GW_SLAB_PEER), gw_slab_total(w->slab[i], GW_SLAB_PEER));
        assert_int_equal(gw_slab_left(w->slab[i], GW_SLAB_OWN), gw_slab_total(w->slab[i], GW_SLAB_OWN));
        gw_slab_free(w->slab[i]);
    }
    gw_loop_net_free(w->net);
}

static size_t size_of(int message)
{
    return message % 7 == 3 ? 0 : (size_t)message * 7907 % SIZE_MAX_;
}

static void fill(uint8_t *p, size_t n, int message)
{
    for (size_t i = 0; i < n; i++)
        p[i] = i % 4 == 3 ? (uint8_t)(0x3a + (i >> 9) % 3) : (uint8_t)(i * 2654435761u + (unsigned)message * 97);
}

static void *sender(void *arg)
{
    struct world *w = arg;
    struct gw_req *req[WINDOW] = { 0 };
    uint8_t *buf[WINDOW];
    int done, next = 0, finished = 0;

    for (int i = 0; i < WINDOW; i++)
        buf[i] = malloc(SIZE_MAX_);
    while (finished < MESSAGES) {
        for (int i = 0; i < WINDOW; i++) {
            if (req[i] == NULL && next % WINDOW == i && next < MESSAGES) {
                fill(buf[i], size_of(next), next);
                next += gw_isend(w->comm[0], buf[i], size_of(next), 5, NULL, &req[i]) == GW_OK;
            }
            if (req[i] != NULL) {
                assert_int_equal(gw_test(req[i], &done, NULL), GW_OK);
                if (done)
                    req[i] = NULL, finished++;
            }
        }
        sched_yield();
    }
    for (int i = 0; i < WINDOW; i++)
        free(buf[i]);
    return NULL;
}

static void *receiver(void *arg)
{
    struct world *w = arg;
    struct gw_req *req[WINDOW] = { 0 };
    uint8_t *buf[WINDOW], *want = malloc(SIZE_MAX_);
    int done, next = 0, tag = 5, number[WINDOW] = { 0 }, finished = 0;
    size_t cap = SIZE_MAX_, size;

    for (int i = 0; i < WINDOW; i++)
        buf[i] = malloc(SIZE_MAX_);
    while (finished < MESSAGES) {
        int i = next % WINDOW;
        void *data = buf[i];
        if (req[i] == NULL && next < MESSAGES && gw_irecv(w->comm[1], 1, &data, &cap, &tag, NULL, &req[i]) == GW_OK)
            number[i] = next++;
        for (i = 0; i < WINDOW; i++) {
            if (req[i] == NULL)
                continue;
            assert_int_equal(gw_test(req[i], &done, &size), GW_OK);
            if (!done)
                continue;
            req[i] = NULL, finished++;
            assert_int_equal(size, size_of(number[i]));
            fill(want, size, number[i]);
            assert_memory_equal(buf[i], want, size);
        }
        sched_yield();
    }
    for (int i = 0; i < WINDOW; i++)
        free(buf[i]);
    free(want);
    return NULL;
}

static void run_world(uint64_t seed, enum gw_policy_mode mode, uint8_t check)
{
    struct world w;
    pthread_t t[2];

    open_world(&w, seed, mode, check);
    assert_int_equal(pthread_create(&t[0], NULL, sender, &w), 0);
    assert_int_equal(pthread_create(&t[1], NULL, receiver, &w), 0);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    close_world(&w);
}

static void two_threads_and_workers(void **state)
{
    (void)state;
    assert_int_equal(gw_work_open(2), GW_OK);
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int mode = GW_POLICY_AUTO; mode <= GW_POLICY_NEVER; mode++)
            run_world(seed, (enum gw_policy_mode)mode, seed & 1);
    gw_work_close();
}

static void two_threads_and_no_worker(void **state)
{
    (void)state;
    assert_int_equal(gw_work_open(0), GW_OK);
    run_world(9, GW_POLICY_ALWAYS, 1);
    gw_work_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_and_workers),
        cmocka_unit_test(two_threads_and_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
