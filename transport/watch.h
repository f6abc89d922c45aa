/* watch.h - between watch.c (the thread, its clock, its end) and control.c (what is said on one connection). */
#ifndef GW_TRANSPORT_WATCH_H
#define GW_TRANSPORT_WATCH_H

#include "control.h"
#include "sock.h"

enum { GW_CONTROL_OUT = 1024 }; /* fail, bye and two alives fit */

struct gw_control {
    struct gw_list node;
    struct gw_sock sock;
    struct gw_control_conf conf;
    struct gw_watched *w;  /* NULL: said bye, lingers until linger_ns */
    uint32_t in_len, out_len;
    uint8_t in[GW_CTL_MAX], out[GW_CONTROL_OUT];
    uint64_t heard_ns;     /* when the peer last said anything, or when we began to wait for it */
    uint64_t linger_ns;
    uint32_t fails;        /* that we were told to say; one was said */
    int send_errno;        /* why the last send did not go; the end of file that follows has no reason of its own */
    uint8_t in_epoll, want_out;
    uint8_t waiting;       /* our host has requests outstanding */
    uint8_t warned, stalled;
    uint8_t said_last;     /* fail or bye is out or in `out`: alive has nothing more to say */
    uint8_t ended;         /* nothing more can be read */
    uint8_t shut;          /* writing is shut down */
    uint8_t due;           /* `changed` is to be called */
};

/* The one lock of all controls; recursive, because `changed` may say fail.  Off the message path. */
void gw_watch_lock(void);
void gw_watch_unlock(void);

/* All under the lock.  add: starts the thread when it is not running. */
gw_err gw_watch_add(struct gw_control *c);
void gw_watch_interest(struct gw_control *c); /* what epoll waits for, after ended or out_len changed */
void gw_watch_wake(void);

/* control.c, called by the watcher under the lock. */
void gw_control_input(struct gw_control *c);
void gw_control_flush(struct gw_control *c);
void gw_control_tell(struct gw_control *c);
/* anew: the watcher itself was stopped, so that nobody's silence counts. */
void gw_control_tick(struct gw_control *c, uint64_t now, int anew);
/* 1: it lingered long enough or has seen the end of file. */
int gw_control_through(const struct gw_control *c, uint64_t now);
/* The child of a fork: the socket is closed already. */
void gw_control_orphan(struct gw_control *c);
/* The shortest silence that matters to c; 0: none does. */
uint32_t gw_control_patience_ms(const struct gw_control *c);
#endif
