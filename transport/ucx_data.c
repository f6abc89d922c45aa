/* ucx_data.c - moves bytes.  Read gw_ucx_put and gw_ucx_msg, then what arrives (put_arrived), then
 * gw_ucx_poll.
 *
 * Everything that UCX calls back happens inside ucp_worker_progress, and that is called by
 * gw_ucx_poll alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx.h"

/* ---- the queues
 * ------------------------------------------------------------------------------------------- */

gw_err gw_ucx_sends_alloc(struct gw_ucx_lane *l, uint32_t depth)
{
    uint8_t *copy;
    l->ring_size = depth + GW_UCX_ARRIVED_MAX;
    l->ring = calloc(l->ring_size, sizeof(*l->ring));
    l->sends = calloc(depth + GW_UCX_MSGS, sizeof(*l->sends));
    l->copies = calloc(1, (size_t)depth * GW_END_BYTES + GW_UCX_MSGS * GW_MSG_MAX);
    l->msg_room = malloc(GW_UCX_MSG_ROOM);
    if (l->ring == NULL || l->sends == NULL || l->copies == NULL || l->msg_room == NULL)
        return GW_E_NOMEM;
    copy = l->copies;
    for (uint32_t i = 0; i < depth + GW_UCX_MSGS; i++) {
        struct gw_ucx_send *s = &l->sends[i];
        struct gw_ucx_send **list = i < depth ? &l->free_put : &l->free_msg;
        s->owner = l;
        s->copy = copy;
        s->is_msg = i >= depth;
        copy += s->is_msg ? GW_MSG_MAX : GW_END_BYTES;
        s->next = *list;
        *list = s;
    }
    return GW_OK;
}

/* The peer starts a put anew as soon as the old one is complete at its end, a little before we have
 * heard of it. */
gw_err gw_ucx_recvs_alloc(struct gw_ucx_lane *l, uint32_t depth)
{
    free(l->recvs); /* of a join that failed */
    l->free_recv = NULL;
    l->recvs = calloc(2 * (size_t)depth, sizeof(*l->recvs));
    if (l->recvs == NULL)
        return GW_E_NOMEM;
    for (uint32_t i = 0; i < 2 * depth; i++) {
        l->recvs[i].owner = l;
        l->recvs[i].next = l->free_recv;
        l->free_recv = &l->recvs[i];
    }
    return GW_OK;
}

void gw_ucx_queues_free(struct gw_ucx_lane *l)
{
    free(l->ring);
    free(l->sends);
    free(l->copies);
    free(l->recvs);
    free(l->msg_room);
}

/* The first failure counts, and ends everything. */
static void fail(struct gw_ucx_lane *l, gw_err err, const char *what, ucs_status_t status)
{
    if (l->failed != GW_OK || l->down)
        return;
    l->failed = err;
    gw_ucx_log(l->dev, GW_LOG_DEBUG, "ucx: %s: %s", what, ucs_status_string(status));
}

void gw_ucx_fail_status(struct gw_ucx_lane *l, const char *what, ucs_status_t status)
{
    int gone = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
               status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NOT_CONNECTED ||
               status == UCS_ERR_CANCELED || status == UCS_ERR_TIMED_OUT;
    if (!l->met && l->failed == GW_OK && !l->down)
        snprintf(l->lane.why, sizeof(l->lane.why), "UCX's own connection to the peer never came about: %s",
                 ucs_status_string(status));
    fail(l, gone && l->met ? GW_E_PEER : GW_E_LANE, what, status);
}

static struct gw_event *ring_push(struct gw_ucx_lane *l, enum gw_event_kind kind)
{
    struct gw_event *e;
    gw_assert(l->ring_count < l->ring_size);
    e = &l->ring[(l->ring_at + l->ring_count++) % l->ring_size];
    memset(e, 0, sizeof(*e));
    e->kind = (uint8_t)kind;
    return e;
}

/* Room for one more arrival.  A peer that keeps to the protocol never has so much under way. */
static int arrival_fits(struct gw_ucx_lane *l)
{
    if (l->arrived < GW_UCX_ARRIVED_MAX)
        return 1;
    fail(l, GW_E_PROTO, "the peer sends more than was offered", UCS_ERR_EXCEEDS_LIMIT);
    return 0;
}

/* ---- sending
 * ---------------------------------------------------------------------------------------------- */

static struct gw_ucx_send *send_take(struct gw_ucx_send **list)
{
    struct gw_ucx_send *s = *list;
    if (s != NULL)
        *list = s->next;
    return s;
}

static void send_give(struct gw_ucx_send *s)
{
    struct gw_ucx_send **list = s->is_msg ? &s->owner->free_msg : &s->owner->free_put;
    s->next = *list;
    *list = s;
}

static void met(struct gw_ucx_lane *l)
{
    l->met = 1;
    l->lane.unmet_ns = 0;
}

static void send_done(struct gw_ucx_send *s)
{
    met(s->owner);
    if (!s->is_msg)
        ring_push(s->owner, GW_EV_SENT)->cookie = s->cookie;
    send_give(s);
}

