/* setting.h - one value of a setting: text in, value out, and back.  Pure; conf.c has the table. */
#ifndef GW_CORE_SETTING_H
#define GW_CORE_SETTING_H

#include <stddef.h>
#include <stdint.h>

enum gw_kind {
    GW_KIND_CHOICE, /* uint32_t: which of words */
    GW_KIND_NUMBER, /* uint32_t */
    GW_KIND_BYTES,  /* uint32_t or uint64_t; K, M, G */
    GW_KIND_TIME,   /* uint32_t milliseconds; plain seconds, s, ms */
    GW_KIND_BOOL,   /* uint32_t */
    GW_KIND_TEXT,   /* char[size] */
    GW_KIND_PORTS,  /* two uint16_t: "a-b", "a", "0" */
    GW_KIND_PASSED, /* read elsewhere; stands here to be known */
    GW_KINDS
};

struct gw_setting {
    const char *name; /* without GRADWIRE_ */
    enum gw_kind kind;
    uint16_t offset, size; /* in struct gw_conf */
    uint64_t lo, hi, step; /* hi also bounds nothing for CHOICE, BOOL, TEXT */
    const char *words[5];
    const char *fallback; /* the default, as it could be written */
    const char *help;
};

enum { GW_SETTING_TEXT = 300 };

/* 1: at holds the value; 0: it cannot be used, at is as it was. */
int gw_setting_parse(const struct gw_setting *s, const char *value, void *at);
void gw_setting_format(const struct gw_setting *s, const void *at, char out[GW_SETTING_TEXT]);
void gw_setting_allowed(const struct gw_setting *s, char out[GW_SETTING_TEXT]);
const char *gw_setting_type(const struct gw_setting *s);
/* How many letters must change, come or go, case aside. */
unsigned gw_setting_distance(const char *a, const char *b);
#endif
