/* conf.c - the table of settings, and the three places they are read from.  The manual page is made from this table. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/check.h>

#include "conf.h"
#include "setting.h"

#define PREFIX "GRADWIRE_"
#define UCX_PREFIX "UCX_"
#define SYSTEM_FILE "/etc/gradwire.conf"
#define USER_FILE "/.gradwire.conf"

enum { KIB = 1 << 10, MIB = 1 << 20, DAY_MS = 24 * 3600 * 1000, LINE_MAX_BYTES = 512, NAME_MAX_BYTES = 64, COMPLAINTS_MAX = 16 };
#define GIB (1ull << 30)

#define AT(member) offsetof(struct gw_conf, member), sizeof(((struct gw_conf *)0)->member)

static const struct gw_setting table[] = {
    {"LANE", GW_KIND_CHOICE, AT(lane), 0, 0, 0, {"auto", "ucx", "verbs", "loop"}, "auto",
     "What moves the bytes: verbs needs an RDMA device, ucx runs anywhere, auto takes the best that is there."},
    {"IFNAME", GW_KIND_TEXT, AT(ifname), 0, 0, 0, {NULL}, "",
     "Network interfaces to use: exact names or globs by comma, '^' first for all but these; unset: NCCL_SOCKET_IFNAME, "
     "else chosen."},
    {"HCA", GW_KIND_TEXT, AT(hca), 0, 0, 0, {NULL}, "",
     "RDMA devices to use: exact names or globs by comma, each with :PORT if wanted, '^' first for all but these; unset: "
     "NCCL_IB_HCA, else all."},
    {"GID_INDEX", GW_KIND_NUMBER, AT(gid_index), 0, 256, 1, {NULL}, "256",
     "Index of the port's address to send from; 256: RoCE v2, routable, by NCCL_IB_GID_INDEX if that is set."},
    {"IB_TIMEOUT", GW_KIND_NUMBER, AT(ib_timeout), 1, 31, 1, {NULL}, "20",
     "An RDMA write not acknowledged within 4.096 us times 2 to this power is tried again; unset: NCCL_IB_TIMEOUT."},
    {"IB_RETRY", GW_KIND_NUMBER, AT(ib_retry), 0, 7, 1, {NULL}, "7",
     "... so many times, before the connection fails; unset: NCCL_IB_RETRY_CNT."},
    {"IB_TC", GW_KIND_NUMBER, AT(ib_tc), 0, 255, 1, {NULL}, "0",
     "Traffic class of RDMA packets, the IP header's byte on RoCE; unset: NCCL_IB_TC."},
    {"IB_SL", GW_KIND_NUMBER, AT(ib_sl), 0, 15, 1, {NULL}, "0", "Service level of RDMA packets; unset: NCCL_IB_SL."},
    {"IB_QPS", GW_KIND_NUMBER, AT(ib_qps), 1, 4, 1, {NULL}, "1",
     "Queue pairs of a connection, for networks that spread flows over their links; the same on both ends."},
    {"CODEC", GW_KIND_TEXT, AT(codec), 0, 0, 0, {NULL}, "auto",
     "auto: lossless, where it pays; raw: nothing is ever coded; or a codec by its name."},
    {"POLICY", GW_KIND_CHOICE, AT(policy), 0, 0, 0, {"auto", "always", "never"}, "auto",
     "auto: code what pays, by measurement; always: code all that may be coded; never: code nothing."},
    {"KERNEL", GW_KIND_CHOICE, AT(kernel), 0, 0, 0, {"auto", "scalar", "avx2", "avx512"}, "auto",
     "Instruction set of the codecs: auto takes the best that this CPU has; the bytes are the same with each."},
    {"WORKERS", GW_KIND_NUMBER, AT(workers), 0, 64, 1, {NULL}, "1",
     "Codec threads of this process; 0: code on the host's own thread, a chunk at a time."},
    {"CHUNK", GW_KIND_BYTES, AT(chunk_bytes), 16 * KIB, 16 * MIB, 16 * KIB, {NULL}, "128K",
     "Piece of a message that is coded and sent at once; the smaller one of both ends is taken."},
    {"SLAB", GW_KIND_BYTES, AT(slab_bytes), 1 * MIB, 64 * GIB, 1, {NULL}, "64M",
     "Memory for coded chunks, registered once for each device."},
    {"WINDOW", GW_KIND_BYTES, AT(window_bytes), 0, 1 * GIB, 1, {NULL}, "0",
     "Bytes of a connection to keep on the way before a codec may hold back more; 0: measured."},
    {"CHECK", GW_KIND_BOOL, AT(check), 0, 1, 1, {NULL}, "0",
     "Carry a checksum with every message, raw ones too, and verify it before the message counts as received."},
    {"GDR", GW_KIND_CHOICE, AT(gdr), 0, 0, 0, {"auto", "on", "off"}, "auto",
     "GPUDirect: on moves GPU memory without the host and uncoded; off lets the host code it; auto goes by the port's "
     "speed."},
    {"PORTS", GW_KIND_PORTS, AT(port_lo), 0, 0, 0, {NULL}, "0", "TCP ports to listen on; 0: any."},
    {"PEER_TIMEOUT", GW_KIND_TIME, AT(peer_timeout_ms), 0, DAY_MS, 100, {NULL}, "60s",
     "A peer whose machine has acknowledged nothing for this long is dead; 0: never."},
    {"STALL_WARN", GW_KIND_TIME, AT(stall_warn_ms), 0, DAY_MS, 100, {NULL}, "30s",
     "A peer that we wait for and whose process has given no sign of life for this long is named in a warning; 0: never."},
    {"STALL_TIMEOUT", GW_KIND_TIME, AT(stall_timeout_ms), 0, DAY_MS, 100, {NULL}, "0",
     "... and after this long its connection fails; 0: never, because debuggers and schedulers stop healthy processes."},
    {"CONNECT_TIMEOUT", GW_KIND_TIME, AT(connect_timeout_ms), 100, DAY_MS, 1, {NULL}, "30s",
     "How long connecting to a peer may take, and a connection to us may stay silent."},
    {"CONNECT_RETRIES", GW_KIND_NUMBER, AT(connect_retries), 0, 1000, 1, {NULL}, "8",
     "How often a refused or unreachable peer is tried again, with growing pauses, within CONNECT_TIMEOUT."},
    {"ABORT", GW_KIND_BOOL, AT(abort), 0, 1, 1, {NULL}, "0",
     "End the process at the first failed connection, after its line: for NCCL versions that lose a plugin's errors."},
    {"LOG", GW_KIND_CHOICE, AT(log), 0, 0, 0, {"both", "nccl"}, "both",
     "both: root causes of errors go to stderr too when NCCL_DEBUG is unset; nccl: to NCCL's logger alone."},
    {"UCX_TLS", GW_KIND_TEXT, AT(ucx_tls), 0, 0, 0, {NULL}, "",
     "UCX transport of the ucx lane, tcp unless set; any other UCX option may be given as GRADWIRE_UCX_NAME in the "
     "environment."},
    {"STAT_FD", GW_KIND_PASSED, 0, 0, 0, 0, 0, {NULL}, "",
     "Set by gradwire perf: the descriptor of the page that our counters are mapped to."},
};
_Static_assert(GW_LEN(table) == GW_CONF_SETTINGS, "every setting has its origin");
_Static_assert(offsetof(struct gw_conf, port_hi) == offsetof(struct gw_conf, port_lo) + 2, "ports are written as a pair");

static void *value_at(struct gw_conf *c, const struct gw_setting *s)
{
    return (char *)c + s->offset;
}

void gw_conf_defaults(struct gw_conf *c)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < GW_LEN(table); i++)
        gw_assert(gw_setting_parse(&table[i], table[i].fallback, value_at(c, &table[i])));
}

/* ---- one setting ---- */
static const char *bare(const char *name)
{
    return strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 ? name + sizeof PREFIX - 1 : name;
}

