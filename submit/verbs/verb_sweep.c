/* sweep: a job with all combinations of the values of --set, and --repeat seeds. */
#include <stdio.h>

#include "shared/base/file.h"
#include "submit/results/run_find.h"
#include "submit/stages/stages.h"
#include "submit/sweep/sweep_check.h"
#include "submit/sweep/sweep_inputs.h"
#include "submit/sweep/sweep_table.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/verbs/verbs.h"

static int check_sweep_options(const struct options *o, struct err *e)
{
    if (o->args.n_operands > 0)
        return err_set(e, ERR_USAGE, "\"%s\": sweep takes options only", o->args.operands[0]);
    if (!o->sets[0] && o->repeat == 0)
        return err_set(e, ERR_USAGE, "sweep needs --set KEY=VALUE,VALUE,... or --repeat N");
    if (!o->output[0])
        return err_set(e, ERR_USAGE, "sweep needs a folder for the results of all runs: -o DIR");
    if (o->detach || o->retrieve || o->resume[0])
        return err_set(e, ERR_USAGE, "--detach, --retrieve and --resume do not go with a sweep");
    return 0;
}

/* Removes the results of a run that succeeded with other files than there are now. */
static int drop_if_stale(const struct sweep *s, size_t combination, size_t repeat, const char *name,
                         struct err *e)
{
    char folder[PATH_MAX], file[PATH_MAX];
    bool is_stale;
    struct run r;

    if (!sweep_has_run(s, combination, repeat))
        return 0;
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 || run_find(&r, folder, e) < 0)
        return e->code;
    is_stale = sweep_inputs_changed(file, r.doc, s->opt->config);
    run_clear(&r);
    if (!is_stale)
        return 0;
    console_info("%s has changed since run %s: its results are removed, and it is run again.", file, name);
    return file_remove_tree(folder, e);
}

/* *n_failed: runs that have not succeeded. */
static int run_all(const struct sweep *s, size_t *n_failed, struct err *e)
{
    size_t n = s->plan.n_combinations * s->plan.n_repeats;
    char name[SWEEP_NAME], why[SWEEP_WHY];
    enum sweep_state state;

    for (size_t i = 0; i < n; i++) {
        size_t combination = i / s->plan.n_repeats, repeat = i % s->plan.n_repeats;

        sweep_name(name, &s->plan, combination, repeat);
        if (drop_if_stale(s, combination, repeat, name, e) < 0)
            return e->code;
        if (sweep_has_run(s, combination, repeat)) {
            console_more("Run %zu of %zu, %s, has succeeded before.", i + 1, n, name);
            continue;
        }
        console_info("Run %zu of %zu: %s.", i + 1, n, name);
        if (sweep_run(&state, why, s, combination, repeat, e) < 0) {
            if (e->code == ERR_CANCELLED)
                err_hint(e,
                         s->opt->simulate
                             ? "The same command goes on: runs that have ended are not run again."
                             : "A job that had started runs on, in its slots: the same command watches it to "
                               "its end, job_submit list names it, job_submit cancel ID ends it.");
            return e->code;
        }
        if (state == SWEEP_FAILED) {
            ++*n_failed;
            console_error("%s: %s (%s/logs/%s.log)", name, why, s->folder, name);
        }
    }
    return 0;
}

/* As `validate` does. */
static int check_job(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 || stage_read(&s, e) < 0 || stage_check_job(&s, e) < 0 ? e->code
                                                                                                  : 0;

    submission_clear(&s);
    return rc;
}

static int sweep(struct sweep *s, struct err *e)
{
    size_t n_failed = 0;

    if (check_sweep_options(s->opt, e) < 0 ||
        sweep_plan_make(&s->plan, s->opt->sets, s->opt->repeat, s->opt->settings.seed, e) < 0 ||
        sweep_open(s, e) < 0 || sweep_check(s, s->opt->simulate ? verb_simulate_check : check_job, e) < 0 ||
        sweep_begin(s, e) < 0 || run_all(s, &n_failed, e) < 0 || sweep_report(s, s->opt->json, e) < 0)
        return e->code;
    if (n_failed > 0)
        console_info(
            "%zu of %zu runs did not succeed, and are not in the means. When the cause is mended, the "
            "same command runs only these.",
            n_failed, s->plan.n_combinations * s->plan.n_repeats);
    if (!s->opt->json)
        printf(
            "\nMeans over the runs, ± their standard deviation, also in %s/sweep.csv. Each run: job_submit "
            "compare %s/runs/*\n",
            s->opt->output, s->opt->output);
    return n_failed > 0 ? EXIT_JOB_FAILED : 0;
}

int verb_sweep(const struct options *o, struct err *e)
{
    struct sweep s = {.opt = o, .lock = -1};
    int rc = sweep(&s, e);

    sweep_close(&s);
    return rc;
}
