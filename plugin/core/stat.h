/* stat.h - this process's page of counters: the one that GRADWIRE_STAT_FD names, or one of our own. */
#ifndef GW_CORE_STAT_H
#define GW_CORE_STAT_H

#include <gradwire/log.h>
#include <gradwire/stat.h>

extern struct gw_stat_page *gw_stat; /* never NULL */
extern int gw_stat_watched;          /* somebody reads: host_ns is worth two clock reads a call */

/* Maps the page on the first call of a process; later calls only refresh the names.  Thread-safe. */
void gw_stat_open(const struct gw_logger *log, const char *codec, const char *policy);
void gw_stat_lane(const char *lane);
#endif
