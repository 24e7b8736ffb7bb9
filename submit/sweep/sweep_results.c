#include "submit/sweep/sweep_results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/options/options_config.h"

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

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for the results of the sweep");
}

/* Groups. */

static int find_searched(bool *is_searched, const struct sweep_plan *p, const char *name, struct err *e)
{
    if (options_is_same_name(name, "seed"))
        return err_set(e, ERR_USAGE,
                       "--best-of seed: a result is the mean over seeds, which --repeat N gives");
    for (size_t i = 0; i < p->n_axes; i++)
        if (options_is_same_name(name, p->axes[i].key)) {
            is_searched[i] = true;
            return 0;
        }
    err_set(e, ERR_USAGE, "--best-of %s: the sweep does not vary this option", name);
    return err_hint(e, "Give its values, too: --set %s=VALUE,VALUE,...", name);
}

int sweep_find_searched(bool *is_searched, const struct sweep_plan *p, const struct options *o, struct err *e)
{
    char name[sizeof o->best_of];

    for (size_t i = 0; i < p->n_axes; i++)
        is_searched[i] = !o->best_of[0] && strcmp(o->search, SWEEP_HALVING) == 0;
    for (const char *at = o->best_of; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (find_searched(is_searched, p, name, e) < 0)
            return e->code;
    }
    return 0;
}

size_t sweep_largest_group(const struct sweep_plan *p, const bool *is_searched)
{
    size_t largest = 0;

    for (size_t i = 0; i < p->n_combinations; i++) {
        size_t group = sweep_group(p, is_searched, i), n = 0;

        for (size_t k = 0; k < p->n_combinations; k++)
            n += sweep_group(p, is_searched, k) == group;
        largest = n > largest ? n : largest;
    }
    return largest;
}

/* Below 0: a is less. A number is less than none. */
static int compare_numbers_or_none(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare_counts(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* Below 0: row a is the better. */
static int compare_accuracies(const struct sweep_row *a, const struct sweep_row *b)
{
    int by = compare_counts(a->n_failed + a->n_diverged, b->n_failed + b->n_diverged);

    if (by == 0)
        by = compare_numbers_or_none(-a->of[COMPARE_ACCURACY].mean, -b->of[COMPARE_ACCURACY].mean);
    return by ? by : compare_numbers_or_none(a->of[COMPARE_LOSS].mean, b->of[COMPARE_LOSS].mean);
}

static int compare_costs(const struct sweep_row *a, const struct sweep_row *b)
{
    int by = compare_counts(b->n_reached, a->n_reached);

    if (by == 0)
        by = compare_numbers_or_none(a->of[COMPARE_BYTES_TO_TARGET].mean,
                                     b->of[COMPARE_BYTES_TO_TARGET].mean);
    if (by == 0)
        by = compare_numbers_or_none(a->of[COMPARE_STEPS_TO_TARGET].mean,
                                     b->of[COMPARE_STEPS_TO_TARGET].mean);
    return by ? by : compare_accuracies(a, b);
}

/* Insertion sort, which keeps the order of equal rows; n is at most SWEEP_RUNS. */
static void sort_best(struct sweep_results *r)
{
    for (size_t i = 1; i < r->n_groups; i++) {
        size_t moved = r->best[i], at = i;

        for (; at > 0 && compare_costs(&r->rows[moved], &r->rows[r->best[at - 1]]) < 0; at--)
            r->best[at] = r->best[at - 1];
        r->best[at] = moved;
    }
}

/* The order in which a value is the best of its group. */
static int compare_rows(const struct sweep_results *r, size_t a, size_t b)
{
    return r->target_is_given ? compare_costs(&r->rows[a], &r->rows[b])
                              : compare_accuracies(&r->rows[a], &r->rows[b]);
}

int sweep_choose_best(struct sweep_results *r, struct err *e)
{
    size_t *best = malloc((r->n_rows ? r->n_rows : 1) * sizeof *best);

    if (!best)
        return no_memory(e);
    free(r->best);
    r->best = best;
    r->n_groups = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        size_t g = 0;

        while (g < r->n_groups && r->rows[best[g]].group != r->rows[i].group)
            g++;
        if (g == r->n_groups) {
            best[r->n_groups++] = i;
        } else {
            int by = compare_counts(r->rows[best[g]].n_rungs, r->rows[i].n_rungs);

            if (by < 0 || (by == 0 && compare_rows(r, i, best[g]) < 0))
                best[g] = i;
        }
        r->rows[i].is_best = false;
    }
    for (size_t g = 0; g < r->n_groups; g++)
        r->rows[best[g]].is_best = true;
    sort_best(r);
    return 0;
}

/* Successive halving. */

/* The place of a member in the order of its group, and the size of that; equal ones have the order of the
 * combinations. */
static void find_place(struct sweep_rung *rung, const struct sweep_results *r, size_t row)
{
    rung->place = 1;
    for (size_t i = 0; i < r->n_rows; i++) {
        int by;

        if (!r->rows[i].is_member || r->rows[i].group != r->rows[row].group)
            continue;
        by = compare_rows(r, i, row);
        rung->place += by < 0 || (by == 0 && i < row);
        rung->of++;
    }
}

static struct sweep_rung *last_rung(struct sweep_row *row)
{
    return &row->rungs[row->n_rungs - 1];
}

void sweep_choose_members(struct sweep_results *r, bool is_last)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        struct sweep_row *row = &r->rows[i];

        if (!row->is_member)
            continue;
        *last_rung(row) = (struct sweep_rung){.accuracy = row->of[COMPARE_ACCURACY],
                                              .bytes_to_target = row->of[COMPARE_BYTES_TO_TARGET],
                                              .n_reached = row->n_reached,
                                              .n_resumed = row->n_resumed};
        find_place(last_rung(row), r, i);
    }
    for (size_t i = 0; i < r->n_rows && !is_last; i++) {
        struct sweep_row *row = &r->rows[i];
        struct sweep_rung *rung;

        if (!row->is_member)
            continue;
        rung = last_rung(row);
        rung->goes_on = rung->place <= (rung->of > 1 ? rung->of / 2 : 1) && row->n_failed < row->n_runs;
        row->is_member = rung->goes_on;
    }
}

