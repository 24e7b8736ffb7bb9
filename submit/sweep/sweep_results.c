#include "submit/sweep/sweep_results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int sweep_find_searched(bool *is_searched, const struct sweep_plan *p, const char *best_of, struct err *e)
{
    char name[sizeof((struct options *)NULL)->best_of];

    for (const char *at = best_of; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (find_searched(is_searched, p, name, e) < 0)
            return e->code;
    }
    return 0;
}

/* The place of the first combination of the group: the one with the first value of each option of
 * --best-of. */
static size_t first_of_group(const struct sweep_plan *p, const bool *is_searched, size_t place)
{
    size_t first = 0, stride = 1;

    for (size_t i = p->n_axes; i-- > 0; stride *= p->axes[i].n)
        if (!is_searched[i])
            first += place / stride % p->axes[i].n * stride;
    return first;
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

int sweep_choose_best(struct sweep_results *r, struct err *e)
{
    int (*is_better)(const struct sweep_row *,
                     const struct sweep_row *) = r->target_is_given ? compare_costs : compare_accuracies;
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
        if (g == r->n_groups)
            best[r->n_groups++] = i;
        else if (is_better(&r->rows[i], &r->rows[best[g]]) < 0)
            best[g] = i;
        r->rows[i].is_best = false;
    }
    for (size_t g = 0; g < r->n_groups; g++)
        r->rows[best[g]].is_best = true;
    sort_best(r);
    return 0;
}

/* The runs. */

/* The results of one run; all NAN if it has not succeeded. */
static int measure_run(struct compare_numbers *out, bool *has_run, const struct sweep *s, size_t combination,
                       size_t repeat, double target, struct err *e)
{
    char folder[PATH_MAX];
    struct run r;
    int rc;

    *out = (struct compare_numbers){.has_diverged = false};
    for (int i = 0; i < N_COMPARE_RESULTS; i++)
        out->result[i] = NAN;
    *has_run = sweep_has_succeeded(s, combination, repeat);
    if (!*has_run)
        return 0;
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 || run_find(&r, folder, e) < 0)
        return e->code;
    rc = compare_measure(out, &r, target, e);
    run_clear(&r);
    return rc;
}

/* `numbers`, `values`: (n_repeats). */
static int make_row(struct sweep_row *row, struct compare_numbers *numbers, double *values,
                    const struct sweep *s, double target, struct err *e)
{
    row->n_runs = s->plan.n_repeats;
    row->n_failed = row->n_diverged = 0;
    for (size_t i = 0; i < row->n_runs; i++) {
        bool has_run;

        if (measure_run(&numbers[i], &has_run, s, row->combination, i, target, e) < 0)
            return e->code;
        row->n_failed += !has_run;
        row->n_diverged += numbers[i].has_diverged;
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
                        struct err *e)
{
    size_t n = s->plan.n_repeats;
    double *values = calloc(n, sizeof *values);
    int rc = values ? 0 : no_memory(e);

    for (size_t i = 0; i < r->n_rows && rc == 0; i++)
        rc = make_row(&r->rows[i], numbers + i * n, values, s, r->target, e);
    free(values);
    return rc;
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

static int read_all(struct sweep_results *r, const struct sweep *s, struct err *e)
{
    struct compare_numbers *numbers = calloc(r->n_rows * s->plan.n_repeats, sizeof *numbers);
    int rc = numbers ? measure_rows(r, numbers, s, e) : no_memory(e);

    if (rc == 0)
        rc = sweep_choose_best(r, e);
    if (rc == 0 && !r->target_is_given)
        rc = choose_target(r, numbers, s->plan.n_repeats, e);
    if (rc == 0 && !r->target_is_given && !isnan(r->target)) {
        rc = measure_rows(r, numbers, s, e);
        sort_best(r);
    }
    free(numbers);
    return rc;
}

int sweep_results_read(struct sweep_results *r, const struct sweep *s, struct err *e)
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
    rc = r->rows && r->is_searched ? sweep_find_searched(r->is_searched, p, s->opt->best_of, e)
                                   : no_memory(e);
    for (size_t i = 0; i < r->n_rows && rc == 0; i++) {
        r->rows[i].combination = i;
        r->rows[i].group = first_of_group(p, r->is_searched, sweep_place(p, i));
    }
    if (rc == 0)
        rc = read_all(r, s, e);
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
