/* perf_data.c - the bytes that are sent: files end to end, or made-up values. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "perf.h"

static uint64_t chance(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double share(uint64_t *state)
{
    return (double)(chance(state) >> 11) * 0x1p-53;
}

/* Normal, as small as gradients are. */
static float value(uint64_t *state)
{
    double r = sqrt(-2 * log(1 - share(state)));

    return (float)(1e-3 * r * cos(6.283185307179586 * share(state)));
}

static uint16_t bf16_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Good for what value() gives: no infinities, subnormals become zero. */
static uint16_t f16_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    int exponent = (int)(bits >> 23 & 255) - 127 + 15;
    uint32_t sign = bits >> 16 & 0x8000;
    return (uint16_t)(exponent < 1 ? sign
                                   : sign | ((uint32_t)exponent << 10 | (bits >> 13 & 0x3ff)));
}

static size_t type_bytes(enum perf_gen type)
{
    return type == PERF_GEN_F32 ? 4 : type == PERF_GEN_BYTES ? 1 : 2;
}

static void generate(char *out, size_t len, enum perf_gen type, double zeros)
{
    size_t each = type_bytes(type);
    uint64_t state = 20240229;

    for (size_t at = 0; at + each <= len; at += each) {
        bool zero = zeros > 0 && share(&state) < zeros;
        float f = zero || type == PERF_GEN_BYTES ? 0 : value(&state);
        uint16_t half = type == PERF_GEN_F16 ? f16_of(f) : bf16_of(f);
        if (type == PERF_GEN_BYTES)
            out[at] = zero ? 0 : (char)(chance(&state) >> 56);
        else
            memcpy(out + at, type == PERF_GEN_F32 ? (void *)&f : (void *)&half, each);
    }
}

static int fail(char *why, size_t why_bytes, const char *file, const char *what)
{
    snprintf(why, why_bytes, "%s: %s", file, what);
    return -1;
}

static int file_size(const char *file, size_t *size_p, char *why, size_t why_bytes)
{
    struct stat st;

    if (stat(file, &st) != 0)
        return fail(why, why_bytes, file, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return fail(why, why_bytes, file, "not a file with bytes in it");
    if ((uint64_t)st.st_size > PERF_MEMORY_MAX)
        return fail(why, why_bytes, file, "larger than 4 GiB");
    *size_p = (size_t)st.st_size;
    return 0;
}

static int file_load(const char *file, char *out, size_t size, char *why, size_t why_bytes)
{
    FILE *in = fopen(file, "rb");

    if (in == NULL)
        return fail(why, why_bytes, file, strerror(errno));
    size_t got = fread(out, 1, size, in);
    fclose(in);
    return got == size ? 0 : fail(why, why_bytes, file, "cannot be read");
}

static enum perf_gen file_type(const char *file)
{
    const char *dot = strrchr(file, '.');

    if (dot != NULL && strcmp(dot, ".f32") == 0)
        return PERF_GEN_F32;
    return dot != NULL && strcmp(dot, ".bf16") == 0 ? PERF_GEN_BF16 : PERF_GEN_BYTES;
}

static int files_load(struct perf_data *d, const struct perf_opts *o, size_t *at, char *why,
                      size_t why_bytes)
{
    size_t size;

    d->type = file_type(o->files[0]);
    for (int i = 0; i < o->nfiles; i++) {
        if (file_size(o->files[i], &size, why, why_bytes) != 0)
            return -1;
        if (size > d->len - *at)
            return fail(why, why_bytes, o->files[i], "grew while it was read");
        if (file_load(o->files[i], d->bytes + *at, size, why, why_bytes) != 0)
            return -1;
        *at += size;
        if (file_type(o->files[i]) != d->type)
            d->type = PERF_GEN_BYTES;
    }
    return 0;
}

int perf_data_make(struct perf_data *d, const struct perf_opts *o, uint64_t need, char *why,
                   size_t why_bytes)
{
    size_t have = 0, size;

    for (int i = 0; i < o->nfiles; i++) {
        if (file_size(o->files[i], &size, why, why_bytes) != 0)
            return -1;
        have += size;
    }
    if (o->nfiles == 0)
        have = 16u << 20;
    d->len = have > need ? have : (size_t)need;
    d->bytes = aligned_alloc(4096, (d->len + 4095) & ~(size_t)4095);
    if (d->bytes == NULL)
        return fail(why, why_bytes, "data", "no memory");
    d->type = o->gen;
    size = 0;
    if (o->nfiles == 0)
        generate(d->bytes, size = have, o->gen, o->zeros);
    else if (files_load(d, o, &size, why, why_bytes) != 0)
        return -1;
    for (; size < d->len; size += have) {
        size_t n = d->len - size < have ? d->len - size : have;
        memcpy(d->bytes + size, d->bytes, n);
    }
    return 0;
}
