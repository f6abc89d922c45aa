/* module.c - finds libgradwire-NAME.so and opens it so that the host does not notice.
 *
 * The libraries behind a lane read their settings from the environment while they are loaded, and
 * by default they install signal handlers and hooks of malloc.  What turns this off is in the
 * environment only while dlopen runs, and by exchange of `environ`, never by setenv, which other
 * threads of the host would race with.  Where the host has loaded such a library before us, it is
 * the host's, and nothing of it is changed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/check.h>

#include "lane.h"

enum { SETTINGS_MAX = 8 };

struct module {
    const char *name;
    const char *library; /* the one whose presence means that the host was here first */
    const char *package; /* on Debian and Ubuntu */
    const char *settings[SETTINGS_MAX]; /* given while it loads */
    gw_err err;                         /* GW_AGAIN: not tried yet */
    char **kept;                        /* the environment that was there while it loaded */
    const struct gw_lane_ops *ops;
};

static struct module modules[] = {
    {"ucx",
     "libucs.so.0",
     "libucx0",
     {"UCX_HANDLE_ERRORS=none", "UCX_MEM_EVENTS=n", "UCX_DEBUG_SIGNO=0", "UCX_VFS_ENABLE=n",
      "UCX_WARN_UNUSED_ENV_VARS=n"},
     GW_AGAIN,
     NULL,
     NULL},
    {"verbs", "libibverbs.so.1", "libibverbs1 ibverbs-providers", {NULL}, GW_AGAIN, NULL, NULL},
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_present(const char *library)
{
    void *h = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (h != NULL)
        dlclose(h);
    return h != NULL;
}

/* Does the assignment `var` name the same variable as one of the settings? */
static int is_replaced(const struct module *m, const char *var)
{
    size_t n = strcspn(var, "=") + 1;
    for (size_t i = 0; i < SETTINGS_MAX && m->settings[i] != NULL; i++)
        if (strncmp(var, m->settings[i], n) == 0)
            return 1;
    return 0;
}

/* A copy of the environment with the module's settings in it.  NULL: no memory. */
static char **environ_extend(const struct module *m)
{
    size_t n = 0, at = 0;
    char **copy;
    while (environ != NULL && environ[n] != NULL)
        n++;
    copy = calloc(n + SETTINGS_MAX + 1, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < SETTINGS_MAX && m->settings[i] != NULL; i++)
        copy[at++] = (char *)m->settings[i];
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(m, environ[i]))
            copy[at++] = environ[i];
    return copy;
}

/* dlopen with the settings in the environment.  A thread of the host that calls setenv in between
 * makes an environment of its own, and then that one stays.  The copy is kept: somebody may still
 * stand in getenv. */
static void *open_settled(struct module *m, const char *path)
{
    char **before = environ;
    char **copy = environ_extend(m);
    void *h;
    if (copy == NULL)
        return NULL;
    m->kept = copy;
    environ = copy;
    h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (environ == copy)
        environ = before;
    return h;
}

/* Where this code was loaded from, "/usr/lib/"; "" where that is not known. */
static void folder_of_ours(char *out, size_t size)
{
    static const char here;
    Dl_info info;
    const char *slash = NULL;
    if (dladdr(&here, &info) != 0 && info.dli_fname != NULL)
        slash = strrchr(info.dli_fname, '/');
    snprintf(out, size, "%.*s", slash == NULL ? 0 : (int)(slash + 1 - info.dli_fname),
             slash == NULL ? "" : info.dli_fname);
}

/* The plugin and the module stand in one folder; the command stands in bin beside it.  Otherwise by name, as the linker
 * finds it. */
static void path_choose(char *out, size_t size, const char *name)
{
    static const char *const places[] = {"", "../lib/", "../lib64/"};
    char folder[4000];
    folder_of_ours(folder, sizeof(folder));
    for (size_t i = 0; folder[0] != 0 && i < GW_LEN(places); i++) {
        snprintf(out, size, "%s%slibgradwire-%s.so", folder, places[i], name);
        if (access(out, F_OK) == 0)
            return;
    }
    snprintf(out, size, "libgradwire-%s.so", name);
}

static void *open_somewhere(struct module *m, int settle, const struct gw_logger *log)
{
    char path[4096];
    const char *why;
    void *h;
    path_choose(path, sizeof(path), m->name);
    h = settle ? open_settled(m, path) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (h != NULL)
        return h;
    why = dlerror();
    why = why != NULL ? why : "no memory";
    /* the module is there, and something that it needs is not; a file that is no library is named first too */
    if (strstr(why, path) != why)
        gw_log(log, GW_LOG_ERROR,
               "gradwire " GW_VERSION " GW_E_MODULE: lane %s is not available: %s. Next: on Debian and Ubuntu apt install %s", m->name, why,
               m->package);
    else
        gw_log(log, GW_LOG_ERROR,
               "gradwire " GW_VERSION " GW_E_MODULE: lane %s is not available: %s. Next: it is part of gradwire and belongs "
               "beside the plugin",
               m->name, why);
    return NULL;
}

static gw_err check(const struct module *m, const struct gw_lane_module *t,
                    const struct gw_logger *log)
{
    const char *build =
        t != NULL && t->size >= offsetof(struct gw_lane_module, ops) ? t->build : "none";
    if (t == NULL || strcmp(build, GW_LANE_BUILD) != 0) {
        gw_log(log, GW_LOG_ERROR,
               "gradwire " GW_VERSION " GW_E_MODULE: lane %s is not available: libgradwire-%s.so has build %s and this is "
               "build %s. Next: install both from one release",
               m->name, m->name, build, GW_LANE_BUILD);
        return GW_E_MODULE;
    }
    if (t->size != sizeof(*t) || t->ops->size != sizeof(*t->ops)) {
        gw_log(log, GW_LOG_ERROR,
               "gradwire " GW_VERSION " GW_E_MODULE: lane %s is not available: libgradwire-%s.so was made from other "
               "sources. Next: install both from one release", m->name, m->name);
        return GW_E_MODULE;
    }
    return GW_OK;
}

static gw_err load(struct module *m, const struct gw_logger *log)
{
    int first = !is_present(m->library);
    const struct gw_lane_module *t;
    void *h = open_somewhere(m, first, log);
    gw_err err;
    if (h == NULL)
        return GW_E_MODULE;
    t = dlsym(h, "gw_lane_module_v1");
    err = check(m, t, log);
    if (err != GW_OK) {
        dlclose(h);
        return err;
    }
    if (first)
        t->own();
    else
        gw_log(log, GW_LOG_INFO,
               "%s was in this process before gradwire: its signal handlers, memory hooks and log "
               "stay "
               "as they are",
               m->library);
    m->ops = t->ops;
    return GW_OK;
}

gw_err gw_lane_module(const char *name, const struct gw_logger *log,
                      const struct gw_lane_ops **ops_p)
{
    gw_err err = GW_E_NOSYS;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < GW_LEN(modules); i++) {
        struct module *m = &modules[i];
        if (strcmp(m->name, name) != 0)
            continue;
        if (m->err == GW_AGAIN)
            m->err = load(m, log);
        err = m->err;
        if (err == GW_OK)
            *ops_p = m->ops;
    }
    pthread_mutex_unlock(&lock);
    return err;
}
