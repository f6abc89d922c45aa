/* bench_opts.c - the command line of bench.  Read bench_opts_read. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "text.h"

static const char help[] =
    "usage: gradwire bench [options] FILE...\n"
    "\n"
    "Codes files of raw values with every codec and kernel set there is, and with other\n"
    "libraries that were here at build time, checks what comes back and prints size and speed.\n"
    "GB/s are 10^9 raw bytes a second; ratio is coded / raw with all heads, smaller is better.\n"
    "Speeds are medians of rounds in which memcpy, encoding and decoding take turns over the\n"
    "same buffers, larger than the caches; quartiles stand in brackets.  Only the shares of\n"
    "memcpy mean something on a machine that does other things beside.\n"
    "\n"
    "  --type T         how the bytes are read: f32, bf16, f16, bytes, or auto: from the file's\n"
    "                   ending, else from a sample (default)\n"
    "  --codec A,B      only these: names, or lossless, lossy, peers (default all; lossy codecs\n"
    "                   take f32 alone)\n"
    "  --kernel A,B     only these kernel sets: avx2, scalar, ... (default: all that run here)\n"
    "  --threads N      so many at once, 1 to 256 (default 1)\n"
    "  --rounds N       1 to 1000 (default 15)\n"
    "  --seconds S      at most so long for the rounds of one row; slow codecs then take fewer\n"
    "                   calls in a round (0.001 to 3600, default 1)\n"
    "  --size N         bytes of a call, 256 to 64M; K, M, G are powers of 1024 (default 1M)\n"
    "  --span N         bytes of the buffers, the file is repeated in them, 64K to 4G\n"
    "                   (default 64M)\n"
    "  --bytes N        at most so many of each file, 1 to 4G (default 64M)\n"
    "  --param N        the parameter of lossy codecs that have one, as 32 bits of the frame\n"
    "                   (default: what suits the file: twobit its mean\n"
    "                   magnitude, levels its largest; levels: 8 bits, 2 ranks)\n"
    "  --plot FILE.svg  ratio against speed as a picture\n"
    "  --json FILE      an object with `rows`; - is standard output, instead of the table\n"
    "  --help, --version\n"
    "\n"
    "exit code  0 all well               2 wrong usage, or a file that cannot be read\n"
    "           1 something failed       4 a lossless codec gave back other bytes\n";

enum {
    O_TYPE = 256, O_CODEC, O_KERNEL, O_THREADS, O_ROUNDS, O_SECONDS, O_SIZE, O_SPAN, O_BYTES, O_PARAM, O_PLOT, O_JSON, O_VERSION
};
static const struct option longs[] = {
    {"type", required_argument, NULL, O_TYPE},       {"codec", required_argument, NULL, O_CODEC},
    {"kernel", required_argument, NULL, O_KERNEL},   {"threads", required_argument, NULL, O_THREADS},
    {"rounds", required_argument, NULL, O_ROUNDS},   {"seconds", required_argument, NULL, O_SECONDS},
    {"size", required_argument, NULL, O_SIZE},       {"span", required_argument, NULL, O_SPAN},
    {"bytes", required_argument, NULL, O_BYTES},     {"param", required_argument, NULL, O_PARAM},
    {"plot", required_argument, NULL, O_PLOT},       {"json", required_argument, NULL, O_JSON},
    {"help", no_argument, NULL, 'h'},                {"version", no_argument, NULL, O_VERSION},
    {NULL, 0, NULL, 0},
};

static const char *bounds_of(int opt)
{
    static const struct { int opt; const char *say; } bounds[] = {
        {O_TYPE, "give f32, bf16, f16, bytes or auto"},
        {O_CODEC, "give names that `gradwire info` lists, or lossless, lossy, peers, with commas between"},
        {O_KERNEL, "give kernel sets that run here, with commas between"},
        {O_THREADS, "give 1 to 256"},
        {O_ROUNDS, "give 1 to 1000"},
        {O_SECONDS, "give 0.001 to 3600"},
        {O_SIZE, "give bytes from 256 to 64M"},
        {O_SPAN, "give bytes from 64K to 4G"},
        {O_BYTES, "give bytes from 1 to 4G"},
        {O_PARAM, "give 0 to 4294967295"},
        {O_PLOT, "give a file to write"},
        {O_JSON, "give a file to write, or -"},
    };

    for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++)
        if (bounds[i].opt == opt)
            return bounds[i].say;
    return "give something else";
}

static int wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int wrong(const char *fmt, ...)
{
    va_list ap;

    fputs("gradwire bench: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("; see gradwire bench --help\n", stderr);
    return BENCH_USAGE;
}

const char *bench_size_text(uint64_t bytes, char text[16])
{
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;

    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0)
        bytes /= 1024, unit++;
    snprintf(text, 16, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

static int number(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    char *end;

    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || errno != 0 || *text < '0' || *text > '9')
        return -1;
    unsigned shift = text_unit(&end);
    if (*end != '\0' || v > high >> shift || v << shift < low)
        return -1;
    *out = (uint64_t)v << shift;
    return 0;
}

static int count(const char *text, int high, int *out)
{
    uint64_t v;

    if (number(text, 1, (uint64_t)high, &v) != 0)
        return -1;
    *out = (int)v;
    return 0;
}

static int type_read(const char *text, int *out)
{
    static const char *const names[] = {"bytes", "bf16", "f32", "f16"};

    *out = -1;
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            *out = i;
    return *out >= 0 || strcmp(text, "auto") == 0 ? 0 : -1;
}
_Static_assert(GW_VIEW_BYTES == 0 && GW_VIEW_BF16 == 1 && GW_VIEW_F32 == 2 && GW_VIEW_F16 == 3, "type_read's order");

int bench_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return 1;
    return 0;
}

static int known_codec(const char *name)
{
    static const char groups[] = "lossless,lossy,peers";
    const struct bench_rival *r;

    for (size_t i = 0; (r = bench_rival_at(i)) != NULL; i++)
        if (strcmp(r->name, name) == 0)
            return 1;
    return bench_listed(groups, name);
}

static int known_kernel(const char *name)
{
    const char *have;

    for (size_t i = 0; (have = gw_kern_name_at(i)) != NULL; i++)
        if (strcmp(have, name) == 0)
            return 1;
    return 0;
}

/* Every word of a list must be known. */
static int list_read(const char *text, int (*known)(const char *), const char **out)
{
    char word[BENCH_NAME_BYTES];

    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof(word))
            return -1;
        memcpy(word, at, n);
        word[n] = '\0';
        if (!known(word))
            return -1;
        at += n;
        if (*at == '\0')
            break;
    }
    *out = text;
    return 0;
}

