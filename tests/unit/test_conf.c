/* test_conf.c - settings: values, places, precedence, and what is said about wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include <conf.h>
#include <setting.h>

static char said[1 << 14];

static void remember(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg;
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%d %s\n", (int)level, line);
}

static const struct gw_logger logger = {remember, NULL, GW_LOG_DEBUG};

static int begin(void **state)
{
    (void)state;
    said[0] = 0;
    return 0;
}

static gw_err parse(struct gw_conf *c, const char *text)
{
    return gw_conf_parse_file(c, GW_CONF_USER, text, strlen(text), &logger);
}

static void defaults(void **state)
{
    (void)state;
    struct gw_conf c;
    gw_conf_defaults(&c);
    assert_true(c.lane == GW_CONF_LANE_AUTO && c.policy == GW_CONF_POLICY_AUTO && c.gdr == GW_CONF_GDR_AUTO);
    assert_true(c.kernel == GW_CONF_KERNEL_AUTO);
    assert_true(c.workers == 1 && c.chunk_bytes == 131072 && c.slab_bytes == 64 << 20 && c.window_bytes == 0);
    assert_true(c.peer_timeout_ms == 60000 && c.stall_warn_ms == 30000 && c.stall_timeout_ms == 0);
    assert_true(c.connect_timeout_ms == 30000 && c.connect_retries == 8 && c.check == 0);
    assert_true(c.port_lo == 0 && c.port_hi == 0 && c.log == GW_CONF_LOG_BOTH);
    assert_string_equal(c.codec, "auto");
    assert_string_equal(c.ifname, "");
}

static void values(void **state)
{
    (void)state;
    struct gw_conf c;
    gw_conf_defaults(&c);
    assert_int_equal(parse(&c, "LANE=ucx\nGRADWIRE_IFNAME = eth0,ib* # two\n# CODEC=raw\nCODEC=group\r\nPOLICY=Always\n"
                               "WORKERS=0\nCHUNK=1M\nSLAB=2GiB\nWINDOW=3000\nCHECK=on\nGDR=off\nPORTS=4000-4100\n"
                               "PEER_TIMEOUT=90\nSTALL_WARN=1500ms\nSTALL_TIMEOUT=7s\nLOG=nccl\nUCX_TLS=posix\nKERNEL=avx512"),
                     GW_OK);
    assert_true(c.lane == GW_CONF_LANE_UCX && c.policy == GW_CONF_POLICY_ALWAYS && c.gdr == GW_CONF_GDR_OFF);
    assert_true(c.workers == 0 && c.chunk_bytes == 1 << 20 && c.slab_bytes == 2ull << 30 && c.window_bytes == 3000);
    assert_true(c.check == 1 && c.port_lo == 4000 && c.port_hi == 4100 && c.log == GW_CONF_LOG_NCCL);
    assert_true(c.peer_timeout_ms == 90000 && c.stall_warn_ms == 1500 && c.stall_timeout_ms == 7000);
    assert_true(c.kernel == GW_CONF_KERNEL_AVX512);
    assert_string_equal(c.ifname, "eth0,ib*");
    assert_string_equal(c.codec, "group");
    assert_string_equal(c.ucx_tls, "posix");
    assert_string_equal(said, "");
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "CHUNK=17K",        "CHUNK=8K",         "CHUNK=32M",  "CHUNK=",       "CHUNK=x",        "WORKERS=65",
        "WORKERS=-1",       "WORKERS=1.5",      "WORKERS=0x", "CHECK=2",      "LANE=tcp",       "PORTS=5-4",
        "KERNEL=mmx",
        "PORTS=1-65536",    "PORTS=0-9",        "PORTS=1-",   "PORTS=a",      "STALL_WARN=1h",  "STALL_WARN=99999999",
        "CONNECT_TIMEOUT=1ms", "SLAB=99999999999999999999", "SLAB=18446744073709551615G", "CODEC=caf\xc3\xa9",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gw_conf c, before;
        gw_conf_defaults(&c);
        memcpy(&before, &c, sizeof c); /* padding too */
        said[0] = 0;
        int empty = bad[i][strlen(bad[i]) - 1] == '=';
        if (parse(&c, bad[i]) != (empty ? GW_OK : GW_E_SETTING))
            fail_msg("%s was taken", bad[i]);
        assert_memory_equal(&c, &before, sizeof c);
        assert_true(empty || strstr(said, "cannot be used; allowed: ") != NULL);
    }
    struct gw_conf c;
    gw_conf_defaults(&c);
    said[0] = 0;
    assert_int_equal(parse(&c, "\n\nCHUNK=17K\nWORKERS=3\n"), GW_E_SETTING);
    assert_string_equal(said, "0 setting GRADWIRE_CHUNK=17K (~/.gradwire.conf:3) cannot be used; allowed: 16K to 16M in "
                              "steps of 16K\n");
    assert_int_equal(c.workers, 3); /* the rest of the file still counts, so that one run shows every mistake */
}

