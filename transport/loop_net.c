/* loop_net.c - nets, devices, memory, and the life of a lane of loop.c.  The message path never comes here. */
#include <stdlib.h>
#include <string.h>

#include "loop_way.h"

#include <base/bytes.h>
#include <base/check.h>

enum { BLOB_MAGIC = 0x70306f6c /* "lo0p" */, BLOB_BYTES = 12 };

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct gw_loop_net *in_use;    /* guarded by opening, like the next */
static struct gw_loop_net *shared[2]; /* COUNTS, FENCED */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value > 0 ? value : otherwise;
}

/* ---- nets ---- */

gw_err gw_loop_net_new(const struct gw_loop_conf *conf, struct gw_loop_net **net_p)
{
    uint32_t kind = conf->caps & (GW_LANE_COUNTS | GW_LANE_FENCED);
    struct gw_loop_net *net;

    if (kind != GW_LANE_COUNTS && kind != GW_LANE_FENCED)
        return GW_E_ARG;
    if (conf->paths > GW_PATHS_MAX || conf->again_permille > 999 || conf->caps & GW_LANE_DMABUF)
        return GW_E_ARG;
    net = calloc(1, sizeof(*net));
    if (net == NULL)
        return GW_E_NOMEM;
    net->conf = *conf;
    net->conf.paths = (uint8_t)or_default(conf->paths, 1);
    net->conf.queue_depth = or_default(conf->queue_depth, 64);
    net->conf.msg_depth = or_default(conf->msg_depth, 64);
    net->conf.recv_depth = or_default(conf->recv_depth, 512);
    if (conf->realtime)
        net->conf.caps &= ~(uint32_t)GW_LANE_DIRECT;
    net->chance = conf->seed;
    pthread_mutex_init(&net->lock, NULL);
    gw_list_init(&net->lanes);
    for (int i = 0; i < GW_LOOP_SIDES; i++) {
        net->dev[i].net = net;
        gw_list_init(&net->dev[i].regions);
    }
    *net_p = net;
    return GW_OK;
}

void gw_loop_net_free(struct gw_loop_net *net)
{
    gw_assert(net->stats.lanes == 0 && net->stats.regions == 0);
    pthread_mutex_destroy(&net->lock);
    free(net);
}

void *gw_loop_dev(struct gw_loop_net *net, unsigned side)
{
    gw_assert(side < GW_LOOP_SIDES);
    return &net->dev[side];
}

void gw_loop_net_use(struct gw_loop_net *net)
{
    pthread_mutex_lock(&opening);
    in_use = net;
    pthread_mutex_unlock(&opening);
}

void gw_loop_set_now(struct gw_loop_net *net, uint64_t now_ns)
{
    pthread_mutex_lock(&net->lock);
    gw_assert(now_ns >= net->now);
    net->now = now_ns;
    if (net->conf.caps & GW_LANE_DIRECT)
        gw_list_each (node, &net->lanes)
            gw_loop_pull(gw_list_of(node, struct gw_loop_lane, node), now_ns);
    pthread_mutex_unlock(&net->lock);
}

uint64_t gw_loop_next_due(struct gw_loop_net *net)
{
    uint64_t due = UINT64_MAX;

    pthread_mutex_lock(&net->lock);
    gw_list_each (node, &net->lanes) {
        const struct gw_loop_lane *lane = gw_list_of(node, struct gw_loop_lane, node);
        due = gw_min_u64(due, gw_loop_lane_due(lane, gw_loop_now(net)));
    }
    pthread_mutex_unlock(&net->lock);
    return due;
}

void gw_loop_stats(struct gw_loop_net *net, struct gw_loop_stats *stats)
{
    pthread_mutex_lock(&net->lock);
    *stats = net->stats;
    pthread_mutex_unlock(&net->lock);
}

/* ---- devices ---- */