static int take(struct bench_opts *o, int opt, char *arg)
{
    uint64_t v = 0;
    int status;

    switch (opt) {
    case O_TYPE:
        return type_read(arg, &o->type);
    case O_CODEC:
        return list_read(arg, known_codec, &o->codecs);
    case O_KERNEL:
        return list_read(arg, known_kernel, &o->kernels);
    case O_THREADS:
        return count(arg, BENCH_THREADS_MAX, &o->threads);
    case O_ROUNDS:
        return count(arg, BENCH_ROUNDS_MAX, &o->rounds);
    case O_SECONDS:
        return text_real(arg, 0.001, 3600, &o->seconds);
    case O_SIZE:
        return number(arg, 256, 64 << 20, &o->size);
    case O_SPAN:
        return number(arg, 64 << 10, 4ull << 30, &o->span);
    case O_BYTES:
        return number(arg, 1, 4ull << 30, &o->bytes);
    case O_PARAM:
        status = number(arg, 0, UINT32_MAX, &v);
        o->param = (uint32_t)v;
        return status;
    case O_PLOT:
        o->plot = arg;
        return *arg != '\0' ? 0 : -1;
    default:
        o->json = arg;
        return *arg != '\0' ? 0 : -1;
    }
}

int bench_opts_read(struct bench_opts *o, int argc, char **argv)
{
    int opt, at = 0;

    *o = (struct bench_opts){.type = -1, .threads = 1, .rounds = 15, .seconds = 1};
    o->size = 1 << 20, o->bytes = o->span = 64 << 20;
    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", longs, &at)) != -1) {
        if (opt == 'h') {
            fputs(help, stdout);
            return BENCH_OK;
        }
        if (opt == O_VERSION) {
            puts("gradwire " GW_VERSION);
            return BENCH_OK;
        }
        if (opt == '?')
            return BENCH_USAGE;
        if (take(o, opt, optarg) != 0)
            return wrong("--%s cannot be `%s`: %s", longs[at].name, optarg, bounds_of(opt));
    }
    o->files = argv + optind, o->nfiles = argc - optind;
    if (o->nfiles == 0)
        return wrong("give files of raw values, as gradient.f32");
    return -1;
}
