/* fuzz_hello.c - any bytes as a handle and as a control message: what is accepted is written again bit for bit. */
#include <stdlib.h>
#include <string.h>

#include <base/check.h>
#include <hello.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const uint8_t *out, uint32_t len, const uint8_t *in, uint32_t in_len)
{
    gw_assert(len == in_len && memcmp(out, in, len) == 0);
}

static void handle(const uint8_t *in)
{
    uint8_t out[GW_HANDLE_BYTES];
    struct gw_handle h;
    if (gw_handle_read(in, &h) != GW_OK)
        return;
    gw_handle_write(out, &h);
    same(out, GW_HANDLE_BYTES, in, GW_HANDLE_BYTES);
}

/* A hello that can be read must also be one that two ends can judge, whatever it claims. */
static void agree(const struct gw_hello *h)
{
    struct gw_hello other = *h;
    struct gw_agreed a;
    struct gw_reject why;
    gw_err err = gw_hello_agree(h, &other, &a, &why);
    gw_assert(err == GW_E_PROTO && why.text[0] != 0); /* both have one role */
    other.role = (uint8_t)(3 - h->role);
    gw_assert(gw_hello_agree(h, &other, &a, &why) == GW_OK && a.version == h->version_max);
}

static void message(const uint8_t *in, uint32_t len)
{
    uint8_t out[GW_CTL_MAX];
    enum gw_ctl_kind kind;
    uint32_t whole;
    struct gw_hello hello;
    struct gw_reject reject;
    struct gw_fail fail;
    struct gw_bye bye;
    int ask;
    gw_err head = gw_ctl_read(in, len, &kind, &whole);
    int taken = 0;
    if (head == GW_OK)
        gw_assert(whole <= len && whole <= GW_CTL_MAX);
    else
        whole = len;
    if (gw_hello_read(in, whole, &hello) == GW_OK)
        taken++, same(out, gw_hello_write(out, &hello), in, whole), agree(&hello);
    if (gw_reject_read(in, whole, &reject) == GW_OK)
        taken++, same(out, gw_reject_write(out, &reject), in, whole);
    if (gw_alive_read(in, whole, &ask) == GW_OK)
        taken++, same(out, gw_alive_write(out, ask), in, whole);
    if (gw_fail_read(in, whole, &fail) == GW_OK)
        taken++, same(out, gw_fail_write(out, &fail), in, whole);
    if (gw_bye_read(in, whole, &bye) == GW_OK)
        taken++, same(out, gw_bye_write(out, &bye), in, whole);
    gw_assert(taken <= (head == GW_OK));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that the address sanitizer sees a read of one byte too many. */
    uint8_t *in = malloc(size + 1);
    if (in == NULL || size > 1 << 16)
        goto out;
    uint8_t *exact = in + 1;
    memcpy(exact, data, size);
    if (size >= GW_HANDLE_BYTES)
        handle(exact);
    message(exact, (uint32_t)size);
out:
    free(in);
    return 0;
}