static void send_complete(void *request, ucs_status_t status, void *arg)
{
    struct gw_ucx_send *s = arg;
    ucp_request_free(request);
    if (s->owner->failed != GW_OK || s->owner->down)
        return;
    if (status == UCS_OK)
        send_done(s);
    else
        gw_ucx_fail_status(s->owner, "a send failed", status);
}

static gw_err send_start(struct gw_ucx_send *s, unsigned id, uint32_t head_len, const void *src,
                         uint32_t len)
{
    struct gw_ucx_lane *l = s->owner;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = id == GW_UCX_AM_PUT ? 0 : UCP_AM_SEND_FLAG_EAGER,
        .cb.send = send_complete,
        .user_data = s,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t r = ucp_am_send_nbx(l->ep, id, s->head, head_len, src, len, &param);
    if (UCS_PTR_IS_ERR(r)) {
        send_give(s);
        gw_ucx_fail_status(l, "a send cannot start", UCS_PTR_STATUS(r));
        return l->failed;
    }
    l->lane.wire_tx += head_len + len;
    if (r == NULL)
        send_done(s);
    else if (!l->met && l->lane.unmet_ns == 0)
        l->lane.unmet_ns = l->dev->host.now_ns();
    return GW_OK;
}

gw_err gw_ucx_msg(struct gw_lane *lane, const void *msg, uint32_t len)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    struct gw_ucx_send *s;
    if (l->failed != GW_OK)
        return l->failed;
    if (l->ep == NULL || len == 0 || len > GW_MSG_MAX)
        return GW_E_ARG;
    s = send_take(&l->free_msg);
    if (s == NULL)
        return GW_AGAIN;
    memcpy(s->copy, msg, len);
    return send_start(s, GW_UCX_AM_MSG, 0, s->copy, len);
}

gw_err gw_ucx_put(struct gw_lane *lane, const struct gw_put *put)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    struct gw_ucx_send *s;
    const uint8_t *src = put->src;
    if (l->failed != GW_OK)
        return l->failed;
    if (l->ep == NULL || put->len > GW_MESSAGE_MAX ||
        (put->head.kind == GW_PUT_END && put->len != GW_END_BYTES))
        return GW_E_ARG;
    s = send_take(&l->free_put);
    if (s == NULL)
        return GW_AGAIN;
    s->cookie = put->cookie;
    gw_head_write(s->head, &put->head);
    if (put->head.kind == GW_PUT_CODED)
        src += GW_HEAD_BYTES; /* the head travels as the message's header */
    if (put->head.kind == GW_PUT_END)
        src = memcpy(s->copy, src, GW_END_BYTES);
    return send_start(s, put->flags & GW_PUTF_LINES ? GW_UCX_AM_LINES : GW_UCX_AM_PUT,
                      GW_HEAD_BYTES, src, put->len);
}

/* ---- what arrives
 * ----------------------------------------------------------------------------------------- */

static void landed(struct gw_ucx_lane *l, const struct gw_head *h, uint32_t len)
{
    struct gw_event *e;
    if (!arrival_fits(l))
        return;
    e = ring_push(l, GW_EV_LANDED);
    e->head = *h;
    e->len = len;
    l->arrived++;
    l->lane.wire_rx += GW_HEAD_BYTES + len;
}

static void recv_give(struct gw_ucx_recv *r)
{
    r->next = r->owner->free_recv;
    r->owner->free_recv = r;
}

static void recv_complete(void *request, ucs_status_t status, size_t length, void *arg)
{
    struct gw_ucx_recv *r = arg;
    struct gw_ucx_lane *l = r->owner;
    ucp_request_free(request);
    if (l->failed != GW_OK || l->down)
        return;
    if (status == UCS_OK && length == r->len)
        landed(l, &r->head, r->len);
    else
        gw_ucx_fail_status(l, "a receive failed",
                           status == UCS_OK ? UCS_ERR_MESSAGE_TRUNCATED : status);
    recv_give(r);
}

static ucs_status_t recv_start(struct gw_ucx_lane *l, const struct gw_head *h, void *desc,
                               uint8_t *dst, uint32_t len)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = recv_complete,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        .user_data = l->free_recv,
    };
    struct gw_ucx_recv *r = l->free_recv;
    ucs_status_ptr_t st;
    if (r == NULL) {
        fail(l, GW_E_PROTO, "the peer has more puts under way than it said", UCS_ERR_EXCEEDS_LIMIT);
        return UCS_ERR_REJECTED;
    }
    l->free_recv = r->next;
    r->head = *h;
    r->len = len;
    st = ucp_am_recv_data_nbx(l->worker, desc, dst, len, &param);
    if (!UCS_PTR_IS_PTR(st)) {
        recv_give(r);
        if (st == NULL)
            landed(l, h, len);
        else
            gw_ucx_fail_status(l, "a receive cannot start", UCS_PTR_STATUS(st));
    }
    return UCS_OK; /* UCX sees that the descriptor was taken */
}

