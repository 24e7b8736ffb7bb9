#include "submit/stages/rule_settings.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "codecs/compress/chain_list.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/combine_path.h"
#include "submit/codecs/chain_layers.h"
#include "submit/codecs/codec_look.h"
#include "submit/compat/optimizer_names.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

/* True if the job lacks what an option needs. */
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

static bool has_no_trainer(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return !s->opt->trainer[0];
}

static bool has_a_model(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->opt->simulation.gradients == 0;
}

static bool has_no_decay(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->settings.weight_decay == 0;
}

static bool has_no_model(const struct submission *s, const struct codec_facts *f)
{
    return !has_a_model(s, f);
}

#define AT(member) offsetof(struct options, member)
#define STAND_IN   "--gradients stands in for model and data"

enum {
    OF_CODEC = 1, /* the message names the codec before `why` */
    OF_RULE = 2,  /* a rule with this option also has it as its own parameter */
    LATE = 4      /* checked once servers and path are chosen */
};

/* A line for each option and what it needs. Options not listed here always have an effect, or are refused
 * elsewhere (paths: shared/plugin/combine_path.h; options of servers: stage_read.c).
 * Only options that were given count: on the command line, or in the run.json that a job is made from if they
 * differ from the default; not those that a preset stands for (presets.h). */
static const struct effect {
    size_t option;
    without *is_without;
    const char *why;
    unsigned how;
} effects[] = {
    {AT(settings.local_steps), has_no_local_steps,
     "exchanges in each step, or itself decides when; the option is for rules that exchange weights after "
     "local steps, such as fedavg",
     OF_CODEC | OF_RULE},
    {AT(settings.allreduce), sums_by_no_collective,
     "sums no vectors over all workers here, which path allreduce or tree does", OF_CODEC | LATE},
    {AT(settings.partition), has_shared_samples, "with --feed shared every worker has all samples", 0},
    {AT(settings.non_iid), has_shared_samples, "with --feed shared every worker has all samples", 0},
    {AT(settings.decay_of), has_no_decay, "without --weight-decay no parameter has one", 0},
    {AT(main), has_no_trainer, "it names a file of --trainer DIR, and the job has no training program", 0},
    {AT(trainer_python), has_no_trainer, "it starts a training program, and the job has none", 0},
    {AT(simulation.client_processes), has_no_trainer, "they are of --trainer, and the job has none", 0},
    {AT(retry_on), has_no_retries, "without --retries no job is tried again", 0},
    {AT(simulation.server_link), has_no_servers, "without --servers there are no servers", LATE},
    {AT(steps), has_a_model, "an epoch has the steps of its data set; --steps is for --gradients", 0},
    {AT(trainer), has_no_model, STAND_IN, 0},
    {AT(model), has_no_model, STAND_IN, 0},
    {AT(settings.dataset), has_no_model, STAND_IN, 0},
    {AT(data), has_no_model, STAND_IN, 0},
    {AT(settings.data_on_agent), has_no_model, STAND_IN, 0},
    {AT(settings.batch_size), has_no_model, STAND_IN, 0},
    {AT(settings.accumulate), has_no_model, STAND_IN, 0},
    {AT(max_tokens), has_no_model, STAND_IN, 0},
    {AT(settings.transform), has_no_model, STAND_IN, 0},
    {AT(settings.partition), has_no_model, STAND_IN, 0},
    {AT(settings.non_iid), has_no_model, STAND_IN, 0},
    {AT(settings.math), has_no_model, STAND_IN, 0},
    {AT(settings.threads), has_no_model, STAND_IN, 0},
};

static int refuse_without_effect(const struct effect *x, const struct codec_facts *f, struct err *e)
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

static int check_effects(const struct submission *s, const struct codec_facts *f, bool is_placed,
                         struct err *e)
{
    for (const struct effect *x = effects; x < effects + sizeof effects / sizeof *effects; x++)
        if (!(x->how & LATE) != is_placed && options_is_chosen(s->opt, x->option) && x->is_without(s, f))
            return refuse_without_effect(x, f, e);
    return 0;
}

