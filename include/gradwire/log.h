/* log.h - where gradwire's words go: a sink that the caller hands to gw_open.
 *
 * error: this cannot go on.  warn: unexpected, going on.  info: once a process.  debug: as many lines as objects. */
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <stdarg.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gw_log_level { GW_LOG_ERROR = 0, GW_LOG_WARN, GW_LOG_INFO, GW_LOG_DEBUG };

/* `write` gets one whole line without its newline; it may be called from any thread, also from two at once, and must not
 * call back into gradwire.  Lines above `level` are not formatted at all. */
struct gw_logger {
    void (*write)(void *arg, enum gw_log_level level, const char *line);
    void *arg;
    enum gw_log_level level;
};

/* Formats one line (at most 1000 bytes, longer ones are cut) and writes it.  lg may be NULL: nothing happens.  %m works;
 * errno is left as it was. */
GW_API void gw_log(const struct gw_logger *lg, enum gw_log_level level, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
GW_API void gw_logv(const struct gw_logger *lg, enum gw_log_level level, const char *fmt, va_list ap)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 0)))
#endif
    ;

#ifdef __cplusplus
}
#endif
#endif
