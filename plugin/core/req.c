/* req.c - the legal steps of a request. */
#include "req.h"

#include <base/check.h>

const char *const gw_req_state_name[GW_REQ_STATES] = { "free", "wait", "move", "done", "fail" };

static const uint8_t legal[GW_REQ_STATES] = {
    [GW_REQ_FREE] = 1 << GW_REQ_WAIT,
    [GW_REQ_WAIT] = 1 << GW_REQ_MOVE | 1 << GW_REQ_FAIL,
    [GW_REQ_MOVE] = 1 << GW_REQ_DONE | 1 << GW_REQ_FAIL,
    [GW_REQ_DONE] = 1 << GW_REQ_FREE,
    [GW_REQ_FAIL] = 1 << GW_REQ_FREE,
};

void gw_req_to(struct gw_req *req, enum gw_req_state next)
{
    gw_assert(legal[req->state] & 1u << next);
    req->state = (uint8_t)next;
}
