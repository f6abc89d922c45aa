/* nccl_run.c - collectives of the real NCCL over the plugin, every element checked; or one rank killed or stopped in the middle
 * of one, and all others must hear of it.
 *
 *   nccl_run [-n RANKS] [-c COLLECTIVE,...] [-t f32|bf16|i32,...] [-b BYTES,...] [--file FILE] [--coded | --raw]
 *            [--kill RANK | --stop RANK] [-v]
 *
 * --file: the numbers come from FILE, of type -t.  --coded, --raw: what the plugin's counters must say.  -v: all that the ranks
 * said.  Protocol, algorithm, plugin and its settings come from the environment.  Ends with 0, with 1 and what was wrong, or
 * with 77 where there is no device.
 *
 * Read main, then rank_main.  Ranks are processes that the parent forks before anything of CUDA runs.  Each one is told that it
 * has a host of its own, so that all between them goes over the network, and takes its turn of the devices there are. */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <gradwire/stat.h>

#include "values.h"

enum { FAILED = 1, USAGE = 2, SKIPPED = 77 };
enum { SIZES_MAX = 8, BEHIND = 4096, UNTOUCHED = 0xa5 };
/* A rank that is killed or stopped: after so many collectives, when so many messages of the next one are through.  Who is left
 * hears of it within the plugin's deadlines, seconds; the guard, without anything moving, is ten times that. */
enum { WARM_UP = 2, DEADLY = 6, DEADLY_BYTES = 32 << 20, GUARD_S = 60 };

enum stage { STARTING, JOINING, RUNNING, ABORTING, LEAVING };
static const char *const stage_names[] = {"starting", "in ncclCommInitRank", "in a collective", "in ncclCommAbort", "leaving"};

/* Shared by all processes. */
struct world {
    pthread_barrier_t meet;
    ncclUniqueId id;
    _Atomic int stage[RANKS_MAX];
    uint64_t digest[RANKS_MAX];
};

struct opts {
    int ranks, colls, sizes, victim, signal, coded, raw, verbose;
    const struct coll *coll[8];
    unsigned types; /* a bit each */
    size_t bytes[SIZES_MAX];
    struct values values;
};

struct rank {
    const struct opts *o;
    struct world *world;
    const struct gw_stat_page *page;
    int me, ranks;
    struct values v;
    ncclComm_t comm;
    cudaStream_t stream;
    unsigned char *host, *in, *out; /* in, out: the device's */
    size_t room;
};

/* Where an element of a result comes from. */
enum { SUM = -1 };
struct source {
    int rank; /* or SUM */
    size_t at;
};

static _Noreturn __attribute__((format(printf, 2, 3))) void fail(const struct rank *r, const char *why, ...)
{
    va_list ap;

    fprintf(stderr, "rank %d: ", r->me);
    va_start(ap, why);
    vfprintf(stderr, why, ap);
    va_end(ap);
    fputc('\n', stderr);
    _exit(FAILED);
}

