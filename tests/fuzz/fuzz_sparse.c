/* fuzz_sparse.c - sets of coordinates.
 *
 *  byte 0: bits 0..1 what    1: index coding   2: value coding   3..6: space or seed
 *  what 0: a whole frame follows   1: a payload, whose head is written here: it gets past what a mutated head does not
 *       2: gaps between entries (1 byte; 255: 4 bytes follow), coded, decoded, coded again
 *       3: two lists of 16-bit indices, as they are: united where they are sets, refused where not, added to dense memory */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>
#include <gradwire/frame.h>
#include <gradwire/sparse.h>
#include <kern.h>

#include "kernels.h"

enum { HEAD = 7, LISTS = 1 << 16, MOST = 1 << 13 /* entries: a few bytes may name many, and take long */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct set {
    uint32_t *index;
    float *value;
    uint32_t n;
};

/* Exactly so long that a sanitizer sees the entry beyond it. */
static struct set set_new(size_t n)
{
    struct set s = {.index = malloc(4 * n + 1), .value = malloc(4 * n + 1), .n = (uint32_t)n};
    gw_assert(s.index != NULL && s.value != NULL);
    return s;
}

static void set_free(struct set s)
{
    free(s.index), free(s.value);
}

static int is_set(const uint32_t *index, size_t n, uint64_t space)
{
    for (size_t i = 0; i < n; i++)
        if (index[i] >= space || (i > 0 && index[i - 1] >= index[i]))
            return 0;
    return 1;
}

static size_t encode(const struct gw_kern *kern, const struct gw_sparse *how, const struct set *s, uint8_t **out_p)
{
    size_t cap = gw_sparse_bound(how, s->n), len = 0;
    gw_kern_force(kern);
    *out_p = malloc(cap);
    gw_assert(*out_p != NULL);
    gw_assert(gw_sparse_encode(how, s->index, s->value, s->n, *out_p, cap, &len) == GW_OK && len <= cap);
    return len;
}

/* What decodes is a set, and its indices have one spelling. */
static void check_set(const struct gw_sparse *how, struct set *s, uint32_t n, const uint8_t *frame)
{
    struct gw_sparse again = *how;
    uint8_t *out;
    gw_assert(is_set(s->index, n, how->space));
    if (how->index == GW_INDEX_SEED) {
        struct set same = set_new(n);
        gw_assert(gw_sparse_seeded(how->seed, how->space, n, same.index) == GW_OK);
        gw_assert(memcmp(same.index, s->index, 4 * (size_t)n) == 0);
        set_free(same);
    }
    s->n = n, again.value = GW_VALUE_MEAN;
    if (gw_sparse_bound(&again, n) < 1 << 24) {
        encode(tried, &again, s, &out);
        gw_assert(memcmp(out + GW_FRAME_BYTES, frame + GW_FRAME_BYTES, 16 + gw_get32(frame + GW_FRAME_BYTES + 4)) == 0);
        free(out);
    }
}

static void hostile(const uint8_t *in, size_t len)
{
    struct gw_sparse how;
    uint32_t count, n = 0, other_n = 0;
    gw_err err = gw_sparse_read(in, len, &how, &count);
    if (err != GW_OK) {
        gw_assert(gw_sparse_decode(in, len, 1, NULL, NULL, 0, &n) == err);
        return;
    }
    if (count > MOST) {
        gw_assert(gw_sparse_decode(in, len, how.space, NULL, NULL, MOST, &n) == GW_E_LIMIT);
        return;
    }
    struct set a = set_new(count), b = set_new(count);
    gw_assert(gw_sparse_decode(in, len, how.space + 1, a.index, a.value, count, &n) == GW_E_CORRUPT);
    gw_kern_force(tried);
    err = gw_sparse_decode(in, len, how.space, a.index, a.value, count, &n);
    gw_kern_force(&gw_kern_scalar);
    gw_assert(gw_sparse_decode(in, len, how.space, b.index, b.value, count, &other_n) == err);
    gw_assert(err == GW_OK || err == GW_E_CORRUPT || err == GW_E_CHECK);
    if (err == GW_OK) {
        gw_assert(n == count && other_n == n && memcmp(a.index, b.index, 4 * n) == 0 && memcmp(a.value, b.value, 4 * n) == 0);
        check_set(&how, &a, n, in);
    }
    set_free(a), set_free(b);
}

/* The copy ends where the allocation ends. */
static void hostile_copy(const uint8_t *in, size_t len)
{
    uint8_t *copy = malloc(len + 1);
    gw_assert(copy != NULL);
    memcpy(copy + 1, in, len);
    hostile(copy + 1, len);
    free(copy);
}

/* data: count u16, length of the index part u16, then the payload behind its head. */
static void payload(unsigned index, unsigned value, uint32_t word, const uint8_t *data, size_t size)
{
    if (size < 4)
        return;
    struct gw_frame f = {.codec = GW_CODEC_SPARSE, .view = GW_VIEW_F32, .header_bytes = GW_FRAME_BYTES};
    size_t len = GW_FRAME_BYTES + 16 + size - 4;
    uint8_t *frame = calloc(1, len);
    gw_assert(frame != NULL);
    f.count = gw_get16(data), f.wire_bytes = (uint32_t)(len - GW_FRAME_BYTES), f.param = index | value << 8;
    gw_frame_write(frame, &f);
    gw_put32(frame + GW_FRAME_BYTES, index == GW_INDEX_SEED ? UINT16_MAX : word >> (word & 31));
    gw_put32(frame + GW_FRAME_BYTES + 4, gw_get16(data + 2));
    gw_put64(frame + GW_FRAME_BYTES + 8, index == GW_INDEX_SEED ? word : 0);
    memcpy(frame + GW_FRAME_BYTES + 16, data + 4, size - 4);
    hostile_copy(frame, len);
    free(frame);
}

static void round_trip(struct gw_sparse *how, struct set *s)
{
    uint8_t *one, *two;
    size_t len = encode(tried, how, s, &one), again = encode(&gw_kern_scalar, how, s, &two), none;
    gw_assert(len == again && memcmp(one, two, len) == 0);
    gw_assert(gw_sparse_encode(how, s->index, s->value, s->n, two, len - 1, &none) == GW_RAW);
    struct set back = set_new(s->n);
    uint32_t n = 0;
    gw_assert(gw_sparse_decode(one, len, how->space, back.index, back.value, s->n, &n) == GW_OK && n == s->n);
    gw_assert(memcmp(back.index, s->index, 4 * (size_t)n) == 0);
    gw_assert(how->value != GW_VALUE_F32 || memcmp(back.value, s->value, 4 * (size_t)n) == 0);
    hostile_copy(one, len);
    set_free(back), free(one), free(two);
}

static int whole_blocks(const struct set *s, uint64_t space)
{
    for (uint32_t i = 0; i < s->n;) {
        uint64_t m = gw_min_u64(256, space - s->index[i]);
        if (s->index[i] % 256 != 0 || m > s->n - i || s->index[i + m - 1] != s->index[i] + m - 1)
            return 0;
        i += (uint32_t)m;
    }
    return 1;
}

/* An entry takes a byte of the input; a gap of 0 makes 64 entries of it, so that dense blocks come up too.  Without memory it
 * only counts. */
static uint32_t fill(struct set *s, uint32_t word, const uint8_t *data, size_t size)
{
    uint64_t next = 0;
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t gap = data[i];
        if (gap == 255 && size - i > 4)
            gap = gw_get32(data + i + 1) >> (word & 31), i += 4;
        next += gap;
        for (unsigned many = gap == 0 ? 64 : 1; many > 0 && next <= UINT32_MAX; many--, next++, n++) {
            uint32_t bits = (uint32_t)data[i] * 0x9e3779b9u ^ n << (word >> 5 & 31);
            if (s != NULL)
                s->index[n] = (uint32_t)next, memcpy(&s->value[n], &bits, 4);
        }
    }
    return n;
}

