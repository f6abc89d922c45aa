/* make_library.c - makes zstd.raw, zstd.frame, lz4.raw and lz4.frame in the folder given.  They were made once: another release
 * of a library may write other bytes, what is promised is that these are read.
 *
 *   cc -D_GNU_SOURCE -Iinclude tests/golden/make_library.c build/obj/compress/codec_{zstd,lz4}.o build/libgw.a -lzstd -llz4 -lm \
 *      -o /tmp/make && /tmp/make tests/golden */
#include <stdio.h>
#include <stdlib.h>

#include <gradwire/frame.h>

enum { BYTES = 6000, ROOM = 2 * BYTES };
static uint8_t src[BYTES], coded[ROOM];
static _Alignas(64) uint8_t ws[2 << 20];

/* Words that come again at changing distances, a long run, and what does not repeat. */
static void fill(void)
{
    static const char *const words[] = {"gradient ", "of ", "the ", "layer ", "below ", "norm ", "step "};
    uint32_t r = 1;

    for (size_t at = 0; at < BYTES;) {
        const char *word = words[(r = r * 1103515245 + 12345) >> 16 & 0xff ? (r >> 20) % 7 : 0];
        while (*word != '\0' && at < BYTES)
            src[at++] = (uint8_t)*word++;
    }
    for (size_t i = 2000; i < 3000; i++)
        src[i] = 0;
    for (size_t i = 4000; i < 4500; i++)
        src[i] = (uint8_t)((r = r * 1103515245 + 12345) >> 16);
}

static void save(const char *dir, const char *name, const char *end, const uint8_t *p, size_t n)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s.%s", dir, name, end);
    FILE *f = fopen(path, "wbx");
    if (f == NULL || fwrite(p, 1, n, f) != n || fclose(f) != 0)
        perror(path), exit(1);
}

static void make(const char *dir, const char *name)
{
    struct gw_coding c = {.size = sizeof(c)};
    const struct gw_codec *codec = gw_codec_by_name(name);
    size_t len = 0;

    if (codec == NULL || gw_frame_encode(codec, &c, 1, src, BYTES, coded, sizeof(coded), &len, ws) != GW_OK)
        exit(1);
    save(dir, name, "raw", src, BYTES);
    save(dir, name, "frame", coded, len);
    printf("%s: %d -> %zu\n", name, BYTES, len);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    fill();
    make(argv[1], "zstd");
    make(argv[1], "lz4");
    return 0;
}
