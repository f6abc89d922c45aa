/* ucx_conn.c - the life of a lane: make, local, join, shut, close. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

#include <base/clock.h>

#include "ucx.h"

/* The first worker starts UCX's own thread, which inherits our mask: the host's signals are the
 * host's. */
static ucs_status_t worker_create(struct gw_ucx_lane *l)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    sigset_t all, before;
    ucs_status_t status;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    status = ucp_worker_create(l->dev->context, &params, &l->worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* UCX tries the ports of a range for ever when all are taken, so we look first.  Where we cannot
 * look, UCX may. */
static int port_is_left(const struct gw_ucx_dev *d)
{
    int left = d->port_lo == 0;
    for (uint32_t port = d->port_lo; port <= d->port_hi && !left; port++) {
        const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return 1;
        left = bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;
        close(fd);
    }
    return left;
}

gw_err gw_ucx_make(void *dev, struct gw_lane **lane_p)
{
    struct gw_ucx_dev *d = dev;
    struct gw_ucx_lane *l = calloc(1, sizeof(*l));
    ucs_status_t status;
    if (l == NULL)
        return GW_E_NOMEM;
    if (!port_is_left(d)) {
        gw_ucx_log(d, GW_LOG_WARN, "ucx: every port of GRADWIRE_PORTS %u-%u is taken", d->port_lo,
                   d->port_hi);
        free(l);
        return GW_E_LIMIT;
    }
    l->dev = d;
    l->lane.ops = gw_lane_module_v1.ops;
    l->lane.caps = GW_LANE_COUNTS;
    l->lane.paths = 1;
    snprintf(l->lane.name, sizeof(l->lane.name), "ucx/%.18s", d->transport);
    if (gw_ucx_sends_alloc(l, d->depth) != GW_OK) {
        gw_ucx_close(&l->lane);
        return GW_E_NOMEM;
    }
    gw_ucx_loud(1);
    status = worker_create(l);
    if (status == UCS_OK)
        status = gw_ucx_handlers_set(l);
    gw_ucx_loud(0);
    if (status != UCS_OK) {
        gw_ucx_log(d, GW_LOG_WARN, "ucx: no worker over %s: %s", d->transport,
                   ucs_status_string(status));
        gw_ucx_close(&l->lane);
        return status == UCS_ERR_NO_MEMORY ? GW_E_NOMEM : GW_E_LANE;
    }
    *lane_p = &l->lane;
    return GW_OK;
}

gw_err gw_ucx_local(struct gw_lane *lane, struct gw_blob *blob)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    struct gw_ucx_addr a = {.depth = l->dev->depth};
    ucp_address_t *address;
    size_t len;
    gw_err err;
    ucs_status_t status = ucp_worker_get_address(l->worker, &address, &len);
    if (status != UCS_OK) {
        gw_ucx_log(l->dev, GW_LOG_WARN, "ucx: no address of our own: %s",
                   ucs_status_string(status));
        return GW_E_LANE;
    }
    a.address = (const uint8_t *)address;
    a.len = (uint32_t)gw_min_u64(len, UINT32_MAX);
    snprintf(a.transport, sizeof(a.transport), "%.15s", l->dev->transport);
    snprintf(a.segment, sizeof(a.segment), "%.15s", l->dev->segment);
    err = gw_ucx_addr_write(blob, &a);
    if (err != GW_OK)
        gw_ucx_log(l->dev, GW_LOG_WARN,
                   "ucx: our address has %zu bytes and does not fit the hello: name one transport",
                   len);
    ucp_worker_release_address(l->worker, address);
    return err;
}

static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    gw_ucx_fail_status(arg, "the endpoint failed", status);
}

/* Shared memory refuses to watch its peer; then the control socket is the only witness of its
 * death. */
static ucs_status_t ep_create(struct gw_ucx_lane *l, const void *address,
                              ucp_err_handling_mode_t mode)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = mode,
        .err_handler = {.cb = ep_failed, .arg = l},
    };
    l->force = mode == UCP_ERR_HANDLING_MODE_PEER;
    return ucp_ep_create(l->worker, &params, &l->ep);
}

