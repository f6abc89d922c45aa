/* test_hello.c - the handle and the control messages, against bytes that were written by hand and stay for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hello.h>

static uint32_t golden(const char *name, uint8_t *out, size_t room)
{
    char path[512];
    snprintf(path, sizeof path, GW_SRC "/tests/golden/ctl1-%s.bin", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, room, f);
    fclose(f);
    return (uint32_t)n;
}

static struct gw_hello hello_example(void)
{
    struct gw_hello h = {
        .version_min = 1, .version_max = 1, .caps = 0x29, .pid = 4242, .chunk_bytes = 131072, .codecs = 3,
        .check = 1, .role = 1, .host = "node-17.example", .lane = "ucx", .lossy = "topk=0.01 seed=7",
        .build = "0.1.0", .blob.len = 23,
    };
    for (int i = 0; i < GW_TOKEN_BYTES; i++)
        h.token[i] = (uint8_t)(0xa0 + i);
    for (int i = 0; i < 23; i++)
        h.blob.bytes[i] = (uint8_t)(i + 1);
    return h;
}

static void hello_golden(void **state)
{
    (void)state;
    uint8_t want[GW_CTL_MAX], out[GW_CTL_MAX];
    uint32_t len = golden("hello", want, sizeof want);
    struct gw_hello h = hello_example(), got;
    assert_int_equal(len, 8 + 416 + 23);
    assert_int_equal(gw_hello_write(out, &h), len);
    assert_memory_equal(out, want, len);
    assert_int_equal(gw_hello_read(want, len, &got), GW_OK);
    assert_true(got.caps == 0x29 && got.pid == 4242 && got.chunk_bytes == 131072 && got.codecs == 3 && got.blob.len == 23);
    assert_string_equal(got.host, h.host);
    assert_string_equal(got.lossy, h.lossy);
    assert_int_equal(gw_hello_write(out, &got), len);
    assert_memory_equal(out, want, len);
}

static void others_golden(void **state)
{
    (void)state;
    uint8_t want[GW_CTL_MAX], out[GW_CTL_MAX];
    struct gw_reject r;
    struct gw_fail f;
    struct gw_bye b;
    int ask;
    uint32_t len = golden("reject", want, sizeof want);
    assert_int_equal(gw_reject_read(want, len, &r), GW_OK);
    assert_int_equal(r.code, GW_E_VERSION);
    assert_string_equal(r.host, "node-18");
    assert_string_equal(r.text, "protocol versions do not meet");
    assert_int_equal(gw_reject_write(out, &r), len);
    assert_memory_equal(out, want, len);

    len = golden("fail", want, sizeof want);
    assert_int_equal(gw_fail_read(want, len, &f), GW_OK);
    assert_true(f.code == GW_E_CORRUPT && f.number == 77 && f.pid == 4243 && f.told == 1);
    assert_string_equal(f.host, "node-19");
    assert_int_equal(gw_fail_write(out, &f), len);
    assert_memory_equal(out, want, len);

    len = golden("bye", want, sizeof want);
    assert_int_equal(gw_bye_read(want, len, &b), GW_OK);
    assert_true(b.lowest == 1000 && b.map == 0x80000004 && b.receiver == 1);
    assert_int_equal(gw_bye_write(out, &b), len);
    assert_memory_equal(out, want, len);

    len = golden("alive", want, sizeof want);
    assert_int_equal(len, 9);
    assert_int_equal(gw_alive_read(want, len, &ask), GW_OK);
    assert_int_equal(ask, 1);
    assert_int_equal(gw_alive_write(out, 1), len);
    assert_memory_equal(out, want, len);
}

static void handle_golden(void **state)
{
    (void)state;
    uint8_t want[GW_HANDLE_BYTES], out[GW_HANDLE_BYTES];
    struct gw_handle h;
    assert_int_equal(golden("handle", want, sizeof want), GW_HANDLE_BYTES);
    assert_int_equal(gw_handle_read(want, &h), GW_OK);
    assert_int_equal(h.addrs, 2);
    assert_true(h.addr[0].family == 4 && h.addr[0].port == 40001 && h.addr[0].ip[3] == 3);
    assert_true(h.addr[1].family == 6 && h.addr[1].port == 40002 && h.addr[1].ip[15] == 7);
    gw_handle_write(out, &h);
    assert_memory_equal(out, want, sizeof out);
    h.local = 0x1122334455667788; /* this side's scratch travels in the caller's memory, not on the wire */
    gw_handle_write(out, &h);
    assert_int_equal(gw_handle_read(out, &h), GW_OK);
    assert_true(h.local == 0x1122334455667788);
}

