/* e2e_bench.c - the command `gradwire bench`: what it prints of files whose ratios are known, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <gradwire/codec.h>

#define DATA "'" GW_SRC "/tests/data/"
#define QUICK "--rounds 2 --seconds 0.01 --span 2M "

static char out[1 << 20], dir[] = "/tmp/gw-bench-XXXXXX";

/* The exit code; what was printed on both ways is in out. */
static int bench(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int bench(const char *fmt, ...)
{
    char options[1024], command[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(options, sizeof(options), fmt, ap);
    va_end(ap);
    snprintf(command, sizeof(command), "'" GW_OUT "/gradwire' bench %s 2>&1 </dev/null", options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = '\0';
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void well(int code)
{
    if (code != 0)
        fail_msg("exit %d: %s", code, out);
}

static unsigned count(const char *what)
{
    unsigned n = 0;

    for (const char *at = out; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

/* The number behind a key, in the row of this codec and kernel. */
static double value(const char *codec, const char *kernel, const char *key)
{
    char want[128], name[64];

    snprintf(want, sizeof(want), "\"codec\": \"%s\",\n      \"kernel\": \"%s\"", codec, kernel);
    snprintf(name, sizeof(name), "\"%s\": ", key);
    const char *row = strstr(out, want), *at = row != NULL ? strstr(row, name) : NULL;
    const char *next = row != NULL ? strstr(row, "\"file\"") : NULL;
    if (at == NULL || (next != NULL && at > next))
        fail_msg("no %s of %s with %s in: %s", key, codec, kernel, out);
    return strtod(at + strlen(name), NULL);
}

/* Every kernel set gives the same size; speeds are numbers, whatever they are. */
static void test_json(void **state)
{
    static const char *const keys[] = {"file", "codec", "kernel", "ratio", "encode_GBps", "decode_GBps", "memcpy_GBps",
                                       "encode_vs_memcpy", "decode_vs_memcpy", "encode_vs_memcpy_q1", "decode_vs_memcpy_q3",
                                       "rel_l2_error", "max_error", "raw_share", "break_even"};
    const char *kernel;
    char key[64];
    unsigned rows = 0;

    (void)state;
    well(bench(QUICK "--codec group,memcpy --json - " DATA "chartf.bf16'"));
    for (size_t i = 0; (kernel = gw_kern_name_at(i)) != NULL; i++) {
        if (strstr(kernel, "simde") != NULL)
            continue; /* linked into tests alone */
        rows++;
        double ratio = value("group", kernel, "ratio");
        assert_true(ratio > 0.70 && ratio < 0.757);
        assert_true(ratio == value("group", gw_kern_name_at(0), "ratio"));
        assert_true(value("group", kernel, "encode_GBps") > 0 && value("group", kernel, "decode_vs_memcpy") > 0);
        assert_true(value("group", kernel, "rel_l2_error") == 0 && value("group", kernel, "raw_share") == 0);
    }
    assert_true(value("memcpy", "-", "ratio") == 1);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        snprintf(key, sizeof(key), "\"%s\":", keys[i]);
        assert_int_equal(count(key), rows + 1);
    }
    assert_int_equal(count("\"link_Gbps\": 400.0"), 4 * (rows + 1));
    assert_true(out[0] == '{' && out[strlen(out) - 2] == '}');
}

/* Half of each f32 that holds bf16 is gone before anything is coded; what does not shrink stays raw and is not decoded. */
static void test_types(void **state)
{
    char path[64];
    uint32_t r = 1;

    (void)state;
    snprintf(path, sizeof(path), "%s/noise.f32", dir);
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < 200000; i++)
        fputc((int)((r = r * 1664525 + 1013904223) >> 24), f);
    fclose(f);
    well(bench(QUICK "--codec group --kernel scalar --type bytes --json - %s", path));
    assert_true(value("group", "scalar", "ratio") == 1 && value("group", "scalar", "raw_share") == 1);
    assert_int_equal(count("\"decode_GBps\": null"), 1);
    well(bench(QUICK "--codec group --kernel scalar --json - " DATA "chartf.f32'"));
    assert_int_equal(count("\"type\": \"f32\""), 1);
    assert_true(value("group", "scalar", "ratio") < 0.88);
    well(bench(QUICK "--codec group --kernel scalar --type bf16 --json - " DATA "chartf.f32'"));
    assert_int_equal(count("\"type\": \"bf16\""), 1);
}

static void test_table(void **state)
{
    (void)state;
    well(bench(QUICK "--codec lossless,peers --kernel scalar --threads 2 " DATA "wordlm.f32' " DATA "cnn.f32'"));
    assert_int_equal(count("calls of 1M, 2 threads"), 2);
    assert_int_equal(count("\ngroup                scalar"), 2);
    assert_true(count("Gb/s") >= 10 && count("\nmemcpy ") == 2 && count("CHANGED") == 0);
    assert_null(strchr(out, '\r')); /* no progress where nobody looks */
    well(bench(QUICK "--codec group --kernel scalar --bytes 1K --size 256 /dev/zero"));
    assert_non_null(strstr(out, "/dev/zero: the first 1K bytes"));
}

static void test_plot(void **state)
{
    char svg[64];
    struct stat st;

    (void)state;
    snprintf(svg, sizeof(svg), "%s/p.svg", dir);
    well(bench(QUICK "--codec group,peers --plot %s " DATA "cnn.f32'", svg));
    FILE *f = fopen(svg, "r");
    assert_non_null(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = '\0';
    fclose(f);
    assert_true(stat(svg, &st) == 0 && st.st_size == (off_t)strlen(out));
    assert_true(strncmp(out, "<svg ", 5) == 0 && strstr(out, "</svg>") != NULL);
    assert_int_equal(count("<text"), count("</text>"));
    assert_true(count(">group</text>") == 2 && count(">memcpy</text>") == 2 && count("cnn.f32: encode") == 1);
    assert_true(count("nan") == 0 && count("inf") == 0);
}

/* One line that says what to give, and nothing measured. */
static void test_refused(void **state)
{
    static const char *const bad[][2] = {
        {"", "give files"},
        {"/no/such/file", "/no/such/file: No such file"},
        {"/tmp", "is a directory"},
        {DATA "cnn.f32' /tmp", "is a directory"},
        {"/dev/null", "is empty"},
        {"--type f64 x", "f32, bf16, f16, bytes or auto"},
        {"--codec nosuch x", "`gradwire info` lists"},
        {"--codec group, x", "`gradwire info` lists"},
        {"--kernel mmx x", "run here"},
        {"--threads 0 x", "1 to 256"},
        {"--rounds 1001 x", "1 to 1000"},
        {"--seconds nan x", "0.001 to 3600"},
        {"--size 65M x", "256 to 64M"},
        {"--size -1 x", "256 to 64M"},
        {"--span 99999999999999999999 x", "64K to 4G"},
        {"--bytes 0 x", "1 to 4G"},
        {"--param x x", "0 to 4294967295"},
        {"--json /no/such/dir/j /dev/zero", "/no/such/dir/j"},
        {"--plot /no/such/dir/p /dev/zero", "/no/such/dir/p"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (bench("%s", bad[i][0]) != 2 || strstr(out, bad[i][1]) == NULL || strncmp(out, "gradwire bench: ", 16) != 0 ||
            count("\n") != 1)
            fail_msg("bench %s: %s", bad[i][0], out);
}

/* Files of any length are measured: bytes without a whole value, and lengths that no call divides. */
static void test_small(void **state)
{
    static const int sizes[] = {1, 3, 255, 257, 16385};
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/small.f32", dir);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        FILE *f = fopen(path, "wb");
        for (int k = 0; k < sizes[i]; k++)
            fputc(k / 3, f);
        fclose(f);
        well(bench("--rounds 1 --seconds 0.001 --span 64K --size 256 --kernel scalar --json - %s", path));
        assert_int_equal(count("changed"), 0);
    }
}

static int made(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int gone(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json), cmocka_unit_test(test_types),   cmocka_unit_test(test_table),
        cmocka_unit_test(test_plot), cmocka_unit_test(test_refused), cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests_name("bench", tests, made, gone);
}
