/* test_peer.c - a live sender and a peer that is wrong, or only quick: the lane is a script, and what is put on it waits here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/check.h>
#include <comm.h>

enum { CHUNK = 16384, SIZE = 4 * CHUNK, PUTS = 64, FAR = 0x10000000 };

static struct {
    struct gw_comm *comm;
    struct gw_lane lane;
    struct gw_slab *slab;
    uint64_t now;
    unsigned errors, polls, shuts, puts, taken;
    struct gw_put put[PUTS];      /* in their order; SENT is said by sent() */
    struct gw_job *job;           /* the worker has it, and is slow */
    struct gw_event event;        /* the next one; kind 0: none */
    uint8_t msg[GW_OFFER_MAX], src[SIZE];
} t;

/* ---- the world ---- */

static uint64_t now(void *unused)
{
    (void)unused;
    return t.now += 1000;
}

static gw_err take_job(void *unused, struct gw_job *job)
{
    (void)unused;
    if (t.job != NULL)
        return GW_AGAIN;
    t.job = job;
    return GW_OK;
}

static unsigned one_worker(void *unused)
{
    (void)unused;
    return 1;
}

static const struct gw_env env = { .now_ns = now, .post = take_job, .workers = one_worker };

static gw_err reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    (void)dev, (void)remote;
    *out = (struct gw_region){ .base = base, .bytes = bytes };
    return GW_OK;
}

static void dereg(void *dev, struct gw_region *region)
{
    (void)dev, (void)region;
}

static gw_err put(struct gw_lane *lane, const struct gw_put *p)
{
    (void)lane;
    assert_int_equal(t.shuts, 0);
    assert_true(t.puts < PUTS);
    t.put[t.puts++] = *p;
    return GW_OK;
}

static int poll_once(struct gw_lane *lane, struct gw_event *ev, int max)
{
    (void)lane;
    assert_true(max > 0 && t.shuts == 0);
    t.polls++;
    if (t.event.kind == 0)
        return 0;
    *ev = t.event;
    t.event.kind = 0;
    return 1;
}

static void shut(struct gw_lane *lane)
{
    (void)lane;
    t.shuts++;
}

static const struct gw_lane_ops ops = { .size = sizeof ops, .name = "script", .reg = reg, .dereg = dereg, .put = put,
                                        .poll = poll_once, .shut = shut };

static void count_errors(void *unused, enum gw_log_level level, const char *line)
{
    (void)unused, (void)line;
    t.errors += level == GW_LOG_ERROR;
}

static const struct gw_logger logger = { .write = count_errors, .level = GW_LOG_INFO };

/* ---- what the peer says, and the lane ---- */

static void offer(uint32_t number, uint8_t pieces)
{
    struct gw_offer o = { .number = number, .buffers = 1, .pieces = pieces, .hint = GW_HINT_SIMPLE_OK };

    o.buf[0] = (struct gw_offer_buf){ .addr = FAR + number * SIZE, .cap = SIZE };
    for (int i = 0; i < pieces; i++)
        o.piece_addr[i] = 2 * FAR + (number * 4 + (unsigned)i) * 2 * CHUNK, o.piece_bytes = CHUNK + GW_HEAD_BYTES;
    t.event = (struct gw_event){ .kind = GW_EV_MSG, .msg = t.msg, .len = gw_offer_write(t.msg, &o) };
}

/* The next put that has not been said to be SENT. */
static void sent(void)
{
    assert_true(t.taken < t.puts);
    t.event = (struct gw_event){ .kind = GW_EV_SENT, .cookie = t.put[t.taken++].cookie };
}

static void bye(uint32_t lowest)
{
    t.comm->watched.bye = (struct gw_bye){ .receiver = 1, .lowest = lowest };
    atomic_fetch_or(&t.comm->watched.signs, GW_SIGN_BYE);
}

static gw_err test_it(struct gw_req *req, int *done_p)
{
    size_t size = 0;
    gw_err err = GW_OK;

    for (int i = 0; i < 3; i++) {
        err = gw_test(req, done_p, &size);
        if (*done_p)
            break;
    }
    assert_true(err != GW_OK || !*done_p || size == SIZE);
    return err;
}

static int begin(void **state)
{
    struct gw_comm_parts parts = { .env = &env, .log = &logger, .lane = &t.lane, .codec = gw_codec_by_name("group"),
                                   .agreed = { .version = 1, .chunk_bytes = CHUNK, .codecs = 3 }, .mode = GW_POLICY_NEVER,
                                   .is_send = 1, .local = "here", .peer = "there" };

    (void)state;
    memset(&t, 0, sizeof t);
    t.lane = (struct gw_lane){ .ops = &ops, .caps = GW_LANE_COUNTS, .paths = 1 };
    for (uint32_t i = 0; i < SIZE; i++)
        t.src[i] = i % 4 == 3 ? 0x3f : (uint8_t)(i * 2654435761u >> 9);
    if (gw_slab_new(&ops, NULL, 16 * (CHUNK + 4096), CHUNK, &t.slab) != GW_OK)
        return -1;
    parts.slab = t.slab;
    return gw_comm_new(&parts, &t.comm) == GW_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    if (t.job != NULL)
        atomic_store(&t.job->done, 1);
    atomic_store(&t.comm->inside, 0); /* an assertion that fails in the lane leaves it so */
    if (gw_comm_take(t.comm))
        gw_comm_down(t.comm);
    gw_comm_free(t.comm);
    gw_slab_free(t.slab);
    return 0;
}

