/* verbs_lines.c - offers and grants: the receiver writes them into the sender's inbox, the sender looks there.
 *
 * A write may be seen half done.  So everything is copied out first and judged afterwards: an offer by the numbers of its lines
 * and its own sum, a grant by the line that it stands in, which has a running number and a sum. */
#include "verbs.h"

#include <endian.h>

#include <base/bytes.h>
#include <base/check.h>

enum { AT_NUMBER = GW_LINE - 4, AT_COUNT = GW_LINE - 4 };

/* How long the peer may take for the lines of one write. */
#define TORN_NS 1000000000ull

static uint32_t load(const uint8_t *p)
{
    return le32toh(__atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_ACQUIRE));
}

/* ---- the receiver writes ---- */

static gw_err write_offer(struct gw_verbs_lane *l, const uint8_t *msg, uint32_t len)
{
    uint32_t slot = gw_get32(msg + AT_NUMBER) % GW_SLOTS;

    return gw_verbs_write(l, 0, msg, len, NULL, l->theirs.inbox + slot * GW_OFFER_MAX, l->theirs.inbox_key, NULL, 0,
                          (struct gw_verbs_sent){ 0 });
}

static gw_err write_grant(struct gw_verbs_lane *l, const uint8_t *msg)
{
    uint32_t slot = gw_get32(msg + 4) % GW_SLOTS;
    uint8_t line[GW_LINE];

    gw_verbs_grant_write(line, msg, ++l->grants[slot]);
    return gw_verbs_write(l, 0, line, GW_LINE, NULL, l->theirs.inbox + GW_VERBS_GRANTS + slot * GW_LINE, l->theirs.inbox_key, NULL,
                          0, (struct gw_verbs_sent){ 0 });
}

/* How many writes a message takes; 0: it is none of ours. */
static uint32_t parts_of(const uint8_t *msg, uint32_t left)
{
    enum gw_msg_kind kind;
    uint32_t n = 0, len;

    for (; left > 0; msg += len, left -= len, n++)
        if (gw_msg_next(msg, left, &kind, &len) != GW_OK || kind == GW_MSG_LANDED)
            return 0;
    return n;
}

gw_err gw_verbs_msg(struct gw_lane *lane, const void *msg, uint32_t len)
{
    struct gw_verbs_lane *l = (struct gw_verbs_lane *)lane;
    const uint8_t *at = msg;
    uint32_t n = len <= GW_MSG_MAX ? parts_of(at, len) : 0;
    enum gw_msg_kind kind;
    gw_err err = l->failed;

    if (err != GW_OK)
        return err;
    if (!l->up || !l->is_recv || n == 0)
        return GW_E_ARG;
    if (gw_verbs_room(l, 0) < n)
        return GW_AGAIN;
    for (uint32_t left = len, part; left > 0 && err == GW_OK; at += part, left -= part) {
        gw_msg_next(at, left, &kind, &part);
        err = kind == GW_MSG_OFFER ? write_offer(l, at, part) : write_grant(l, at);
        lane->wire_tx += part;
    }
    /* nothing may be taken in part */
    if (err == GW_AGAIN)
        gw_verbs_fail(l, err = GW_E_LANE, "%s takes fewer writes than it promised", l->dev->name);
    return err;
}

/* ---- the sender reads ---- */

/* A peer that writes lines which never fit is broken, and would otherwise be waited for in silence. */
static int torn(struct gw_verbs_lane *l)
{
    uint64_t now = l->dev->host.now_ns();

    if (l->torn_ns == 0)
        l->torn_ns = now;
    else if (now - l->torn_ns > TORN_NS)
        gw_verbs_fail(l, GW_E_PROTO, "offer %u stands in our memory for %llu ms and does not follow the format", l->next_offer,
                      (unsigned long long)(TORN_NS / 1000000));
    return 0;
}

/* The offer with the next number, whole, in msg: its bytes.  0: not yet. */
static uint32_t next_offer(struct gw_verbs_lane *l, uint8_t *msg)
{
    const uint8_t *place = l->inbox + (l->next_offer % GW_SLOTS) * GW_OFFER_MAX;
    uint32_t first = load(place), buffers = first >> 8 & 0xff, len;
    struct gw_offer o;

    if ((first & 0xff) != GW_MSG_OFFER || load(place + AT_NUMBER) != l->next_offer)
        return 0;
    if (buffers < 1 || buffers > GW_BUFFERS_MAX)
        return (uint32_t)torn(l);
    len = gw_offer_bytes(buffers);
    if (load(place + len - GW_LINE + AT_NUMBER) != l->next_offer)
        return (uint32_t)torn(l);
    gw_copy_once(msg, place, len);
    if (gw_offer_read(msg, len, &o) != GW_OK || o.number != l->next_offer)
        return (uint32_t)torn(l);
    l->torn_ns = 0;
    l->lends = o.pieces > 0 ? l->lends | 1u << o.number % GW_SLOTS : l->lends & ~(1u << o.number % GW_SLOTS);
    l->next_offer++;
    return len;
}

/* What the slot's grant line says and was not reported yet.  0: nothing. */
static uint32_t next_grant(struct gw_verbs_lane *l, uint32_t slot, uint8_t *msg)
{
    const uint8_t *place = l->inbox + GW_VERBS_GRANTS + slot * GW_LINE;
    uint8_t line[GW_LINE];

    if (load(place + AT_COUNT) == l->grants[slot])
        return 0;
    gw_copy_once(line, place, sizeof line);
    /* seen half written it is whole at another look */
    return gw_verbs_grant_read(line, msg, &l->grants[slot]) == GW_OK ? GW_GRANT_BYTES : 0;
}

static int say(struct gw_verbs_lane *l, int n, uint32_t len, struct gw_event *ev)
{
    if (len == 0)
        return 0;
    ev[n] = (struct gw_event){ .kind = GW_EV_MSG, .len = len, .msg = l->msg[n] };
    l->lane.wire_rx += len;
    return 1;
}

int gw_verbs_lines(struct gw_verbs_lane *l, struct gw_event *ev, int max)
{
    int n = 0, most = (int)gw_min_u64((uint64_t)max, GW_VERBS_MSGS);
    uint32_t left = l->lends;

    while (n < most && say(l, n, next_offer(l, l->msg[n]), ev))
        n++;
    for (; left != 0 && n < most; left &= left - 1)
        n += say(l, n, next_grant(l, (uint32_t)__builtin_ctz(left), l->msg[n]), ev);
    return n;
}
