#include "submit/sweep/sweep_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/results/compare.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"

/* The results in the table. */
static const enum compare_result shown[] = {COMPARE_ACCURACY, COMPARE_LOSS, COMPARE_TIME, COMPARE_BYTES};
enum { N_SHOWN = sizeof shown / sizeof *shown };
_Static_assert(SWEEP_AXES + 1 + N_SHOWN <= TEXT_TABLE_COLUMNS,
               "a column for each option that varies, and the runs");

struct sweep_row {
    size_t n_runs, n_failed;
    struct sweep_mean of[N_SHOWN];
};

struct sweep_mean sweep_mean_of(const double *values, size_t n)
{
    struct sweep_mean m = {.mean = NAN, .deviation = NAN};
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i])) {
            sum += values[i];
            m.n++;
        }
    if (m.n == 0)
        return m;
    m.mean = sum / (double)m.n;
    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            squares += (values[i] - m.mean) * (values[i] - m.mean);
    if (m.n > 1)
        m.deviation = sqrt(squares / (double)(m.n - 1));
    return m;
}

/* The results of one run; all NAN if it has not succeeded. */
static int measure_run(struct compare_numbers *out, bool *has_run, const struct sweep *s, size_t combination,
                       size_t repeat, struct err *e)
{
    char folder[PATH_MAX];
    struct run r;
    int rc;

    for (int i = 0; i < N_COMPARE_RESULTS; i++)
        out->result[i] = NAN;
    *has_run = sweep_has_succeeded(s, combination, repeat);
    if (!*has_run)
        return 0;
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 || run_find(&r, folder, e) < 0)
        return e->code;
    rc = compare_measure(out, &r, NAN, e);
    run_clear(&r);
    return rc;
}

static int make_row(struct sweep_row *row, const struct sweep *s, size_t combination, struct err *e)
{
    size_t n = s->plan.n_repeats;
    struct compare_numbers *all = calloc(n, sizeof *all);
    double *values = calloc(n, sizeof *values);
    int rc = all && values ? 0 : err_set(e, ERR_NOMEM, "no memory for the table of the sweep");
    bool has_run;

    *row = (struct sweep_row){.n_runs = n};
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = measure_run(&all[i], &has_run, s, combination, i, e);
        row->n_failed += !has_run;
    }
    for (int k = 0; k < N_SHOWN && rc == 0; k++) {
        for (size_t i = 0; i < n; i++)
            values[i] = all[i].result[shown[k]];
        row->of[k] = sweep_mean_of(values, n);
    }
    free(values);
    free(all);
    return rc;
}

static void put_mean(struct text_table *t, enum compare_result which, const struct sweep_mean *m)
{
    char mean[TEXT_AMOUNT], deviation[TEXT_AMOUNT];

    compare_result_text(mean, which, m->mean);
    if (isnan(m->deviation))
        text_table_cell(t, "%s", mean);
    else
        text_table_cell(t, "%s ± %s", mean, compare_result_text(deviation, which, m->deviation));
}

static int print_means(const struct sweep *s, const struct sweep_row *rows, struct err *e)
{
    const struct sweep_plan *p = &s->plan;
    struct text_table t = {0};
    char head[TEXT_AMOUNT];
    int rc;

    for (size_t i = 0; i < p->n_axes; i++)
        text_table_column(&t, false, "%s", p->axes[i].key);
    text_table_column(&t, true, "runs");
    for (int k = 0; k < N_SHOWN; k++)
        text_table_column(&t, true, "%s", compare_result_head(head, shown[k], NAN));
    for (size_t c = 0; c < p->n_combinations; c++) {
        for (size_t i = 0; i < p->n_axes; i++)
            text_table_cell(&t, "%s", sweep_value(p, c, i));
        text_table_cell(&t, rows[c].n_failed ? "%zu of %zu" : "%zu", rows[c].n_runs - rows[c].n_failed,
                        rows[c].n_runs);
        for (int k = 0; k < N_SHOWN; k++)
            put_mean(&t, shown[k], &rows[c].of[k]);
    }
    rc = text_table_print(&t, e);
    text_table_clear(&t);
    return rc;
}

static json_t *row_json(const struct sweep *s, const struct sweep_row *row, size_t combination)
{
    json_t *values = json_object(), *o;

    for (size_t i = 0; i < s->plan.n_axes; i++)
        json_object_set_new(values, s->plan.axes[i].key,
                            json_text(sweep_value(&s->plan, combination, i), SIZE_MAX));
    o = json_pack("{s:o, s:I, s:I}", "values", values, "runs", (json_int_t)row->n_runs, "failed",
                  (json_int_t)row->n_failed);
    for (int k = 0; k < N_SHOWN; k++)
        json_object_set_new(o, compare_result_names[shown[k]],
                            json_pack("{s:o, s:o}", "mean", json_real_or_null(row->of[k].mean), "deviation",
                                      json_real_or_null(row->of[k].deviation)));
    return o;
}

static void print_json(const struct sweep *s, const struct sweep_row *rows)
{
    json_t *list = json_array();

    for (size_t c = 0; c < s->plan.n_combinations; c++)
        json_array_append_new(list, row_json(s, &rows[c], c));
    stdout_json(true, json_pack("{s:o}", "combinations", list), NULL, NULL);
}

/* RFC 4180. */
static void put_cell(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++)
        fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', f);
}

static void put_number(FILE *f, double v)
{
    fputc(',', f);
    if (!isnan(v))
        fprintf(f, "%.9g", v);
}

static void put_csv(FILE *f, const struct sweep *s, const struct sweep_row *rows)
{
    const struct sweep_plan *p = &s->plan;

    for (size_t i = 0; i < p->n_axes; i++) {
        put_cell(f, p->axes[i].key);
        fputc(',', f);
    }
    fputs("runs,failed", f);
    for (int k = 0; k < N_SHOWN; k++)
        fprintf(f, ",%s_mean,%s_deviation", compare_result_names[shown[k]], compare_result_names[shown[k]]);
    for (size_t c = 0; c < p->n_combinations; c++) {
        fputc('\n', f);
        for (size_t i = 0; i < p->n_axes; i++) {
            put_cell(f, sweep_value(p, c, i));
            fputc(',', f);
        }
        fprintf(f, "%zu,%zu", rows[c].n_runs, rows[c].n_failed);
        for (int k = 0; k < N_SHOWN; k++) {
            put_number(f, rows[c].of[k].mean);
            put_number(f, rows[c].of[k].deviation);
        }
    }
    fputc('\n', f);
}

static int write_csv(const struct sweep *s, const struct sweep_row *rows, struct err *e)
{
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for sweep.csv");
    put_csv(f, s, rows);
    rc = fclose(f) != 0 ? err_set(e, ERR_NOMEM, "no memory for sweep.csv")
                        : file_join(path, sizeof path, s->folder, "sweep.csv", e);
    if (rc == 0)
        rc = file_write(path, text, size, 0644, e);
    free(text);
    return rc;
}

int sweep_report(const struct sweep *s, bool is_json, struct err *e)
{
    struct sweep_row *rows = calloc(s->plan.n_combinations, sizeof *rows);
    int rc = rows ? 0 : err_set(e, ERR_NOMEM, "no memory for the table of the sweep");

    for (size_t c = 0; c < s->plan.n_combinations && rc == 0; c++)
        rc = make_row(&rows[c], s, c, e);
    if (rc == 0)
        rc = write_csv(s, rows, e);
    if (rc == 0 && is_json)
        print_json(s, rows);
    else if (rc == 0)
        rc = print_means(s, rows, e);
    free(rows);
    return rc;
}
