/* connect.c - how a connection that is being made becomes a comm, and gw_connect, which makes one from the sender's side.
 * accept.c is the other side; how a comm goes stands in close.c. */
#include "pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/bytes.h>
#include <base/check.h>
#include <base/clock.h>

#include "stat.h"
#include "work.h"

/* How long a lane that failed to join waits for the end of file of a peer that has just died. */
#define JOIN_GRACE_NS 500000000ull

static uint64_t env_now(void *unused)
{
    (void)unused;
    return gw_now_ns();
}

static uint64_t env_cpu(void *unused)
{
    (void)unused;
    return gw_thread_cpu_ns();
}

static const struct gw_env real_env = {
    .now_ns = env_now, .post = gw_work_post, .workers = gw_work_count, .cpu_ns = env_cpu
};

/* ---- a connection being made ---- */

void gw_pending_free(struct gw_pending *p)
{
    if (p == NULL)
        return;
    if (p->guest != NULL)
        gw_guest_close(p->guest);
    if (p->lane != NULL) {
        struct gw_place_table *places = p->lane->places;
        p->dev->ops->close(p->lane);
        free(places);
    }
    free(p);
}

static void fill_hello(struct gw_pending *p)
{
    struct gw_hello *h = &p->mine;
    const struct gw_conf *conf = &gw_proc.conf;

    h->version_min = GW_WIRE_VERSION_MIN, h->version_max = GW_WIRE_VERSION;
    h->caps = p->lane->caps;
    h->pid = (uint32_t)getpid();
    h->chunk_bytes = conf->chunk_bytes;
    h->codecs = 1u << GW_CODEC_RAW | (gw_proc.codec ? 1ull << gw_proc.codec->id : 0);
    h->check = (uint8_t)conf->check;
    h->role = p->is_send ? 1 : 2;
    memcpy(h->token, p->token, sizeof h->token);
    snprintf(h->host, sizeof h->host, "%s", gw_proc.host);
    snprintf(h->lane, sizeof h->lane, "%s", p->dev->ops->name);
    snprintf(h->build, sizeof h->build, "%s", GW_VERSION);
}

static gw_err make_lane(struct gw_pending *p)
{
    struct gw_place_table *places = NULL;
    gw_err err;

    gw_lane_words()[0] = 0;
    err = p->dev->ops->make(p->dev->lane_dev, &p->lane);
    if (err == GW_OK && !p->is_send)
        err = gw_places_new(p->dev->slab, p->lane->paths, &places);
    if (err == GW_OK) {
        p->lane->places = places;
        err = p->dev->ops->local(p->lane, &p->mine.blob);
    }
    if (err == GW_OK)
        fill_hello(p);
    return err;
}

gw_err gw_pending_new(struct gw_ctx *ctx, struct gw_dev *dev, int is_send, const uint8_t *token,
                          struct gw_pending **p_p)
{
    gw_err err = gw_proc_descriptors(ctx->log, is_send ? "connect" : "accept", GW_FDS_COMM);
    struct gw_pending *p;

    if (err != GW_OK)
        return err;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return GW_E_NOMEM;
    p->ctx = ctx, p->dev = dev, p->is_send = is_send;
    memcpy(p->token, token, sizeof p->token);
    gw_list_init(&p->link);
    p->since_ns = gw_now_ns();
    p->deadline_ns = p->since_ns + (uint64_t)gw_proc.conf.connect_timeout_ms * 1000000;
    err = make_lane(p);
    if (err != GW_OK) {
        gw_log(ctx->log, GW_LOG_ERROR, "gradwire " GW_VERSION " %s: op=%s local=\"%s pid %d %s\": the lane cannot be made: "
               "%s. Next: check open files (ulimit -n), room in /dev/shm and GRADWIRE_PORTS", gw_err_name(err),
               is_send ? "connect" : "accept", gw_proc.host, (int)getpid(), dev->net.name,
               gw_lane_words()[0] ? gw_lane_words() : gw_err_text(err));
        gw_pending_free(p);
        return err;
    }
    *p_p = p;
    return GW_OK;
}