/* The codec's parameter `every` is another name of --local-steps. */
static int choose_local_steps(struct settings *set, const struct codec_facts *f, struct err *e)
{
    if (f->every != 0 && set->local_steps != 0 && set->local_steps != f->every)
        return err_set(e, ERR_CONFIG,
                       "--local-steps %d and --codec %s:every=%d set the same parameter to different values",
                       set->local_steps, f->name, f->every);
    if (f->every != 0)
        set->local_steps = f->every;
    return 0;
}

/* The job as limits and paths see it; its layout is not set. */
static int describe_job(struct codec_job *job, const struct settings *set, struct err *e)
{
    struct blocks b;

    *job = (struct codec_job){
        .n_workers = set->node_count,
        .n_servers = set->server_count,
        .redundancy = set->redundancy,
        .overlap = set->overlap,
        .n_drawn = combine_path_drawn(set->participate, set->node_count),
        .is_sync = set->sync == SYNC_SSGD,
        .goes_on = set->on_node_loss == NODE_LOSS_CONTINUES,
        .clips = set->clip_norm > 0,
        .is_compressed = set->compress[0] || set->compress_down[0],
        .compresses_items = chain_pair_sums(set->compress, set->compress_down, set->node_count)};

    if (settings_blocks(&b, set, e) < 0)
        return options_setting_error(e);
    job->n_blocks = b.n_blocks;
    job->has_unequal_blocks = !b.is_equal;
    blocks_clear(&b);
    return aggregate_parse(&job->aggregate, set->aggregate, e) < 0 ? err_at(e, "--aggregate") : 0;
}

static int check_limits(const struct settings *set, const struct codec_facts *f, unsigned limits,
                        struct err *e)
{
    struct codec_job job;

    return describe_job(&job, set, e) < 0 ? e->code : codec_check_limits(f->name, limits, &job, e);
}

bool rule_settings_is_quiescent(const struct codec_facts *f, const struct settings *set)
{
    const struct combine_path_rule rule = {.overlaps = f->overlaps};

    if (f->combines)
        return !combine_path_overlaps(&rule, set->overlap);
    return !f->has_events || f->is_quiescent_between_steps;
}

static bool has_program(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->settings.trainer[0];
}

static bool is_asgd(const struct submission *s, const struct codec_facts *f)
{
    (void)f;
    return s->settings.sync == SYNC_ASGD;
}

static bool has_own_messages(const struct submission *s, const struct codec_facts *f)
{
    (void)s;
    return !f->combines;
}

static bool has_own_weights(const struct submission *s, const struct codec_facts *f)
{
    (void)s;
    return f->adopts || !f->ends_equal;
}

static bool has_own_corrections(const struct submission *s, const struct codec_facts *f)
{
    (void)s;
    return f->changes_grads && f->says_contribution;
}

/* Of psgd's own rules only easgd keeps what follows from the number of workers, and it has weights of its
 * own. */
static bool open_may_depend_on_n_workers(const struct submission *s, const struct codec_facts *f)
{
    return f->has_open && f->state_size > 0 && !s->codec.is_tried;
}

static const struct {
    bool (*applies)(const struct submission *s, const struct codec_facts *f);
    const char *why;
} own_states[] = {
    {has_program, "each worker's training program has saved a state of its own"},
    {is_asgd, "in asgd the workers are never at the same point"},
    {has_own_messages, "the codec sends messages of its own, so each node may keep a state of its own"},
    {has_own_weights, "the codec gives each worker weights of its own"},
    {has_own_corrections, "the codec corrects the gradients of each worker by a state of its own"},
    {open_may_depend_on_n_workers, "the codec's open() may prepare its state for the number of workers"},
};

const char *rule_settings_own_state(const struct submission *s, const struct codec_facts *f)
{
    for (size_t k = 0; k < sizeof own_states / sizeof *own_states; k++)
        if (own_states[k].applies(s, f))
            return own_states[k].why;
    return NULL;
}

/* With --compress-down each worker has a copy of the servers' parameters of its own, and running statistics
 * are known to be equal only where the host combines them. */
