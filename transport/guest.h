/* guest.h - a control connection that is being made, seen from either side; private to the control*.c family. */
#ifndef GW_TRANSPORT_GUEST_H
#define GW_TRANSPORT_GUEST_H

#include "control.h"
#include "sock.h"

enum gw_dial_step { GW_DIAL_WAIT = 0 /* for the next try */, GW_DIAL_CONNECT, GW_DIAL_HELLO, GW_DIAL_ANSWER };

/* What only the dialling side needs. */
struct gw_dial {
    enum gw_dial_step step;
    struct gw_handle handle;
    uint8_t hello[GW_CTL_MAX];
    uint32_t hello_bytes;
    uint32_t timeout_ms, rounds_left, tries;
    uint8_t at;              /* which address */
    uint64_t began_ns, deadline_ns, step_ns; /* of the whole; when this step is given up or the pause ends */
    uint32_t pause_ms;
    int last_errno;          /* why the last try ended; 0: closed without a word */
    char from[GW_SOCK_TEXT]; /* our end of the last try, "" before there was one */
};

struct gw_guest {
    struct gw_list node; /* in its door's list while it has not said hello */
    struct gw_sock sock;
    const struct gw_logger *log;
    uint64_t deadline_ns; /* of a half-open guest */
    uint32_t in_len, out_len, out_at;
    uint8_t in[GW_CTL_MAX], out[GW_CTL_MAX];
    char peer[GW_SOCK_TEXT];
    struct gw_dial *dial; /* NULL on the listening side */
};

/* Reads towards one whole message and never beyond it.  GW_OK: in[0, in_len) is it and *kind_p its kind; GW_AGAIN;
 * GW_E_PEER: end of file or reset (errno, 0 for end of file); GW_E_PROTO, GW_E_VERSION: not our message. */
gw_err gw_guest_read(struct gw_guest *g, enum gw_ctl_kind *kind_p);
/* Writes the rest of out. GW_OK, GW_AGAIN, GW_E_PEER. */
gw_err gw_guest_write(struct gw_guest *g);
struct gw_guest *gw_guest_new(const struct gw_logger *log);
void gw_guest_name(struct gw_guest *g, const struct gw_addr *a);
#endif
