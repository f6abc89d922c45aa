/* make.c - makes the golden files: NAME.raw and NAME.frame, in the folder given.
 *
 *   cc -D_GNU_SOURCE -Iinclude tests/golden/make.c build/libgw.a -o /tmp/make && /tmp/make
 * tests/golden
 *
 * Run it once for a new name.  A frame that is here already is the format: it may never change. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <gradwire/frame.h>

enum { MOST = 40000 };
static uint8_t src[MOST], coded[MOST + 4096];
static _Alignas(64) uint8_t ws[1 << 16];
static uint64_t state = 1;

static uint32_t chance(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* f32 bits; most exponents lie a few steps below 120. */
static uint32_t gradient(void)
{
    uint32_t r = chance(), e = 120 - (uint32_t)__builtin_ctz(r | 1u << 24);
    return (chance() & 0x807fffff) | e << 23;
}

static size_t save(const char *dir, const char *name, const char *end, const uint8_t *p, size_t n)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%s", dir, name, end);
    FILE *f = fopen(path, "wbx");
    if (f == NULL)
        return perror(path), 0;
    size_t done = fwrite(p, 1, n, f);
    fclose(f);
    return done;
}

static void make_as(unsigned codec, const char *dir, const char *name, enum gw_view view, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    size_t len = 0;
    gw_err err =
        gw_frame_encode(gw_codec_by_id(codec), &c, 1, src, n, coded, sizeof(coded), &len, ws);
    if (err != GW_OK) {
        fprintf(stderr, "%s: %d\n", name, err);
        exit(1);
    }
    save(dir, name, "raw", src, n);
    save(dir, name, "frame", coded, len);
    printf("%s: %zu -> %zu\n", name, n, len);
}

static void make(const char *dir, const char *name, enum gw_view view, size_t n)
{
    make_as(GW_CODEC_GROUP, dir, name, view, n);
}

/* Three tiles: coded with zero and raw groups inside, all zero, and a short one with a tail of 3
 * bytes. */
static void fill_f32(size_t n)
{
    static const uint32_t odd[] = {0x7f800000, 0x80000000, 0x00000001,
                                   0x7fc00000, 0x807fffff, 0xff800000};
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + 4 <= n; i += 4)
        gw_put32(src + i, gradient());
    memset(src + 2048, 0, 3072);
    for (size_t i = 6144; i < 8192; i += 4)
        gw_put32(src + i, chance());
    for (size_t i = 0; i < 6; i++)
        gw_put32(src + 9216 + 12 * i, odd[i]);
    memset(src + 16384, 0, 16384);
    memcpy(src + n - 3, "end", 3);
}

static void fill_16(size_t n, int f16)
{
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + 2 <= n; i += 2) {
        uint32_t r = chance(), e = 20 - (uint32_t)__builtin_ctz(chance() | 1u << 18);
        gw_put16(src + i, (uint16_t)(f16 ? (r & 0x83ff) | e << 10 : gradient() >> 16));
    }
    for (size_t i = 4096; i < 5120; i++)
        src[i] = (uint8_t)chance();
    memset(src + 8192, 0, 1000);
}

static void fill_wide(size_t n)
{
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + 4 <= n; i += 4)
        gw_put32(src + i, gradient() & 0xffff0000);
    for (size_t i = 1024; i < 2048; i += 4)
        gw_put32(src + i, chance() & 0xffff0000);
}

/* The second tile is noise and is stored. */
static void fill_bytes(size_t n)
{
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i < n; i++)
        src[i] = (uint8_t)(chance() % 16 ? 240 + chance() % 14 : chance() % 240);
    for (size_t i = 16384; i < 32768; i++)
        src[i] = (uint8_t)chance();
}

/* Words of `width` that are mostly zero, one tile of noise, one of zeros, a short unit and a tail. */
static void fill_sparse(size_t n, size_t width)
{
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + width <= n; i += width)
        if (chance() % 16 == 0)
            gw_put32(src + i, width == 4 ? gradient() : gradient() >> 16);
    memset(src + 1000, 0, 3000);
    memset(src + 16384, 0, 16384);
    memcpy(src + n - 3, "end", 3);
}

static void make_entropy(const char *dir)
{
    fill_16(34001, 0), memset(src + 6000, 0, 26768); /* two blocks */
    make_as(GW_CODEC_ENTROPY, dir, "entropy_bf16", GW_VIEW_BF16, 34001);
    fill_f32(11003), make_as(GW_CODEC_ENTROPY, dir, "entropy_f32", GW_VIEW_F32, 11003);
    fill_16(8200, 1), make_as(GW_CODEC_ENTROPY, dir, "entropy_f16", GW_VIEW_F16, 8200);
    fill_wide(6144), make_as(GW_CODEC_ENTROPY, dir, "entropy_f32_bf16", GW_VIEW_F32_BF16, 6144);
    fill_bytes(3001), make_as(GW_CODEC_ENTROPY, dir, "entropy_bytes", GW_VIEW_BYTES, 3001);
}

static void make_zero(const char *dir)
{
    fill_sparse(35003, 4), make_as(GW_CODEC_ZERO, dir, "zero_f32", GW_VIEW_F32, 35003);
    fill_sparse(33001, 2), make_as(GW_CODEC_ZERO, dir, "zero_bf16", GW_VIEW_BF16, 33001);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: make DIR\n"), 2;
    fill_f32(35003), make(argv[1], "f32", GW_VIEW_F32, 35003);
    fill_16(17001, 0), make(argv[1], "bf16", GW_VIEW_BF16, 17001);
    fill_16(9000, 1), make(argv[1], "f16", GW_VIEW_F16, 9000);
    fill_wide(6144), make(argv[1], "f32_bf16", GW_VIEW_F32_BF16, 6144);
    fill_wide(6144), src[4] = 1, make(argv[1], "f32_not_bf16", GW_VIEW_F32_BF16, 6144);
    fill_bytes(36000), make(argv[1], "bytes", GW_VIEW_BYTES, 36000);
    memset(src, 0, sizeof(src)), make(argv[1], "zero", GW_VIEW_BF16, 20000);
    make_entropy(argv[1]);
    make_zero(argv[1]);
    return 0;
}
