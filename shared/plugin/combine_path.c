#include "shared/plugin/combine_path.h"

#include <math.h>

/* A reason why a job cannot use a path. */
struct refusal {
    bool (*applies)(const struct combine_path_rule *p, const struct codec_job *job);
    const char *why, *hint;
};

static bool has_servers(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->n_servers > 0;
}

static bool has_no_servers(const struct combine_path_rule *p, const struct codec_job *job)
{
    return !has_servers(p, job);
}

static bool is_asgd(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return !job->is_sync;
}

static bool goes_on(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->goes_on;
}

static bool is_redundant(const struct combine_path_rule *p, const struct codec_job *job)
{
    return p->is_each_step && job->n_blocks != job->n_workers;
}

/* A job with unequal blocks weighs each contribution by its number of samples. An asynchronous job uses a
 * contribution when it arrives, without a weight; the agreement about lost workers (agreement.h) assumes one
 * contribution of each worker. */
static bool is_unequal_in_asgd(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->has_unequal_blocks && !job->is_sync;
}

static bool is_unequal_and_goes_on(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->has_unequal_blocks && job->goes_on;
}

static bool compresses_messages(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->is_compressed && !job->compresses_items;
}

static bool aggregates(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->aggregate.kind != AGGREGATE_MEAN;
}

static bool aggregates_in_asgd(const struct combine_path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && !job->is_sync;
}

static bool aggregates_unequal(const struct combine_path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && job->has_unequal_blocks;
}

static bool aggregates_a_sum(const struct combine_path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && p->sums;
}

static bool draws(const struct combine_path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->n_drawn < job->n_workers;
}

static bool draws_in_asgd(const struct combine_path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && !job->is_sync;
}

static bool draws_redundant(const struct combine_path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && is_redundant(p, job);
}

static bool draws_and_goes_on(const struct combine_path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && job->goes_on;
}

static bool returns_own_gradient(const struct combine_path_rule *p, const struct codec_job *job)
{
    return !job->is_sync && p->is_each_step && !p->updates_on_server;
}

bool combine_path_overlaps(const struct combine_path_rule *p, enum overlap wanted)
{
    return wanted == OVERLAP_AUTO ? p->overlaps : wanted == OVERLAP_ONE;
}

static bool overlaps(const struct combine_path_rule *p, const struct codec_job *job)
{
    return combine_path_overlaps(p, job->overlap);
}

#define NO_SERVERS                                                                                           \
    {                                                                                                        \
        has_servers, "is for workers only, and the job has parameter servers",                               \
            "With parameter servers, contributions go to them: --path servers, or no --path."                \
    }

#define NOT_LATE                                                                                             \
    {                                                                                                        \
        overlaps,                                                                                            \
            "combines the contributions of the present round, and combinations one exchange late "           \
            "(--overlap 1) need path allreduce or tree",                                                     \
            "Take --overlap 0, or a job that path allreduce allows."                                         \
    }

/* The reasons that hold for every path. */
static const struct refusal of_all[] = {
    {aggregates_in_asgd,
     "has no round whose contributions --aggregate could compare: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --aggregate out."},
    {draws_in_asgd, "has no round that --participate could draw workers for: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --participate out."},
    {is_unequal_in_asgd, "uses each contribution when it arrives, without a weight: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --block-ratio out."},
    {is_unequal_and_goes_on,
     "agrees about lost workers only if all have the same number of blocks, and --block-ratio differs",
     "Leave --on-node-loss continue out, or --block-ratio."},
    {draws_redundant, "needs a holder of each block in every round, and --participate leaves workers out",
     "Leave --redundancy or --block-ratio out, or --participate."},
    {aggregates_unequal,
     "cannot weigh contributions by their blocks, as --block-ratio requires, if --aggregate compares them",
     "Leave --aggregate or --block-ratio out."},
    {aggregates_a_sum, "sums, and --aggregate is for rules that take a mean", "Leave --aggregate out."},
    {0}};

static const struct refusal of_allreduce[] = {
    NO_SERVERS,
    {aggregates, "sums vectors on their way, and --aggregate compares them",
     "Take --path gather, or servers."},
    {draws, "sums over all workers, and --participate draws some", "Take --path gather, or servers."},
    {is_asgd, "waits for every worker, and the job is asynchronous", "Take --path gather, or servers."},
    {goes_on, "waits for every worker, and --on-node-loss is continue", "Take --path gather, or servers."},
    {is_redundant, "takes one gradient of each worker, and the job has redundant blocks or --block-ratio",
     "Take --path gather."},
    {compresses_messages, "sums vectors on their way, and this --compress makes each a message of its own",
     "fp16, bf16 and fixed8 (of up to 64 workers) can be summed; for others take --path gather, or servers."},
    {0}};
static const struct refusal of_gather[] = {
    NO_SERVERS,
    NOT_LATE,
    {draws_and_goes_on, "has all workers agree on a lost one, and with --participate some are not awaited",
     "Take parameter servers, or leave --participate or --on-node-loss out."},
    {0}};
static const struct refusal of_servers[] = {
    {has_no_servers, "needs parameter servers, and the job has none",
     "The list of workers names them under \"PS\"."},
    NOT_LATE,
    {is_redundant, "takes one gradient of each worker, and the job has redundant blocks or --block-ratio",
     "Leave the parameter servers out."},
    {returns_own_gradient,
     "would give each worker its own gradient back in asgd: the rule has no state on the servers",
     "Take --parallel_sgd ssgd, or a rule that updates on the servers, as ps."},
    {0}};

