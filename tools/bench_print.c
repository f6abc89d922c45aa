/* bench_print.c - rows as a table and as JSON, and what they are worth on a link. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <gradwire/gradwire.h>

#include "bench.h"

static const char *view_name(enum gw_view view)
{
    static const char *const names[GW_VIEW_COUNT] = {"bytes", "bf16", "f32", "f16", "f32 that holds bf16"};

    return names[view];
}

bool bench_row_best(const struct bench_row *rows, size_t n, size_t i)
{
    if (rows[i].refusal != NULL || rows[i].changed)
        return false;
    for (size_t k = 0; k < n; k++)
        if (k != i && rows[k].data == rows[i].data && rows[k].rival == rows[i].rival && rows[k].refusal == NULL &&
            (rows[k].encode.mid > rows[i].encode.mid || (rows[k].encode.mid == rows[i].encode.mid && k < i)))
            return false;
    return true;
}

/* JSON on standard output stands alone there. */
static bool quiet(const struct bench_opts *o)
{
    return o->json != NULL && strcmp(o->json, "-") == 0;
}

/* ---- table ---- */

void bench_print_file(const struct bench_opts *o, const struct bench_data *d)
{
    char size[16], len[16];

    if (quiet(o))
        return;
    printf("%s: %s%s bytes as %s, calls of %s, %d thread%s\n", d->file, d->cut ? "the first " : "",
           bench_size_text(d->file_len, len), view_name(d->view), bench_size_text(o->size, size), o->threads,
           o->threads == 1 ? "" : "s");
    printf("%-20s %-8s %7s %8s %8s  %-20s %-20s %9s %9s\n", "codec", "kernel", "ratio", "enc GB/s", "dec GB/s",
           "encode / memcpy", "decode / memcpy", "rel. L2", "max error");
    fflush(stdout);
}

static const char *share_text(const struct bench_spread *s, char text[32])
{
    if (s->n == 0)
        return "-";
    snprintf(text, 32, "%.3f [%.3f-%.3f]", s->mid, s->q1, s->q3);
    return text;
}

void bench_print_row(const struct bench_opts *o, const struct bench_row *row)
{
    char enc[32], dec[32], rate[16], l2[16] = "-", max[16] = "-";

    if (quiet(o))
        return;
    printf("%-20s %-8s ", row->rival->name, row->kernel);
    if (row->refusal != NULL || row->changed) {
        printf("%s\n", row->refusal != NULL ? row->refusal : "CHANGED: gave back other bytes or none");
        return;
    }
    snprintf(rate, sizeof(rate), row->decode.n > 0 ? "%.3f" : "-", row->decode.mid);
    if (bench_rival_lossy(row->rival)) {
        snprintf(l2, sizeof(l2), "%.2e", row->rel_l2);
        snprintf(max, sizeof(max), "%.2e", row->max_error);
    }
    printf("%7.4f %8.3f %8s  %-20s %-20s %9s %9s%s\n", row->ratio, row->encode.mid, rate, share_text(&row->encode_rel, enc),
           share_text(&row->decode_rel, dec), l2, max, row->raw_share == 1 ? "  stays raw" : "");
    fflush(stdout);
}

/* ---- what it is worth ---- */

static bool worth_showing(const struct bench_row *rows, size_t n, size_t i)
{
    return bench_row_best(rows, n, i) && rows[i].raw_share < 1 && rows[i].decode.n > 0 && rows[i].ratio < 1;
}

static struct bench_gain row_gain(const struct bench_opts *o, const struct bench_row *row, int link, int cores)
{
    return bench_gain(row->ratio, row->encode.mid / o->threads, row->decode.mid / o->threads, bench_links[link],
                      bench_cores[cores]);
}

/* What is rounded differently may not depend on time: lossy coding is all or nothing. */
static void gain_text(const struct bench_row *row, struct bench_gain g, char text[32])
{
    if (bench_rival_lossy(row->rival))
        snprintf(text, 32, "%.2f", g.full);
    else
        snprintf(text, 32, "%.2f/%.2f", g.full, g.mixed);
}

static void gain_row(const struct bench_opts *o, const struct bench_row *row)
{
    char text[32];

    for (int c = 0; c < BENCH_CORES; c++) {
        printf("%-20s %5d", c == 0 ? row->rival->name : "", bench_cores[c]);
        for (int l = 0; l < BENCH_LINKS; l++) {
            gain_text(row, row_gain(o, row, l, c), text);
            printf(" %12s", text);
        }
        printf("\n");
    }
}

