/* info.c - what is here and what is set, for people and (with --json) for programs. */
#include "info.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <gradwire/codec.h>
#include <gradwire/gradwire.h>

enum { FINE = 0, BAD = 1, USAGE = 2 };

static void say(void *arg, enum gw_log_level level, const char *line)
{
    (void)arg, (void)level;
    fprintf(stderr, "%s\n", line);
}

static const struct gw_logger logger = { .write = say, .level = GW_LOG_WARN };

static int usage(FILE *out)
{
    fputs("usage: gradwire info [--json] [SETTING...]\n"
          "\n"
          "Prints version, codecs, the interfaces that NCCL will be offered, and every setting: value, where it comes\n"
          "from, what is allowed, what it does.  With names only these settings.\n"
          "Exit: 0 fine, 1 a setting cannot be used or there is no interface, 2 wrong arguments.\n",
          out);
    return out == stdout ? FINE : USAGE;
}

/* ---- settings ---- */

struct walk {
    char **only;
    int n, found;
    int bad;      /* a setting that the plugin will refuse */
    json_t *rows; /* NULL: print */
};

static int wanted(const struct walk *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (strcasecmp(w->only[i], name) == 0 || strcasecmp(w->only[i], name + strlen("GRADWIRE_")) == 0)
            return 1;
    return w->n == 0;
}

static int in_plugin(const char *codec);

static void one_setting(void *arg, const struct gw_setting_info *s)
{
    struct walk *w = arg;

    if (strcmp(s->name, "GRADWIRE_CODEC") == 0 && !in_plugin(s->value)) {
        fprintf(stderr, "gradwire info: GRADWIRE_CODEC=%s: the plugin was built without %s\n", s->value, s->value);
        w->bad = 1;
    }
    if (!wanted(w, s->name))
        return;
    w->found++;
    if (w->rows != NULL)
        json_array_append_new(w->rows, json_pack("{ssssssssssssss}", "name", s->name, "value", s->value, "origin", s->origin,
                                                 "default", s->fallback, "type", s->type, "allowed", s->allowed, "help",
                                                 s->help));
    else
        printf("%s=%s  (%s)\n    %s\n    %s: %s; default %s\n", s->name, s->value, s->origin, s->help, s->type, s->allowed,
               *s->fallback ? s->fallback : "none");
}

/* ---- what is here ---- */

/* The plugin has the codecs of other libraries only where its build asked for them; this command has what was there. */
static int in_plugin(const char *codec)
{
    char word[128];

    snprintf(word, sizeof word, " %s ", codec);
    return strstr(GW_COMMAND_ALONE, word) == NULL;
}

static json_t *codecs(void)
{
    json_t *all = json_array();

    for (size_t i = 0; gw_codec_at(i) != NULL; i++) {
        const char *name = gw_codec_at(i)->name;
        json_array_append_new(all, json_pack("{sisssb}", "id", gw_codec_at(i)->id, "name", name, "in_plugin", in_plugin(name)));
    }
    return all;
}

static json_t *devices(gw_err *err_p)
{
    struct gw_config config = { .size = sizeof config, .log = &logger };
    json_t *all = json_array();
    struct gw_ctx *ctx;
    struct gw_device d;

    *err_p = gw_open(&config, &ctx);
    if (*err_p != GW_OK)
        return all;
    for (int i = 0; gw_device(ctx, i, &d) == GW_OK; i++)
        json_array_append_new(all, json_pack("{sssisssI}", "name", d.name, "speed_mbps", d.speed_mbps, "pci",
                                             d.pci_path ? d.pci_path : "", "guid", (json_int_t)d.guid));
    gw_close(ctx);
    return all;
}

static void print_here(json_t *all)
{
    json_t *row;
    size_t i;

    printf("%s, kernels %s\ncodecs:", gw_version(), gw_kern_name());
    json_array_foreach (json_object_get(all, "codecs"), i, row)
        printf(" %s (id %d%s)", json_string_value(json_object_get(row, "name")),
               (int)json_integer_value(json_object_get(row, "id")),
               json_is_true(json_object_get(row, "in_plugin")) ? "" : ", not in the plugin");
    printf("\n");
    json_array_foreach (json_object_get(all, "devices"), i, row) {
        int speed = (int)json_integer_value(json_object_get(row, "speed_mbps"));
        printf("interface %zu: %s, ", i, json_string_value(json_object_get(row, "name")));
        printf(speed > 0 ? "%d Mbit/s" : "speed unknown", speed);
        printf(" %s\n", json_string_value(json_object_get(row, "pci")));
    }
    printf("\n");
}

static int show(struct walk *w, int json)
{
    gw_err err = GW_OK, set_err;
    json_t *all = json_pack("{sssssoso}", "version", gw_version(), "kernels", gw_kern_name(), "codecs", codecs(), "devices",
                            devices(&err));

    w->rows = json ? json_array() : NULL;
    if (!json && w->n == 0)
        print_here(all);
    /* gw_open has said what cannot be used */
    set_err = gw_settings(NULL, one_setting, w);
    if (json) {
        json_object_set_new(all, "settings", w->rows);
        json_dumpf(all, stdout, JSON_INDENT(2));
        printf("\n");
    }
    json_decref(all);
    if (w->found < w->n) {
        fprintf(stderr, "gradwire info: a name is no setting; `gradwire info` lists all\n");
        return USAGE;
    }
    return err == GW_OK && set_err == GW_OK && !w->bad ? FINE : BAD;
}

int info_main(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    struct walk w = { 0 };
    int c, json = 0;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h')
            return usage(stdout);
        if (c != 'j')
            return usage(stderr);
        json = 1;
    }
    w.only = argv + optind, w.n = argc - optind;
    return show(&w, json);
}
