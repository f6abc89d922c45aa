/* ports.c - what the process has to send from: network interfaces, or the ports of RDMA devices, each with an interface for its
 * control connections. */
#include "ctx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/check.h>

static gw_err find_interfaces(const struct gw_logger *log, struct gw_netdev **list_p, int *n_p)
{
    char skipped[1024] = "";
    gw_err err = gw_netdev_list(gw_proc.conf.ifname, getenv("NCCL_SOCKET_IFNAME"), "/sys", list_p, n_p, skipped, sizeof skipped);

    if (err != GW_OK || *n_p == 0) {
        gw_log(log, GW_LOG_ERROR, "gradwire: no usable network interface (%s). Next: bring one up with an address, or name "
               "one with GRADWIRE_IFNAME", skipped[0] ? skipped : gw_err_text(err));
        return err == GW_OK ? GW_E_DEVICE : err;
    }
    if (skipped[0])
        gw_log(log, GW_LOG_INFO, "gradwire: interfaces left out: %s", skipped);
    return GW_OK;
}

/* The port's own interface, where it has one with an address; else the first: only the hellos go there. */
static const struct gw_netdev *interface_of(const struct gw_hca *h, const struct gw_netdev *list, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, h->netdev) == 0)
            return &list[i];
    return &list[0];
}

static void take_port(struct gw_dev *d, struct gw_hca *h, const struct gw_netdev *net)
{
    d->net = *net;
    d->hca = *h;
    d->net.pci_path = h->pci_path;
    d->net.speed_mbps = h->speed_mbps;
    d->net.guid = h->guid != 0 ? h->guid ^ h->port : net->guid;
    snprintf(d->net.name, sizeof d->net.name, "%.12s", h->name);
    if (h->port != 1)
        snprintf(d->net.name, sizeof d->net.name, "%.11s:%u", h->name, h->port);
    h->pci_path = d->hca.pci_path = NULL; /* the interface's now */
}

static gw_err find_ports(const struct gw_logger *log, const struct gw_netdev *list, int n)
{
    char skipped[1024] = "";
    struct gw_hca *hca;
    int hcas;
    gw_err err = gw_hca_list(gw_proc.conf.hca, getenv("NCCL_IB_HCA"), "/sys", &hca, &hcas, skipped, sizeof skipped);

    if (err != GW_OK) {
        gw_log(log, GW_LOG_ERROR, "gradwire " GW_VERSION " %s: op=init local=\"%s\": no usable RDMA port (%s). Next: bring one up, "
               "name it with GRADWIRE_HCA, give the container /sys and --device=/dev/infiniband, or unset GRADWIRE_LANE",
               gw_err_name(err), gw_proc.host, skipped[0] ? skipped : gw_err_text(err));
        return err;
    }
    if (skipped[0])
        gw_log(log, GW_LOG_INFO, "gradwire: RDMA ports left out: %s", skipped);
    gw_proc.dev = calloc((size_t)hcas, sizeof *gw_proc.dev);
    for (int i = 0; i < hcas && gw_proc.dev != NULL; i++)
        take_port(&gw_proc.dev[i], &hca[i], interface_of(&hca[i], list, n));
    gw_proc.devs = gw_proc.dev != NULL ? hcas : 0;
    gw_hca_free(hca, hcas);
    return gw_proc.dev != NULL ? GW_OK : GW_E_NOMEM;
}

static gw_err take_interfaces(struct gw_netdev *list, int n)
{
    gw_proc.dev = calloc((size_t)n, sizeof *gw_proc.dev);
    if (gw_proc.dev == NULL)
        return GW_E_NOMEM;
    for (int i = 0; i < n; i++) {
        gw_proc.dev[i].net = list[i];
        list[i].pci_path = NULL; /* ours now */
    }
    gw_proc.devs = n;
    return GW_OK;
}

gw_err gw_proc_find(const struct gw_logger *log)
{
    struct gw_netdev *list = NULL;
    int n = 0;
    gw_err err = find_interfaces(log, &list, &n);

    if (err != GW_OK)
        return err;
    err = gw_proc.conf.lane == GW_CONF_LANE_VERBS ? find_ports(log, list, n) : take_interfaces(list, n);
    gw_netdev_free(list, n);
    return err;
}

/* ---- NCCL's settings ---- */

static void obey(uint32_t *value, uint32_t unset, uint32_t most, const char *name, const struct gw_logger *log)
{
    const char *text = getenv(name);
    char *end;
    unsigned long v;

    if (text == NULL || *value != unset)
        return;
    errno = 0;
    v = strtoul(text, &end, 0);
    if (*text == '-')
        return; /* NCCL's "choose" */
    if (errno != 0 || end == text || *end != 0 || v > most) {
        gw_log(log, GW_LOG_WARN, "gradwire: %s=%.40s is no number up to %u, and is left out", name, text, most);
        return;
    }
    *value = (uint32_t)v;
    gw_log(log, GW_LOG_INFO, "gradwire: %s=%u is obeyed", name, *value);
}

/* Ours counts as unset where it has its default: who wants the default against NCCL's setting unsets that. */
void gw_proc_obey(struct gw_conf *conf, const struct gw_logger *log)
{
    struct gw_conf unset;

    if (conf->lane != GW_CONF_LANE_VERBS)
        return;
    gw_conf_defaults(&unset);
    obey(&conf->gid_index, unset.gid_index, 255, "NCCL_IB_GID_INDEX", log);
    obey(&conf->ib_timeout, unset.ib_timeout, 31, "NCCL_IB_TIMEOUT", log);
    obey(&conf->ib_retry, unset.ib_retry, 7, "NCCL_IB_RETRY_CNT", log);
    obey(&conf->ib_tc, unset.ib_tc, 255, "NCCL_IB_TC", log);
    obey(&conf->ib_sl, unset.ib_sl, 15, "NCCL_IB_SL", log);
}
