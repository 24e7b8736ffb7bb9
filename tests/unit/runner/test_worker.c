/* A training loop of one's own around runner/core/worker.h, of the shape that another program's has: nodes
 * that are drawn to points w* of their own, by the gradient w - w*. In some tests the loop also updates, as a
 * user's program does (set.trainer), and where it need not store its tensors, params are NAN: nothing may
 * read them. */
#include "tests/unit/unit.h"

#include <math.h>

#include "nn/optimizer.h"
#include "runner/core/worker.h"
#include "runner/exchange/test_sum.h"
#include "shared/job/test_part.h"
#include "tests/lib/cluster.h"

enum { WORKERS = 3, SERVERS = 1, N = 5, TRACE = 256 };

struct own_node {
    int node;
    float w[N], grads[N];
    struct exchange *x;
    struct mesh *mesh;
    struct step step;
    struct worker worker;
    struct optimizer *optimizer; /* of the loop itself; NULL: psgd's updates */
    double rate, accuracy;
    size_t n_samples;
    uint64_t n_own;            /* steps that it has data for */
    const float *updated_by;   /* of the last WORKER_UPDATES */
    float own[N];              /* w, while params are NAN */
    bool stores, is_hidden;    /* of the present step; params are NAN */
    struct record_train train; /* the last row */
    bool is_done;
    char trace[TRACE]; /* its calls, a letter each */
};

static float goal(int node, size_t i)
{
    return (float)node + (float)i / 8;
}

/* Half the square of the distance, whose gradient is w - w*. */
static double distance_of(const struct own_node *n)
{
    double sum = 0;

    for (size_t i = 0; i < N; i++)
        sum += pow((double)(n->w[i] - goal(n->node, i)), 2) / 2;
    return sum;
}

static int update_on_server(void *owner, size_t from, size_t n, uint64_t step, float factor,
                            const double *norm, struct err *e)
{
    struct own_node *node = owner;

    return step_apply(&node->step, from, n, node->grads + from, step, factor, norm, e);
}

static void hide_params(struct own_node *n)
{
    memcpy(n->own, n->w, sizeof n->own);
    for (size_t i = 0; i < N; i++)
        n->w[i] = NAN;
    n->is_hidden = true;
}

static int ignore_value(void *owner, const struct codec *c, const char *name, double value, struct err *e)
{
    (void)owner, (void)c, (void)name, (void)value, (void)e;
    return 0;
}

static void show_params(struct own_node *n)
{
    for (size_t i = 0; n->is_hidden && i < N; i++)
        assert_true(isnan(n->w[i])); /* nobody has changed them */
    if (n->is_hidden)
        memcpy(n->w, n->own, sizeof n->w);
    n->is_hidden = false;
}

static int compute(struct own_node *n, struct err *e)
{
    const struct net_score score = {.loss = distance_of(n), .n = 1};
    bool is_read = exchange_reads_gradient(n->x), is_finished = n->step.n_done >= n->n_own;
    const struct step_result result = {.n = is_finished ? 0 : n->n_samples,
                                       .loss = n->n_samples > 0 ? distance_of(n) : NAN,
                                       .accuracy = n->accuracy,
                                       .is_finished = is_finished};

    for (size_t i = 0; i < N; i++)
        n->grads[i] = n->w[i] - goal(n->node, i);
    if (!n->optimizer)
        return worker_computed(&n->worker, n->grads, &score, e);
    n->grads[0] = n->n_samples > 0 ? n->grads[0] : NAN; /* of what is not used, nothing is used */
    return worker_reported(&n->worker, is_read ? n->grads : NULL, &result, e);
}

static int update(struct own_node *n, const struct worker_request *request, struct err *e)
{
    n->updated_by = request->gradient;
    if (request->gradient || n->n_samples > 0)
        optimizer_step(n->optimizer, n->w, request->gradient ? request->gradient : n->grads, (float)n->rate,
                       1);
    if (!n->stores)
        hide_params(n);
    return worker_updated(&n->worker, n->rate * (double)request->lr_factor, e);
}

