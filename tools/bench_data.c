/* bench_data.c - a file in memory, repeated until no cache holds it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

enum { HUGE = 2 << 20 };

static size_t mapped(size_t len)
{
    return (len + HUGE - 1) / HUGE * HUGE;
}

/* Whole huge pages must begin at one: what stands before and behind goes back. */
void *bench_map(size_t len)
{
    size_t want = mapped(len);
    char *all = mmap(NULL, want + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (all == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE - (uintptr_t)all % HUGE) % HUGE;
    if (skip > 0)
        munmap(all, skip);
    if (skip < HUGE)
        munmap(all + skip + want, HUGE - skip);
    madvise(all + skip, want, MADV_HUGEPAGE); /* without, it is slower and not wrong */
    return all + skip;
}

void bench_unmap(void *p, size_t len)
{
    if (p != NULL)
        munmap(p, mapped(len));
}

/* As many bytes as there are, at most cap; -1 with errno. */
static ssize_t read_all(int fd, uint8_t *to, size_t cap)
{
    size_t got = 0;

    while (got < cap) {
        size_t rest = cap - got;
        ssize_t n = read(fd, to + got, rest < 1 << 20 ? rest : 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static bool ends_in(const char *name, const char *ending)
{
    size_t n = strlen(name), e = strlen(ending);

    return n > e && strcasecmp(name + n - e, ending) == 0;
}

/* f32 that holds bf16 is still found by the picker. */
static enum gw_view view_of(const struct bench_data *d, int type)
{
    enum gw_view picked = gw_view_pick(d->bytes, d->file_len, NULL);

    if (type >= 0)
        return (enum gw_view)type;
    if (ends_in(d->file, ".bf16"))
        return GW_VIEW_BF16;
    if (ends_in(d->file, ".f16"))
        return GW_VIEW_F16;
    if (ends_in(d->file, ".f32"))
        return picked == GW_VIEW_F32_BF16 ? picked : GW_VIEW_F32;
    return picked;
}

/* Magnitudes of its f32: what twobit and levels are told. */
static void measure(struct bench_data *d)
{
    double sum = 0;
    size_t n = 0;

    for (size_t at = 0; d->width == 4 && at + 4 <= d->file_len; at += 4) {
        float v;
        memcpy(&v, d->bytes + at, 4);
        if (isfinite(v))
            sum += fabs((double)v), n++, d->most = fmaxf(d->most, fabsf(v));
    }
    d->mean = n > 0 ? (float)(sum / (double)n) : 0;
}

/* The copies begin at whole values, so that a view fits all of them. */
static void repeat(struct bench_data *d)
{
    size_t unit = d->file_len >= d->width ? d->file_len / d->width * d->width : d->file_len;

    for (size_t at = unit; at < d->len;) {
        size_t n = d->len - at < at ? d->len - at : at;
        memcpy(d->bytes + at, d->bytes, n);
        at += n;
    }
}

static int load(struct bench_data *d, const struct bench_opts *o, int fd, char *why, size_t why_size)
{
    uint8_t more;
    size_t calls = (o->bytes > o->span ? o->bytes : o->span) / o->size + 1;

    d->mapped = calls * o->size;
    d->bytes = bench_map(d->mapped);
    if (d->bytes == NULL) {
        snprintf(why, why_size, "%s: no memory for %zu bytes: give a smaller --span or --bytes", d->file, d->mapped);
        return -1;
    }
    ssize_t got = read_all(fd, d->bytes, o->bytes);
    if (got <= 0) {
        snprintf(why, why_size, "%s: %s", d->file, got == 0 ? "is empty" : strerror(errno));
        return -1;
    }
    d->file_len = (size_t)got;
    d->cut = d->file_len == o->bytes && read_all(fd, &more, 1) == 1;
    size_t want = d->file_len > o->span ? d->file_len : o->span;
    d->len = (want / o->size + (want < o->size)) * o->size;
    d->view = view_of(d, o->type);
    d->width = d->view == GW_VIEW_BYTES ? 1 : d->view == GW_VIEW_F32 || d->view == GW_VIEW_F32_BF16 ? 4 : 2;
    measure(d);
    repeat(d);
    return 0;
}

int bench_data_read(struct bench_data *d, const struct bench_opts *o, const char *file, char *why, size_t why_size)
{
    int status = -1, fd = open(file, O_RDONLY | O_CLOEXEC);

    *d = (struct bench_data){.file = file};
    if (fd < 0)
        snprintf(why, why_size, "%s: %s", file, strerror(errno));
    else
        status = load(d, o, fd, why, why_size);
    if (fd >= 0)
        close(fd);
    return status;
}

void bench_data_free(struct bench_data *d)
{
    bench_unmap(d->bytes, d->mapped);
    d->bytes = NULL;
}
