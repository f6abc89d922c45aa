/* fuzz_advert.c - what a reader of lane messages accepts, its writer writes back to the same bytes.
 *
 * The first byte of the input picks the reader: a message goes to that of its kind, 'e' is an end record, 'h' a put head,
 * 'i' an immediate, and 'o' an offer whose numbers and sum are put right first, or no mutation would get past the sum. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <advert.h>
#include <base/bytes.h>
#include <base/check.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void offer(const uint8_t *in, uint32_t len)
{
    uint8_t out[GW_OFFER_MAX];
    struct gw_offer o;

    if (gw_offer_read(in, len, &o) != GW_OK)
        return;
    gw_assert(gw_offer_write(out, &o) == len && memcmp(in, out, len) == 0);
    gw_assert(o.buffers >= 1 && o.buffers <= GW_BUFFERS_MAX && o.pieces <= GW_PIECES_MAX);
    for (int i = 0; i < o.buffers; i++)
        gw_assert(o.buf[i].cap <= GW_MESSAGE_MAX && o.buf[i].addr + o.buf[i].cap >= o.buf[i].addr);
}

static void sealed_offer(const uint8_t *in, uint32_t len)
{
    uint8_t lines[GW_OFFER_MAX] = {0};

    if (len < GW_LINE)
        return;
    len = len > GW_OFFER_MAX ? GW_OFFER_MAX : len / GW_LINE * GW_LINE;
    memcpy(lines, in, len);
    for (uint32_t at = 0; at < len; at += GW_LINE)
        memcpy(lines + at + GW_LINE - 4, lines + GW_LINE - 4, 4);
    gw_put32(lines + len - 8, XXH32(lines, len - 8, gw_get32(lines + len - 4)));
    offer(lines, len);
}

static void message(const uint8_t *in, uint32_t left)
{
    uint8_t out[GW_MSG_MAX];
    enum gw_msg_kind kind;
    uint32_t len;
    struct gw_grant g;
    struct gw_landed l;

    if (gw_msg_next(in, left, &kind, &len) != GW_OK)
        return;
    gw_assert(len > 0 && len <= left);
    if (len < left)
        message(in + len, left - len);
    if (kind == GW_MSG_OFFER)
        offer(in, len);
    if (gw_grant_read(in, len, &g) == GW_OK) {
        gw_grant_write(out, &g);
        gw_assert(kind == GW_MSG_GRANT && memcmp(in, out, GW_GRANT_BYTES) == 0);
    }
    if (gw_landed_read(in, len, &l) == GW_OK) {
        gw_landed_write(out, &l);
        gw_assert(kind == GW_MSG_LANDED && memcmp(in, out, GW_LANDED_BYTES) == 0);
    }
}

static void end(const uint8_t *in, uint32_t len)
{
    uint8_t out[GW_END_BYTES];
    struct gw_end e;

    if (gw_end_read(in, len, &e) != GW_OK)
        return;
    gw_end_write(out, &e);
    gw_assert(memcmp(in, out, GW_END_BYTES) == 0);
    gw_assert(e.raw <= e.total && e.total <= GW_MESSAGE_MAX && e.path < GW_PATHS_MAX);
}

static void head(const uint8_t *in, uint32_t len)
{
    uint8_t out[GW_HEAD_BYTES];
    struct gw_head h;

    if (gw_head_read(in, len, &h) != GW_OK)
        return;
    gw_head_write(out, &h);
    gw_assert(memcmp(in, out, GW_HEAD_BYTES) == 0);
}

static void immediate(const uint8_t *in, uint32_t len)
{
    struct gw_head h;

    if (len == 4 && gw_imm_read(gw_get32(in), &h) == GW_OK)
        gw_assert(gw_imm_write(&h) == gw_get32(in));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t len = (uint32_t)size - 1;
    uint8_t *in;

    if (size == 0 || size > 4096)
        return 0;
    in = malloc(len > 0 ? len : 1); /* exactly as long, so that reading past the end shows */
    memcpy(in, data + 1, len);
    switch (data[0]) {
    case 'e': end(in, len); break;
    case 'h': head(in, len); break;
    case 'i': immediate(in, len); break;
    case 'o': sealed_offer(in, len); break;
    default: message(in, len);
    }
    free(in);
    return 0;
}
