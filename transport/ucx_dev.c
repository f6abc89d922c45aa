/* ucx_dev.c - the module's one exported table, and a device: a UCP context on one interface.
 *
 * The user's UCX_TLS and UCX_NET_DEVICES were set for something else (MPI, mostly) and never decide
 * here; under the prefix GRADWIRE_UCX_ they do. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucs/debug/log_def.h>

#include "ucx.h"

#define PREFIX "GRADWIRE_UCX_"

static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gw_ucx_dev *devs;
static _Thread_local int loud;

void gw_ucx_loud(int on)
{
    loud = on;
}

static void log_line(const struct gw_logger *lg, enum gw_log_level level, const char *head,
                     const char *fmt, va_list ap)
{
    char line[1000];
    size_t n;
    if (lg == NULL || level > lg->level)
        return;
    n = (size_t)snprintf(line, sizeof(line), "%s", head);
    vsnprintf(line + n, sizeof(line) - n, fmt, ap);
    lg->write(lg->arg, level, line);
}

void gw_ucx_log(const struct gw_ucx_dev *dev, enum gw_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_line(dev->host.log, level, "", fmt, ap);
    va_end(ap);
}

/* UCX speaks through the logger of a device that is open; with none open nobody is there to listen.
 * Its own errors are warnings here: whoever made the call that fails prints the error. */
static ucs_log_func_rc_t log_from_ucx(const char *file, unsigned line, const char *function,
                                      ucs_log_level_t level, const ucs_log_component_config_t *conf,
                                      const char *fmt, va_list ap)
{
    enum gw_log_level ours = level == UCS_LOG_LEVEL_FATAL                 ? GW_LOG_ERROR
                             : level <= UCS_LOG_LEVEL_WARN && loud ? GW_LOG_WARN
                                                                   : GW_LOG_DEBUG;
    (void)file, (void)line, (void)function, (void)conf;
    pthread_mutex_lock(&devs_lock);
    if (devs != NULL)
        log_line(devs->host.log, ours, "ucx says: ", fmt, ap);
    pthread_mutex_unlock(&devs_lock);
    return UCS_LOG_FUNC_RC_STOP;
}

static void own_libraries(void)
{
    ucs_log_push_handler(log_from_ucx);
}

static void devs_add(struct gw_ucx_dev *d)
{
    pthread_mutex_lock(&devs_lock);
    d->next = devs;
    devs = d;
    pthread_mutex_unlock(&devs_lock);
}

static void devs_remove(struct gw_ucx_dev *d)
{
    pthread_mutex_lock(&devs_lock);
    for (struct gw_ucx_dev **p = &devs; *p != NULL; p = &(*p)->next) {
        if (*p == d) {
            *p = d->next;
            break;
        }
    }
    pthread_mutex_unlock(&devs_lock);
}

/* An option that this UCX does not know is left out: it is a wish, never a condition. */
static void option_set(const struct gw_ucx_dev *d, ucp_config_t *config, const char *name,
                       const char *value)
{
    static const struct {
        const char *prefix, *transport;
    } own[] = {{"TCP_", "tcp"}, {"POSIX_", "posix"}, {"SYSV_", "sysv"}};
    unsigned major, minor, patch;
    ucs_status_t status;
    ucp_get_version(&major, &minor, &patch);
    for (size_t i = 0; i < GW_LEN(own); i++) {
        if (strncmp(name, own[i].prefix, strlen(own[i].prefix)) != 0)
            continue;
        if (strstr(d->transport, own[i].transport) == NULL)
            return;                   /* meant for another device */
        if (major == 1 && minor < 17) /* which know a transport's options without its name */
            name += strlen(own[i].prefix);
        break;
    }
    status = ucp_config_modify(config, name, value);
    if (status != UCS_OK)
        gw_ucx_log(d, GW_LOG_WARN, "ucx: option %s cannot be %s: %s", name, value,
                   ucs_status_string(status));
}

/* Ours, unless the user has named it with our prefix. */
static void option_default(const struct gw_ucx_dev *d, ucp_config_t *config, const char *name,
                           const char *value)
{
    char env[64];
    snprintf(env, sizeof(env), PREFIX "%s", name);
    if (getenv(env) == NULL)
        option_set(d, config, name, value);
}

