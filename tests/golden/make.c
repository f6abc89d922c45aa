/* make.c - makes the golden files: NAME.raw and NAME.frame, in the folder given; of lossy codecs NAME.frame and NAME.xxh3.
 *
 *   cc -D_GNU_SOURCE -Iinclude tests/golden/make.c build/libgw.a -o /tmp/make && /tmp/make
 * tests/golden
 *
 * Run it once for a new name.  A frame that is here already is the format: it may never change, though an encoder may have
 * become better since. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <gradwire/frame.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lossy_rows.h"

enum { MOST = 40000 };
static uint8_t src[MOST], coded[MOST + 4096];
static _Alignas(64) uint8_t ws[2 << 20];
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

static void make_with(const char *codec, const char *dir, const char *name, enum gw_view view, size_t n)
{
    struct gw_coding c = {.size = sizeof(c), .view = (uint8_t)view};
    size_t len = 0;
    gw_err err = gw_frame_encode(gw_codec_by_name(codec), &c, 1, src, n, coded,
                                 sizeof(coded), &len, ws);
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
    make_with("group", dir, name, view, n);
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

/* Gradients over some exponents, with blocks of zeros, of tiny values, and of values that are none; in both tiles. */
static void fill_lossy(void)
{
    static const uint32_t odd[] = {0x7f800000, 0x80000000, 0x00000001, 0x7fc00000, 0x807fffff,
                                   0xff800000, 0xffc12345, 0x7f7fffff, 0x00800000};
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + 4 <= LOSSY_BYTES; i += 4)
        gw_put32(src + i, gradient());
    for (size_t i = 0; i < 9; i++)
        gw_put32(src + 1024 + 12 * i, odd[i]), gw_put32(src + 4 * 4396 - 8 * i, odd[i]);
    for (size_t i = 3072; i < 4096; i += 4)
        gw_put32(src + i, (gw_get32(src + i) & 0x80ffffff) | 0x0c000000);
    memset(src + 5000, 0, 5000);
    memcpy(src + LOSSY_BYTES - 3, "end", 3);
}

static void make_lossy(const char *dir, const struct lossy_row *row)
{
    static uint8_t in[LOSSY_BYTES], back[LOSSY_BYTES];
    struct gw_coding c = lossy_coding(row);
    char name[64], sum[20];
    size_t len = 0;
    lossy_source(row, src, in);
    gw_err err = gw_frame_encode(gw_codec_by_name(row->codec), &c, 1, in, row->bytes, coded, sizeof(coded), &len, ws);
    if (err == GW_OK)
        err = gw_frame_decode(coded, len, back, row->bytes, ws);
    if (err != GW_OK) {
        fprintf(stderr, "%s: %d\n", row->name, err);
        exit(1);
    }
    snprintf(name, sizeof(name), "lossy-%s", row->name);
    save(dir, name, "frame", coded, len);
    snprintf(sum, sizeof(sum), "%016llx\n", (unsigned long long)XXH3_64bits(back, row->bytes));
    save(dir, name, "xxh3", (const uint8_t *)sum, strlen(sum));
    printf("%s: %zu -> %zu\n", name, row->bytes, len);
}

/* Of every hundred values so many are left; a dense stretch and a zero one among them. */
static void fill_sparse(size_t n, enum gw_view view, unsigned left)
{
    size_t width = view == GW_VIEW_BYTES ? 1 : view == GW_VIEW_F32 || view == GW_VIEW_F32_BF16 ? 4 : 2;
    memset(src, 0, sizeof(src));
    for (size_t i = 0; i + width <= n; i += width) {
        uint32_t v = gradient();
        uint8_t bits[4];
        if (chance() % 100 >= left && (i < n / 2 || i >= n / 2 + 1024))
            continue;
        gw_put32(bits, view == GW_VIEW_F16 ? (v & 0x83ff0000) | (20 - chance() % 8 % 5) << 26 : v);
        if (view == GW_VIEW_F32_BF16)
            bits[0] = bits[1] = 0;
        memcpy(src + i, bits + (width == 4 ? 0 : 4 - width), width);
    }
    memset(src + n / 4, 0, 2048);
    if (n % width != 0)
        src[n - 1] = 'e';
}

static void make_sparse(const char *dir, const char *name, enum gw_view view, size_t n, unsigned left)
{
    fill_sparse(n, view, left);
    make(dir, name, view, n);
}

/* Words of `width` that are mostly zero, one tile of noise, one of zeros, a short unit and a tail. */
static void fill_words(size_t n, size_t width)
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
    make_with("entropy", dir, "entropy_bf16", GW_VIEW_BF16, 34001);
    fill_f32(11003), make_with("entropy", dir, "entropy_f32", GW_VIEW_F32, 11003);
    fill_16(8200, 1), make_with("entropy", dir, "entropy_f16", GW_VIEW_F16, 8200);
    fill_wide(6144), make_with("entropy", dir, "entropy_f32_bf16", GW_VIEW_F32_BF16, 6144);
    fill_bytes(3001), make_with("entropy", dir, "entropy_bytes", GW_VIEW_BYTES, 3001);
}

static void make_zero(const char *dir)
{
    fill_words(35003, 4), make_with("zero", dir, "zero_f32", GW_VIEW_F32, 35003);
    fill_words(33001, 2), make_with("zero", dir, "zero_bf16", GW_VIEW_BF16, 33001);
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
    uint64_t after = state; /* of this each family goes on */
    make_sparse(argv[1], "sparse_f32", GW_VIEW_F32, 18003, 40);
    make_sparse(argv[1], "sparse_bf16", GW_VIEW_BF16, 9001, 50);
    make_sparse(argv[1], "sparse_f16", GW_VIEW_F16, 8000, 45);
    make_sparse(argv[1], "sparse_f32_bf16", GW_VIEW_F32_BF16, 9000, 30);
    make_sparse(argv[1], "sparse_bytes", GW_VIEW_BYTES, 5000, 25);
    fill_f32(18003), make_with("tight", argv[1], "tight_f32", GW_VIEW_F32, 18003);
    fill_16(9001, 0), make_with("tight", argv[1], "tight_bf16", GW_VIEW_BF16, 9001);
    fill_16(4000, 1), make_with("tight", argv[1], "tight_f16", GW_VIEW_F16, 4000);
    fill_wide(6144), make_with("tight", argv[1], "tight_f32_bf16", GW_VIEW_F32_BF16, 6144);
    state = after;
    make_entropy(argv[1]);
    make_zero(argv[1]);
    state = 9, fill_lossy();
    save(argv[1], "lossy", "in", src, LOSSY_BYTES);
    for (size_t i = 0; i < LOSSY_ROWS; i++)
        make_lossy(argv[1], &lossy_rows[i]);
    return 0;
}
