#include "shared/plugin/combine_path.h"

#include <math.h>

/* Why a job cannot use a path. */
struct refusal {
    bool (*applies)(const struct path_rule *p, const struct codec_job *job);
    const char *why, *hint;
};

static bool has_servers(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->n_servers > 0;
}

static bool has_no_servers(const struct path_rule *p, const struct codec_job *job)
{
    return !has_servers(p, job);
}

static bool is_asgd(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return !job->is_sync;
}

static bool goes_on(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->goes_on;
}

static bool is_redundant(const struct path_rule *p, const struct codec_job *job)
{
    return p->is_each_step && job->n_blocks != job->n_workers;
}

/* Such a job weighs contributions by the samples that they are computed from. In asgd a worker's contribution
 * is used as it comes; and the agreement about lost workers knows one contribution of each. */
static bool is_unequal_in_asgd(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->has_unequal_blocks && !job->is_sync;
}

static bool is_unequal_and_goes_on(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->has_unequal_blocks && job->goes_on;
}

static bool compresses_messages(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->is_compressed && !job->compresses_items;
}

static bool aggregates(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->aggregate.kind != AGGREGATE_MEAN;
}

static bool aggregates_in_asgd(const struct path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && !job->is_sync;
}

static bool aggregates_unequal(const struct path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && job->has_unequal_blocks;
}

static bool aggregates_a_sum(const struct path_rule *p, const struct codec_job *job)
{
    return aggregates(p, job) && p->sums;
}

static bool draws(const struct path_rule *p, const struct codec_job *job)
{
    (void)p;
    return job->n_drawn < job->n_workers;
}

static bool draws_in_asgd(const struct path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && !job->is_sync;
}

static bool draws_redundant(const struct path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && is_redundant(p, job);
}

static bool draws_and_goes_on(const struct path_rule *p, const struct codec_job *job)
{
    return draws(p, job) && job->goes_on;
}

static bool never_meets(const struct path_rule *p, const struct codec_job *job)
{
    return !job->is_sync && p->is_each_step && !p->updates_on_server;
}

bool path_overlaps(const struct path_rule *p, enum overlap wanted)
{
    return wanted == OVERLAP_AUTO ? p->overlaps : wanted == OVERLAP_ONE;
}

static bool overlaps(const struct path_rule *p, const struct codec_job *job)
{
    return path_overlaps(p, job->overlap);
}

#define NO_SERVERS                                                                                           \
    {                                                                                                        \
        has_servers, "is for workers only, and the job has parameter servers",                               \
            "With parameter servers, contributions go to them: --path servers, or no --path."                \
    }

#define NOT_LATE                                                                                             \
    {                                                                                                        \
        overlaps,                                                                                            \
            "combines what its own round contributed, and combinations one exchange late "                   \
            "(--overlap 1) need path allreduce or tree",                                                     \
            "Take --overlap 0, or a job that path allreduce allows."                                         \
    }

/* Every path refuses these. */
static const struct refusal of_all[] = {
    {aggregates_in_asgd,
     "has no round whose contributions --aggregate could compare: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --aggregate out."},
    {draws_in_asgd, "has no round that --participate could draw workers for: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --participate out."},
    {is_unequal_in_asgd, "uses each contribution as it comes, whatever its samples: the job is asynchronous",
     "Take --parallel_sgd ssgd, or leave --block-ratio out."},
    {is_unequal_and_goes_on, "goes on with as many contributions of each worker, and --block-ratio differs",
     "Leave --on-node-loss continue out, or --block-ratio."},
    {draws_redundant, "awaits any holder of a block, and --participate draws workers",
     "Leave --redundancy or --block-ratio out, or --participate."},
    {aggregates_unequal,
     "would have --aggregate count workers as often as they have blocks, or all alike: with --block-ratio "
     "neither is what is asked for",
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
    {never_meets,
     "would give each worker its own gradient back in asgd: the rule has no state on the servers",
     "Take --parallel_sgd ssgd, or a rule that updates on the servers, as ps."},
    {0}};

static const struct refusal *const refusals[PATH_KINDS] = {[PATH_ALLREDUCE] = of_allreduce,
                                                           [PATH_TREE] = of_allreduce,
                                                           [PATH_GATHER] = of_gather,
                                                           [PATH_SERVERS] = of_servers};

static const struct refusal *refusal_of(const struct path_rule *p, enum path_kind kind,
                                        const struct codec_job *job)
{
    const struct refusal *const lists[] = {of_all, refusals[kind]};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct refusal *r = lists[i]; r->applies; r++)
            if (r->applies(p, job))
                return r;
    return NULL;
}

