/* fault_rank.c - one of two ranks, as NCCL would drive it, for tests/faults/run: it says what it does and how that ended, and
 * whatever else stands on its stderr or stdout is the plugin's.
 *
 *     fault_rank send|recv|newer FOLDER      the handle passes through FOLDER; `newer` is a peer of a protocol to come
 *
 * FAULT_PLUGIN: the plugin; FAULT=kill|stop|leave: what it does to itself at the third message; NCCL_DEBUG=WARN: NCCL prints
 * what plugins warn of, else nothing. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hello.h>
#include <host.h>
#include <host_run.h>

enum { MESSAGES = 40, BYTES = 1 << 20, PATIENCE_S = 8 };

static struct host_net net;
static int sends;

static void end(const char *where, ncclResult_t res)
{
    fprintf(stderr, "= %s: %s\n", where, host_result_name(res));
    _exit(res != ncclSuccess);
}

static void out_of_time(int sig)
{
    static const char text[] = "= nothing happened for 8 s: this rank hangs\n";

    (void)sig;
    _exit(write(2, text, sizeof text - 1) > 0 ? 2 : 3);
}

/* ---- the handle ---- */

static void handle_put(const char *folder, const char *handle)
{
    char at[300], there[300];
    FILE *f;

    snprintf(at, sizeof at, "%s/handle.new", folder);
    snprintf(there, sizeof there, "%s/handle", folder);
    f = fopen(at, "w");
    if (f == NULL || fwrite(handle, NCCL_NET_HANDLE_MAXSIZE, 1, f) != 1 || fclose(f) != 0 || rename(at, there) != 0)
        perror(at);
}

static void handle_get(const char *folder, char *handle)
{
    char at[300];
    FILE *f;

    snprintf(at, sizeof at, "%s/handle", folder);
    while ((f = fopen(at, "r")) == NULL)
        usleep(10000);
    if (fread(handle, NCCL_NET_HANDLE_MAXSIZE, 1, f) != 1)
        perror(at);
    fclose(f);
}

/* ---- a rank ---- */

static void *meet(const char *folder)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE] __attribute__((aligned(64))) = "";
    void *comm = NULL, *listener = NULL;
    ncclResult_t res = ncclSuccess;

    if (sends) {
        handle_get(folder, handle);
    } else {
        res = host_listen(&net, 0, handle, &listener);
        if (res != ncclSuccess)
            end("listen", res);
        handle_put(folder, handle);
    }
    while (res == ncclSuccess && comm == NULL) {
        res = sends ? host_connect(&net, 0, handle, &comm) : host_accept(&net, listener, &comm);
        usleep(1000);
    }
    if (res != ncclSuccess)
        end(sends ? "connect" : "accept", res);
    if (listener != NULL)
        host_close_listen(&net, listener);
    return comm;
}

static ncclResult_t one_message(void *comm, char *data, void *mh)
{
    int sizes[HOST_TEST_SIZES], tag = 0, done = 0;
    void *req = NULL, *at = data;
    size_t room = BYTES;
    ncclResult_t res = ncclSuccess;

    while (res == ncclSuccess && req == NULL)
        res = sends ? host_isend(&net, comm, data, BYTES, tag, mh, &req)
                    : host_irecv(&net, comm, 1, &at, &room, &tag, &mh, false, &req);
    while (res == ncclSuccess && !done)
        res = host_test(&net, req, &done, sizes);
    return res;
}

static void harm(void)
{
    const char *fault = getenv("FAULT");

    if (fault == NULL)
        return;
    fprintf(stderr, "= %s\n", fault);
    if (strcmp(fault, "leave") == 0)
        exit(0);
    raise(strcmp(fault, "stop") == 0 ? SIGSTOP : SIGKILL);
}

static void talk(void *comm)
{
    char *data = aligned_alloc(4096, BYTES);
    ncclResult_t res;
    void *mh;

    memset(data, 1, BYTES);
    res = host_reg(&net, comm, data, BYTES, NCCL_PTR_HOST, &mh);
    for (int i = 0; i < MESSAGES && res == ncclSuccess; i++) {
        if (i == 3)
            harm();
        res = one_message(comm, data, mh);
    }
    if (res != ncclSuccess)
        end(sends ? "send" : "receive", res);
    host_dereg(&net, comm, mh);
    free(data);
}

/* ---- a peer of a protocol to come, by hand ---- */

static void newer(const char *folder)
{
    struct gw_hello hello = {.version_min = 2, .version_max = 3, .pid = 4242, .chunk_bytes = 131072, .codecs = 3, .role = 1,
                             .host = "elsewhere", .lane = "ucx", .build = "9.9.9", .blob.len = 16};
    uint8_t handle[NCCL_NET_HANDLE_MAXSIZE], bytes[GW_CTL_MAX];
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct gw_reject why = {.text = "nothing"};
    struct gw_handle h;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    handle_get(folder, (char *)handle);
    if (gw_handle_read(handle, &h) != GW_OK || h.addr[0].family != 4)
        return;
    memcpy(hello.token, h.token, sizeof hello.token);
    memcpy(&to.sin_addr, h.addr[0].ip, 4);
    to.sin_port = htons(h.addr[0].port);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || send(fd, bytes, gw_hello_write(bytes, &hello), 0) < 0)
        perror("newer");
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    if (n > 0 && gw_reject_read(bytes, (uint32_t)n, &why) == GW_OK)
        fprintf(stderr, "= is told, and would print: %s\n", why.text);
    else
        fprintf(stderr, "= is told nothing\n");
}

int main(int argc, char **argv)
{
    const char *debug = getenv("NCCL_DEBUG"), *plugin = getenv("FAULT_PLUGIN");
    char why[256] = "";
    ncclResult_t res;

    if (argc != 3 || plugin == NULL)
        return 2;
    signal(SIGALRM, out_of_time);
    alarm(PATIENCE_S);
    sends = strcmp(argv[1], "send") == 0;
    if (strcmp(argv[1], "newer") == 0) {
        newer(argv[2]);
        return 0;
    }
    if (debug != NULL && *debug != 0)
        host_log_copy(stderr, NCCL_LOG_WARN);
    if (host_load(&net, plugin, 0, why, sizeof why) != 0) {
        fprintf(stderr, "= NCCL finds no plugin: %s\n", why);
        return 1;
    }
    res = host_init(&net, 1);
    if (res != ncclSuccess)
        end("init", res);
    void *comm = meet(argv[2]);
    talk(comm);
    res = sends ? host_close_send(&net, comm) : host_close_recv(&net, comm);
    host_finalize(&net);
    end("all messages", res);
}
