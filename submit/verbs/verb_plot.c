/* plot: draws curves of runs on the terminal, or by gnuplot into a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/base/utf8.h"
#include "submit/plot/plot.h"
#include "submit/results/compare.h"
#include "submit/results/run.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

enum { LABEL = 128 };

static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = getenv(names[i]);

        if (v && v[0])
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

static int columns_here(void)
{
    const char *text = getenv("COLUMNS");
    struct winsize w;

    if (text && atoi(text) >= 20)
        return atoi(text) < PLOT_WIDTH_MAX ? atoi(text) : PLOT_WIDTH_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

struct adding {
    struct plot_curve *curve;
    struct err *e;
};

static void add_point(void *ctx, double x, double y)
{
    struct adding *a = ctx;

    if (a->e->code == 0)
        plot_add(a->curve, x, y, a->e);
}

/* Reads the curve of a run: the mean over its workers. */
static int read_curve(struct plot_curve *c, const struct options *o, const struct run *r, struct err *e)
{
    const struct series_query q = {.file = o->plot_file, .names = o->plot_y, .x = o->plot_x};
    struct err failed = {0};
    struct adding a = {c, &failed};
    struct series_request request;
    json_t *doc;

    if (series_request_set(&request, &q, e) < 0)
        return e->code;
    request.nodes_most = 0;
    if (run_series(&doc, r->folder, &request, e) < 0)
        return e->code;
    run_series_each(json_object_get(doc, "mean"), o->plot_y, add_point, &a);
    json_decref(doc);
    if (failed.code < 0)
        *e = failed;
    return failed.code;
}

/* Adds the names of the values in a run's file to `names`: a file with a row for each value may have any
 * names. */
static void add_names(json_t *names, const char *file, const struct run *r)
{
    const struct series_query q = {.file = file};
    struct series_request request;
    struct err ignored;
    json_t *doc, *name;
    size_t i;

    if (series_request_set(&request, &q, &ignored) < 0 || run_series(&doc, r->folder, &request, &ignored) < 0)
        return;
    json_array_foreach(json_object_get(doc, "names"), i, name)
        json_object_set_new(names, json_string_value(name), json_true());
    json_decref(doc);
}

static int no_value(const struct options *o, const struct run *runs, size_t n, struct err *e)
{
    json_t *names = json_object(), *ignored;
    char list[256] = "";
    const char *name;
    size_t len = 0;

    for (size_t i = 0; i < n; i++)
        add_names(names, o->plot_file, &runs[i]);
    json_object_foreach(names, name, ignored) if (len < sizeof list)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", name);
    json_decref(names);
    err_set(e, ERR_NOT_FOUND, "--y %s: no run has such a value in %s.csv", o->plot_y, o->plot_file);
    return list[0] ? err_hint(e, "There are values of %s.", list) : e->code;
}

static void choose_label(char out[LABEL], const json_t *comparison, size_t run)
{
    const json_t *of = json_array_get(json_object_get(comparison, "runs"), run);

    snprintf(out, LABEL, "%s", json_string_value(json_object_get(of, "label")));
    utf8_clean(out, strlen(out), false);
}

/* {"x", "y", "curves": [{"folder", "label", "x": [...], "y": [...]}]} */
static int print_json(const struct plot *p, const struct options *o, const struct run *runs, struct err *e)
{
    json_t *curves = json_array(), *doc;

    for (size_t i = 0; i < p->n; i++) {
        const struct plot_curve *c = &p->curves[i];
        json_t *x = json_array(), *y = json_array();

        for (size_t j = 0; j < c->n; j++) {
            json_array_append_new(x, json_real(c->x[j]));
            json_array_append_new(y, json_real(c->y[j]));
        }
        json_array_append_new(curves, json_pack("{s:s, s:s, s:o, s:o}", "folder", runs[i].folder, "label",
                                                c->label, "x", x, "y", y));
    }
    doc = json_pack("{s:s, s:s, s:s, s:o}", "file", o->plot_file, "x", o->plot_x, "y", o->plot_y, "curves",
                    curves);
    if (!doc)
        return err_set(e, ERR_NOMEM, "no memory for the curves");
    stdout_json(true, doc, NULL, NULL);
    return 0;
}

