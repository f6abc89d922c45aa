/* perf_gpu.c - what a GPU does with LL and LL128 buffers: it fills lines of data and flags, and on
 * the other side polls the flags in memory while the network writes.
 *
 *   ll      16-byte lines   data 4, flag 4, data 4, flag 4           flags are the step + 1
 *   ll128   128-byte lines  data 120, flag 8; whole units of 16 lines
 */
#include <sched.h>
#include <string.h>

#include "perf_rank.h"

enum { LL_LINE = 16, LL_DATA = 8, LL128_LINE = 128, LL128_DATA = 120, LL128_UNIT_LINES = 16 };

static size_t lines_of(enum host_proto proto, size_t payload)
{
    size_t lines;

    if (proto == HOST_LL)
        return (payload + LL_DATA - 1) / LL_DATA;
    lines = (payload + LL128_DATA - 1) / LL128_DATA;
    return (lines + LL128_UNIT_LINES - 1) / LL128_UNIT_LINES * LL128_UNIT_LINES;
}

size_t gpu_wire_bytes(enum host_proto proto, size_t payload)
{
    return lines_of(proto, payload) * (proto == HOST_LL ? LL_LINE : LL128_LINE);
}

static char *slot_of(const struct dir *d, uint64_t k)
{
    size_t slot = host_proto_bytes(d->flow.proto) / HOST_SLOTS;

    return host_conn_buf(&d->conn, d->flow.proto) + (d->base + k) % HOST_SLOTS * slot;
}

static void fill_ll(char *slot, const char *from, size_t payload, uint64_t step)
{
    uint32_t line[4] = {0, (uint32_t)step, 0, (uint32_t)step};

    for (size_t at = 0; at < payload; at += LL_DATA, slot += LL_LINE) {
        char two[LL_DATA] = {0};
        memcpy(two, from + at, payload - at < LL_DATA ? payload - at : LL_DATA);
        memcpy(&line[0], two, 4);
        memcpy(&line[2], two + 4, 4);
        memcpy(slot, line, LL_LINE);
    }
}

static void fill_ll128(char *slot, const char *from, size_t payload, uint64_t step)
{
    size_t lines = lines_of(HOST_LL128, payload);

    for (size_t i = 0; i < lines; i++, slot += LL128_LINE) {
        size_t at = i * LL128_DATA, n = at < payload ? payload - at : 0;
        memset(slot, 0, LL128_DATA);
        memcpy(slot, from + at, n < LL128_DATA ? n : LL128_DATA);
        memcpy(slot + LL128_DATA, &step, 8);
    }
}

static bool fill_step(struct dir *d)
{
    uint64_t k = atomic_load_explicit(&d->gpu, memory_order_relaxed);
    size_t payload = run_msg_bytes(d->rank, k);

    if (k == d->flow.total || k >= atomic_load_explicit(&d->gate, memory_order_acquire) ||
        k - atomic_load_explicit(&d->flow.finished, memory_order_acquire) >= HOST_SLOTS)
        return false;
    const char *from = run_window(d, k);
    if (d->flow.proto == HOST_LL)
        fill_ll(slot_of(d, k), from, payload, d->base + k + 1);
    else
        fill_ll128(slot_of(d, k), from, payload, d->base + k + 1);
    run_digest(d, k, from, payload);
    atomic_store_explicit(&d->gpu, k + 1, memory_order_relaxed);
    atomic_store_explicit(&d->flow.allowed, k + 1, memory_order_release);
    return true;
}

/* The network writes what these two read; for a thread checker that is a race, for the protocol it
 * is the point. */
__attribute__((no_sanitize("thread"))) static bool read_ll(const char *line, uint64_t step,
                                                           char *out)
{
    const uint64_t *half = (const uint64_t *)(const void *)line;
    uint64_t a = __atomic_load_n(&half[0], __ATOMIC_ACQUIRE),
             b = __atomic_load_n(&half[1], __ATOMIC_ACQUIRE);

    if (a >> 32 != (uint32_t)step || b >> 32 != (uint32_t)step)
        return false;
    uint64_t data = (a & 0xffffffffu) | b << 32;
    memcpy(out, &data, LL_DATA);
    return true;
}

__attribute__((no_sanitize("thread"))) static bool read_ll128(const char *line, uint64_t step,
                                                              char *out)
{
    const uint64_t *words = (const uint64_t *)(const void *)line;

    if (__atomic_load_n(&words[15], __ATOMIC_ACQUIRE) != step)
        return false;
    for (int i = 0; i < 15; i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        memcpy(out + 8 * i, &word, 8);
    }
    return true;
}

static void landed(struct dir *d, uint64_t k, size_t payload)
{
    run_digest(d, k, d->rank->gpu_scratch, payload);
    atomic_store_explicit(&d->gpu, k + 1, memory_order_relaxed);
    atomic_store_explicit(&d->flow.allowed, k + 1 + HOST_SLOTS, memory_order_release);
    if (d->answer != NULL) {
        uint64_t now = host_now_ns();
        run_sample(d->rank, (now - d->landed_ns) / 2);
        d->landed_ns = now;
        atomic_fetch_add_explicit(&d->answer->gate, 1, memory_order_release);
    }
}

/* Reads one message as far as its lines are there.  Several connections share the scratch, so a
 * message that is begun is read again from its first line when the turn comes back: reading is
 * cheap and flags stay. */
static bool read_step(struct dir *d)
{
    uint64_t k = atomic_load_explicit(&d->gpu, memory_order_relaxed);
    size_t payload = run_msg_bytes(d->rank, k), lines = lines_of(d->flow.proto, payload);
    const char *slot;
    char *out = d->rank->gpu_scratch;

    if (k == d->flow.total || k >= atomic_load_explicit(&d->flow.allowed, memory_order_relaxed))
        return false;
    slot = slot_of(d, k);
    for (size_t i = 0; i < lines; i++) {
        bool there = d->flow.proto == HOST_LL
                         ? read_ll(slot + i * LL_LINE, d->base + k + 1, out + i * LL_DATA)
                         : read_ll128(slot + i * LL128_LINE, d->base + k + 1, out + i * LL128_DATA);
        if (!there)
            return false;
    }
    landed(d, k, payload);
    return true;
}

static bool gpu_done(const struct dir *d)
{
    return atomic_load_explicit(&d->gpu, memory_order_relaxed) == d->flow.total;
}

void *gpu_main(void *arg)
{
    struct rank *r = arg;
    bool left = true;

    while (left && !atomic_load_explicit(&r->gpu_stop, memory_order_relaxed)) {
        bool moved = false;
        left = false;
        for (unsigned i = 0; i < r->nout; i++) {
            moved |= fill_step(&r->out[i]);
            left |= !gpu_done(&r->out[i]);
        }
        for (unsigned i = 0; i < r->nin; i++) {
            moved |= read_step(&r->in[i]);
            left |= !gpu_done(&r->in[i]);
        }
        if (!moved)
            sched_yield();
    }
    atomic_store_explicit(&r->gpu_ended, !left, memory_order_release);
    return NULL;
}
