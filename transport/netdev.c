/* netdev.c - enumerates interfaces, drops the unusable ones, and takes the best kind of the rest.  Read gw_netdev_choose. */
#include <fnmatch.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netdev.h"
#include "sock.h"
#include "sysnet.h"

enum { ENTRY_MAX = 64 };

/* ---- what was skipped ---- */
struct note {
    char *out;
    size_t room, at;
};

static void note(struct note *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct note *t, const char *fmt, ...)
{
    va_list ap;
    if (t->room - t->at < 2)
        return;
    if (t->at > 0)
        t->at += (size_t)snprintf(t->out + t->at, t->room - t->at, ", ");
    if (t->at >= t->room)
        t->at = t->room - 1;
    va_start(ap, fmt);
    int n = vsnprintf(t->out + t->at, t->room - t->at, fmt, ap);
    va_end(ap);
    t->at = n > 0 && (size_t)n < t->room - t->at ? t->at + (size_t)n : t->room - 1;
}

/* ---- interfaces, gathered from one entry per address ---- */
enum kind { KIND_DEVICE = 0, KIND_PLAIN, KIND_CONTAINER, KIND_LOOPBACK, KIND_COUNT };

struct found {
    struct gw_netdev dev;
    unsigned flags;
    int link_local; /* has such an address */
    int chosen;     /* by a list, or there is none */
    enum kind kind;
};

struct set {
    struct found *all;
    int n, room;
};

static struct found *found_of(struct set *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->all[i].dev.name, name) == 0)
            return &s->all[i];
    if (s->n == s->room) {
        int room = s->room == 0 ? 16 : s->room * 2;
        struct found *all = realloc(s->all, (size_t)room * sizeof *all);
        if (all == NULL)
            return NULL;
        s->all = all, s->room = room;
    }
    struct found *f = &s->all[s->n++];
    memset(f, 0, sizeof *f);
    snprintf(f->dev.name, sizeof f->dev.name, "%s", name);
    return f;
}

static int link_local(const struct gw_addr *a)
{
    if (a->family == 4)
        return a->ip[0] == 169 && a->ip[1] == 254;
    return a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80;
}

