#include "submit/trainer/trainer_limits.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/job/partition.h"
#include "submit/compat/codec_list.h"
#include "submit/options/optimizer_options.h"

#define AT(member) offsetof(struct options, member)

#define ARGUMENT "Leave --%s out, and give the program an argument of its own, after --."

/* Options of what the program has itself. `why` follows its name; the hint has the option's name. */
static const struct {
    size_t option;
    const char *why, *hint;
    bool is_psgds; /* where psgd updates */
} own[] = {
    {AT(model), "is the model", "Leave --%s out, or --trainer.", false},
    {AT(settings.dataset), "reads its data itself", ARGUMENT, false},
    {AT(data), "reads its data itself", ARGUMENT, false},
    {AT(settings.data_on_agent), "reads its data itself", ARGUMENT, false},
    {AT(settings.transform), "reads its data itself", ARGUMENT, false},
    {AT(settings.batch_size), "chooses its batches itself", ARGUMENT, true},
    {AT(max_tokens), "counts its tokens itself", "Leave --%s out; --max-steps counts steps.", false},
    {AT(settings.accumulate), "chooses its batches itself", ARGUMENT, false},
    {AT(settings.optimizer), "has its own optimizer", ARGUMENT, true},
    {AT(settings.learn_rate), "has its own optimizer", ARGUMENT, true},
    {AT(settings.schedule), "has its own optimizer", ARGUMENT, true},
    {AT(settings.warmup_steps), "has its own optimizer", ARGUMENT, true},
    {AT(settings.momentum), "has its own optimizer", ARGUMENT, true},
    {AT(settings.weight_decay), "has its own optimizer", ARGUMENT, true},
    {AT(settings.beta1), "has its own optimizer", ARGUMENT, true},
    {AT(settings.beta2), "has its own optimizer", ARGUMENT, true},
    {AT(settings.epsilon), "has its own optimizer", ARGUMENT, true},
    {AT(settings.adamw_rate), "has its own optimizer", ARGUMENT, true},
    {AT(settings.decay_of), "has its own optimizer", ARGUMENT, true},
    {AT(settings.clip_norm), "has its own optimizer",
     "Leave --%s out; the program clips the gradient that its optimizer gets.", true},
    {AT(settings.redundancy), "may compute a block's gradient with other last bits on each of its holders",
     "Leave --%s out; with --on-node-loss continue a job survives lost workers.", true},
    {AT(block_assignment), "may compute a block's gradient with other last bits on each of its holders",
     "Leave --%s out; with --on-node-loss continue a job survives lost workers.", true},
    {AT(settings.block_ratio), "chooses its batches itself",
     "Leave --%s out; a worker's contribution counts by the samples that its program reports.", true},
    {AT(settings.feed), "chooses its batches itself", "Leave --%s out; psgd.trainer.shard() divides rows.",
     false},
    {AT(settings.placement), "has its tensors in one vector, in the order in which it names them",
     "Leave --%s out: each server has a range of that vector.", false},
    {AT(settings.math), "computes by its own libraries", "Leave --%s out.", false},
    {AT(settings.threads), "computes by its own libraries",
     "Leave --%s out; the program sets its number of threads itself.", false},
};

const char *trainer_limits_rule(const char **instead, const struct codec_facts *f)
{
    if (f->updates_on_server) {
        *instead = "--codec allreduce exchanges the same gradients, by servers --codec doublesqueeze --path "
                   "servers, and the program makes the update; --codec asgd and downpour are asynchronous.";
        return "updates the parameters on servers, by the job's optimizer, and the program has its own";
    }
    if (f->uses_blocks) {
        *instead =
            "--codec allreduce exchanges the same gradients; with --on-node-loss continue a job survives "
            "lost workers.";
        return "needs gradients of blocks that are equal to the bit on all of their holders, and those of a "
               "program need not be";
    }
    return NULL;
}

bool trainer_limits_trains(const struct codec_facts *f)
{
    const char *instead;

    return !trainer_limits_rule(&instead, f) && !f->sends_grads && !f->changes_grads;
}

