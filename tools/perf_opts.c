/* perf_opts.c - the command line of perf.  Read perf_opts_read. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gradwire/codec.h>

#include "host_run.h"
#include "perf.h"
#include "text.h"

enum {
    O_LOCAL = 256,
    O_RING,
    O_SERVE,
    O_CODE,
    O_FILE,
    O_GEN,
    O_SIZES,
    O_INFLIGHT,
    O_CONNS,
    O_BIDIR,
    O_LAT,
    O_PROTO,
    O_ITERS,
    O_SECONDS,
    O_WARMUP,
    O_EVERY,
    O_CODEC,
    O_POLICY,
    O_LANE,
    O_PLUGIN,
    O_NETVER,
    O_JSON,
    O_SUMMARY,
    O_BELOW,
    O_VERBOSE,
    O_VERSION
};

static const struct option longs[] = {
    {"local", no_argument, NULL, O_LOCAL},
    {"ring", required_argument, NULL, O_RING},
    {"serve", required_argument, NULL, O_SERVE},
    {"code", required_argument, NULL, O_CODE},
    {"file", required_argument, NULL, O_FILE},
    {"gen", required_argument, NULL, O_GEN},
    {"sizes", required_argument, NULL, O_SIZES},
    {"inflight", required_argument, NULL, O_INFLIGHT},
    {"conns", required_argument, NULL, O_CONNS},
    {"bidir", no_argument, NULL, O_BIDIR},
    {"lat", no_argument, NULL, O_LAT},
    {"proto", required_argument, NULL, O_PROTO},
    {"iters", required_argument, NULL, O_ITERS},
    {"seconds", required_argument, NULL, O_SECONDS},
    {"warmup", required_argument, NULL, O_WARMUP},
    {"every", required_argument, NULL, O_EVERY},
    {"codec", required_argument, NULL, O_CODEC},
    {"policy", required_argument, NULL, O_POLICY},
    {"lane", required_argument, NULL, O_LANE},
    {"plugin", required_argument, NULL, O_PLUGIN},
    {"net-version", required_argument, NULL, O_NETVER},
    {"json", no_argument, NULL, O_JSON},
    {"summary", no_argument, NULL, O_SUMMARY},
    {"fail-below", required_argument, NULL, O_BELOW},
    {"verbose", no_argument, NULL, O_VERBOSE},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, O_VERSION},
    {NULL, 0, NULL, 0},
};

/* What each may be, for the line that refuses what was given. */
static const char *bounds_of(int opt)
{
    static const struct { int opt; const char *say; } bounds[] = {
        {O_RING, "give 2 to 16 ranks"},
        {O_GEN, "give f32, bf16, f16 or bytes, and :zeros=R with R from 0 to 1"},
        {O_SIZES, "give bytes from 1 to 1G, as 4K,1M or 1K..16M, 40 sizes at most"},
        {O_INFLIGHT, "give 1 to 32"},
        {O_CONNS, "give 1 to 64"},
        {O_PROTO, "give simple, ll or ll128"},
        {O_ITERS, "give 1 to 4294967296"},
        {O_SECONDS, "give 0.001 to 86400"},
        {O_WARMUP, "give 0 to 4294967296"},
        {O_EVERY, "give 10 to 60000 ms"},
        {O_CODEC, "give auto, raw, group, tight, entropy or zero, up to 8 of them with commas between"},
        {O_POLICY, "give auto, always or never"},
        {O_LANE, "give any, tcp, shm or verbs"},
        {O_NETVER, "give v6 to v12"},
        {O_BELOW, "give GB/s, 0 to 1000000"},
    };

    for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++)
        if (bounds[i].opt == opt)
            return bounds[i].say;
    return "give something else";
}

_Static_assert((int)PERF_RING_MAX == 16 && (int)PERF_SIZES_MAX == 40 && (int)PERF_CONNS_MAX == 64 &&
                   (int)PERF_CODECS_MAX == 8 && (int)NCCL_NET_MAX_REQUESTS == 32,
               "bounds_of and perf_help say these");

