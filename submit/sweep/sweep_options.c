#include "submit/sweep/sweep_options.h"

#include <limits.h>
#include <string.h>

#include "submit/options/options_table.h"

/* Options of the sweep itself are not passed to its runs. */
static bool is_of_runs(const struct args_option *t)
{
    return !(t->verbs & FOR_SWEEP) && t->group != OUTPUT && t->offset != offsetof(struct options, output) &&
           t->offset != offsetof(struct options, sets);
}

/* Adds "--name=value" with the value in `o`. */
static void add_option(json_t *list, const struct args_option *t, const struct options *o)
{
    char name[ARGS_NAME], value[PATH_MAX];

    args_name(name, t);
    if (t->kind == ARGS_LIST) {
        for (const char *const *item = (const char *const *)((const char *)o + t->offset); *item; item++)
            json_array_append_new(list, json_sprintf("--%s=%s", name, *item));
        return;
    }
    args_text(value, sizeof value, t, o);
    if (t->kind != ARGS_FLAG)
        json_array_append_new(list, json_sprintf("--%s=%s", name, value));
    else if (strcmp(value, "yes") == 0)
        json_array_append_new(list, json_sprintf("--%s", name));
}

json_t *sweep_list_options(const struct options *o, uint64_t verb, bool without_job)
{
    json_t *list = json_array();

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (o->args.given[i] && is_of_runs(t) && (t->verbs & verb) &&
            !(without_job && (t->group == JOB || t->offset == offsetof(struct options, config))))
            add_option(list, t, o);
    }
    return list;
}

int sweep_check_options(const struct options *o, struct err *e)
{
    const uint64_t verb = o->simulate ? FOR_SIMULATE : FOR_SUBMIT;
    char name[ARGS_NAME];

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!o->args.given[i] || !is_of_runs(t) || (t->verbs & verb))
            continue;
        args_name(name, t);
        return err_set(e, ERR_USAGE,
                       o->simulate ? "--%s is for jobs on agents"
                                   : "--%s is for simulations: give --simulate too",
                       name);
    }
    return 0;
}

bool sweep_has_own_checkpoints(const struct options *o)
{
    return options_is_given(o, offsetof(struct options, settings.checkpoint_every)) ||
           options_is_given(o, offsetof(struct options, settings.checkpoint_steps));
}