/* One turn; false: it waits for another node. */
static bool take_turn(struct own_node *n)
{
    static const char letters[] = ".COUP.ETRSD";
    struct worker_request request;
    struct mesh_event ev;
    struct err e = {0};
    int wants;

    if (worker_waits(&n->worker)) {
        assert_ok(mesh_poll(n->mesh, &ev, 0, &e));
        if (ev.kind == MESH_NOTHING)
            return false;
        assert_ok(worker_event(&n->worker, &ev, &e));
        return true;
    }
    wants = worker_next(&n->worker, &request, &e);
    assert_ok(wants);
    if (wants == WORKER_COMPUTES)
        do {
            assert_ok(mesh_poll(n->mesh, &ev, 0, &e));
            assert_ok(worker_event(&n->worker, &ev, &e));
        } while (ev.kind != MESH_NOTHING);
    if (letters[wants] != '.' && strlen(n->trace) < TRACE - 1)
        n->trace[strlen(n->trace)] = letters[wants];
    if (wants == WORKER_COMPUTES || wants == WORKER_STORES)
        show_params(n);
    n->stores = wants == WORKER_COMPUTES ? request.stores : n->stores;
    if (wants == WORKER_COMPUTES)
        assert_ok(compute(n, &e));
    else if (wants == WORKER_UPDATES)
        assert_ok(update(n, &request, &e));
    else if (wants == WORKER_RECORDS && request.train)
        n->train = *request.train;
    else if (wants == WORKER_EVALUATES && test_sum_is_used(n->x))
        test_sum_numbers(n->x)[0] = distance_of(n);
    else if (wants == WORKER_EVALUATES || wants == WORKER_SCORES)
        assert_ok(worker_evaluated(&n->worker, distance_of(n), NAN, &e));
    else if (wants == WORKER_IS_DONE)
        n->is_done = true;
    return true;
}

/* The rest is common to all tests. */

struct own_job {
    struct settings set;
    struct blocks blocks;
    struct schedule schedule;
    struct codec_layer layer;
    struct mesh_mem *net;
    struct own_node nodes[WORKERS + SERVERS];
    int n_nodes;
    size_t n_samples[WORKERS]; /* of a step of a loop that updates */
    uint64_t n_own[WORKERS];   /* steps that it has data for; 0: for all */
};

static void open_node(struct own_job *j, int slot, const char *codec)
{
    struct own_node *n = &j->nodes[slot];
    const struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    struct exchange_config cfg;
    struct err e = {0};

    *n = (struct own_node){.node = mesh_node_at(WORKERS, slot), .rate = j->set.learn_rate, .accuracy = NAN};
    if (n->node >= 0 && j->set.trainer[0]) {
        n->n_samples = j->n_samples[slot];
        n->n_own = j->n_own[slot] > 0 ? j->n_own[slot] : UINT64_MAX;
        assert_ok(optimizer_new(&n->optimizer, &sgd, N, &e));
    }
    cfg = exchange_config_of(&j->set, n->node);
    cfg.plugin = cluster_library(codec)->plugin;
    cfg.blocks = &j->blocks;
    cfg.n_test_sums = j->set.divides_test ? TEST_REAL_SUMS : 0;
    cfg.n_params = N;
    cfg.params = n->w;
    cfg.grads = n->grads;
    cfg.layers = &j->layer;
    cfg.n_layers = 1;
    cfg.update = update_on_server;
    cfg.record = ignore_value;
    cfg.owner = n;
    assert_ok(exchange_new(&n->x, &cfg, &e));
    assert_ok(step_open(&n->step,
                        &(struct step_config){.set = &j->set,
                                              .schedule = &j->schedule,
                                              .exchange = n->x,
                                              .layers = &j->layer,
                                              .n_layers = 1,
                                              .node = n->node,
                                              .params = n->w,
                                              .n_params = N,
                                              .n_trained = N,
                                              .n_blocks = n->node >= 0,
                                              .updates_outside = n->optimizer},
                        &e));
}

