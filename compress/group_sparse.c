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
static size_t plane_bytes(unsigned bits, unsigned some)
{
    unsigned row = 8 * ROW / bits;
    return bits >= 8 ? some * bits / 8 : some / row * ROW + gw_min_u64(some % row, ROW);
}

size_t gw_sparse_bytes(enum gw_view view, unsigned some)
{
    size_t n = GW_MAP_BYTES;
    for (unsigned i = 0; i < PLANES && planes_of[view][i] != 0; i++)
        n += plane_bytes(planes_of[view][i], some);
    return n;
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

/* The bits of a row's bytes that belong to no value. */
static unsigned spare(const uint8_t *row, unsigned bits, unsigned values)
{
    unsigned any = 0;
    for (unsigned j = 0; j < ROW && j < values; j++)
        any |= (unsigned)row[j] >> bits * ((values - j + ROW - 1) / ROW);
    return any;
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