static void origin_text(unsigned source, uint32_t line, char *out, size_t room)
{
    static const char *const names[] = {"default", SYSTEM_FILE, "~/.gradwire.conf", "environment"};
    if (source == GW_CONF_SYSTEM || source == GW_CONF_USER)
        snprintf(out, room, "%s:%u", names[source], line);
    else
        snprintf(out, room, "%s", names[source]);
}

gw_err gw_conf_set(struct gw_conf *c, const char *name, const char *value, enum gw_conf_source source, uint32_t line,
                   const struct gw_logger *log)
{
    size_t i = 0;
    name = bare(name);
    while (i < GW_LEN(table) && strcmp(table[i].name, name) != 0)
        i++;
    if (i == GW_LEN(table))
        return GW_E_ARG;
    if (c->from[i].source > source || *value == 0)
        return GW_OK;
    if (gw_setting_parse(&table[i], value, value_at(c, &table[i]))) {
        c->from[i].source = (uint8_t)source, c->from[i].line = line;
        return GW_OK;
    }
    char allowed[GW_SETTING_TEXT], origin[64];
    gw_setting_allowed(&table[i], allowed);
    origin_text(source, line, origin, sizeof origin);
    gw_log(log, GW_LOG_ERROR, "setting " PREFIX "%s=%.80s (%s) cannot be used; allowed: %s", name, value, origin, allowed);
    return GW_E_SETTING;
}