static unsigned lines_said(void)
{
    unsigned n = 0;
    for (const char *s = said; (s = strchr(s, '\n')) != NULL; s++)
        n++;
    return n;
}

static void a_file_of_something_else_is_left_soon(void **state)
{
    (void)state;
    struct gw_conf c;
    char text[3000];
    gw_conf_defaults(&c);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 3 == 2 ? '\n' : 'x';
    assert_int_equal(gw_conf_parse_file(&c, GW_CONF_USER, text, 16 * 3, &logger), GW_E_SETTING);
    assert_int_equal(lines_said(), 16);
    said[0] = 0;
    assert_int_equal(gw_conf_parse_file(&c, GW_CONF_USER, text, sizeof text, &logger), GW_E_SETTING);
    assert_int_equal(lines_said(), 17);
    assert_non_null(strstr(said, "nothing is read beyond ~/.gradwire.conf:16"));
}

static void lines_that_are_none(void **state)
{
    (void)state;
    struct gw_conf c;
    char text[2000];
    gw_conf_defaults(&c);
    assert_int_equal(parse(&c, "WORKERS 4\n"), GW_E_SETTING);
    assert_int_equal(parse(&c, "=4\n"), GW_E_SETTING);
    memset(text, 'x', sizeof text);
    text[1999] = 0;
    assert_int_equal(parse(&c, text), GW_E_SETTING);
    assert_int_equal(gw_conf_parse_file(&c, GW_CONF_USER, "WORKERS=4\0", 10, &logger), GW_E_SETTING);
    assert_int_equal(gw_conf_parse_file(&c, GW_CONF_USER, "WORKERS=4", 8, &logger), GW_OK); /* the value is cut off */
    assert_int_equal(c.workers, 1);
    assert_int_equal(parse(&c, ""), GW_OK);
    assert_int_equal(parse(&c, "\n# only\n   \t\n  # this\n"), GW_OK);
}

static void unknown_names(void **state)
{
    (void)state;
    struct gw_conf c;
    gw_conf_defaults(&c);
    const char *env[] = {"GRADWIRE_CHUNCK=16K", "GRADWIRE_PEERTIMEOUT=1", "GRADWIRE_BANANA=1", "GRADWIRE_UCX_RNDV_THRESH=8K",
                   "GRADWIRE_STAT_FD=5", "GRADWIRE_workers=2", "NCCL_DEBUG=INFO", "GRADWIRE_", NULL};
    assert_int_equal(gw_conf_load_from(&c, env, NULL, NULL, &logger), GW_OK);
    assert_non_null(strstr(said, "0 setting GRADWIRE_CHUNCK (environment) is unknown and does nothing; is GRADWIRE_CHUNK meant?"));
    assert_non_null(strstr(said, "is GRADWIRE_PEER_TIMEOUT meant?"));
    assert_non_null(strstr(said, "is GRADWIRE_WORKERS meant?"));
    assert_non_null(strstr(said, "GRADWIRE_BANANA (environment) is unknown and does nothing; gradwire info"));
    assert_null(strstr(said, "RNDV"));
    assert_null(strstr(said, "STAT_FD"));
    assert_null(strstr(said, "NCCL"));
    assert_int_equal(c.chunk_bytes, 131072);
    said[0] = 0;
    assert_int_equal(parse(&c, "UCX_RNDV_THRESH=8K"), GW_OK);
    assert_non_null(strstr(said, "in a file does nothing"));
    assert_int_equal(gw_setting_distance("", "abc"), 3);
    assert_int_equal(gw_setting_distance("kitten", "SITTING"), 3);
}

static const char *file_with(char *path, const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static char got_value[300], got_origin[100];

static void catch(void *arg, const struct gw_setting_info *item)
{
    if (strcmp(item->name, arg) == 0) {
        snprintf(got_value, sizeof got_value, "%s", item->value);
        snprintf(got_origin, sizeof got_origin, "%s", item->origin);
    }
}

static void expect(const struct gw_conf *c, const char *name, const char *value, const char *origin)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", name);
    got_value[0] = got_origin[0] = 0;
    gw_conf_each(c, catch, copy);
    assert_string_equal(got_value, value);
    assert_string_equal(got_origin, origin);
}

