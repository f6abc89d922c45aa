/* guest.c - one message in and one message out on a connection that is being made. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>

#include "guest.h"

struct gw_guest *gw_guest_new(const struct gw_logger *log)
{
    struct gw_guest *g = calloc(1, sizeof *g);
    if (g == NULL)
        return NULL;
    gw_list_init(&g->node);
    gw_sock_init(&g->sock);
    g->log = log;
    return g;
}

void gw_guest_name(struct gw_guest *g, const struct gw_addr *a)
{
    gw_sock_text(a, g->peer);
}

const char *gw_guest_peer(const struct gw_guest *guest)
{
    return guest->peer;
}

void gw_guest_close(struct gw_guest *guest)
{
    if (guest == NULL)
        return;
    gw_list_remove(&guest->node);
    gw_sock_close(&guest->sock);
    free(guest->dial);
    free(guest);
}

/* How many more bytes belong to the message that has begun: what follows it is the watcher's to read. */
static uint32_t wanted(const struct gw_guest *g)
{
    uint32_t whole = GW_CTL_HEAD;
    if (g->in_len >= GW_CTL_HEAD)
        whole += gw_get16(g->in + 6);
    return whole - g->in_len;
}

gw_err gw_guest_read(struct gw_guest *g, enum gw_ctl_kind *kind_p)
{
    for (;;) {
        uint32_t whole;
        gw_err err = gw_ctl_read(g->in, g->in_len, kind_p, &whole);
        if (err != GW_AGAIN)
            return err;
        ssize_t n = recv(g->sock.fd, g->in + g->in_len, wanted(g), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return GW_AGAIN;
        if (n <= 0) {
            errno = n == 0 ? 0 : errno;
            return GW_E_PEER;
        }
        g->in_len += (uint32_t)n;
    }
}

gw_err gw_guest_write(struct gw_guest *g)
{
    while (g->out_at < g->out_len) {
        ssize_t n = send(g->sock.fd, g->out + g->out_at, g->out_len - g->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? GW_AGAIN : GW_E_PEER;
        g->out_at += (uint32_t)n;
    }
    return GW_OK;
}

int gw_guest_left(const struct gw_guest *guest)
{
    char c;
    ssize_t n = recv(guest->sock.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

gw_err gw_guest_answer(struct gw_guest *guest, const struct gw_hello *mine)
{
    if (guest->sock.fd < 0)
        return GW_E_CLOSED; /* the child of a fork */
    if (guest->out_len == 0)
        guest->out_len = gw_hello_write(guest->out, mine);
    gw_err err = gw_guest_write(guest);
    if (err < 0)
        gw_log(guest->log, GW_LOG_WARN, "hello: answer to %s: %m", guest->peer);
    return err;
}

void gw_guest_reject(struct gw_guest *guest, const struct gw_reject *why)
{
    /* A hello that is half out must not have a reject in its middle; then the end of file has to say it all. */
    if (guest->sock.fd >= 0 && guest->out_at == 0) {
        guest->out_len = gw_reject_write(guest->out, why);
        gw_guest_write(guest);
        shutdown(guest->sock.fd, SHUT_WR);
        /* Unread bytes would turn the close into a reset, which overtakes the reject. */
        uint8_t waste[512];
        for (int i = 0; i < 16 && recv(guest->sock.fd, waste, sizeof waste, MSG_DONTWAIT) > 0; i++)
            ;
    }
    gw_guest_close(guest);
}