static void warn_unknown(const char *name, unsigned source, uint32_t line, const struct gw_logger *log)
{
    char origin[64];
    const char *nearest = NULL;
    unsigned least = 4; /* further away it is another word, not a slip */
    for (size_t i = 0; i < GW_LEN(table); i++) {
        unsigned d = gw_setting_distance(bare(name), table[i].name);
        if (d < least)
            least = d, nearest = table[i].name;
    }
    origin_text(source, line, origin, sizeof origin);
    /* it ends nothing, but is shown like an error: who set it believes that it works */
    if (nearest != NULL)
        gw_log(log, GW_LOG_ERROR, "setting " PREFIX "%.60s (%s) is unknown and does nothing; is " PREFIX "%s meant?",
               bare(name), origin, nearest);
    else
        gw_log(log, GW_LOG_ERROR, "setting " PREFIX "%.60s (%s) is unknown and does nothing; gradwire info lists them all",
               bare(name), origin);
}

static gw_err apply(struct gw_conf *c, const char *name, const char *value, enum gw_conf_source source, uint32_t line,
                    const struct gw_logger *log)
{
    gw_err err = gw_conf_set(c, name, value, source, line, log);
    if (err != GW_E_ARG)
        return err;
    if (strncmp(bare(name), UCX_PREFIX, sizeof UCX_PREFIX - 1) != 0)
        warn_unknown(name, source, line, log);
    else if (source != GW_CONF_ENV)
        gw_log(log, GW_LOG_WARN, "setting " PREFIX "%.60s in a file does nothing: UCX reads it from the environment",
               bare(name));
    return GW_OK;
}

/* ---- a file ---- */
static int blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && blank(s[n - 1]))
        s[--n] = 0;
    while (blank(*s))
        s++;
    return s;
}

static void cut_comment(char *s)
{
    for (size_t i = 0; s[i] != 0; i++)
        if (s[i] == '#' && (i == 0 || blank(s[i - 1]))) {
            s[i] = 0;
            return;
        }
}

static gw_err parse_line(struct gw_conf *c, enum gw_conf_source source, uint32_t number, char *line,
                         const struct gw_logger *log)
{
    cut_comment(line);
    char *name = trim(line), *equals = strchr(name, '=');
    if (*name == 0)
        return GW_OK;
    if (equals != NULL && equals != name) {
        *equals = 0;
        return apply(c, trim(name), trim(equals + 1), source, number, log);
    }
    char origin[64];
    origin_text(source, number, origin, sizeof origin);
    gw_log(log, GW_LOG_ERROR, "setting '%.60s' (%s) cannot be used: a line is NAME=value, or # and a comment", name,
           origin);
    return GW_E_SETTING;
}

/* A file that is something else altogether must not fill the log. */
struct counted {
    const struct gw_logger *log;
    unsigned lines;
};

static void count_line(void *arg, enum gw_log_level level, const char *line)
{
    struct counted *counted = arg;
    counted->lines++;
    gw_log(counted->log, level, "%s", line);
}

gw_err gw_conf_parse_file(struct gw_conf *c, enum gw_conf_source source, const char *text, size_t len,
                          const struct gw_logger *to)
{
    struct counted counted = { .log = to };
    const struct gw_logger log_counted = { count_line, &counted, to == NULL ? GW_LOG_ERROR : to->level }, *log = &log_counted;
    gw_err worst = GW_OK;
    uint32_t number = 0;
    for (size_t at = 0; at < len;) {
        if (counted.lines >= COMPLAINTS_MAX) {
            char origin[64];
            origin_text(source, number, origin, sizeof origin);
            gw_log(to, GW_LOG_ERROR, "settings: after %d lines like these nothing is read beyond %s: is it a file of settings?",
                   COMPLAINTS_MAX, origin);
            return GW_E_SETTING;
        }
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end == NULL ? len - at : (size_t)(end - (text + at));
        char line[LINE_MAX_BYTES] = "";
        number++;
        if (n < sizeof line && memchr(text + at, 0, n) == NULL) {
            memcpy(line, text + at, n);
            if (parse_line(c, source, number, line, log) != GW_OK)
                worst = GW_E_SETTING;
        } else {
            origin_text(source, number, line, sizeof line);
            gw_log(log, GW_LOG_ERROR, "settings: %s is no line of text of less than %d bytes", line, LINE_MAX_BYTES);
            worst = GW_E_SETTING;
        }
        at += n + (end != NULL);
    }
    return worst;
}