/* The runs. */

/* Measures the run in `folder`. *earlier: the folder of the run whose checkpoint it went on from, or "". */
static int measure_folder(struct compare_numbers *out, char earlier[PATH_MAX], const char *folder,
                          double target, struct err *e)
{
    struct run r;
    int rc;

    if (run_find(&r, folder, e) < 0)
        return e->code;
    snprintf(earlier, PATH_MAX, "%s",
             json_text_at(json_object_get(json_object_get(r.doc, "facts"), "options"), "resume"));
    rc = compare_measure(out, &r, target, e);
    run_clear(&r);
    return rc;
}

/* The results of one run, together with the shorter runs that it continues; all NAN if it has not
 * succeeded. */
static int measure_run(struct compare_numbers *out, bool *has_run, bool *is_resumed, const struct sweep *s,
                       const struct sweep_run *run, double target, struct err *e)
{
    char folder[PATH_MAX], earlier[PATH_MAX];
    struct sweep_run before = *run;
    struct compare_numbers part;

    *out = (struct compare_numbers){.has_diverged = false};
    for (int i = 0; i < N_COMPARE_RESULTS; i++)
        out->result[i] = NAN;
    *is_resumed = false;
    *has_run = sweep_has_succeeded(s, run);
    if (!*has_run)
        return 0;
    if (sweep_run_folder(folder, s, run, e) < 0 || measure_folder(out, earlier, folder, target, e) < 0)
        return e->code;
    *is_resumed = earlier[0];
    while (earlier[0] && before.rung-- > 0) {
        if (sweep_run_folder(folder, s, &before, e) < 0)
            return e->code;
        if (!sweep_has_succeeded(s, &before))
            return 0;
        if (measure_folder(&part, earlier, folder, target, e) < 0)
            return e->code;
        compare_prepend(out, &part);
    }
    return 0;
}

/* `numbers`, `values`: (n_repeats). */
static int make_row(struct sweep_row *row, struct compare_numbers *numbers, double *values,
                    const struct sweep *s, double target, struct err *e)
{
    row->n_runs = s->plan.n_repeats;
    row->n_failed = row->n_diverged = row->n_resumed = 0;
    for (size_t i = 0; i < row->n_runs; i++) {
        const struct sweep_run run = {row->combination, i, row->n_rungs - 1};
        bool has_run, is_resumed;

        if (measure_run(&numbers[i], &has_run, &is_resumed, s, &run, target, e) < 0)
            return e->code;
        row->n_failed += !has_run;
        row->n_diverged += numbers[i].has_diverged;
        row->n_resumed += is_resumed;
    }
    for (int k = 0; k < N_COMPARE_RESULTS; k++) {
        for (size_t i = 0; i < row->n_runs; i++)
            values[i] = numbers[i].result[k];
        row->of[k] = sweep_mean_of(values, row->n_runs);
    }
    row->n_reached = row->of[COMPARE_STEPS_TO_TARGET].n;
    return 0;
}

