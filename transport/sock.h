/* sock.h - sockets that a forked child does not keep, and addresses as people write them.
 *
 * A training program forks data loaders all the time.  A child that holds a copy of a socket keeps the connection alive
 * after its parent has died, and the port taken.  So every descriptor that this folder opens stands in one list, and the
 * child closes its copies before anything of its own runs. */
#ifndef GW_TRANSPORT_SOCK_H
#define GW_TRANSPORT_SOCK_H

#include <sys/socket.h>

#include <base/list.h>

#include "hello.h"

struct gw_sock {
    struct gw_list node;
    int fd; /* -1: none, also in the child of a fork */
};

enum { GW_SOCK_TEXT = 64 };

void gw_sock_init(struct gw_sock *s);
/* Each fills s with a new descriptor, nonblocking and close-on-exec: 0, or -1 and errno. */
int gw_sock_open(struct gw_sock *s, int family);
int gw_sock_accept(struct gw_sock *s, const struct gw_sock *door, struct gw_addr *from);
int gw_sock_epoll(struct gw_sock *s);
int gw_sock_event(struct gw_sock *s);
/* `to` is empty before, `from` after. */
void gw_sock_move(struct gw_sock *to, struct gw_sock *from);
void gw_sock_close(struct gw_sock *s);

/* Between our addresses and the system's.  gw_sock_to answers the length; gw_sock_from 0 for a family that is not ours. */
socklen_t gw_sock_to(const struct gw_addr *a, struct sockaddr_storage *ss);
int gw_sock_from(const struct sockaddr_storage *ss, struct gw_addr *a);
/* "10.0.0.1:4242", "[fe80::1%2]:4242" */
void gw_sock_text(const struct gw_addr *a, char out[GW_SOCK_TEXT]);
#endif
