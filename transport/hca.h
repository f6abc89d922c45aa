/* hca.h - the ports of RDMA devices, as sysfs shows them: no library is needed to know that there is one. */
#ifndef GW_TRANSPORT_HCA_H
#define GW_TRANSPORT_HCA_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/error.h>

struct gw_hca {
    char name[32];
    char netdev[16]; /* the interface behind the port, "" where there is none (InfiniBand without IP) */
    char *pci_path;  /* real path of the device in sysfs, or NULL */
    uint64_t guid;
    int speed_mbps;
    uint8_t port;
    uint8_t is_ib; /* the link layer: InfiniBand, else Ethernet */
};

/* The active ports that are wanted, by name.  hca: GRADWIRE_HCA, exact names or globs by comma, each with :PORT if wanted, '^'
 * first: all but these.  nccl_hca: NCCL_IB_HCA with NCCL's meaning ('^' all but, '=' exact, else prefixes), where hca is unset.
 * skipped gets one line: what was left out and why, and entries that match nothing.  GW_E_DEVICE: nothing is left. */
gw_err gw_hca_list(const char *hca, const char *nccl_hca, const char *sysfs_root, struct gw_hca **list_p, int *n_p,
                   char *skipped, size_t skipped_len);
void gw_hca_free(struct gw_hca *list, int n);
#endif
