/* sim_host.c - what NCCL's threads do with one comm: register, post, test; and what a host in trouble does.  sim_close.c has
 * how it ends.  Read sim_host_step. */
#include "sim.h"

#include <string.h>

enum { FILL_SENT = 0x33, FILL_GOT = 0xc5, POSTS_A_STEP = 4, UNSET = 0x5e7 };

static void did(struct sim_end *end)
{
    if (end->comm != NULL && end->comm->worked > 0)
        end->world->quiet = 0;
}

/* ---- memory ---- */

gw_err sim_host_reg(struct sim_end *end)
{
    for (int r = 0; r < SIM_REGIONS && !end->world->conf.own_regions; r++) {
        gw_err err = GW_OK;
        if (end->region_base[r] != NULL)
            err = gw_reg(end->comm, end->region_base[r], end->region_bytes[r], &end->region[r]);
        if (err != GW_OK)
            return err;
    }
    return GW_OK;
}

/* NCCL hands a user's buffer over just before its first use. */
static struct gw_mem *mem_of(struct sim_end *end, struct sim_buf *b)
{
    if (!end->world->conf.own_regions)
        return end->region[b->region];
    if (b->mem == NULL && b->cap > 0)
        gw_reg(end->comm, b->at, b->cap, &b->mem);
    return b->mem;
}

static void dereg_own(struct sim_end *end, struct sim_buf *b)
{
    if (b->mem == NULL || sim_percent(end->world, 20))
        return;
    gw_dereg(end->comm, b->mem);
    b->mem = NULL;
}

/* ---- posting ---- */

static void posted(struct sim_end *end, gw_err err, struct gw_req *req, int what)
{
    did(end);
    if (err == GW_OK && req != NULL && end->open < GW_LEN(end->op)) {
        end->op[end->open++] = (struct sim_op){ .req = req, .what = what };
        end->world->quiet = 0;
    } else if (err != GW_AGAIN || req != NULL) {
        sim_wrong(end->world, "end %u: a post answers %s with%s request", end->index, gw_err_name(err),
                  req ? " a" : "out");
    }
}

/* A tag's messages go in their order, the tags in any. */
static int next_message(struct sim_end *end)
{
    unsigned from = (unsigned)sim_below(end->world, end->msgs);

    for (unsigned i = 0; i < end->msgs; i++) {
        unsigned want = (from + i) % end->msgs;
        if (end->msg[want].sent)
            continue;
        for (unsigned first = 0;; first++)
            if (!end->msg[first].sent && end->msg[first].tag == end->msg[want].tag)
                return (int)first;
    }
    return -1;
}

static void post_send(struct sim_end *end)
{
    int i = next_message(end);
    struct gw_req *req = (struct gw_req *)1;
    struct sim_msg *m = i < 0 ? NULL : &end->msg[i];
    gw_err err;

    if (m == NULL)
        return;
    if (!m->src.lent && m->size > 0) {
        memcpy(m->src.at, m->bytes, m->size);
        m->src.lent = 1;
    }
    err = gw_isend(end->comm, m->src.at, m->size, m->tag, mem_of(end, &m->src), &req);
    m->sent = err == GW_OK;
    if (err == GW_OK)
        sim_note(end->world, "end %u isend %d: %u bytes, tag %d", end->index, i, m->size, m->tag);
    posted(end, err, req, i);
}

static void post_recv(struct sim_end *end)
{
    const struct sim_group *g = &end->group[end->at];
    void *data[GW_BUFFERS_MAX];
    size_t sizes[GW_BUFFERS_MAX];
    int tags[GW_BUFFERS_MAX];
    struct gw_mem *mems[GW_BUFFERS_MAX];
    struct gw_req *req = (struct gw_req *)1;
    gw_err err;

    if (end->at == end->groups)
        return;
    for (int i = 0; i < g->n; i++) {
        struct sim_msg *m = &end->msg[g->first + i];
        data[i] = m->dst.cap > 0 ? m->dst.at : NULL;
        sizes[i] = m->dst.cap, tags[i] = m->tag, mems[i] = mem_of(end, &m->dst);
    }
    err = gw_irecv(end->comm, g->n, data, sizes, tags, mems, &req);
    for (int i = 0; err == GW_OK && i < g->n; i++)
        end->msg[g->first + i].dst.lent = 1;
    if (err == GW_OK)
        sim_note(end->world, "end %u irecv %u: %u buffers", end->index, end->at, g->n);
    posted(end, err, req, (int)end->at);
    end->at += err == GW_OK;
}

/* A host may post a whole window before it tests: on a failed comm each of these must end with the cause. */
static void post_more(struct sim_end *end)
{
    static uint8_t nothing[16];
    void *data = nothing;
    size_t size = sizeof nothing;
    int tag = end->msg[0].tag;
    struct gw_req *req = (struct gw_req *)1;
    gw_err err = end->is_send ? gw_isend(end->comm, nothing, size, tag, NULL, &req)
                              : gw_irecv(end->comm, 1, &data, &size, &tag, NULL, &req);

    posted(end, err, req, -1);
    end->more--;
}

/* ---- testing ---- */

static void sent_well(struct sim_end *end, const struct sim_op *op, const size_t *sizes)
{
    struct sim_msg *m = &end->msg[op->what];

    if (sizes != NULL && sizes[0] != m->size)
        sim_wrong(end->world, "end %u: send %d of %u bytes reports %zu", end->index, op->what, m->size, sizes[0]);
    sim_buf_give(&m->src, FILL_SENT);
    dereg_own(end, &m->src);
    end->ended++;
}

