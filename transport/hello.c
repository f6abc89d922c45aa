/* hello.c - the handle and the five messages of the control socket.  Every field stands at a fixed place, drawn above the
 * code that reads it; what a reader takes, the writer writes again bit for bit.
 *
 * The layouts of hello and reject are the same in every version, for ever: they must be readable to find out that the
 * versions differ. */
#include <stdio.h>
#include <string.h>

#include <base/bytes.h>
#include <base/check.h>

#include "hello.h"

enum {
    HANDLE_MAGIC = 0x48445747, /* "GWDH" */
    HANDLE_VERSION = 1,
    CTL_MAGIC = 0x4c435747, /* "GWCL" */
    CTL_VERSION = 1,
    HELLO_FIXED = 416,
    REJECT_BODY = 324,
    ALIVE_BODY = 1,
    FAIL_BODY = 336,
    BYE_BODY = 12,
    CHUNK_STEP = 16 << 10,
    CHUNK_MAX = 16 << 20,
    ADDR_BYTES = 24,
};

_Static_assert(HELLO_FIXED + GW_BLOB_MAX <= GW_HELLO_MAX, "a hello with the largest blob fits");
_Static_assert(24 + GW_ADDRS_MAX * ADDR_BYTES + 8 == GW_HANDLE_BYTES, "the handle is full");

/* ---- text: printable ASCII, then NUL to the end of the field ---- */
static int printable(uint8_t c)
{
    return c >= 0x20 && c < 0x7f;
}

/* A host name or an errno text may hold anything: what the peer would refuse is written as '?'. */
static void put_text(uint8_t *out, const char *text, size_t room)
{
    memset(out, 0, room);
    for (size_t i = 0; i + 1 < room && text[i] != 0; i++)
        out[i] = printable((uint8_t)text[i]) ? (uint8_t)text[i] : '?';
}

static int get_text(const uint8_t *in, char *text, size_t room)
{
    size_t n = 0;
    while (n < room && printable(in[n]))
        n++;
    if (n == room || !gw_zero(in + n, room - n))
        return 0;
    memcpy(text, in, room);
    return 1;
}

/* ---- handle ----
 *  0       4     5       6   8       24              120     128
 *  +-------+-----+-------+---+-------+---------------+-------+
 *  | magic | ver | addrs | 0 | token | 4 x address   | local |
 *  +-------+-----+-------+---+-------+---------------+-------+
 * address:  0 family u8 | 1 0 | 2 port u16 | 4 scope u32 | 8 ip 16; unused ones are zero */
static void put_addr(uint8_t *out, const struct gw_addr *a)
{
    out[0] = a->family;
    gw_put16(out + 2, a->port);
    gw_put32(out + 4, a->scope);
    memcpy(out + 8, a->ip, a->family == 4 ? 4 : 16);
}

static int get_addr(const uint8_t *in, struct gw_addr *a)
{
    *a = (struct gw_addr){.family = in[0], .port = gw_get16(in + 2), .scope = gw_get32(in + 4)};
    memcpy(a->ip, in + 8, 16);
    if (in[1] != 0 || a->port == 0)
        return 0;
    int link_local = a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80;
    if (a->family == 4)
        return a->scope == 0 && gw_zero(a->ip + 4, 12);
    return a->family == 6 && (a->scope == 0 || link_local);
}

void gw_handle_write(uint8_t out[GW_HANDLE_BYTES], const struct gw_handle *h)
{
    gw_assert(h->addrs <= GW_ADDRS_MAX);
    memset(out, 0, GW_HANDLE_BYTES);
    gw_put32(out, HANDLE_MAGIC);
    out[4] = HANDLE_VERSION;
    out[5] = h->addrs;
    memcpy(out + 8, h->token, GW_TOKEN_BYTES);
    for (int i = 0; i < h->addrs; i++)
        put_addr(out + 24 + i * ADDR_BYTES, &h->addr[i]);
    gw_put64(out + 120, h->local);
}

