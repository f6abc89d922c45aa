/* scale.c - many comms between two processes: what each process holds and spends, when they are up and while they move bytes.
 *
 *   scale COMMS SECONDS FILE
 *
 * Traffic goes round: a message of MESSAGE bytes of the file on every comm, one in flight on each.  Where a comm cannot be made
 * it says how many there are, and the plugin's lines about it. */
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gradwire/stat.h>

#include "rank.h"

enum { MESSAGE = 256 << 10, COMMS_MAX = 4096, TAG = 7, SAMPLES = 3, PATIENCE_MS = 3000, LIMIT_S = 900 };

static int comms, seconds;
static const char *file;

struct end {
    struct host_net net;
    const struct gw_stat_page *page;
    int fd, side, n; /* side 0 sends; comms that are up */
    void *listen[COMMS_MAX], *comm[COMMS_MAX], *mh[COMMS_MAX], *req[COMMS_MAX];
    char *bytes;
    bool over[COMMS_MAX]; /* its last message is done */
    uint64_t messages;
};

/* ---- what a process holds and has spent ---- */

struct held {
    int fds, threads;
    long kib;
    uint64_t messages, codec_ns, host_ns, cpu_ns, now_ns;
};

static uint64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static struct held look(const struct end *e)
{
    return (struct held){ .fds = held_fds(), .threads = held_threads(), .kib = held_kib(), .messages = e->messages,
                          .codec_ns = gw_stat_get(&e->page->encode_ns) + gw_stat_get(&e->page->decode_ns),
                          .host_ns = gw_stat_get(&e->page->host_ns), .cpu_ns = cpu_ns(), .now_ns = host_now_ns() };
}

static double per_gib(uint64_t ns, uint64_t messages)
{
    return messages == 0 ? 0 : (double)ns / 1e9 / ((double)messages * MESSAGE / (1 << 30));
}

/* base: before the first comm; was: the row before.  One write, for two processes print. */
static void row(const struct end *e, const char *when, struct held is, struct held base, struct held was)
{
    uint64_t n = is.messages - was.messages;
    char line[256];
    int len = snprintf(line, sizeof line, "%5d %-4s %-6s %8.1f %9.1f %6d %7.1f %7d %9llu %9.3f %9.3f %6.2f\n", e->n,
                       e->side == 0 ? "send" : "recv", when, (double)is.kib / 1024, (double)(is.kib - base.kib) / (e->n ? e->n : 1),
                       is.fds, (double)(is.fds - base.fds) / (e->n ? e->n : 1), is.threads, (unsigned long long)n,
                       per_gib(is.codec_ns - was.codec_ns, n), per_gib(is.host_ns - was.host_ns, n),
                       (double)(is.cpu_ns - was.cpu_ns) / (double)(is.now_ns - was.now_ns));

    must(write(1, line, (size_t)len) == len);
}

/* ---- coming up ---- */

/* 1: the other side is up with this comm, 0: it has failed, -1: it has said nothing yet */
static int peer_says(struct end *e)
{
    char c;
    ssize_t n = recv(e->fd, &c, 1, MSG_DONTWAIT);

    must(n != 0);
    return n < 0 ? -1 : c == 'y';
}

/* Both sides know the same when it returns. */
static int meet(struct end *e, int i, void *handle)
{
    uint64_t until = UINT64_MAX;
    int theirs = -1;
    ncclResult_t res = ncclSuccess;

    while (e->comm[i] == NULL && res == ncclSuccess && host_now_ns() < until) {
        res = e->side == 0 ? host_connect(&e->net, 0, handle, &e->comm[i]) : host_accept(&e->net, e->listen[i], &e->comm[i]);
        if (theirs < 0 && (theirs = peer_says(e)) == 0)
            until = host_now_ns() + PATIENCE_MS * 1000000ull;
    }
    child_say(e->fd, e->comm[i] != NULL ? "y" : "n", 1);
    while (theirs < 0)
        theirs = peer_says(e);
    return e->comm[i] != NULL && theirs;
}

static int one_comm(struct end *e, int i)
{
    _Alignas(64) char handle[NCCL_NET_HANDLE_MAXSIZE];
    char ok = 'y';

    if (e->side == 1) {
        ok = host_listen(&e->net, 0, handle, &e->listen[i]) == ncclSuccess ? 'y' : 'n';
        child_say(e->fd, &ok, 1);
        if (ok == 'y')
            child_say(e->fd, handle, sizeof handle);
    } else {
        child_hear(e->fd, &ok, 1);
        if (ok == 'y')
            child_hear(e->fd, handle, sizeof handle);
    }
    if (ok != 'y' || !meet(e, i, handle))
        return 0;
    if (e->side == 1) { /* NCCL closes its door when the peer has come */
        must(host_close_listen(&e->net, e->listen[i]) == ncclSuccess);
        e->listen[i] = NULL;
    }
    return host_reg(&e->net, e->comm[i], e->bytes, MESSAGE, NCCL_PTR_HOST, &e->mh[i]) == ncclSuccess;
}

