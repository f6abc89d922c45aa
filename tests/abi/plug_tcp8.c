/* plug_tcp8.c - the smallest honest net plugin: v8, plain TCP over loopback.
 *
 * It shows that gradwire perf drives plugins that are not ours, and is the other end of tests that
 * need one.  A message is its length in four bytes and then itself; one connection carries one
 * direction, in order. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <nccl/abi.h>

#define warn(...)                                                                                  \
    (log_fn != NULL ? log_fn(NCCL_LOG_WARN, NCCL_ALL, __FILE__, __LINE__, __VA_ARGS__) : (void)0)

enum { REQS = NCCL_NET_MAX_REQUESTS };

struct req {
    struct comm *comm; /* NULL: free */
    char *data;
    uint32_t room, size, at; /* at counts the four bytes of length too */
    int done;
};

struct comm {
    int fd;
    int sends;
    ncclResult_t broken;
    unsigned posted, moved; /* requests taken, requests whose bytes have all moved */
    struct req req[REQS];
};

/* In NCCL's writable 128 bytes: where to connect, and between two tries the socket that is on its
 * way. */
struct place {
    uint32_t magic;
    uint16_t port;
    uint16_t started;
    int fd;
};

static ncclDebugLogger_t log_fn;

static ncclResult_t init(ncclDebugLogger_t log)
{
    log_fn = log;
    return ncclSuccess;
}

static ncclResult_t devices(int *ndev)
{
    *ndev = 1;
    return ncclSuccess;
}

static ncclResult_t properties(int dev, ncclNetProperties_v8_t *p)
{
    static char name[] = "lo";

    if (dev != 0)
        return ncclInvalidArgument;
    memset(p, 0, sizeof(*p));
    p->name = name;
    p->guid = 1;
    p->ptrSupport = NCCL_PTR_HOST;
    p->speed = 10000;
    p->port = 1;
    p->maxComms = 65536;
    p->maxRecvs = 1;
    p->netDeviceType = NCCL_NET_DEVICE_HOST;
    return ncclSuccess;
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = port};

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sa;
}

static ncclResult_t listen8(int dev, void *handle, void **listen_comm)
{
    struct place place = {.magic = 0x38706374};
    struct sockaddr_in sa = loopback(0);
    socklen_t len = sizeof(sa);
    struct comm *l = calloc(1, sizeof(*l));

    if (l == NULL || dev != 0)
        goto fail;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        goto fail;
    if (bind(l->fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(l->fd, 8) != 0 ||
        getsockname(l->fd, (struct sockaddr *)&sa, &len) != 0)
        goto close_fd;
    place.port = sa.sin_port;
    memcpy(handle, &place, sizeof(place));
    *listen_comm = l;
    return ncclSuccess;
close_fd:
    close(l->fd);
fail:
    warn("tcp8: listen: %s", strerror(errno));
    free(l);
    return ncclSystemError;
}

static ncclResult_t comm_new(int fd, int sends, void **comm_p)
{
    struct comm *c = calloc(1, sizeof(*c));
    int one = 1;

    if (c == NULL) {
        close(fd);
        return ncclSystemError;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->fd = fd;
    c->sends = sends;
    *comm_p = c;
    return ncclSuccess;
}

static ncclResult_t connect8(int dev, void *handle, void **send_comm,
                             ncclNetDeviceHandle_t **dev_comm)
{
    struct place place;

    (void)dev, (void)dev_comm;
    memcpy(&place, handle, sizeof(place));
    *send_comm = NULL;
    if (place.magic != 0x38706374) {
        warn("tcp8: connect: this handle is not ours");
        return ncclInvalidUsage;
    }
    if (!place.started) {
        place.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (place.fd < 0)
            return ncclSystemError;
        place.started = 1;
        memcpy(handle, &place, sizeof(place));
    }
    struct sockaddr_in sa = loopback(place.port);
    if (connect(place.fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 && errno != EISCONN) {
        if (errno == EINPROGRESS || errno == EALREADY || errno == EINTR)
            return ncclSuccess;
        warn("tcp8: connect: %s", strerror(errno));
        close(place.fd);
        return ncclSystemError;
    }
    return comm_new(place.fd, 1, send_comm);
}

static ncclResult_t accept8(void *listen_comm, void **recv_comm, ncclNetDeviceHandle_t **dev_comm)
{
    struct comm *l = listen_comm;
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)dev_comm;
    *recv_comm = NULL;
    if (fd >= 0)
        return comm_new(fd, 0, recv_comm);
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return ncclSuccess;
    warn("tcp8: accept: %s", strerror(errno));
    return ncclSystemError;
}

static ncclResult_t reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    (void)data, (void)size;
    *mhandle = comm;
    return type == NCCL_PTR_HOST ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t dereg(void *comm, void *mhandle)
{
    (void)comm, (void)mhandle;
    return ncclSuccess;
}

static ncclResult_t post(struct comm *c, void *data, size_t size, void **request)
{
    struct req *r = &c->req[c->posted % REQS];

    *request = NULL;
    if (c->broken != ncclSuccess)
        return c->broken;
    if (r->comm != NULL)
        return ncclSuccess;
    *r = (struct req){.comm = c, .data = data, .room = (uint32_t)size, .size = (uint32_t)size};
    c->posted++;
    *request = r;
    return ncclSuccess;
}

static ncclResult_t isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    (void)tag, (void)mhandle;
    return post(comm, data, (size_t)size, request);
}

static ncclResult_t irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request)
{
    (void)tags, (void)mhandles;
    return n == 1 ? post(comm, data[0], (size_t)sizes[0], request) : ncclInvalidUsage;
}