static void handle_refused(void **state)
{
    (void)state;
    uint8_t in[GW_HANDLE_BYTES], bad[GW_HANDLE_BYTES];
    struct gw_handle h;
    golden("handle", in, sizeof in);
    static const struct {
        int at;
        uint8_t value;
        gw_err err;
    } cases[] = {
        {0, 0, GW_E_PROTO},   {4, 2, GW_E_VERSION}, {5, 0, GW_E_PROTO},  {5, 5, GW_E_PROTO},
        {6, 1, GW_E_PROTO},   {24, 5, GW_E_PROTO},  {25, 1, GW_E_PROTO}, {28, 1, GW_E_PROTO},
        {36, 1, GW_E_PROTO},  {52, 1, GW_E_PROTO},  {72, 1, GW_E_PROTO}, {119, 1, GW_E_PROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bad, in, sizeof bad);
        bad[cases[i].at] = cases[i].value;
        assert_int_equal(gw_handle_read(bad, &h), cases[i].err);
    }
    memcpy(bad, in, sizeof bad);
    memset(bad + 26, 0, 2); /* port 0 */
    assert_int_equal(gw_handle_read(bad, &h), GW_E_PROTO);
}

/* Every byte of the hello, changed in every bit: refused, or taken and written again as it came. */
static void one_meaning_one_spelling(void **state)
{
    (void)state;
    uint8_t in[GW_CTL_MAX], out[GW_CTL_MAX];
    uint32_t len = golden("hello", in, sizeof in);
    struct gw_hello h;
    int taken = 0;
    for (uint32_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            in[i] ^= (uint8_t)(1 << bit);
            if (gw_hello_read(in, len, &h) == GW_OK) {
                taken++;
                assert_int_equal(gw_hello_write(out, &h), len);
                assert_memory_equal(out, in, len);
            }
            in[i] ^= (uint8_t)(1 << bit);
        }
    assert_true(taken > 23 * 8);
}

static void hello_refused(void **state)
{
    (void)state;
    uint8_t in[GW_CTL_MAX], bad[GW_CTL_MAX];
    uint32_t len = golden("hello", in, sizeof in);
    struct gw_hello h;
    static const struct {
        int at;
        uint8_t value;
    } cases[] = {
        {0, 2} /* versions 2 to 1 */, {0, 0}, {24, 2}, {25, 0}, {25, 3}, {26, 22}, {26, 24}, {28, 1},
        {12, 1} /* chunk no multiple */, {48, 0x1f}, {48, 0x7f}, {111, 'x'}, {127, 'x'}, {159, 'x'}, {415, 'x'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bad, in, sizeof bad);
        bad[8 + cases[i].at] = cases[i].value;
        assert_int_equal(gw_hello_read(bad, len, &h), GW_E_PROTO);
    }
    for (uint32_t n = 0; n < len; n++)
        assert_int_equal(gw_hello_read(in, n, &h), GW_E_PROTO);
    assert_int_equal(gw_hello_read(in, len + 1, &h), GW_E_PROTO);
}

