#include "submit/sweep/sweep_check.h"

#include <stdlib.h>

#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

static int check_none(const struct options *o, struct err *e)
{
    (void)o, (void)e;
    return 0;
}

static bool has_ended(const struct sweep *s, size_t combination)
{
    for (size_t i = 0; i < s->plan.n_repeats; i++)
        if (!sweep_has_run(s, combination, i))
            return false;
    return true;
}

static int check_combination(const struct sweep *s, size_t combination, sweep_check_job *check, struct err *e)
{
    const unsigned verb = s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT;
    struct options *o = malloc(sizeof *o);
    char folder[PATH_MAX], values[256];
    struct sweep_words w;
    int rc;

    if (!o)
        return err_set(e, ERR_NOMEM, "no memory for the options of a run");
    rc = sweep_run_folder(folder, s, combination, 0, e);
    sweep_words_of_run(&w, s, combination, 0, rc == 0 ? folder : "");
    if (rc == 0 && w.has_failed)
        rc = err_set(e, ERR_NOMEM, "no memory for the arguments of a run");
    if (rc == 0 && (options_parse(o, verb, (int)w.n - 1, w.of + 1, e) < 0 || check(o, e) < 0)) {
        sweep_values_text(values, sizeof values, &s->plan, combination);
        rc = values[0]
                 ? err_at(e, "combination %zu of %zu, %s", combination + 1, s->plan.n_combinations, values)
                 : e->code;
    }
    sweep_words_clear(&w);
    free(o);
    return rc;
}

/* What the stages print, each run prints again. */
static int check_all(const struct sweep *s, sweep_check_job *check, struct err *e)
{
    int verbosity = console_set_verbosity(-1), rc = 0;

    for (size_t c = 0; c < s->plan.n_combinations && rc == 0; c++)
        if ((rc = interrupt_check(e)) == 0 && !has_ended(s, c))
            rc = check_combination(s, c, check, e);
    console_set_verbosity(verbosity);
    return rc;
}

int sweep_check(const struct sweep *s, sweep_check_job *check, struct err *e)
{
    if (check_all(s, check_none, e) < 0)
        return e->code;
    console_info("Checking the jobs of %zu combination%s.", s->plan.n_combinations,
                 s->plan.n_combinations == 1 ? "" : "s");
    return check_all(s, check, e);
}