/* UCX itself takes its own options from under a prefix, but no transport's. */
static void options_of_user(const struct gw_ucx_dev *d, ucp_config_t *config)
{
    char name[64];
    for (char **env = environ; env != NULL && *env != NULL; env++) {
        const char *value = strchr(*env, '=');
        if (value == NULL || strncmp(*env, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(value - *env - (ptrdiff_t)strlen(PREFIX)),
                 *env + strlen(PREFIX));
        option_set(d, config, name, value + 1);
    }
}

static void options_set(const struct gw_ucx_dev *d, ucp_config_t *config)
{
    int is_tcp = strstr(d->transport, "tcp") != NULL;
    char range[16];
    options_of_user(d, config);
    option_default(d, config, "TLS", d->transport);
    option_default(d, config, "NET_DEVICES", is_tcp && d->ifname[0] ? d->ifname : "all");
    if (!is_tcp)
        return;
    /* Joining must not wait inside connect(2): a firewall that swallows packets would hold the host
     * for minutes. */
    option_default(d, config, "TCP_CONN_NB", "y");
    /* A send without a copy that fails halfway is completed twice in every UCX so far, and a peer
     * that dies would take us along.  With segments of this size the copy costs 4 %, and all is
     * half as fast again as with UCX's own 8 and 64 KiB. */
    option_default(d, config, "ZCOPY_THRESH", "inf");
    option_default(d, config, "TCP_TX_SEG_SIZE", d->segment);
    option_default(d, config, "TCP_RX_SEG_SIZE", d->segment);
    if (d->port_lo != 0) {
        snprintf(range, sizeof(range), "%u-%u", d->port_lo, d->port_hi);
        option_default(d, config, "TCP_PORT_RANGE", range);
    }
}

static gw_err context_open(struct gw_ucx_dev *d)
{
    const ucp_params_t params = {
        .field_mask =
            UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM,
        .mt_workers_shared = 1,
        .name = "gradwire",
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read("GRADWIRE", NULL, &config);
    if (status == UCS_OK) {
        options_set(d, config);
        status = ucp_init(&params, config, &d->context);
        ucp_config_release(config);
    }
    if (status == UCS_OK)
        return GW_OK;
    gw_ucx_log(d, GW_LOG_WARN, "ucx: cannot open %s on %s: %s", d->transport,
               d->ifname[0] ? d->ifname : "this machine", ucs_status_string(status));
    return GW_E_DEVICE;
}

static void close_dev(void *dev)
{
    struct gw_ucx_dev *d = dev;
    if (d == NULL)
        return;
    if (d->context != NULL)
        ucp_cleanup(d->context);
    devs_remove(d);
    free(d);
}

/* What the device is to be; the names under our prefix come first. */
static void describe(struct gw_ucx_dev *d, const struct gw_host *host,
                     const struct gw_lane_conf *conf)
{
    const char *transport = getenv(PREFIX "TLS"), *segment = getenv(PREFIX "TCP_RX_SEG_SIZE");
    if (transport == NULL)
        transport = conf->transport != NULL ? conf->transport : "tcp";
    if (strstr(transport, "tcp") == NULL)
        segment = "-";
    else if (segment == NULL)
        segment = "256k";
    d->host = *host;
    d->port_lo = conf->port_lo;
    d->port_hi = conf->port_hi;
    d->depth = (uint32_t)gw_min_u64(conf->queue_depth ? conf->queue_depth : GW_UCX_DEPTH,
                                    GW_UCX_DEPTH_MAX);
    snprintf(d->transport, sizeof(d->transport), "%s", transport);
    snprintf(d->segment, sizeof(d->segment), "%s", segment);
    snprintf(d->ifname, sizeof(d->ifname), "%s", conf->ifname != NULL ? conf->ifname : "");
}

static gw_err open_dev(const struct gw_host *host, const struct gw_lane_conf *conf, void **dev_p)
{
    struct gw_ucx_dev *d;
    gw_err err;
    if (host->size < sizeof(*host) || conf->size < sizeof(*conf))
        return GW_E_ARG;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return GW_E_NOMEM;
    describe(d, host, conf);
    devs_add(d);
    gw_ucx_loud(1);
    err = context_open(d);
    gw_ucx_loud(0);
    if (err != GW_OK) {
        close_dev(d);
        return err;
    }
    *dev_p = d;
    return GW_OK;
}

/* Active messages need no registration: tcp and shared memory copy, a fabric registers by itself as
 * it goes. */
static gw_err reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    (void)dev, (void)remote;
    *out = (struct gw_region){.base = base, .bytes = bytes};
    return GW_OK;
}

static void dereg(void *dev, struct gw_region *region)
{
    (void)dev;
    region->base = NULL;
}

static const struct gw_lane_ops ops = {
    .size = sizeof(ops),
    .name = "ucx",
    .open = open_dev,
    .close_dev = close_dev,
    .make = gw_ucx_make,
    .local = gw_ucx_local,
    .join = gw_ucx_join,
    .reg = reg,
    .dereg = dereg,
    .msg = gw_ucx_msg,
    .put = gw_ucx_put,
    .poll = gw_ucx_poll,
    .shut = gw_ucx_shut,
    .close = gw_ucx_close,
};

GW_API extern const struct gw_lane_module gw_lane_module_v1;
const struct gw_lane_module gw_lane_module_v1 = {
    .size = sizeof(gw_lane_module_v1),
    .build = GW_LANE_BUILD,
    .ops = &ops,
    .own = own_libraries,
};
