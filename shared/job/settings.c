#include "shared/job/settings.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/aggregate.h"
#include "shared/job/schedule.h"

enum { BLOCK_SAMPLES_MAX = 1000000 };

#define F(name, json_type, ...)                                                                              \
    {                                                                                                        \
        .key = #name, .kind = json_type, JSON_AT(struct settings, name), __VA_ARGS__                         \
    }

/* may_change: a job that resumes another one may have another value. */
static const struct json_field fields[] = {
    F(version, JSON_FIELD_INT, .required = true, .min = 1, .max = 1),
    F(name, JSON_FIELD_TEXT, .required = true, .may_change = true),
    F(seed, JSON_FIELD_U64, .required = true, .min = 0, .max = 0x1p53),
    F(node_count, JSON_FIELD_INT, .required = true, .min = 1, .max = SIMULATED_NODES_MAX),
    F(server_count, JSON_FIELD_INT, .min = 0, .max = SIMULATED_NODES_MAX),
    F(codec, JSON_FIELD_TEXT, .required = true),
    F(server_codec, JSON_FIELD_TEXT, .required = false),
    F(codec_options, JSON_FIELD_TEXT, .required = false),
    F(server_codec_options, JSON_FIELD_TEXT, .required = false),
    F(compress, JSON_FIELD_TEXT, .required = false),
    F(compress_down, JSON_FIELD_TEXT, .required = false),
    F(sync, JSON_FIELD_CHOICE, .choices = SYNC_CHOICES),
    F(local_steps, JSON_FIELD_INT, .min = 0, .max = 1e9),
    F(epochs, JSON_FIELD_INT, .required = true, .min = 1, .max = 1e6, .may_change = true),
    F(max_steps, JSON_FIELD_INT, .min = 0, .max = 1e9, .may_change = true),
    F(steps_per_epoch, JSON_FIELD_INT, .min = 0, .max = 1e9),
    F(batch_size, JSON_FIELD_INT, .required = true, .min = 1, .max = 1e6),
    F(accumulate, JSON_FIELD_INT, .min = 1, .max = 1e6),
    F(redundancy, JSON_FIELD_INT, .min = 1, .max = SIMULATED_NODES_MAX),
    F(block_assignment, JSON_FIELD_CHOICE, .choices = BLOCK_ASSIGNMENT_CHOICES),
    F(block_ratio, JSON_FIELD_TEXT, .required = false),
    F(feed, JSON_FIELD_CHOICE, .choices = FEED_CHOICES),
    {.key = "gradient_descent",
     .kind = JSON_FIELD_CHOICE,
     JSON_AT(struct settings, optimizer),
     .choices = OPTIMIZER_CHOICES},
    F(learn_rate, JSON_FIELD_DOUBLE, .min = 1e-30, .max = 1e30),
    F(schedule, JSON_FIELD_TEXT, .required = false),
    F(warmup_steps, JSON_FIELD_INT, .min = 0, .max = 1e9),
    F(momentum, JSON_FIELD_DOUBLE, .min = 0, .max = 0.9999),
    F(weight_decay, JSON_FIELD_DOUBLE, .min = 0, .max = 1e3),
    F(beta1, JSON_FIELD_DOUBLE, .min = 0, .max = 0.999999),
    F(beta2, JSON_FIELD_DOUBLE, .min = 0, .max = 0.999999),
    F(epsilon, JSON_FIELD_DOUBLE, .min = 0, .max = 1),
    F(adamw_rate, JSON_FIELD_DOUBLE, .min = 0, .max = 1e30),
    F(decay_of, JSON_FIELD_CHOICE, .choices = DECAY_OF_CHOICES),
    F(clip_norm, JSON_FIELD_DOUBLE, .min = 0, .max = 1e30),
    F(on_nonfinite, JSON_FIELD_CHOICE, .choices = ON_NONFINITE_CHOICES),
    F(non_iid, JSON_FIELD_BOOL, .required = false),
    F(partition, JSON_FIELD_TEXT, .required = false),
    F(transform, JSON_FIELD_TEXT, .required = false),
    F(dataset, JSON_FIELD_TEXT, .required = true),
    F(data_on_agent, JSON_FIELD_TEXT, .required = false, .may_change = true),
    F(data_fingerprint, JSON_FIELD_TEXT, .required = false, .may_change = true),
    F(model, JSON_FIELD_TEXT, .required = true),
    F(math, JSON_FIELD_CHOICE, .choices = MATH_CHOICES),
    F(threads, JSON_FIELD_INT, .min = 1, .max = 1024),
    F(placement, JSON_FIELD_CHOICE, .choices = PLACEMENT_CHOICES),
    F(path, JSON_FIELD_CHOICE, .choices = COMBINE_PATH_CHOICES, .may_change = true),
    F(aggregate, JSON_FIELD_TEXT, .required = false),
    F(overlap, JSON_FIELD_CHOICE, .choices = OVERLAP_CHOICES),
    F(participate, JSON_FIELD_DOUBLE, .min = 1e-6, .max = 1),
    F(allreduce, JSON_FIELD_CHOICE, .choices = ALLREDUCE_CHOICES),
    F(record_every, JSON_FIELD_INT, .min = 1, .max = 1e9, .may_change = true),
    F(eval_every, JSON_FIELD_INT, .min = 0, .max = 1e9, .may_change = true),
    F(target_accuracy, JSON_FIELD_DOUBLE, .min = 0, .max = 1, .may_change = true),
    F(patience, JSON_FIELD_INT, .min = 0, .max = 1e6, .may_change = true),
    F(shares_evaluations, JSON_FIELD_BOOL, .required = false, .may_change = true),
    F(divides_test, JSON_FIELD_BOOL, .required = false, .may_change = true),
    F(round_timeout_s, JSON_FIELD_DOUBLE, .min = 0.1, .max = 1e6, .may_change = true),
    F(on_node_loss, JSON_FIELD_CHOICE, .choices = ON_NODE_LOSS_CHOICES, .may_change = true),
    F(min_nodes, JSON_FIELD_INT, .min = 1, .max = SIMULATED_NODES_MAX, .may_change = true),
    F(local_path, JSON_FIELD_CHOICE, .choices = LOCAL_PATH_CHOICES),
    F(transport, JSON_FIELD_CHOICE, .choices = TRANSPORT_CHOICES, .may_change = true),
    F(data_tls, JSON_FIELD_CHOICE, .choices = DATA_TLS_CHOICES, .may_change = true),
    F(time_limit_s, JSON_FIELD_DOUBLE, .min = 1, .max = TIME_LIMIT_MAX_S, .may_change = true),
    F(trace, JSON_FIELD_BOOL, .required = false, .may_change = true),
    F(checkpoint_every, JSON_FIELD_INT, .min = 0, .max = 1e6, .may_change = true),
    F(checkpoint_steps, JSON_FIELD_INT, .min = 0, .max = 1e9, .required = false, .may_change = true),
    F(executor, JSON_FIELD_BOOL, .required = false),
    F(trainer, JSON_FIELD_TEXT, .required = false),
    F(arguments, JSON_FIELD_TEXT, .required = false),
    F(starts_from, JSON_FIELD_CHOICE, .choices = STARTS_FROM_CHOICES, .may_change = true),
    {0},
};