/* The part of the message that has not moved: length first, then bytes. */
static int rest(struct req *r, struct iovec iov[2])
{
    int n = 0;

    if (r->at < 4)
        iov[n++] = (struct iovec){(char *)&r->size + r->at, 4 - r->at};
    uint32_t at = r->at < 4 ? 0 : r->at - 4;
    if (r->size != at)
        iov[n++] = (struct iovec){r->data + at, r->size - at};
    return n;
}

/* 1 all moved, 0 the socket takes or has no more, -1 broken */
static int req_move(struct comm *c, struct req *r)
{
    struct iovec iov[2];

    for (int n; (n = rest(r, iov)) != 0;) {
        if (!c->sends && r->at < 4)
            n = 1; /* the true size is not known yet */
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t got = c->sends ? sendmsg(c->fd, &msg, MSG_NOSIGNAL) : recvmsg(c->fd, &msg, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0) {
            warn("tcp8: the peer is gone: %s", got == 0 ? "end of stream" : strerror(errno));
            c->broken = ncclRemoteError;
            return -1;
        }
        r->at += (uint32_t)got;
        if (r->at == 4 && r->size > r->room) {
            warn("tcp8: %u bytes came for a receive of %u", r->size, r->room);
            c->broken = ncclInternalError;
            return -1;
        }
    }
    return 1;
}

static ncclResult_t test(void *request, int *done, int *sizes)
{
    struct req *r = request;
    struct comm *c = r->comm;

    *done = 0;
    while (c->moved != c->posted && !r->done) {
        struct req *oldest = &c->req[c->moved % REQS];
        int moved = c->broken == ncclSuccess ? req_move(c, oldest) : -1;
        if (moved < 0)
            return c->broken;
        if (moved == 0)
            return ncclSuccess;
        oldest->done = 1;
        c->moved++;
    }
    *done = 1;
    if (sizes != NULL)
        sizes[0] = (int)r->size;
    r->comm = NULL;
    return ncclSuccess;
}

static ncclResult_t flush(void *comm, int n, void **data, int *sizes, void **mhandles,
                          void **request)
{
    (void)comm, (void)n, (void)data, (void)sizes, (void)mhandles;
    *request = NULL;
    return ncclSuccess;
}

static ncclResult_t shut(void *comm)
{
    struct comm *c = comm;

    close(c->fd);
    free(c);
    return ncclSuccess;
}

extern const ncclNet_v8_t ncclNetPlugin_v8;
__attribute__((visibility("default"))) const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "Tcp8",
    .init = init,
    .devices = devices,
    .getProperties = properties,
    .listen = listen8,
    .connect = connect8,
    .accept = accept8,
    .regMr = reg,
    .deregMr = dereg,
    .isend = isend,
    .irecv = irecv,
    .iflush = flush,
    .test = test,
    .closeSend = shut,
    .closeRecv = shut,
    .closeListen = shut,
};
