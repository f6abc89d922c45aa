/* bench_plot.c - ratio against speed as SVG: a row of panels for each file, encode left, decode right, speed on a
 * logarithmic scale.  Labels look for a free place round their point; a thin line leads to one that stands further off. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { PANEL_W = 560, PANEL_H = 420, LEFT = 64, TOP = 44, RIGHT = 66, BOTTOM = 48, HEAD = 78, BOXES_MAX = 4 * BENCH_RIVALS_MAX };
#define LOW 0.02
#define HIGH 50.0

struct box {
    double x0, y0, x1, y1;
};
struct panel {
    FILE *out;
    double x, y; /* of its corner */
    struct box box[BOXES_MAX];
    size_t nboxes;
};

static double at_x(const struct panel *p, double ratio)
{
    double most = 1.06;

    return p->x + LEFT + (ratio < most ? ratio : most) / most * (PANEL_W - LEFT - RIGHT);
}

static double at_y(const struct panel *p, double rate)
{
    double v = rate < LOW ? LOW : rate > HIGH ? HIGH : rate;

    return p->y + TOP + (1 - log(v / LOW) / log(HIGH / LOW)) * (PANEL_H - TOP - BOTTOM);
}

/* Names come from the command line. */
static void text_put(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(out, "&#%d;", *text);
        else
            fputc((unsigned char)*text < 32 ? '?' : *text, out);
    }
}

static void say(FILE *out, double x, double y, const char *class, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    text_put(out, text);
    fputs("</text>\n", out);
}

static void line(FILE *out, double x0, double y0, double x1, double y1, const char *class)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, class);
}

/* ---- the paper ---- */

static void axes(struct panel *p, const char *speed)
{
    static const double rates[] = {0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50};
    double x0 = at_x(p, 0), x1 = p->x + PANEL_W - RIGHT, y0 = p->y + PANEL_H - BOTTOM;
    char text[64];

    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        double y = at_y(p, rates[i]);
        line(p->out, x0, y, x1, y, "grid");
        snprintf(text, sizeof(text), "%g", rates[i]);
        say(p->out, x0 - 6, y + 4, "num", text);
    }
    for (int i = 0; i <= 10; i += 2) {
        double x = at_x(p, i / 10.0);
        line(p->out, x, p->y + TOP, x, y0, "grid");
        snprintf(text, sizeof(text), "%.1f", i / 10.0);
        say(p->out, x, y0 + 16, "mid", text);
    }
    line(p->out, x0, y0, x1, y0, "axis");
    line(p->out, x0, p->y + TOP, x0, y0, "axis");
    say(p->out, (x0 + x1) / 2, y0 + 36, "mid", "ratio: coded / raw bytes (left is smaller)");
    fprintf(p->out, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" class=\"mid\">%s, GB/s (logarithmic)</text>\n", p->x + 18,
            (p->y + TOP + y0) / 2, speed);
}

/* What a link takes raw: below its line a codec that codes everything holds it back. */
static void links(struct panel *p)
{
    char text[32];

    for (int l = 0; l < BENCH_LINKS; l++) {
        double y = at_y(p, bench_links[l] / 8), x1 = p->x + PANEL_W - RIGHT;
        line(p->out, at_x(p, 0), y, x1, y, "link");
        snprintf(text, sizeof(text), "%.0f Gb/s", bench_links[l]);
        say(p->out, x1 + 6, y + 3, "note", text);
    }
}

/* ---- points and their names ---- */

static double over(const struct box *a, const struct box *b)
{
    double w = fmin(a->x1, b->x1) - fmax(a->x0, b->x0), h = fmin(a->y1, b->y1) - fmax(a->y0, b->y0);

    return w > 0 && h > 0 ? w * h : 0;
}

static double crowded(const struct panel *p, const struct box *b)
{
    double sum = 0;

    for (size_t i = 0; i < p->nboxes; i++)
        sum += over(&p->box[i], b);
    if (b->x0 < at_x(p, 0) + 1 || b->x1 > p->x + PANEL_W - RIGHT || b->y0 < p->y + TOP || b->y1 > p->y + PANEL_H - BOTTOM)
        sum += 1e4;
    return sum;
}

/* Near places first. */
static struct box place(const struct panel *p, double x, double y, double w)
{
    enum { H = 12, WAYS = 16, RINGS = 9 };
    struct box best = {x + 7, y - H / 2., x + 7 + w, y + H / 2.};
    double least = 1e9;

    for (int ring = 0; ring < RINGS && least > 0; ring++)
        for (int way = 0; way < WAYS && least > 0; way++) {
            double a = way * 6.283185307 / WAYS, far = 10 + 10 * ring;
            double cx = x + cos(a) * (far + w / 2), cy = y + sin(a) * far;
            struct box b = {cx - w / 2, cy - H / 2., cx + w / 2, cy + H / 2.};
            double much = crowded(p, &b);
            if (much < least)
                least = much, best = b;
        }
    return best;
}

