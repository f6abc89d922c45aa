/* hca.c - which ports of which RDMA devices are used.  Read gw_hca_list.  Only sysfs is read: whether a library can open the
 * device is for the lane to find out. */
#include "hca.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>

enum { GIDS_MAX = 256, ENTRY_MAX = 64, ENTRIES_MAX = 64 };

/* How an entry of the list names a device. */
enum how { BY_GLOB, BY_NAME, BY_PREFIX };

struct wanted {
    const char *list; /* NULL: all */
    enum how how;
    int but;          /* all but these */
    uint64_t matched; /* a bit for each entry */
};

struct note {
    char *text;
    size_t len;
};

static void note(struct note *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct note *t, const char *fmt, ...)
{
    size_t at = strlen(t->text);
    va_list ap;

    if (at > 0 && at + 2 < t->len)
        strcpy(t->text + at, ", "), at += 2;
    va_start(ap, fmt);
    vsnprintf(t->text + at, t->len - at, fmt, ap);
    va_end(ap);
}

/* ---- sysfs ---- */

/* The first line of a file, without its end; "" where there is none. */
static void line_of(char *out, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void line_of(char *out, size_t room, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    FILE *f;

    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    out[0] = 0;
    f = fopen(path, "re");
    if (f == NULL)
        return;
    if (fgets(out, (int)room, f) == NULL)
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

/* "0002:c903:00a1:b2c3" */
static uint64_t guid_of(const char *folder)
{
    char line[64];
    uint64_t guid = 0;

    line_of(line, sizeof line, "%s/node_guid", folder);
    for (const char *p = line; *p != 0; p++)
        if (*p != ':')
            guid = guid << 4 | (uint64_t)(*p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10);
    return guid;
}

/* The interface of the first address that has one. */
static void netdev_of(const char *folder, int port, char *out, size_t room)
{
    for (int i = 0; i < GIDS_MAX; i++) {
        line_of(out, room, "%s/ports/%d/gid_attrs/ndevs/%d", folder, port, i);
        if (out[0] != 0)
            return;
    }
}

/* "100 Gb/sec (4X EDR)": width and rate are multiplied already. */
static int speed_of(const char *folder, int port)
{
    char line[64];

    line_of(line, sizeof line, "%s/ports/%d/rate", folder, port);
    return (int)(strtod(line, NULL) * 1000);
}

static void describe(struct gw_hca *h, const char *folder)
{
    char line[64], path[PATH_MAX];

    line_of(line, sizeof line, "%s/ports/%d/link_layer", folder, h->port);
    h->is_ib = strcmp(line, "InfiniBand") == 0;
    h->speed_mbps = speed_of(folder, h->port);
    h->guid = guid_of(folder);
    netdev_of(folder, h->port, h->netdev, sizeof h->netdev);
    snprintf(path, sizeof path, "%s/device", folder);
    h->pci_path = realpath(path, NULL); /* a software device has none */
}

/* ---- what is wanted ---- */

static const char *next_entry(const char *list, char entry[ENTRY_MAX])
{
    size_t n = strcspn(list, ",");

    snprintf(entry, ENTRY_MAX, "%.*s", (int)gw_min_u64(n, ENTRY_MAX - 1), list);
    return list[n] == ',' ? list + n + 1 : NULL;
}

static int entry_matches(enum how how, char *entry, const char *name, int port)
{
    char *colon = strchr(entry, ':');

    if (colon != NULL) {
        *colon = 0;
        if (atoi(colon + 1) != port)
            return 0;
    }
    if (how == BY_GLOB)
        return fnmatch(entry, name, 0) == 0;
    return how == BY_NAME ? strcmp(entry, name) == 0 : strncmp(entry, name, strlen(entry)) == 0;
}

static int is_wanted(struct wanted *w, const char *name, int port)
{
    char entry[ENTRY_MAX];
    int any = 0, i = 0;

    if (w->list == NULL)
        return 1;
    for (const char *rest = w->list; rest != NULL && i < ENTRIES_MAX; i++) {
        rest = next_entry(rest, entry);
        if (entry[0] != 0 && entry_matches(w->how, entry, name, port))
            any = 1, w->matched |= 1ull << i;
    }
    return any != w->but;
}

static struct wanted read_wish(const char *hca, const char *nccl_hca)
{
    int ours = hca != NULL && hca[0] != 0;
    struct wanted w = { .list = ours ? hca : nccl_hca, .how = ours ? BY_GLOB : BY_PREFIX };

    if (w.list == NULL || w.list[0] == 0) {
        w.list = NULL;
        return w;
    }
    if (*w.list == '^')
        w.but = 1, w.list++;
    if (!ours && *w.list == '=')
        w.how = BY_NAME, w.list++;
    return w;
}

static void say_unmatched(const struct wanted *w, struct note *t)
{
    char entry[ENTRY_MAX];
    int i = 0;

    for (const char *rest = w->list; rest != NULL && i < ENTRIES_MAX; i++) {
        rest = next_entry(rest, entry);
        if (!(w->matched & 1ull << i))
            note(t, "\"%s\" matches no port", entry);
    }
}

/* ---- the list ---- */

static gw_err add_port(const char *folder, const char *name, int port, struct wanted *w, struct note *t, struct gw_hca **list_p,
                       int *n_p)
{
    struct gw_hca *grown;
    char state[64];

    line_of(state, sizeof state, "%s/ports/%d/state", folder, port);
    if (!is_wanted(w, name, port)) {
        note(t, "%.31s:%d (not asked for)", name, port);
        return GW_OK;
    }
    if (atoi(state) != 4) {
        note(t, "%.31s:%d (port is %.30s)", name, port, state[0] ? state : "not to be read");
        return GW_OK;
    }
    grown = realloc(*list_p, (size_t)(*n_p + 1) * sizeof *grown);
    if (grown == NULL)
        return GW_E_NOMEM;
    *list_p = grown;
    grown[*n_p] = (struct gw_hca){ .port = (uint8_t)port };
    snprintf(grown[*n_p].name, sizeof grown->name, "%.31s", name);
    describe(&grown[(*n_p)++], folder);
    return GW_OK;
}

static gw_err add_device(const char *root, const char *name, struct wanted *w, struct note *t, struct gw_hca **list_p, int *n_p)
{
    struct dirent **ports = NULL;
    char folder[512], path[600];
    gw_err err = GW_OK;
    int n;

    snprintf(folder, sizeof folder, "%.200s/class/infiniband/%.200s", root, name);
    snprintf(path, sizeof path, "%s/ports", folder);
    n = scandir(path, &ports, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        int port = atoi(ports[i]->d_name);
        if (port > 0 && port < 256 && err == GW_OK)
            err = add_port(folder, name, port, w, t, list_p, n_p);
        free(ports[i]);
    }
    free(ports);
    return err;
}

gw_err gw_hca_list(const char *hca, const char *nccl_hca, const char *sysfs_root, struct gw_hca **list_p, int *n_p,
                   char *skipped, size_t skipped_len)
{
    struct wanted w = read_wish(hca, nccl_hca);
    struct note t = { skipped, skipped_len };
    struct dirent **names = NULL;
    char path[300];
    gw_err err = GW_OK;
    int n;

    *list_p = NULL, *n_p = 0;
    skipped[0] = 0;
    snprintf(path, sizeof path, "%.200s/class/infiniband", sysfs_root);
    n = scandir(path, &names, NULL, versionsort);
    if (n <= 2)
        note(&t, "the kernel shows no RDMA device under %.200s", path);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.' && err == GW_OK)
            err = add_device(sysfs_root, names[i]->d_name, &w, &t, list_p, n_p);
        free(names[i]);
    }
    free(names);
    say_unmatched(&w, &t);
    if (err == GW_OK && *n_p == 0)
        err = GW_E_DEVICE;
    if (err != GW_OK) {
        gw_hca_free(*list_p, *n_p);
        *list_p = NULL, *n_p = 0;
    }
    return err;
}

void gw_hca_free(struct gw_hca *list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i].pci_path);
    free(list);
}
