#include "submit/stages/path_choice.h"

#include <string.h>

#include "codecs/compress/chain_list.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/plugin/combine_path.h"
#include "submit/options/setting_error.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

int path_choice_job(struct codec_job *job, const struct settings *set, struct err *e)
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
        return setting_error(e);
    job->n_blocks = b.n_blocks;
    job->has_unequal_blocks = !b.is_equal;
    blocks_clear(&b);
    return aggregate_parse(&job->aggregate, set->aggregate, e) < 0 ? err_at(e, "--aggregate") : 0;
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

/* Notes what the paths between workers would take, and says so where a path was chosen between machines. */
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

int path_choice(struct submission *s, const struct codec_facts *f, struct err *e)
{
    struct settings *set = &s->settings;
    enum combine_path_kind wanted = set->path;
    const struct combine_path_rule rule = {.name = f->name,
                                           .is_each_step = f->sends_grads,
                                           .updates_on_server = f->updates_on_server,
                                           .sums = f->sums,
                                           .overlaps = f->overlaps};
    struct codec_job job;
    int kind;

    if (path_choice_job(&job, set, e) < 0)
        return e->code;
    if (!f->combines)
        return combine_path_check_unused(f->name, set->path, &job, e);
    job.layout = layout_of(s);
    kind = combine_path_choose(&rule, set->path, &job, e);
    if (kind < 0)
        return kind;
    set->path = (enum combine_path_kind)kind;
    set->overlap = combine_path_overlaps(&rule, set->overlap) ? OVERLAP_ONE : OVERLAP_NONE;
    if (set->node_count > 1)
        report_path(s, wanted, &job.layout);
    return 0;
}
