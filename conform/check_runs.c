/* check_runs -- the checks of how jobs end: that they end, with equal bits, with the declared result and
 * cost, near the solution, without allocations, and the same after a restore or without a lost node. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"
#include "runner/exchange/channel.h"
#include "runner/exchange/exchange_state.h"
#include "runner/mesh/frame.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/combine_path.h"

enum { SOME_TIMINGS = 10, TIMINGS = 100, SAVED_AT = 7, FILE_NAME = 64, LOSS_POINTS = 40 };

/* Returns the first parameter whose bits differ; CHECK_PARAMS: none. */
static size_t first_difference(const float *a, const float *b)
{
    size_t p = 0;

    while (p < CHECK_PARAMS && memcmp(&a[p], &b[p], sizeof *a) == 0)
        p++;
    return p;
}

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

static int compare_to_first(const struct conform_check *k, float (*first)[CHECK_PARAMS], uint64_t seed,
                            struct err *e)
{
    for (int i = 0; i < k->set.node_count; i++) {
        const float *own = k->sim.nodes[i].params;
        size_t p = first_difference(own, first[i]);

        if (p < CHECK_PARAMS)
            return err_set(e, ERR_CODEC,
                           "worker %d ends with other weights under seed %llu than under seed 1: parameter "
                           "%zu is %.9g and was %.9g; the result depends on the order of messages",
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
    return compare_to_first(k, first, seed, e);
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
        size_t p = first_difference(own, first);

        if (p < CHECK_PARAMS)
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

/* Runs the job once more with lossy compression: the other workers then receive less than a worker itself
 * has. */
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

struct course { /* of a job: gradients given to the codec, and its results */
    const struct conform_check *check;
    double sums[CHECK_STEPS][CHECK_PARAMS];                     /* of all workers' gradients */
    float params[CHECK_WORKERS][CHECK_STEPS + 1][CHECK_PARAMS]; /* before each step, and at the end */
};

static void record_step(void *owner, const struct workload_batch *b, const float *params, const float *grads)
{
    struct course *course = owner;

    memcpy(course->params[b->node][b->step], params, sizeof course->params[0][0]);
    for (size_t i = 0; i < CHECK_PARAMS; i++)
        course->sums[b->step][i] += (double)grads[i];
}

/* Returns the steps from one exchange to the next. */
static uint64_t interval(const struct conform_check *k)
{
    return codec_common_of(k->plugin) ? (uint64_t)k->set.local_steps : 1;
}

static const char *name_of(enum codec_result r)
{
    static const char *const names[] = {[CODEC_MEAN_OF_GRADIENTS] = "the mean of all gradients",
                                        [CODEC_SUM_OF_GRADIENTS] = "the sum of all gradients",
                                        [CODEC_MEAN_OF_PARAMETERS] = "the mean of all parameters"};

    return names[r];
}

/* All workers begin step `from` with the same weights; checks that each has the declared ones at step `to`.
 * The mean of the parameters of workers that start with equal weights is these weights minus the mean of
 * their gradients. Each holder of a block has added its gradient. */
static int hold(const struct course *c, uint64_t from, uint64_t to, struct err *e)
{
    const struct conform_check *k = c->check;
    double n = codec_result(k->plugin) == CODEC_SUM_OF_GRADIENTS ? 1 : k->sim.blocks.n_blocks;
    double part = 1 / (n * k->sim.blocks.redundancy);

    for (size_t i = 0; i < CHECK_PARAMS; i++) {
        double right = (double)c->params[0][from][i];

        for (uint64_t s = from; s < to; s++)
            right -= CHECK_LEARN_RATE * part * c->sums[s][i];
        for (int w = 0; w < k->set.node_count; w++) {
            double is = (double)c->params[w][to][i];

            if (!(fabs(is - right) <= 1e-5 * (1 + fabs(right))))
                return err_set(e, ERR_CODEC,
                               "worker %d after %llu steps: parameter %zu is %.7g, with %s it would be %.7g",
                               w, (unsigned long long)to, i, is, name_of(codec_result(k->plugin)), right);
        }
    }
    return 0;
}

static int run_rule(struct conform_check *k, struct course *c, struct err *e)
{
    memset(c->sums, 0, sizeof c->sums);
    check_receives_gradients(k, record_step, c);
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    for (int i = 0; i < k->set.node_count; i++)
        memcpy(c->params[i][CHECK_STEPS], k->sim.nodes[i].params, sizeof c->params[0][0]);
    for (uint64_t from = 0, to; from < CHECK_STEPS; from = to) {
        to = from + interval(k) < CHECK_STEPS ? from + interval(k) : CHECK_STEPS;
        if (hold(c, from, to, e) < 0)
            return e->code;
    }
    return 0;
}

static int result_is_right(struct conform_check *k, struct err *e)
{
    struct course *c;
    int rc;

    if (!check_is_of_mean(k))
        return CHECK_IS_NOT_FOR_IT;
    c = malloc(sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for the course of a job");
    c->check = k;
    rc = run_rule(k, c, e);
    free(c);
    return rc;
}

int check_result(struct conform_check *k, struct err *e)
{
    enum codec_result result = codec_result(k->plugin);

    if (result == CODEC_OWN_RESULT || result == CODEC_EQUAL_RESULT) {
        err_set(e, ERR_CODEC, "it declares no formula (.result in CODEC_MORE)");
        return CHECK_IS_NOT_FOR_IT;
    }
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, result_is_right, e);
}

/* Sums over the codecs of a worker: one for each server's range. */
static struct codec_cost declared(const struct conform_check *k, struct sim_node *n)
{
    struct codec_cost sum = {0, 0};
    const struct combine_path *path = exchange_path(n->x);
    uint64_t times = codec_more(k->plugin)->events ? CHECK_STEPS : exchange_rounds(n->x);
    struct channel *ch;

    for (int i = 0; (ch = exchange_channel(n->x, i)) != NULL; i++) {
        struct codec_cost one = path ? path->cost(ch) : codec_more(k->plugin)->sends(&ch->codec);

        sum.messages += times * one.messages;
        sum.bytes += times * one.bytes;
    }
    return sum;
}

static int cost_is_right(struct conform_check *k, struct err *e)
{
    const struct combine_path *path = exchange_path(k->sim.nodes[0].x);

    if (path && !path->cost)
        return CHECK_IS_NOT_FOR_IT;
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    for (int i = 0; i < k->sim.n_nodes; i++) {
        struct sim_node *n = &k->sim.nodes[i];
        const struct exchange_totals *t = exchange_totals(n->x);
        struct codec_cost cost = declared(k, n);
        uint64_t bytes = t->sent_bytes - FRAME_BYTES * t->sent_messages;

        if (n->node < 0 && codec_more(k->plugin)->events)
            continue; /* a server takes no steps */
        if (t->sent_messages != cost.messages || bytes != cost.bytes)
            return err_set(e, ERR_CODEC,
                           "node %d sent %llu messages (%llu bytes) in %d steps; its .sends declares %llu "
                           "messages (%llu bytes)",
                           n->node, (unsigned long long)t->sent_messages, (unsigned long long)bytes,
                           CHECK_STEPS, (unsigned long long)cost.messages, (unsigned long long)cost.bytes);
    }
    return 0;
}

int check_cost(struct conform_check *k, struct err *e)
{
    if (!k->plugin->combine && !codec_more(k->plugin)->sends) {
        err_set(e, ERR_CODEC, "it declares no number of bytes (.sends in CODEC_MORE)");
        return CHECK_IS_NOT_FOR_IT;
    }
    /* In asgd the number of contributions in a round, and so of a server's answers, is not known
     * beforehand. */
    return check_jobs(k, CHECK_STEPS, codec_more(k->plugin)->events ? CHECK_EITHER : CHECK_SSGD,
                      cost_is_right, e);
}

/* Trains from zeros to a point whose coordinates are N(0, 1), with noise of N(0, 1) in each gradient. */
static int solve(struct conform_check *k, struct err *e)
{
    double first, loss, none;

    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    memset(k->sim.nodes[0].grads, 0, CHECK_PARAMS * sizeof(float));
    k->sim.workload->ops->evaluate(k->sim.workload, k->sim.nodes[0].grads, 0, &first, &none, e);
    for (int i = 0; i < k->set.node_count; i++) {
        k->sim.workload->ops->evaluate(k->sim.workload, k->sim.nodes[i].params, 0, &loss, &none, e);
        if (!(loss < first / 5))
            return err_set(e, ERR_CODEC,
                           "worker %d: after %d steps the loss is %.4g, and was %.4g at the beginning", i,
                           k->set.steps_per_epoch, loss, first);
    }
    return 0;
}

/* Where servers send parameters, solves the problem once more with a lossy chain. */
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

/* The state of one node in addition to the file written by its exchange. */
struct saved_node {
    float params[CHECK_PARAMS], moments[OPTIMIZER_TENSORS][CHECK_PARAMS];
    uint64_t n_updates;
};

struct saved_job {
    struct conform_check *check;
    struct saved_node nodes[CHECK_NODES];
    bool has_servers;
    float last[CHECK_WORKERS][CHECK_PARAMS]; /* of the uninterrupted job */
    struct err e;                            /* of a save that failed */
    int rc;
};

static void name_file(char out[FILE_NAME], int node)
{
    snprintf(out, FILE_NAME, "saved%d.safetensors", node);
}

static int write_exchange(const struct sim_node *n, uint64_t step, struct err *e)
{
    struct exchange_state state = {0};
    char name[FILE_NAME];
    int rc;

    name_file(name, n->node);
    if (exchange_save(&state, n->x, step, e) < 0)
        return e->code;
    rc = tensor_file_write(name, state.tensors, state.n, NULL, e);
    exchange_state_clear(&state);
    return rc;
}

static void save_optimizer(struct saved_node *to, const struct optimizer *o)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(o, views);

    for (size_t i = 0; i < n; i++)
        memcpy(to->moments[i], views[i].data, tensor_bytes(&views[i]));
    to->n_updates = optimizer_steps(o);
}

static void restore_optimizer(struct optimizer *o, const struct saved_node *from)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(o, views);

    for (size_t i = 0; i < n; i++)
        memcpy(optimizer_vector(o, i), from->moments[i], tensor_bytes(&views[i]));
    optimizer_set_steps(o, from->n_updates);
}

static void save_node(struct saved_job *s, const struct sim_node *n)
{
    struct saved_node *to = &s->nodes[n->slot];

    if (s->rc < 0)
        return;
    memcpy(to->params, n->params, sizeof to->params);
    if (n->step.optimizer)
        save_optimizer(to, n->step.optimizer);
    s->rc = write_exchange(n, SAVED_AT, &s->e);
}

/* Called before a node passes the gradient of this step to its codec, so the last step is done. At the
 * first such call all servers have answered, and no node has sent a message of this step. */
static void save_params(void *owner, const struct workload_batch *b, const float *params, const float *grads)
{
    struct saved_job *s = owner;
    const struct sim *sim = &s->check->sim;

    (void)params, (void)grads;
    if (b->step != SAVED_AT || b->i > 0)
        return;
    save_node(s, &sim->nodes[b->node]);
    for (int slot = sim->set.node_count; slot < sim->n_nodes && !s->has_servers; slot++)
        save_node(s, &sim->nodes[slot]);
    s->has_servers = true;
}

static int restore_node(struct sim_node *n, const struct saved_job *s, struct err *e)
{
    const struct saved_node *from = &s->nodes[n->slot];
    struct tensor_file f;
    char name[FILE_NAME];
    int rc;

    name_file(name, n->node);
    if (tensor_file_open(&f, name, e) < 0)
        return e->code;
    rc = exchange_restore(n->x, &f, SAVED_AT, e);
    tensor_file_close(&f);
    memcpy(n->params, from->params, sizeof from->params);
    if (n->step.optimizer)
        restore_optimizer(n->step.optimizer, from);
    if (n->node >= 0)
        n->step.n_done = SAVED_AT;
    return rc;
}

static int go_on(struct conform_check *k, const struct saved_job *s, struct err *e)
{
    check_receives_gradients(k, NULL, NULL);
    k->sim.timing = 2;
    if (sim_restart(&k->sim, e) < 0)
        return e->code;
    for (int slot = 0; slot < k->sim.n_nodes; slot++)
        if (restore_node(&k->sim.nodes[slot], s, e) < 0)
            return e->code;
    if (sim_run(&k->sim, e) < 0)
        return e->code;
    return check_ended(k, e) < 0 ? err_at(e, "restored after %d steps", SAVED_AT) : 0;
}

static int compare_to_uninterrupted(const struct conform_check *k, const struct saved_job *s, struct err *e)
{
    for (int i = 0; i < k->set.node_count; i++) {
        const float *own = k->sim.nodes[i].params;
        size_t p = first_difference(own, s->last[i]);

        if (p < CHECK_PARAMS)
            return err_set(e, ERR_CODEC,
                           "worker %d, parameter %zu: in the end %.9g after a restore at step %d, %.9g "
                           "without one: %s not contain all of the rule's state",
                           i, p, (double)own[p], SAVED_AT, (double)s->last[i][p],
                           k->set.server_count > 0 ? "the states of workers and servers do"
                                                   : "its state does");
    }
    return 0;
}

static int run_to_end(struct conform_check *k, struct saved_job *s, struct err *e)
{
    check_receives_gradients(k, save_params, s);
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    if (s->rc < 0) {
        *e = s->e;
        return s->rc;
    }
    for (int i = 0; i < k->set.node_count; i++)
        memcpy(s->last[i], k->sim.nodes[i].params, sizeof s->last[i]);
    return go_on(k, s, e) < 0 ? e->code : compare_to_uninterrupted(k, s, e);
}

/* Saves and restores a job whose optimizer has a state. */
static int restored_is_the_same(struct conform_check *k, struct err *e)
{
    struct saved_job *s;
    int rc;

    if (exchange_can_save(k->sim.nodes[0].x, e) < 0)
        return CHECK_IS_NOT_FOR_IT;
    s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory to save a job");
    s->check = k;
    settings_set_optimizer(&k->set, OPTIMIZER_ADAM);
    rc = run_to_end(k, s, e);
    free(s);
    return rc;
}

int check_restore(struct conform_check *k, struct err *e)
{
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, restored_is_the_same, e);
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
