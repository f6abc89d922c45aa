/* bench.c - gradwire bench.  Read bench_main: every file, every rival, every kernel set; a row each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

struct bench {
    const struct bench_opts *o;
    struct bench_row *rows;
    size_t nrows, done, all;
    bool bar;
};

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "gradwire bench: %s%s%s\n", what, *why ? ": " : "", why);
    return BENCH_FAILED;
}

/* ---- progress, for people only ---- */

static void bar_clear(const struct bench *b)
{
    if (b->bar)
        fputs("\r\033[K", stderr);
}

static void bar_draw(const struct bench *b, const char *file, const char *what, const char *kernel)
{
    enum { WIDE = 24 };
    char done[WIDE + 1];
    size_t at = b->all > 0 ? b->done * WIDE / b->all : 0;
    const char *base = strrchr(file, '/');

    if (!b->bar)
        return;
    memset(done, '.', WIDE), memset(done, '#', at), done[WIDE] = '\0';
    fprintf(stderr, "\r\033[K[%s] %zu/%zu %.32s %s %s", done, b->done, b->all, base ? base + 1 : file, what, kernel);
    fflush(stderr);
}

/* ---- who takes part ---- */

static bool wanted(const struct bench_opts *o, const struct bench_rival *r)
{
    if (o->codecs == NULL || bench_listed(o->codecs, r->name))
        return true;
    return bench_listed(o->codecs, r->codec == NULL ? "peers" : bench_rival_lossy(r) ? "lossy" : "lossless");
}

/* Lossy codecs take f32; only who asks for one by its name is told. */
static bool suits(const struct bench *b, const struct bench_data *d, const struct bench_rival *r)
{
    if (!bench_rival_lossy(r) || d->view == GW_VIEW_F32 || d->view == GW_VIEW_F32_BF16)
        return true;
    if (b->o->codecs != NULL && bench_listed(b->o->codecs, r->name)) {
        bar_clear(b);
        fprintf(stderr, "gradwire bench: %s: %s takes f32 alone: --type f32 if that is what it holds\n", d->file, r->name);
    }
    return false;
}

/* The i-th kernel set a rival is measured with; other libraries choose theirs themselves. */
static const char *kernel_at(const struct bench_opts *o, const struct bench_rival *r, size_t i)
{
    const char *name;

    if (r->codec == NULL)
        return i == 0 ? "-" : NULL;
    for (size_t k = 0; (name = gw_kern_name_at(k)) != NULL; k++)
        if ((o->kernels == NULL || bench_listed(o->kernels, name)) && i-- == 0)
            return name;
    return NULL;
}

static size_t rows_of(const struct bench_opts *o)
{
    const struct bench_rival *r;
    size_t n = 0;

    for (size_t i = 0; (r = bench_rival_at(i)) != NULL; i++)
        for (size_t k = 0; wanted(o, r) && kernel_at(o, r, k) != NULL; k++)
            n++;
    return n;
}

/* ---- all of it ---- */

static int one_row(struct bench *b, const struct bench_data *d, const struct bench_rival *r, const char *kernel)
{
    struct bench_row *row = &b->rows[b->nrows];

    bar_draw(b, d->file, r->name, kernel);
    snprintf(row->kernel, sizeof(row->kernel), "%s", kernel);
    gw_kern_select(r->codec != NULL ? kernel : NULL);
    if (bench_run(b->o, d, r, row) != 0) {
        bar_clear(b);
        return complain("no memory or no threads", "give a smaller --span, --size or --threads");
    }
    b->nrows++;
    bar_clear(b);
    bench_print_row(b->o, row);
    return 0;
}

static int one_file(struct bench *b, struct bench_data *d)
{
    const struct bench_rival *r;
    const char *kernel;
    size_t first = b->nrows;

    bench_print_file(b->o, d);
    for (size_t i = 0; (r = bench_rival_at(i)) != NULL; i++) {
        if (!wanted(b->o, r))
            continue;
        bool fits = suits(b, d, r);
        for (size_t k = 0; (kernel = kernel_at(b->o, r, k)) != NULL; k++, b->done++)
            if (fits && one_row(b, d, r, kernel) != 0)
                return BENCH_FAILED;
    }
    bench_print_gains(b->o, b->rows + first, b->nrows - first);
    return BENCH_OK;
}

static int results(const struct bench *b)
{
    int code = BENCH_OK;

    if (b->o->json != NULL && bench_json(b->o, b->rows, b->nrows) != 0)
        code = complain(b->o->json, strerror(errno));
    if (b->o->plot != NULL && bench_plot(b->o, b->rows, b->nrows) != 0)
        code = complain(b->o->plot, strerror(errno));
    for (size_t i = 0; i < b->nrows; i++)
        if (b->rows[i].changed) {
            fprintf(stderr, "gradwire bench: %s: %s (%s) gave back other bytes or none\n", b->rows[i].data->file,
                    b->rows[i].rival->name, b->rows[i].kernel);
            code = BENCH_CHANGED;
        }
    return code;
}

/* Nothing is measured until every file is there and every result can be written. */
static int file_look(const char *file)
{
    struct stat st;

    if (stat(file, &st) != 0 || access(file, R_OK) != 0)
        return complain(file, strerror(errno));
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0))
        return complain(file, S_ISDIR(st.st_mode) ? "is a directory" : "is empty");
    return BENCH_OK;
}

static int result_look(const char *path)
{
    FILE *f = path != NULL && strcmp(path, "-") != 0 ? fopen(path, "a") : stdout;

    if (f == NULL)
        return complain(path, strerror(errno));
    if (f != stdout)
        fclose(f);
    return BENCH_OK;
}

static int files_look(const struct bench_opts *o)
{
    int bad = result_look(o->json) != BENCH_OK || result_look(o->plot) != BENCH_OK;

    for (int i = 0; i < o->nfiles && !bad; i++)
        bad = file_look(o->files[i]) != BENCH_OK;
    return bad ? BENCH_USAGE : BENCH_OK;
}

static int files_run(struct bench *b, struct bench_data *data)
{
    char why[512];
    int code = BENCH_OK;

    for (int i = 0; i < b->o->nfiles && code == BENCH_OK; i++) {
        if (bench_data_read(&data[i], b->o, b->o->files[i], why, sizeof(why)) != 0) {
            complain(why, "");
            bench_data_free(&data[i]);
            return BENCH_USAGE;
        }
        code = one_file(b, &data[i]);
        bench_data_free(&data[i]);
    }
    return code;
}

int bench_main(int argc, char **argv)
{
    struct bench_opts o;
    int code = bench_opts_read(&o, argc, argv);

    if (code >= 0 || (code = files_look(&o)) != BENCH_OK)
        return code;
    size_t each = rows_of(&o);
    struct bench b = {.o = &o, .all = each * (size_t)o.nfiles, .bar = isatty(STDERR_FILENO)};
    struct bench_data *data = calloc((size_t)o.nfiles, sizeof(*data));
    b.rows = calloc(b.all + 1, sizeof(*b.rows));
    if (data == NULL || b.rows == NULL)
        code = complain("no memory", "");
    else
        code = files_run(&b, data);
    if (code == BENCH_OK)
        code = results(&b);
    free(b.rows);
    free(data);
    return code;
}
