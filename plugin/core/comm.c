/* comm.c - the life of a comm around its messages: made, failed, taken down.  Read gw_comm_new, gw_comm_fail, gw_comm_signs,
 * gw_comm_tear. */
#include "comm.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/check.h>
#include <base/rule.h>
#include <gradwire/codec.h>

#include "stat.h"

/* How long a failed lane waits for the peer's word on why: a bye or a fail that is on its way says more. */
#define LANE_GRACE_NS 1000000000ull

/* ---- made ---- */

gw_err gw_places_new(const struct gw_slab *slab, uint8_t paths, struct gw_place_table **table_p)
{
    struct gw_place_table *t = calloc(1, sizeof *t);

    if (t == NULL)
        return GW_E_NOMEM;
    t->piece_bytes = slab ? gw_slab_piece_bytes(slab) : 0;
    t->paths = paths;
    *table_p = t;
    return GW_OK;
}

static gw_err make_tables(struct gw_comm *comm)
{
    size_t ws = (gw_codec_ws_max() + 64) / 64 * 64;

    comm->scratch = aligned_alloc(64, ws);
    if (comm->scratch == NULL)
        return GW_E_NOMEM;
    if (comm->is.is_send)
        return GW_OK;
    comm->lent = calloc((size_t)GW_SLOTS * GW_PIECES_MAX, sizeof *comm->lent);
    return comm->lent ? GW_OK : GW_E_NOMEM;
}

static void init_reqs(struct gw_comm *comm, struct gw_req *table, int n, int is_send)
{
    for (int i = 0; i < n; i++) {
        table[i].comm = comm;
        table[i].index = (uint16_t)i;
        table[i].is_send = (uint8_t)is_send;
        gw_list_init(&table[i].link);
    }
}

gw_err gw_comm_new(const struct gw_comm_parts *parts, struct gw_comm **comm_p)
{
    struct gw_comm *comm = calloc(1, sizeof *comm);

    if (comm == NULL)
        return GW_E_NOMEM;
    comm->is = *parts;
    gw_list_init(&comm->link);
    gw_list_init(&comm->mems);
    gw_list_init(&comm->moving);
    pthread_mutex_init(&comm->mem_lock, NULL);
    init_reqs(comm, comm->send, GW_SENDS_MAX, 1);
    init_reqs(comm, comm->recv, GW_RECVS_MAX, 0);
    gw_policy_init(&comm->policy, parts->mode, parts->agreed.chunk_bytes, parts->window_fixed);
    if (make_tables(comm) != GW_OK) {
        gw_comm_free(comm);
        return GW_E_NOMEM;
    }
    /* a lane knows its table from before join; a comm that has one owns it from now on */
    if (!parts->is_send && parts->lane != NULL)
        comm->places = parts->lane->places;
    comm->watched.local_name = comm->is.local;
    comm->watched.peer_name = comm->is.peer;
    *comm_p = comm;
    return GW_OK;
}

void gw_comm_free(struct gw_comm *comm)
{
    free(comm->places);
    free(comm->lent);
    free(comm->scratch);
    pthread_mutex_destroy(&comm->mem_lock);
    free(comm);
}

/* ---- who is inside ---- */

int gw_comm_enter(struct gw_comm *comm)
{
    atomic_store(&comm->inside, 1);
    if (!atomic_load(&comm->torn))
        return 1;
    atomic_store(&comm->inside, 0);
    return 0;
}

void gw_comm_leave(struct gw_comm *comm)
{
    atomic_store_explicit(&comm->inside, 0, memory_order_release);
}

/* ---- failed ---- */

