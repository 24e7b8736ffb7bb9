/* check_runs -- checks the ends of jobs: that they end, with equal bits, near the solution, and also if a
 * node is lost. */
#include <stdio.h>
#include <string.h>

#include "conform/check.h"
#include "shared/plugin/combine_path.h"

enum { SOME_TIMINGS = 10, TIMINGS = 100, LOSS_POINTS = 40 };

static int end_under_some_timings(struct conform_check *k, struct err *e)
{
    uint64_t last = k->seed > 0 ? k->seed : SOME_TIMINGS;

    for (uint64_t seed = k->seed > 0 ? k->seed : 1; seed <= last; seed++) {
        k->page->seed = seed;
        if (check_run(k, seed, e) < 0 || check_ended(k, e) < 0)
            return e->code;
    }
    return 0;
}

int check_ends(struct conform_check *k, struct err *e)
{
    int rc = check_jobs(k, CHECK_STEPS, CHECK_BOTH, end_under_some_timings, e);

    return rc == CHECK_IS_NOT_FOR_IT ? ERR_CODEC : rc; /* it refuses every job */
}

static int compare_params(const struct conform_check *k, float (*first)[CHECK_PARAMS], uint64_t seed,
                          struct err *e)
{
    for (int i = 0; i < k->set.node_count; i++) {
        const float *own = k->sim.nodes[i].params;

        for (size_t p = 0; p < CHECK_PARAMS; p++)
            if (memcmp(&own[p], &first[i][p], sizeof *own) != 0)
                return err_set(
                    e, ERR_CODEC,
                    "worker %d ends with other weights under seed %llu than under seed 1: parameter %zu "
                    "is %.9g and was %.9g; the result depends on the order of messages",
                    i, (unsigned long long)seed, p, (double)own[p], (double)first[i][p]);
    }
    return 0;
}

/* Tries one timing of a hundred, or the requested one, and compares its result with the first one's. */
static int try_timing(struct conform_check *k, float (*first)[CHECK_PARAMS], uint64_t seed, struct err *e)
{
    k->page->seed = seed;
    if (check_run(k, seed, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    for (int i = 0; i < k->set.node_count && seed == 1; i++)
        memcpy(first[i], k->sim.nodes[i].params, sizeof first[i]);
    return compare_params(k, first, seed, e);
}

static int all_timings_give_the_same(struct conform_check *k, struct err *e)
{
    float first[CHECK_WORKERS][CHECK_PARAMS];

    for (uint64_t seed = 1; seed <= TIMINGS && k->seed == 0; seed++)
        if (try_timing(k, first, seed, e) < 0)
            return e->code;
    if (k->seed == 0)
        return 0;
    return try_timing(k, first, 1, e) < 0 ? e->code : try_timing(k, first, k->seed, e);
}

int check_timing(struct conform_check *k, struct err *e)
{
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, all_timings_give_the_same, e);
}

/* Compares the models that the workers end with: names the first worker that differs from worker 0. */
static int find_different(const struct conform_check *k, struct err *e)
{
    float first[CHECK_PARAMS];

    memcpy(first, sim_model_of(&k->sim, &k->sim.nodes[0]), sizeof first);
    for (int i = 1; i < k->set.node_count; i++) {
        const float *own = sim_model_of(&k->sim, &k->sim.nodes[i]);

        for (size_t p = 0; p < CHECK_PARAMS; p++)
            if (memcmp(&own[p], &first[p], sizeof *own) != 0)
                return err_set(
                    e, ERR_CODEC,
                    "workers end different: parameter %zu is %.9g on worker 0 and %.9g on worker %d; a "
                    "rule that means this declares .result = CODEC_OWN_RESULT",
                    p, (double)first[p], (double)own[p], i);
    }
    return 0;
}

static int end_equal(struct conform_check *k, struct err *e)
{
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    return find_different(k, e);
}

/* Also if the other workers receive less than the worker itself has, as after lossy compression. */
static int end_equal_in_both_forms(struct conform_check *k, struct err *e)
{
    enum codec_compression takes = combine_path_compression(k->plugin);
    size_t n = strlen(k->page->what);

    if (end_equal(k, e) < 0)
        return e->code;
    if (k->plugin->combine || takes == CODEC_UNCOMPRESSED || takes == CODEC_LOSSLESS_ONLY)
        return 0;
    strcpy(k->set.compress, "topk:ratio=0.3");
    snprintf(k->page->what + n, sizeof k->page->what - n, ", compressed");
    return end_equal(k, e);
}

int check_equal(struct conform_check *k, struct err *e)
{
    if (codec_more(k->plugin)->result == CODEC_OWN_RESULT) {
        err_set(e, ERR_CODEC, "its workers may end different (.result is CODEC_OWN_RESULT)");
        return CHECK_IS_NOT_FOR_IT;
    }
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, end_equal_in_both_forms, e);
}

/* Trains from zeros to a point whose coordinates are N(0, 1), with noise of N(0, 1) in each gradient. */
static int solve(struct conform_check *k, struct err *e)
{
    double first, loss, none;

    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    memset(k->sim.nodes[0].grads, 0, CHECK_PARAMS * sizeof(float));
    k->sim.trainer->ops->evaluate(k->sim.trainer, k->sim.nodes[0].grads, &first, &none);
    for (int i = 0; i < k->set.node_count; i++) {
        k->sim.trainer->ops->evaluate(k->sim.trainer, k->sim.nodes[i].params, &loss, &none);
        if (!(loss < first / 5))
            return err_set(e, ERR_CODEC,
                           "worker %d: after %d steps the loss is %.4g, and was %.4g at the beginning", i,
                           k->set.steps_per_epoch, loss, first);
    }
    return 0;
}