static void head_tells_early(void **state)
{
    (void)state;
    uint8_t in[GW_CTL_MAX];
    uint32_t len = golden("hello", in, sizeof in), whole = 0;
    enum gw_ctl_kind kind;
    for (uint32_t n = 0; n < len; n++)
        assert_int_equal(gw_ctl_read(in, n, &kind, &whole), GW_AGAIN);
    assert_int_equal(gw_ctl_read(in, len, &kind, &whole), GW_OK);
    assert_int_equal(kind, GW_CTL_HELLO);
    assert_int_equal(whole, len);
    assert_int_equal(gw_ctl_read((const uint8_t *)"GET", 1, &kind, &whole), GW_AGAIN); /* 'G' is right so far */
    assert_int_equal(gw_ctl_read((const uint8_t *)"GET", 2, &kind, &whole), GW_E_PROTO);
    in[5] = 2;
    assert_int_equal(gw_ctl_read(in, 8, &kind, &whole), GW_E_VERSION);
    in[5] = 1, in[4] = 9;
    assert_int_equal(gw_ctl_read(in, 8, &kind, &whole), GW_E_PROTO);
    in[4] = GW_CTL_HELLO, in[6] = 0xff, in[7] = 0xff;
    assert_int_equal(gw_ctl_read(in, 8, &kind, &whole), GW_E_PROTO);
}

/* Names and errno texts come from anywhere; the peer must not choke on them. */
static void text_is_washed(void **state)
{
    (void)state;
    uint8_t out[GW_CTL_MAX];
    struct gw_fail f = {.code = GW_E_PEER, .text = "caf\xc3\xa9\nnew line"}, got;
    memset(f.host, 'h', sizeof f.host); /* no end */
    uint32_t len = gw_fail_write(out, &f);
    assert_int_equal(gw_fail_read(out, len, &got), GW_OK);
    assert_string_equal(got.text, "caf???new line");
    assert_int_equal(strlen(got.host), GW_HOST_MAX - 1);
}

static void agree(void **state)
{
    (void)state;
    struct gw_hello a = hello_example(), b = hello_example();
    struct gw_agreed got;
    struct gw_reject why;
    b.role = 2, b.chunk_bytes = 65536, b.codecs = 5, b.check = 0, a.check = 1, b.version_max = 3;
    assert_int_equal(gw_hello_agree(&a, &b, &got, &why), GW_OK);
    assert_true(got.version == 1 && got.chunk_bytes == 65536 && got.codecs == 1 && got.check == 1);
    assert_int_equal(gw_hello_agree(&b, &a, &got, &why), GW_OK);
    assert_true(got.version == 1 && got.chunk_bytes == 65536 && got.codecs == 1 && got.check == 1);
}

static void disagree(void **state)
{
    (void)state;
    struct gw_hello a = hello_example(), b = hello_example();
    struct gw_agreed got;
    struct gw_reject why;
    b.role = 2;
    strcpy(b.host, "node-18"), strcpy(b.build, "9.0.0");
    b.version_min = 2, b.version_max = 4;
    assert_int_equal(gw_hello_agree(&a, &b, &got, &why), GW_E_VERSION);
    assert_int_equal(why.code, GW_E_VERSION);
    assert_non_null(strstr(why.text, "0.1.0) speaks 1 to 1"));
    assert_non_null(strstr(why.text, "9.0.0) 2 to 4"));
    assert_string_equal(why.host, "node-17.example");
    b.version_min = 1;
    strcpy(b.lane, "verbs");
    assert_int_equal(gw_hello_agree(&a, &b, &got, &why), GW_E_SETTING);
    assert_non_null(strstr(why.text, "node-17.example has ucx, node-18 has verbs"));
    strcpy(b.lane, "ucx");
    memset(a.lossy, 'x', 200), a.lossy[200] = 0;
    strcpy(b.lossy, a.lossy), a.lossy[199] = 'a';
    assert_int_equal(gw_hello_agree(&a, &b, &got, &why), GW_E_SETTING);
    assert_non_null(strstr(why.text, "has 'a', node-18 has 'x'"));
    strcpy(a.lossy, b.lossy);
    b.role = 1;
    assert_int_equal(gw_hello_agree(&a, &b, &got, &why), GW_E_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_golden),     cmocka_unit_test(others_golden),
        cmocka_unit_test(handle_golden),    cmocka_unit_test(handle_refused),
        cmocka_unit_test(one_meaning_one_spelling), cmocka_unit_test(hello_refused),
        cmocka_unit_test(head_tells_early), cmocka_unit_test(text_is_washed),
        cmocka_unit_test(agree),            cmocka_unit_test(disagree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
