/* kern_tight_scalar.c - the meaning of the window of three exponents, one value at a time.  Read encode_group, then
 * decode_group. */
#include <string.h>

#include <base/bytes.h>

#include "tight.h"

enum { N = GW_GROUP_VALUES };

/* ---- encode ---- */

/* The window that holds most values; the highest of several. */
static unsigned base_of(const uint8_t e[N], unsigned top)
{
    unsigned below[GW_TIGHT_OFFSETS + 2] = {0}, best = 0, most = 0;
    for (unsigned i = 0; i < N; i++)
        if (top - e[i] < GW_TIGHT_OFFSETS + 2)
            below[top - e[i]]++;
    for (unsigned offset = 0; offset < GW_TIGHT_OFFSETS; offset++) {
        unsigned in = below[offset] + below[offset + 1] + below[offset + 2];
        if (in > most)
            most = in, best = offset;
    }
    return top - best;
}

static void codes_pack(const uint8_t code[N], uint8_t *out)
{
    memset(out, 0, GW_TIGHT_CODES_BYTES);
    for (unsigned i = 0; i < N; i++)
        out[i / 128 * 32 + i % 32] |= (uint8_t)(code[i] << i / 32 % 4 * 2);
}

static unsigned near_of(unsigned e, unsigned base)
{
    unsigned below = (base + GW_NEAR_ABOVE - e) & 0xff;
    return e == 0 ? GW_NEAR_ZERO : below > GW_NEAR_LAST ? GW_NEAR_FAR : below;
}

static int exponents_encode(const uint8_t e[N], uint8_t *codes, uint8_t *esc, struct gw_tight *t)
{
    uint8_t code[N], near[N], far[N];
    unsigned top = 0;
    for (unsigned i = 0; i < N; i++)
        top = e[i] > top ? e[i] : top;
    if (top == 0)
        return 0;
    unsigned base = base_of(e, top);
    *t = (struct gw_tight){.base = (uint8_t)base};
    for (unsigned i = 0; i < N; i++) {
        code[i] = (uint8_t)(e[i] <= base && base - e[i] < 3 ? base - e[i] : 3);
        if (code[i] < 3)
            continue;
        near[t->near] = (uint8_t)near_of(e[i], base);
        t->zeros += near[t->near] == GW_NEAR_ZERO;
        if (near[t->near++] == GW_NEAR_FAR)
            far[t->far++] = e[i];
    }
    if (gw_tight_escapes(t->near, t->far) + (t->far > 0 ? 2 : 0) >= GW_TIGHT_ESCAPES)
        return 0;
    codes_pack(code, codes);
    memset(esc, 0, (t->near + 1) / 2);
    for (unsigned i = 0; i < t->near; i++)
        esc[i / 2] |= (uint8_t)(near[i] << i % 2 * 4);
    memcpy(esc + (t->near + 1) / 2, far, t->far);
    return 1;
}

static int encode_group(enum gw_view view, const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)
{
    uint8_t e[N], *plane = body + GW_TIGHT_CODES_BYTES;
    unsigned width = gw_view_shapes[view].width;
    for (unsigned i = 0; i < N; i++) {
        const uint8_t *at = src + i * width;
        unsigned v = gw_get16(at + width - 2);
        e[i] = gw_exponent(v), plane[i] = gw_sign_mantissa(v);
        if (view == GW_VIEW_F32)
            memcpy(plane + N + 2 * i, at, 2);
    }
    return exponents_encode(e, body, esc, t);
}

/* ---- decode ---- */

/* What the escapes stand for, in order; 0 when they are not what t says. */
static int escapes_decode(const struct gw_tight *t, const uint8_t *esc, uint8_t e[GW_TIGHT_NEAR_MAX])
{
    unsigned far = 0;
    for (unsigned i = 0; i < t->near; i++) {
        unsigned near = esc[i / 2] >> i % 2 * 4 & 15;
        if (near == GW_NEAR_NONE || (near == GW_NEAR_FAR && far == t->far))
            return 0;
        e[i] = (uint8_t)(near == GW_NEAR_ZERO  ? 0
                         : near == GW_NEAR_FAR ? esc[(t->near + 1) / 2 + far++]
                                               : t->base + GW_NEAR_ABOVE - near);
    }
    return far == t->far && (t->near % 2 == 0 || esc[t->near / 2] >> 4 == 0);
}

static int exponents_decode(const uint8_t *codes, const struct gw_tight *t, const uint8_t *esc, uint8_t e[N])
{
    uint8_t near[GW_TIGHT_NEAR_MAX];
    unsigned used = 0;
    if (!escapes_decode(t, esc, near))
        return 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned code = codes[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
        if (code == 3 && used == t->near)
            return 0;
        e[i] = code == 3 ? near[used++] : (uint8_t)(t->base - code);
    }
    return used == t->near;
}

static int decode_group(enum gw_view view, const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst)
{
    uint8_t e[N];
    const uint8_t *plane = body + GW_TIGHT_CODES_BYTES;
    unsigned width = gw_view_shapes[view].width;
    if (!exponents_decode(body, t, esc, e))
        return 0;
    for (unsigned i = 0; i < N; i++) {
        uint8_t *at = dst + i * width;
        if (view == GW_VIEW_F32)
            memcpy(at, plane + N + 2 * i, 2);
        else if (width == 4)
            gw_put16(at, 0);
        gw_put16(at + width - 2, gw_join(e[i], plane[i]));
    }
    return 1;
}

/* ---- one copy per view ---- */

#define COPY(name, view)                                                                                          \
    static int encode_##name(const uint8_t *src, uint8_t *body, uint8_t *esc, struct gw_tight *t)                 \
    {                                                                                                             \
        return encode_group(view, src, body, esc, t);                                                             \
    }                                                                                                             \
    static int decode_##name(const uint8_t *body, const struct gw_tight *t, const uint8_t *esc, uint8_t *dst)     \
    {                                                                                                             \
        return decode_group(view, body, t, esc, dst);                                                             \
    }
COPY(bf16, GW_VIEW_BF16)
COPY(f32, GW_VIEW_F32)
COPY(f32_bf16, GW_VIEW_F32_BF16)

const struct gw_kern_tight gw_kern_tight_scalar = {
    .encode = {[GW_VIEW_BF16] = encode_bf16, [GW_VIEW_F32] = encode_f32, [GW_VIEW_F32_BF16] = encode_f32_bf16},
    .decode = {[GW_VIEW_BF16] = decode_bf16, [GW_VIEW_F32] = decode_f32, [GW_VIEW_F32_BF16] = decode_f32_bf16},
};
