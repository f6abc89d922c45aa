/* chunk.c - a message is eaten from both ends: codec workers take chunks from the front, raw chunks go from the back.  Read
 * gw_chunk_plan, then gw_chunk_code, then gw_chunk_results. */
#include "comm.h"

#include <base/check.h>

#include "stat.h"

enum {
    CODE_MIN = 2048,       /* shorter messages are not worth a frame */
    SHRINK_SHIFT = 6       /* a frame must save 1/64, or its decoding is not worth it */
};

uint32_t gw_chunk_offset(const struct gw_comm *comm, uint32_t chunk)
{
    return chunk * comm->is.agreed.chunk_bytes;
}

uint32_t gw_chunk_length(const struct gw_comm *comm, const struct gw_req *req, uint32_t chunk)
{
    uint32_t at = gw_chunk_offset(comm, chunk);

    return (uint32_t)gw_min_u64(comm->is.agreed.chunk_bytes, req->s.size - at);
}

static struct gw_advert *advert_of(struct gw_comm *comm, const struct gw_req *req)
{
    return &comm->advert[req->s.head.number % GW_SLOTS];
}

static int hints_allow(const struct gw_comm *comm, const struct gw_req *req)
{
    const struct gw_advert *ad = &comm->advert[req->s.head.number % GW_SLOTS];

    return (ad->offer.hint & GW_HINT_SIMPLE_OK) && gw_mem_may_be_simple(comm, req->s.mem) &&
           (comm->is.hint_simple == NULL || atomic_load_explicit(comm->is.hint_simple, memory_order_relaxed));
}

/* Would the link still have raw work while a codec holds one more chunk, and `rest` bytes are untaken? */
static int covered(struct gw_comm *comm, uint64_t rest)
{
    unsigned workers = comm->is.env->workers(comm->is.env->arg);

    gw_policy_ahead(&comm->policy, workers > 0 ? comm->coding / workers : 0);
    return gw_policy_cover(&comm->policy, rest + gw_policy_on_way(&comm->policy), gw_comm_now(comm));
}

/* Where others are being coded this one is cut too: sent whole it would go before their frames, and before the chunks that wait for
 * W.  So is the first message of all: its first chunk meets an empty link, and tells what the link's delay is. */
static int worth_a_start(struct gw_comm *comm, const struct gw_req *req)
{
    return (comm->untaken > 0 && gw_policy_coding(&comm->policy, gw_comm_now(comm))) || comm->policy.posted == 0 ||
           covered(comm, comm->untaken + req->s.size - gw_chunk_length(comm, req, 0));
}

static int worth_cutting(struct gw_comm *comm, struct gw_req *req)
{
    int pays = 1;

    if (comm->is.codec == NULL || comm->is.slab == NULL || comm->is.mode == GW_POLICY_NEVER)
        return 0;
    if (req->s.size < CODE_MIN || advert_of(comm, req)->offer.pieces == 0)
        return 0;
    if (!gw_policy_try(&comm->policy) || !worth_a_start(comm, req))
        return 0;
    req->s.view = (uint8_t)gw_view_pick(req->s.data, req->s.size, &pays);
    if (pays || comm->is.mode == GW_POLICY_ALWAYS)
        return 1;
    gw_policy_encoded(&comm->policy, &(struct gw_encoded){ .bytes = req->s.size });
    return 0;
}

/* Once per message: in one put, or cut; and whether its bytes carry flags that somebody polls. */
void gw_chunk_plan(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_send *s = &req->s;

    s->lines = s->size > 0 && (!hints_allow(comm, req) || gw_bytes_show_flags(s->data, s->size));
    if (s->lines || !worth_cutting(comm, req)) {
        s->whole = 1;
        return;
    }
    s->chunks = s->back = (s->size + comm->is.agreed.chunk_bytes - 1) / comm->is.agreed.chunk_bytes;
    comm->untaken += s->size;
}

/* ---- giving chunks to a codec ---- */

static int pick_piece(const struct gw_advert *ad)
{
    for (int i = 0; i < ad->offer.pieces; i++)
        if ((int32_t)(ad->granted[i] - ad->used[i]) > 0)
            return i;
    return -1;
}

static struct gw_cell *free_cell(struct gw_comm *comm)
{
    for (int i = 0; i < GW_CELLS; i++)
        if (comm->cell[i].state == GW_CELL_FREE)
            return &comm->cell[i];
    return NULL;
}