bool path_waits_for_all(enum path_kind kind)
{
    return refusals[kind] == of_allreduce;
}

const char *path_name(enum path_kind kind)
{
    static const char *const names[PATH_KINDS] = {[PATH_AUTO] = "auto", PATHS(PATH_NAME)};

    return names[kind];
}

/* A share such as 0.3 is less or more than its decimal: 0.3 x 10 workers are 3. */
int path_drawn(double share, int n)
{
    int m = (int)ceil(share * n - 1e-9);

    return m < 1 ? 1 : m > n ? n : m;
}

/* The quickest of those that the job allows. */
static enum path_kind choose_path(const struct path_rule *p, const struct codec_job *job)
{
    if (job->n_servers > 0)
        return PATH_SERVERS;
    if (refusal_of(p, PATH_ALLREDUCE, job))
        return PATH_GATHER;
    return job->layout.n_machines > 1 && path_cost_time(path_cost(PATH_TREE, &job->layout)) <
                                             path_cost_time(path_cost(PATH_ALLREDUCE, &job->layout))
               ? PATH_TREE
               : PATH_ALLREDUCE;
}

struct path_rule path_rule_of(const struct codec_plugin *p)
{
    return (struct path_rule){.name = p->name,
                              .is_each_step = p->combine->when == CODEC_EACH_STEP,
                              .updates_on_server = codec_more(p)->updates_on_server,
                              .sums = p->combine->reduction == CODEC_SUM,
                              .overlaps = codec_more(p)->overlaps,
                              .combines_params = p->combine->when == CODEC_EACH_ROUND &&
                                                 !p->combine->contribute && !p->combine->contributes_change,
                              .applies = p->combine->apply,
                              .adopts = p->combine->adopt};
}

bool path_servers_send_params(const struct path_rule *p, bool is_sync)
{
    return p->updates_on_server || !is_sync || (p->combines_params && (!p->applies || p->adopts));
}

enum codec_compression path_compression(const struct codec_plugin *p)
{
    const struct codec_combine *r = p->combine;
    enum codec_compression declared = codec_more(p)->compression;

    if (declared != CODEC_BY_CONTENT)
        return declared;
    return r && (r->when == CODEC_EACH_STEP || r->contributes_change) ? CODEC_LOSSY : CODEC_LOSSLESS_ONLY;
}

bool path_sends_params_down(const struct codec_plugin *p, bool is_sync)
{
    struct path_rule rule;

    if (!p->combine)
        return codec_more(p)->compression == CODEC_LOSSY_PARAMS;
    rule = path_rule_of(p);
    return path_servers_send_params(&rule, is_sync);
}

bool path_workers_continue(const struct path_rule *p, bool is_sync)
{
    return p->combines_params && !p->adopts && (!is_sync || !p->applies);
}

int path_choose(const struct path_rule *p, enum path_kind wanted, const struct codec_job *job, struct err *e)
{
    enum path_kind kind = wanted == PATH_AUTO ? choose_path(p, job) : wanted;
    const struct refusal *r = refusal_of(p, kind, job);

    if (!r && aggregate_check(&job->aggregate,
                              draws(p, job)     ? job->n_drawn
                              : p->is_each_step ? job->n_blocks
                                                : job->n_workers,
                              e) < 0)
        return err_at(e, "--aggregate");
    if (!r)
        return (int)kind;
    err_set(e, ERR_CODEC, "codec %s: path %s %s", p->name, path_name(kind), r->why);
    return err_hint(e, "%s", r->hint);
}

int path_check_unused(const char *name, enum path_kind wanted, const struct codec_job *job, struct err *e)
{
    if (job->has_unequal_blocks) {
        err_set(e, ERR_CODEC,
                "codec %s sends its own messages, which no samples weigh: --block-ratio does not apply to it",
                name);
        return err_hint(e, "Take a rule that combines, as plain or fedavg.");
    }
    if (wanted == PATH_AUTO && job->aggregate.kind == AGGREGATE_MEAN && job->n_drawn == job->n_workers &&
        job->overlap != OVERLAP_ONE)
        return 0;
    err_set(e, ERR_CODEC,
            "codec %s sends its own messages: --path, --aggregate, --participate and --overlap do not apply "
            "to it",
            name);
    return err_hint(e, "`codecs show NAME` lists the paths of a codec that has some.");
}