static int wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int wrong(const char *fmt, ...)
{
    va_list ap;

    fputs("gradwire perf: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("; see gradwire perf --help\n", stderr);
    return PERF_USAGE;
}

static int one_of(const char *word, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static int number(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    char *end;

    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *text == '-' || v < low || v > high)
        return -1;
    *out = v;
    return 0;
}

/* Digits and one of K, M, G; *end is where it stopped. */
static int size_read(const char *text, const char **end, uint64_t *out)
{
    char *at;

    errno = 0;
    unsigned long long v = strtoull(text, &at, 10);
    if (at == text || errno != 0 || *text == '-')
        return -1;
    unsigned shift = text_unit(&at);
    if (v == 0 || v > PERF_SIZE_MAX >> shift)
        return -1;
    *out = (uint64_t)v << shift;
    *end = at;
    return 0;
}

static int sizes_read(struct perf_opts *o, const char *text)
{
    uint64_t from, to;

    o->nsizes = 0;
    for (;; text++) {
        if (size_read(text, &text, &from) != 0)
            return -1;
        to = from;
        if (strncmp(text, "..", 2) == 0 && (size_read(text + 2, &text, &to) != 0 || to < from))
            return -1;
        for (uint64_t s = from; s <= to; s *= 2) {
            if (o->nsizes == PERF_SIZES_MAX)
                return -1;
            o->sizes[o->nsizes++] = s;
        }
        if (*text != ',')
            return *text == '\0' ? 0 : -1;
    }
}

static int codecs_read(struct perf_opts *o, const char *text)
{
    for (o->ncodecs = 0;; text++) {
        size_t n = strcspn(text, ",");
        if (n == 0 || n >= PERF_NAME_BYTES || o->ncodecs == PERF_CODECS_MAX)
            return -1;
        memcpy(o->codecs[o->ncodecs], text, n);
        o->codecs[o->ncodecs][n] = '\0';
        const struct gw_codec *codec = gw_codec_by_name(o->codecs[o->ncodecs]);
        if (strcmp(o->codecs[o->ncodecs], "auto") != 0 && (codec == NULL || codec->traits & GW_TRAIT_LOSSY))
            return -1;
        o->ncodecs++;
        text += n;
        if (*text == '\0')
            return 0;
    }
}

static int gen_read(struct perf_opts *o, const char *text)
{
    static const char *const types[] = {"f32", "bf16", "f16", "bytes", NULL};
    char type[8];
    size_t n = strcspn(text, ":");

    if (n >= sizeof(type))
        return -1;
    memcpy(type, text, n);
    type[n] = '\0';
    int at = one_of(type, types);
    if (at < 0)
        return -1;
    o->gen = (enum perf_gen)at;
    if (text[n] == '\0')
        return 0;
    return strncmp(text + n, ":zeros=", 7) == 0 ? text_real(text + n + 7, 0, 1, &o->zeros) : -1;
}

static int file_add(struct perf_opts *o, char *file)
{
    char **files = realloc(o->files, sizeof(*files) * (size_t)(o->nfiles + 1));

    if (files == NULL)
        return -1;
    files[o->nfiles++] = file;
    o->files = files;
    return 0;
}

static int mode_set(struct perf_opts *o, enum perf_mode mode, const char *address, int *modes)
{
    o->mode = mode;
    o->address = address;
    ++*modes;
    return 0;
}

/* 0, or -1 where the option's argument cannot be. */
static int take_what(struct perf_opts *o, int opt, char *arg, int *modes)
{
    static const char *const protos[] = {"ll", "ll128", "simple", NULL};
    uint64_t v = 0;
    int at;

    switch (opt) {
    case O_LOCAL:
        return mode_set(o, PERF_LOCAL, NULL, modes);
    case O_RING:
        if (number(arg, 2, PERF_RING_MAX, &v) != 0)
            return -1;
        o->ranks = (int)v;
        return mode_set(o, PERF_RING, NULL, modes);
    case O_SERVE:
        return mode_set(o, PERF_SERVE, arg, modes);
    case O_FILE:
        return file_add(o, arg);
    case O_GEN:
        return gen_read(o, arg);
    case O_SIZES:
        return sizes_read(o, arg);
    case O_INFLIGHT:
        at = number(arg, 1, NCCL_NET_MAX_REQUESTS, &v);
        o->session.inflight = (uint32_t)v;
        return at;
    case O_CONNS:
        at = number(arg, 1, PERF_CONNS_MAX, &v);
        o->session.conns = (uint32_t)v;
        return at;
    case O_PROTO:
        at = one_of(arg, protos);
        o->session.proto = (uint32_t)at;
        return at < 0 ? -1 : 0;
    case O_ITERS:
        return number(arg, 1, PERF_COUNT_MAX, &o->iters);
    case O_SECONDS:
        return text_real(arg, 0.001, 86400, &o->seconds);
    case O_EVERY:
        return number(arg, 10, 60000, &o->every_ms);
    default:
        return number(arg, 0, PERF_COUNT_MAX, &o->warmup);
    }
}

static int take_how(struct perf_opts *o, int opt, char *arg)
{
    static const char *const lanes[] = {"any", "tcp", "shm", "verbs", NULL};
    static const char *const policies[] = {"auto", "always", "never", NULL};
    uint64_t v;
    int at;

    switch (opt) {
    case O_CODE:
        o->code = arg;
        return 0;
    case O_CODEC:
        return codecs_read(o, arg);
    case O_POLICY:
        if (one_of(arg, policies) < 0)
            return -1;
        snprintf(o->session.policy, sizeof(o->session.policy), "%s", arg);
        return 0;
    case O_LANE:
        at = one_of(arg, lanes);
        o->lane = (enum perf_lane)at;
        return at < 0 ? -1 : 0;
    case O_PLUGIN:
        o->plugin = arg;
        return 0;
    case O_NETVER:
        if (number(*arg == 'v' ? arg + 1 : arg, HOST_VERSION_MIN, HOST_VERSION_MAX, &v) != 0)
            return -1;
        o->net_version = (int)v;
        return 0;
    default:
        return text_real(arg, 0, 1e6, &o->fail_below);
    }
}

static int take(struct perf_opts *o, int opt, char *arg, int *modes)
{
    switch (opt) {
    case O_BIDIR:
        o->session.bidir = true;
        return 0;
    case O_LAT:
        o->session.lat = true;
        return 0;
    case O_JSON:
        o->json = true;
        return 0;
    case O_SUMMARY:
        o->summary = true;
        return 0;
    case O_VERBOSE:
        o->verbose = true;
        return 0;
    case O_CODE:
    case O_CODEC:
    case O_POLICY:
    case O_LANE:
    case O_PLUGIN:
    case O_NETVER:
    case O_BELOW:
        return take_how(o, opt, arg);
    default:
        return take_what(o, opt, arg, modes);
    }
}

/* Options that mean nothing together: what is given is what is measured, or it is refused. */
static int clash(const struct perf_opts *o, uint64_t given)
{
    static const int clients[] = {O_SIZES,  O_INFLIGHT, O_CONNS, O_BIDIR,  O_LAT,   O_PROTO,   O_ITERS, O_SECONDS,
                                  O_WARMUP, O_EVERY,    O_CODEC, O_POLICY, O_JSON, O_SUMMARY, O_BELOW};

    for (size_t i = 0; o->mode == PERF_SERVE && i < sizeof(clients) / sizeof(*clients); i++)
        if (given >> (clients[i] - O_LOCAL) & 1)
            return wrong("--%s is the client's to say: give it there, with the server's address and --code",
                         longs[clients[i] - O_LOCAL].name);
    if ((given >> (O_ITERS - O_LOCAL) & 1) && (given >> (O_SECONDS - O_LOCAL) & 1))
        return wrong("--iters and --seconds both say how long a run is: give one of them");
    if (o->nfiles > 0 && (given >> (O_GEN - O_LOCAL) & 1))
        return wrong("--gen makes up what %s holds: give one of them", o->files[0]);
    for (int i = 0; i < o->nfiles; i++)
        if (access(o->files[i], R_OK) != 0)
            return wrong("%s: %s; %s takes options and files to send", o->files[i], strerror(errno),
                         o->mode == PERF_LOCAL  ? "--local"
                         : o->mode == PERF_RING ? "--ring"
                                                : "perf");
    return -1;
}

/* What one option alone cannot know. */
static int settle(struct perf_opts *o, int modes, uint64_t given)
{
    struct perf_session *s = &o->session;
    static const uint64_t proto_max[] = {HOST_LL_BYTES / HOST_SLOTS / 2,
                                         HOST_LL128_BYTES / HOST_SLOTS / 16 * 15, PERF_SIZE_MAX};
    static const char *const proto_name[] = {"ll", "ll128", "simple"};

    if (modes != 1)
        return wrong("say one of --local, --ring N, --serve ADDRESS, or the ADDRESS of a server");
    if ((o->mode == PERF_CLIENT) != (o->code != NULL))
        return wrong("--code belongs to the address of a server");
    int status = clash(o, given);
    if (status >= 0)
        return status;
    if (o->nsizes == 0) /* a ring takes all of its data where nothing is said */
        o->sizes[0] = s->proto == HOST_SIMPLE ? 1 << 20 : 32768, o->nsizes = o->mode != PERF_RING;
    if (s->inflight == 0)
        s->inflight = s->lat ? 1 : s->proto == HOST_SIMPLE ? 4 : HOST_SLOTS;
    if (s->proto != HOST_SIMPLE && s->inflight > HOST_SLOTS)
        return wrong("ll and ll128 have %d slots: --inflight cannot be more", HOST_SLOTS);
    for (int i = 0; i < o->nsizes; i++) {
        if (o->mode != PERF_RING && o->sizes[i] > proto_max[s->proto])
            return wrong("a message of --proto %s holds %llu bytes at most", proto_name[s->proto],
                         (unsigned long long)proto_max[s->proto]);
        s->size_max = o->sizes[i] > s->size_max ? o->sizes[i] : s->size_max;
    }
    if (o->mode != PERF_RING && s->size_max * s->inflight * s->conns > PERF_MEMORY_MAX)
        return wrong("sizes x inflight x conns is more than 4 GiB");
    if (o->mode == PERF_RING && (s->proto != HOST_SIMPLE || s->bidir || s->lat || s->conns != 1))
        return wrong("--ring moves the Simple protocol on one connection each way");
    if (o->ncodecs == 0)
        o->ncodecs = 1; /* named "": as the environment says */
    return -1;
}

int perf_opts_read(struct perf_opts *o, int argc, char **argv)
{
    int opt, at = 0, modes = 0;
    uint64_t given = 0;

    *o = (struct perf_opts){
        .warmup = 16, .seconds = 0.5, .session = {.proto = HOST_SIMPLE, .conns = 1}};
    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", longs, &at)) != -1) {
        if (opt == 'h') {
            fputs(perf_help, stdout);
            return PERF_OK;
        }
        if (opt == O_VERSION) {
            puts("gradwire " GW_VERSION);
            return PERF_OK;
        }
        if (opt == '?')
            return PERF_USAGE;
        if (take(o, opt, optarg, &modes) != 0)
            return wrong("--%s cannot be `%s`: %s", longs[at].name, optarg, bounds_of(opt));
        given |= 1ull << (opt - O_LOCAL);
    }
    if (modes == 0 && optind < argc)
        mode_set(o, PERF_CLIENT, argv[optind++], &modes);
    while (optind < argc)
        if (file_add(o, argv[optind++]) != 0)
            return wrong("no memory");
    return settle(o, modes, given);
}