/* ---- from a pending to a comm ---- */

static void tell_fail(void *arg, const struct gw_fail *f)
{
    struct gw_comm *comm = arg;
    if (comm->control != NULL)
        gw_control_fail(comm->control, f);
}

static void listen_now(void *arg)
{
    struct gw_comm *comm = arg;
    if (comm->control != NULL)
        gw_control_read_now(comm->control);
}

/* The peers of this communicator's other connections learn the cause; nobody else does. */
static void broke(void *arg, const struct gw_fail *f)
{
    struct gw_comm *comm = arg;
    struct gw_fail told = *f;

    told.told = 1;
    pthread_mutex_lock(&comm->ctx->lock);
    gw_list_each (node, &comm->ctx->comms) {
        struct gw_comm *other = gw_list_of(node, struct gw_comm, link);
        if (other != comm && other->control != NULL)
            gw_control_fail(other->control, &told);
    }
    pthread_mutex_unlock(&comm->ctx->lock);
}

static void fill_parts(const struct gw_pending *p, struct gw_comm_parts *parts)
{
    int alone = (p->ctx->flags & GW_CONFIG_ALONE) != 0;
    int common = gw_proc.codec != NULL && (p->agreed.codecs >> gw_proc.codec->id & 1);

    *parts = (struct gw_comm_parts){
        .env = &real_env,
        .log = p->ctx->log,
        .lane = p->lane,
        .lane_dev = p->dev->lane_dev,
        .slab = p->dev->slab,
        .codec = common ? gw_proc.codec : NULL,
        .agreed = p->agreed,
        .mode = (enum gw_policy_mode)gw_proc.conf.policy,
        .window_fixed = gw_proc.conf.window_bytes,
        .stall_warn_ns = gw_proc.conf.stall_warn_ms * 1000000ull,
        .hint_simple = &p->ctx->hint_simple,
        .said = alone ? NULL : &p->ctx->said,
        .is_send = p->is_send,
        .abort_on_error = (int)gw_proc.conf.abort,
        .tell_fail = tell_fail,
        .listen_now = listen_now,
        .broke = alone ? NULL : broke,
    };
    snprintf(parts->local, sizeof parts->local, "%.50s pid %u %s", gw_proc.host, p->mine.pid, p->dev->net.name);
    snprintf(parts->peer, sizeof parts->peer, "%.50s pid %u", p->theirs.host, p->theirs.pid);
}

static gw_err finish(struct gw_pending *p, struct gw_comm **comm_p)
{
    struct gw_control_conf conf;
    struct gw_comm_parts parts;
    struct gw_comm *comm;
    gw_err err;

    fill_parts(p, &parts);
    err = gw_comm_new(&parts, &comm);
    if (err != GW_OK)
        return err;
    comm->is.arg = comm;
    comm->ctx = p->ctx;
    p->lane = NULL;
    gw_control_conf_fill(&conf, p->ctx->log);
    err = gw_control_watch(&conf, p->guest, &comm->watched, &comm->control);
    p->guest = NULL;
    if (err != GW_OK) {
        p->dev->ops->close(comm->is.lane);
        gw_comm_free(comm);
        return gw_pending_why(p, err, "its control connection cannot be watched");
    }
    pthread_mutex_lock(&p->ctx->lock);
    gw_list_append(&p->ctx->comms, &comm->link);
    pthread_mutex_unlock(&p->ctx->lock);
    pthread_mutex_lock(&gw_proc.lock);
    gw_proc.users++;
    pthread_mutex_unlock(&gw_proc.lock);
    gw_stat_lane(comm->is.lane->name);
    gw_stat_add(&gw_stat->comms_open, 1);
    *comm_p = comm;
    GW_PHASE(join);
    return GW_OK;
}

