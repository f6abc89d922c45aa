/* e2e_lines.c - LL and LL128: a thread polls the flags of the lines in memory, as a GPU does, while messages arrive over tcp
 * and over shared memory.  A line whose flag is new and whose data is not is torn.
 *
 *   ll      16-byte lines    data 4, flag 4, data 4, flag 4
 *   ll128   128-byte lines   data 120, flag 8; the flag is the last word
 *
 * LINES=1000000 in the environment: so many lines for each row, and a line that says how many were torn. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rank.h"

struct plan {
    const char *tls, *policy;
    enum host_proto proto;
    uint64_t messages;
    int said; /* the row prints what it has seen */
};

enum { SLOTS = HOST_SLOTS, LL_LINE = 16, LL128_LINE = 128, LL128_UNIT = 2048, SPINS = 1 << 20 };

static size_t slot_bytes(enum host_proto proto)
{
    return host_proto_bytes(proto) / SLOTS;
}

/* Whole lines, whole units of LL128; each size from one line to all of a slot comes, the largest (614400 bytes) often. */
static size_t message_bytes(const struct plan *p, uint64_t k)
{
    size_t unit = p->proto == HOST_LL ? LL_LINE : LL128_UNIT, units = slot_bytes(p->proto) / unit;

    if (k % 4 == 0)
        return units * unit;
    return (k % 4 == 1 ? 1 + k % 3 : 1 + k * 2654435761u % units) * unit;
}

static uint64_t lines_of(const struct plan *p, uint64_t messages)
{
    uint64_t lines = 0;

    for (uint64_t k = 0; k < messages; k++)
        lines += message_bytes(p, k) / (p->proto == HOST_LL ? LL_LINE : LL128_LINE);
    return lines;
}

static uint64_t data_of(uint64_t step, uint64_t word)
{
    return (step << 32 | word) * 0x9e3779b97f4a7c15u;
}

static void write_lines(uint64_t *w, size_t bytes, enum host_proto proto, uint64_t step)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        uint64_t d = data_of(step, i);
        if (proto == HOST_LL)
            w[i] = (d & 0xffffffffu) | step << 32;
        else
            w[i] = i % 16 == 15 ? step : d;
    }
}

/* The network writes what these read; for a thread checker that is a race, for the protocol it is the point. */
__attribute__((no_sanitize("thread"))) static uint64_t look(const uint64_t *w)
{
    return __atomic_load_n(w, __ATOMIC_ACQUIRE);
}

/* Waits for each line, then judges it; both words of LL carry their own flag. */
__attribute__((no_sanitize("thread"))) static uint64_t torn_lines(const uint64_t *w, size_t bytes, enum host_proto proto,
                                                                  uint64_t step)
{
    uint64_t torn = 0, first, word;
    int line = proto == HOST_LL ? 1 : 16;

    for (uint64_t i = 0; i < bytes / 8; i += (uint64_t)line) {
        /* spinning for longer than a copy takes, so that this thread is there while it goes on */
        for (int turn = 0; proto == HOST_LL ? look(&w[i]) >> 32 != step : look(&w[i + 15]) != step; turn++)
            if (turn % SPINS == SPINS - 1)
                sched_yield();
        for (first = i; i < first + (uint64_t)line - (line > 1); i++) {
            word = look(&w[i]);
            torn += proto == HOST_LL ? (uint32_t)word != (uint32_t)data_of(step, i) : word != data_of(step, i);
        }
        i = first;
    }
    return torn;
}

/* ---- the GPU's side: fills and reads slots, and lets the progress thread go on ---- */

struct gpu {
    const struct plan *plan;
    struct host_flow flow;
    pthread_t thread;
};

static uint64_t *slot_of(const struct gpu *g, uint64_t k)
{
    return (uint64_t *)(void *)(host_conn_buf(g->flow.conn, g->plan->proto) + k % SLOTS * slot_bytes(g->plan->proto));
}

static void *gpu_sends(void *arg)
{
    struct gpu *g = arg;

    for (uint64_t k = 0; k < g->flow.total; k++) {
        while (k >= atomic_load(&g->flow.finished) + SLOTS)
            usleep(50);
        write_lines(slot_of(g, k), message_bytes(g->plan, k), g->plan->proto, k + 1);
        atomic_store(&g->flow.allowed, k + 1);
    }
    return NULL;
}

static void *gpu_reads(void *arg)
{
    struct gpu *g = arg;
    uint64_t torn = 0;

    atomic_store(&g->flow.allowed, SLOTS);
    for (uint64_t k = 0; k < g->flow.total; k++) {
        torn += torn_lines(slot_of(g, k), message_bytes(g->plan, k), g->plan->proto, k + 1);
        atomic_store(&g->flow.allowed, k + 1 + SLOTS);
    }
    if (torn != 0 || g->plan->said)
        fprintf(stderr, "%s %s %s: %llu lines in %llu messages, %llu torn\n", g->plan->proto == HOST_LL ? "ll" : "ll128",
                g->plan->tls, g->plan->policy, (unsigned long long)lines_of(g->plan, g->flow.total),
                (unsigned long long)g->flow.total, (unsigned long long)torn);
    must(torn == 0);
    return NULL;
}

static void *at(struct host_flow *f, uint64_t k, size_t *bytes_p, void **mh_p)
{
    struct gpu *g = f->arg;

    *mh_p = f->conn->mh[f->proto];
    *bytes_p = f->conn->sends ? message_bytes(g->plan, k) : slot_bytes(f->proto);
    return slot_of(g, k);
}

static void lines_child(const void *arg, int fd, int side)
{
    struct gpu g = {.plan = arg};
    struct host_flow *one = &g.flow;
    struct host_conn c;
    struct rank r;

    if (strcmp(g.plan->tls, "tcp") != 0)
        setenv("GRADWIRE_UCX_TLS", g.plan->tls, 1);
    setenv("GRADWIRE_POLICY", g.plan->policy, 1);
    rank_open(&r, 0);
    far_open(&r, &c, fd, side);
    g.flow = (struct host_flow){.conn = &c, .proto = g.plan->proto, .depth = SLOTS, .total = g.plan->messages, .at = at,
                                .arg = &g};
    must(pthread_create(&g.thread, NULL, side == 0 ? gpu_sends : gpu_reads, &g) == 0);
    host_progress_run(&r.progress, &one, 1);
    rank_done(&r);
    pthread_join(g.thread, NULL);
    must(host_log_warns() == 0);
    rank_stop(&r);
    rank_conn_close(&r, &c);
    rank_close(&r);
}

static void play(const char *tls, const char *policy, enum host_proto proto, uint64_t messages)
{
    const char *wanted = getenv("LINES");
    struct plan p = {tls, policy, proto, messages, wanted != NULL};

    if (SANITIZED)
        p.messages /= 8; /* such a copy is slow, and torn lines are looked for by the plain build */
    if (wanted != NULL)
        for (p.messages = 1; lines_of(&p, p.messages) < strtoull(wanted, NULL, 10);)
            p.messages += 1 + p.messages / 16;
    child_two(lines_child, &p);
}

static void test_ll(void **state)
{
    (void)state;
    play("tcp", "always", HOST_LL, 1000);
    play("posix", "always", HOST_LL, 1000);
    play("tcp", "auto", HOST_LL, 300);
}

static void test_ll128(void **state)
{
    (void)state;
    play("tcp", "always", HOST_LL128, 1500);
    play("posix", "always", HOST_LL128, 1500);
    play("posix", "auto", HOST_LL128, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ll), cmocka_unit_test(test_ll128)};

    setenv("NCCL_DEBUG", "WARN", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
