/* sock.c - the list of open descriptors, and what a forked child does with it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sock.h"

/* Guards `all`.  A descriptor is made and entered under it, so that no fork falls between the two.  A leaf: nothing else is
 * locked while it is held, and nothing under it waits. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gw_list all = {&all, &all};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    gw_list_each_safe(node, next, &all) {
        struct gw_sock *s = gw_list_of(node, struct gw_sock, node);
        close(s->fd);
        gw_sock_init(s);
    }
    gw_list_init(&all);
    pthread_mutex_unlock(&lock);
}

static void hear_of_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

void gw_sock_init(struct gw_sock *s)
{
    gw_list_init(&s->node);
    s->fd = -1;
}

static void begin(void)
{
    pthread_once(&once, hear_of_forks);
    pthread_mutex_lock(&lock);
}

static int enter(struct gw_sock *s, int fd)
{
    int saved = errno;
    gw_sock_init(s);
    if (fd >= 0) {
        s->fd = fd;
        gw_list_append(&all, &s->node);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd < 0 ? -1 : 0;
}

int gw_sock_open(struct gw_sock *s, int family)
{
    begin();
    return enter(s, socket(family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int gw_sock_accept(struct gw_sock *s, const struct gw_sock *door, struct gw_addr *from)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof ss;
    begin();
    int err = enter(s, accept4(door->fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (err == 0)
        gw_sock_from(&ss, from);
    return err;
}

int gw_sock_epoll(struct gw_sock *s)
{
    begin();
    return enter(s, epoll_create1(EPOLL_CLOEXEC));
}

int gw_sock_event(struct gw_sock *s)
{
    begin();
    return enter(s, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void gw_sock_move(struct gw_sock *to, struct gw_sock *from)
{
    begin();
    int fd = from->fd;
    gw_list_remove(&from->node);
    from->fd = -1;
    enter(to, fd);
}

void gw_sock_close(struct gw_sock *s)
{
    int saved = errno;
    begin();
    if (s->fd >= 0)
        close(s->fd);
    gw_list_remove(&s->node);
    s->fd = -1;
    pthread_mutex_unlock(&lock);
    errno = saved;
}

socklen_t gw_sock_to(const struct gw_addr *a, struct sockaddr_storage *ss)
{
    memset(ss, 0, sizeof *ss);
    if (a->family == 4) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};
        memcpy(&in.sin_addr, a->ip, 4);
        memcpy(ss, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope};
    memcpy(&in6.sin6_addr, a->ip, 16);
    memcpy(ss, &in6, sizeof in6);
    return sizeof in6;
}

int gw_sock_from(const struct sockaddr_storage *ss, struct gw_addr *a)
{
    memset(a, 0, sizeof *a);
    if (ss->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, ss, sizeof in);
        a->family = 4, a->port = ntohs(in.sin_port);
        memcpy(a->ip, &in.sin_addr, 4);
    } else if (ss->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, ss, sizeof in6);
        a->family = 6, a->port = ntohs(in6.sin6_port), a->scope = in6.sin6_scope_id;
        memcpy(a->ip, &in6.sin6_addr, 16);
    }
    return a->family != 0;
}

void gw_sock_text(const struct gw_addr *a, char out[GW_SOCK_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (a->family == 4 || a->family == 6)
        inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->ip, ip, sizeof ip);
    if (a->family != 6)
        snprintf(out, GW_SOCK_TEXT, "%s:%u", ip, a->port);
    else if (a->scope != 0)
        snprintf(out, GW_SOCK_TEXT, "[%s%%%u]:%u", ip, (unsigned)a->scope, a->port);
    else
        snprintf(out, GW_SOCK_TEXT, "[%s]:%u", ip, a->port);
}