bool rule_settings_divides_test(const struct submission *s, const struct codec_facts *f)
{
    const struct settings *set = &s->settings;
    const struct combine_path_rule rule = {.overlaps = f->overlaps};
    bool has_statistics = s->model_spec.n_trained < s->model_spec.n_params;

    if (set->sync != SYNC_SSGD || set->on_node_loss == NODE_LOSS_CONTINUES || set->node_count < 2 ||
        set->trainer[0] || s->opt->simulation.gradients > 0)
        return false;
    if (!f->ends_equal || f->has_events || set->compress_down[0] || s->server_codec.object.len > 0)
        return false;
    return f->combines ? f->sends_grads || !combine_path_overlaps(&rule, set->overlap)
                       : f->sends_grads && !has_statistics;
}

int rule_settings_check_compression(const struct submission *s, const struct codec_facts *f, struct err *e)
{
    const struct settings *set = &s->settings;
    bool is_known = !s->opt->trainer[0] || s->model_spec.n_tensors > 0; /* a program's model comes late */
    bool has_layers = s->opt->simulation.gradients == 0 && is_known;
    struct chain_pair pair;

    if (set->compress_down[0] && !codec_has_server_side(f))
        return err_set(e, ERR_CONFIG, "--compress-down %s: codec %s has no server side", set->compress_down,
                       f->name);
    if (chain_pair_parse(&pair, set->compress, set->compress_down, f->name, f->compression,
                         codec_servers_send_params(f, set->sync == SYNC_SSGD), e) < 0)
        return e->code;
    if (s->opt->simulation.gradients > 0 && (pair.up.is_by_layer || pair.down.is_by_layer))
        return err_set(e, ERR_CONFIG,
                       "--compress: a list is for the layers of a model, and --gradients has none");
    if (has_layers && chain_layers_check(&pair.up, &s->model_spec, e) < 0)
        return err_at(e, "--compress");
    return has_layers && chain_layers_check(&pair.down, &s->model_spec, e) < 0 ? err_at(e, "--compress-down")
                                                                               : 0;
}

static const char *host_of(const struct listed_agent *w)
{
    return w->advertise[0] ? w->advertise : w->host;
}

/* Workers with one host name run on one machine. A simulation has no list of workers. */
static struct path_layout layout_of(const struct submission *s)
{
    uint64_t n_params = s->opt->simulation.gradients;
    int n = s->settings.node_count, each = s->opt->simulation.workers_per_machine;
    struct path_layout l = {
        .n_workers = n, .n_machines = (n + each - 1) / each, .n_here_most = n < each ? n : each};

    l.bytes = 4.0 * (double)(n_params > 0 ? n_params : s->model_spec.n_params);
    if (!s->workers.nodes)
        return l;
    l.n_machines = l.n_here_most = 0;
    for (int i = 0; i < n; i++) {
        int n_here = 0, first = n;

        for (int k = n - 1; k >= 0; k--)
            if (strcmp(host_of(&s->workers.nodes[i]), host_of(&s->workers.nodes[k])) == 0) {
                n_here++;
                first = k;
            }
        l.n_machines += first == i;
        l.n_here_most = n_here > l.n_here_most ? n_here : l.n_here_most;
    }
    return l;
}

/* Notes the costs of the paths between workers; prints them if path tree was chosen because of several
 * machines. */
