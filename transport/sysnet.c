/* sysnet.c - reads /sys/class/net, and sees through bonds and VLANs to the devices below. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>

#include "sysnet.h"

enum { DEPTH_MAX = 4 /* a VLAN over a bond over ... */ };

static int read_line(const char *root, const char *name, const char *file, char *out, size_t room)
{
    char path[PATH_MAX];
    out[0] = 0;
    snprintf(path, sizeof path, "%s/class/net/%s/%s", root, name, file);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    int ok = fgets(out, (int)room, f) != NULL; /* a link that is down has a speed file that cannot be read */
    fclose(f);
    out[strcspn(out, "\n")] = 0;
    return ok;
}

static int read_number(const char *root, const char *name, const char *file)
{
    char line[32];
    char *end;
    if (!read_line(root, name, file, line, sizeof line))
        return 0;
    long v = strtol(line, &end, 10);
    return *end == 0 && v > 0 && v < INT_MAX ? (int)v : 0;
}

static char *real_path(const char *root, const char *name, const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/class/net/%s/%s", root, name, file);
    return realpath(path, NULL);
}

/* Bonds, teams and VLANs are as good as what they stand on; a bridge is not. */
static int stands_on_others(const char *root, const char *name)
{
    char path[PATH_MAX], line[64];
    int yes = 0;
    snprintf(path, sizeof path, "%s/class/net/%s/uevent", root, name);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        yes |= strcmp(line, "DEVTYPE=vlan\n") == 0 || strcmp(line, "DEVTYPE=bond\n") == 0 ||
               strcmp(line, "DEVTYPE=team\n") == 0;
    fclose(f);
    return yes;
}

/* These report a speed that somebody made up. */
static int driver_invents(const char *root, const char *name)
{
    static const char *const drivers[] = {"virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen_netfront", "netvsc", "netdevsim"};
    char *path = real_path(root, name, "device/driver");
    const char *base = path == NULL ? "" : strrchr(path, '/') + 1;
    int yes = 0;
    for (size_t i = 0; i < GW_LEN(drivers); i++)
        yes |= strcmp(base, drivers[i]) == 0;
    free(path);
    return yes;
}

/* What stands below an interface, all the way down. */
struct below {
    int devices, invented; /* how many, and of how many the speed is not to be believed */
    char *path;            /* of the first */
};

static void look_below(const char *root, const char *name, int depth, struct below *b)
{
    char *path = real_path(root, name, "device");
    if (path != NULL) {
        b->devices++;
        b->invented += driver_invents(root, name);
        if (b->path == NULL)
            b->path = path;
        else
            free(path);
        return;
    }
    if (depth == DEPTH_MAX || !stands_on_others(root, name))
        return;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/class/net/%s", root, name);
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        if (strncmp(e->d_name, "lower_", 6) == 0)
            look_below(root, e->d_name + 6, depth + 1, b);
    closedir(d);
}

/* One adapter, one number: NCCL counts the interfaces of one number as one card.  Without a hardware address the name has
 * to do, with the machine's number, so that two containers do not look like one adapter. */
static uint64_t guid_of(const char *root, const char *name)
{
    char mac[32], boot[64] = "";
    uint64_t h = 0xcbf29ce484222325;
    unsigned b[6];
    if (read_line(root, name, "address", mac, sizeof mac) &&
        sscanf(mac, "%x:%x:%x:%x:%x:%x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) == 6 &&
        (b[0] | b[1] | b[2] | b[3] | b[4] | b[5]) != 0)
        return (uint64_t)b[0] << 40 | (uint64_t)b[1] << 32 | (uint64_t)b[2] << 24 | b[3] << 16 | b[4] << 8 | b[5];
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        if (fgets(boot, sizeof boot, f) == NULL)
            boot[0] = 0;
        fclose(f);
    }
    for (const char *p = boot; *p != 0; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001b3;
    for (const char *p = name; *p != 0; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001b3;
    return h == 0 ? 1 : h;
}

void gw_sysnet_read(const char *root, const char *name, struct gw_sysnet *out)
{
    struct below b = {0};
    look_below(root, name, 0, &b);
    out->device_path = b.path;
    out->mtu = read_number(root, name, "mtu");
    out->guid = guid_of(root, name);
    out->speed_mbps = b.devices > 0 && b.invented == 0 ? read_number(root, name, "speed") : 0;
}
