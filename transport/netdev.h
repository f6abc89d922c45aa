/* netdev.h - the network interfaces that a lane may use, the best kind first.
 *
 * Without a list the first of these kinds that has a usable interface is taken: backed by a device in sysfs (and bonds and
 * VLANs over one); the rest less what containers and tunnels make; those; loopback.  Usable: up, with carrier, with an
 * address beyond link-local. */
#ifndef GW_TRANSPORT_NETDEV_H
#define GW_TRANSPORT_NETDEV_H

#include <ifaddrs.h>
#include <stddef.h>
#include <stdint.h>

#include "hello.h"

struct gw_netdev {
    char name[16];
    char *pci_path; /* real path of the device in sysfs, or NULL */
    int speed_mbps; /* 0: unknown; the nominal speed of a virtual link is not taken for one */
    int mtu;        /* 0: unknown */
    uint64_t guid;  /* same for interfaces of one adapter; never 0 */
    struct gw_addr addr[GW_ADDRS_MAX]; /* port 0, no link-local ones */
    int addrs;
};

/* ifname: GRADWIRE_IFNAME, exact names or globs by comma, '^' first: all but these.  nccl_ifname: NCCL_SOCKET_IFNAME with
 * NCCL's meaning ('^' all but, '=' exact, else prefixes), where ifname is unset.  NULL and "" are unset.  sysfs_root:
 * "/sys".  skipped gets one line, "" when there is nothing to say; also when nothing was found.  GW_E_SETTING: a list was
 * given and nothing usable is left; GW_E_DEVICE: no usable interface at all. */
gw_err gw_netdev_list(const char *ifname, const char *nccl_ifname, const char *sysfs_root, struct gw_netdev **list_p,
                      int *n_p, char *skipped, size_t skipped_len);
/* The same over interfaces that the caller enumerated. */
gw_err gw_netdev_choose(const struct ifaddrs *ifs, const char *ifname, const char *nccl_ifname, const char *sysfs_root,
                        struct gw_netdev **list_p, int *n_p, char *skipped, size_t skipped_len);
void gw_netdev_free(struct gw_netdev *list, int n);
#endif
