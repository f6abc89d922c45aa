/* perf_print.c - rows as a table, as JSON, and what they mean in plain words. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { ROWS_MAX = PERF_CODECS_MAX * PERF_SIZES_MAX };

struct perf_printer {
    const struct perf_opts *o;
    char plugin[PERF_TEXT_BYTES];
    int nrows;
    struct perf_row rows[ROWS_MAX];
};

struct perf_printer *perf_print_new(const struct perf_opts *o)
{
    struct perf_printer *p = calloc(1, sizeof(*p));

    if (p != NULL)
        p->o = o;
    return p;
}

const char *perf_size_text(uint64_t bytes, char text[16])
{
    static const char units[] = "\0KMG";
    int unit = 0;
    double v = (double)bytes;

    while (v >= 1024 && unit < 3)
        v /= 1024, unit++;
    snprintf(text, 16, v == (double)(uint64_t)v ? "%.0f%c" : "%.1f%c", v, units[unit]);
    return text;
}

static double gbps(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

static double ratio_of(const struct perf_row *row)
{
    return row->wire_bytes != 0 ? (double)row->raw_bytes / (double)row->wire_bytes : 0;
}

static double per_gib(const struct perf_row *row, double ns)
{
    return row->all_raw != 0 ? ns / 1e9 / ((double)row->all_raw / (1 << 30)) : 0;
}

static const char *codec_name(const struct perf_row *row)
{
    return row->codec[0] != '\0' ? row->codec : "-";
}

/* ---- table ----------------------------------------------------------------------------------- */

static void cell(char out[16], bool known, const char *fmt, double v)
{
    if (!known)
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, fmt, v);
}

static void table_row(const struct perf_row *row)
{
    char size[16], wire[16], ratio[16], coded[16], codec[16], host[16];
    bool known = row->counters;

    cell(wire, known, "%.3f", gbps(row->wire_bytes, row->seconds));
    cell(ratio, known && row->wire_bytes != 0, "%.3f", ratio_of(row));
    cell(coded, known, "%.0f%%", row->coded_share * 100);
    cell(codec, known, "%.3f", per_gib(row, row->encode_ns + row->decode_ns));
    cell(host, known, "%.3f", per_gib(row, row->host_ns));
    printf("%-10s %7s %9.3f %9s %7s %6s %11s %10s %9.1f %9.1f  %-10s %s\n", codec_name(row),
           perf_size_text(row->size, size), gbps(row->raw_bytes, row->seconds), wire, ratio, coded,
           codec, host, row->p50_us, row->p99_us, row->lane[0] != '\0' ? row->lane : "-",
           row->valid ? "same" : "CHANGED");
}

void perf_print_plugin(struct perf_printer *p, const char *text)
{
    if (p->plugin[0] != '\0')
        return;
    snprintf(p->plugin, sizeof(p->plugin), "%s", text);
    if (!p->o->json)
        printf("plugin %s\n", p->plugin);
}