static gw_err shared_net(int fenced, struct gw_loop_net **net_p)
{
    struct gw_loop_conf conf = {
        .caps = fenced ? GW_LANE_FENCED | GW_LANE_SENT_IS_LANDED : GW_LANE_COUNTS, .realtime = 1};
    gw_err err = GW_OK;

    if (shared[fenced] == NULL)
        err = gw_loop_net_new(&conf, &shared[fenced]);
    if (err != GW_OK)
        return err;
    shared[fenced]->shared = 1;
    *net_p = shared[fenced];
    return GW_OK;
}

gw_err gw_loop_open(const struct gw_host *host, const struct gw_lane_conf *conf, void **dev_p)
{
    int fenced = conf->transport != NULL && strcmp(conf->transport, "fenced") == 0;
    struct gw_loop_net *net;
    gw_err err = GW_OK;

    (void)host; /* its clock may be virtual while ours is real; each net knows which */
    pthread_mutex_lock(&opening);
    net = in_use;
    if (net == NULL)
        err = shared_net(fenced, &net);
    if (err == GW_OK)
        *dev_p = &net->dev[net->opened++ % GW_LOOP_SIDES];
    pthread_mutex_unlock(&opening);
    return err;
}

void gw_loop_close_dev(void *dev)
{
    struct gw_loop_net *net = ((struct gw_loop_dev *)dev)->net;

    pthread_mutex_lock(&opening);
    if (net->shared && --net->opened == 0) {
        shared[(net->conf.caps & GW_LANE_FENCED) != 0] = NULL;
        gw_loop_net_free(net);
    }
    pthread_mutex_unlock(&opening);
}

gw_err gw_loop_reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    struct gw_loop_dev *d = dev;
    struct gw_loop_region *r = malloc(sizeof(*r));

    if (r == NULL)
        return GW_E_NOMEM;
    pthread_mutex_lock(&d->net->lock);
    *r = (struct gw_loop_region){
        .base = base, .bytes = bytes, .key = ++d->net->region_key, .remote = remote};
    gw_list_append(&d->regions, &r->node);
    d->net->stats.regions++;
    pthread_mutex_unlock(&d->net->lock);
    *out = (struct gw_region){.base = base, .bytes = bytes, .key = {r->key}, .priv = r};
    return GW_OK;
}

void gw_loop_dereg(void *dev, struct gw_region *region)
{
    struct gw_loop_dev *d = dev;
    struct gw_loop_region *r = region->priv;

    pthread_mutex_lock(&d->net->lock);
    gw_list_remove(&r->node);
    d->net->stats.regions--;
    pthread_mutex_unlock(&d->net->lock);
    free(r);
    region->priv = NULL;
}

/* ---- lanes ---- */

static void lane_free(struct gw_loop_lane *lane)
{
    free(lane->items);
    free(lane->copies);
    free(lane->msg_pool);
    free(lane->arrival_pool);
    free(lane);
}

/* All that the message path will ever need. */
static gw_err lane_pools(struct gw_loop_lane *lane, const struct gw_loop_conf *conf)
{
    size_t room = conf->eager_max > GW_END_BYTES ? conf->eager_max : GW_END_BYTES;

    lane->items = calloc(conf->queue_depth, sizeof(*lane->items));
    lane->copies = calloc(conf->queue_depth, room);
    lane->msg_pool = calloc(conf->msg_depth, sizeof(*lane->msg_pool));
    lane->arrival_pool = calloc(conf->recv_depth, sizeof(*lane->arrival_pool));
    if (lane->items == NULL || lane->copies == NULL || lane->msg_pool == NULL ||
        lane->arrival_pool == NULL)
        return GW_E_NOMEM;
    for (uint32_t i = 0; i < conf->queue_depth; i++) {
        lane->items[i].copy = lane->copies + room * i;
        gw_list_append(&lane->items_idle, &lane->items[i].node);
    }
    for (uint32_t i = 0; i < conf->msg_depth; i++)
        gw_list_append(&lane->msgs_idle, &lane->msg_pool[i].node);
    for (uint32_t i = 0; i < conf->recv_depth; i++)
        gw_list_append(&lane->arrivals_idle, &lane->arrival_pool[i].node);
    return GW_OK;
}