bool trainer_limits_is_psgds(size_t line)
{
    return own[line].is_psgds;
}

bool trainer_limits_option(size_t line, char name[ARGS_NAME], const char **why, char hint[TRAINER_HINT])
{
    if (line >= sizeof own / sizeof *own)
        return false;
    options_name(name, own[line].option);
    *why = own[line].why;
    snprintf(hint, TRAINER_HINT, own[line].hint, name);
    return true;
}

/* The program's name for messages. */
static const char *program_of(const struct options *o)
{
    const char *path = o->trainer, *slash = strrchr(path, '/');

    if (strspn(path, "./") == strlen(path))
        return "the program"; /* in this folder, or one above it */
    return slash && slash[1] ? slash + 1 : path;
}

/* A default of momentum depends on the optimizer, which --optimizer may name, too; --placement range is how
 * it is. */
static bool is_wanted(const struct options *o, size_t option)
{
    if (option == AT(settings.placement))
        return o->settings.placement == PLACEMENT_ROUND_ROBIN;
    if (option == AT(settings.momentum))
        return o->has_momentum && o->settings.momentum > 0;
    return options_is_chosen(o, option) ||
           (option == AT(settings.optimizer) && o->settings.optimizer != OPTIMIZER_SGD && !o->preset);
}

static int check_own(const struct options *o, enum trainer_update who, struct err *e)
{
    char name[ARGS_NAME], hint[TRAINER_HINT];
    const char *why;

    for (size_t i = 0; trainer_limits_option(i, name, &why, hint); i++) {
        if ((own[i].is_psgds && who == TRAINER_MAY_UPDATE) || !is_wanted(o, own[i].option))
            continue;
        err_set(e, ERR_CONFIG, "--%s has no effect with --trainer: %s %s", name, program_of(o), why);
        return err_hint(e, "%s", hint);
    }
    return 0;
}

static int check_partition(const struct options *o, struct err *e)
{
    struct partition_rule rule;

    if (partition_rule_parse(&rule, o->settings.partition, e) < 0)
        return e->code;
    if (rule.kind != PARTITION_COLUMN)
        return 0;
    err_set(e, ERR_CONFIG, "--partition %s names a column of a data set of psgd, and %s reads its own",
            o->settings.partition, program_of(o));
    return err_hint(e, "Give psgd.trainer.shard() the column's values as labels, with --partition labels:K.");
}

static int check_rule(const struct codec_facts *f, const char *program, enum trainer_update who,
                      struct err *e)
{
    const char *instead, *why = trainer_limits_rule(&instead, f);

    if (!why && who == TRAINER_TRAINS && !trainer_limits_trains(f)) {
        err_set(e, ERR_CONFIG, "codec %s combines or changes gradients, and train() of %s gives parameters",
                f->name, program);
        return err_hint(e, "Take a rule of rounds, as --codec fedavg or --codec diloco, or give client() a "
                           "function gradient in place of train.");
    }
    if (!why)
        return 0;
    err_set(e, ERR_CONFIG, "--trainer: codec %s %s", f->name, why);
    return err_hint(e, "%s", instead);
}

int trainer_limits_check(const struct options *o, const struct codec_facts *f, enum trainer_update who,
                         struct err *e)
{
    if (codec_list_is_one(o->codec)) {
        err_set(e, ERR_CONFIG,
                "--codec: a list is for the layers of a network of psgd, and %s has tensors of other names",
                program_of(o));
        return err_hint(
            e,
            "Compress its tensors by their names: --codec allreduce --compress 'head.weight=fp16;*=int8'.");
    }
    if (check_own(o, who, e) < 0 || (who == TRAINER_MAY_UPDATE && optimizer_options_check(o, e) < 0) ||
        check_partition(o, e) < 0)
        return e->code;
    return f && who != TRAINER_MAY_UPDATE ? check_rule(f, program_of(o), who, e) : 0;
}