void settings_default(struct settings *s)
{
    /* The default of a choice is the first of its list, except for data_tls. */
    *s = (struct settings){
        .version = 1,
        .name = "psgd",
        .seed = 1,
        .node_count = 1,
        .codec = "plain",
        .epochs = 2,
        .batch_size = 64,
        .accumulate = 1,
        .redundancy = 1,
        .learn_rate = optimizer_kinds[OPTIMIZER_SGD].learn_rate,
        .schedule = "constant",
        .momentum = 0.9,
        .min_nodes = 1,
        .aggregate = "mean",
        .participate = 1,
        .partition = "iid",
        .transform = "unit",
        .dataset = "digits",
        .model = "mlp-tutorial",
        .threads = 1,
        .record_every = 1,
        .round_timeout_s = 60,
        .data_tls = DATA_TLS_AUTO,
        .time_limit_s = 86400,
    };
}

const struct json_field *settings_field(size_t offset)
{
    const struct json_field *f = fields;

    while (f->key && f->offset != offset)
        f++;
    return f->key ? f : NULL;
}

size_t settings_block_samples(const struct settings *s)
{
    return (size_t)s->batch_size * (size_t)s->accumulate;
}

uint64_t settings_steps(const struct settings *s)
{
    uint64_t n = (uint64_t)s->epochs * (uint64_t)s->steps_per_epoch, most = (uint64_t)s->max_steps;

    return most > 0 && most < n ? most : n;
}

