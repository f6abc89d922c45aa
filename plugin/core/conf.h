/* conf.h - the settings: one typed table, three places they may come from, and what came of it.
 *
 * A name is looked up as GRADWIRE_NAME in the environment, then as NAME=value (with or without GRADWIRE_) in
 * ~/.gradwire.conf, then in /etc/gradwire.conf.  The first that has it decides; a value that cannot be used is refused,
 * naming it, where it stands and what is allowed.  A bad value that another place overrides does no harm.  A name that
 * nobody knows is a warning with the nearest one that exists. */
#ifndef GW_CORE_CONF_H
#define GW_CORE_CONF_H

#include <stddef.h>
#include <stdint.h>

#include <gradwire/gradwire.h>

enum gw_conf_lane { GW_CONF_LANE_AUTO = 0, GW_CONF_LANE_UCX, GW_CONF_LANE_VERBS, GW_CONF_LANE_LOOP };
enum gw_conf_policy { GW_CONF_POLICY_AUTO = 0, GW_CONF_POLICY_ALWAYS, GW_CONF_POLICY_NEVER };
enum gw_conf_gdr { GW_CONF_GDR_AUTO = 0, GW_CONF_GDR_ON, GW_CONF_GDR_OFF };
enum gw_conf_kernel { GW_CONF_KERNEL_AUTO = 0, GW_CONF_KERNEL_SCALAR, GW_CONF_KERNEL_AVX2, GW_CONF_KERNEL_AVX512 };
enum gw_conf_log { GW_CONF_LOG_BOTH = 0, GW_CONF_LOG_NCCL };

/* Where a value was found; a higher one wins. */
enum gw_conf_source { GW_CONF_DEFAULT = 0, GW_CONF_SYSTEM, GW_CONF_USER, GW_CONF_ENV };

enum { GW_CONF_SETTINGS = 28, GW_CONF_FILE_MAX = 1 << 16 };

struct gw_conf {
    uint32_t lane, policy, kernel, gdr, log; /* the enums above */
    uint32_t check, abort;           /* 0, 1 */
    char ifname[256], hca[256];      /* "" where unset */
    char codec[64];                  /* "auto": lossless by policy; "raw": off; or a codec's name */
    char ucx_tls[64];                /* "": the lane's default */
    uint32_t workers;
    uint32_t chunk_bytes;
    uint64_t slab_bytes, window_bytes; /* window 0: measured */
    uint16_t port_lo, port_hi;         /* 0: any */
    uint32_t gid_index;                /* 256: chosen */
    uint32_t ib_timeout, ib_retry, ib_tc, ib_sl, ib_qps;
    uint32_t peer_timeout_ms, stall_warn_ms, stall_timeout_ms; /* 0: never */
    uint32_t connect_timeout_ms, connect_retries;

    struct {
        uint8_t source; /* enum gw_conf_source */
        uint32_t line;  /* in its file */
    } from[GW_CONF_SETTINGS];
};

void gw_conf_defaults(struct gw_conf *c);

/* Defaults, then the three places.  GW_E_SETTING after one error line per value that cannot be used. */
gw_err gw_conf_load(struct gw_conf *c, const struct gw_logger *log);
/* The same from places that the caller names: env ends with NULL; a file name may be NULL. */
gw_err gw_conf_load_from(struct gw_conf *c, const char *const *env, const char *user_file, const char *system_file,
                         const struct gw_logger *log);
/* Pure: the lines of a file that stands in [text, text+len), any bytes.  Goes on after a bad line. */
gw_err gw_conf_parse_file(struct gw_conf *c, enum gw_conf_source source, const char *text, size_t len,
                          const struct gw_logger *log);
/* One setting, by its name with or without GRADWIRE_.  GW_E_ARG: no such name (nothing is logged). */
gw_err gw_conf_set(struct gw_conf *c, const char *name, const char *value, enum gw_conf_source source, uint32_t line,
                   const struct gw_logger *log);

/* Strings are valid during the call only. */
void gw_conf_each(const struct gw_conf *c, void (*each)(void *arg, const struct gw_setting_info *item), void *arg);
#endif