static void gaps(unsigned index, unsigned value, uint32_t word, const uint8_t *data, size_t size)
{
    struct set s = set_new(fill(NULL, word, data, size));
    fill(&s, word, data, size);
    if (s.n > MOST) {
        set_free(s);
        return;
    }
    struct gw_sparse how = {.size = sizeof(how), .index = (uint8_t)index, .value = (uint8_t)value, .flags = word >> 10 & 1};
    how.space = gw_min_u64((s.n > 0 ? s.index[s.n - 1] + (uint64_t)1 : 1) + (word >> 20), (uint64_t)1 << 32);
    uint64_t bound = gw_sparse_bound(&how, s.n);
    if (index == GW_INDEX_RUNS && !whole_blocks(&s, how.space)) {
        size_t len;
        gw_assert(gw_sparse_encode(&how, s.index, s.value, s.n, NULL, 0, &len) == GW_E_ARG);
    } else if (bound < 1 << 16 && index != GW_INDEX_SEED)
        round_trip(&how, &s);
    set_free(s);
}

static struct set list_of(const uint8_t *data, size_t n)
{
    struct set s = set_new(n);
    for (size_t i = 0; i < n; i++)
        s.index[i] = gw_get16(data + 2 * i), s.value[i] = (float)(int8_t)data[2 * i] / 8;
    return s;
}

