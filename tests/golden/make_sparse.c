/* make_sparse.c - makes the golden files of sparse sets: NAME.set (what was coded: indices, then values), NAME.frame and
 * NAME.raw (what it decodes to, in the same form), in the folder given.
 *
 *   cc -D_GNU_SOURCE -Iinclude tests/golden/make_sparse.c build/libgw.a -ldl -o /tmp/make && /tmp/make tests/golden
 *
 * Run it once for a new name.  A frame that is here already is the format: it may never change. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <gradwire/sparse.h>

enum { MOST = 4096 };
static uint32_t set_index[MOST], out_index[MOST];
static float value[MOST], out_value[MOST];
static uint8_t coded[1 << 16];
static uint64_t state = 1;

static uint32_t chance(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void odd_value(uint32_t at, uint32_t bits)
{
    memcpy(&value[at], &bits, 4);
}

static void fill_values(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        odd_value(i, (chance() & 0x807fffff) | (120 - (uint32_t)__builtin_ctz(chance() | 1u << 24)) << 23);
}

static FILE *create(const char *dir, const char *name, const char *end)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%s", dir, name, end);
    FILE *f = fopen(path, "wbx");
    if (f == NULL)
        perror(path);
    return f;
}

static void save_set(const char *dir, const char *name, const char *end, const uint32_t *index, const float *v, uint32_t n)
{
    FILE *f = create(dir, name, end);
    if (f == NULL)
        return;
    fwrite(index, 4, n, f), fwrite(v, 4, n, f);
    fclose(f);
}

static void make(const char *dir, const char *name, unsigned index, unsigned how_value, uint64_t space, uint64_t seed,
                 uint32_t n)
{
    struct gw_sparse how = {.size = sizeof(how), .index = (uint8_t)index, .value = (uint8_t)how_value, .space = space};
    size_t len = 0;
    how.seed = seed, how.flags = GW_SPARSE_CHECK;
    if (gw_sparse_encode(&how, set_index, value, n, coded, sizeof(coded), &len) != GW_OK ||
        gw_sparse_decode(coded, len, space, out_index, out_value, MOST, &n) != GW_OK) {
        fprintf(stderr, "%s: failed\n", name);
        exit(1);
    }
    save_set(dir, name, "set", set_index, value, n);
    save_set(dir, name, "raw", out_index, out_value, n);
    FILE *f = create(dir, name, "frame");
    if (f != NULL)
        fwrite(coded, 1, len, f), fclose(f);
    printf("%s: %u entries of %llu -> %zu\n", name, n, (unsigned long long)space, len);
}

/* One in `rare` of a space, and every coordinate of [from, to). */
static uint32_t fill(uint64_t space, uint32_t rare, uint64_t from, uint64_t to)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < space; i++)
        if ((i >= from && i < to) || chance() % rare == 0)
            set_index[n++] = (uint32_t)i;
    fill_values(n);
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: make_sparse DIR\n"), 2;
    const char *dir = argv[1];
    uint32_t n = fill(1003, 4, 0, 0);
    odd_value(0, 0x7fc12345), odd_value(1, 0xff800000), odd_value(2, 1), odd_value(3, 0x80000000);
    make(dir, "sparse_bitmap", GW_INDEX_BITMAP, GW_VALUE_F32, 1003, 0, n);
    n = fill(140000, 300, 66000, 66200);
    odd_value(0, 0xffc12345), odd_value(1, 0xff800000), odd_value(2, 0x80000001), odd_value(3, 0x7f7fffff);
    make(dir, "sparse_u16", GW_INDEX_U16, GW_VALUE_BF16, 140000, 0, n);
    for (n = 0; n < 700; n++) /* blocks 3, 4 and the short last one */
        set_index[n] = n < 512 ? 768 + n : 5120 + n - 512;
    fill_values(n);
    memset(value + 256, 0, 1024);
    make(dir, "sparse_runs", GW_INDEX_RUNS, GW_VALUE_INT8, 5308, 0, 700);
    /* empty blocks, some with a few, one with an escape, a short one as a map */
    n = fill(12000, 100, 8192, 8500);
    for (uint32_t i = 0; i < 650; i++)
        set_index[n++] = 16384 + 3 * i + chance() % 3;
    for (uint32_t i = 0; i < 12; i++)
        set_index[n++] = 24576 + 2 * i + chance() % 2;
    fill_values(n);
    make(dir, "sparse_ef12", GW_INDEX_EF12, GW_VALUE_MEAN, 24600, 0, n);
    n = fill(196624, 250, 196608, 196624); /* the short block is full */
    odd_value(300, 0x7f800000), odd_value(600, 0x7f7fffff);
    make(dir, "sparse_ef16", GW_INDEX_EF16, GW_VALUE_INT8, 196624, 0, n);
    n = fill(3000000, 6000, 2999000, 2999300);
    make(dir, "sparse_ef20", GW_INDEX_EF20, GW_VALUE_F32, 3000000, 0, n);
    gw_sparse_seeded(0x0123456789abcdef, 100001, 500, set_index), fill_values(500);
    make(dir, "sparse_seed", GW_INDEX_SEED, GW_VALUE_BF16, 100001, 0x0123456789abcdef, 500);
    make(dir, "sparse_empty", GW_INDEX_BEST, GW_VALUE_MEAN, 100001, 0, 0);
    return 0;
}
