/* accept.c - the receiver's side: a door, who comes through it, and what is still open when a ctx closes. */
#include "pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/clock.h>

struct gw_listener {
    struct gw_list link;
    struct gw_ctx *ctx;
    struct gw_dev *dev;
    struct gw_door *door;
    struct gw_pending *arrival; /* its hello was right; not yet a comm */
    uint64_t since_ns;          /* of the first accept */
    int told;                   /* that nobody came */
    uint8_t token[GW_TOKEN_BYTES];
};

gw_err gw_listen(struct gw_ctx *ctx, int dev, void *handle, struct gw_listener **listener_p)
{
    struct gw_control_conf conf;
    struct gw_handle h;
    struct gw_listener *l;
    gw_err err;

    l = calloc(1, sizeof *l);
    if (l == NULL)
        return GW_E_NOMEM;
    l->ctx = ctx;
    err = gw_proc_device(dev, ctx->log, &l->dev);
    if (err == GW_OK)
        err = gw_proc_descriptors(ctx->log, "listen", GW_FDS_DOOR);
    if (err != GW_OK)
        goto free_listener;
    gw_control_conf_fill(&conf, ctx->log);
    err = gw_door_open(&conf, l->dev->net.addr, l->dev->net.addrs, &l->door, &h);
    if (err != GW_OK)
        goto free_listener;
    memcpy(l->token, h.token, sizeof l->token);
    gw_handle_write(handle, &h);
    pthread_mutex_lock(&ctx->lock);
    gw_list_append(&ctx->listeners, &l->link);
    pthread_mutex_unlock(&ctx->lock);
    *listener_p = l;
    return GW_OK;

free_listener:
    free(l);
    return err;
}

static void listener_free(struct gw_listener *l)
{
    gw_pending_free(l->arrival);
    gw_door_close(l->door);
    free(l);
}

void gw_listener_close(struct gw_listener *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->ctx->lock);
    gw_list_remove(&l->link);
    pthread_mutex_unlock(&l->ctx->lock);
    listener_free(l);
}

/* Somebody has said a right hello: agree or refuse, before any lane is opened. */
static gw_err welcome(struct gw_listener *l, struct gw_guest *guest, const struct gw_hello *theirs)
{
    struct gw_reject why = { 0 };
    struct gw_pending *p = NULL;
    gw_err err = gw_pending_new(l->ctx, l->dev, 0, l->token, &p);

    if (err == GW_OK) {
        p->guest = guest, p->theirs = *theirs;
        err = gw_hello_agree(&p->mine, theirs, &p->agreed, &why);
    } else {
        snprintf(why.text, sizeof why.text, "%.60s cannot open its lane: %.160s", gw_proc.host,
                 gw_lane_words()[0] ? gw_lane_words() : gw_err_text(err));
        why.code = err;
    }
    if (err == GW_OK) {
        p->stage = GW_PENDING_ANSWER;
        GW_PHASE(hello);
        l->arrival = p;
        return GW_OK;
    }
    if (p != NULL) {
        gw_pending_why(p, err, why.text);
        p->guest = NULL;
    }
    snprintf(why.host, sizeof why.host, "%s", gw_proc.host);
    gw_guest_reject(guest, &why);
    gw_pending_free(p);
    return err;
}

static gw_err step_accept(struct gw_pending *p, struct gw_comm **comm_p)
{
    if (p->stage == GW_PENDING_ANSWER) {
        gw_err err = gw_guest_answer(p->guest, &p->mine);
        if (err == GW_AGAIN && gw_now_ns() <= p->deadline_ns)
            return err;
        if (err != GW_OK)
            return gw_pending_why(p, err == GW_AGAIN ? GW_E_TIMEOUT : err, "the peer left before our hello was written");
        p->stage = GW_PENDING_JOIN;
    }
    return gw_pending_join(p, comm_p);
}

static void say_nobody_came(const struct gw_listener *l, uint64_t age_ms, const char *word, const char *and_now)
{
    gw_log(l->ctx->log, GW_LOG_ERROR,
           "gradwire " GW_VERSION " %s: op=accept local=\"%s pid %d %s\" age_ms=%llu: no rank has connected yet, %s. Next: see that "
           "the rank before this one runs, that it uses gradwire too (NCCL_NET=gradwire on every rank), and that no firewall "
           "stands between (GRADWIRE_PORTS sets the ports)", word, gw_proc.host, (int)getpid(), l->dev->net.name,
           (unsigned long long)age_ms, and_now);
}

/* A peer may be slow, or in a debugger: said once, and an end only where the user gave stalls one.  But a rank whose peer is
 * dead, or uses another transport, has nothing else to say. */
static gw_err nobody_came(struct gw_listener *l)
{
    const struct gw_conf *conf = &gw_proc.conf;
    uint64_t now = gw_now_ns(), age_ms;

    if (l->since_ns == 0)
        l->since_ns = now;
    age_ms = (now - l->since_ns) / 1000000;
    if (age_ms < conf->connect_timeout_ms)
        return GW_AGAIN;
    if (conf->stall_timeout_ms != 0 && age_ms >= (uint64_t)conf->connect_timeout_ms + conf->stall_timeout_ms) {
        say_nobody_came(l, age_ms, "GW_E_TIMEOUT", "and GRADWIRE_STALL_TIMEOUT is over");
        return GW_E_TIMEOUT;
    }
    if (!l->told)
        say_nobody_came(l, age_ms, "stall", "waiting on");
    l->told = 1;
    return GW_AGAIN;
}

gw_err gw_accept(struct gw_listener *l, struct gw_comm **comm_p)
{
    struct gw_guest *guest;
    struct gw_hello theirs;
    gw_err err;

    *comm_p = NULL;
    if (l->arrival == NULL) {
        err = gw_door_poll(l->door, &guest, &theirs);
        if (err == GW_OK)
            err = welcome(l, guest, &theirs);
        else if (err == GW_AGAIN)
            err = nobody_came(l);
        if (err != GW_OK)
            return err;
    }
    err = step_accept(l->arrival, comm_p);
    if (err == GW_AGAIN)
        return err;
    gw_pending_free(l->arrival);
    l->arrival = NULL;
    return err;
}

void gw_pending_free_all(struct gw_ctx *ctx)
{
    gw_list_each_safe (node, tmp, &ctx->pendings)
        gw_pending_free(gw_list_of(node, struct gw_pending, link));
    gw_list_each_safe (node, tmp, &ctx->listeners)
        listener_free(gw_list_of(node, struct gw_listener, link));
}