static void run_job_with(struct own_job *j, const char *codec, const struct settings *set,
                         const size_t n_samples[WORKERS], const uint64_t n_own[WORKERS])
{
    static const int own_block[WORKERS] = {0, 1, 2};
    struct err e = {0};
    int n_left, from = 0;

    *j = (struct own_job){.set = *set, .layer = {.name = "w", .n = N}};
    memcpy(j->n_samples, n_samples, sizeof j->n_samples);
    memcpy(j->n_own, n_own, sizeof j->n_own);
    j->set.node_count = WORKERS;
    j->set.min_nodes = j->set.redundancy = j->set.record_every = j->set.batch_size = 1;
    j->set.accumulate = 1;
    if (!j->set.aggregate[0])
        strcpy(j->set.aggregate, "mean");
    if (j->set.participate == 0)
        j->set.participate = 1;
    j->n_nodes = n_left = WORKERS + set->server_count;
    assert_ok(settings_blocks(&j->blocks, &j->set, &e));
    assert_ok(schedule_parse(&j->schedule, "constant", &e));
    for (int i = 0; i < j->n_nodes; i++)
        open_node(j, i, codec);
    j->net = mesh_mem_new(WORKERS, set->server_count, exchange_limit(j->nodes[0].x), set->seed);
    for (int i = 0; i < j->n_nodes; i++) {
        struct own_node *n = &j->nodes[i];

        n->mesh = mesh_mem_node(j->net, n->node);
        exchange_attach(n->x, n->mesh, NULL);
        worker_open(&n->worker, &(struct worker_config){.set = &j->set,
                                                        .exchange = n->x,
                                                        .step = &n->step,
                                                        .blocks = n->node < 0 ? NULL : &own_block[n->node],
                                                        .has_test = n->node >= 0});
    }
    while (n_left > 0) { /* whoever can go on, in turn */
        int tried = 0;

        while (j->nodes[from].is_done || !take_turn(&j->nodes[from])) {
            assert_true(++tried <= j->n_nodes);
            from = (from + 1) % j->n_nodes;
        }
        n_left -= j->nodes[from].is_done;
        if (j->nodes[from].is_done)
            mesh_close(j->nodes[from].mesh, 0);
        if (set->sync == SYNC_ASGD) /* where no worker waits for another one */
            from = (from + 1) % j->n_nodes;
    }
}

static void run_weighted_job(struct own_job *j, const char *codec, const struct settings *set,
                             const size_t n_samples[WORKERS])
{
    run_job_with(j, codec, set, n_samples, (const uint64_t[WORKERS]){0});
}

static void run_job(struct own_job *j, const char *codec, const struct settings *set)
{
    run_weighted_job(j, codec, set, (const size_t[WORKERS]){1, 1, 1});
}

static void close_job(struct own_job *j)
{
    for (int i = 0; i < j->n_nodes; i++) {
        exchange_free(j->nodes[i].x);
        step_close(&j->nodes[i].step);
        optimizer_free(j->nodes[i].optimizer);
    }
    mesh_mem_free(j->net);
    blocks_clear(&j->blocks);
}

TEST(a_training_loop_of_ones_own_finds_the_mean_of_its_workers_points)
{
    static const struct {
        const char *codec;
        struct settings set;
    } cases[] = {
        {"plain", {.path = COMBINE_PATH_GATHER}},
        {"fedavg", {.local_steps = 3}},
        {"ps", {.server_count = 1}},
        {"ps", {.server_count = 1, .sync = SYNC_ASGD}},
        {"fedavg", {.local_steps = 4, .server_count = 1, .on_node_loss = NODE_LOSS_CONTINUES}},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct settings set = cases[k].set;
        struct own_job j;

        set.epochs = 4;
        set.steps_per_epoch = 40;
        set.learn_rate = set.sync == SYNC_ASGD ? 0.05 : 0.2;
        set.seed = k + 1;
        run_job(&j, cases[k].codec, &set);
        for (int w = 0; w < WORKERS; w++)
            for (size_t i = 0; i < N; i++)
                if (!(fabsf(j.nodes[w].w[i] - goal(1, i)) < (set.sync == SYNC_ASGD ? 0.2F : 1e-4F)))
                    fail_msg("case %zu: worker %d ends with %g", k, w, (double)j.nodes[w].w[i]);
        close_job(&j);
    }
}

