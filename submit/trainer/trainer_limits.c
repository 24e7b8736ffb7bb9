#include "submit/trainer/trainer_limits.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/job/partition.h"
#include "submit/compat/codec_list.h"

#define AT(member) offsetof(struct options, member)

#define ARGUMENT "Leave --%s out, and give the program an argument of its own, after --."

/* Options of what the program has itself. `why` follows its name; the hint has the option's name. */
static const struct {
    size_t option;
    const char *why, *hint;
} own[] = {
    {AT(model), "is the model", "Leave --%s out, or --trainer."},
    {AT(settings.dataset), "reads its data itself", ARGUMENT},
    {AT(data), "reads its data itself", ARGUMENT},
    {AT(settings.transform), "reads its data itself", ARGUMENT},
    {AT(settings.batch_size), "chooses its batches itself", ARGUMENT},
    {AT(settings.optimizer), "has its own optimizer", ARGUMENT},
    {AT(settings.learn_rate), "has its own optimizer", ARGUMENT},
    {AT(settings.schedule), "has its own optimizer", ARGUMENT},
    {AT(settings.warmup_steps), "has its own optimizer", ARGUMENT},
    {AT(settings.momentum), "has its own optimizer", ARGUMENT},
    {AT(settings.weight_decay), "has its own optimizer", ARGUMENT},
    {AT(settings.clip_norm), "has its own optimizer",
     "Leave --%s out; the program clips the gradient that its optimizer gets."},
    {AT(settings.redundancy), "may compute a block's gradient with other last bits on each of its holders",
     "Leave --%s out; with --on-node-loss continue a job survives lost workers."},
    {AT(block_assignment), "may compute a block's gradient with other last bits on each of its holders",
     "Leave --%s out; with --on-node-loss continue a job survives lost workers."},
    {AT(settings.block_ratio), "chooses its batches itself",
     "Leave --%s out; a worker's contribution counts by the samples that its program reports."},
    {AT(settings.feed), "chooses its batches itself", "Leave --%s out; psgd.trainer.shard() divides rows."},
    {AT(settings.math), "computes by its own libraries", "Leave --%s out."},
    {AT(settings.threads), "computes by its own libraries",
     "Leave --%s out; the program sets its number of threads itself."},
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

/* A default of momentum depends on the optimizer, which --optimizer may name, too. */
static bool is_wanted(const struct options *o, size_t option)
{
    if (option == AT(settings.momentum))
        return o->has_momentum && o->settings.momentum > 0;
    return options_is_chosen(o, option) ||
           (option == AT(settings.optimizer) && o->settings.optimizer != OPTIMIZER_SGD && !o->preset);
}

static int check_own(const struct options *o, struct err *e)
{
    char name[ARGS_NAME], hint[TRAINER_HINT];
    const char *why;

    for (size_t i = 0; trainer_limits_option(i, name, &why, hint); i++) {
        if (!is_wanted(o, own[i].option))
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

static int check_rule(const struct codec_facts *f, struct err *e)
{
    const char *instead, *why = trainer_limits_rule(&instead, f);

    if (!why)
        return 0;
    err_set(e, ERR_CONFIG, "--trainer: codec %s %s", f->name, why);
    return err_hint(e, "%s", instead);
}

int trainer_limits_check(const struct options *o, const struct codec_facts *f, struct err *e)
{
    if (codec_list_is_one(o->codec)) {
        err_set(e, ERR_CONFIG,
                "--codec: a list is for the layers of a network of psgd, and %s has tensors of other names",
                program_of(o));
        return err_hint(
            e,
            "Compress its tensors by their names: --codec allreduce --compress 'head.weight=fp16;*=int8'.");
    }
    if (check_own(o, e) < 0 || check_partition(o, e) < 0)
        return e->code;
    return f ? check_rule(f, e) : 0;
}
