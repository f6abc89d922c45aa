/* sysnet.h - what sysfs tells of one network interface. */
#ifndef GW_TRANSPORT_SYSNET_H
#define GW_TRANSPORT_SYSNET_H

#include <stdint.h>

struct gw_sysnet {
    char *device_path; /* real path of the device behind it, malloc'ed; NULL: none */
    int speed_mbps;    /* 0: unknown, or a number that its driver made up */
    int mtu;           /* 0: unknown */
    uint64_t guid;     /* same for interfaces of one adapter; never 0 */
};

/* root: "/sys".  What is missing there is unknown; nothing fails. */
void gw_sysnet_read(const char *root, const char *name, struct gw_sysnet *out);
#endif
