/* test_work.c - the workers: every job comes back once, whoever posted it; they start late and stop with the last user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <gradwire/frame.h>

#include "work.h"

enum { POSTERS = 3, JOBS = 200, BYTES = 32 << 10 };

static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;

    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static void wait_for(struct gw_job *job)
{
    while (!atomic_load_explicit(&job->done, memory_order_acquire))
        sched_yield();
}

static uint64_t no_time(void *arg)
{
    (void)arg;
    return 0;
}

static void *post_many(void *arg)
{
    uint8_t *src = malloc(BYTES), *mid = aligned_alloc(64, 2 * BYTES), *back = malloc(BYTES);

    (void)arg;
    for (int i = 0; i < BYTES; i++)
        src[i] = i % 4 == 3 ? 0x3c : (uint8_t)(i * 7919 >> 3);
    for (int i = 0; i < JOBS; i++) {
        struct gw_job enc = { .kind = GW_JOB_ENCODE, .check = 1, .codec = gw_codec_by_name("group"),
                              .coding = { .size = sizeof enc.coding, .view = GW_VIEW_F32 }, .src = src,
                              .src_len = BYTES, .dst = mid, .dst_cap = 2 * BYTES };
        struct gw_job dec = { .kind = GW_JOB_DECODE, .src = mid, .dst = back, .dst_cap = BYTES };
        src[i] ^= (uint8_t)i;
        while (gw_work_post(NULL, &enc) == GW_AGAIN)
            sched_yield();
        wait_for(&enc);
        assert_int_equal(enc.err, GW_OK);
        dec.src_len = enc.out_len;
        while (gw_work_post(NULL, &dec) == GW_AGAIN)
            sched_yield();
        wait_for(&dec);
        assert_int_equal(dec.err, GW_OK);
        assert_memory_equal(src, back, BYTES);
    }
    free(src), free(mid), free(back);
    return NULL;
}

static void every_job_comes_back(void **state)
{
    pthread_t t[POSTERS];
    int before = threads();

    (void)state;
    assert_int_equal(gw_work_open(2), GW_OK);
    assert_int_equal(threads(), before); /* they start with the first job */
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, post_many, NULL), 0);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(t[i], NULL);
    assert_true(threads() >= before + 2);
    gw_work_close();
}

static void the_last_user_stops_them(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(gw_work_open(1), GW_OK);
        assert_int_equal(gw_work_open(1), GW_OK);
        post_many(NULL);
        gw_work_close();
        post_many(NULL);
        gw_work_close();
    }
}

static void no_workers_means_again(void **state)
{
    struct gw_job job = { .kind = GW_JOB_DECODE };

    (void)state;
    assert_int_equal(gw_work_open(0), GW_OK);
    assert_int_equal(gw_work_count(NULL), 0);
    assert_int_equal(gw_work_post(NULL, &job), GW_AGAIN);
    gw_work_close();
}

/* What a peer says is a message must come back as it was. */
static void a_lossy_frame_is_refused(void **state)
{
    static _Alignas(64) uint8_t ws[2 << 20];
    static uint8_t src[1024], frame[2048], back[1024];
    struct gw_coding c = { .size = sizeof c, .view = GW_VIEW_F32 };
    struct gw_job dec = { .kind = GW_JOB_DECODE, .src = frame, .dst = back, .dst_cap = sizeof back };

    (void)state;
    assert_int_equal(gw_frame_encode(gw_codec_by_name("bf16"), &c, 1, src, sizeof src, frame, sizeof frame, &dec.src_len, ws),
                     GW_OK);
    assert_int_equal(gw_frame_decode(frame, dec.src_len, back, sizeof back, ws), GW_OK);
    gw_job_run(&dec, ws, no_time, NULL);
    assert_int_equal(dec.err, GW_E_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_comes_back),
        cmocka_unit_test(the_last_user_stops_them),
        cmocka_unit_test(no_workers_means_again),
        cmocka_unit_test(a_lossy_frame_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