void bench_print_gains(const struct bench_opts *o, const struct bench_row *rows, size_t n)
{
    bool head = false;

    for (size_t i = 0; i < n && !quiet(o); i++) {
        if (!worth_showing(rows, n, i))
            continue;
        if (!head) {
            printf("\nhow much sooner, 1 = raw: all coded / as much as the cores can code, the rest raw\n");
            printf("%-20s %5s", "codec", "cores");
            for (int l = 0; l < BENCH_LINKS; l++)
                printf(" %7.0f Gb/s", bench_links[l]);
            printf("\n");
        }
        head = true;
        gain_row(o, &rows[i]);
    }
    if (!quiet(o))
        printf("\n");
    fflush(stdout);
}

/* ---- JSON ---- */

static void put_spread(json_t *row, const char *name, const struct bench_spread *s)
{
    char key[64];

    json_object_set_new(row, name, s->n > 0 ? json_real(s->mid) : json_null());
    snprintf(key, sizeof(key), "%s_q1", name);
    json_object_set_new(row, key, s->n > 0 ? json_real(s->q1) : json_null());
    snprintf(key, sizeof(key), "%s_q3", name);
    json_object_set_new(row, key, s->n > 0 ? json_real(s->q3) : json_null());
}

static json_t *gains_json(const struct bench_opts *o, const struct bench_row *row)
{
    json_t *all = json_array();

    for (int c = 0; c < BENCH_CORES; c++)
        for (int l = 0; l < BENCH_LINKS; l++) {
            struct bench_gain g = row_gain(o, row, l, c);
            json_t *mixed = bench_rival_lossy(row->rival) ? json_null() : json_real(g.mixed);
            json_array_append_new(all, json_pack("{s:i,s:f,s:f,s:o}", "cores", bench_cores[c], "link_Gbps", bench_links[l],
                                                 "full", g.full, "mixed", mixed));
        }
    return all;
}

/* A file's name may be any bytes; JSON is UTF-8. */
static json_t *name_json(const char *name)
{
    json_t *j = json_string(name);
    char ascii[256];
    size_t n = 0;

    if (j != NULL)
        return j;
    for (; name[n] != '\0' && n + 1 < sizeof(ascii); n++)
        ascii[n] = name[n] >= ' ' && name[n] < 127 ? name[n] : '?';
    ascii[n] = '\0';
    return json_string(ascii);
}

static json_t *row_json(const struct bench_opts *o, const struct bench_row *row)
{
    bool lossy = bench_rival_lossy(row->rival);
    json_t *j = json_pack("{s:o,s:s,s:s,s:s,s:b,s:b}", "file", name_json(row->data->file), "codec", row->rival->name, "kernel", row->kernel,
                          "type", view_name(row->data->view), "lossy", lossy, "peer", row->rival->codec == NULL);

    if (row->refusal != NULL || row->changed) {
        json_object_set_new(j, "failed", json_string(row->refusal != NULL ? row->refusal : "changed"));
        return j;
    }
    json_object_set_new(j, "ratio", json_real(row->ratio));
    put_spread(j, "encode_GBps", &row->encode);
    put_spread(j, "decode_GBps", &row->decode);
    put_spread(j, "memcpy_GBps", &row->copy);
    put_spread(j, "encode_vs_memcpy", &row->encode_rel);
    put_spread(j, "decode_vs_memcpy", &row->decode_rel);
    json_object_set_new(j, "rel_l2_error", json_real(row->rel_l2));
    json_object_set_new(j, "max_error", json_real(row->max_error));
    json_object_set_new(j, "raw_bytes", json_integer((json_int_t)row->raw_bytes));
    json_object_set_new(j, "coded_bytes", json_integer((json_int_t)row->coded_bytes));
    json_object_set_new(j, "raw_share", json_real(row->raw_share));
    json_object_set_new(j, "rounds", json_integer(row->encode.n));
    json_object_set_new(j, "calls_per_round", json_integer((json_int_t)row->calls));
    json_object_set_new(j, "break_even", row->decode.n > 0 ? gains_json(o, row) : json_array());
    return j;
}

int bench_json(const struct bench_opts *o, const struct bench_row *rows, size_t n)
{
    json_t *list = json_array(), *all;
    FILE *out = quiet(o) ? stdout : fopen(o->json, "w");
    int status, lost = 0;

    if (out == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        lost |= json_array_append_new(list, row_json(o, &rows[i]));
    all = json_pack("{s:s,s:I,s:i,s:I,s:o}", "version", gw_version(), "call_bytes", (json_int_t)o->size, "threads", o->threads,
                    "span_bytes", (json_int_t)o->span, "rows", list);
    status = lost | json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    fputc('\n', out);
    json_decref(all);
    if (out != stdout)
        status |= fclose(out);
    return status;
}