static const char *kind_of(const struct bench_rival *r)
{
    return r->codec == NULL ? "peer" : bench_rival_lossy(r) ? "lossy" : "ours";
}

static void mark(FILE *out, double x, double y, const char *kind)
{
    if (strcmp(kind, "peer") == 0)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" class=\"peer\"/>\n", x - 4, y - 4);
    else if (strcmp(kind, "lossy") == 0)
        fprintf(out, "<path d=\"M%.1f %.1fl5 9h-10z\" class=\"lossy\"/>\n", x, y - 6);
    else
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" class=\"ours\"/>\n", x, y);
}

static void name_put(struct panel *p, const struct bench_row *row, double x, double y)
{
    double w = 6.9 * (double)strlen(row->rival->name) + 4;
    struct box b = place(p, x, y, w);
    double nx = fmin(fmax(x, b.x0), b.x1), ny = fmin(fmax(y, b.y0), b.y1);

    if (p->nboxes < BOXES_MAX)
        p->box[p->nboxes++] = b;
    if (hypot(nx - x, ny - y) > 9)
        line(p->out, x, y, nx, ny, "lead");
    say(p->out, b.x0 + 2, b.y1 - 2, "name", row->rival->name);
}

static const struct bench_spread *speed_of(const struct bench_row *row, bool decode)
{
    return decode ? &row->decode : &row->encode;
}

/* All points before the first name, so that no name is put over one. */
static void points(struct panel *p, const struct bench_row *rows, size_t n, const struct bench_data *d, bool decode)
{
    for (int names = 0; names < 2; names++)
        for (size_t i = 0; i < n; i++) {
            const struct bench_spread *s = speed_of(&rows[i], decode);
            if (rows[i].data != d || !bench_row_best(rows, n, i) || s->n == 0 || rows[i].raw_share == 1)
                continue;
            double x = at_x(p, rows[i].ratio), y = at_y(p, s->mid);
            if (names)
                name_put(p, &rows[i], x, y);
            else if (p->nboxes < BOXES_MAX) {
                mark(p->out, x, y, kind_of(rows[i].rival));
                p->box[p->nboxes++] = (struct box){x - 6, y - 6, x + 6, y + 6};
            }
        }
}

/* ---- the sheet ---- */

static const char style[] =
    "<style>text{font:11px sans-serif;fill:#222}.num{text-anchor:end}.mid{text-anchor:middle}.note{font-size:9px;fill:#a33}"
    ".title{font-size:15px;font-weight:bold}.sub{font-size:12px}.name{font-size:11px}"
    ".grid{stroke:#e4e4e4}.axis{stroke:#222}.link{stroke:#c55;stroke-dasharray:2 4}.lead{stroke:#999;stroke-width:.6}"
    ".ours{fill:#1668b8}.lossy{fill:#2a9a4a}.peer{fill:#fff;stroke:#555;stroke-width:1.6}</style>\n";

static void legend(FILE *out)
{
    static const char *const kinds[][2] = {
        {"ours", "gradwire, lossless"}, {"lossy", "gradwire, lossy"}, {"peer", "other libraries and memcpy"}};
    double x = 20;

    for (int i = 0; i < 3; i++) {
        mark(out, x, 48, kinds[i][0]);
        say(out, x + 10, 52, "sub", kinds[i][1]);
        x += 30 + 7 * (double)strlen(kinds[i][1]);
    }
    line(out, x, 48, x + 24, 48, "link");
    say(out, x + 30, 52, "sub", "what a link takes raw");
}

static void file_panels(FILE *out, const struct bench_row *rows, size_t n, const struct bench_data *d, double y)
{
    static const char *const speeds[] = {"encode", "decode"};
    const char *base = strrchr(d->file, '/');
    char title[160];

    for (int side = 0; side < 2; side++) {
        struct panel p = {.out = out, .x = side * PANEL_W, .y = y};
        axes(&p, speeds[side]);
        links(&p);
        snprintf(title, sizeof(title), "%.100s: %s", base ? base + 1 : d->file, speeds[side]);
        say(out, p.x + LEFT, y + TOP - 20, "sub", title);
        points(&p, rows, n, d, side == 1);
    }
}

int bench_plot(const struct bench_opts *o, const struct bench_row *rows, size_t n)
{
    FILE *out = fopen(o->plot, "w");
    const struct bench_data *last = NULL;
    char title[160], size[16];
    int files = 0;

    if (out == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        files += i == 0 || rows[i].data != rows[i - 1].data;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s",
            2 * PANEL_W, HEAD + files * PANEL_H, style);
    snprintf(title, sizeof(title), "gradwire " GW_VERSION ": ratio against speed, calls of %s, %d thread%s, best kernels",
             bench_size_text(o->size, size), o->threads, o->threads == 1 ? "" : "s");
    say(out, 20, 26, "title", title);
    legend(out);
    files = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].data != last)
            last = rows[i].data, file_panels(out, rows, n, last, HEAD + files++ * PANEL_H);
    fputs("</svg>\n", out);
    int bad = ferror(out);
    return fclose(out) != 0 || bad ? -1 : 0;
}
