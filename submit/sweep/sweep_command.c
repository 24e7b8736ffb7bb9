#include "submit/sweep/sweep_command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/sweep/sweep_options.h"

static void add_word(struct sweep_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_word(struct sweep_command *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (c->n + 1 == SWEEP_ARGUMENTS || vasprintf(&c->words[c->n], fmt, ap) < 0) {
        c->has_failed = true;
        c->words[c->n] = NULL;
    } else {
        c->n++;
    }
    va_end(ap);
}

/* Takes ownership of the list. */
static void add_words(struct sweep_command *c, json_t *list)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v) add_word(c, "%s", json_string_value(v));
    json_decref(list);
}

void sweep_command_clear(struct sweep_command *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->words[i]);
    *c = (struct sweep_command){.n = 0};
}

static void add_agents(struct sweep_command *c, const char *agents)
{
    if (agents[0])
        add_word(c, "--workers=%s", agents);
}

static void add_length(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run)
{
    add_word(c, "--%s=%d", sweep_length_option(&s->plan), s->plan.lengths[run->rung]);
}

/* A checkpoint at the end of a short run, unless the user has chosen when to keep some. The last run of a
 * combination keeps none. */
static void add_checkpoint(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run)
{
    if (sweep_has_own_checkpoints(s->opt))
        return;
    add_word(c, s->plan.is_in_steps ? "--checkpoint-steps=%d" : "--checkpoint-every=%d",
             sweep_is_short(&s->plan, run) ? s->plan.lengths[run->rung] : 0);
}

static void begin_command(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run)
{
    char name[sizeof s->opt->settings.name];

    sweep_job_name(name, sizeof name, &s->plan, run);
    *c = (struct sweep_command){.n = 0};
    add_word(c, "%s", s->program);
    add_word(c, s->opt->simulate ? "simulate" : "submit");
    add_word(c, "--name=%s", name);
}

/* A --name or --timing-seed among the options of all runs comes later and takes precedence. */
void sweep_command_anew(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run,
                        const char *folder, const char *agents, bool keeps_checkpoint)
{
    begin_command(c, s, run);
    if (s->opt->simulate && !s->opt->measured[0]) /* runs differ in their options, not in measured times */
        add_word(c, "--measured=%s/measured.json", s->folder);
    if (s->opt->simulate) /* ... and not in the times that are drawn */
        add_word(c, "--timing-seed=1");
    add_words(c, json_incref(s->base));
    add_agents(c, agents);
    if (sweep_is_short(&s->plan, run)) {
        add_length(c, s, run);
        if (keeps_checkpoint && !s->opt->simulate)
            add_checkpoint(c, s, run);
    }
    for (size_t i = 0; i < s->plan.n_axes; i++)
        add_word(c, "--set=%s=%s", s->plan.axes[i].key, sweep_value(&s->plan, run->combination, i));
    if (s->plan.has_seeds)
        add_word(c, "--set=seed=%llu", (unsigned long long)(s->plan.first_seed + run->repeat));
    add_word(c, "--output=%s", folder);
    if (s->opt->args.n_operands > 0)
        add_word(c, "--");
    for (int i = 0; i < s->opt->args.n_operands; i++)
        add_word(c, "%s", s->opt->args.operands[i]);
}

void sweep_command_resume(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run,
                          const char *folder, const char *agents, const char *earlier)
{
    begin_command(c, s, run);
    add_words(c, sweep_list_options(s->opt, FOR_SUBMIT, true)); /* an earlier job's settings are kept */
    add_agents(c, agents);
    add_length(c, s, run);
    add_checkpoint(c, s, run);
    add_word(c, "--resume=%s", earlier);
    add_word(c, "--output=%s", folder);
}

void sweep_command_wait(struct sweep_command *c, const struct sweep *s, const char *id, const char *folder)
{
    *c = (struct sweep_command){.n = 0};
    add_word(c, "%s", s->program);
    add_word(c, "wait");
    add_word(c, "%s", id);
    add_words(c, sweep_list_options(s->opt, FOR_WAIT, false));
    add_word(c, "--output=%s", folder);
}
