/* sweep: runs a job with all combinations of the values of --set, each with --repeat seeds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/options/options_config.h"
#include "submit/stages/stages.h"
#include "submit/sweep/sweep_agents.h"
#include "submit/sweep/sweep_check.h"
#include "submit/sweep/sweep_lanes.h"
#include "submit/sweep/sweep_table.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/verbs/verbs.h"

static int check_sweep_options(const struct options *o, struct err *e)
{
    if (verb_check_arguments(o, e) < 0)
        return e->code;
    if (!o->sets[0] && o->repeat == 0)
        return err_set(e, ERR_USAGE, "sweep needs --set KEY=VALUE,VALUE,... or --repeat N");
    if (!o->output[0])
        return err_set(e, ERR_USAGE, "sweep needs a folder for the results of all runs: -o DIR");
    if (o->detach || o->retrieve || o->resume[0])
        return err_set(e, ERR_USAGE, "--detach, --retrieve and --resume cannot be used with a sweep");
    return 0;
}

/* Runs all combinations that take part in the rung after those of `r`. */
static int run_rung(const struct sweep *s, const struct sweep_results *r, size_t rung, struct err *e)
{
    struct sweep_run *runs = calloc(r->n_rows * s->plan.n_repeats + 1, sizeof *runs);
    size_t n = 0;
    int rc;

    if (!runs)
        return err_set(e, ERR_NOMEM, "no memory for the runs of the sweep");
    for (size_t i = 0; i < r->n_rows; i++)
        for (size_t k = 0; k < s->plan.n_repeats && r->rows[i].is_member; k++)
            runs[n++] = (struct sweep_run){r->rows[i].combination, k, rung};
    rc = sweep_carry_out(s, runs, n, e);
    free(runs);
    if (rc == ERR_CANCELLED)
        err_hint(e, s->opt->simulate
                        ? "The same command continues the sweep: runs that have ended are not run again."
                        : "A job that has started continues on its agents: the same command waits for it, "
                          "job_submit list shows its id, job_submit cancel ID ends it.");
    return rc;
}

static int run_all(const struct sweep *s, struct err *e)
{
    int rc = 0;

    if (s->plan.n_rungs > 1 && s->opt->simulate)
        console_info("A simulation keeps no checkpoint: a run that goes on begins anew.");
    for (size_t k = 0; k < s->plan.n_rungs && rc == 0; k++) {
        struct sweep_results r;

        rc = sweep_results_read(&r, s, k, e);
        if (rc < 0)
            return rc;
        sweep_print_rung(s, &r);
        rc = run_rung(s, &r, k, e);
        sweep_results_clear(&r);
    }
    return rc;
}

/* Successive halving sets the length of each run itself, as a part of --epochs or --max-steps. */
static int check_lengths(const struct sweep_plan *p, const struct options *o, struct err *e)
{
    static const char *const lengths[] = {"epochs", "max_steps", "max_mb", "max_tokens"};

    for (size_t i = 0; i < p->n_axes; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            if (options_is_same_name(p->axes[i].key, lengths[k]))
                return err_set(e, ERR_USAGE, "--set %s: --search halving chooses the length of the runs",
                               p->axes[i].key);
    if (o->max_mb > 0 || o->max_tokens > 0)
        return err_set(e, ERR_USAGE, "--%s: --search halving takes parts of --epochs or --max-steps",
                       o->max_mb > 0 ? "max-mb" : "max-tokens");
    return 0;
}

/* --search and --budget: the combinations, and of successive halving the rungs. */
static int choose_runs(struct sweep_plan *p, const struct options *o, struct err *e)
{
    bool is_searched[SWEEP_AXES], is_in_steps = o->settings.max_steps > 0;

    if (strcmp(o->search, SWEEP_GRID) == 0 && o->budget > 0)
        return err_set(e, ERR_USAGE,
                       "--budget is for --search random and halving: grid runs all combinations");
    if (strcmp(o->search, SWEEP_RANDOM) == 0 && o->budget == 0)
        return err_set(e, ERR_USAGE, "--search random needs --budget N, the number of combinations");
    if ((o->budget > 0 && sweep_plan_draw(p, (size_t)o->budget, o->settings.seed, e) < 0) ||
        sweep_find_searched(is_searched, p, o, e) < 0)
        return e->code;
    if (strcmp(o->search, SWEEP_HALVING) != 0)
        return 0;
    if (check_lengths(p, o, e) < 0)
        return e->code;
    return sweep_halve(p, sweep_largest_group(p, is_searched),
                       is_in_steps ? o->settings.max_steps : o->settings.epochs, is_in_steps, e);
}

/* Reads and checks the job, as `validate` does. */
static int check_job(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 || stage_read(&s, e) < 0 || stage_check_job(&s, e) < 0 ? e->code
                                                                                                  : 0;

    submission_clear(&s);
    return rc;
}

static int run_sweep(struct sweep *s, struct err *e)
{
    size_t n_failed = 0;

    if (check_sweep_options(s->opt, e) < 0 ||
        sweep_plan_make(&s->plan, s->opt->sets, s->opt->repeat, s->opt->settings.seed, e) < 0 ||
        choose_runs(&s->plan, s->opt, e) < 0 || sweep_count_lanes(s, e) < 0 || sweep_open(s, e) < 0 ||
        sweep_check(s, s->opt->simulate ? verb_simulate_check : check_job, e) < 0 || sweep_begin(s, e) < 0 ||
        sweep_write_lanes(s, e) < 0 || run_all(s, e) < 0 || sweep_report(s, s->opt->json, &n_failed, e) < 0)
        return e->code;
    if (n_failed > 0)
        console_info(
            "%zu of %zu runs did not succeed, and are not in the means. After you have removed the cause, "
            "the same command runs only these again.",
            n_failed, s->plan.n_combinations * s->plan.n_repeats);
    if (!s->opt->json)
        printf("\nMeans over the runs, ± their standard deviation, also in %s/sweep.csv and report.html. "
               "Each run: "
               "job_submit compare %s/runs/*\n",
               s->opt->output, s->opt->output);
    return n_failed > 0 ? EXIT_JOB_FAILED : 0;
}

int verb_sweep(const struct options *o, struct err *e)
{
    struct sweep s = {.opt = o, .lock = -1};
    int rc = run_sweep(&s, e);

    sweep_close(&s);
    return rc;
}