static void two_lists(uint32_t word, const uint8_t *data, size_t size)
{
    static float apart[LISTS], joined[LISTS];
    size_t n = size / 2, cut = n > 0 ? word % (n + 1) : 0, got = 0, cap = word >> 16 & 1 ? n : word >> 17 & 255;
    struct set a = list_of(data, cut), b = list_of(data + 2 * cut, n - cut), u = set_new(cap);
    int sets = is_set(a.index, a.n, LISTS) && is_set(b.index, b.n, LISTS);
    gw_err err = gw_sparse_merge(a.index, a.value, a.n, b.index, b.value, b.n, u.index, u.value, cap, &got);
    gw_assert((err == GW_E_ARG) == !sets && (err != GW_E_LIMIT || cap < n));
    gw_assert(gw_sparse_add(apart, LISTS, a.index, a.value, a.n, 1) == GW_OK); /* eighths: no sum is rounded */
    gw_assert(gw_sparse_add(apart, LISTS, b.index, b.value, b.n, 1) == GW_OK);
    if (err == GW_OK) {
        gw_assert(is_set(u.index, got, LISTS) && got <= cap);
        gw_assert(gw_sparse_store(joined, LISTS, u.index, u.value, got, 1) == GW_OK);
        for (size_t i = 0; i < n; i++)
            gw_assert(joined[gw_get16(data + 2 * i)] == apart[gw_get16(data + 2 * i)]);
    }
    for (size_t i = 0; i < n; i++)
        apart[gw_get16(data + 2 * i)] = joined[gw_get16(data + 2 * i)] = 0;
    set_free(a), set_free(b), set_free(u);
}

static void one(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return;
    unsigned index = data[1] % (GW_INDEX_COUNT + 1), value = data[2] % GW_VALUE_COUNT;
    uint32_t word = gw_get32(data + 3);
    if (index == GW_INDEX_COUNT)
        index = GW_INDEX_BEST;
    gw_kern_force(tried);
    switch (data[0] & 3) {
    case 0:
        hostile_copy(data + HEAD, size - HEAD);
        break;
    case 1:
        payload(index, value, word, data + HEAD, size - HEAD);
        break;
    case 2:
        gaps(index, value, word, data + HEAD, size - HEAD);
        break;
    case 3:
        two_lists(word, data + HEAD, size - HEAD);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_each(one, data, size);
}
