/* group_sparse.c - planes of fewer than 256 values.  They stand as in a full body, cut off behind the last byte that holds
 * one of them. */
#include <string.h>

#include <base/check.h>

#include "group.h"

/* Bits of a value in each plane of a window body, in order; a full plane has 32 times as many bytes. */
enum { PLANES = 3, ROW = 32 };
static const uint8_t planes_of[GW_VIEW_COUNT][PLANES] = {
    [GW_VIEW_BYTES] = {4},        [GW_VIEW_BF16] = {4, 8},     [GW_VIEW_F32] = {4, 8, 16},
    [GW_VIEW_F16] = {4, 8, 2},    [GW_VIEW_F32_BF16] = {4, 8},
};

/* Below 8 bits a row of 32 bytes holds value j of each of its 32s in byte j. */
static inline size_t plane_bytes(unsigned bits, unsigned some)
{
    unsigned row = 8 * ROW / bits;
    return bits >= 8 ? some * bits / 8 : some / row * ROW + gw_min_u64(some % row, ROW);
}

size_t gw_sparse_bytes(enum gw_view view, unsigned some)
{
    static const uint8_t whole[GW_VIEW_COUNT] = {
        [GW_VIEW_BYTES] = 0, [GW_VIEW_BF16] = 1, [GW_VIEW_F32] = 3, [GW_VIEW_F16] = 1, [GW_VIEW_F32_BF16] = 1};
    size_t n = GW_MAP_BYTES + plane_bytes(4, some) + (size_t)whole[view] * some;
    return view == GW_VIEW_F16 ? n + plane_bytes(2, some) : n;
}

void gw_sparse_pack(enum gw_view view, unsigned some, const uint8_t *body, uint8_t *planes)
{
    for (unsigned i = 0; i < PLANES && planes_of[view][i] != 0; i++) {
        unsigned bits = planes_of[view][i];
        size_t n = plane_bytes(bits, some);
        memcpy(planes, body, n);
        planes += n, body += ROW * bits;
    }
}

static unsigned any_of(const uint8_t *p, unsigned n)
{
    unsigned any = 0;
    for (unsigned i = 0; i < n; i++)
        any |= p[i];
    return any;
}

/* The bits of a row's bytes that belong to no value: its first bytes hold one value more than the others. */
static unsigned spare(const uint8_t *row, unsigned bits, unsigned values)
{
    unsigned each = values / ROW, more = values % ROW, rest = each > 0 ? ROW - more : 0;
    return any_of(row, more) >> bits * (each + 1) | any_of(row + more, rest) >> bits * each;
}

int gw_sparse_unpack(enum gw_view view, unsigned some, const uint8_t *planes, uint8_t *body)
{
    unsigned any = 0;
    for (unsigned i = 0; i < PLANES && planes_of[view][i] != 0; i++) {
        unsigned bits = planes_of[view][i], row = 8 * ROW / bits;
        size_t n = plane_bytes(bits, some);
        memcpy(body, planes, n);
        if (bits < 8) {
            memset(body + n, 0, ROW * bits - n);
            any |= spare(body + some / row * ROW, bits, some % row);
        }
        planes += n, body += ROW * bits;
    }
    return any == 0;
}