/* C: computes, R: records, E: evaluates, T: takes the results on the whole test set, S: saves, D: done. */
static void assert_asks(const char *codec, const struct settings *set, int slot, const char *asks)
{
    struct own_job j;

    run_job(&j, codec, set);
    assert_string_equal(j.nodes[slot].trace, asks);
    close_job(&j);
}

TEST(at_an_epochs_end_a_worker_evaluates_before_it_saves)
{
    const struct settings set = {
        .epochs = 2, .steps_per_epoch = 3, .learn_rate = 0.1, .checkpoint_every = 1, .eval_every = 2};

    assert_asks("plain", &set, 0, "CRCRECRESCRECRCRESRD");
}

TEST(with_a_divided_test_set_a_worker_gets_the_results_before_it_saves)
{
    const struct settings set = {.epochs = 2,
                                 .steps_per_epoch = 3,
                                 .learn_rate = 0.1,
                                 .checkpoint_every = 1,
                                 .eval_every = 2,
                                 .divides_test = true};

    assert_asks("plain", &set, 0, "CRCRETCRETSCRETCRCRETSRD");
    assert_asks("plain", &set, 1, "CRCRETCRETSCRETCRCRETSRD");
}

TEST(a_worker_saves_within_an_epoch_after_the_evaluation_of_that_step)
{
    const struct settings set = {
        .epochs = 2, .steps_per_epoch = 3, .learn_rate = 0.1, .checkpoint_steps = 2, .eval_every = 2};

    assert_asks("plain", &set, 0, "CRCRESCRECRESCRCRESRD");
}

/* Its extra round, after step 4, is none that a longer job has. */
TEST(a_job_that_ends_amid_local_steps_is_saved_before_its_last_exchange)
{
    const struct settings set = {
        .epochs = 2, .steps_per_epoch = 2, .local_steps = 3, .learn_rate = 0.1, .checkpoint_every = 1};

    assert_asks("fedavg", &set, 0, "CRCRESCRCSRERD");
}

/* What comes with the last barrier replaces the model of the last epoch. */
TEST(with_barriers_a_worker_saves_what_it_has_before_the_job_ends)
{
    const struct settings set = {.epochs = 2,
                                 .steps_per_epoch = 2,
                                 .learn_rate = 0.1,
                                 .checkpoint_every = 1,
                                 .server_count = 1,
                                 .sync = SYNC_ASGD};

    assert_asks("ps", &set, 0, "CRCRESCRCRSERD");
}

TEST(a_server_saves_what_it_has_when_the_rounds_of_an_epoch_are_closed)
{
    const struct settings set = {
        .epochs = 2, .steps_per_epoch = 1, .learn_rate = 0.1, .checkpoint_every = 1, .server_count = 1};

    /* Three contributions to each of two rounds; then three workers leave. */
    assert_asks("ps", &set, WORKERS, "RRRSRRRSRRRD");
}

/* The rate is too great: each step takes the workers further away. */
TEST(evaluations_that_become_no_better_end_all_workers_after_the_same_step)
{
    const struct settings set = {
        .epochs = 5, .steps_per_epoch = 10, .learn_rate = 2.5, .eval_every = 2, .patience = 1};
    struct own_job j;

    run_job(&j, "plain", &set);
    for (int w = 0; w < WORKERS; w++) {
        assert_int_equal(step_stop(&j.nodes[w].step).reason, STOP_PATIENCE);
        assert_int_equal(j.nodes[w].step.n_done, j.nodes[0].step.n_done);
    }
    assert_in_range(j.nodes[0].step.n_done, 4, 49);
    close_job(&j);
}

