/* text.h - numbers that a user wrote, as perf and bench both take them. */
#ifndef GW_TOOLS_TEXT_H
#define GW_TOOLS_TEXT_H

#include <stdlib.h>
#include <string.h>

/* The power of 2 that a K, M or G at *at stands for, 0 without one; *at goes behind it. */
static inline unsigned text_unit(char **at)
{
    static const char units[] = "KMG";
    const char *unit = **at != '\0' ? strchr(units, **at & ~0x20) : NULL;

    *at += unit != NULL;
    return unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
}

/* 0, or -1 where it is no number from low to high. */
static inline int text_real(const char *text, double low, double high, double *out)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || !(v >= low && v <= high))
        return -1;
    *out = v;
    return 0;
}
#endif
