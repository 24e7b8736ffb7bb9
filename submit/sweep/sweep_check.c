#include "submit/sweep/sweep_check.h"

#include <stdlib.h>

#include "submit/sweep/sweep_command.h"
#include "submit/sweep/sweep_options.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

/* A check of the options alone. */
static int check_none(const struct options *o, struct err *e)
{
    (void)o, (void)e;
    return 0;
}

/* True if all first runs of the combination have succeeded. */
static bool all_have_succeeded(const struct sweep *s, size_t combination)
{
    for (size_t i = 0; i < s->plan.n_repeats; i++)
        if (!sweep_has_succeeded(s, &(struct sweep_run){combination, i, 0}))
            return false;
    return true;
}

static int check_command(const struct sweep *s, const struct sweep_run *run, bool keeps_checkpoint,
                         sweep_check_job *check, struct err *e)
{
    struct options *o = calloc(1, sizeof *o);
    struct sweep_command command;
    char folder[PATH_MAX];
    int rc;

    if (!o)
        return err_set(e, ERR_NOMEM, "no memory for the options of a run");
    rc = sweep_run_folder(folder, s, run, e);
    sweep_command_anew(&command, s, run, rc == 0 ? folder : "", "", keeps_checkpoint);
    if (rc == 0 && command.has_failed)
        rc = err_set(e, ERR_NOMEM, "no memory for the arguments of a run");
    if (rc == 0)
        rc = options_parse(o, s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT, (int)command.n - 1,
                           command.words + 1, e);
    if (rc == 0)
        rc = check(o, e);
    options_clear(o);
    sweep_command_clear(&command);
    free(o);
    return rc;
}

/* The messages of the stages are not printed: each run prints them itself. */
static int check_quietly(const struct sweep *s, const struct sweep_run *run, bool keeps_checkpoint,
                         sweep_check_job *check, struct err *e)
{
    int verbosity = console_set_verbosity(-1);
    int rc = check_command(s, run, keeps_checkpoint, check, e);

    console_set_verbosity(verbosity);
    return rc;
}

/* A rule that refuses checkpoints refuses the first run of a combination, but no run without one. */
static bool is_valid_without(struct sweep *s, const struct sweep_run *run, const char *values,
                             sweep_check_job *check, const struct err *reason)
{
    struct err ignored;

    if (s->opt->simulate || s->plan.n_rungs == 1 || sweep_has_own_checkpoints(s->opt) ||
        reason->code == ERR_CANCELLED || check_quietly(s, run, false, check, &ignored) < 0)
        return false;
    (run->combination > 0 && s->begins_anew[run->combination - 1] ? console_more : console_info)(
        "%s: longer runs begin anew, because %s.", values, reason->text);
    s->begins_anew[run->combination] = true;
    return true;
}

static int check_combination(struct sweep *s, size_t combination, sweep_check_job *check, struct err *e)
{
    struct sweep_run run = {.combination = combination};
    char values[256];

    if (check_quietly(s, &run, true, check, e) == 0)
        return 0;
    sweep_values_text(values, sizeof values, &s->plan, combination);
    if (is_valid_without(s, &run, values, check, e))
        return 0;
    return values[0]
               ? err_at(e, "combination %zu of %zu, %s", combination + 1, s->plan.n_combinations, values)
               : e->code;
}

static int check_all(struct sweep *s, sweep_check_job *check, struct err *e)
{
    for (size_t c = 0; c < s->plan.n_combinations; c++)
        if (interrupt_check(e) < 0 || (!all_have_succeeded(s, c) && check_combination(s, c, check, e) < 0))
            return e->code;
    return 0;
}

int sweep_check(struct sweep *s, sweep_check_job *check, struct err *e)
{
    if (check_all(s, check_none, e) < 0)
        return e->code;
    console_info("Checking the jobs of %zu combination%s.", s->plan.n_combinations,
                 s->plan.n_combinations == 1 ? "" : "s");
    return check_all(s, check, e);
}