static const char *next_thing(const struct gw_comm *comm, gw_err err)
{
    if (err == GW_E_TIMEOUT && (atomic_load(&comm->watched.signs) & GW_SIGN_STALL))
        return "its host answers, the process does not: it is stopped (a debugger, a job scheduler, SIGSTOP) or starved; look at "
               "it there; GRADWIRE_STALL_TIMEOUT sets the limit, 0 waits for ever";
    switch (err) {
    case GW_E_PEER:
        return "look at the peer's own log for the first error; it exited, was killed, or its host lost the network";
    case GW_E_TIMEOUT:
        return "see whether that process is stopped, in a debugger or starved, its host runs, and no firewall stands between; "
               "GRADWIRE_PEER_TIMEOUT and GRADWIRE_STALL_TIMEOUT set the limits";
    case GW_E_PROTO:
        return "both ends must run the same gradwire; if they do, please report this line";
    case GW_E_CORRUPT:
    case GW_E_CHECK:
        return "run with GRADWIRE_CODEC=raw GRADWIRE_CHECK=1 to tell memory and network faults from codec ones, and report this";
    case GW_E_SIZE:
        return "the two ranks do not run the same collective with the same count";
    case GW_E_CLOSED:
        return "one rank left the communicator while another still used it: look for its first error";
    case GW_E_TOLD:
        return "the rank that it names printed the cause";
    case GW_E_LANE:
        if (comm->is.lane != NULL && strncmp(comm->is.lane->name, "verbs", 5) == 0)
            return "see the link and its errors on both hosts (ibv_devinfo, rdma statistic), and that both addresses are of one "
                   "fabric (GRADWIRE_HCA, GRADWIRE_GID_INDEX); GRADWIRE_IB_TIMEOUT and GRADWIRE_IB_RETRY set how long is tried";
        return "check the interface and the route between the two hosts (GRADWIRE_IFNAME), and that no firewall closes the lane's "
               "own ports (GRADWIRE_PORTS sets them too)";
    default:
        return "see the lines before this one";
    }
}

static void print_cause(struct gw_comm *comm, gw_err err, uint32_t number, const char *text)
{
    int first = comm->is.said == NULL || atomic_exchange(comm->is.said, 1) == 0;

    gw_log(comm->is.log, first ? GW_LOG_ERROR : GW_LOG_DEBUG,
           "gradwire " GW_VERSION " %s: op=%s msg=%u local=\"%s\" peer=\"%s\" lane=%s open=%u age_ms=%u: %s. Next: %s",
           gw_err_name(err), comm->is.is_send ? "send" : "recv", number, comm->is.local, comm->is.peer,
           comm->is.lane ? comm->is.lane->name : "none", comm->outstanding, comm->watched.age_ms, text, next_thing(comm, err));
    if (!first)
        gw_stat_add(&gw_stat->late_errors, 1);
}

static void set_broken(struct gw_comm *comm, gw_err err)
{
    comm->cause = err;
    atomic_store(&comm->broken, (uint32_t)-err);
}

/* origin: the cause came over the control socket, so the peer need not hear of it again; it travels on as it came. */
static void fail(struct gw_comm *comm, gw_err err, uint32_t number, const struct gw_fail *origin, const char *text)
{
    struct gw_fail f = { .code = err, .number = number, .pid = (uint32_t)getpid() };

    if (atomic_load(&comm->broken)) {
        gw_stat_add(&gw_stat->late_errors, 1);
        return;
    }
    snprintf(f.text, sizeof f.text, "%.60s \"%.80s\": %.100s", comm->is.is_send ? "send to" : "receive from", comm->is.peer,
             text);
    snprintf(f.host, sizeof f.host, "%.60s", comm->is.local);
    f.host[strcspn(f.host, " ")] = 0;
    /* said before anything is broken on purpose: the peer shall read the reason, not a reset */
    if (origin == NULL && comm->is.tell_fail != NULL)
        comm->is.tell_fail(comm->is.arg, &f);
    set_broken(comm, err);
    print_cause(comm, err, number, text);
    if (comm->is.abort_on_error)
        abort();
    if (comm->is.broke != NULL)
        comm->is.broke(comm->is.arg, origin ? origin : &f);
}