/* Bytes read, 0 also where there is no such file; -1 after saying why not. */
static ssize_t read_file(const char *path, char *text, size_t room, const struct gw_logger *log)
{
    size_t at = 0;
    ssize_t n = 0;
    /* Nonblocking: a name may be a pipe that nobody writes. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0) {
        gw_log(log, GW_LOG_WARN, "settings: %s: %m; goes on without it", path);
        return 0;
    }
    while (at < room && (n = read(fd, text + at, room - at)) > 0)
        at += (size_t)n;
    if (n < 0)
        gw_log(log, GW_LOG_WARN, "settings: %s: %m; goes on without it", path);
    else if (at == room)
        gw_log(log, GW_LOG_ERROR, "settings: %s is larger than %d bytes", path, GW_CONF_FILE_MAX);
    close(fd);
    return n < 0 ? 0 : at == room ? -1 : (ssize_t)at;
}

static gw_err load_file(struct gw_conf *c, enum gw_conf_source source, const char *path, const struct gw_logger *log)
{
    if (path == NULL)
        return GW_OK;
    char *text = malloc(GW_CONF_FILE_MAX + 1);
    if (text == NULL)
        return GW_E_NOMEM;
    ssize_t n = read_file(path, text, GW_CONF_FILE_MAX + 1, log);
    gw_err err = n < 0 ? GW_E_SETTING : gw_conf_parse_file(c, source, text, (size_t)n, log);
    free(text);
    return err;
}

/* ---- all of them ---- */
static gw_err load_env(struct gw_conf *c, const char *const *env, const struct gw_logger *log)
{
    gw_err worst = GW_OK;
    for (; env != NULL && *env != NULL; env++) {
        char name[NAME_MAX_BYTES + sizeof PREFIX];
        const char *equals = strchr(*env, '=');
        if (strncmp(*env, PREFIX, sizeof PREFIX - 1) != 0 || equals == NULL)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *env), *env);
        if (apply(c, name, equals + 1, GW_CONF_ENV, 0, log) != GW_OK)
            worst = GW_E_SETTING;
    }
    return worst;
}

gw_err gw_conf_load_from(struct gw_conf *c, const char *const *env, const char *user_file, const char *system_file,
                         const struct gw_logger *log)
{
    gw_conf_defaults(c);
    /* Highest first: a value below one that holds is not even looked at, so that a user can get past a bad system file. */
    gw_err of_env = load_env(c, env, log);
    gw_err of_user = load_file(c, GW_CONF_USER, user_file, log);
    gw_err of_system = load_file(c, GW_CONF_SYSTEM, system_file, log);
    return of_env != GW_OK ? of_env : of_user != GW_OK ? of_user : of_system;
}

gw_err gw_conf_load(struct gw_conf *c, const struct gw_logger *log)
{
    char user_file[512];
    const char *home = secure_getenv("HOME");
    int n = home == NULL ? -1 : snprintf(user_file, sizeof user_file, "%s" USER_FILE, home);
    int has_home = n > 0 && n < (int)sizeof user_file;
    return gw_conf_load_from(c, (const char *const *)environ, has_home ? user_file : NULL, SYSTEM_FILE, log);
}

void gw_conf_each(const struct gw_conf *c, void (*each)(void *arg, const struct gw_setting_info *item), void *arg)
{
    for (size_t i = 0; i < GW_LEN(table); i++) {
        char name[NAME_MAX_BYTES], value[GW_SETTING_TEXT], allowed[GW_SETTING_TEXT], origin[64];
        snprintf(name, sizeof name, PREFIX "%s", table[i].name);
        gw_setting_format(&table[i], (const char *)c + table[i].offset, value);
        gw_setting_allowed(&table[i], allowed);
        origin_text(c->from[i].source, c->from[i].line, origin, sizeof origin);
        struct gw_setting_info item = {name,  gw_setting_type(&table[i]), allowed, table[i].help,
                                    value, table[i].fallback,          origin};
        each(arg, &item);
    }
}

gw_err gw_settings(const struct gw_logger *log, void (*each)(void *arg, const struct gw_setting_info *s), void *arg)
{
    struct gw_conf c;
    gw_err err = gw_conf_load(&c, log);

    gw_conf_each(&c, each, arg);
    return err;
}