/* Loops that update. */

static struct settings updating(struct settings set)
{
    strcpy(set.trainer, "own.py");
    set.epochs = 4;
    set.steps_per_epoch = 10;
    set.learn_rate = 0.2;
    return set;
}

TEST(a_loop_that_updates_ends_with_the_bits_of_psgds_update)
{
    static const struct {
        const char *codec;
        struct settings set;
    } cases[] = {
        {"plain", {.path = COMBINE_PATH_GATHER}},
        {"plain", {.path = COMBINE_PATH_GATHER, .aggregate = "median"}},
        {"plain", {.path = COMBINE_PATH_GATHER, .participate = 0.5}},
        {"plain", {.path = COMBINE_PATH_GATHER, .compress = "topk:ratio=0.4,ef=true"}},
        {"plain", {.path = COMBINE_PATH_GATHER, .on_node_loss = NODE_LOSS_CONTINUES}},
        {"allreduce", {0}},
        {"allreduce", {.compress = "fp16"}},
        {"allreduce", {.overlap = OVERLAP_ONE}},
        {"doublesqueeze", {.server_count = 1}},
        {"signsgd", {0}},
        {"laq", {0}},
        {"fedavg", {.local_steps = 3}},
        {"fedavg", {.local_steps = 3, .path = COMBINE_PATH_GATHER}},
        {"fedavg", {.local_steps = 3, .server_count = 1}},
        {"fedavg", {.local_steps = 3, .server_count = 1, .participate = 0.5}},
        {"fedavg", {.local_steps = 3, .overlap = OVERLAP_ONE}},
        {"fedprox", {.local_steps = 3}},
        {"scaffold", {.local_steps = 3}},
        {"slowmo", {.local_steps = 3}},
        {"diloco", {.local_steps = 3}},
        {"easgd", {.local_steps = 3}},
        {"gossip", {0}},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        const struct settings own = updating(cases[k].set);
        struct settings set = own;
        struct own_job j[2];

        set.trainer[0] = '\0';
        run_job(&j[0], cases[k].codec, &set);
        run_job(&j[1], cases[k].codec, &own);
        for (int w = 0; w < WORKERS; w++)
            if (memcmp(j[0].nodes[w].w, j[1].nodes[w].w, sizeof j[0].nodes[w].w) != 0)
                fail_msg("case %zu, %s: worker %d ends with %.9g, and by psgd's update with %.9g", k,
                         cases[k].codec, w, (double)j[1].nodes[w].w[0], (double)j[0].nodes[w].w[0]);
        close_job(&j[0]);
        close_job(&j[1]);
    }
}

/* The mean of the points, weighted by samples. */
static void assert_weighted_mean(const char *codec, struct settings set, const size_t n_samples[WORKERS])
{
    double n = (double)(n_samples[0] + n_samples[1] + n_samples[2]);
    double mean = (double)(n_samples[1] + 2 * n_samples[2]) / n;
    struct own_job j;

    set = updating(set);
    run_weighted_job(&j, codec, &set, n_samples);
    for (int w = 0; w < WORKERS; w++)
        for (size_t i = 0; i < N; i++)
            if (!(fabs((double)j.nodes[w].w[i] - mean - (double)i / 8) < 1e-3))
                fail_msg("%s: worker %d ends with %g, not %g", codec, w, (double)j.nodes[w].w[i],
                         mean + (double)i / 8);
    close_job(&j);
}

static const char *const gradients[] = {"plain", "allreduce", "doublesqueeze"};
static const struct settings weighing[] = {
    {.path = COMBINE_PATH_GATHER}, {.path = COMBINE_PATH_ALLREDUCE}, {.server_count = 1}};

TEST(workers_weigh_as_many_samples_as_they_report)
{
    for (size_t k = 0; k < N_OF(weighing); k++) {
        struct settings rounds = weighing[k];

        rounds.local_steps = 2;
        assert_weighted_mean(gradients[k], weighing[k], (const size_t[WORKERS]){1, 2, 5});
        assert_weighted_mean("fedavg", rounds, (const size_t[WORKERS]){7, 1, 3});
    }
}

