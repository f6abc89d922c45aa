/* count.c - one codec, one view, one kernel set over fixed bytes, for callgrind: tests/figures/count counts what is executed
 * below encode_side and decode_side.
 *
 *   count CODEC VIEW KERNEL FILE    one call of 1 MiB at most; prints values, coded bytes and raw bytes, or "raw"
 *   count list                      the codecs and what they are, then the kernel sets
 *
 * VIEW f16 and f32_bf16 are made from a file of f32 and of bf16. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <gradwire/codec.h>
#include <gradwire/frame.h>

#include "child.h"

/* callgrind finds it by its name: one copy, under that name */
#ifdef __clang__
#define SIDE static __attribute__((noinline))
#else
#define SIDE static __attribute__((noinline, noclone))
#endif

enum { BYTES = 1 << 20, ROOM = 2 * BYTES + 65536 };

static const char *const views[GW_VIEW_COUNT] = {"bytes", "bf16", "f32", "f16", "f32_bf16"};

struct work {
    const struct gw_codec *codec;
    struct gw_coding coding;
    uint8_t *src, *frame, *back;
    size_t len, frame_len;
    void *ws;
};

SIDE gw_err encode_side(struct work *w)
{
    return gw_frame_encode(w->codec, &w->coding, 0, w->src, w->len, w->frame, ROOM, &w->frame_len, w->ws);
}

SIDE gw_err decode_side(struct work *w)
{
    return gw_frame_decode(w->frame, w->frame_len, w->back, w->len, w->ws);
}

/* The nearest f16 below in magnitude: what matters is how the exponents lie. */
static uint16_t to_f16(uint32_t v)
{
    int e = (int)(v >> 23 & 0xff) - 127 + 15;
    uint32_t sign = v >> 16 & 0x8000;

    return (uint16_t)(e <= 0 ? sign : e >= 31 ? sign | 0x7bff : sign | (uint32_t)e << 10 | (v >> 13 & 0x3ff));
}

static void make_view(struct work *w, enum gw_view view)
{
    if (view == GW_VIEW_F16)
        for (size_t i = 0; i < w->len / 4; i++) /* scaled as a loss scaler does, or most are zero */
            gw_put16(w->src + 2 * i, to_f16(gw_get32(w->src + 4 * i) + ((gw_get32(w->src + 4 * i) & 0x7f800000) ? 10u << 23 : 0)));
    if (view == GW_VIEW_F16)
        w->len /= 2;
    if (view == GW_VIEW_F32_BF16)
        for (size_t i = w->len / 4; i-- > 0;)
            gw_put32(w->src + 4 * i, (uint32_t)gw_get16(w->src + 2 * i) << 16);
}

static void load(struct work *w, const char *file)
{
    FILE *in = fopen(file, "rb");

    w->src = aligned_alloc(4096, BYTES), w->back = aligned_alloc(4096, BYTES), w->frame = aligned_alloc(4096, ROOM);
    w->ws = aligned_alloc(64, (gw_codec_ws_max() + 64) / 64 * 64);
    must(in != NULL && w->src != NULL && w->back != NULL && w->frame != NULL && w->ws != NULL);
    w->len = fread(w->src, 1, BYTES, in) / 1024 * 1024;
    must(w->len > 0);
    fclose(in);
    memset(w->frame, 0, ROOM), memset(w->back, 0, BYTES), memset(w->ws, 0, gw_codec_ws_max());
}

static int list(void)
{
    const struct gw_codec *codec;
    const char *kernel;

    for (size_t i = 0; (codec = gw_codec_at(i)) != NULL; i++)
        if (!(codec->traits & GW_TRAIT_STORED))
            printf("codec %s %s\n", codec->name, codec->traits & GW_TRAIT_LOSSY ? "lossy" : "lossless");
    for (size_t i = 0; (kernel = gw_kern_name_at(i)) != NULL; i++)
        printf("kernel %s\n", kernel);
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {.coding = {.size = sizeof(struct gw_coding)}};
    int view = 0;

    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list();
    must(argc == 5);
    while (view < GW_VIEW_COUNT && strcmp(argv[2], views[view]) != 0)
        view++;
    w.codec = gw_codec_by_name(argv[1]);
    must(view < GW_VIEW_COUNT && w.codec != NULL && gw_kern_select(argv[3]) == GW_OK);
    w.coding.view = (uint8_t)view;
    load(&w, argv[4]);
    make_view(&w, (enum gw_view)view);
    if (w.codec->id == GW_CODEC_LEVELS || w.codec->id == GW_CODEC_TWOBIT)
        w.coding.param = 127u << 23, w.coding.bits = 8, w.coding.ranks = 2; /* 1.0: instructions do not depend on it */
    gw_err err = encode_side(&w);
    if (err != GW_OK) {
        puts(err == GW_RAW ? "raw" : "refused");
        return 0;
    }
    must(decode_side(&w) == GW_OK);
    must((w.codec->traits & GW_TRAIT_LOSSY) || memcmp(w.src, w.back, w.len) == 0);
    size_t width = view == GW_VIEW_BYTES ? 1 : view == GW_VIEW_F32 || view == GW_VIEW_F32_BF16 ? 4 : 2;
    printf("%zu %zu %zu\n", w.len / width, w.frame_len, w.len);
    return 0;
}