static void report_path(struct submission *s, enum combine_path_kind wanted, const struct path_layout *l)
{
    static const enum combine_path_kind compared[] = {COMBINE_PATH_ALLREDUCE, COMBINE_PATH_TREE,
                                                      COMBINE_PATH_GATHER};
    json_t *estimates = json_object();
    enum combine_path_kind kind = s->settings.path;
    struct path_cost c = path_cost(kind, l), flat = path_cost(COMBINE_PATH_ALLREDUCE, l);
    char text[2][TEXT_AMOUNT];

    for (size_t i = 0; l->n_machines > 1 && i < sizeof compared / sizeof *compared; i++) {
        struct path_cost k = path_cost(compared[i], l);

        json_object_set_new(estimates, combine_path_name(compared[i]),
                            json_pack("{s:i, s:f}", "messages", k.messages, "bytes", k.bytes));
    }
    json_object_set_new(s->facts, "path",
                        json_pack("{s:s, s:s, s:i, s:o}", "wanted", combine_path_name(wanted), "chosen",
                                  combine_path_name(kind), "machines", l->n_machines, "estimates",
                                  estimates));
    if (kind == COMBINE_PATH_TREE && wanted == COMBINE_PATH_AUTO)
        console_info(
            "Path tree: an exchange takes %d messages one after the other and %s through a machine's link; "
            "by path allreduce %d and %s.",
            c.messages, text_bytes(text[0], (uint64_t)c.bytes), flat.messages,
            text_bytes(text[1], (uint64_t)flat.bytes));
}

/* Sets the path of a rule that combines, so that all nodes take the same one, and notes it in s->facts. */
static int choose_path(struct submission *s, const struct codec_facts *f, struct err *e)
{
    struct settings *set = &s->settings;
    enum combine_path_kind wanted = set->path;
    bool sums_at_once = wanted == COMBINE_PATH_AUTO && set->allreduce == COLLECTIVE_MPI;
    const struct combine_path_rule rule = {.name = f->name,
                                           .is_each_step = f->sends_grads,
                                           .updates_on_server = f->updates_on_server,
                                           .sums = f->sums,
                                           .overlaps = f->overlaps};
    struct codec_job job;
    int kind;

    if (describe_job(&job, set, e) < 0)
        return e->code;
    if (!f->combines)
        return combine_path_check_unused(f->name, set->path, &job, e);
    job.layout = layout_of(s);
    kind = combine_path_choose(&rule, sums_at_once ? COMBINE_PATH_ALLREDUCE : wanted, &job, e);
    if (kind < 0)
        return kind;
    set->path = (enum combine_path_kind)kind;
    set->overlap = combine_path_overlaps(&rule, set->overlap) ? OVERLAP_ONE : OVERLAP_NONE;
    if (set->node_count > 1)
        report_path(s, wanted, &job.layout);
    return 0;
}

int rule_settings_check(struct submission *s, const struct codec_facts *f, struct err *e)
{
    unsigned limits = f->limits & ~(unsigned)CODEC_ASGD_NEEDS_SERVERS; /* servers are chosen later */

    if (optimizer_names_check(s->opt->optimizer, f, e) < 0 || check_effects(s, f, false, e) < 0 ||
        choose_local_steps(&s->settings, f, e) < 0)
        return e->code;
    return check_limits(&s->settings, f, limits, e);
}

int rule_settings_check_limits(const struct submission *s, const struct codec_facts *f, struct err *e)
{
    return check_limits(&s->settings, f, f->limits, e);
}

/* Muon needs matrices as a whole, and to know which are the embedding and the head. */
static int check_muon(const struct submission *s, const struct codec_facts *f, struct err *e)
{
    const struct settings *set = &s->settings;

    if (set->optimizer != OPTIMIZER_MUON)
        return 0;
    if (s->opt->trainer[0]) {
        err_set(e, ERR_CONFIG,
                "--gradient-descent muon: a program does not say which of its tensors are its "
                "embedding and its head, which muon leaves to adamw");
        return err_hint(e, "Take --gradient-descent adamw or lion.");
    }
    if (!f->updates_on_server || set->server_count < 2 || set->placement == PLACEMENT_ROUND_ROBIN)
        return 0;
    err_set(
        e, ERR_CONFIG,
        "--gradient-descent muon updates matrices as a whole, and each of the %d servers that run it under "
        "codec %s may have a part of one",
        set->server_count, f->name);
    return err_hint(e, "--placement round_robin gives whole tensors to the servers.");
}

int rule_settings_choose_path(struct submission *s, const struct codec_facts *f, struct err *e)
{
    return check_muon(s, f, e) < 0 || choose_path(s, f, e) < 0 ? e->code : check_effects(s, f, true, e);
}