static const char *what_next(const struct gw_pending *p, gw_err err)
{
    if (p->peers_own)
        return "look at that rank's own line";
    if (err == GW_E_VERSION || err == GW_E_SETTING || err == GW_E_REFUSED)
        return "give both hosts the same gradwire and the same settings";
    if (err == GW_E_SYS || err == GW_E_LIMIT || err == GW_E_NOMEM)
        return "raise the limit of open files and of threads (ulimit -n, -u)";
    if (err == GW_E_LANE && p->dev->hca.name[0])
        return "see that both ports are of one fabric and reach each other (ibv_devinfo; GRADWIRE_HCA and GRADWIRE_GID_INDEX choose "
               "them); GRADWIRE_LANE=ucx needs no RDMA device";
    if (err == GW_E_LANE)
        return "give both hosts the same GRADWIRE_UCX_TLS, interfaces that reach each other (GRADWIRE_IFNAME), and no firewall "
               "between on UCX's ports (GRADWIRE_PORTS sets them too)";
    if (err == GW_E_PEER && p->stage == GW_PENDING_JOIN)
        return "look at the peer's own log for the first error; it exited, was killed, or could not join its lane";
    return "see that the peer runs gradwire too (NCCL_NET=gradwire on every rank) and that no firewall stands between; "
           "GRADWIRE_CONNECT_TIMEOUT sets the limit";
}

gw_err gw_pending_why(const struct gw_pending *p, gw_err err, const char *text)
{
    const char *peer = p->guest ? gw_guest_peer(p->guest) : "?";
    const char *stop = strchr(".?", text[strlen(text) - (*text != 0)]) ? "" : ".";
    uint64_t age_ms = (gw_now_ns() - p->since_ns) / 1000000;
    char who[GW_NAME_MAX] = "";

    if (p->theirs.host[0])
        snprintf(who, sizeof who, "%.50s pid %u ", p->theirs.host, p->theirs.pid);
    gw_log(p->ctx->log, GW_LOG_ERROR,
           "gradwire " GW_VERSION " %s: op=%s local=\"%s pid %d %s\" peer=\"%s%s\" age_ms=%llu: %s%s Next: %s",
           gw_err_name(err), p->is_send ? "connect" : "accept", gw_proc.host, (int)getpid(), p->dev->net.name, who, peer,
           (unsigned long long)age_ms, text, stop, what_next(p, err));
    return err;
}

/* Why it will not be; GW_AGAIN: too early to say.  A dying process loses its memory before its sockets, and a lane that cannot
 * be joined since nobody is there any more says everything but that. */
static gw_err judge_join(struct gw_pending *p)
{
    const char *why = p->lane->why;
    uint64_t now = gw_now_ns();
    char text[GW_TEXT_MAX + 64];

    if (p->join_err == GW_E_REFUSED || p->join_err == GW_E_PROTO) /* the peer finds the same */
        return gw_pending_why(p, p->join_err, why[0] ? why : gw_err_text(p->join_err));
    if (gw_guest_left(p->guest)) {
        snprintf(text, sizeof text, "the peer has gone before the lanes were joined%s%s", why[0] ? "; here: " : "", why);
        return gw_pending_why(p, GW_E_PEER, text);
    }
    if (p->join_err == GW_AGAIN)
        return now <= p->deadline_ns ? GW_AGAIN : gw_pending_why(p, GW_E_TIMEOUT, "the lane did not come up in time");
    if (p->join_failed_ns == 0)
        p->join_failed_ns = now;
    if (now - p->join_failed_ns < JOIN_GRACE_NS)
        return GW_AGAIN;
    return gw_pending_why(p, p->join_err, why[0] ? why : gw_err_text(p->join_err));
}

gw_err gw_pending_join(struct gw_pending *p, struct gw_comm **comm_p)
{
    if (p->join_failed_ns == 0)
        p->join_err = p->dev->ops->join(p->lane, &p->theirs.blob);
    return p->join_err == GW_OK ? finish(p, comm_p) : judge_join(p);
}