/* Its gradient has a NaN. */
TEST(a_worker_that_reports_no_samples_has_no_weight_and_follows_the_others)
{
    for (size_t k = 0; k < N_OF(weighing); k++) {
        struct settings rounds = weighing[k];

        rounds.local_steps = 2;
        assert_weighted_mean(gradients[k], weighing[k], (const size_t[WORKERS]){3, 1, 0});
        assert_weighted_mean("fedavg", rounds, (const size_t[WORKERS]){0, 1, 1});
    }
}

/* signsgd's contribution has a weight of its own, 1. */
TEST(a_worker_without_samples_has_no_weight_where_the_rule_weighs)
{
    const struct settings set = updating((struct settings){0});
    struct own_job j;

    run_weighted_job(&j, "signsgd", &set, (const size_t[WORKERS]){0, 0, 1});
    for (int w = 0; w < WORKERS; w++)
        assert_true(fabsf(j.nodes[w].w[0] - goal(2, 0)) <= 0.2F && j.nodes[w].w[0] == j.nodes[0].w[0]);
    close_job(&j);
}

TEST(a_job_of_workers_without_samples_changes_nothing)
{
    static const char *const codecs[] = {"allreduce", "fedavg"};
    struct settings set = updating((struct settings){.local_steps = 2});

    for (size_t k = 0; k < N_OF(codecs); k++) {
        struct own_job j;

        run_weighted_job(&j, codecs[k], &set, (const size_t[WORKERS]){0, 0, 0});
        for (size_t i = 0; i < N; i++)
            assert_true(j.nodes[0].w[i] == 0);
        assert_true(exchange_combined_nothing(j.nodes[0].x));
        close_job(&j);
    }
}

/* The last worker that has data has it for 17 steps: the exchange after step 20 still has its samples. */
TEST(a_job_ends_with_the_first_exchange_to_which_no_worker_has_samples)
{
    static const uint64_t n_own[WORKERS] = {3, 17, 9};
    static const struct {
        const char *codec;
        struct settings set;
        uint64_t n_steps; /* 0: as many as the nodes' messages allow */
    } cases[] = {
        {"plain", {.path = COMBINE_PATH_GATHER}, 18},
        {"plain", {.path = COMBINE_PATH_GATHER, .aggregate = "median"}, 18},
        {"plain", {.path = COMBINE_PATH_GATHER, .on_node_loss = NODE_LOSS_CONTINUES}, 18},
        {"allreduce", {0}, 18},
        {"allreduce", {.compress = "fp16"}, 18},
        {"allreduce", {.overlap = OVERLAP_ONE}, 19},
        {"signsgd", {0}, 18},
        {"doublesqueeze", {.server_count = 1}, 18},
        {"fedavg", {.local_steps = 5}, 25},
        {"fedavg", {.local_steps = 5, .path = COMBINE_PATH_GATHER}, 25},
        {"fedavg", {.local_steps = 5, .server_count = 1}, 25},
        {"fedavg", {.local_steps = 5, .overlap = OVERLAP_ONE}, 30},
        {"plain", {.path = COMBINE_PATH_GATHER, .participate = 0.5}, 0},
        {"plain", {.path = COMBINE_PATH_GATHER, .participate = 0.34}, 0},
        {"doublesqueeze", {.server_count = 1, .participate = 0.5}, 0},
        {"fedavg", {.local_steps = 2, .server_count = 1, .participate = 0.5}, 0},
        {"gossip", {0}, 0},
        {"dc_qsgd", {.sync = SYNC_ASGD, .server_count = 1}, 0},
        {"plain", {.sync = SYNC_ASGD}, 0},
        {"fedavg", {.sync = SYNC_ASGD, .local_steps = 2}, 0},
        {"asgd", {.sync = SYNC_ASGD, .local_steps = 2, .server_count = 1}, 0},
        {"downpour", {.sync = SYNC_ASGD, .server_count = 1}, 0},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        const struct settings set = updating(cases[k].set);
        bool ends_alone = set.sync == SYNC_ASGD && set.server_count > 0;
        struct own_job j;

        run_job_with(&j, cases[k].codec, &set, (const size_t[WORKERS]){1, 2, 1}, n_own);
        for (int w = 0; w < WORKERS; w++) {
            const struct step *s = &j.nodes[w].step;
            uint64_t n = cases[k].n_steps > 0 ? cases[k].n_steps
                         : ends_alone         ? n_own[w] + 1
                                              : j.nodes[0].step.n_done;

            if (s->n_done != n || n <= n_own[w] || n >= 40 || step_stop(s).reason != STOP_FINISHED ||
                step_stop(s).step != n)
                fail_msg("case %zu, %s: worker %d ends after step %llu, not %llu, for reason %d", k,
                         cases[k].codec, w, (unsigned long long)s->n_done, (unsigned long long)n,
                         step_stop(s).reason);
        }
        close_job(&j);
    }
}