/* Again with a lossy chain, where servers send parameters. */
static int solve_in_both_forms(struct conform_check *k, struct err *e)
{
    size_t n = strlen(k->page->what);

    if (!check_is_of_mean(k))
        return CHECK_IS_NOT_FOR_IT;
    k->set.learn_rate = CHECK_LEARN_RATE / 4;
    if (solve(k, e) < 0)
        return e->code;
    if (k->set.server_count == 0 || !combine_path_sends_params_down(k->plugin, k->set.sync == SYNC_SSGD))
        return 0;
    strcpy(k->set.compress_down, "topk:ratio=0.3|int8");
    snprintf(k->page->what + n, sizeof k->page->what - n, ", replies compressed");
    return solve(k, e);
}

int check_converges(struct conform_check *k, struct err *e)
{
    return check_jobs(k, 20 * CHECK_STEPS, CHECK_BOTH, solve_in_both_forms, e);
}

static int nothing_is_allocated(struct conform_check *k, struct err *e)
{
    uint64_t before = watch_allocations();

    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    if (watch_allocations() == before)
        return 0;
    return err_set(e, ERR_CODEC,
                   "the codec has allocated memory %llu times after the second step; allocate vectors with "
                   "zeros() in open(), the rest in the state",
                   (unsigned long long)(watch_allocations() - before));
}

int check_memory(struct conform_check *k, struct err *e)
{
    if (!watch_sees_allocations()) {
        err_set(e, ERR_CODEC, "a sanitizer build cannot count allocations");
        return CHECK_IS_NOT_FOR_IT;
    }
    return check_jobs(k, 2 * CHECK_STEPS, CHECK_EITHER, nothing_is_allocated, e);
}

static const char *on_node_loss(const struct conform_check *k)
{
    return k->set.on_node_loss == NODE_LOSS_CONTINUES ? "continue" : "abort";
}

static int no_node_hangs(const struct conform_check *k, int lost, double at, struct err *e)
{
    for (int i = 0; i < k->sim.n_nodes; i++) {
        const struct sim_node *n = &k->sim.nodes[i];

        if (n->phase == SIM_FAILED && n->e && n->e->code == ERR_TIMEOUT)
            return err_set(e, ERR_CODEC, "node %d is lost at %.3g s (on-node-loss %s), and node %d hangs: %s",
                           lost, at, on_node_loss(k), n->node, n->e->text);
    }
    return 0;
}

/* The workers that remain must have the declared result. */
static int remaining_are_equal(struct conform_check *k, int lost, double at, struct err *e)
{
    int n_done = 0;

    for (int i = 0; i < k->set.node_count; i++)
        n_done += k->sim.nodes[i].phase == SIM_DONE;
    if (n_done == 0 || codec_more(k->plugin)->result == CODEC_OWN_RESULT || k->set.sync != SYNC_SSGD ||
        sim_models_agree(&k->sim))
        return 0;
    return err_set(
        e, ERR_CODEC,
        "node %d is lost at %.3g s (on-node-loss %s), and the remaining workers end with different "
        "weights",
        lost, at, on_node_loss(k));
}

/* Kills one node at one point of a job of `whole` seconds; --seed with a part's number repeats it. */
static int lose_one(struct conform_check *k, uint64_t part, double whole, struct err *e)
{
    int slot = (int)(part - 1) / LOSS_POINTS;
    int node = mesh_node_at(k->set.node_count, slot);
    double at = whole * (double)((part - 1) % LOSS_POINTS) / (double)LOSS_POINTS;

    k->page->seed = part;
    snprintf(k->how.kill, sizeof k->how.kill, "%d@%.6fs", node, at);
    if (check_run(k, 1, e) < 0 || no_node_hangs(k, node, at, e) < 0)
        return e->code;
    return remaining_are_equal(k, node, at, e);
}

/* Kills each node at each point, or only in the requested part. */
static int lose_nodes(struct conform_check *k, struct err *e)
{
    uint64_t n_parts = (uint64_t)k->sim.n_nodes * LOSS_POINTS;
    uint64_t first = k->seed > 0 ? k->seed : 1, last = k->seed > 0 ? k->seed : n_parts;
    double whole;

    if (k->n_parts < n_parts)
        k->n_parts = n_parts;
    k->how.kill[0] = '\0';
    if (check_run(k, 1, e) < 0)
        return e->code;
    whole = sim_time(&k->sim);
    for (uint64_t part = first; part <= last && part <= n_parts; part++)
        if (lose_one(k, part, whole, e) < 0)
            return e->code;
    return 0;
}

static int lose_nodes_and_end_or_go_on(struct conform_check *k, struct err *e)
{
    const struct codec_plugin *p = k->plugin;
    bool may_go_on = codec_more(p)->events ? codec_more(p)->events->on_lost != NULL
                                           : !combine_path_waits_for_all(k->set.path);
    int rc = lose_nodes(k, e);

    if (rc < 0 || !may_go_on)
        return rc;
    k->set.on_node_loss = NODE_LOSS_CONTINUES;
    return lose_nodes(k, e);
}

int check_loss(struct conform_check *k, struct err *e)
{
    int rc = check_jobs(k, CHECK_STEPS, CHECK_BOTH, lose_nodes_and_end_or_go_on, e);

    if (rc == 0 && k->seed > k->n_parts) {
        err_set(e, ERR_CODEC, "its parts have the numbers 1 to %llu", (unsigned long long)k->n_parts);
        return CHECK_IS_NOT_FOR_IT;
    }
    return rc;
}