gw_err gw_handle_read(const uint8_t in[GW_HANDLE_BYTES], struct gw_handle *h)
{
    struct gw_handle got = {.addrs = in[5], .local = gw_get64(in + 120)};
    if (gw_get32(in) != HANDLE_MAGIC)
        return GW_E_PROTO;
    if (in[4] != HANDLE_VERSION)
        return GW_E_VERSION;
    if (got.addrs < 1 || got.addrs > GW_ADDRS_MAX || !gw_zero(in + 6, 2))
        return GW_E_PROTO;
    memcpy(got.token, in + 8, GW_TOKEN_BYTES);
    for (int i = 0; i < got.addrs; i++)
        if (!get_addr(in + 24 + i * ADDR_BYTES, &got.addr[i]))
            return GW_E_PROTO;
    if (!gw_zero(in + 24 + got.addrs * ADDR_BYTES, (size_t)(GW_ADDRS_MAX - got.addrs) * ADDR_BYTES))
        return GW_E_PROTO;
    *h = got;
    return GW_OK;
}

/* ---- the head of every message ----
 *  0       4      5     6          8
 *  +-------+------+-----+----------+
 *  | magic | kind | ver | body len | body */
static uint32_t put_head(uint8_t *out, enum gw_ctl_kind kind, uint32_t body)
{
    gw_put32(out, CTL_MAGIC);
    out[4] = (uint8_t)kind, out[5] = CTL_VERSION;
    gw_put16(out + 6, (uint16_t)body);
    memset(out + GW_CTL_HEAD, 0, body);
    return GW_CTL_HEAD + body;
}

static int body_fits(enum gw_ctl_kind kind, uint32_t body)
{
    switch (kind) {
    case GW_CTL_HELLO:
        return body >= HELLO_FIXED && body - HELLO_FIXED <= GW_BLOB_MAX;
    case GW_CTL_REJECT:
        return body == REJECT_BODY;
    case GW_CTL_ALIVE:
        return body == ALIVE_BODY;
    case GW_CTL_FAIL:
        return body == FAIL_BODY;
    case GW_CTL_BYE:
        return body == BYE_BODY;
    }
    return 0;
}

gw_err gw_ctl_read(const uint8_t *in, uint32_t len, enum gw_ctl_kind *kind_p, uint32_t *whole_p)
{
    uint8_t magic[4];
    gw_put32(magic, CTL_MAGIC);
    /* A stranger is known by its first wrong byte, before it has sent eight. */
    if (memcmp(in, magic, len < 4 ? len : 4) != 0)
        return GW_E_PROTO;
    if (len > 5 && in[5] != CTL_VERSION)
        return GW_E_VERSION;
    if (len < GW_CTL_HEAD)
        return GW_AGAIN;
    enum gw_ctl_kind kind = (enum gw_ctl_kind)in[4];
    uint32_t body = gw_get16(in + 6);
    if (!body_fits(kind, body))
        return GW_E_PROTO;
    if (len - GW_CTL_HEAD < body)
        return GW_AGAIN;
    *kind_p = kind, *whole_p = GW_CTL_HEAD + body;
    return GW_OK;
}

/* The one message of `kind` that fills in[0, len) exactly; NULL where it is none. */
static const uint8_t *body_of(const uint8_t *in, uint32_t len, enum gw_ctl_kind kind)
{
    enum gw_ctl_kind got;
    uint32_t whole;
    if (gw_ctl_read(in, len, &got, &whole) != GW_OK || got != kind || whole != len)
        return NULL;
    return in + GW_CTL_HEAD;
}

/* ---- hello ----
 *  0         2         4      8     12      16       24      25     26         28  32      48     112    128     160     416
 *  +---------+---------+------+-----+-------+--------+-------+------+----------+---+-------+------+------+-------+-------+
 *  | ver min | ver max | caps | pid | chunk | codecs | check | role | blob len | 0 | token | host | lane | build | lossy | blob
 *  +---------+---------+------+-----+-------+--------+-------+------+----------+---+-------+------+------+-------+-------+ */
uint32_t gw_hello_write(uint8_t *out, const struct gw_hello *h)
{
    gw_assert(h->blob.len <= GW_BLOB_MAX);
    uint32_t whole = put_head(out, GW_CTL_HELLO, HELLO_FIXED + h->blob.len);
    uint8_t *b = out + GW_CTL_HEAD;
    gw_put16(b, h->version_min);
    gw_put16(b + 2, h->version_max);
    gw_put32(b + 4, h->caps);
    gw_put32(b + 8, h->pid);
    gw_put32(b + 12, h->chunk_bytes);
    gw_put64(b + 16, h->codecs);
    b[24] = h->check, b[25] = h->role;
    gw_put16(b + 26, (uint16_t)h->blob.len);
    memcpy(b + 32, h->token, GW_TOKEN_BYTES);
    put_text(b + 48, h->host, sizeof h->host);
    put_text(b + 112, h->lane, sizeof h->lane);
    put_text(b + 128, h->build, sizeof h->build);
    put_text(b + 160, h->lossy, sizeof h->lossy);
    memcpy(b + HELLO_FIXED, h->blob.bytes, h->blob.len);
    return whole;
}

