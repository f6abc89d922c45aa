/* test_control.c - doors and dials: who gets in, who does not, and what each is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/clock.h>

#include <ends.h>

/* Polls a door until the stranger sees what it gets; answers the bytes read, 0 for an end without a word. */
static ssize_t stranger_hears(struct gw_door *door, int fd, uint8_t *out, size_t room)
{
    struct gw_guest *g;
    struct gw_hello theirs;
    size_t at = 0;
    uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull;
    while (gw_now_ns() < guard) {
        assert_int_equal(gw_door_poll(door, &g, &theirs), GW_AGAIN);
        ssize_t n = recv(fd, out + at, room - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return (ssize_t)at;
        at += n > 0 ? (size_t)n : 0;
    }
    fail_msg("the stranger still stands at the door");
    return -1;
}

/* ---- hello ---- */
static void hello_both_ways(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct ends_link l;
    ends_link_up(&conf, &l);
    assert_int_equal(l.at_door.role, 1);
    assert_int_equal(l.at_dial.role, 2);
    assert_string_equal(l.at_door.host, "here");
    assert_non_null(strstr(gw_guest_peer(l.in), "127.0.0.1:"));
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    assert_int_equal(ends_said.at, 0);
}

static void port_range(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h[3];
    struct gw_door *door[3] = {NULL};
    /* A free port, whichever: three doors want it and its neighbour. */
    door[0] = ends_door_open(&conf, &h[0]);
    gw_door_close(door[0]);
    conf.port_lo = h[0].addr[0].port & 0xfffe;
    conf.port_hi = (uint16_t)(conf.port_lo + 1);
    int n = 0;
    while (n < 3 && gw_door_open(&conf, &ends_here, 1, &door[n], &h[n]) == GW_OK)
        n++;
    assert_true(n <= 2);
    for (int i = 0; i < n; i++)
        assert_true(h[i].addr[0].port >= conf.port_lo && h[i].addr[0].port <= conf.port_hi);
    assert_true(ends_was_said("no free port in GRADWIRE_PORTS"));
    for (int i = 0; i < n; i++)
        gw_door_close(door[i]);
}

static void wrong_token(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_handle bad = h;
    struct gw_hello mine = ends_hello_of(1), theirs;
    struct gw_guest *dial, *g;
    struct gw_reject why;
    bad.token[7] ^= 1;
    assert_int_equal(gw_dial_start(&conf, &bad, &mine, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;) {
        err = gw_dial_poll(dial, &theirs, &why);
        assert_int_equal(gw_door_poll(door, &g, &theirs), GW_AGAIN);
    }
    assert_int_equal(err, GW_E_REFUSED);
    assert_int_equal(why.code, GW_E_REFUSED);
    assert_non_null(strstr(why.text, "wrong token"));
    assert_string_equal(why.host, "here");
    gw_guest_close(dial);
    gw_door_close(door);
    assert_true(ends_was_said("1 with a wrong token"));
}

static void rejected_with_reason(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_hello old = ends_hello_of(1), mine = ends_hello_of(2), theirs;
    struct gw_guest *dial, *g = NULL;
    struct gw_reject why, told = {0};
    struct gw_agreed a;
    old.version_min = old.version_max = 9;
    assert_int_equal(gw_dial_start(&conf, &h, &old, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;) {
        err = gw_dial_poll(dial, &theirs, &told);
        if (g == NULL && gw_door_poll(door, &g, &theirs) == GW_OK) {
            assert_int_equal(gw_hello_agree(&mine, &theirs, &a, &why), GW_E_VERSION);
            gw_guest_reject(g, &why);
        }
    }
    assert_int_equal(err, GW_E_REFUSED);
    assert_int_equal(told.code, GW_E_VERSION);
    assert_string_equal(told.text, why.text);
    gw_guest_close(dial);
    gw_door_close(door);
}

static void garbage_and_silence(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    conf.hello_timeout_ms = 50;
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    uint8_t heard[GW_CTL_MAX];
    int fd = ends_stranger(&h);
    assert_true(write(fd, "GET / HTTP/1.1\r\n\r\n", 18) == 18);
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = ends_stranger(&h); /* says nothing at all */
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = ends_stranger(&h); /* half a hello, then nothing */
    struct gw_hello half = ends_hello_of(1);
    uint8_t msg[GW_CTL_MAX];
    gw_hello_write(msg, &half);
    assert_int_equal(write(fd, msg, 100), 100);
    assert_int_equal(stranger_hears(door, fd, heard, sizeof heard), 0);
    close(fd);

    fd = ends_stranger(&h); /* another version of the messages themselves: told so */
    msg[5] = 2;
    assert_int_equal(write(fd, msg, 8), 8);
    ssize_t n = stranger_hears(door, fd, heard, sizeof heard);
    struct gw_reject why;
    assert_int_equal(gw_reject_read(heard, (uint32_t)n, &why), GW_OK);
    assert_int_equal(why.code, GW_E_VERSION);
    close(fd);
    gw_door_close(door);
    assert_true(ends_was_said("turned away 4 connections"));
}

/* A thousand at the door, silent or babbling; the true peer, who comes in their midst, is not kept waiting by any of their
 * deadlines, which are far beyond this test's end. */
static void thousand_strangers(void **state)
{
    (void)state;
    enum { STRANGERS = 1000 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int n = limit.rlim_cur > STRANGERS + 200 ? STRANGERS : (int)limit.rlim_cur - 200;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_hello mine = ends_hello_of(1);
    struct gw_guest *dial;
    int *fd = calloc((size_t)n, sizeof *fd);
    for (int i = 0; i < n; i++) {
        fd[i] = ends_stranger(&h);
        if (i % 3 == 0)
            assert_int_equal(write(fd[i], "GWCLx", 5), 5);
        if (i == n / 2)
            assert_int_equal(gw_dial_start(&conf, &h, &mine, &dial), GW_OK);
    }
    struct ends_link l;
    ends_meet(door, dial, &l);
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    for (int i = 0; i < n; i++)
        close(fd[i]);
    free(fd);
    gw_door_close(door);
    assert_true(ends_was_said("turned away"));
}

static gw_err dial_to_end(const struct gw_control_conf *conf, const struct gw_handle *h, struct gw_reject *why)
{
    struct gw_hello mine = ends_hello_of(1), theirs;
    struct gw_guest *dial;
    assert_int_equal(gw_dial_start(conf, h, &mine, &dial), GW_OK);
    gw_err err = GW_AGAIN;
    for (uint64_t guard = gw_now_ns() + ENDS_GUARD_MS * 1000000ull; err == GW_AGAIN && gw_now_ns() < guard;)
        err = gw_dial_poll(dial, &theirs, why);
    gw_guest_close(dial);
    return err;
}

static void nobody_there(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_reject why;
    gw_door_close(ends_door_open(&conf, &h)); /* the port is free again: refused */
    conf.dial_retries = 2;
    assert_int_equal(dial_to_end(&conf, &h, &why), GW_E_PEER);
    assert_int_equal(why.code, GW_E_PEER);
    assert_non_null(strstr(why.text, "connect to 127.0.0.1:"));
    assert_non_null(strstr(why.text, "3 tries"));
    assert_non_null(strstr(why.text, "refused"));
}

static void nobody_answers(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h;
    struct gw_reject why;
    struct gw_door *door = ends_door_open(&conf, &h); /* never polled */
    conf.hello_timeout_ms = 100;
    assert_int_equal(dial_to_end(&conf, &h, &why), GW_E_TIMEOUT);
    assert_non_null(strstr(why.text, "no hello came back"));
    gw_door_close(door);
}

static void second_address(void **state)
{
    (void)state;
    struct gw_control_conf conf = ends_conf_now();
    struct gw_handle h, closed;
    gw_door_close(ends_door_open(&conf, &closed));
    struct gw_door *door = ends_door_open(&conf, &h);
    struct gw_hello mine = ends_hello_of(1);
    struct gw_guest *dial;
    struct ends_link l;
    h.addr[1] = h.addr[0], h.addr[0] = closed.addr[0], h.addrs = 2;
    assert_int_equal(gw_dial_start(&conf, &h, &mine, &dial), GW_OK);
    ends_meet(door, dial, &l);
    gw_guest_close(l.in);
    gw_guest_close(l.out);
    gw_door_close(door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENDS_CASE(hello_both_ways), ENDS_CASE(port_range), ENDS_CASE(wrong_token),
        ENDS_CASE(rejected_with_reason), ENDS_CASE(garbage_and_silence), ENDS_CASE(thousand_strangers),
        ENDS_CASE(nobody_there), ENDS_CASE(nobody_answers), ENDS_CASE(second_address),
    };
    ends_first();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
