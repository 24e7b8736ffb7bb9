#include "submit/sweep/sweep_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"

/* The results in the first table, and those in the second. */
static const enum compare_result shown[] = {COMPARE_ACCURACY, COMPARE_LOSS, COMPARE_TIME, COMPARE_BYTES};
static const enum compare_result to_target[] = {COMPARE_BYTES_TO_TARGET, COMPARE_TIME_TO_TARGET,
                                                COMPARE_STEPS_TO_TARGET};
enum { N_SHOWN = sizeof shown / sizeof *shown, N_TO_TARGET = sizeof to_target / sizeof *to_target };
_Static_assert(SWEEP_AXES + 4 + N_SHOWN <= TEXT_TABLE_COLUMNS &&
                   SWEEP_AXES + 2 + N_TO_TARGET <= TEXT_TABLE_COLUMNS,
               "a column for each option that varies, the runs, length and place, and the accuracy");

static void put_mean(struct text_table *t, enum compare_result which, const struct sweep_mean *m)
{
    char mean[TEXT_AMOUNT], deviation[TEXT_AMOUNT];

    compare_result_text(mean, which, m->mean);
    if (isnan(m->deviation))
        text_table_cell(t, "%s", mean);
    else
        text_table_cell(t, "%s ± %s", mean, compare_result_text(deviation, which, m->deviation));
}

static void put_keys(struct text_table *t, const struct sweep_plan *p, size_t combination)
{
    for (size_t i = 0; i < p->n_axes; i++)
        text_table_cell(t, "%s", sweep_value(p, combination, i));
}

/* "3", "2 of 3, 1 diverged": the runs that have succeeded. */
static void put_counts(struct text_table *t, const struct sweep_row *row)
{
    char of[24] = "", diverged[48] = "";

    if (row->n_failed)
        snprintf(of, sizeof of, " of %zu", row->n_runs);
    if (row->n_diverged)
        snprintf(diverged, sizeof diverged, ", %zu diverged", row->n_diverged);
    text_table_cell(t, "%zu%s%s", row->n_runs - row->n_failed, of, diverged);
}

static bool is_halving(const struct sweep *s)
{
    return s->plan.n_rungs > 1;
}

/* The length of its last rung, and the place in it: "1", "3 of 4, stopped". */
static void put_rung(struct text_table *t, const struct sweep *s, const struct sweep_row *row)
{
    const struct sweep_rung *rung = &row->rungs[row->n_rungs - 1];

    text_table_cell(t, "%d", s->plan.lengths[row->n_rungs - 1]);
    text_table_cell(t, "%zu of %zu%s", rung->place, rung->of,
                    row->n_rungs < s->plan.n_rungs ? ", stopped" : "");
}

void sweep_means_table(struct text_table *t, const struct sweep *s, const struct sweep_results *r)
{
    char head[TEXT_AMOUNT];

    for (size_t i = 0; i < s->plan.n_axes; i++)
        text_table_column(t, false, "%s", s->plan.axes[i].key);
    text_table_column(t, true, "runs");
    if (is_halving(s)) {
        text_table_column(t, true, "%s", sweep_length_name(&s->plan));
        text_table_column(t, false, "place");
    }
    for (int k = 0; k < N_SHOWN; k++)
        text_table_column(t, true, "%s", compare_result_head(head, shown[k], NAN));
    for (size_t c = 0; c < r->n_rows; c++) {
        const struct sweep_row *row = &r->rows[c];

        put_keys(t, &s->plan, row->combination);
        put_counts(t, row);
        if (is_halving(s))
            put_rung(t, s, row);
        for (int k = 0; k < N_SHOWN; k++)
            put_mean(t, shown[k], &row->of[shown[k]]);
    }
}

void sweep_best_table(struct text_table *t, const struct sweep *s, const struct sweep_results *r)
{
    char head[TEXT_AMOUNT];

    for (size_t i = 0; i < s->plan.n_axes; i++)
        text_table_column(t, false, r->is_searched[i] ? "best %s" : "%s", s->plan.axes[i].key);
    text_table_column(t, true, "reached");
    text_table_column(t, true, "%s", compare_result_head(head, COMPARE_ACCURACY, NAN));
    for (int k = 0; k < N_TO_TARGET; k++)
        text_table_column(t, true, "%s", compare_result_head(head, to_target[k], r->target));
    for (size_t g = 0; g < r->n_groups; g++) {
        const struct sweep_row *row = &r->rows[r->best[g]];

        put_keys(t, &s->plan, row->combination);
        text_table_cell(t, "%zu of %zu", row->n_reached, row->n_runs);
        put_mean(t, COMPARE_ACCURACY, &row->of[COMPARE_ACCURACY]);
        for (int k = 0; k < N_TO_TARGET; k++)
            put_mean(t, to_target[k], &row->of[to_target[k]]);
    }
}