/* ---- connect ---- */

static struct gw_pending *find_pending(struct gw_ctx *ctx, const struct gw_handle *h)
{
    gw_list_each (node, &ctx->pendings) {
        struct gw_pending *p = gw_list_of(node, struct gw_pending, link);
        if (h->local != 0 && p->id == h->local && gw_same_secret(p->token, h->token, GW_TOKEN_BYTES))
            return p;
    }
    return NULL;
}

static gw_err start_connect(struct gw_ctx *ctx, int dev_index, struct gw_handle *h, struct gw_pending **p_p)
{
    struct gw_control_conf conf;
    struct gw_dev *dev;
    struct gw_pending *p;
    gw_err err = gw_proc_device(dev_index, ctx->log, &dev);

    if (err == GW_OK)
        err = gw_pending_new(ctx, dev, 1, h->token, &p);
    if (err != GW_OK)
        return err;
    gw_control_conf_fill(&conf, ctx->log);
    err = gw_dial_start(&conf, h, &p->mine, &p->guest);
    if (err != GW_OK) {
        gw_pending_why(p, err, "no connection can be started to the address in the handle");
        gw_pending_free(p);
        return err;
    }
    pthread_mutex_lock(&ctx->lock);
    h->local = p->id = ++ctx->pending_last;
    gw_list_append(&ctx->pendings, &p->link);
    pthread_mutex_unlock(&ctx->lock);
    *p_p = p;
    GW_PHASE(dial);
    return GW_OK;
}

static gw_err step_connect(struct gw_pending *p, struct gw_comm **comm_p)
{
    struct gw_reject why = { 0 };
    gw_err err;

    if (p->stage == GW_PENDING_HELLO) {
        err = gw_dial_poll(p->guest, &p->theirs, &why);
        if (err == GW_AGAIN)
            return err;
        if (err == GW_OK)
            err = gw_hello_agree(&p->mine, &p->theirs, &p->agreed, &why);
        p->peers_own = err == GW_E_REFUSED && why.code != GW_E_VERSION && why.code != GW_E_SETTING &&
                       why.code != GW_E_REFUSED;
        if (err != GW_OK)
            return gw_pending_why(p, err, why.text[0] ? why.text : gw_err_text(err));
        p->stage = GW_PENDING_JOIN;
        GW_PHASE(hello);
    }
    return gw_pending_join(p, comm_p);
}

static void unlist(struct gw_ctx *ctx, struct gw_pending *p)
{
    pthread_mutex_lock(&ctx->lock);
    gw_list_remove(&p->link);
    pthread_mutex_unlock(&ctx->lock);
}

gw_err gw_connect(struct gw_ctx *ctx, int dev, void *handle, struct gw_comm **comm_p)
{
    struct gw_handle h;
    struct gw_pending *p;
    gw_err err = gw_handle_read(handle, &h);

    *comm_p = NULL;
    if (err != GW_OK) {
        gw_log(ctx->log, GW_LOG_ERROR, "gradwire " GW_VERSION " %s: op=connect local=\"%s pid %d\": the handle is not one of this "
               "gradwire: the peer uses another transport, or another build. Next: give every rank the same plugin "
               "(NCCL_NET=gradwire on all of them)", gw_err_name(err), gw_proc.host, (int)getpid());
        return err;
    }
    pthread_mutex_lock(&ctx->lock);
    p = find_pending(ctx, &h);
    pthread_mutex_unlock(&ctx->lock);
    if (p == NULL) {
        err = start_connect(ctx, dev, &h, &p);
        if (err != GW_OK)
            return err;
        gw_handle_write(handle, &h);
    }
    err = step_connect(p, comm_p);
    if (err == GW_AGAIN)
        return err;
    h.local = 0;
    gw_handle_write(handle, &h);
    unlist(ctx, p);
    gw_pending_free(p);
    return err;
}