/* UCX over tcp cuts what it sends by its own receive segment, and a peer whose segment is smaller
 * never gets the rest. */
static gw_err peer_check(struct gw_ucx_lane *l, const struct gw_blob *blob, struct gw_ucx_addr *a)
{
    gw_err err = gw_ucx_addr_read(blob, a);
    if (err != GW_OK) {
        snprintf(l->lane.why, sizeof(l->lane.why), "the peer's lane address of %u bytes is none of ours",
                 blob->len);
        return err;
    }
    if (strcmp(a->segment, l->dev->segment) == 0)
        return GW_OK;
    snprintf(l->lane.why, sizeof(l->lane.why),
             "the peer has UCX transport %s with segment %s, we have %s with %s; they must be equal (%s)",
             a->transport, a->segment, l->dev->transport, l->dev->segment,
             strcmp(a->transport, l->dev->transport) ? "GRADWIRE_UCX_TLS" : "GRADWIRE_UCX_TCP_RX_SEG_SIZE");
    return GW_E_REFUSED;
}

static void say_unreachable(struct gw_ucx_lane *l, const char *theirs, ucs_status_t status)
{
    const char *ours = l->dev->transport, *cause = ucs_status_string(status);
    char *why = l->lane.why;
    if (strcmp(theirs, ours) != 0)
        snprintf(why, sizeof(l->lane.why),
                 "UCX cannot reach the peer, which has transport %s while we have %s (%s); GRADWIRE_UCX_TLS must be the same "
                 "on both", theirs, ours, cause);
    else if (strstr(ours, "tcp") == NULL)
        snprintf(why, sizeof(l->lane.why),
                 "UCX cannot reach the peer over %s (%s); shared memory needs both ranks on one host, and in one container or "
                 "with its IPC and PID namespaces", ours, cause);
    else
        snprintf(why, sizeof(l->lane.why), "UCX cannot reach the peer over %s (%s)", ours, cause);
}

/* The endpoint is usable at once: UCX connects by itself as both sides poll. */
gw_err gw_ucx_join(struct gw_lane *lane, const struct gw_blob *peer)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    struct gw_ucx_addr a;
    ucs_status_t status;
    gw_err err;
    if (l->ep != NULL || l->down)
        return GW_E_ARG;
    err = peer_check(l, peer, &a);
    if (err == GW_OK)
        err = gw_ucx_recvs_alloc(l, a.depth);
    if (err != GW_OK)
        return err;
    status = ep_create(l, a.address, UCP_ERR_HANDLING_MODE_PEER);
    if (status != UCS_OK)
        status = ep_create(l, a.address, UCP_ERR_HANDLING_MODE_NONE);
    if (status == UCS_OK)
        return GW_OK;
    l->ep = NULL;
    say_unreachable(l, a.transport, status);
    return GW_E_LANE;
}

/* What the endpoint still owes UCX after a close by force is little; a worker that is destroyed too
 * early only complains. */
static void ep_close(struct gw_ucx_lane *l)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    uint64_t end = gw_now_ns() + GW_UCX_SHUT_MS * 1000000u;
    ucs_status_ptr_t r = ucp_ep_close_nbx(l->ep, &param);
    if (!UCS_PTR_IS_PTR(r))
        return;
    while (ucp_request_check_status(r) == UCS_INPROGRESS && gw_now_ns() < end)
        ucp_worker_progress(l->worker);
    ucp_request_free(r);
}

/* Only the worker's end is sure to stop what the peer has under way into our memory, a rendezvous
 * above all. */
void gw_ucx_shut(struct gw_lane *lane)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    l->down = 1;
    if (l->worker == NULL)
        return;
    if (l->ep != NULL && l->force)
        ep_close(l);
    ucp_worker_destroy(l->worker);
    l->worker = NULL;
    l->ep = NULL;
    l->ring_count = l->arrived = 0;
}

void gw_ucx_close(struct gw_lane *lane)
{
    if (lane == NULL)
        return;
    gw_ucx_shut(lane);
    gw_ucx_queues_free((struct gw_ucx_lane *)lane);
    free(lane);
}