void sweep_answer(char out[SWEEP_ANSWER], const struct sweep *s, const struct sweep_results *r)
{
    const struct sweep_row *first = &r->rows[r->best[0]];
    char values[256], bytes[TEXT_AMOUNT];
    int n = snprintf(out, SWEEP_ANSWER, "Bytes, time and steps to an accuracy of %.6g%s.", r->target,
                     r->target_is_given ? ""
                                        : ", the highest that the runs of all these rows reached; --target X "
                                          "chooses another");

    sweep_values_text(values, sizeof values, &s->plan, first->combination);
    if (first->n_reached == 0)
        snprintf(out + n, SWEEP_ANSWER - (size_t)n, " No run reached it.");
    else if (r->n_groups > 1)
        snprintf(out + n, SWEEP_ANSWER - (size_t)n, " The fewest bytes, %s a worker, with %s.",
                 compare_result_text(bytes, COMPARE_BYTES_TO_TARGET, first->of[COMPARE_BYTES_TO_TARGET].mean),
                 values);
}

typedef void fill_table(struct text_table *t, const struct sweep *s, const struct sweep_results *r);

static int print_table(fill_table *fill, const struct sweep *s, const struct sweep_results *r, struct err *e)
{
    struct text_table t = {0};
    int rc;

    fill(&t, s, r);
    rc = text_table_print(&t, e);
    text_table_clear(&t);
    return rc;
}

static int print_tables(const struct sweep *s, const struct sweep_results *r, struct err *e)
{
    char answer[SWEEP_ANSWER];

    if (print_table(sweep_means_table, s, r, e) < 0)
        return e->code;
    if (isnan(r->target))
        return 0;
    printf("\n");
    if (print_table(sweep_best_table, s, r, e) < 0)
        return e->code;
    sweep_answer(answer, s, r);
    text_print("\n%s\n", answer);
    return 0;
}

static json_t *mean_json(const struct sweep_mean *m)
{
    return json_pack("{s:o, s:o}", "mean", json_real_or_null(m->mean), "deviation",
                     json_real_or_null(m->deviation));
}

static json_t *rungs_json(const struct sweep *s, const struct sweep_row *row)
{
    json_t *list = json_array();

    for (size_t k = 0; k < row->n_rungs; k++) {
        const struct sweep_rung *rung = &row->rungs[k];

        json_array_append_new(list, json_pack("{s:i, s:o, s:I, s:o, s:I, s:I, s:I, s:b}",
                                              sweep_length_name(&s->plan), s->plan.lengths[k], "accuracy",
                                              json_real_or_null(rung->accuracy.mean), "reached",
                                              (json_int_t)rung->n_reached, "bytes_to_target",
                                              json_real_or_null(rung->bytes_to_target.mean), "resumed",
                                              (json_int_t)rung->n_resumed, "place", (json_int_t)rung->place,
                                              "of", (json_int_t)rung->of, "goes_on", rung->goes_on));
    }
    return list;
}

static json_t *row_json(const struct sweep *s, const struct sweep_row *row)
{
    json_t *values = json_object(), *o;

    for (size_t i = 0; i < s->plan.n_axes; i++)
        json_object_set_new(values, s->plan.axes[i].key,
                            json_text(sweep_value(&s->plan, row->combination, i), SIZE_MAX));
    o = json_pack("{s:o, s:I, s:I, s:I, s:I, s:b}", "values", values, "runs", (json_int_t)row->n_runs,
                  "failed", (json_int_t)row->n_failed, "diverged", (json_int_t)row->n_diverged, "reached",
                  (json_int_t)row->n_reached, "best", row->is_best);
    for (int k = 0; k < N_SHOWN; k++)
        json_object_set_new(o, compare_result_names[shown[k]], mean_json(&row->of[shown[k]]));
    for (int k = 0; k < N_TO_TARGET; k++)
        json_object_set_new(o, compare_result_names[to_target[k]], mean_json(&row->of[to_target[k]]));
    if (is_halving(s))
        json_object_set_new(o, "rungs", rungs_json(s, row));
    return o;
}

