/* log.c - one line at a time into the caller's sink. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gradwire/log.h>

enum { LINE_MAX_BYTES = 1000 };

/* Part of a line may be a peer's or a file's: a line break in it must not begin a line of its own. */
static void flatten(char *line)
{
    size_t n = strlen(line);
    while (n > 0 && line[n - 1] == '\n')
        line[--n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
}

void gw_logv(const struct gw_logger *lg, enum gw_log_level level, const char *fmt, va_list ap)
{
    int saved = errno;
    if (lg == NULL || lg->write == NULL || level > lg->level)
        return;
    char line[LINE_MAX_BYTES + 1];
    if (vsnprintf(line, sizeof line, fmt, ap) < 0)
        snprintf(line, sizeof line, "a line that cannot be formatted: %s", fmt);
    flatten(line);
    lg->write(lg->arg, level, line);
    errno = saved;
}

void gw_log(const struct gw_logger *lg, enum gw_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gw_logv(lg, level, fmt, ap);
    va_end(ap);
}