bool settings_has_checkpoints(const struct settings *s)
{
    return s->checkpoint_every > 0 || s->checkpoint_steps > 0;
}

uint64_t settings_checkpoint_steps(const struct settings *s)
{
    return s->checkpoint_steps > 0 ? (uint64_t)s->checkpoint_steps
                                   : (uint64_t)s->checkpoint_every * (uint64_t)s->steps_per_epoch;
}

bool settings_saves_after(const struct settings *s, uint64_t step)
{
    uint64_t apart = settings_checkpoint_steps(s);

    return apart > 0 && step > 0 && step % apart == 0;
}

static int shared_blocks(struct blocks *b, const struct settings *s, struct err *e)
{
    if (s->redundancy > 1 || s->block_assignment != BLOCKS_IID || s->block_ratio[0])
        return err_set(e, ERR_CONFIG,
                       "/feed: all workers have all samples; leave --redundancy, --block_assignment and "
                       "--block-ratio out");
    if (s->sync != SYNC_ASGD)
        return err_set(
            e, ERR_CONFIG,
            "/feed: workers that share the mini-batches make unequal numbers of steps; that is for "
            "--parallel_sgd asgd");
    if (settings_has_checkpoints(s) || s->starts_from == STARTS_FROM_CHECKPOINT)
        return err_set(e, ERR_CONFIG, "/feed: a job with shared mini-batches writes no checkpoints");
    return blocks_init_shared(b, s->node_count, e);
}

int settings_blocks(struct blocks *b, const struct settings *s, struct err *e)
{
    if (s->feed == FEED_SHARED)
        return shared_blocks(b, s, e);
    if (!s->block_ratio[0])
        return blocks_init(b, s->block_assignment, s->node_count, s->redundancy, e) < 0
                   ? err_at(e, "/block_assignment")
                   : 0;
    if (s->redundancy > 1)
        return err_set(e, ERR_CONFIG,
                       "/block_ratio: each block has one holder, and redundancy is %d; leave one of them out",
                       s->redundancy);
    if (s->block_assignment != BLOCKS_IID)
        return err_set(
            e, ERR_CONFIG,
            "/block_ratio: --block_assignment assigns the blocks to workers, too; leave one of the two out");
    return blocks_init_ratio(b, s->block_ratio, s->node_count, e) < 0 ? err_at(e, "/block_ratio") : 0;
}

/* Refuses what the job's transport cannot do. */
static int check_transport(const struct settings *s, struct err *e)
{
    const struct transport_traits *t = &transport_traits[s->transport];

    if (!t->reports_loss && s->on_node_loss == NODE_LOSS_CONTINUES)
        err_set(e, ERR_CONFIG,
                "/on_node_loss: over %s a job cannot continue without a lost node: its loss is not reported "
                "to the others, but ends them",
                t->name);
    else if (!t->is_encrypted && s->data_tls == DATA_TLS_ON)
        err_set(e, ERR_CONFIG, "/data_tls: %s does not encrypt what nodes send each other", t->name);
    else
        return 0;
    return err_hint(e, "Leave --transport %s or that option out.", t->name);
}

/* Refuses a job that the transport's own all-reduce cannot sum. */
static int check_allreduce(const struct settings *s, struct err *e)
{
    const struct transport_traits *t = &transport_traits[s->transport];

    if (s->allreduce != COLLECTIVE_MPI)
        return 0;
    if (!t->reduces) {
        err_set(e, ERR_CONFIG, "/allreduce: mpi is the all-reduce of --transport mpi, and %s has none",
                t->name);
        return err_hint(e, "Take --transport mpi, or leave --allreduce out.");
    }
    if (s->path == COMBINE_PATH_TREE)
        err_set(e, ERR_CONFIG,
                "/path: tree sums inside each machine first, and --allreduce mpi by MPI alone");
    else if (s->compress[0] || s->compress_down[0])
        err_set(e, ERR_CONFIG, "/compress: with --allreduce mpi MPI sums floats, which it does not compress");
    else
        return 0;
    return err_hint(e, "Leave --allreduce mpi or that option out.");
}

