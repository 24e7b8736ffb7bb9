/* A training loop of one's own around runner/core/worker.h, of the shape that another program's has: nodes
 * that are drawn to points w* of their own, by the gradient w - w*. */
#include "tests/unit/unit.h"

#include <math.h>

#include "runner/core/worker.h"
#include "tests/lib/cluster.h"

enum { WORKERS = 3, SERVERS = 1, N = 5, TRACE = 256 };

struct own_node {
    int node;
    float w[N], grads[N];
    struct exchange *x;
    struct mesh *mesh;
    struct step step;
    struct worker worker;
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

static int compute(struct own_node *n, struct err *e)
{
    const struct net_score score = {.loss = distance_of(n), .n = 1};

    for (size_t i = 0; i < N; i++)
        n->grads[i] = n->w[i] - goal(n->node, i);
    return worker_computed(&n->worker, n->grads, &score, e);
}

/* One turn; false: it waits for another node. */
static bool take_turn(struct own_node *n)
{
    static const char letters[] = ".CO.ERSD";
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
    if (letters[wants] != '.' && strlen(n->trace) < TRACE - 1)
        n->trace[strlen(n->trace)] = letters[wants];
    if (wants == WORKER_COMPUTES)
        assert_ok(compute(n, &e));
    else if (wants == WORKER_EVALUATES)
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
};

static void open_node(struct own_job *j, int slot, const char *codec)
{
    struct own_node *n = &j->nodes[slot];
    struct exchange_config cfg;
    struct err e = {0};

    *n = (struct own_node){.node = mesh_node_at(WORKERS, slot)};
    cfg = exchange_config_of(&j->set, n->node);
    cfg.plugin = cluster_library(codec)->plugin;
    cfg.blocks = &j->blocks;
    cfg.n_params = N;
    cfg.params = n->w;
    cfg.grads = n->grads;
    cfg.layers = &j->layer;
    cfg.n_layers = 1;
    cfg.update = update_on_server;
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
                                              .n_blocks = n->node >= 0},
                        &e));
}

static void run_job(struct own_job *j, const char *codec, const struct settings *set)
{
    static const int own_block[WORKERS] = {0, 1, 2};
    struct err e = {0};
    int n_left, from = 0;

    *j = (struct own_job){.set = *set, .layer = {.name = "w", .n = N}};
    j->set.node_count = WORKERS;
    j->set.min_nodes = j->set.redundancy = j->set.record_every = j->set.batch_size = 1;
    strcpy(j->set.aggregate, "mean");
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
    }
}

static void close_job(struct own_job *j)
{
    for (int i = 0; i < j->n_nodes; i++) {
        exchange_free(j->nodes[i].x);
        step_close(&j->nodes[i].step);
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

/* C: computes, R: records, E: evaluates, S: saves, D: done. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_loop_of_ones_own_finds_the_mean_of_its_workers_points),
        cmocka_unit_test(at_an_epochs_end_a_worker_evaluates_before_it_saves),
        cmocka_unit_test(a_job_that_ends_amid_local_steps_is_saved_before_its_last_exchange),
        cmocka_unit_test(with_barriers_a_worker_saves_what_it_has_before_the_job_ends),
        cmocka_unit_test(a_server_saves_what_it_has_when_the_rounds_of_an_epoch_are_closed),
        cmocka_unit_test(evaluations_that_become_no_better_end_all_workers_after_the_same_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