/* The first time counts: a host that polls would put the judgement off for ever. */
void gw_comm_lane_failed(struct gw_comm *comm, gw_err err)
{
    if (comm->lane_failed_ns == 0)
        comm->lane_err = err, comm->lane_failed_ns = gw_max_u64(gw_comm_now(comm), 1);
}

void gw_comm_fail(struct gw_comm *comm, gw_err err, uint32_t number, const char *fmt, ...)
{
    char text[GW_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fail(comm, err, number, NULL, text);
}

/* A warning, and no more: UCX needs the peer's host to poll before it is connected, and that may be busy for good reasons. */
void gw_comm_unmet(struct gw_comm *comm)
{
    uint64_t ns = gw_comm_now(comm) - comm->is.lane->unmet_ns;

    if (comm->is.stall_warn_ns == 0 || ns < comm->is.stall_warn_ns || atomic_load(&comm->broken))
        return;
    comm->unmet_said = 1;
    gw_log(comm->is.log, GW_LOG_ERROR,
           "gradwire " GW_VERSION " stall: op=%s local=\"%s\" peer=\"%s\" lane=%s open=%u age_ms=%llu: the control connection "
           "stands, and nothing has passed between the two over the lane's own ports, waiting on. Next: see that no firewall "
           "closes those (GRADWIRE_PORTS sets them too), and that the peer's process still calls its plugin",
           comm->is.is_send ? "send" : "recv", comm->is.local, comm->is.peer, comm->is.lane->name, comm->outstanding,
           (unsigned long long)(ns / 1000000u));
}

/* ---- what the watcher has seen ---- */

static int finished_by_bye(const struct gw_bye *bye, uint32_t number)
{
    uint32_t ahead = number - bye->lowest;

    if (!bye->receiver)
        return 0;
    return (int32_t)ahead < 0 || (ahead < 32 && (bye->map & 1u << ahead));
}

static int ended_by(const struct gw_bye *bye, const struct gw_req *req)
{
    return req->state == GW_REQ_MOVE && finished_by_bye(bye, req->s.head.number) && req->s.cells == 0;
}

/* Sends that the bye ends, and whose bytes the lane has not given back. */
static int still_read(const struct gw_comm *comm)
{
    gw_list_each (node, &comm->moving) {
        const struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (ended_by(&comm->watched.bye, req) && req->s.unsent > 0)
            return 1;
    }
    return 0;
}

/* All that a sender put before its bye has landed, but a worker may still decode it, and where SENT means landed our lane may
 * not have told us yet.  A receiver may say bye before our lane says SENT, and until then our bytes are the lane's.  A lane
 * that has failed has told all. */
static int still_coming(const struct gw_comm *comm)
{
    int tells = comm->lane_failed_ns == 0 && gw_comm_now(comm) - comm->peer_left_ns <= LANE_GRACE_NS;

    if (comm->is.is_send)
        return tells && still_read(comm);
    return comm->decoding > 0 || (tells && (comm->is.lane->caps & GW_LANE_SENT_IS_LANDED));
}

/* Sends that the peer has finished are done, also those whose completion was lost with its lane. */
static void on_bye(struct gw_comm *comm)
{
    const struct gw_bye *bye = &comm->watched.bye;

    if (comm->peer_left_ns == 0) {
        /* judged at the next poll: receives that only had to tell it what has landed need not any more, and end in between */
        comm->peer_left_ns = gw_max_u64(gw_comm_now(comm), 1);
        return;
    }
    if (still_coming(comm))
        return;
    /* what was not SENT by now never will be; a lane that is shut reads nothing */
    if (comm->is.is_send && still_read(comm)) {
        comm->is.lane->ops->shut(comm->is.lane);
        comm->lane_shut = 1;
    }
    gw_list_each_safe (node, tmp, &comm->moving) {
        struct gw_req *req = gw_list_of(node, struct gw_req, link);
        if (comm->is.is_send && ended_by(bye, req))
            gw_req_end(req, GW_OK);
    }
    if (comm->outstanding > 0)
        gw_comm_fail(comm, GW_E_CLOSED, 0, "the peer has closed with %u of our requests open", comm->outstanding);
}

static void on_fail(struct gw_comm *comm)
{
    const struct gw_fail *f = &comm->watched.fail;
    gw_err err = f->told ? GW_E_TOLD : gw_err_scope(f->code) >= GW_SCOPE_REQ ? f->code : GW_E_PEER;
    char text[GW_TEXT_MAX + 128];

    snprintf(text, sizeof text, "told by %s pid %u: %s", f->host, f->pid, f->text);
    fail(comm, err, f->number, f, text);
}

void gw_comm_signs(struct gw_comm *comm)
{
    uint32_t signs;

    if (comm->lane_failed_ns != 0 && comm->is.listen_now != NULL)
        comm->is.listen_now(comm->is.arg);
    if (atomic_load(&comm->broken))
        return;
    if (!GW_RULE(13) && comm->lane_failed_ns != 0) {
        gw_comm_fail(comm, GW_E_LANE, 0, "the lane failed");
        return;
    }
    signs = atomic_load_explicit(&comm->watched.signs, memory_order_acquire);
    if (signs & GW_SIGN_FAIL)
        on_fail(comm);
    else if (signs & GW_SIGN_BYE)
        on_bye(comm);
    else if (signs & GW_SIGN_EOF)
        gw_comm_fail(comm, GW_E_PEER, 0, "the peer's end of the control connection is gone without a word");
    else if (signs & GW_SIGN_TIMEOUT)
        gw_comm_fail(comm, GW_E_TIMEOUT, 0, "the peer's host has acknowledged nothing for %u ms", comm->watched.age_ms);
    else if (signs & GW_SIGN_STALL)
        gw_comm_fail(comm, GW_E_TIMEOUT, 0, "the peer's process has given no sign of life for %u ms",
                     comm->watched.age_ms);
    else if (comm->lane_failed_ns != 0 && gw_comm_now(comm) - comm->lane_failed_ns > LANE_GRACE_NS)
        gw_comm_fail(comm, comm->lane_err < 0 ? comm->lane_err : GW_E_LANE, 0, "%s",
                     comm->is.lane->why[0] != 0 ? comm->is.lane->why : "the lane failed");
}

/* ---- taken down ---- */

static void wait_for_workers(struct gw_comm *comm)
{
    int cells = comm->is.is_send ? GW_CELLS : GW_SLOTS * GW_PIECES_MAX;

    for (int i = 0; i < cells; i++) {
        struct gw_cell *cell = comm->is.is_send ? &comm->cell[i] : &comm->lent[i];
        while (cell->state == GW_CELL_WORK && !atomic_load_explicit(&cell->job.done, memory_order_acquire))
            sched_yield();
    }
}

/* Pieces last: nothing that a peer may still write to is handed on. */
static void give_back(struct gw_comm *comm)
{
    for (int i = 0; comm->is.is_send && i < GW_CELLS; i++) {
        struct gw_cell *cell = &comm->cell[i];
        int holds = cell->state == GW_CELL_POSTED || cell->state == GW_CELL_WORK ||
                    (cell->state == GW_CELL_READY && cell->job.err == GW_OK);
        if (holds)
            gw_slab_back(comm->is.slab, &cell->piece);
        cell->state = GW_CELL_FREE;
    }
    for (int i = 0; !comm->is.is_send && i < GW_SLOTS; i++) {
        for (int p = 0; p < comm->recv[i].r.pieces; p++)
            gw_slab_back(comm->is.slab, &comm->lent[i * GW_PIECES_MAX + p].piece);
        comm->recv[i].r.pieces = 0;
    }
}

int gw_comm_take(struct gw_comm *comm)
{
    if (atomic_exchange(&comm->torn, 1))
        return 0;
    while (atomic_load(&comm->inside))
        sched_yield();
    return 1;
}

void gw_comm_down(struct gw_comm *comm)
{
    wait_for_workers(comm);
    comm->is.lane->ops->shut(comm->is.lane);
    give_back(comm);
}
