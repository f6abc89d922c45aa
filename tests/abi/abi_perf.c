/* abi_perf.c - the command `gradwire perf` over a plugin that is not ours, written from the interface alone, and over
 * tables of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cmocka.h>

#define FOREIGN "--plugin '" GW_OUT "/tests/abi/plug_tcp8.so' "

static char out[65536];

/* The exit code; what was printed is in out. */
static int perf(const char *options)
{
    char command[1024];
    int status;

    snprintf(command, sizeof(command), "'" GW_OUT "/gradwire' perf %s 2>&1 </dev/null", options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = '\0';
    status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void perf_well(const char *options)
{
    if (perf(options) != 0)
        fail_msg("perf %s: %s", options, out);
}

static unsigned count(const char *what)
{
    unsigned n = 0;

    for (const char *at = out; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

static void test_foreign(void **state)
{
    (void)state;
    perf_well(FOREIGN "--local --sizes 1K..1M --iters 40 --json");
    assert_int_equal(count("\"valid\": true"), 11);
    perf_well(FOREIGN "--local --sizes 1,4097,3M --iters 20 --bidir --conns 3 --json");
    assert_int_equal(count("\"valid\": true"), 3);
    perf_well(FOREIGN "--local --sizes 64 --iters 200 --lat --json");
    perf_well(FOREIGN "--local --proto ll --iters 40 --json");
    perf_well(FOREIGN "--local --proto ll128 --iters 40 --json");
    perf_well(FOREIGN "--ring 3 --iters 2 --json");
}

/* A plugin without counters has none invented for it. */
static void test_foreign_table(void **state)
{
    (void)state;
    perf_well(FOREIGN "--local --sizes 64K --iters 20");
    assert_non_null(strstr(out, "v8"));
    assert_non_null(strstr(out, " - "));
}

static void test_ours(void **state)
{
    char options[128];

    (void)state;
    for (int v = 6; v <= 12; v += 3) {
        snprintf(options, sizeof(options), "--local --net-version %d --policy always --sizes 4K,1M --iters 20 --json", v);
        perf_well(options);
        assert_int_equal(count("\"valid\": true"), 2);
    }
}

static void test_no_plugin(void **state)
{
    (void)state;
    assert_int_not_equal(perf("--plugin /no/such/plugin.so --local --iters 20"), 0);
    assert_non_null(strstr(out, "/no/such/plugin.so"));
    assert_int_not_equal(perf(FOREIGN "--net-version 11 --local --iters 20"), 0);
    assert_non_null(strstr(out, "ncclNetPlugin_v11"));
}

/* One line that says what to give, before any rank or door is there. */
static void test_refused(void **state)
{
    static const char *const bad[][2] = {
        { "", "say one of --local" },
        { "--local --ring 3", "say one of --local" },
        { "--local 127.0.0.1", "127.0.0.1" },
        { "--local --code aaaa", "--code" },
        { "127.0.0.1", "--code" },
        { "--serve 127.0.0.1 --code aaaa", "--code" },
        { "--serve 127.0.0.1 --sizes 1M", "--sizes is the client's" },
        { "--serve 127.0.0.1 --json", "--json is the client's" },
        { "--serve 127.0.0.1 --fail-below 1", "--fail-below is the client's" },
        { "--local --codec raw,nosuch", "auto, raw, group, tight" },
        { "--local --codec raw,", "auto, raw, group, tight" },
        { "--local --codec int8", "auto, raw, group, tight" },
        { "--local --sizes 0", "1 to 1G" },
        { "--local --sizes 2G", "1 to 1G" },
        { "--local --sizes 4M..1M", "1 to 1G" },
        { "--local --sizes 1M --inflight 0", "1 to 32" },
        { "--local --inflight 33", "1 to 32" },
        { "--local --conns 65", "1 to 64" },
        { "--local --ring 1", "2 to 16" },
        { "--ring 17", "2 to 16" },
        { "--ring 2 --lat", "--ring" },
        { "--local --sizes 1G --inflight 8", "4 GiB" },
        { "--local --proto ll --sizes 1G", "--proto ll" },
        { "--local --iters 5 --seconds 1", "give one of them" },
        { "--local --gen f64", "f32" },
        { "--local --gen f32:zeros=2", "0 to 1" },
        { "--local --net-version 5", "v6 to v12" },
        { "--local /no/such/file", "/no/such/file" },
        { "--local --gen f32 /dev/null", "give one of them" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (perf(bad[i][0]) != 2 || strstr(out, bad[i][1]) == NULL || count("\n") != 1 ||
            strncmp(out, "gradwire perf: ", 15) != 0)
            fail_msg("perf %s: %s", bad[i][0], out);
    }
}

/* ---- a server and those who come to its door ---- */

static uint16_t free_port(void)
{
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    close(fd);
    return ntohs(sa.sin_port);
}

static int stranger(uint16_t port, const char *says, size_t len)
{
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    if (len > 0)
        assert_int_equal(send(fd, says, len, MSG_NOSIGNAL), len);
    return fd;
}

/* Silent ones, half a head, garbage, a head that promises much, a wrong code: each has a second, and together they have more of
 * them than the client waits.  They stay until the client is through. */
static void test_strangers(void **state)
{
    static const char wrong[33] = "GWPF\1\0\0\0\24\0\0\0\1\0\0\0aaaaaaaaaaaaaaaa", much[13] = "GWPF\1\0\0\0\0\0\1\0";
    static const struct { const char *says; size_t len; } say[] = { { "", 0 }, { "GWPF", 4 }, { "GET / HTTP/1.1\r\n\r\n", 18 },
                                                                    { much, 12 }, { wrong, 32 }, { "", 0 } };
    uint16_t port = free_port();
    char command[256], line[256], code[32] = "";
    int fd[120];
    FILE *server;

    (void)state;
    snprintf(command, sizeof command, "'" GW_OUT "/gradwire' perf " FOREIGN "--serve 127.0.0.1:%u 2>/dev/null </dev/null", port);
    server = popen(command, "r");
    assert_non_null(server);
    while (code[0] == 0 && fgets(line, sizeof line, server) != NULL)
        if (strstr(line, "--code ") != NULL)
            sscanf(strstr(line, "--code ") + 7, "%31s", code);
    assert_int_equal(strlen(code), 16);
    for (unsigned i = 0; i < 120; i++)
        fd[i] = stranger(port, say[i % 6].says, say[i % 6].len);
    snprintf(command, sizeof command, FOREIGN "127.0.0.1:%u --code %s --sizes 64K --iters 20 --json", port, code);
    perf_well(command);
    assert_int_equal(count("\"valid\": true"), 1);
    for (int i = 0; i < 120; i++)
        close(fd[i]);
    while (fgets(line, sizeof line, server) != NULL)
        ;
    assert_int_equal(pclose(server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign), cmocka_unit_test(test_foreign_table), cmocka_unit_test(test_ours),
        cmocka_unit_test(test_no_plugin), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
