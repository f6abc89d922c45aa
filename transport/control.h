/* control.h - the TCP connection under every comm: hello, and the watch that notices a dead peer.
 *
 * A listener hands out a handle; the peer dials it and says hello with the token; strangers are refused before any lane is
 * opened, and never delay the true peer.  Afterwards the connection is watched by one thread per process until both ends
 * have said bye.  Nothing here blocks; the watcher's lock is off the message path. */
#ifndef GW_TRANSPORT_CONTROL_H
#define GW_TRANSPORT_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "hello.h"

struct gw_control_conf {
    const struct gw_logger *log;
    const char *host;            /* our name in hello and in lines */
    uint16_t port_lo, port_hi;   /* our listener; 0: any */
    uint32_t hello_timeout_ms;   /* a silent connection is dropped, a dial given up */
    uint32_t dial_retries;       /* of a dial that was refused or unreachable, with back-off inside hello_timeout_ms */
    uint32_t peer_timeout_ms;    /* no TCP acknowledgement: dead.  TCP_USER_TIMEOUT and keepalive */
    uint32_t stall_warn_ms;      /* no `alive` while requests wait: one line; 0 never */
    uint32_t stall_timeout_ms;   /* ... the comm fails; 0 never */
};

/* ---- doors (any thread, one at a time per object) ---- */
struct gw_door; /* a listening socket */
/* Binds to each address of `addrs` that the system allows (at least one), fills handle. */
gw_err gw_door_open(const struct gw_control_conf *conf, const struct gw_addr *addrs, int n, struct gw_door **door_p,
                    struct gw_handle *handle);
void gw_door_close(struct gw_door *door); /* every half-open connection with it */

struct gw_guest; /* a connection being made, either side */
/* Accepts, reads hellos, drops strangers.  GW_OK: *guest_p has said a right hello, in *theirs. GW_AGAIN: nobody yet. */
gw_err gw_door_poll(struct gw_door *door, struct gw_guest **guest_p, struct gw_hello *theirs);
/* Sends our hello, or a reject (then the guest is only good for closing).  GW_AGAIN until it is all written. */
gw_err gw_guest_answer(struct gw_guest *guest, const struct gw_hello *mine);
void gw_guest_reject(struct gw_guest *guest, const struct gw_reject *why); /* and closes it; bounded, does not block */
void gw_guest_close(struct gw_guest *guest);

/* Connects, says hello, waits for the answer.  mine is copied. */
gw_err gw_dial_start(const struct gw_control_conf *conf, const struct gw_handle *handle, const struct gw_hello *mine,
                     struct gw_guest **guest_p);
/* GW_AGAIN; GW_OK: *theirs is set; GW_E_REFUSED with *why (its text says what the peer said); GW_E_TIMEOUT, GW_E_SYS,
 * GW_E_PROTO, GW_E_PEER with a text in *why. */
gw_err gw_dial_poll(struct gw_guest *guest, struct gw_hello *theirs, struct gw_reject *why);
/* "10.0.0.1:4242" of the other end. */
const char *gw_guest_peer(const struct gw_guest *guest);
/* 1: after the hellos the other end is gone, and has left nothing to read. */
int gw_guest_left(const struct gw_guest *guest);

/* ---- the watch ---- */
enum gw_sign {
    GW_SIGN_BYE = 1,     /* the peer is through; `bye` is set */
    GW_SIGN_FAIL = 2,    /* the peer said why it ends; `fail` is set */
    GW_SIGN_EOF = 4,     /* end of file or reset */
    GW_SIGN_TIMEOUT = 8, /* no TCP acknowledgement for peer_timeout */
    GW_SIGN_STALL = 16   /* no `alive` for stall_timeout */
};

/* Shared by a comm and the watcher; embedded in the comm.  The watcher writes bye/fail/age_ms first and then adds to signs with
 * release; the comm reads signs with acquire.  `outstanding` is the comm's: how many requests wait. */
struct gw_watched {
    _Atomic uint32_t signs;
    _Atomic uint32_t outstanding;
    struct gw_bye bye;
    struct gw_fail fail;
    uint32_t age_ms; /* of the deadline that fired */
    /* On the watcher's thread, under its lock, after a sign was added.  May call gw_control_fail, of any control, nothing
     * else of this file. */
    void (*changed)(struct gw_watched *w, void *arg);
    void *arg;
    const char *local_name, *peer_name; /* "send host:pid", for its lines; as long-lived as w */
};

struct gw_control;
/* The guest becomes a watched connection; starts the process's watcher thread if it is not running.  The guest is consumed
 * also on failure. */
gw_err gw_control_watch(const struct gw_control_conf *conf, struct gw_guest *guest, struct gw_watched *w,
                        struct gw_control **control_p);
/* Says `fail` once; later ones are counted only.  Never blocks (16 KiB are always free at that point). */
void gw_control_fail(struct gw_control *control, const struct gw_fail *f);
/* Reads the socket now, on the caller's thread: a lane error is judged only after this. */
void gw_control_read_now(struct gw_control *control);
/* Says bye (NULL: not, after a fail) and leaves the socket to the watcher, which shuts down writing, reads to end of file
 * (bounded by linger_ms) and closes.  w is not touched after this returns. */
void gw_control_bye(struct gw_control *control, const struct gw_bye *bye, uint32_t linger_ms);

/* Waits (bounded by ms) until nobody lingers; stops the thread when nothing is watched. For the last finalize. */
void gw_watch_settle(uint32_t ms);
/* Children of fork close their copies (installed by the first gw_control_watch or gw_door_open). */
#endif