static const struct refusal *const refusals[COMBINE_PATH_KINDS] = {[COMBINE_PATH_ALLREDUCE] = of_allreduce,
                                                                   [COMBINE_PATH_TREE] = of_allreduce,
                                                                   [COMBINE_PATH_GATHER] = of_gather,
                                                                   [COMBINE_PATH_SERVERS] = of_servers};

static const struct refusal *refusal_of(const struct combine_path_rule *p, enum combine_path_kind kind,
                                        const struct codec_job *job)
{
    const struct refusal *const lists[] = {of_all, refusals[kind]};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct refusal *r = lists[i]; r->applies; r++)
            if (r->applies(p, job))
                return r;
    return NULL;
}

bool combine_path_waits_for_all(enum combine_path_kind kind)
{
    return refusals[kind] == of_allreduce;
}

const char *combine_path_name(enum combine_path_kind kind)
{
    static const char *const names[COMBINE_PATH_KINDS] = {[COMBINE_PATH_AUTO] = "auto",
                                                          COMBINE_PATHS(COMBINE_PATH_NAME)};

    return names[kind];
}

/* A share is not exact in binary: 0.07 x 100 is slightly above 7, and means 7 workers. */
int combine_path_drawn(double share, int n)
{
    int m = (int)ceil(share * n - 1e-9);

    return m < 1 ? 1 : m > n ? n : m;
}

/* The fastest path that the job allows. */
static enum combine_path_kind choose_path(const struct combine_path_rule *p, const struct codec_job *job)
{
    if (job->n_servers > 0)
        return COMBINE_PATH_SERVERS;
    if (refusal_of(p, COMBINE_PATH_ALLREDUCE, job))
        return COMBINE_PATH_GATHER;
    return job->layout.n_machines > 1 && path_cost_time(path_cost(COMBINE_PATH_TREE, &job->layout)) <
                                             path_cost_time(path_cost(COMBINE_PATH_ALLREDUCE, &job->layout))
               ? COMBINE_PATH_TREE
               : COMBINE_PATH_ALLREDUCE;
}

struct combine_path_rule combine_path_rule_of(const struct codec_plugin *p)
{
    return (struct combine_path_rule){.name = p->name,
                                      .is_each_step = p->combine->when == CODEC_EACH_STEP,
                                      .updates_on_server = codec_more(p)->updates_on_server,
                                      .sums = p->combine->reduction == CODEC_SUM,
                                      .overlaps = codec_more(p)->overlaps,
                                      .combines_params = p->combine->when == CODEC_EACH_ROUND &&
                                                         !p->combine->contribute &&
                                                         !p->combine->contributes_change,
                                      .applies = p->combine->apply,
                                      .adopts = p->combine->adopt};
}

bool combine_path_servers_send_params(const struct combine_path_rule *p, bool is_sync)
{
    return p->updates_on_server || !is_sync || (p->combines_params && (!p->applies || p->adopts));
}

enum codec_compression combine_path_compression(const struct codec_plugin *p)
{
    const struct codec_combine *r = p->combine;
    enum codec_compression declared = codec_more(p)->compression;

    if (declared != CODEC_BY_CONTENT)
        return declared;
    return r && (r->when == CODEC_EACH_STEP || r->contributes_change) ? CODEC_LOSSY : CODEC_LOSSLESS_ONLY;
}

bool combine_path_sends_params_down(const struct codec_plugin *p, bool is_sync)
{
    struct combine_path_rule rule;

    if (!p->combine)
        return codec_more(p)->compression == CODEC_LOSSY_PARAMS;
    rule = combine_path_rule_of(p);
    return combine_path_servers_send_params(&rule, is_sync);
}

bool combine_path_workers_continue(const struct combine_path_rule *p, bool is_sync)
{
    return p->combines_params && !p->adopts && (!is_sync || !p->applies);
}

int combine_path_choose(const struct combine_path_rule *p, enum combine_path_kind wanted,
                        const struct codec_job *job, struct err *e)
{
    enum combine_path_kind kind = wanted == COMBINE_PATH_AUTO ? choose_path(p, job) : wanted;
    const struct refusal *r = refusal_of(p, kind, job);

    if (!r && aggregate_check(&job->aggregate,
                              draws(p, job)     ? job->n_drawn
                              : p->is_each_step ? job->n_blocks
                                                : job->n_workers,
                              e) < 0)
        return err_at(e, "--aggregate");
    if (!r)
        return (int)kind;
    err_set(e, ERR_CODEC, "codec %s: path %s %s", p->name, combine_path_name(kind), r->why);
    return err_hint(e, "%s", r->hint);
}

int combine_path_check_unused(const char *name, enum combine_path_kind wanted, const struct codec_job *job,
                              struct err *e)
{
    if (job->has_unequal_blocks) {
        err_set(e, ERR_CODEC,
                "codec %s sends its own messages, which no samples weigh: --block-ratio does not apply to it",
                name);
        return err_hint(e, "Take a rule that combines, as plain or fedavg.");
    }
    if (wanted == COMBINE_PATH_AUTO && job->aggregate.kind == AGGREGATE_MEAN &&
        job->n_drawn == job->n_workers && job->overlap != OVERLAP_ONE)
        return 0;
    err_set(e, ERR_CODEC,
            "codec %s sends its own messages: --path, --aggregate, --participate and --overlap do not apply "
            "to it",
            name);
    return err_hint(e, "`codecs show NAME` lists the paths of a codec that has some.");
}