/* U: updates, P: its params. */
TEST(a_loop_that_updates_is_asked_once_in_each_step)
{
    struct settings set = updating((struct settings){.local_steps = 3, .checkpoint_every = 1});

    set.epochs = set.steps_per_epoch = 2;
    assert_asks("fedavg", &set, 0, "CURCURPESCURCUSRERD");
    set.participate = 0.5;
    set.server_count = 1;
    assert_asks("fedavg", &set, 0, "CURCURPESCURCUSRERD");
}

TEST(params_are_stored_where_the_rule_reads_them)
{
    static const struct {
        const char *codec, *asks;
        struct settings set;
    } cases[] = {
        {"allreduce", "CURCURCURCURPERD", {0}},
        {"allreduce", "CURCURCURCURPERD", {.overlap = OVERLAP_ONE}},
        {"plain", "CURCURPECURCURPERD", {.path = COMBINE_PATH_GATHER, .eval_every = 2}},
        {"signsgd", "CURCURCURCURERD", {0}},
        {"laq", "CURCURCURCURERD", {0}},
        {"gossip", "CURCURCURCURERD", {0}},
        {"fedavg", "CURCURPECURCURERD", {.local_steps = 3, .eval_every = 2}},
        {"fedavg", "CURCURCURPECURERD", {.local_steps = 4, .eval_every = 3}},
        {"fedprox", "CURCURECURCURERD", {.local_steps = 3, .eval_every = 2}},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct settings set = updating(cases[k].set);

        set.epochs = 1;
        set.steps_per_epoch = 4;
        assert_asks(cases[k].codec, &set, 0, cases[k].asks);
    }
}

/* All end after step 6, in a round of seven local steps, which then has its exchange early. */
TEST(a_decision_in_the_middle_of_a_round_has_the_params_for_the_last_exchange)
{
    struct settings set = updating((struct settings){.local_steps = 7, .eval_every = 2, .patience = 1});
    struct own_job j;

    set.learn_rate = 2.5;
    run_job(&j, "fedavg", &set);
    assert_int_equal(step_stop(&j.nodes[0].step).reason, STOP_PATIENCE);
    assert_int_equal(j.nodes[0].step.n_done, 6);
    for (int w = 0; w < WORKERS; w++)
        assert_true(isfinite(j.nodes[w].w[0]) && j.nodes[w].w[0] == j.nodes[0].w[0]);
    close_job(&j);
}

/* A quarter of the rate from the fourth step on. */
TEST(a_loop_that_updates_gets_the_rules_factor_on_its_rate)
{
    struct settings set = updating((struct settings){0});
    struct own_job j;

    set.epochs = 1;
    set.steps_per_epoch = 3;
    run_job(&j, "tests/control", &set);
    assert_true(j.nodes[0].train.lr == 0.2);
    close_job(&j);
    set.steps_per_epoch = 5;
    run_job(&j, "tests/control", &set);
    assert_true(j.nodes[0].train.lr == 0.05);
    close_job(&j);
}