static void check_bytes(struct sim_end *end, unsigned i, const size_t *size)
{
    struct sim_msg *m = &end->msg[i];
    const uint8_t *at = m->dst.at;

    if (!m->dst.lent)
        return; /* done before its host took the memory back, and looked at after */
    if (size != NULL && *size != m->size)
        sim_wrong(end->world, "end %u: message %u of %u bytes reports %zu", end->index, i, m->size, *size);
    if (m->size > m->dst.cap || memcmp(at, m->bytes, m->size) != 0)
        sim_wrong(end->world, "end %u: message %u of %u bytes arrives wrong", end->index, i, m->size);
    for (uint32_t at_end = m->size; at_end < m->dst.cap; at_end++)
        if (at[at_end] != m->dst.fill)
            sim_wrong(end->world, "end %u: message %u writes behind its %u bytes", end->index, i, m->size);
}

static void got_well(struct sim_end *end, const struct sim_op *op, const size_t *sizes)
{
    const struct sim_group *g = &end->group[op->what];

    for (unsigned i = 0; i < g->n; i++) {
        struct sim_msg *m = &end->msg[g->first + i];
        check_bytes(end, g->first + i, sizes ? &sizes[i] : NULL);
        sim_buf_give(&m->dst, FILL_GOT);
        dereg_own(end, &m->dst);
        end->ended++;
    }
}

/* A host in trouble takes back the memory of a request that has failed, while others are open still: the comm must not let
 * the peer write there any more. */
static void take_failed(struct sim_end *end, const struct sim_op *op)
{
    unsigned first = end->is_send || op->what < 0 ? (unsigned)op->what : end->group[op->what].first;
    unsigned n = op->what < 0 ? 0 : end->is_send ? 1 : end->group[op->what].n;

    if (!end->deregs || !end->world->conf.own_regions || sim_jobs_of(end))
        return;
    for (unsigned i = first; n > 0; i++, n--) {
        struct sim_buf *b = sim_buf_of(end, i);
        if (b->mem == NULL)
            continue;
        gw_dereg(end->comm, b->mem);
        b->mem = NULL;
        sim_buf_give(b, SIM_FILL_TAKEN);
    }
}

static void ended(struct sim_end *end, const struct sim_op *op, gw_err err, const size_t *sizes)
{
    end->world->quiet = 0;
    sim_note(end->world, "end %u op %d: %s", end->index, op->what, gw_err_name(err));
    if (err != GW_OK) {
        end->err = err;
        if (end->life == SIM_RUNS)
            end->life = SIM_FAILED;
        take_failed(end, op);
    } else if (op->what < 0) {
        sim_wrong(end->world, "end %u: a request of a failed comm ends well", end->index);
    } else if (end->is_send) {
        sent_well(end, op, sizes);
    } else {
        got_well(end, op, sizes);
    }
}

static int test_one(struct sim_end *end, unsigned at)
{
    size_t sizes[GW_BUFFERS_MAX], *want = sim_percent(end->world, 30) ? NULL : sizes;
    struct sim_op op = end->op[at];
    int done = UNSET;
    gw_err err;

    for (int i = 0; i < GW_BUFFERS_MAX; i++)
        sizes[i] = UNSET;
    err = gw_test(op.req, &done, want);
    did(end);
    if (done != 0 && done != 1)
        sim_wrong(end->world, "end %u: test leaves done unset", end->index);
    if (done != 1) {
        if (err != GW_OK)
            sim_wrong(end->world, "end %u: test answers %s and is not done", end->index, gw_err_name(err));
        return 0;
    }
    memmove(&end->op[at], &end->op[at + 1], (--end->open - at) * sizeof op);
    ended(end, &op, err, want);
    return 1;
}

static void test_some(struct sim_end *end)
{
    for (unsigned at = 0; at < end->open && end->world->wrong[0] == 0;) {
        int through = end->fifo || sim_percent(end->world, 70) ? test_one(end, at) : 0;
        if (!through && end->fifo)
            return;
        at += !through;
    }
}

/* ---- a step ---- */

static void step_closing(struct sim_end *end)
{
    if (sim_jobs_of(end))
        return;
    end->world->quiet = 0;
    if (end->downs)
        sim_host_dereg_rest(end);
    else
        sim_host_close_rest(end);
}

static void step_failed(struct sim_end *end)
{
    if (end->more > 0)
        post_more(end);
    test_some(end);
    if (end->open > 0 || end->more > 0 || end->life != SIM_FAILED)
        return;
    if (end->deregs) {
        end->deregs = 0;
        sim_host_dereg(end);
    } else {
        sim_host_close(end);
    }
}

static void step_runs(struct sim_end *end)
{
    struct sim_world *w = end->world;

    if (end->side->hinted && sim_percent(w, 2))
        atomic_store(&end->side->hint, !sim_percent(w, 20));
    for (uint64_t n = sim_below(w, POSTS_A_STEP); n > 0 && end->open < end->window && w->wrong[0] == 0; n--)
        end->is_send ? post_send(end) : post_recv(end);
    test_some(end);
    if (end->life != SIM_RUNS || end->ended < end->msgs || end->open > 0)
        return;
    sim_note(w, "end %u is through", end->index);
    if (end->rests)
        end->life = SIM_RESTS;
    else
        sim_host_close(end);
}

int sim_host_through(const struct sim_end *end)
{
    return end->life == SIM_RESTS || end->life == SIM_CLOSED || end->life == SIM_DEAD;
}

void sim_host_step(struct sim_end *end)
{
    if (end->life == SIM_RUNS)
        step_runs(end);
    else if (end->life == SIM_FAILED)
        step_failed(end);
    else if (end->life == SIM_CLOSING)
        step_closing(end);
    else if (end->life == SIM_LEAVES)
        sim_host_close(end);
}