#define cuda_must(r, call)                                                       \
    do {                                                                         \
        cudaError_t said = (call);                                               \
        if (said != cudaSuccess)                                                 \
            fail(r, "%s: %s", #call, cudaGetErrorString(said));                  \
    } while (0)
#define nccl_must(r, call)                                                       \
    do {                                                                         \
        ncclResult_t said = (call);                                              \
        if (said != ncclSuccess)                                                 \
            fail(r, "%s: %s", #call, ncclGetErrorString(said));                  \
    } while (0)

/* ---- the collectives ---------------------------------------------------------------------------------- */

static ncclDataType_t nccl_type(const struct rank *r)
{
    return r->v.type == TYPE_F32 ? ncclFloat32 : r->v.type == TYPE_BF16 ? ncclBfloat16 : ncclInt32;
}

static int before(const struct rank *r)
{
    return (r->me + r->ranks - 1) % r->ranks;
}

/* n: the elements of a rank's share; where all shares are in one buffer it holds n times the ranks. */
static ncclResult_t all_reduce(struct rank *r, size_t n)
{
    return ncclAllReduce(r->in, r->out, n, nccl_type(r), ncclSum, r->comm, r->stream);
}
static struct source from_all_reduce(const struct rank *r, size_t n, size_t i)
{
    (void)r, (void)n;
    return (struct source){SUM, i};
}

static ncclResult_t all_gather(struct rank *r, size_t n)
{
    return ncclAllGather(r->in, r->out, n, nccl_type(r), r->comm, r->stream);
}
static struct source from_all_gather(const struct rank *r, size_t n, size_t i)
{
    (void)r;
    return (struct source){(int)(i / n), i % n};
}

static ncclResult_t reduce_scatter(struct rank *r, size_t n)
{
    return ncclReduceScatter(r->in, r->out, n, nccl_type(r), ncclSum, r->comm, r->stream);
}
static struct source from_reduce_scatter(const struct rank *r, size_t n, size_t i)
{
    return (struct source){SUM, (size_t)r->me * n + i};
}

/* The last one's bytes, so that the root is not who makes the communicator. */
static ncclResult_t broadcast(struct rank *r, size_t n)
{
    return ncclBroadcast(r->in, r->out, n, nccl_type(r), r->ranks - 1, r->comm, r->stream);
}
static struct source from_broadcast(const struct rank *r, size_t n, size_t i)
{
    (void)n;
    return (struct source){r->ranks - 1, i};
}

/* Everybody to the next one. */
static ncclResult_t send_recv(struct rank *r, size_t n)
{
    ncclResult_t sent, got, ended;

    if (ncclGroupStart() != ncclSuccess)
        return ncclInternalError;
    sent = ncclSend(r->in, n, nccl_type(r), (r->me + 1) % r->ranks, r->comm, r->stream);
    got = ncclRecv(r->out, n, nccl_type(r), before(r), r->comm, r->stream);
    ended = ncclGroupEnd();
    return sent != ncclSuccess ? sent : got != ncclSuccess ? got : ended;
}
static struct source from_send_recv(const struct rank *r, size_t n, size_t i)
{
    (void)n;
    return (struct source){before(r), i};
}

static const struct coll {
    const char *name;
    int wide_in, wide_out; /* holds the shares of all */
    ncclResult_t (*start)(struct rank *r, size_t n);
    struct source (*from)(const struct rank *r, size_t n, size_t i);
} colls[] = {
    {"all-reduce", 0, 0, all_reduce, from_all_reduce},
    {"all-gather", 0, 1, all_gather, from_all_gather},
    {"reduce-scatter", 1, 0, reduce_scatter, from_reduce_scatter},
    {"broadcast", 0, 0, broadcast, from_broadcast},
    {"send-recv", 0, 0, send_recv, from_send_recv},
};
enum { COLLS = sizeof colls / sizeof *colls };

/* ---- a rank -------------------------------------------------------------------------------------------- */

static void enter(struct rank *r, enum stage s)
{
    atomic_store(&r->world->stage[r->me], s);
}

static uint64_t messages(const struct rank *r)
{
    return gw_stat_get(&r->page->sends) + gw_stat_get(&r->page->recvs);
}

/* Waits as a job's watchdog does: until the stream is idle, or the communicator has failed.  die_at: in the middle, when so
 * many messages are through, this rank ends or halts; 0: it does not. */
static ncclResult_t wait_stream(struct rank *r, uint64_t die_at)
{
    for (;;) {
        cudaError_t stream = cudaStreamQuery(r->stream);
        ncclResult_t state;
        nccl_must(r, ncclCommGetAsyncError(r->comm, &state));
        if (state != ncclSuccess && state != ncclInProgress)
            return state;
        if (stream != cudaErrorNotReady) {
            cuda_must(r, stream);
            return ncclSuccess;
        }
        if (die_at != 0 && messages(r) >= die_at)
            raise(r->o->signal);
        usleep(50);
    }
}

static void fill(struct rank *r, const struct coll *c, size_t n)
{
    size_t size = type_bytes(r->v.type), count = c->wide_in ? n * (size_t)r->ranks : n;

    for (size_t i = 0; i < count; i++)
        value_put(&r->v, r->me, i, r->host + i * size);
    cuda_must(r, cudaMemcpy(r->in, r->host, count * size, cudaMemcpyHostToDevice));
    memset(r->host, UNTOUCHED, r->room);
    cuda_must(r, cudaMemcpy(r->out, r->host, r->room, cudaMemcpyHostToDevice));
}

static void check(struct rank *r, const struct coll *c, size_t n)
{
    size_t size = type_bytes(r->v.type), count = c->wide_out ? n * (size_t)r->ranks : n;

    cuda_must(r, cudaMemcpy(r->host, r->out, r->room, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        struct source from = c->from(r, n, i);
        const void *got = r->host + i * size;
        if (from.rank == SUM ? !value_is_sum(&r->v, from.at, got) : !value_is(&r->v, from.rank, from.at, got))
            fail(r, "%s of %zu elements: element %zu is wrong", c->name, n, i);
    }
    for (size_t i = count * size; i < r->room; i++)
        if (r->host[i] != UNTOUCHED)
            fail(r, "%s of %zu elements: byte %zu behind the result is written", c->name, n, i - count * size);
}

/* Sums are the same on all ranks, bit for bit. */
static void compare(struct rank *r, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ r->host[i]) * 0x100000001b3u;
    r->world->digest[r->me] = h;
    pthread_barrier_wait(&r->world->meet);
    if (r->world->digest[0] != h)
        fail(r, "all-reduce of %zu bytes: rank 0 has another result", bytes);
    pthread_barrier_wait(&r->world->meet);
}

static size_t share(const struct rank *r, const struct coll *c, size_t bytes)
{
    return bytes / type_bytes(r->v.type) / (c->wide_in || c->wide_out ? (size_t)r->ranks : 1);
}

static void run_one(struct rank *r, const struct coll *c, size_t bytes)
{
    size_t n = share(r, c, bytes);
    ncclResult_t state;

    if (n == 0)
        return;
    fill(r, c, n);
    nccl_must(r, c->start(r, n));
    if ((state = wait_stream(r, 0)) != ncclSuccess)
        fail(r, "%s of %zu elements: ncclCommGetAsyncError: %s", c->name, n, ncclGetErrorString(state));
    check(r, c, n);
    if (c == colls)
        compare(r, n * type_bytes(r->v.type));
}

static void run_all(struct rank *r)
{
    for (int t = 0; t < TYPES; t++)
        for (int c = 0; c < r->o->colls && r->o->types & 1u << t; c++)
            for (int s = 0; s < r->o->sizes; s++) {
                r->v.type = (enum type)t;
                run_one(r, r->o->coll[c], r->o->bytes[s]);
            }
}

/* One collective after the other until the communicator has failed.  One that does not touch the victim may still end well. */
static ncclResult_t run_deadly(struct rank *r)
{
    const struct coll *c = r->o->coll[0];
    size_t n = share(r, c, DEADLY_BYTES);
    ncclResult_t state = ncclSuccess;

    for (int i = 0; i < WARM_UP; i++)
        run_one(r, c, r->o->bytes[0]);
    pthread_barrier_wait(&r->world->meet); /* nobody is still in one of those when the victim ends */
    while (state == ncclSuccess) {
        uint64_t die_at = r->me == r->o->victim ? messages(r) + DEADLY : 0;
        if (c->start(r, n) != ncclSuccess)
            die_at = 0; /* the state says why */
        state = wait_stream(r, die_at);
    }
    return state;
}

static void leave(struct rank *r, ncclResult_t state)
{
    if (state == ncclSuccess) {
        nccl_must(r, ncclCommFinalize(r->comm));
        nccl_must(r, ncclCommDestroy(r->comm));
    } else {
        enter(r, ABORTING);
        nccl_must(r, ncclCommAbort(r->comm));
        if (state != ncclRemoteError)
            fail(r, "ncclCommGetAsyncError: %s, where a remote error was to come", ncclGetErrorString(state));
    }
    cuda_must(r, cudaStreamSynchronize(r->stream));
    cuda_must(r, cudaFree(r->in));
    cuda_must(r, cudaFree(r->out));
    cuda_must(r, cudaStreamDestroy(r->stream));
    free(r->host);
    enter(r, LEAVING);
}

static void settings(int me, int page)
{
    char text[32];

    snprintf(text, sizeof text, "gradwire-test-%d", me);
    setenv("NCCL_HOSTID", text, 1);
    setenv("NCCL_P2P_DISABLE", "1", 0);
    setenv("NCCL_SHM_DISABLE", "1", 0);
    snprintf(text, sizeof text, "%d", page);
    setenv("GRADWIRE_STAT_FD", text, 1);
}

static int rank_main(struct rank *r)
{
    ncclResult_t state = ncclSuccess;
    int devices = 0;

    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return SKIPPED;
    if (r->me == 0)
        nccl_must(r, ncclGetUniqueId(&r->world->id));
    pthread_barrier_wait(&r->world->meet);
    cuda_must(r, cudaSetDevice(r->me % devices));
    cuda_must(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    enter(r, JOINING);
    nccl_must(r, ncclCommInitRank(&r->comm, r->ranks, r->world->id, r->me));
    if (!gw_stat_ready(r->page))
        fail(r, "the plugin fills no page of counters: NCCL has loaded another one");
    r->room = r->o->victim >= 0 ? DEADLY_BYTES : 0;
    for (int s = 0; s < r->o->sizes; s++)
        r->room = r->o->bytes[s] > r->room ? r->o->bytes[s] : r->room;
    r->room += BEHIND;
    if ((r->host = calloc(1, r->room)) == NULL)
        fail(r, "no memory");
    cuda_must(r, cudaMalloc((void **)&r->in, r->room));
    cuda_must(r, cudaMalloc((void **)&r->out, r->room));
    pthread_barrier_wait(&r->world->meet);
    enter(r, RUNNING);
    if (r->o->victim < 0)
        run_all(r);
    else
        state = run_deadly(r);
    leave(r, state);
    return 0;
}

/* ---- the parent ---------------------------------------------------------------------------------------- */

struct seat {
    pid_t pid;
    int log; /* a memfd: all that the rank said */
    int page_fd;
    const struct gw_stat_page *page;
    int ended, status;
};

static void die(const char *what)
{
    perror(what);
    exit(FAILED);
}

static int new_memfd(const char *name, size_t size)
{
    int fd = memfd_create(name, MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        die("memfd_create");
    return fd;
}

static void *shared(int fd, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

    if (at == MAP_FAILED)
        die("mmap");
    return at;
}

static struct world *world_new(int ranks)
{
    struct world *w = shared(-1, sizeof *w);
    pthread_barrierattr_t attr;

    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&w->meet, &attr, (unsigned)ranks);
    return w;
}

static void seat_start(struct seat *s, const struct opts *o, struct world *world, int me)
{
    s->log = new_memfd("log", 0);
    s->page_fd = new_memfd("page", GW_STAT_BYTES);
    if (fcntl(s->page_fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        die("F_SEAL_SHRINK");
    s->page = shared(s->page_fd, GW_STAT_BYTES);
    fflush(stdout);
    if ((s->pid = fork()) < 0)
        die("fork");
    if (s->pid == 0) {
        struct rank r = {.o = o, .world = world, .page = s->page, .me = me, .ranks = o->ranks, .v = o->values};
        dup2(s->log, 1);
        dup2(s->log, 2);
        settings(me, s->page_fd);
        exit(rank_main(&r));
    }
}

static uint64_t sum_of(const struct seat *seats, int ranks, size_t offset)
{
    uint64_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += gw_stat_get((const uint64_t *)((const char *)seats[r].page + offset));
    return sum;
}
#define TOTAL(member) sum_of(seats, o->ranks, offsetof(struct gw_stat_page, member))

/* Until all have ended but one that is to be stopped, or one of them went wrong, or nothing has moved for as long as the guard
 * says: a busy machine is slow, and no fault. */
static int wait_all(struct seat *seats, const struct opts *o, const struct world *w)
{
    time_t since = time(NULL);
    uint64_t moved = 0;
    int left = o->ranks - (o->signal == SIGSTOP), wrong = 0;

    while (left > 0 && !wrong && time(NULL) < since + GUARD_S) {
        uint64_t now = TOTAL(sends) + TOTAL(recvs) + TOTAL(comms_open);
        for (int r = 0; r < o->ranks; r++)
            now += (uint64_t)atomic_load(&w->stage[r]) + (uint64_t)seats[r].ended;
        if (now != moved)
            moved = now, since = time(NULL);
        usleep(1000);
        for (int r = 0; r < o->ranks; r++) {
            int status;
            if (seats[r].ended || waitpid(seats[r].pid, &status, WNOHANG | WUNTRACED) != seats[r].pid)
                continue;
            seats[r].status = status;
            if (WIFSTOPPED(status))
                continue;
            seats[r].ended = 1, left--;
            wrong = r != o->victim && status != 0;
        }
    }
    return left == 0;
}

/* SIGKILL ends the stopped one, and whoever is left after the guard. */
static void end_all(struct seat *seats, const struct opts *o)
{
    for (int r = 0; r < o->ranks; r++)
        if (!seats[r].ended) {
            kill(seats[r].pid, SIGKILL);
            waitpid(seats[r].pid, NULL, 0);
        }
}

static int ended_as_wanted(const struct seat *s, const struct opts *o, int r)
{
    if (r != o->victim)
        return s->ended && WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0;
    return o->signal == SIGKILL ? WIFSIGNALED(s->status) && WTERMSIG(s->status) == SIGKILL : WIFSTOPPED(s->status);
}

static char *log_of(const struct seat *s)
{
    off_t size = lseek(s->log, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);

    if (text == NULL || pread(s->log, text, (size_t)size, 0) != size)
        die("log");
    return text;
}

/* "pid N" and no digit behind it. */
static int names(const char *line, pid_t pid)
{
    char name[32];
    int n = snprintf(name, sizeof name, "pid %d", (int)pid);
    const char *at = strstr(line, name);

    return at != NULL && (at[n] < '0' || at[n] > '9');
}

/* One line of ours for an error, and the victim's name stands where the peer or who is to blame stands. */
static int one_line_names(char *log, pid_t victim)
{
    char *save = NULL;
    int lines = 0, named = 0;

    for (char *line = strtok_r(log, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        const char *peer = strstr(line, "peer=");
        if (strstr(line, "gradwire ") != NULL && peer != NULL)
            lines++, named += names(peer, victim);
    }
    return lines == 1 && named == 1;
}

/* Without NCCL_DEBUG a rank that ended well has said nothing. */
static int said_as_wanted(const struct seat *s, const struct opts *o, int r, pid_t victim)
{
    char *log = log_of(s);
    int good = 1;

    if (o->victim < 0)
        good = getenv("NCCL_DEBUG") != NULL || *log == 0;
    else if (r != o->victim)
        good = one_line_names(log, victim);
    free(log);
    return good;
}

static void show(const struct seat *s, const struct world *w, int r)
{
    char *log = log_of(s);

    printf("rank %d, pid %d, %s, last seen %s:\n%s", r, (int)s->pid,
           !s->ended ? "had not ended" : WIFSIGNALED(s->status) ? strsignal(WTERMSIG(s->status)) : "ended",
           stage_names[atomic_load(&w->stage[r])], log);
    free(log);
}

/* ---- what the plugin counted ---------------------------------------------------------------------------- */

/* Says them, and where nobody was to die judges them. */
static int counts_as_wanted(const struct seat *seats, const struct opts *o)
{
    uint64_t raw = TOTAL(raw_sent), wire = TOTAL(wire_sent), coded = TOTAL(chunks_coded);
    const char *wrong = NULL;

    if (o->victim >= 0) {
        printf("%s\n", seats[0].page->lane);
        return 1;
    }
    printf("%s, %llu messages, raw %llu, wire %llu: %.3f, chunks %llu coded %llu raw\n", seats[0].page->lane,
           (unsigned long long)TOTAL(sends), (unsigned long long)raw, (unsigned long long)wire,
           raw == 0 ? 1 : (double)wire / (double)raw, (unsigned long long)coded, (unsigned long long)TOTAL(chunks_raw));
    if (TOTAL(sends) == 0 || TOTAL(sends) != TOTAL(recvs) || raw != TOTAL(raw_recved) || wire != TOTAL(wire_recved))
        wrong = "what was sent is not what was received";
    else if (TOTAL(comms_open) != 0)
        wrong = "connections are left open";
    else if (o->coded && (coded == 0 || wire >= raw))
        wrong = "nothing was coded";
    else if (o->raw && (coded != 0 || wire != raw))
        wrong = "something was coded";
    if (wrong != NULL)
        printf("%s\n", wrong);
    return wrong == NULL;
}

static int run(const struct opts *o)
{
    struct world *w = world_new(o->ranks);
    struct seat seats[RANKS_MAX] = {0};
    int good, device = 1;

    for (int r = 0; r < o->ranks; r++)
        seat_start(&seats[r], o, w, r);
    good = wait_all(seats, o, w);
    end_all(seats, o);
    for (int r = 0; r < o->ranks; r++)
        device = device && !(seats[r].ended && WIFEXITED(seats[r].status) && WEXITSTATUS(seats[r].status) == SKIPPED);
    if (!device) {
        printf("the CUDA runtime finds no device\n");
        return SKIPPED;
    }
    for (int r = 0; r < o->ranks; r++)
        if (!ended_as_wanted(&seats[r], o, r) || !said_as_wanted(&seats[r], o, r, o->victim < 0 ? 0 : seats[o->victim].pid))
            good = 0;
    if (!good || o->verbose)
        for (int r = 0; r < o->ranks; r++)
            show(&seats[r], w, r);
    return counts_as_wanted(seats, o) && good ? 0 : FAILED;
}

/* ---- options ---------------------------------------------------------------------------------------------- */

static int usage(const char *what)
{
    fprintf(stderr, "nccl_run: %s; its first lines say how it is called\n", what);
    return USAGE;
}

static int read_colls(struct opts *o, char *text)
{
    char *save = NULL;

    o->colls = 0;
    for (char *name = strtok_r(text, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        int c = 0;
        while (c < COLLS && strcmp(colls[c].name, name) != 0)
            c++;
        if (c == COLLS || o->colls == COLLS)
            return 0;
        o->coll[o->colls++] = &colls[c];
    }
    return o->colls > 0;
}

static int read_types(struct opts *o, char *text)
{
    static const char *const names[TYPES] = {"f32", "bf16", "i32"};
    char *save = NULL;

    o->types = 0;
    for (char *name = strtok_r(text, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        int t = 0;
        while (t < TYPES && strcmp(names[t], name) != 0)
            t++;
        if (t == TYPES)
            return 0;
        o->types |= 1u << t;
        o->values.type = (enum type)t;
    }
    return o->types != 0;
}

static int read_sizes(struct opts *o, char *text)
{
    char *save = NULL;

    o->sizes = 0;
    for (char *size = strtok_r(text, ",", &save); size != NULL; size = strtok_r(NULL, ",", &save)) {
        if (o->sizes == SIZES_MAX || (o->bytes[o->sizes++] = strtoul(size, NULL, 0)) == 0)
            return 0;
    }
    return o->sizes > 0;
}

/* The whole of it is one message, and each rank begins at another place. */
static int read_file(struct opts *o, const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < 8)
        return 0;
    o->values.file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    o->values.file_count = (size_t)st.st_size / type_bytes(o->values.type);
    o->bytes[0] = (size_t)st.st_size, o->sizes = 1;
    close(fd);
    return o->values.file != MAP_FAILED;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"file", 1, NULL, 'f'}, {"coded", 0, NULL, 'C'}, {"raw", 0, NULL, 'R'},
                                          {"kill", 1, NULL, 'k'}, {"stop", 1, NULL, 's'},  {NULL, 0, NULL, 0}};
    struct opts o = {.ranks = 2, .colls = COLLS, .sizes = 3, .victim = -1, .types = 1u << TYPE_F32, .bytes = {64, 100004, 3000000}};
    const char *file = NULL;

    for (int i = 0; i < COLLS; i++)
        o.coll[i] = &colls[i];
    for (int c; (c = getopt_long(argc, argv, "n:c:t:b:v", longs, NULL)) != -1;) {
        switch (c) {
        case 'n': o.ranks = atoi(optarg); break;
        case 'c': if (!read_colls(&o, optarg)) return usage("no such collective"); break;
        case 't': if (!read_types(&o, optarg)) return usage("no such type"); break;
        case 'b': if (!read_sizes(&o, optarg)) return usage("sizes cannot be read"); break;
        case 'f': file = optarg; break;
        case 'C': o.coded = 1; break;
        case 'R': o.raw = 1; break;
        case 'k': o.victim = atoi(optarg), o.signal = SIGKILL; break;
        case 's': o.victim = atoi(optarg), o.signal = SIGSTOP; break;
        case 'v': o.verbose = 1; break;
        default: return usage("an option is unknown");
        }
    }
    o.values.ranks = o.ranks;
    if (o.ranks < 2 || o.ranks > RANKS_MAX || o.victim >= o.ranks || optind != argc)
        return usage("ranks are 2 to 8");
    if (file != NULL && (o.ranks > 4 || o.values.type == TYPE_I32 || (o.types & (o.types - 1)) != 0))
        return usage("a file takes one type, f32 or bf16, and up to 4 ranks");
    if (file != NULL && !read_file(&o, file))
        return usage("the file cannot be read");
    return run(&o);
}