static void fill_job(struct gw_comm *comm, struct gw_cell *cell)
{
    const struct gw_send *s = &cell->req->s;
    const struct gw_advert *ad = advert_of(comm, cell->req);
    uint32_t room = (uint32_t)gw_min_u64(ad->offer.piece_bytes, gw_slab_piece_bytes(comm->is.slab)) - GW_HEAD_BYTES;

    cell->job = (struct gw_job){
        .kind = GW_JOB_ENCODE,
        .check = comm->is.agreed.check,
        .codec = comm->is.codec,
        .coding = { .size = sizeof(struct gw_coding), .view = s->view },
        .src = s->data + cell->offset,
        .src_len = cell->length,
        .dst = cell->piece.base + GW_HEAD_BYTES,
        .dst_cap = gw_min_u64(room, cell->length - (cell->length >> SHRINK_SHIFT)),
        .post_ns = gw_comm_now(comm),
    };
}

/* With no worker, or a full ring, one chunk at a time is coded here: NCCL's thread serves other connections too. */
static gw_err start_job(struct gw_comm *comm, struct gw_job *job)
{
    if (comm->is.env->workers(comm->is.env->arg) > 0)
        return comm->is.env->post(comm->is.env->arg, job);
    gw_job_run(job, comm->scratch, comm->is.env->now_ns, comm->is.env->arg);
    return GW_OK;
}

/* Chunk `front` of req to a codec.  GW_AGAIN: something is missing, and nothing was taken. */
static gw_err code_one(struct gw_comm *comm, struct gw_req *req)
{
    struct gw_advert *ad = advert_of(comm, req);
    struct gw_cell *cell = free_cell(comm);
    int piece = pick_piece(ad);

    if (cell == NULL || piece < 0 || gw_slab_lend(comm->is.slab, GW_SLAB_OWN, &cell->piece) != GW_OK)
        return GW_AGAIN;
    cell->req = req;
    cell->chunk = req->s.front;
    cell->offset = gw_chunk_offset(comm, cell->chunk);
    cell->length = gw_chunk_length(comm, req, cell->chunk);
    cell->peer_piece = (uint8_t)piece;
    fill_job(comm, cell);
    if (start_job(comm, &cell->job) != GW_OK) {
        gw_slab_back(comm->is.slab, &cell->piece);
        return GW_AGAIN;
    }
    gw_policy_taken(&comm->policy, cell->job.post_ns);
    cell->state = GW_CELL_WORK;
    comm->coding++;
    ad->used[piece]++;
    req->s.front++;
    req->s.cells++;
    comm->untaken -= cell->length;
    comm->worked++;
    return GW_OK;
}

void gw_chunk_code(struct gw_comm *comm)
{
    int inline_only = comm->is.env->workers(comm->is.env->arg) == 0;

    if (comm->untaken == 0)
        return;
    gw_list_each (node, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (req->s.whole)
            continue;
        while (req->s.front < req->s.back) {
            if (!covered(comm, comm->untaken - gw_chunk_length(comm, req, req->s.front)))
                return;
            if (code_one(comm, req) != GW_OK)
                break;
            if (inline_only)
                return;
        }
    }
}

/* ---- taking what the codec has done ---- */

void gw_chunk_look(struct gw_comm *comm)
{
    const struct gw_env *env = comm->is.env;
    uint64_t now = gw_comm_now(comm);

    if (env->cpu_ns != NULL && gw_crowd_due(&comm->policy.crowd, now))
        gw_crowd_host(&comm->policy.crowd, now, env->cpu_ns(env->arg));
}

static void took(struct gw_comm *comm, struct gw_cell *cell)
{
    struct gw_job *job = &cell->job;
    struct gw_encoded e = { .bytes = job->src_len, .wire = job->err == GW_OK ? job->out_len : 0,
                            .wait_ns = job->start_ns - job->post_ns, .run_ns = job->end_ns - job->start_ns,
                            .cpu_ns = job->cpu_ns };

    gw_stat_add(&gw_stat->encode_ns, job->cpu_ns);
    gw_stat_add(&gw_stat->encode_bytes, job->src_len);
    gw_policy_encoded(&comm->policy, &e);
    gw_chunk_look(comm);
    if (job->err != GW_OK) {
        /* the peer's piece was only reserved */
        advert_of(comm, cell->req)->used[cell->peer_piece]--;
        gw_slab_back(comm->is.slab, &cell->piece);
    }
    cell->state = GW_CELL_READY;
    comm->coding--;
    comm->ready++;
    comm->worked++;
}

void gw_chunk_results(struct gw_comm *comm)
{
    for (int i = 0; comm->coding > 0 && i < GW_CELLS; i++)
        if (comm->cell[i].state == GW_CELL_WORK &&
            atomic_load_explicit(&comm->cell[i].job.done, memory_order_acquire))
            took(comm, &comm->cell[i]);
}