static void print_json(const struct sweep *s, const struct sweep_results *r)
{
    json_t *list = json_array(), *best = json_array();

    for (size_t c = 0; c < r->n_rows; c++)
        json_array_append_new(list, row_json(s, &r->rows[c]));
    for (size_t g = 0; g < r->n_groups; g++)
        json_array_append_new(best, json_integer((json_int_t)r->best[g]));
    stdout_json(true,
                json_pack("{s:o, s:o, s:o}", "target", json_real_or_null(r->target), "combinations", list,
                          "best", best),
                NULL, NULL);
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

static void put_means(FILE *f, const struct sweep_row *row, const enum compare_result *which, int n)
{
    for (int k = 0; k < n; k++) {
        put_number(f, row->of[which[k]].mean);
        put_number(f, row->of[which[k]].deviation);
    }
}

static void put_heads(FILE *f, const enum compare_result *which, int n)
{
    for (int k = 0; k < n; k++)
        fprintf(f, ",%s_mean,%s_deviation", compare_result_names[which[k]], compare_result_names[which[k]]);
}

static void put_rung_heads(FILE *f, const struct sweep *s)
{
    static const char *const names[] = {"accuracy", "reached", "bytes_to_target", "resumed",
                                        "place",    "of",      "goes_on"};

    for (size_t k = 1; is_halving(s) && k <= s->plan.n_rungs; k++) {
        fprintf(f, ",rung_%zu_%s", k, sweep_length_name(&s->plan));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            fprintf(f, ",rung_%zu_%s", k, names[i]);
    }
}

static void put_rungs(FILE *f, const struct sweep *s, const struct sweep_row *row)
{
    for (size_t k = 0; is_halving(s) && k < s->plan.n_rungs; k++) {
        const struct sweep_rung *rung = &row->rungs[k];

        if (k >= row->n_rungs) {
            fputs(",,,,,,,,", f);
            continue;
        }
        fprintf(f, ",%d", s->plan.lengths[k]);
        put_number(f, rung->accuracy.mean);
        fprintf(f, ",%zu", rung->n_reached);
        put_number(f, rung->bytes_to_target.mean);
        fprintf(f, ",%zu,%zu,%zu,%d", rung->n_resumed, rung->place, rung->of, rung->goes_on);
    }
}

static int put_csv(FILE *f, const struct sweep *s, const struct sweep_results *r, struct err *e)
{
    const struct sweep_plan *p = &s->plan;

    (void)e;
    for (size_t i = 0; i < p->n_axes; i++) {
        put_cell(f, p->axes[i].key);
        fputc(',', f);
    }
    fputs("runs,failed", f);
    put_heads(f, shown, N_SHOWN);
    fputs(",diverged,target,reached", f);
    put_heads(f, to_target, N_TO_TARGET);
    fputs(",best", f);
    put_rung_heads(f, s);
    for (size_t c = 0; c < r->n_rows; c++) {
        const struct sweep_row *row = &r->rows[c];

        fputc('\n', f);
        for (size_t i = 0; i < p->n_axes; i++) {
            put_cell(f, sweep_value(p, row->combination, i));
            fputc(',', f);
        }
        fprintf(f, "%zu,%zu", row->n_runs, row->n_failed);
        put_means(f, row, shown, N_SHOWN);
        fprintf(f, ",%zu", row->n_diverged);
        put_number(f, r->target);
        fprintf(f, ",%zu", row->n_reached);
        put_means(f, row, to_target, N_TO_TARGET);
        fprintf(f, ",%d", row->is_best);
        put_rungs(f, s, row);
    }
    fputc('\n', f);
    return 0;
}

/* Writes a file into the sweep's folder. */
static int write_report(const char *name, sweep_put_report *put, const struct sweep *s,
                        const struct sweep_results *r, struct err *e)
{
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = f ? put(f, s, r, e) : 0;

    if (!f || (fclose(f) != 0 && rc == 0))
        rc = err_set(e, ERR_NOMEM, "no memory for %s", name);
    if (rc == 0)
        rc = file_join(path, sizeof path, s->folder, name, e);
    if (rc == 0)
        rc = file_write(path, text, size, 0644, e);
    free(text);
    return rc;
}

void sweep_print_rung(const struct sweep *s, const struct sweep_results *r)
{
    char values[256], accuracy[TEXT_AMOUNT];
    size_t n_rungs = 0;

    for (size_t i = 0; i < r->n_rows; i++)
        n_rungs = r->rows[i].n_rungs > n_rungs ? r->rows[i].n_rungs : n_rungs;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct sweep_row *row = &r->rows[i];
        const struct sweep_rung *rung = n_rungs > 0 ? &row->rungs[n_rungs - 1] : NULL;

        if (row->n_rungs < n_rungs || !rung)
            continue;
        sweep_values_text(values, sizeof values, &s->plan, row->combination);
        (rung->goes_on ? console_info : console_more)(
            "%s: accuracy %s after %d of %d %s, place %zu of %zu: %s.", values,
            compare_result_text(accuracy, COMPARE_ACCURACY, rung->accuracy.mean),
            s->plan.lengths[n_rungs - 1], s->plan.lengths[s->plan.n_rungs - 1], sweep_length_name(&s->plan),
            rung->place, rung->of, rung->goes_on ? "goes on" : "stops");
    }
}

int sweep_report(const struct sweep *s, bool is_json, size_t *n_failed, struct err *e)
{
    struct sweep_results r = {0};
    int rc = sweep_results_read(&r, s, s->plan.n_rungs, e);

    *n_failed = 0;
    for (size_t i = 0; i < r.n_rows; i++)
        *n_failed += r.rows[i].n_failed;

    if (rc == 0)
        rc = write_report("sweep.csv", put_csv, s, &r, e);
    if (rc == 0)
        rc = write_report(REPORT_NAME, sweep_put_page, s, &r, e);
    if (rc == 0 && is_json)
        print_json(s, &r);
    else if (rc == 0)
        rc = print_tables(s, &r, e);
    sweep_results_clear(&r);
    return rc;
}