/* Where does it go?  GW_E_PROTO: nowhere. */
static gw_err place(struct gw_ucx_lane *l, const void *header, size_t header_len, size_t len,
                    struct gw_head *h, uint8_t **dst_p)
{
    gw_err err;
    if (l->lane.places == NULL || header_len != GW_HEAD_BYTES || len > GW_MESSAGE_MAX)
        return GW_E_PROTO;
    err = gw_head_read(header, GW_HEAD_BYTES, h);
    return err != GW_OK ? err : gw_place_take(l->lane.places, h, len, dst_p);
}

static ucs_status_t put_arrived(struct gw_ucx_lane *l, const void *header, size_t header_len,
                                void *data, size_t len, const ucp_am_recv_param_t *param, int lines)
{
    int rndv = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    struct gw_head h;
    uint8_t *dst;
    if (l->failed != GW_OK || l->down)
        return UCS_OK;
    met(l);
    if (place(l, header, header_len, len, &h, &dst) != GW_OK ||
        (lines && (rndv || h.kind > GW_PUT_WHOLE))) {
        fail(l, GW_E_PROTO, "a put fits no offer", UCS_ERR_REJECTED);
        return rndv ? UCS_ERR_REJECTED : UCS_OK;
    }
    if (h.kind == GW_PUT_CODED)
        memcpy(dst - GW_HEAD_BYTES, header, GW_HEAD_BYTES);
    if (rndv)
        return recv_start(l, &h, data, dst, (uint32_t)len);
    if (lines)
        gw_place_lines(dst, data, len);
    else if (len > 0)
        memcpy(dst, data, len);
    landed(l, &h, (uint32_t)len);
    return UCS_OK;
}

static ucs_status_t on_put(void *arg, const void *header, size_t header_len, void *data, size_t len,
                           const ucp_am_recv_param_t *param)
{
    return put_arrived(arg, header, header_len, data, len, param, 0);
}

static ucs_status_t on_lines(void *arg, const void *header, size_t header_len, void *data,
                             size_t len, const ucp_am_recv_param_t *param)
{
    return put_arrived(arg, header, header_len, data, len, param, 1);
}

static ucs_status_t on_msg(void *arg, const void *header, size_t header_len, void *data, size_t len,
                           const ucp_am_recv_param_t *param)
{
    struct gw_ucx_lane *l = arg;
    struct gw_event *e;
    (void)header;
    if (l->failed != GW_OK || l->down)
        return UCS_OK;
    met(l);
    if (header_len != 0 || len == 0 || len > GW_MSG_MAX ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        fail(l, GW_E_PROTO, "a message has no right size", UCS_ERR_REJECTED);
        return UCS_OK;
    }
    if (len > GW_UCX_MSG_ROOM - l->msg_used) {
        fail(l, GW_E_PROTO, "the peer floods us with messages", UCS_ERR_EXCEEDS_LIMIT);
        return UCS_OK;
    }
    if (!arrival_fits(l))
        return UCS_OK;
    e = ring_push(l, GW_EV_MSG);
    e->msg = memcpy(l->msg_room + l->msg_used, data, len);
    e->len = (uint32_t)len;
    l->msg_used += (uint32_t)len;
    l->arrived++;
    l->lane.wire_rx += len;
    return UCS_OK;
}

ucs_status_t gw_ucx_handlers_set(struct gw_ucx_lane *l)
{
    static const struct {
        unsigned id;
        ucp_am_recv_callback_t cb;
    } all[] = {{GW_UCX_AM_MSG, on_msg}, {GW_UCX_AM_PUT, on_put}, {GW_UCX_AM_LINES, on_lines}};
    ucs_status_t status = UCS_OK;
    for (size_t i = 0; i < GW_LEN(all) && status == UCS_OK; i++) {
        const ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = all[i].id,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb = all[i].cb,
            .arg = l,
        };
        status = ucp_worker_set_am_recv_handler(l->worker, &param);
    }
    return status;
}

/* ---- poll
 * -------------------------------------------------------------------------------------------------
 */

/* Progress is made only when every arrival of the last time is reported: so the ring has room for
 * all that one time can bring, and what the messages stand in may be used again. */
static void progress(struct gw_ucx_lane *l)
{
    l->msg_used = 0;
    for (int i = 0; i < GW_UCX_ROUNDS && l->arrived == 0 && l->failed == GW_OK; i++)
        if (ucp_worker_progress(l->worker) == 0)
            break;
}

int gw_ucx_poll(struct gw_lane *lane, struct gw_event *ev, int max)
{
    struct gw_ucx_lane *l = (struct gw_ucx_lane *)lane;
    int n = 0;
    if (l->arrived == 0 && l->failed == GW_OK && l->ep != NULL)
        progress(l);
    for (; n < max && l->ring_count > 0; n++) {
        ev[n] = l->ring[l->ring_at];
        l->arrived -= ev[n].kind != GW_EV_SENT;
        l->ring_at = l->ring_count == 1 ? 0 : (l->ring_at + 1) % l->ring_size;
        l->ring_count--;
    }
    if (n < max && l->failed != GW_OK && !l->failed_said && !l->down) {
        ev[n++] = (struct gw_event){.kind = GW_EV_FAILED, .err = l->failed};
        l->failed_said = 1;
    }
    return n;
}