void perf_print_row(struct perf_printer *p, const struct perf_row *row)
{
    if (p->nrows == ROWS_MAX)
        return;
    p->rows[p->nrows++] = *row;
    if (p->o->json)
        return;
    if (p->nrows == 1)
        printf("%-10s %7s %9s %9s %7s %6s %11s %10s %9s %9s  %-10s %s\n", "codec", "size",
               "raw GB/s", "wire GB/s", "ratio", "coded", "codec s/GiB", "host s/GiB", "p50 us",
               "p99 us", "lane", "bytes");
    table_row(row);
    fflush(stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *known_or_null(bool known, double v)
{
    return known ? json_real(v) : json_null();
}

static json_t *row_json(const struct perf_row *row)
{
    bool known = row->counters;

    return json_pack("{s:I, s:s, s:s, s:I, s:I, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:f, s:f, "
                     "s:b, s:I, s:I, s:o}",
                     "size", (json_int_t)row->size, "codec", codec_name(row), "policy", row->policy,
                     "messages", (json_int_t)row->messages, "raw_bytes", (json_int_t)row->raw_bytes,
                     "wire_bytes", known ? json_integer((json_int_t)row->wire_bytes) : json_null(),
                     "seconds", row->seconds, "raw_gbps", gbps(row->raw_bytes, row->seconds),
                     "wire_gbps", known_or_null(known, gbps(row->wire_bytes, row->seconds)),
                     "ratio", known_or_null(known && row->wire_bytes != 0, ratio_of(row)),
                     "coded_share", known_or_null(known, row->coded_share), "codec_s_per_gib",
                     known_or_null(known, per_gib(row, row->encode_ns + row->decode_ns)),
                     "host_s_per_gib", known_or_null(known, per_gib(row, row->host_ns)), "p50_us",
                     row->p50_us, "p99_us", row->p99_us, "valid", row->valid, "checked_messages",
                     (json_int_t)row->checked, "checked_bytes", (json_int_t)row->checked_bytes,
                     "lane", row->lane[0] != '\0' ? json_string(row->lane) : json_null());
}

static void slices_json(const struct perf_row *row, json_t *out)
{
    json_t *slices = json_array();

    for (uint32_t i = 0; i < row->nslices; i++) {
        const struct perf_slice *s = &row->slice[i];
        json_array_append_new(slices, json_pack("[f, f, f, f]", s->at_s, s->gbps, s->coded, s->tried));
    }
    json_object_set_new(out, "began_ms", json_integer((json_int_t)row->began_ms));
    json_object_set_new(out, "slices", slices);
}

static void json_out(const struct perf_printer *p, int code)
{
    static const char *const modes[] = {"local", "serve", "client", "ring"};
    json_t *rows = json_array();

    for (int i = 0; i < p->nrows; i++) {
        json_t *row = row_json(&p->rows[i]);
        if (p->o->every_ms != 0)
            slices_json(&p->rows[i], row);
        json_array_append_new(rows, row);
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:o}", "gradwire", GW_VERSION, "mode",
                            modes[p->o->mode], "plugin", p->plugin, "exit", code, "rows", rows);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(all);
}

/* ---- plain words ----------------------------------------------------------------------------- */

static double codec_speed(const struct perf_row *row)
{
    double enc = row->encode_ns > 0 ? row->encode_bytes / row->encode_ns : 0;
    double dec = row->decode_ns > 0 ? row->decode_bytes / row->decode_ns : 0;

    return enc > 0 && (dec <= 0 || enc < dec) ? enc : dec;
}

/* A link of L GB/s with one codec core at each end moves the smaller of L x ratio and the codec's
 * speed, but raw moves L: coding pays below the codec's speed. */
static void break_even(const struct perf_row *row)
{
    double speed = codec_speed(row), ratio = ratio_of(row);
    double ten = 1.25 * ratio < speed ? 1.25 * ratio : speed;
    char size[16];

    if (!row->counters || row->coded_share <= 0 || speed <= 0)
        return;
    if (ratio < 1.01) {
        printf("break-even %s at %s: nothing became smaller, so coding pays on no link\n",
               codec_name(row), perf_size_text(row->size, size));
        return;
    }
    printf("break-even %s at %s: %.2f times smaller at %.2f GB/s a core and end: pays on links "
           "below %.1f Gbit/s",
           codec_name(row), perf_size_text(row->size, size), ratio, speed, speed * 8);
    if (ten > 1.25)
        printf("; 10 Gbit/s would move %.2f GB/s instead of 1.25\n", ten);
    else
        printf("; at 10 Gbit/s raw is faster\n");
}

static void break_evens(const struct perf_printer *p)
{
    for (int i = 0; i < p->nrows; i++)
        if (i + 1 == p->nrows || strcmp(p->rows[i].codec, p->rows[i + 1].codec) != 0)
            break_even(&p->rows[i]);
}

static void summary_what(const struct perf_printer *p)
{
    const struct perf_opts *o = p->o;

    if (o->mode == PERF_RING)
        printf("\n%d ranks summed ", o->ranks);
    else
        printf("\nOne rank sent another ");
    for (int i = 0; i < o->nfiles; i++) {
        const char *slash = strrchr(o->files[i], '/');
        printf("%s%s",
               i == 0               ? "the gradients "
               : i + 1 == o->nfiles ? " and "
                                    : ", ",
               slash != NULL ? slash + 1 : o->files[i]);
    }
    printf("%s, again and again:\n", o->nfiles != 0 ? "" : "made-up values");
}

/* All rows of the codec of row `i` together. */
static void summary_codec(const struct perf_printer *p, int i)
{
    const char *codec = p->rows[i].codec;
    double raw = 0, wire = 0, mib = 1 << 20;
    bool known = true;

    for (int k = i; k < p->nrows && strcmp(p->rows[k].codec, codec) == 0; k++) {
        raw += (double)p->rows[k].raw_bytes;
        wire += (double)p->rows[k].wire_bytes;
        known &= p->rows[k].counters && p->rows[k].wire_bytes != 0;
    }
    printf("  %s%s: ", codec[0] != '\0' ? "codec " : "no codec named", codec);
    if (!known)
        printf("%.1f MiB; this plugin does not tell what crossed the wire.\n", raw / mib);
    else if (raw > wire * 1.005)
        printf("%.1f MiB went over the wire as %.1f MiB, %.2f times smaller.\n", raw / mib,
               wire / mib, raw / wire);
    else
        printf("%.1f MiB went over the wire as %.1f MiB, no smaller.\n", raw / mib, wire / mib);
}

static void summary(const struct perf_printer *p, bool all_valid)
{
    uint64_t checked = 0, bytes = 0;

    summary_what(p);
    for (int i = 0; i < p->nrows; i++) {
        if (i == 0 || strcmp(p->rows[i].codec, p->rows[i - 1].codec) != 0)
            summary_codec(p, i);
        checked += p->rows[i].checked;
        bytes += p->rows[i].checked_bytes;
    }
    if (!all_valid)
        printf("BYTES ARRIVED CHANGED: do not use this plugin.\n");
    else if (p->o->mode == PERF_RING)
        printf("Every sum is bit for bit that of the same ring done in memory (%llu sums, %.1f "
               "MiB).\n",
               (unsigned long long)checked, (double)bytes / (1 << 20));
    else
        printf("Every byte arrived as it left: %llu messages, %.1f MiB, compared at both ends by "
               "XXH3-128.\n",
               (unsigned long long)checked, (double)bytes / (1 << 20));
}

int perf_print_end(struct perf_printer *p, bool failed)
{
    bool valid = true, slow = false;

    for (int i = 0; i < p->nrows; i++) {
        valid &= p->rows[i].valid;
        slow |= gbps(p->rows[i].raw_bytes, p->rows[i].seconds) < p->o->fail_below;
    }
    int code = failed || p->nrows == 0 ? PERF_FAILED
               : !valid                ? PERF_WRONG
               : slow                  ? PERF_SLOW
                                       : PERF_OK;
    if (p->o->json)
        json_out(p, code);
    else
        break_evens(p);
    if (p->o->summary && !p->o->json && code != PERF_FAILED)
        summary(p, valid);
    fflush(stdout);
    if (code == PERF_SLOW)
        fprintf(stderr, "gradwire perf: a row is below %g GB/s\n", p->o->fail_below);
    if (code == PERF_WRONG)
        fprintf(stderr, "gradwire perf: bytes arrived changed\n");
    free(p);
    return code;
}
