/* rank.c - a rank and its connections.  The traffic is in traffic.c. */
#include "rank.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <gradwire/stat.h>

void rank_open(struct rank *r, int version)
{
    char why[256] = "";

    memset(r, 0, sizeof(*r));
    if (getenv("TEST_LOG") != NULL)
        host_log_copy(stderr, NCCL_LOG_TRACE);
    if (host_load(&r->net, GW_OUT "/libnccl-net-gradwire.so", version, why, sizeof(why)) != 0)
        fprintf(stderr, "%s\n", why);
    must(why[0] == '\0');
    must(host_init(&r->net, 0x1234) == ncclSuccess);
    must(host_service_start(&r->service) == 0);
    must(host_progress_start(&r->progress, &r->net) == 0);
    r->running = true;
}

void rank_stop(struct rank *r)
{
    if (r->running)
        host_progress_stop(&r->progress);
    r->running = false;
}

void rank_close(struct rank *r)
{
    rank_stop(r);
    host_service_stop(&r->service);
    host_finalize(&r->net);
    host_unload(&r->net);
}

/* ---- connections ---- */

ncclResult_t rank_result(struct rank *r, struct host_conn *c)
{
    must(host_job_wait(&r->service, &c->job, RANK_WAIT_MS));
    return c->job.res;
}

void rank_wait(struct rank *r, struct host_conn *c)
{
    must(rank_result(r, c) == ncclSuccess);
}

void rank_listen(struct rank *r, struct host_conn *c)
{
    memset(c, 0, sizeof(*c));
    host_conn_listen(&r->service, c, &r->net, 0);
    rank_wait(r, c);
}

void rank_conn_close(struct rank *r, struct host_conn *c)
{
    host_conn_close(&r->service, c);
    rank_wait(r, c);
    host_conn_free(c);
}

void pair_open(struct pair *p, struct rank *tx, struct rank *rx)
{
    memset(p, 0, sizeof(*p));
    p->tx = tx;
    p->rx = rx;
    rank_listen(rx, &p->recv);
    memcpy(p->send.handle, p->recv.handle, sizeof(p->send.handle));
    host_conn_connect(&tx->service, &p->send, &tx->net, 0);
    host_conn_accept(&rx->service, &p->recv);
    rank_wait(tx, &p->send);
    rank_wait(rx, &p->recv);
}

void pair_close(struct pair *p)
{
    rank_conn_close(p->tx, &p->send);
    rank_conn_close(p->rx, &p->recv);
}

void far_open(struct rank *r, struct host_conn *c, int fd, int side)
{
    memset(c, 0, sizeof(*c));
    if (side == 0) {
        child_hear(fd, c->handle, sizeof(c->handle));
        host_conn_connect(&r->service, c, &r->net, 0);
    } else {
        rank_listen(r, c);
        child_say(fd, c->handle, sizeof(c->handle));
        host_conn_accept(&r->service, c);
    }
    rank_wait(r, c);
}

/* ---- the plugin's counters ---- */

const struct gw_stat_page *stat_page_make(void)
{
    int fd = memfd_create("stat", MFD_ALLOW_SEALING);
    char number[16];
    void *page;

    must(fd >= 0 && ftruncate(fd, GW_STAT_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    page = mmap(NULL, GW_STAT_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    must(page != MAP_FAILED);
    snprintf(number, sizeof(number), "%d", fd);
    setenv("GRADWIRE_STAT_FD", number, 1);
    return page;
}

void rank_warm_up(void)
{
    struct rank r;
    struct pair p;

    rank_open(&r, 0);
    pair_open(&p, &r, &r);
    pair_close(&p);
    rank_close(&r);
    must(held_threads() == 0);
}
