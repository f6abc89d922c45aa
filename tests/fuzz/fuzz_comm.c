/* fuzz_comm.c - a live comm between a host and a peer that both do whatever the input says.
 *
 * The first bytes choose the comm: which end, which lane, policy, workers.  Then each step is an operation and its operands: of
 * the host (isend, irecv, test, reg, dereg), of the peer (messages and puts, well-formed or changed, in any order), of the lane
 * (SENT, FAILED, GW_AGAIN), of the watcher (bye, fail and its other signs), of a worker, of the clock.
 *
 * What must hold: nothing lands outside of what is offered; a sender reads its own memory and writes where it was offered; a
 * comm that is broken says so once and gives all requests back; the slab is whole at the end. */
#include "comm_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
const char *__asan_default_options(void);

enum { REQS = 48, MEMS = 4, STEPS = 400 };

struct open_req {
    struct gw_req *req; /* NULL: a free place */
    uint8_t *data;      /* of a send, and as long; of one that failed until the end */
    struct region *region[GW_BUFFERS_MAX];
    uint32_t cap[GW_BUFFERS_MAX], size;
};

static struct open_req open_reqs[REQS];
static struct gw_mem *mems[MEMS];

/* ---- the host ---- */

static struct open_req *free_place(void)
{
    for (int i = 0; i < REQS; i++)
        if (open_reqs[i].req == NULL && open_reqs[i].data == NULL)
            return &open_reqs[i];
    return NULL;
}

static void isend(void)
{
    struct open_req *o = free_place();
    uint32_t size = u16() % SEND_MAX;
    uint8_t how = u8();
    gw_err err;

    if (o == NULL)
        return;
    o->data = malloc(size > 0 ? size : 1);
    o->size = size;
    memcpy(o->data, pattern[how & 3], size);
    err = gw_isend(comm, o->data, size, how >> 2 & 1, how & 8 ? mems[how >> 4 & 3] : NULL, &o->req);
    gw_assert(err == GW_OK || (err == GW_AGAIN && o->req == NULL));
    if (err != GW_OK) {
        free(o->data);
        o->data = NULL;
    }
}

static void irecv(void)
{
    struct open_req *o = free_place();
    void *data[GW_BUFFERS_MAX];
    size_t sizes[GW_BUFFERS_MAX];
    int tags[GW_BUFFERS_MAX], n = u8() % GW_BUFFERS_MAX + 1;
    struct gw_mem *with[GW_BUFFERS_MAX];
    gw_err err;

    if (o == NULL)
        return;
    *o = (struct open_req){ 0 };
    for (int i = 0; i < n; i++) {
        uint8_t how = u8();
        o->cap[i] = how < 0x40 ? 0 : u16() % SEND_MAX;
        o->region[i] = new_region(o->cap[i]);
        if (o->region[i] == NULL)
            o->cap[i] = 0;
        data[i] = o->region[i] ? arena + o->region[i]->at : NULL;
        sizes[i] = o->cap[i], tags[i] = how & 1, with[i] = how & 2 ? mems[how >> 2 & 3] : NULL;
    }
    err = gw_irecv(comm, n, data, sizes, tags, with, &o->req);
    gw_assert(err == GW_OK || (err == GW_AGAIN && o->req == NULL));
}

/* After an error the memory stays the peer's until the lane is down; a success gives it back. */
static int test(struct open_req *o)
{
    size_t sizes[GW_BUFFERS_MAX] = { 0 };
    int done, n;
    gw_err err;

    if (o->req == NULL)
        return 1;
    n = comm->is.is_send ? 1 : gw_req_count(o->req);
    err = gw_test(o->req, &done, sizes);
    gw_assert(err == GW_OK || (done && atomic_load(&comm->broken) != 0));
    if (!done)
        return 0;
    gw_assert(!comm->is.is_send || !worker_has(o->data, o->size));
    for (int i = 0; !comm->is.is_send && i < n; i++) {
        gw_assert(o->region[i] == NULL || !worker_has(arena + o->region[i]->at, o->cap[i]));
        gw_assert(sizes[i] <= o->cap[i]);
        if (err == GW_OK && o->region[i] != NULL)
            end_region(o->region[i]);
    }
    if (comm->is.is_send && err == GW_OK) {
        free(o->data);
        o->data = NULL;
    }
    o->req = NULL;
    return 1;
}

static void reg_or_dereg(void)
{
    struct gw_mem **mem = &mems[u8() % MEMS];

    if (*mem == NULL) {
        gw_assert(gw_reg(comm, arena, sizeof arena, mem) == GW_OK);
        return;
    }
    run_all_jobs(); /* it waits for the workers */
    gw_dereg(comm, *mem);
    *mem = NULL;
}

/* ---- the watcher ---- */