static int chunk_fits(uint32_t chunk)
{
    return chunk >= CHUNK_STEP && chunk <= CHUNK_MAX && chunk % CHUNK_STEP == 0;
}

gw_err gw_hello_read(const uint8_t *in, uint32_t len, struct gw_hello *h)
{
    const uint8_t *b = body_of(in, len, GW_CTL_HELLO);
    if (b == NULL)
        return GW_E_PROTO;
    struct gw_hello got = {
        .version_min = gw_get16(b), .version_max = gw_get16(b + 2), .caps = gw_get32(b + 4),
        .pid = gw_get32(b + 8), .chunk_bytes = gw_get32(b + 12), .codecs = gw_get64(b + 16),
        .check = b[24], .role = b[25], .blob.len = gw_get16(b + 26),
    };
    if (got.blob.len != len - GW_CTL_HEAD - HELLO_FIXED || !gw_zero(b + 28, 4))
        return GW_E_PROTO;
    if (got.version_min < 1 || got.version_min > got.version_max || got.check > 1)
        return GW_E_PROTO;
    if (got.role < 1 || got.role > 2 || !chunk_fits(got.chunk_bytes))
        return GW_E_PROTO;
    if (!get_text(b + 48, got.host, sizeof got.host) || !get_text(b + 112, got.lane, sizeof got.lane) ||
        !get_text(b + 128, got.build, sizeof got.build) || !get_text(b + 160, got.lossy, sizeof got.lossy))
        return GW_E_PROTO;
    memcpy(got.token, b + 32, GW_TOKEN_BYTES);
    memcpy(got.blob.bytes, b + HELLO_FIXED, got.blob.len);
    *h = got;
    return GW_OK;
}

/* ---- reject ----  0 code i32 | 4 host 64 | 68 text 256 */
uint32_t gw_reject_write(uint8_t *out, const struct gw_reject *r)
{
    uint32_t whole = put_head(out, GW_CTL_REJECT, REJECT_BODY);
    uint8_t *b = out + GW_CTL_HEAD;
    gw_put32(b, (uint32_t)r->code);
    put_text(b + 4, r->host, sizeof r->host);
    put_text(b + 68, r->text, sizeof r->text);
    return whole;
}

gw_err gw_reject_read(const uint8_t *in, uint32_t len, struct gw_reject *r)
{
    const uint8_t *b = body_of(in, len, GW_CTL_REJECT);
    struct gw_reject got;
    if (b == NULL)
        return GW_E_PROTO;
    got.code = (int32_t)gw_get32(b);
    /* A number unknown here may be a later build's; one that means success is nobody's. */
    if (got.code >= 0 || !get_text(b + 4, got.host, sizeof got.host) || !get_text(b + 68, got.text, sizeof got.text))
        return GW_E_PROTO;
    *r = got;
    return GW_OK;
}

/* ---- alive ----  0 answer me u8: 1 asks, 0 answers */
uint32_t gw_alive_write(uint8_t *out, int answer_me)
{
    uint32_t whole = put_head(out, GW_CTL_ALIVE, ALIVE_BODY);
    out[GW_CTL_HEAD] = answer_me != 0;
    return whole;
}

gw_err gw_alive_read(const uint8_t *in, uint32_t len, int *answer_me_p)
{
    const uint8_t *b = body_of(in, len, GW_CTL_ALIVE);
    if (b == NULL || b[0] > 1)
        return GW_E_PROTO;
    *answer_me_p = b[0];
    return GW_OK;
}

/* ---- fail ----  0 code i32 | 4 number u32 | 8 pid u32 | 12 told u8 | 13 0 | 16 host 64 | 80 text 256 */
uint32_t gw_fail_write(uint8_t *out, const struct gw_fail *f)
{
    uint32_t whole = put_head(out, GW_CTL_FAIL, FAIL_BODY);
    uint8_t *b = out + GW_CTL_HEAD;
    gw_put32(b, (uint32_t)f->code);
    gw_put32(b + 4, f->number);
    gw_put32(b + 8, f->pid);
    b[12] = f->told != 0;
    put_text(b + 16, f->host, sizeof f->host);
    put_text(b + 80, f->text, sizeof f->text);
    return whole;
}