/* `numbers`: (n_rows, n_repeats). */
static int measure_rows(struct sweep_results *r, struct compare_numbers *numbers, const struct sweep *s,
                        bool only_members, struct err *e)
{
    size_t n = s->plan.n_repeats;
    double *values = calloc(n, sizeof *values);
    int rc = values ? 0 : no_memory(e);

    for (size_t i = 0; i < r->n_rows && rc == 0; i++)
        if (r->rows[i].is_member || !only_members)
            rc = make_row(&r->rows[i], numbers + i * n, values, s, r->target, e);
    free(values);
    return rc;
}

/* Reads one rung after the other: who goes on from one decides which results the next one has. */
static int read_rungs(struct sweep_results *r, struct compare_numbers *numbers, const struct sweep *s,
                      size_t n_rungs, struct err *e)
{
    for (size_t k = 0; k < n_rungs; k++) {
        for (size_t i = 0; i < r->n_rows; i++)
            r->rows[i].n_rungs += r->rows[i].is_member;
        if (measure_rows(r, numbers, s, true, e) < 0)
            return e->code;
        sweep_choose_members(r, k + 1 == s->plan.n_rungs);
    }
    return 0;
}

/* The highest accuracy that all runs of the best combinations reached which have not diverged. */
static int choose_target(struct sweep_results *r, const struct compare_numbers *numbers, size_t n_repeats,
                         struct err *e)
{
    struct compare_numbers *of_best = malloc(r->n_groups * n_repeats * sizeof *of_best);

    if (!of_best)
        return no_memory(e);
    for (size_t g = 0; g < r->n_groups; g++)
        memcpy(of_best + g * n_repeats, numbers + r->best[g] * n_repeats, n_repeats * sizeof *of_best);
    r->target = compare_common_target(of_best, r->n_groups * n_repeats);
    free(of_best);
    return 0;
}

static int read_all(struct sweep_results *r, const struct sweep *s, size_t n_rungs, struct err *e)
{
    struct compare_numbers *numbers = calloc(r->n_rows * s->plan.n_repeats, sizeof *numbers);
    int rc = numbers ? read_rungs(r, numbers, s, n_rungs, e) : no_memory(e);

    if (rc == 0 && n_rungs == s->plan.n_rungs)
        rc = sweep_choose_best(r, e);
    if (rc == 0 && r->best && !r->target_is_given)
        rc = choose_target(r, numbers, s->plan.n_repeats, e);
    if (rc == 0 && r->best && !r->target_is_given && !isnan(r->target)) {
        rc = measure_rows(r, numbers, s, false, e);
        sort_best(r);
    }
    free(numbers);
    return rc;
}

int sweep_results_read(struct sweep_results *r, const struct sweep *s, size_t n_rungs, struct err *e)
{
    const struct sweep_plan *p = &s->plan;
    double of_jobs = s->opt->settings.target_accuracy;
    int rc;

    *r = (struct sweep_results){.n_rows = p->n_combinations,
                                .target = s->opt->has_target ? s->opt->target
                                          : of_jobs > 0      ? of_jobs
                                                             : NAN};
    r->target_is_given = !isnan(r->target);
    r->rows = calloc(r->n_rows, sizeof *r->rows);
    r->is_searched = calloc(p->n_axes ? p->n_axes : 1, sizeof *r->is_searched);
    rc = r->rows && r->is_searched ? sweep_find_searched(r->is_searched, p, s->opt, e) : no_memory(e);
    for (size_t i = 0; i < r->n_rows && rc == 0; i++)
        r->rows[i] = (struct sweep_row){
            .combination = i, .group = sweep_group(p, r->is_searched, i), .is_member = true};
    if (rc == 0)
        rc = read_all(r, s, n_rungs, e);
    if (rc < 0)
        sweep_results_clear(r);
    return rc;
}

void sweep_results_clear(struct sweep_results *r)
{
    free(r->rows);
    free(r->best);
    free(r->is_searched);
    *r = (struct sweep_results){0};
}