static void sign(void)
{
    static const uint32_t signs[] = { GW_SIGN_BYE, GW_SIGN_FAIL, GW_SIGN_EOF, GW_SIGN_TIMEOUT, GW_SIGN_STALL };
    struct gw_watched *w = &comm->watched;
    uint32_t which = signs[u8() % GW_LEN(signs)];

    if (atomic_load(&w->signs) & which)
        return; /* each is said once */
    if (which == GW_SIGN_BYE)
        w->bye = (struct gw_bye){ .lowest = some_number(), .map = u32(), .receiver = comm->is.is_send };
    if (which == GW_SIGN_FAIL)
        w->fail = (struct gw_fail){ .code = -1 - u8(), .number = u8(), .told = u8() & 1, .host = "h", .text = "it says" };
    atomic_fetch_or(&w->signs, which);
}

/* ---- a run ---- */

static void step(void)
{
    uint8_t op = u8() & 15;

    if (op < 7)
        of_peer(op);
    else if (op < 9)
        comm->is.is_send ? isend() : irecv();
    else if (op < 12)
        test(&open_reqs[u8() % REQS]);
    else if (op == 12)
        run_job(u8());
    else if (op == 13)
        reg_or_dereg();
    else if (op == 14)
        bed.now += (uint64_t)u8() << 24;
    else if ((op = u8()) < 0x60)
        sign();
    else if (op < 0x80)
        report(&(struct gw_event){ .kind = GW_EV_FAILED, .err = GW_E_LANE }, NULL, 0);
    else if (op < 0xc0)
        free_held_piece();
    else
        of_peer(7);
}

static void wrote(void *unused, enum gw_log_level level, const char *line)
{
    (void)unused, (void)line;
    bed.errors += level == GW_LOG_ERROR;
}

static void fail_told(void *unused, const struct gw_fail *f)
{
    (void)unused, (void)f;
    bed.fails_told++;
}

static void broke(void *unused, const struct gw_fail *f)
{
    (void)unused, (void)f;
    bed.broke++;
}

static void begin(void)
{
    static const struct gw_logger log = { .write = wrote, .level = GW_LOG_INFO };
    uint8_t how = u8(), more = u8();
    struct gw_comm_parts parts = { .env = &bed_env, .log = &log, .lane = &bed.lane, .slab = more & 8 ? NULL : slab,
                                   .codec = gw_codec_by_name("group"), .mode = (enum gw_policy_mode)((how >> 4) % 3),
                                   .agreed = { .version = 1, .chunk_bytes = CHUNK, .codecs = 3, .check = how >> 3 & 1 },
                                   .is_send = how & 1, .local = "here", .peer = "there", .tell_fail = fail_told,
                                   .broke = broke };

    bed.lane.ops = &bed_ops;
    bed.lane.paths = (uint8_t)(1 + (more & 3));
    bed.lane.caps = (how & 2 ? GW_LANE_FENCED : GW_LANE_COUNTS) | (how & 4 ? GW_LANE_SENT_IS_LANDED : 0);
    bed.workers = how >> 6 & 1;
    bed.again = more & 4 ? u8() & 0x7f : 0;
    parts.window_fixed = more & 16 ? 2 * CHUNK : 0;
    begin_memory();
    if (more & 32)
        hold_own_pieces();
    if (!parts.is_send)
        gw_assert(gw_places_new(parts.slab, bed.lane.paths, &bed.places) == GW_OK);
    bed.lane.places = bed.places;
    gw_assert(gw_comm_new(&parts, &comm) == GW_OK);
}

/* As gw_comm_close does. */
static void end(void)
{
    for (int i = 0; i < REQS; i++)
        test(&open_reqs[i]);
    run_all_jobs();
    for (int i = 0; i < REQS && atomic_load(&comm->broken); i++)
        gw_assert(test(&open_reqs[i]));
    if (gw_comm_take(comm))
        gw_comm_down(comm);
    gw_assert(bed.shut && bed.errors <= 1 && bed.fails_told <= 1 && bed.broke <= 1);
    for (int i = 0; i < MEMS; i++)
        gw_dereg(comm, mems[i]), mems[i] = NULL;
    gw_comm_free(comm);
    for (int i = 0; i < REQS; i++)
        free(open_reqs[i].data), open_reqs[i] = (struct open_req){ 0 };
    bed.told = bed.events;
    forget_told();
    while (bed.helds > 0)
        free_held_piece();
    judge_memory();
}

/* A comm is a tenth of a megabyte; kept back by the thousand, they would cost more than all else here. */
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8:allocator_release_to_os_interval_ms=-1";
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    gw_assert(gw_slab_new(&bed_ops, NULL, SLAB_PIECES * STRIDE, CHUNK, &slab) == GW_OK);
    for (uint32_t i = 0; i < SEND_MAX; i++) {
        pattern[1][i] = i % 4 == 3 ? (uint8_t)(0x3a + (i >> 9) % 3) : (uint8_t)(i * 2654435761u >> 7);
        pattern[2][i] = (uint8_t)(i * i * 2654435761u >> 13);
        pattern[3][i] = (uint8_t)(i % 8 == 4 ? 5 : i % 8 > 4 ? 0 : i);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&bed, 0, sizeof bed);
    bed.in = data, bed.in_end = data + size;
    begin();
    for (int i = 0; i < STEPS && bed.in < bed.in_end; i++)
        step();
    end();
    return 0;
}