int settings_check(const struct settings *s, struct err *e)
{
    struct schedule schedule;
    struct aggregate aggregate;
    struct blocks b;

    if (!s->name[0] || strspn(s->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
                           strlen(s->name))
        return err_set(e, ERR_CONFIG,
                       "/name: \"%s\" has characters other than letters, digits, '-', '_' and '.'", s->name);
    if (settings_blocks(&b, s, e) < 0)
        return e->code;
    blocks_clear(&b);
    if (check_transport(s, e) < 0 || check_allreduce(s, e) < 0)
        return e->code;
    if (s->checkpoint_every > 0 && s->checkpoint_steps > 0)
        return err_set(e, ERR_CONFIG,
                       "/checkpoint_steps: there are checkpoints every %d epochs already; leave one of "
                       "--checkpoint-every and --checkpoint-steps out",
                       s->checkpoint_every);
    if (s->divides_test && (s->sync != SYNC_SSGD || s->on_node_loss == NODE_LOSS_CONTINUES || s->executor))
        return err_set(
            e, ERR_CONFIG,
            "/divides_test: only workers that evaluate together, and end together, divide a test set");
    if (s->data_on_agent[0] && data_place_check(s->data_on_agent, e) < 0)
        return err_at(e, "/data_on_agent");
    if (settings_block_samples(s) > BLOCK_SAMPLES_MAX)
        return err_set(e, ERR_CONFIG,
                       "/accumulate: %d passes of %d samples are more than %d samples in a step",
                       s->accumulate, s->batch_size, BLOCK_SAMPLES_MAX);
    if (s->min_nodes > s->node_count)
        return err_set(e, ERR_CONFIG, "/min_nodes: %d is more than the %d workers", s->min_nodes,
                       s->node_count);
    if (schedule_parse(&schedule, s->schedule, e) < 0)
        return err_at(e, "/schedule");
    if (aggregate_parse(&aggregate, s->aggregate, e) < 0)
        return err_at(e, "/aggregate");
    return 0;
}

void settings_set_optimizer(struct settings *s, enum optimizer_kind kind)
{
    const struct optimizer_defaults *own = &optimizer_kinds[kind];

    s->optimizer = kind;
    s->beta1 = own->beta1;
    s->beta2 = own->beta2;
    s->epsilon = own->epsilon;
    s->adamw_rate = own->adamw_rate;
}

/* A document of an earlier version has no betas and no epsilon: they were the optimizer's own. */
static int parse_fields(struct settings *s, const json_t *doc, struct err *e)
{
    settings_default(s);
    if (json_to_struct(s, doc, fields, "", e) < 0)
        return e->code;
    settings_set_optimizer(s, s->optimizer);
    return json_to_struct(s, doc, fields, "", e);
}

int settings_parse(struct settings *s, const json_t *doc, struct err *e)
{
    struct settings t;

    if (parse_fields(&t, doc, e) < 0 || settings_check(&t, e) < 0)
        return e->code;
    if (t.non_iid && strcmp(t.partition, "iid") == 0)
        strcpy(t.partition, "label_sorted");
    if (!t.server_codec[0]) {
        memcpy(t.server_codec, t.codec, sizeof t.codec);
        memcpy(t.server_codec_options, t.codec_options, sizeof t.codec_options);
    }
    *s = t;
    return 0;
}

json_t *settings_json(const struct settings *s)
{
    return json_from_struct(s, fields);
}

int settings_check_resume(const struct settings *s, const json_t *then, struct err *e)
{
    struct settings t;
    json_t *a, *b, *v;
    const char *key;
    int rc = 0;

    if (settings_parse(&t, then, e) < 0)
        return err_at(e, "the earlier job's settings");
    a = settings_json(s);
    b = settings_json(&t);
    for (const struct json_field *f = fields; f->key; f++)
        if (f->may_change)
            json_object_del(a, f->key);
    json_object_foreach(a, key, v)
    {
        const json_t *w = json_object_get(b, key);
        char *now = json_dump(v, 0);
        char *earlier = json_dump(w, 0);

        if (rc == 0 && !json_equal(v, w))
            rc = err_set(e, ERR_CONFIG, "%s was %s in the earlier job, and is %s now", key,
                         earlier ? earlier : "another", now ? now : "different");
        free(now);
        free(earlier);
    }
    json_decref(a);
    json_decref(b);
    return rc;
}
