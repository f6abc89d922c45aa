/* perf_rank.c - a rank: one process with the plugin, NCCL's threads and one end of every
 * connection.
 *
 * Read perf_rank_main.  The client's rank leads: it says which run comes next; the other follows.
 */
#include <fcntl.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gradwire/stat.h>

#include "perf_rank.h"

enum { TICK_MS = 50, TELL_MS = 300, UP_MS = 60000, NEXT_MS = 120000 };

/* ---- saying things --------------------------------------------------------------------------- */

static void report(struct rank *r, enum perf_say kind, const char *fmt, va_list ap)
{
    struct perf_report rep = {.kind = kind, .rank = r->seat->rank};

    vsnprintf(rep.u.text, sizeof(rep.u.text), fmt, ap);
    rows_say(r, &rep);
}

void rank_say(struct rank *r, enum perf_say kind, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report(r, kind, fmt, ap);
    va_end(ap);
}

void rank_fail(struct rank *r, const char *fmt, ...)
{
    char text[PERF_TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rank_say(r, PERF_SAY_ERROR, "%s", text);
    if (r->seat->ctl >= 0)
        perf_send(r->seat->ctl, PERF_MSG_FAIL, text, strlen(text));
    _exit(PERF_FAILED);
}

static void echo(struct rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
static void echo(struct rank *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report(r, PERF_SAY_ECHO, fmt, ap);
    va_end(ap);
    _exit(PERF_FAILED);
}

/* What came instead of a message that was awaited. */
static void rank_lost(struct rank *r, int got)
{
    if (got == 1 && r->msg->type == PERF_MSG_FAIL)
        echo(r, "the other rank failed: %s", perf_msg_text(r->msg));
    if (got == -2)
        rank_fail(r, "what the other rank says is not gradwire perf's");
    if (got == -1)
        echo(r, "the other rank is gone");
}

void rank_check_peer(struct rank *r)
{
    struct pollfd pfd = {.fd = r->seat->ctl, .events = POLLIN | POLLRDHUP};
    uint8_t head[6];

    if (r->seat->ctl < 0 || poll(&pfd, 1, 0) <= 0)
        return;
    ssize_t n = recv(r->seat->ctl, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        rank_lost(r, -1);
    if (n == (ssize_t)sizeof(head) && head[4] == PERF_MSG_FAIL)
        rank_lost(r, perf_recv(r->seat->ctl, r->msg, PERF_WAIT_MS));
}

void rank_fail_net(struct rank *r, const char *what, ncclResult_t res)
{
    char last[HOST_LOG_LINE];

    if (res == ncclRemoteError && r->seat->ctl >= 0) { /* the peer may be about to say why */
        struct pollfd pfd = {.fd = r->seat->ctl, .events = POLLIN};
        poll(&pfd, 1, TELL_MS);
        rank_check_peer(r);
    }
    host_log_last(last);
    rank_fail(r, "%s: the plugin answers %s%s%s", what, host_result_name(res),
              last[0] != '\0' ? ": " : "", last);
}

struct perf_msg *rank_expect(struct rank *r, enum perf_msg_type type)
{
    int got = perf_recv(r->seat->ctl, r->msg, NEXT_MS);

    if (got != 1 || r->msg->type == PERF_MSG_FAIL)
        rank_lost(r, got);
    if (got == 0)
        rank_fail(r, "the other rank said nothing for %d seconds", NEXT_MS / 1000);
    if (r->msg->type != (uint32_t)type)
        rank_fail(r, "the other rank sent message %u where %u was due", r->msg->type,
                  (unsigned)type);
    return r->msg;
}

void rank_send(struct rank *r, enum perf_msg_type type, const void *body, size_t len)
{
    if (perf_send(r->seat->ctl, type, body, len) != 0) {
        rank_check_peer(r);
        rank_lost(r, -1);
    }
}

void rank_wait_job(struct rank *r, struct host_job *job, const char *what)
{
    for (int waited = 0; !host_job_wait(&r->service, job, TICK_MS); waited += TICK_MS) {
        rank_check_peer(r);
        if (waited >= UP_MS)
            rank_fail(r, "%s is not done after %d seconds", what, UP_MS / 1000);
    }
    if (job->res != ncclSuccess)
        rank_fail_net(r, what, job->res);
}

/* ---- coming up ------------------------------------------------------------------------------- */

/* The plugin reads these at its first init, which is why every codec has ranks of its own. */
static void environment(struct rank *r)
{
    const struct perf_opts *o = r->seat->opts;
    char number[16];

    if (r->session->codec[0] != '\0')
        setenv("GRADWIRE_CODEC", r->session->codec, 1);
    if (r->session->policy[0] != '\0')
        setenv("GRADWIRE_POLICY", r->session->policy, 1);
    if (o->lane == PERF_LANE_VERBS)
        setenv("GRADWIRE_LANE", "verbs", 1);
    else if (o->lane != PERF_LANE_ANY)
        setenv("GRADWIRE_UCX_TLS", o->lane == PERF_LANE_TCP ? "tcp" : "posix", 1);
    setenv("GRADWIRE_LOG", "nccl", 0); /* its warnings come to host_log and end in our one line */
    int fd = memfd_create("gradwire-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, GW_STAT_BYTES) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return;
    void *page = mmap(NULL, GW_STAT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return;
    r->page = page;
    snprintf(number, sizeof(number), "%d", fd);
    setenv("GRADWIRE_STAT_FD", number, 1);
}

/* In a build tree the plugin stands beside this program, installed in the folder of libraries. */
static const char *plugin_path(const struct perf_opts *o, char *path, size_t path_bytes)
{
    static const char name[] = "libnccl-net-gradwire.so";
    static const char *const places[] = {"", "../lib/", "../lib64/", GW_LIBDIR "/"};

    if (o->plugin != NULL)
        return o->plugin;
    ssize_t n = readlink("/proc/self/exe", path, path_bytes / 2);
    char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(*places); i++) {
        char *at = places[i][0] == '/' ? path : slash + 1;
        snprintf(at, path_bytes - (size_t)(at - path), "%s%s", places[i], name);
        if (access(path, R_OK) == 0)
            return path;
    }
    return name;
}

void rank_open(struct rank *r)
{
    const struct perf_opts *o = r->seat->opts;
    char path[4096], why[HOST_LOG_LINE];

    r->msg = malloc(sizeof(*r->msg));
    r->samples = calloc(SAMPLES_MAX, sizeof(*r->samples));
    r->gpu_scratch = calloc(1, HOST_LL128_BYTES / HOST_SLOTS);
    if (r->msg == NULL || r->samples == NULL || r->gpu_scratch == NULL)
        rank_fail(r, "no memory");
    environment(r);
    if (o->verbose)
        host_log_copy(stderr, NCCL_LOG_INFO);
    if (host_load(&r->net, plugin_path(o, path, sizeof(path)), o->net_version, why, sizeof(why)) !=
        0)
        rank_fail(r, "cannot load the plugin: %s", why);
    ncclResult_t res = host_init(&r->net, 1);
    if (res != ncclSuccess)
        rank_fail_net(r, "init", res);
    if (host_service_start(&r->service) != 0 || host_progress_start(&r->progress, &r->net) != 0)
        rank_fail(r, "no thread");
}

void rank_close(struct rank *r)
{
    host_service_stop(&r->service);
    host_finalize(&r->net);
    host_unload(&r->net);
    if (r->page != NULL)
        munmap(r->page, GW_STAT_BYTES);
    free(r->msg);
    free(r->samples);
    free(r->gpu_scratch);
}

static struct dir *dirs_new(struct rank *r, unsigned n)
{
    struct dir *d = n == 0 ? NULL : aligned_alloc(64, n * sizeof(*d));

    if (n != 0 && d == NULL)
        rank_fail(r, "no memory");
    for (unsigned i = 0; i < n; i++) {
        memset(&d[i], 0, sizeof(d[i]));
        d[i].rank = r;
        d[i].index = i;
    }
    return d;
}

static void listen_all(struct rank *r)
{
    char handles[PERF_CONNS_MAX * NCCL_NET_HANDLE_MAXSIZE];

    for (unsigned i = 0; i < r->nin; i++) {
        host_conn_listen(&r->service, &r->in[i].conn, &r->net, 0);
        rank_wait_job(r, &r->in[i].conn.job, "listen");
        memcpy(handles + i * NCCL_NET_HANDLE_MAXSIZE, r->in[i].conn.handle,
               NCCL_NET_HANDLE_MAXSIZE);
    }
    if (r->nin != 0)
        rank_send(r, PERF_MSG_HANDLES, handles, r->nin * NCCL_NET_HANDLE_MAXSIZE);
    for (unsigned i = 0; i < r->nin; i++)
        host_conn_accept(&r->service, &r->in[i].conn);
}

static void connect_all(struct rank *r)
{
    if (r->nout == 0)
        return;
    struct perf_msg *m = rank_expect(r, PERF_MSG_HANDLES);
    if (m->len != r->nout * NCCL_NET_HANDLE_MAXSIZE)
        rank_fail(r, "the other rank sent %u bytes of handles", m->len);
    for (unsigned i = 0; i < r->nout; i++) {
        memcpy(r->out[i].conn.handle, m->body + i * NCCL_NET_HANDLE_MAXSIZE,
               NCCL_NET_HANDLE_MAXSIZE);
        host_conn_connect(&r->service, &r->out[i].conn, &r->net, 0);
    }
}

static void connections(struct rank *r)
{
    const struct perf_session *s = r->session;
    bool both = s->bidir || s->lat;

    r->nout = r->seat->client || both ? s->conns : 0;
    r->nin = !r->seat->client || both ? s->conns : 0;
    r->out = dirs_new(r, r->nout);
    r->in = dirs_new(r, r->nin);
    r->flows = calloc(r->nout + r->nin, sizeof(*r->flows));
    if (r->flows == NULL)
        rank_fail(r, "no memory");
    listen_all(r);
    connect_all(r);
    for (unsigned i = 0; i < r->nin; i++)
        rank_wait_job(r, &r->in[i].conn.job, "accept");
    for (unsigned i = 0; i < r->nout; i++) {
        struct dir *d = &r->out[i];
        rank_wait_job(r, &d->conn.job, "connect");
        if (s->lat)
            r->in[i].answer = d;
        if (s->proto != HOST_SIMPLE)
            continue;
        d->mem = (struct host_mem){.conn = &d->conn, .data = r->data.bytes, .bytes = r->data.len};
        host_mem_reg(&r->service, &d->mem);
        rank_wait_job(r, &d->mem.job, "regMr of the data");
    }
    rank_send(r, PERF_MSG_UP, NULL, 0);
    rank_expect(r, PERF_MSG_UP);
}

/* NCCL's order: the progress thread is joined, then deregMr, then close, finalize last. */
static void disconnect(struct rank *r)
{
    host_progress_stop(&r->progress);
    for (unsigned i = 0; i < r->nout + r->nin; i++) {
        struct dir *d = i < r->nout ? &r->out[i] : &r->in[i - r->nout];
        run_clean(d);
        if (d->mem.mh != NULL) {
            host_mem_dereg(&r->service, &d->mem);
            rank_wait_job(r, &d->mem.job, "deregMr");
        }
        host_conn_close(&r->service, &d->conn);
        rank_wait_job(r, &d->conn.job, "close");
        host_conn_free(&d->conn);
        free(d->digests);
    }
    free(r->flows);
    free(r->out);
    free(r->in);
}

/* ---- the other rank's part ------------------------------------------------------------------- */

static void follow(struct rank *r)
{
    struct perf_run run;

    for (;;) {
        int got = perf_recv(r->seat->ctl, r->msg, NEXT_MS);
        if (got == 1 && r->msg->type == PERF_MSG_END)
            return;
        if (got != 1 || r->msg->type == PERF_MSG_FAIL)
            rank_lost(r, got);
        if (got != 1 || r->msg->type != PERF_MSG_RUN ||
            perf_run_read(r->msg, &run, r->session->size_max) != 0)
            rank_fail(r, "the other rank asks for no run that can be");
        run_follow(r, &run);
    }
}

int perf_rank_main(void *arg)
{
    const struct perf_seat *seat = arg;
    struct rank *r = calloc(1, sizeof(*r));
    char why[HOST_LOG_LINE];
    bool sends = seat->client || seat->session.bidir || seat->session.lat;

    if (r == NULL)
        return PERF_FAILED;
    if (seat->spare >= 0)
        close(seat->spare); /* else the other rank's end would not be seen */
    r->seat = seat;
    r->session = &seat->session;
    rank_open(r);
    if (seat->data != NULL)
        r->data = *seat->data;
    else if (sends &&
             perf_data_make(&r->data, seat->opts, seat->session.size_max, why, sizeof(why)) != 0)
        rank_fail(r, "%s", why);
    if (seat->client)
        rank_say(r, PERF_SAY_PLUGIN, "%s, net v%d", r->net.t.name, r->net.version);
    connections(r);
    if (seat->client)
        rows_lead(r);
    else
        follow(r);
    disconnect(r);
    rank_close(r);
    if (seat->data == NULL)
        free(r->data.bytes);
    free(r);
    return PERF_OK;
}
