#include "conform/check.h"

#include <stdio.h>
#include <string.h>

#include "shared/plugin/combine_path.h"

/* Four workers with redundancy 2 have six blocks, one per pair. */
static const struct job_shape {
    int n_workers, n_servers, redundancy;
} shapes[] = {{2, 0, 1}, {3, 0, 1}, {CHECK_WORKERS, 0, 1}, {3, 1, 1}, {4, 2, 1}, {4, 0, 2}, {3, 1, 2}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* The workload of the running simulation. */
static struct {
    const struct workload_ops *real;
    struct workload_ops ops;
    check_gradient *receive;
    void *owner;
} tap;

static int tapped_gradient(struct workload *load, const struct workload_batch *b, const float *params,
                           float *grads, struct net_score *score, struct err *e)
{
    int rc = tap.real->gradient(load, b, params, grads, score, e);

    if (tap.receive)
        tap.receive(tap.owner, b, params, grads);
    return rc;
}

void check_receives_gradients(struct conform_check *k, check_gradient *receive, void *owner)
{
    if (k->sim.workload->ops != &tap.ops) {
        tap.real = k->sim.workload->ops;
        tap.ops = *tap.real;
        tap.ops.gradient = tapped_gradient;
        k->sim.workload->ops = &tap.ops;
    }
    tap.receive = receive;
    tap.owner = owner;
}

static bool can_have(const struct codec_plugin *p, int n_servers)
{
    if (n_servers == 0)
        return !codec_more(p)->updates_on_server;
    return codec_more(p)->round && !codec_more(p)->round->reply ? false : !(p->limits & CODEC_NO_SERVERS);
}

static bool looks_at(const struct codec_plugin *p, enum check_sync in, bool is_asgd)
{
    bool has_ssgd = !(p->limits & CODEC_NO_SSGD), has_asgd = !(p->limits & CODEC_NO_ASGD);

    return is_asgd ? has_asgd && (in == CHECK_BOTH || (in == CHECK_EITHER && !has_ssgd)) : has_ssgd;
}

/* How the contributions of a rule that combines meet. Any other rule has only the first entry. */
static const struct way {
    enum combine_path_kind path;
    const char *aggregate;
} ways[] = {{COMBINE_PATH_AUTO, "mean"},     {COMBINE_PATH_ALLREDUCE, "mean"}, {COMBINE_PATH_TREE, "mean"},
            {COMBINE_PATH_GATHER, "mean"},   {COMBINE_PATH_GATHER, "median"},  {COMBINE_PATH_SERVERS, "mean"},
            {COMBINE_PATH_SERVERS, "median"}};
enum { N_WAYS = sizeof ways / sizeof *ways };

static bool has_way(const struct codec_plugin *p, const struct way *w, const struct job_shape *s)
{
    if (!p->combine)
        return w->path == COMBINE_PATH_AUTO;
    return w->path != COMBINE_PATH_AUTO && (w->path == COMBINE_PATH_SERVERS) == (s->n_servers > 0);
}

static void describe_job(struct conform_check *k, const struct job_shape *s, const struct way *w,
                         uint64_t n_steps, bool is_asgd)
{
    const char *path = w->path == COMBINE_PATH_TREE || w->path == COMBINE_PATH_GATHER
                           ? combine_path_name(w->path)
                           : "";

    settings_default(&k->set);
    simulation_default(&k->how);
    snprintf(k->set.codec, sizeof k->set.codec, "%s", k->plugin->name);
    memcpy(k->set.server_codec, k->set.codec, sizeof k->set.codec);
    snprintf(k->set.codec_options, sizeof k->set.codec_options, "%s", k->options);
    memcpy(k->set.server_codec_options, k->set.codec_options, sizeof k->set.codec_options);
    k->set.sync = is_asgd ? SYNC_ASGD : SYNC_SSGD;
    settings_set_optimizer(&k->set, OPTIMIZER_SGD);
    k->set.node_count = s->n_workers;
    k->set.server_count = s->n_servers;
    k->set.redundancy = s->redundancy;
    k->set.path = w->path;
    snprintf(k->set.aggregate, sizeof k->set.aggregate, "%s", w->aggregate);
    k->set.epochs = 1;
    k->set.steps_per_epoch = (int)n_steps;
    k->set.local_steps = k->every > 0 ? k->every : 5; /* not a divisor of 12, so that there is a closing
                                                       * round */
    k->set.shares_evaluations = codec_more(k->plugin)->on_evaluation != NULL;
    k->set.eval_every = 4;
    k->set.learn_rate = CHECK_LEARN_RATE;
    k->set.momentum = 0;
    k->how.gradients = CHECK_PARAMS;
    k->how.workers_per_machine = w->path == COMBINE_PATH_TREE ? 2 : 1;
    strcpy(k->how.step_time, "0.01");
    k->how.eval_time_s = 0.03; /* messages come meanwhile, when no codec waits */
    /* Nodes differ by more than a step, and messages of one overtake those of another. */
    strcpy(k->how.link, "100Mbit,10ms,30ms");
    strcpy(k->how.speed, "0.5-2");
    strcpy(k->how.straggler, "0.3:4");
    snprintf(k->page->what, sizeof k->page->what, "%d workers%s%s%s%s%s%s%s", s->n_workers,
             s->n_servers == 1  ? ", 1 server"
             : s->n_servers > 1 ? ", 2 servers"
                                : "",
             s->redundancy > 1 ? ", redundancy 2" : "", path[0] ? ", path " : "", path,
             check_is_of_mean(k) ? "" : ", aggregate ", check_is_of_mean(k) ? "" : w->aggregate,
             is_asgd ? ", asgd" : "");
}

/* Returns CHECK_IS_NOT_FOR_IT if the codec refuses such a job. */
static int run_job(struct conform_check *k, check_body *body, struct err *e)
{
    int rc = sim_open(&k->sim, &k->set, &k->how, k->folder, NULL, e);

    if (rc < 0)
        return rc == ERR_CODEC ? CHECK_IS_NOT_FOR_IT : rc;
    k->sim.codec.plugin = watch_plugin();
    rc = body(k, e);
    watch_receives(NULL, NULL);
    tap.receive = NULL;
    sim_close(&k->sim);
    if (rc == ERR_CODEC && k->set.sync == SYNC_ASGD && !(k->plugin->limits & CODEC_NO_SSGD))
        err_hint(e, "A rule that cannot be asynchronous declares .limits = CODEC_NO_ASGD.");
    return rc == ERR_CODEC ? err_at(e, "%s", k->page->what) : rc;
}

int check_jobs(struct conform_check *k, uint64_t n_steps, enum check_sync in, check_body *body, struct err *e)
{
    bool is_for_it = false, is_tried = false;
    struct err why = {0}; /* of the first job that does not apply to the codec */

    if (in == CHECK_SSGD && (k->plugin->limits & CODEC_NO_SSGD)) {
        err_set(e, ERR_CODEC, "it does not support ssgd (CODEC_NO_SSGD), and this check is for ssgd only");
        return CHECK_IS_NOT_FOR_IT;
    }
    for (int i = 0; i < 2 * N_SHAPES * N_WAYS; i++) {
        const struct way *w = &ways[i % N_WAYS];
        const struct job_shape *s = &shapes[i / N_WAYS % N_SHAPES];
        bool is_asgd = i >= N_SHAPES * N_WAYS;
        int rc;

        if (!looks_at(k->plugin, in, is_asgd) || !can_have(k->plugin, s->n_servers) ||
            !has_way(k->plugin, w, s))
            continue;
        is_tried = true;
        describe_job(k, s, w, n_steps, is_asgd);
        rc = run_job(k, body, e);
        if (rc < 0)
            return rc;
        is_for_it = is_for_it || rc == 0;
        if (rc == CHECK_IS_NOT_FOR_IT && !why.text[0])
            why = *e;
    }
    if (!is_tried)
        err_set(&why, ERR_CODEC,
                "no job can use it: it updates on servers (updates_on_server), but does not support servers");
    *e = why;
    return is_for_it ? 0 : CHECK_IS_NOT_FOR_IT;
}

bool check_is_of_mean(const struct conform_check *k)
{
    return strcmp(k->set.aggregate, "mean") == 0;
}

int check_run(struct conform_check *k, uint64_t timing, struct err *e)
{
    k->sim.timing = timing;
    k->sim.set = k->set;
    k->sim.how = k->how;
    return sim_restart(&k->sim, e) < 0 ? e->code : sim_run(&k->sim, e);
}

int check_ended(const struct conform_check *k, struct err *e)
{
    const struct sim_node *n;

    if (k->sim.cause < 0)
        return 0;
    n = &k->sim.nodes[k->sim.cause];
    return err_set(e, ERR_CODEC, "node %d: %s", n->node, n->e ? n->e->text : "it was lost");
}