TEST(the_row_of_a_step_has_what_the_loop_reports)
{
    const struct settings set = updating((struct settings){.local_steps = 2});
    struct own_job j;

    run_weighted_job(&j, "allreduce", &set, (const size_t[WORKERS]){4, 2, 0});
    assert_int_equal(j.nodes[0].train.samples, 4 * 40);
    assert_int_equal(j.nodes[1].train.samples, 2 * 40);
    assert_int_equal(j.nodes[2].train.samples, 0);
    assert_true(j.nodes[0].train.lr == set.learn_rate);
    assert_true(j.nodes[0].train.loss == distance_of(&j.nodes[0]) || j.nodes[0].train.loss > 0);
    assert_true(j.nodes[0].train.accuracy == RECORD_MISSING);
    assert_true(j.nodes[2].train.loss == RECORD_MISSING);
    assert_true(j.nodes[0].train.grad_norm > 0 && j.nodes[0].updated_by);
    close_job(&j);
    run_job(&j, "fedavg", &set);
    assert_true(j.nodes[0].train.grad_norm == RECORD_MISSING && !j.nodes[0].updated_by);
    close_job(&j);
}

TEST(rules_that_update_on_servers_are_refused_where_a_program_updates)
{
    const struct settings set = updating(
        (struct settings){.node_count = WORKERS, .server_count = 1, .redundancy = 1});
    struct exchange_config cfg = exchange_config_of(&set, 0);
    struct blocks blocks;
    struct exchange *x;
    struct err e;

    assert_ok(settings_blocks(&blocks, &set, &e));
    cfg.plugin = cluster_library("ps")->plugin;
    cfg.blocks = &blocks;
    assert_int_equal(exchange_new(&x, &cfg, &e), ERR_CODEC);
    assert_non_null(strstr(e.text, "a training program has its own"));
    assert_non_null(strstr(e.hint, "doublesqueeze"));
    blocks_clear(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_loop_of_ones_own_finds_the_mean_of_its_workers_points),
        cmocka_unit_test(at_an_epochs_end_a_worker_evaluates_before_it_saves),
        cmocka_unit_test(with_a_divided_test_set_a_worker_gets_the_results_before_it_saves),
        cmocka_unit_test(a_worker_saves_within_an_epoch_after_the_evaluation_of_that_step),
        cmocka_unit_test(a_job_that_ends_amid_local_steps_is_saved_before_its_last_exchange),
        cmocka_unit_test(with_barriers_a_worker_saves_what_it_has_before_the_job_ends),
        cmocka_unit_test(a_server_saves_what_it_has_when_the_rounds_of_an_epoch_are_closed),
        cmocka_unit_test(evaluations_that_become_no_better_end_all_workers_after_the_same_step),
        cmocka_unit_test(a_loop_that_updates_ends_with_the_bits_of_psgds_update),
        cmocka_unit_test(workers_weigh_as_many_samples_as_they_report),
        cmocka_unit_test(a_worker_that_reports_no_samples_has_no_weight_and_follows_the_others),
        cmocka_unit_test(a_worker_without_samples_has_no_weight_where_the_rule_weighs),
        cmocka_unit_test(a_job_of_workers_without_samples_changes_nothing),
        cmocka_unit_test(a_job_ends_with_the_first_exchange_to_which_no_worker_has_samples),
        cmocka_unit_test(a_loop_that_updates_is_asked_once_in_each_step),
        cmocka_unit_test(params_are_stored_where_the_rule_reads_them),
        cmocka_unit_test(a_decision_in_the_middle_of_a_round_has_the_params_for_the_last_exchange),
        cmocka_unit_test(a_loop_that_updates_gets_the_rules_factor_on_its_rate),
        cmocka_unit_test(the_row_of_a_step_has_what_the_loop_reports),
        cmocka_unit_test(rules_that_update_on_servers_are_refused_where_a_program_updates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