static int draw_image(const struct plot *p, const struct options *o, struct err *e)
{
    struct plot_look look = {.width = o->plot_width ? o->plot_width : columns_here(),
                             .height = o->plot_height ? o->plot_height : 24,
                             .is_utf8 = is_utf8(),
                             .has_colors = isatty(STDOUT_FILENO) && !o->no_color &&
                                           !(getenv("NO_COLOR") && getenv("NO_COLOR")[0])};
    int width = o->plot_width ? o->plot_width : 960, height = o->plot_height ? o->plot_height : 600;

    if (!o->png[0] && !o->svg[0] && !o->json)
        return plot_print(p, &look, e);
    if (o->png[0] && plot_gnuplot(p, "png", o->png, width, height, e) < 0)
        return e->code;
    return o->svg[0] ? plot_gnuplot(p, "svg", o->svg, width, height, e) : 0;
}

/* By default only an axis of bytes becomes logarithmic: those of rules may differ by orders of magnitude. */
static void choose_axis(struct plot *p, const struct options *o)
{
    bool is_bytes = strcmp(o->plot_x, "bytes") == 0;
    size_t n = strlen(o->plot_y);

    p->x_unit = is_bytes ? "B" : "";
    p->y_unit = n > 2 && strcmp(o->plot_y + n - 2, "_s") == 0 ? "s" : strstr(o->plot_y, "bytes") ? "B" : "";
    p->is_log_x = strcmp(o->log_x, "yes") == 0 ||
                  (strcmp(o->log_x, "auto") == 0 && is_bytes && plot_is_wide(p));
    if (p->is_log_x)
        plot_drop_without_log(p);
}

static int plot_runs(const struct options *o, const struct run *runs, size_t n, struct err *e)
{
    static const char *const units[] = {"step", "epoch", "seconds", "bytes per worker, sent + received",
                                        "tokens of all workers"};
    static const char *const names[] = {"step", "epoch", "time", "bytes", "tokens"};
    struct plot p = {
        .n = n, .y_name = o->plot_y, .x_unit = "", .y_unit = "", .curves = calloc(n, sizeof *p.curves)};
    char(*labels)[LABEL] = calloc(n, sizeof *labels);
    json_t *comparison = NULL;
    size_t n_points = 0;
    int rc = p.curves && labels ? compare_runs(&comparison, runs, n, NAN, e)
                                : err_set(e, ERR_NOMEM, "no memory for the plot");

    for (size_t i = 0; i < n && rc == 0; i++) {
        choose_label(labels[i], comparison, i);
        p.curves[i].label = labels[i];
        rc = read_curve(&p.curves[i], o, &runs[i], e);
        n_points += p.curves[i].n;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(o->plot_x, names[i]) == 0)
            p.x_name = units[i];
    choose_axis(&p, o);
    if (rc == 0 && n_points == 0)
        rc = no_value(o, runs, n, e);
    if (rc == 0)
        rc = draw_image(&p, o, e);
    if (rc == 0 && o->json)
        rc = print_json(&p, o, runs, e);
    for (size_t i = 0; p.curves && i < n; i++) {
        free(p.curves[i].x);
        free(p.curves[i].y);
    }
    free(p.curves);
    free(labels);
    json_decref(comparison);
    return rc;
}

int verb_plot(const struct options *o, struct err *e)
{
    const char *latest[] = {NULL};
    bool has_runs = o->args.n_operands > 0;
    struct run *runs;
    size_t n;
    int rc;

    if (series_check_name(o->plot_file, o->plot_y, "--y", e) < 0)
        return e->code;
    if (runs_find(&runs, &n, has_runs ? o->args.operands : latest, has_runs ? (size_t)o->args.n_operands : 1,
                  e) < 0)
        return e->code;
    rc = plot_runs(o, runs, n, e);
    runs_free(runs, n);
    return rc;
}
