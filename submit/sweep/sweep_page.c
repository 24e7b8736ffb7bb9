/* The report of a sweep: its tables as a page in one file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "submit/results/results.h"
#include "submit/sweep/sweep_table.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }\n"
    "body { margin: 2rem; }\ndiv { overflow-x: auto; }\ntable { border-collapse: collapse; }\n"
    "th, td { padding: .3rem .8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8886; "
    "}\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "tbody tr:first-child td { font-weight: 600; }\n.all tbody tr:first-child td { font-weight: inherit; }\n"
    "</style>\n";

static void put_escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        if (strchr("&<>\"", *text))
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

static void put_row(FILE *f, const struct text_table *t, size_t first, const char *element)
{
    fputs("<tr>", f);
    for (size_t i = 0; i < t->n_columns; i++) {
        fprintf(f, "<%s%s>", element, t->is_number[i] ? " class=\"number\"" : "");
        put_escaped(f, t->cells[first + i]);
        fprintf(f, "</%s>", element);
    }
    fputs("</tr>\n", f);
}

static int put_table(FILE *f, struct text_table *t, const char *class, struct err *e)
{
    if (t->has_failed)
        return err_set(e, ERR_NOMEM, "no memory for the report of the sweep");
    fprintf(f, "<div tabindex=\"0\"><table class=\"%s\">\n<thead>", class);
    put_row(f, t, 0, "th");
    fputs("</thead>\n<tbody>\n", f);
    for (size_t first = t->n_columns; first < t->n_cells; first += t->n_columns)
        put_row(f, t, first, "td");
    fputs("</tbody>\n</table></div>\n", f);
    return 0;
}

/* The reports of the runs. A name has no character that a link may not have (sweep_plan.h). */
static void put_links(FILE *f, const struct sweep *s)
{
    char name[SWEEP_NAME];

    fputs("<h2>Runs</h2>\n<ul>\n", f);
    for (size_t c = 0; c < s->plan.n_combinations; c++)
        for (size_t i = 0; i < s->plan.n_repeats; i++)
            for (size_t k = 0; k < s->plan.n_rungs; k++) {
                const struct sweep_run run = {c, i, k};

                if (!sweep_has_succeeded(s, &run))
                    continue;
                sweep_name(name, &s->plan, &run);
                fprintf(f, "<li><a href=\"runs/%s/" REPORT_NAME "\">%s</a></li>\n", name, name);
            }
    fputs("</ul>\n</html>\n", f);
}

int sweep_put_page(FILE *f, const struct sweep *s, const struct sweep_results *r, struct err *e)
{
    struct text_table means = {0}, best = {0};
    const char *slash = strrchr(s->folder, '/');
    char answer[SWEEP_ANSWER];
    int rc = 0;

    fputs(head, f);
    fputs("<title>Sweep ", f);
    put_escaped(f, slash ? slash + 1 : s->folder);
    fputs("</title>\n<h1>Sweep ", f);
    put_escaped(f, slash ? slash + 1 : s->folder);
    fputs("</h1>\n", f);
    if (!isnan(r->target)) {
        sweep_answer(answer, s, r);
        sweep_best_table(&best, s, r);
        fputs("<p>", f);
        put_escaped(f, answer);
        fputs("</p>\n", f);
        rc = put_table(f, &best, "best", e);
    }
    fputs("<h2>All combinations</h2>\n<p>Means over the runs, ± their standard deviation.</p>\n", f);
    sweep_means_table(&means, s, r);
    if (rc == 0)
        rc = put_table(f, &means, "all", e);
    put_links(f, s);
    text_table_clear(&best);
    text_table_clear(&means);
    return rc;
}
