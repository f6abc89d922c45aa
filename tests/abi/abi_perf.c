/* abi_perf.c - the command `gradwire perf` over a plugin that is not ours, written from the interface alone, and over
 * tables of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define FOREIGN "--plugin " GW_OUT "/tests/abi/plug_tcp8.so "

static char out[65536];

/* The exit code; what was printed is in out. */
static int perf(const char *options)
{
    char command[1024];
    int status;

    snprintf(command, sizeof(command), GW_OUT "/gradwire perf %s 2>&1 </dev/null", options);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign), cmocka_unit_test(test_foreign_table), cmocka_unit_test(test_ours),
        cmocka_unit_test(test_no_plugin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