static void places(void **state)
{
    (void)state;
    char user[] = "/tmp/test_conf.XXXXXX", system[] = "/tmp/test_conf.XXXXXX";
    file_with(user, "WORKERS=2\nCHUNK=32K\n");
    file_with(system, "\nWORKERS=3\nCHUNK=64K\nSLAB=128M\nGDR=bad\n");
    const char *env[] = {"GRADWIRE_WORKERS=4", "GRADWIRE_GDR=on", "GRADWIRE_CODEC=", NULL};
    struct gw_conf c;
    /* The system's bad GDR is overridden, so it stops nobody. */
    assert_int_equal(gw_conf_load_from(&c, env, user, system, &logger), GW_OK);
    assert_string_equal(said, "");
    expect(&c, "GRADWIRE_WORKERS", "4", "environment");
    expect(&c, "GRADWIRE_CHUNK", "32K", "~/.gradwire.conf:2");
    expect(&c, "GRADWIRE_SLAB", "128M", "/etc/gradwire.conf:4");
    expect(&c, "GRADWIRE_GDR", "on", "environment");
    expect(&c, "GRADWIRE_CODEC", "auto", "default");
    expect(&c, "GRADWIRE_STALL_WARN", "30s", "default");
    expect(&c, "GRADWIRE_PORTS", "0", "default");
    assert_int_equal(gw_conf_load_from(&c, NULL, user, system, &logger), GW_E_SETTING);
    unlink(user), unlink(system);
    said[0] = 0;
    assert_int_equal(gw_conf_load_from(&c, NULL, user, "/tmp", &logger), GW_OK); /* none there; a folder */
    assert_non_null(strstr(said, "1 settings: /tmp: Is a directory; goes on without it"));
}

static void round_trip(void *arg, const struct gw_setting_info *item)
{
    struct gw_conf c;
    gw_conf_defaults(&c);
    assert_true(strlen(item->help) > 20 && item->help[strlen(item->help) - 1] == '.');
    assert_true(item->allowed[0] != 0 && item->type[0] != 0);
    assert_int_equal(gw_conf_set(&c, item->name, item->value, GW_CONF_USER, 1, &logger), GW_OK);
    ++*(int *)arg;
}

static void table(void **state)
{
    (void)state;
    struct gw_conf c;
    int n = 0;
    gw_conf_defaults(&c);
    gw_conf_each(&c, round_trip, &n);
    assert_int_equal(n, GW_CONF_SETTINGS);
    assert_string_equal(said, "");
}

static void errors_and_lines(void **state)
{
    (void)state;
    assert_string_equal(gw_err_name(GW_E_PEER), "GW_E_PEER");
    assert_string_equal(gw_err_text(GW_E_TIMEOUT), "peer did not answer in time");
    assert_string_equal(gw_err_name((gw_err)-999), "GW_E_UNKNOWN");
    assert_int_equal(gw_err_scope(GW_AGAIN), GW_SCOPE_NONE);
    assert_int_equal(gw_err_scope(GW_E_CORRUPT), GW_SCOPE_REQ);
    assert_int_equal(gw_err_scope((gw_err)-999), GW_SCOPE_CTX);
    errno = ENOENT;
    gw_log(&logger, GW_LOG_WARN, "open: %m\nand more\n");
    assert_int_equal(errno, ENOENT);
    assert_string_equal(said, "1 open: No such file or directory and more\n");
    struct gw_logger quiet = {remember, NULL, GW_LOG_WARN};
    said[0] = 0;
    gw_log(&quiet, GW_LOG_INFO, "not written");
    gw_log(NULL, GW_LOG_ERROR, "nowhere");
    assert_string_equal(said, "");
    gw_log(&logger, GW_LOG_WARN, "%01500d", 7);
    assert_int_equal(strlen(said), 1000 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, begin),  cmocka_unit_test_setup(values, begin),
        cmocka_unit_test_setup(refused, begin),   cmocka_unit_test_setup(lines_that_are_none, begin),
        cmocka_unit_test_setup(a_file_of_something_else_is_left_soon, begin),
        cmocka_unit_test_setup(unknown_names, begin), cmocka_unit_test_setup(places, begin),
        cmocka_unit_test_setup(table, begin),     cmocka_unit_test_setup(errors_and_lines, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