static void come_up(struct end *e)
{
    char line[HOST_LOG_LINE], text[HOST_LOG_LINE + 128];

    while (e->n < comms && one_comm(e, e->n))
        e->n++;
    if (e->n == comms)
        return;
    host_log_last(line);
    must(snprintf(text, sizeof text, "%s: %d comms, no more; %u %s: %s\n", e->side == 0 ? "send" : "recv", e->n, host_log_warns(),
                  host_log_warns() == 1 ? "line" : "lines", line) > 0);
    must(write(1, text, strlen(text)) == (ssize_t)strlen(text));
}

/* ---- traffic ---- */

static void start(struct end *e, int i, bool last)
{
    void *data = e->bytes;
    size_t size = e->side == 0 && last ? 0 : MESSAGE;
    int tag = TAG;

    if (e->side == 0)
        must(host_isend(&e->net, e->comm[i], data, size, tag, e->mh[i], &e->req[i]) == ncclSuccess);
    else
        must(host_irecv(&e->net, e->comm[i], 1, &data, &size, &tag, &e->mh[i], false, &e->req[i]) == ncclSuccess);
    if (e->req[i] != NULL && last)
        e->over[i] = true;
}

static int finish(struct end *e, int i)
{
    int done, sizes[HOST_TEST_SIZES];

    must(host_test(&e->net, e->req[i], &done, sizes) == ncclSuccess);
    if (!done)
        return 0;
    e->req[i] = NULL;
    e->messages++;
    if (e->side == 1 && sizes[0] == 0)
        e->over[i] = true;
    return 1;
}

/* One look at every comm; 0: all are over.  An empty message is the last of its comm. */
static int pass(struct end *e, bool last)
{
    int left = 0, moved = 0;

    for (int i = 0; i < e->n; i++) {
        if (e->req[i] == NULL && !e->over[i])
            start(e, i, last);
        if (e->req[i] != NULL)
            moved += finish(e, i);
        left += e->req[i] != NULL || !e->over[i];
    }
    if (moved == 0)
        sched_yield(); /* as NCCL's thread does */
    return left;
}

static void traffic(struct end *e, struct held base, struct held was)
{
    uint64_t begin = host_now_ns(), each = (uint64_t)seconds * 1000000000u / SAMPLES;
    char when[16];
    int samples = 0;

    while (pass(e, e->side == 0 && host_now_ns() - begin > SAMPLES * each)) {
        if (samples == SAMPLES || host_now_ns() - begin < (uint64_t)(samples + 1) * each)
            continue;
        struct held is = look(e);
        snprintf(when, sizeof when, "%.0f s", (double)(is.now_ns - begin) / 1e9);
        row(e, when, is, base, was);
        was = is;
        samples++;
    }
}

static void go(const void *arg, int fd, int side)
{
    struct end *e = calloc(1, sizeof *e);
    struct rlimit files;
    char why[256];
    FILE *in = fopen(file, "rb");

    (void)arg;
    alarm(LIMIT_S);
    must(e != NULL && in != NULL && getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    e->fd = fd, e->side = side;
    e->page = stat_page_make();
    e->bytes = aligned_alloc(4096, MESSAGE);
    must(e->bytes != NULL && fread(e->bytes, 1, MESSAGE, in) == MESSAGE);
    fclose(in);
    if (getenv("TEST_LOG") != NULL)
        host_log_copy(stderr, NCCL_LOG_WARN);
    must(host_load(&e->net, GW_OUT "/libnccl-net-gradwire.so", 0, why, sizeof why) == 0);
    must(host_init(&e->net, 1) == ncclSuccess);
    struct held base = look(e);
    come_up(e);
    struct held up = look(e);
    child_meet(fd);
    row(e, "up", up, base, base);
    if (e->n > 0 && seconds > 0)
        traffic(e, base, up);
    child_meet(fd);
    for (int i = 0; i < COMMS_MAX; i++) {
        if (e->listen[i] != NULL)
            host_close_listen(&e->net, e->listen[i]);
        if (e->comm[i] == NULL)
            continue;
        if (e->mh[i] != NULL)
            host_dereg(&e->net, e->comm[i], e->mh[i]);
        if (side == 0)
            host_close_send(&e->net, e->comm[i]);
        else
            host_close_recv(&e->net, e->comm[i]);
    }
    host_finalize(&e->net);
    host_unload(&e->net);
}

int main(int argc, char **argv)
{
    must(argc == 4);
    comms = atoi(argv[1]), seconds = atoi(argv[2]), file = argv[3];
    must(comms > 0 && comms <= COMMS_MAX && seconds >= 0);
    setenv("NCCL_DEBUG", "WARN", 0);
    child_two(go, NULL);
    return 0;
}