gw_err gw_loop_make(void *dev, struct gw_lane **lane_p)
{
    struct gw_loop_dev *d = dev;
    struct gw_loop_net *net = d->net;
    struct gw_loop_lane *lane = calloc(1, sizeof(*lane));

    if (lane == NULL)
        return GW_E_NOMEM;
    lane->base = (struct gw_lane){
        .ops = &gw_loop_ops, .caps = net->conf.caps, .paths = net->conf.paths, .name = "loop"};
    lane->net = net;
    lane->dev = d;
    lane->fail_at = UINT64_MAX;
    gw_list_init(&lane->items_idle), gw_list_init(&lane->msgs_idle), gw_list_init(&lane->arrivals_idle);
    gw_list_init(&lane->msgs), gw_list_init(&lane->arrived);
    for (int path = 0; path < GW_PATHS_MAX; path++)
        gw_list_init(&lane->way[path]);
    if (lane_pools(lane, &net->conf) != GW_OK) {
        lane_free(lane);
        return GW_E_NOMEM;
    }
    pthread_mutex_lock(&net->lock);
    lane->number = ++net->lane_number;
    gw_list_append(&net->lanes, &lane->node);
    net->stats.lanes++;
    pthread_mutex_unlock(&net->lock);
    *lane_p = &lane->base;
    return GW_OK;
}

gw_err gw_loop_local(struct gw_lane *base, struct gw_blob *blob)
{
    gw_put32(blob->bytes, BLOB_MAGIC);
    gw_put64(blob->bytes + 4, gw_loop_of(base)->number);
    blob->len = BLOB_BYTES;
    return GW_OK;
}

static struct gw_loop_lane *lane_numbered(struct gw_loop_net *net, uint64_t number)
{
    gw_list_each (node, &net->lanes) {
        struct gw_loop_lane *lane = gw_list_of(node, struct gw_loop_lane, node);
        if (lane->number == number)
            return lane;
    }
    return NULL;
}

static gw_err join_locked(struct gw_loop_lane *lane, uint64_t number)
{
    struct gw_loop_lane *peer = lane_numbered(lane->net, number);

    if (peer == NULL)
        return number <= lane->net->lane_number && number > 0 ? GW_E_PEER : GW_E_PROTO;
    if (peer == lane || lane->joined || (peer->peer != NULL && peer->peer != lane))
        return GW_E_PROTO;
    if (peer->shut || peer->killed)
        return GW_E_PEER;
    if (gw_loop_chance(lane->net, lane->net->conf.again_permille))
        return GW_AGAIN;
    lane->peer = peer;
    lane->joined = 1;
    return GW_OK;
}

gw_err gw_loop_join(struct gw_lane *base, const struct gw_blob *blob)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    gw_err err;

    if (blob->len != BLOB_BYTES || gw_get32(blob->bytes) != BLOB_MAGIC)
        return GW_E_PROTO;
    pthread_mutex_lock(&lane->net->lock);
    err = join_locked(lane, gw_get64(blob->bytes + 4));
    pthread_mutex_unlock(&lane->net->lock);
    return err;
}

void gw_loop_close(struct gw_lane *base)
{
    struct gw_loop_lane *lane = gw_loop_of(base);
    struct gw_loop_net *net = lane->net;

    gw_loop_ops.shut(base);
    pthread_mutex_lock(&net->lock);
    gw_list_remove(&lane->node);
    gw_list_each (node, &net->lanes) {
        struct gw_loop_lane *other = gw_list_of(node, struct gw_loop_lane, node);
        if (other->peer == lane)
            other->peer = NULL;
    }
    net->stats.lanes--;
    pthread_mutex_unlock(&net->lock);
    lane_free(lane);
}