gw_err gw_fail_read(const uint8_t *in, uint32_t len, struct gw_fail *f)
{
    const uint8_t *b = body_of(in, len, GW_CTL_FAIL);
    if (b == NULL)
        return GW_E_PROTO;
    struct gw_fail got = {.code = (int32_t)gw_get32(b), .number = gw_get32(b + 4), .pid = gw_get32(b + 8), .told = b[12]};
    if (got.code >= 0 || got.told > 1 || !gw_zero(b + 13, 3))
        return GW_E_PROTO;
    if (!get_text(b + 16, got.host, sizeof got.host) || !get_text(b + 80, got.text, sizeof got.text))
        return GW_E_PROTO;
    *f = got;
    return GW_OK;
}

/* ---- bye ----  0 lowest u32 | 4 map u32 | 8 receiver u8 | 9 0; a sender's has zeros only */
uint32_t gw_bye_write(uint8_t *out, const struct gw_bye *b)
{
    uint32_t whole = put_head(out, GW_CTL_BYE, BYE_BODY);
    if (b->receiver) {
        gw_put32(out + GW_CTL_HEAD, b->lowest);
        gw_put32(out + GW_CTL_HEAD + 4, b->map);
        out[GW_CTL_HEAD + 8] = 1;
    }
    return whole;
}

gw_err gw_bye_read(const uint8_t *in, uint32_t len, struct gw_bye *b)
{
    const uint8_t *p = body_of(in, len, GW_CTL_BYE);
    if (p == NULL || p[8] > 1 || !gw_zero(p + 9, 3) || (p[8] == 0 && !gw_zero(p, 8)))
        return GW_E_PROTO;
    *b = (struct gw_bye){.lowest = gw_get32(p), .map = gw_get32(p + 4), .receiver = p[8]};
    return GW_OK;
}

/* ---- what two hellos agree on ---- */
static gw_err differ(const struct gw_hello *mine, struct gw_reject *why, gw_err code)
{
    why->code = code;
    put_text((uint8_t *)why->host, mine->host, sizeof why->host);
    return code;
}

/* Where to begin so that a line of limited length shows the difference. */
static size_t first_difference(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] != 0 && a[at] == b[at])
        at++;
    return at < 48 ? 0 : at;
}

gw_err gw_hello_agree(const struct gw_hello *mine, const struct gw_hello *theirs, struct gw_agreed *a,
                      struct gw_reject *why)
{
    memset(why, 0, sizeof *why);
    if (mine->version_min > theirs->version_max || theirs->version_min > mine->version_max) {
        snprintf(why->text, sizeof why->text,
                 "protocol versions do not meet: %.40s (build %.16s) speaks %u to %u, %.40s (build %.16s) %u to %u; "
                 "install one build on both", mine->host, mine->build, mine->version_min, mine->version_max,
                 theirs->host, theirs->build, theirs->version_min, theirs->version_max);
        return differ(mine, why, GW_E_VERSION);
    }
    if (mine->role == theirs->role) {
        snprintf(why->text, sizeof why->text, "both ends want to %s", mine->role == 1 ? "send" : "receive");
        return differ(mine, why, GW_E_PROTO);
    }
    if (strcmp(mine->lane, theirs->lane) != 0) {
        snprintf(why->text, sizeof why->text, "lanes differ: %.63s has %s, %.63s has %s; set GRADWIRE_LANE alike",
                 mine->host, mine->lane, theirs->host, theirs->lane);
        return differ(mine, why, GW_E_SETTING);
    }
    if (strcmp(mine->lossy, theirs->lossy) != 0) {
        size_t at = first_difference(mine->lossy, theirs->lossy);
        snprintf(why->text, sizeof why->text, "lossy settings differ: %.24s has '%.64s', %.24s has '%.64s'; set them alike",
                 mine->host, mine->lossy + at, theirs->host, theirs->lossy + at);
        return differ(mine, why, GW_E_SETTING);
    }
    a->version = mine->version_max < theirs->version_max ? mine->version_max : theirs->version_max;
    a->chunk_bytes = mine->chunk_bytes < theirs->chunk_bytes ? mine->chunk_bytes : theirs->chunk_bytes;
    a->codecs = mine->codecs & theirs->codecs;
    a->check = mine->check | theirs->check;
    return GW_OK;
}