static void add_address(struct found *f, const struct sockaddr *sa)
{
    struct sockaddr_storage ss = {0};
    struct gw_addr a;
    if (sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return;
    memcpy(&ss, sa, sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    gw_sock_from(&ss, &a);
    a.port = 0;
    if (link_local(&a)) {
        f->link_local = 1;
        return;
    }
    a.scope = 0;
    if (f->dev.addrs < GW_ADDRS_MAX)
        f->dev.addr[f->dev.addrs++] = a;
}

static gw_err gather(struct set *s, const struct ifaddrs *ifs)
{
    for (; ifs != NULL; ifs = ifs->ifa_next) {
        struct found *f = found_of(s, ifs->ifa_name);
        if (f == NULL)
            return GW_E_NOMEM;
        f->flags |= ifs->ifa_flags;
        add_address(f, ifs->ifa_addr);
    }
    return GW_OK;
}

/* ---- what kind ---- */
static int starts_with_any(const char *name, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
            return 1;
    return 0;
}

static void inspect(struct found *f, const char *root)
{
    static const char *const containers[] = {"docker", "lo", "virbr", "cni", "flannel", "br-", "tun", "tap", "wg", NULL};
    struct gw_sysnet sys;
    gw_sysnet_read(root, f->dev.name, &sys);
    f->dev.pci_path = sys.device_path;
    f->dev.mtu = sys.mtu;
    f->dev.guid = sys.guid;
    f->dev.speed_mbps = sys.speed_mbps;
    if (f->flags & IFF_LOOPBACK)
        f->kind = KIND_LOOPBACK;
    else if (sys.device_path != NULL)
        f->kind = KIND_DEVICE;
    else
        f->kind = starts_with_any(f->dev.name, containers) ? KIND_CONTAINER : KIND_PLAIN;
}

/* ---- lists of names ---- */
enum how { HOW_GLOB, HOW_PREFIX, HOW_EXACT };

static int entry_matches(enum how how, const char *entry, const char *name)
{
    switch (how) {
    case HOW_GLOB:
        return fnmatch(entry, name, 0) == 0;
    case HOW_PREFIX:
        return strncmp(name, entry, strlen(entry)) == 0;
    case HOW_EXACT:
        return strcmp(name, entry) == 0;
    }
    return 0;
}

/* Walks "a,b,c"; NULL ends it. */
static const char *next_entry(const char *list, char entry[ENTRY_MAX])
{
    while (*list == ',' || *list == ' ')
        list++;
    size_t n = strcspn(list, ",");
    if (n == 0)
        return NULL;
    snprintf(entry, ENTRY_MAX, "%.*s", (int)n, list);
    for (size_t i = strlen(entry); i > 0 && entry[i - 1] == ' ';)
        entry[--i] = 0;
    return list + n;
}

/* Returns 1 where the list names what is wanted, 0 where it names what is not. */
static int choose_by(struct set *s, const char *list, int is_nccl, struct note *t)
{
    char entry[ENTRY_MAX];
    int except = *list == '^';
    enum how how = is_nccl ? HOW_PREFIX : HOW_GLOB;
    list += except;
    if (is_nccl && *list == '=')
        how = HOW_EXACT, list++;
    for (int i = 0; i < s->n; i++)
        s->all[i].chosen = except;
    while ((list = next_entry(list, entry)) != NULL) {
        int matched = 0;
        /* NCCL takes "name:port" and ignores the port. */
        entry[is_nccl ? strcspn(entry, ":") : strlen(entry)] = 0;
        for (int i = 0; i < s->n; i++)
            if (entry_matches(how, entry, s->all[i].dev.name))
                s->all[i].chosen = !except, matched = 1;
        if (!matched)
            note(t, "%s entry '%s' matches no interface", is_nccl ? "NCCL_SOCKET_IFNAME" : "GRADWIRE_IFNAME", entry);
    }
    return !except;
}

/* ---- the choice ---- */
static const char *unusable(const struct found *f)
{
    if (!(f->flags & IFF_UP))
        return "down";
    if (!(f->flags & IFF_RUNNING))
        return "no carrier";
    if (f->dev.addrs == 0)
        return f->link_local ? "link-local address only" : "no IP address";
    return NULL;
}

static enum kind best_kind(const struct set *s)
{
    enum kind best = KIND_COUNT;
    for (int i = 0; i < s->n; i++)
        if (s->all[i].chosen && unusable(&s->all[i]) == NULL && s->all[i].kind < best)
            best = s->all[i].kind;
    return best;
}

/* Says why f is left out; NULL: it is taken. */
static const char *left_out(const struct found *f, int named, enum kind best)
{
    if (!f->chosen)
        return named ? "not named" : "excluded";
    const char *why = unusable(f);
    if (why != NULL || named || f->kind == best)
        return why;
    static const char *const kinds[KIND_COUNT] = {"", "no device behind it", "a container's or a tunnel", "loopback"};
    return kinds[f->kind];
}

static gw_err take(struct set *s, int named, struct note *t, struct gw_netdev **list_p, int *n_p)
{
    enum kind best = best_kind(s);
    struct gw_netdev *list = calloc((size_t)s->n + 1, sizeof *list);
    int n = 0;
    if (list == NULL)
        return GW_E_NOMEM;
    for (int i = 0; i < s->n; i++) {
        const char *why = left_out(&s->all[i], named, best);
        if (why != NULL) {
            note(t, "%s (%s)", s->all[i].dev.name, why);
            continue;
        }
        list[n++] = s->all[i].dev;
        s->all[i].dev.pci_path = NULL; /* the list's now */
    }
    if (n == 0) {
        free(list);
        return GW_E_DEVICE;
    }
    *list_p = list, *n_p = n;
    return GW_OK;
}

gw_err gw_netdev_choose(const struct ifaddrs *ifs, const char *ifname, const char *nccl_ifname, const char *sysfs_root,
                        struct gw_netdev **list_p, int *n_p, char *skipped, size_t skipped_len)
{
    char none[1];
    struct note t = {skipped_len > 0 ? skipped : none, skipped_len > 0 ? skipped_len : 1, 0};
    struct set s = {0};
    int is_nccl = ifname == NULL || *ifname == 0, named = 0;
    const char *list = is_nccl ? nccl_ifname : ifname;
    t.out[0] = 0;
    gw_err err = gather(&s, ifs);
    for (int i = 0; i < s.n && err == GW_OK; i++) {
        s.all[i].chosen = 1;
        inspect(&s.all[i], sysfs_root);
    }
    if (err == GW_OK && list != NULL && *list != 0)
        named = choose_by(&s, list, is_nccl, &t);
    if (err == GW_OK)
        err = take(&s, named, &t, list_p, n_p);
    if (err == GW_E_DEVICE && list != NULL && *list != 0)
        err = GW_E_SETTING;
    for (int i = 0; i < s.n; i++)
        free(s.all[i].dev.pci_path);
    free(s.all);
    return err;
}

gw_err gw_netdev_list(const char *ifname, const char *nccl_ifname, const char *sysfs_root, struct gw_netdev **list_p,
                      int *n_p, char *skipped, size_t skipped_len)
{
    struct ifaddrs *ifs;
    if (getifaddrs(&ifs) != 0) {
        if (skipped_len > 0)
            snprintf(skipped, skipped_len, "getifaddrs: %m");
        return GW_E_SYS;
    }
    gw_err err = gw_netdev_choose(ifs, ifname, nccl_ifname, sysfs_root, list_p, n_p, skipped, skipped_len);
    freeifaddrs(ifs);
    return err;
}

void gw_netdev_free(struct gw_netdev *list, int n)
{
    for (int i = 0; list != NULL && i < n; i++)
        free(list[i].pci_path);
    free(list);
}
