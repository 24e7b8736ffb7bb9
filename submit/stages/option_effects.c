#include "submit/stages/option_effects.h"

#include <stddef.h>
#include <stdio.h>

#include "submit/options/submit_options.h"

typedef bool without(const struct submission *s, const struct codec_facts *f);

static bool has_no_local_steps(const struct submission *s, const struct codec_facts *f)
{
    (void)s;
    return !f->has_local_steps;
}

static bool sums_by_no_collective(const struct submission *s, const struct codec_facts *f)
{
    return f->combines ? s->settings.path != COMBINE_PATH_ALLREDUCE && s->settings.path != COMBINE_PATH_TREE
                       : !f->collects;
}

static bool has_shared_samples(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->settings.feed == FEED_SHARED;
}

static bool has_no_retries(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->opt->retries == 0;
}

static bool has_no_servers(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->settings.server_count == 0;
}

static bool has_a_model(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->opt->simulation.gradients == 0;
}

static bool has_no_model(const struct submission *s, const struct codec_facts *f)
{
    return !has_a_model(s, f);
}

#define AT(member) offsetof(struct options, member)
#define STAND_IN   "--gradients stands in for model and data"

enum {
    OF_CODEC = 1, /* the sentence begins with the codec */
    OF_RULE = 2,  /* a rule that has it takes it as its parameter, too */
    LATE = 4      /* known when servers and path are chosen */
};

static const struct effect {
    size_t option;
    without *is_without;
    const char *why;
    unsigned how;
} effects[] = {
    {AT(settings.local_steps), has_no_local_steps,
     "exchanges in each step, or when it decides to; rules with local steps, as fedavg, exchange weights",
     OF_CODEC | OF_RULE},
    {AT(settings.allreduce), sums_by_no_collective,
     "sums no vectors over all workers here, which path allreduce or tree does", OF_CODEC | LATE},
    {AT(settings.partition), has_shared_samples, "with --feed shared every worker has all samples", 0},
    {AT(settings.non_iid), has_shared_samples, "with --feed shared every worker has all samples", 0},
    {AT(retry_on), has_no_retries, "without --retries no job is tried again", 0},
    {AT(simulation.server_link), has_no_servers, "without --servers there are none", LATE},
    {AT(steps), has_a_model, "an epoch has the steps of its data set; --steps is for --gradients", 0},
    {AT(model), has_no_model, STAND_IN, 0},
    {AT(settings.dataset), has_no_model, STAND_IN, 0},
    {AT(data), has_no_model, STAND_IN, 0},
    {AT(settings.batch_size), has_no_model, STAND_IN, 0},
    {AT(settings.transform), has_no_model, STAND_IN, 0},
    {AT(settings.partition), has_no_model, STAND_IN, 0},
    {AT(settings.non_iid), has_no_model, STAND_IN, 0},
    {AT(settings.math), has_no_model, STAND_IN, 0},
    {AT(settings.threads), has_no_model, STAND_IN, 0},
};

static int refuse_option(const struct effect *x, const struct codec_facts *f, struct err *e)
{
    char name[ARGS_NAME], codec[80] = "";

    options_name(name, x->option);
    if (x->how & OF_CODEC)
        snprintf(codec, sizeof codec, "codec %s ", f->name);
    err_set(e, ERR_CONFIG, "--%s has no effect in this job: %s%s", name, codec, x->why);
    return err_hint(e,
                    x->how & OF_RULE
                        ? "Leave --%s out; in a sweep give it to the rules that have it: fedavg:every=20."
                        : "Leave --%s out.",
                    name);
}

int effects_check(const struct submission *s, const struct codec_facts *f, bool is_placed, struct err *e)
{
    for (const struct effect *x = effects; x < effects + sizeof effects / sizeof *effects; x++)
        if (!(x->how & LATE) != is_placed && options_is_chosen(s->opt, x->option) && x->is_without(s, f))
            return refuse_option(x, f, e);
    return 0;
}
