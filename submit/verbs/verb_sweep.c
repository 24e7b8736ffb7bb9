/* sweep: runs a job with all combinations of the values of --set, each with --repeat seeds. */
#include <stdio.h>

#include "submit/stages/stages.h"
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

/* Runs all that have not succeeded before. *n_failed: the number of runs that have not succeeded now. */
static int run_all(const struct sweep *s, size_t *n_failed, struct err *e)
{
    size_t n = s->plan.n_combinations * s->plan.n_repeats;
    char name[SWEEP_NAME], why[SWEEP_WHY];
    enum sweep_state state;

    for (size_t i = 0; i < n; i++) {
        size_t combination = i / s->plan.n_repeats, repeat = i % s->plan.n_repeats;

        sweep_name(name, &s->plan, combination, repeat);
        if (sweep_drop_stale(s, combination, repeat, e) < 0)
            return e->code;
        if (sweep_has_succeeded(s, combination, repeat)) {
            console_more("Run %zu of %zu, %s, has succeeded before.", i + 1, n, name);
            continue;
        }
        console_info("Run %zu of %zu: %s.", i + 1, n, name);
        if (sweep_run(&state, why, s, combination, repeat, e) < 0) {
            if (e->code == ERR_CANCELLED)
                err_hint(e,
                         s->opt->simulate
                             ? "The same command continues the sweep: runs that have ended are not run again."
                             : "A job that has started continues on its agents: the same command waits for "
                               "it, job_submit list shows its id, job_submit cancel ID ends it.");
            return e->code;
        }
        if (state == SWEEP_FAILED) {
            ++*n_failed;
            console_error("%s: %s (%s/logs/%s.log)", name, why, s->folder, name);
        }
    }
    return 0;
}

static int check_best_of(const struct sweep *s, struct err *e)
{
    bool is_searched[SWEEP_AXES];

    return sweep_find_searched(is_searched, &s->plan, s->opt->best_of, e);
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
        (s->opt->budget > 0 &&
         sweep_plan_draw(&s->plan, (size_t)s->opt->budget, s->opt->settings.seed, e) < 0) ||
        check_best_of(s, e) < 0 || sweep_open(s, e) < 0 ||
        sweep_check(s, s->opt->simulate ? verb_simulate_check : check_job, e) < 0 || sweep_begin(s, e) < 0 ||
        run_all(s, &n_failed, e) < 0 || sweep_report(s, s->opt->json, e) < 0)
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