static struct gw_req *send_whole(uint32_t number)
{
    struct gw_req *req;

    offer(number, 0);
    assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &req), GW_OK);
    assert_int_equal(t.put[t.puts - 1].head.kind, GW_PUT_WHOLE);
    return req;
}

/* ---- a bye that is quicker than SENT ---- */

/* The receiver has all of it and has gone; our bytes are the lane's until SENT. */
static void a_bye_does_not_take_bytes_from_the_lane(void **state)
{
    struct gw_req *req = send_whole(0);
    int done;

    (void)state;
    bye(1);
    assert_int_equal(test_it(req, &done), GW_OK);
    assert_false(done);
    sent();
    assert_int_equal(test_it(req, &done), GW_OK);
    assert_true(done);
    assert_int_equal(t.errors, 0);
    assert_int_equal(t.shuts, 0);
}

/* No SENT comes any more: the lane is shut first, and asked for nothing afterwards. */
static void a_lane_without_sent_is_shut_before_the_send_ends(void **state)
{
    struct gw_req *req = send_whole(0);
    int done;

    (void)state;
    bye(1);
    if (*(const char *)*state == 'f')
        t.event = (struct gw_event){ .kind = GW_EV_FAILED, .err = GW_E_PEER };
    else
        test_it(req, &done), t.now += 2000000000u;
    assert_int_equal(test_it(req, &done), GW_OK);
    assert_true(done);
    assert_int_equal(t.shuts, 1);
    assert_int_equal(t.errors, 0);
    /* and who goes on sending is told */
    assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &req), GW_OK);
    assert_int_equal(test_it(req, &done), GW_E_CLOSED);
    assert_int_equal(t.errors, 1);
}

/* ---- a lane that cannot meet its peer ---- */

/* One line for its user, once its time has come; the comm goes on as soon as the lane does. */
static void a_lane_that_meets_nobody_is_said_once(void **state)
{
    struct gw_req *req;
    int done;

    (void)state;
    t.comm->is.stall_warn_ns = 2000000000u;
    t.lane.unmet_ns = t.now += 1000;
    assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &req), GW_AGAIN);
    assert_int_equal(t.errors, 0);
    t.now += 2000000000u;
    for (int i = 0; i < 5; i++)
        assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &req), GW_AGAIN);
    assert_int_equal(t.errors, 1);
    t.lane.unmet_ns = 0;
    req = send_whole(0);
    sent();
    bye(1);
    assert_int_equal(test_it(req, &done), GW_OK);
    assert_true(done);
    assert_int_equal(t.errors, 1);
}

/* ---- an offer for a slot that was used before ---- */

/* The receiver has the message and opens its slot anew; that offer overtakes `landed`, and our SENT is late. */
static void an_offer_may_come_before_we_know_that_its_slot_is_free(void **state)
{
    struct gw_req *req = send_whole(0), *next;
    int done;

    (void)state;
    offer(GW_SLOTS, 0);
    assert_int_equal(test_it(req, &done), GW_OK);
    assert_false(done);
    assert_int_equal(t.errors, 0);
    for (uint32_t n = 1; n <= GW_SLOTS; n++) {
        if (n < GW_SLOTS)
            offer(n, 0);
        assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &next), GW_OK);
        assert_int_equal(t.put[t.puts - 1].head.number, n);
        assert_true(t.put[t.puts - 1].addr == FAR + n * SIZE);
    }
}

/* No receiver can have a message that is still being coded: the frames go where its own offer said, or nowhere. */
static void an_offer_for_a_message_that_is_not_all_posted_fails_the_comm(void **state)
{
    struct gw_req *req;
    int done;

    (void)state;
    t.comm->policy.mode = t.comm->is.mode = GW_POLICY_ALWAYS;
    t.comm->policy.rate_max = t.comm->policy.rate[0] = 100000000;
    offer(0, 4);
    assert_int_equal(gw_isend(t.comm, t.src, SIZE, 0, NULL, &req), GW_OK);
    assert_non_null(t.job);
    offer(GW_SLOTS, 0);
    assert_int_equal(test_it(req, &done), GW_OK); /* the worker has its bytes */
    assert_false(done);
    assert_int_equal(t.errors, 1);
    gw_job_run(t.job, t.comm->scratch, now, NULL);
    t.job = NULL;
    assert_int_equal(test_it(req, &done), GW_E_PROTO);
    assert_true(done);
    for (unsigned i = 0; i < t.puts; i++)
        assert_true(t.put[i].addr >= FAR && t.put[i].head.number == 0);
}

int main(void)
{
    static char failed[] = "failed", late[] = "late";
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_bye_does_not_take_bytes_from_the_lane),
        {"a lane that failed is shut", a_lane_without_sent_is_shut_before_the_send_ends, begin, end, failed},
        {"a lane that says no SENT is shut", a_lane_without_sent_is_shut_before_the_send_ends, begin, end, late},
        CASE(a_lane_that_meets_nobody_is_said_once),
        CASE(an_offer_may_come_before_we_know_that_its_slot_is_free),
        CASE(an_offer_for_a_message_that_is_not_all_posted_fails_the_comm),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
