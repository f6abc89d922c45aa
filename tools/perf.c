/* perf.c - the modes of gradwire perf.  Read perf_main; each codec gets ranks of its own, because a
 * plugin reads its settings at the first init of a process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf.h"

static int complain(const char *why)
{
    fprintf(stderr, "gradwire perf: %s\n", why);
    return PERF_FAILED;
}

static void hear(void *printer, const struct perf_report *r)
{
    if (r->kind == PERF_SAY_ROW)
        perf_print_row(printer, &r->u.row);
    else
        perf_print_plugin(printer, r->u.text);
}

static struct perf_session session_of(const struct perf_opts *o, int codec)
{
    struct perf_session s = o->session;

    memcpy(s.codec, o->codecs[codec], sizeof(s.codec));
    return s;
}

/* ---- two ranks here -------------------------------------------------------------------------- */

static int local_pair(struct perf_super *super, struct perf_seat *seat,
                      struct perf_printer *printer)
{
    int pair[2], failed;

    if (perf_super_open(super, hear, printer) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return complain("no descriptors for two ranks");
    seat->report = super->pipe[1];
    for (int rank = 1; rank >= 0; rank--) {
        seat->rank = rank;
        seat->client = rank == 0;
        seat->ctl = pair[rank];
        seat->spare = pair[!rank];
        if (perf_super_fork(super, rank, perf_rank_main, seat) != 0)
            complain("no process for a rank"); /* its partner will see the connection end */
    }
    close(pair[0]);
    close(pair[1]);
    failed = perf_super_wait(super);
    return failed != 0 ? PERF_FAILED : PERF_OK;
}

static int local(const struct perf_opts *o)
{
    struct perf_super super;
    struct perf_data data = {0};
    struct perf_printer *printer = perf_print_new(o);
    struct perf_seat seat = {.opts = o, .data = &data};
    char why[512];
    int failed = 0;

    if (printer == NULL || perf_data_make(&data, o, o->session.size_max, why, sizeof(why)) != 0) {
        free(printer);
        return complain(printer == NULL ? "no memory" : why);
    }
    perf_super_init(&super, o->json);
    for (int i = 0; i < o->ncodecs && !failed; i++) {
        seat.session = session_of(o, i);
        failed = local_pair(&super, &seat, printer);
    }
    free(data.bytes);
    return perf_print_end(printer, failed);
}

/* ---- one rank here, one there ---------------------------------------------------------------- */

static int one_rank(struct perf_super *super, struct perf_seat *seat, struct perf_printer *printer)
{
    if (perf_super_open(super, hear, printer) != 0)
        return complain("no descriptors for a rank");
    seat->report = super->pipe[1];
    if (perf_super_fork(super, seat->rank, perf_rank_main, seat) != 0)
        return complain("no process for a rank");
    return perf_super_wait(super) != 0 ? PERF_FAILED : PERF_OK;
}

static int client(const struct perf_opts *o)
{
    struct perf_super super;
    struct perf_seat seat = {.opts = o, .client = true, .spare = -1};
    uint8_t body[256];
    char why[512];
    int failed = 0;

    seat.ctl = perf_meet_client(o->address, o->code, why, sizeof(why));
    if (seat.ctl < 0)
        return complain(why);
    struct perf_printer *printer = perf_print_new(o);
    if (printer == NULL)
        return complain("no memory");
    perf_super_init(&super, o->json);
    for (int i = 0; i < o->ncodecs && !failed; i++) {
        seat.session = session_of(o, i);
        failed = perf_send(seat.ctl, PERF_MSG_SESSION, body,
                           perf_session_write(body, &seat.session)) != 0;
        failed = failed ? complain("the server is gone") : one_rank(&super, &seat, printer);
    }
    close(seat.ctl);
    return perf_print_end(printer, failed);
}

/* 1 a session, 0 the client has finished, -1 nonsense, told to both sides */
static int next_session(int fd, struct perf_msg *m, struct perf_session *s)
{
    static const char refusal[] = "the server cannot take this session";
    int got = perf_recv(fd, m, PERF_WAIT_MS);

    if (got == -1)
        return 0;
    if (got == 1 && m->type == PERF_MSG_SESSION && perf_session_read(m, s) == 0)
        return 1;
    if (got == 1 && m->type == PERF_MSG_FAIL)
        fprintf(stderr, "gradwire perf: the client failed: %s\n", perf_msg_text(m));
    else
        complain("the client asks for what cannot be");
    perf_send(fd, PERF_MSG_FAIL, refusal, sizeof(refusal) - 1);
    return -1;
}

static int serve(const struct perf_opts *o)
{
    struct perf_super super;
    struct perf_seat seat = {.opts = o, .rank = 1, .spare = -1};
    struct perf_msg *m = malloc(sizeof(*m));
    char why[512] = "no memory";
    int got, failed = 0, sessions = 0;

    seat.ctl = m != NULL ? perf_meet_server(o->address, why, sizeof(why)) : -1;
    if (seat.ctl < 0) {
        free(m);
        return complain(why);
    }
    perf_super_init(&super, true);
    while (!failed && (got = next_session(seat.ctl, m, &seat.session)) != 0) {
        failed = got < 0 ? PERF_FAILED : one_rank(&super, &seat, NULL);
        sessions += !failed;
    }
    close(seat.ctl);
    free(m);
    if (!failed && sessions == 0)
        failed = complain("the client went away without asking for anything");
    if (!failed)
        printf("%d %s served\n", sessions, sessions == 1 ? "codec" : "codecs");
    return failed ? PERF_FAILED : PERF_OK;
}

int perf_main(int argc, char **argv)
{
    struct perf_opts o;
    int code = perf_opts_read(&o, argc, argv);

    if (code < 0)
        code = o.mode == PERF_LOCAL    ? local(&o)
               : o.mode == PERF_CLIENT ? client(&o)
               : o.mode == PERF_SERVE  ? serve(&o)
                                       : perf_ring(&o);
    free(o.files);
    return code;
}
