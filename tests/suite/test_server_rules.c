/* Rules in which each worker exchanges messages with the servers by itself: the equations of their
 * papers, in any order of the workers. */
#include "tests/lib/run_well.h"

#include <math.h>

#include "tests/lib/sim_job.h"

enum { N_PARAMS = 23, SEEDS = 30 };

static const float lr = 0.125f; /* the cluster's */

static double start(size_t i)
{
    return (double)((float)i / (float)N_PARAMS);
}

static bool is_near(const double *expected, const float *params, double tolerance)
{
    for (size_t i = 0; i < N_PARAMS; i++)
        if (!(fabs(expected[i] - (double)params[i]) <= tolerance))
            return false;
    return true;
}

/* Runs the job with many seeds. Each must end, on the server, with one of the `n` expected vectors, and each
 * vector must be the end of some seed. `also`, if given, looks at the server. */
static void assert_ends_with_each(struct cluster_config cfg, double (*expected)[N_PARAMS], int n,
                                  void (*also)(const struct cluster_node *server))
{
    int n_ends[4] = {0};

    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        const struct cluster_node *server;
        struct cluster c;
        int end = 0;

        run_well(&c, &cfg);
        server = &c.nodes[cfg.n_workers];
        while (end < n && !is_near(expected[end], server->params, 1e-6))
            end++;
        if (end == n)
            fail_msg("%s:%s, seed %d: no order gives these weights", cfg.codec, cfg.options, (int)cfg.seed);
        n_ends[end]++;
        if (also)
            also(server);
        cluster_close(&c);
    }
    for (int end = 0; end < n; end++)
        assert_true(n_ends[end] > 0);
}

/* Every gradient of every worker moves the server once, by lr: no order of arrival changes the sum. */
static void sum_of_all(double *out, const struct cluster_config *cfg)
{
    for (size_t i = 0; i < N_PARAMS; i++) {
        out[i] = start(i);
        for (uint64_t step = 0; step < cfg->n_steps; step++)
            for (int k = 0; k < cfg->n_workers; k++)
                out[i] -= (double)(lr * cluster_gradient(step, k, i));
    }
}

TEST(changes_of_workers_add_up_on_the_server)
{
    static const struct {
        const char *codec, *options;
    } cases[] = {{"asgd", NULL},           {"downpour", NULL},
                 {"downpour", "n_push=2"}, {"downpour", "n_push=2,n_fetch=4"},
                 {"dc_asgd", "lambda=0"},  {"dc_asgd", "lambda=0,mode=adaptive"},
                 {"dc_qsgd", "lambda=0"}};
    double expected[N_PARAMS];

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = {.codec = cases[k].codec,
                                     .options = cases[k].options,
                                     .n_workers = 4,
                                     .n_servers = 1,
                                     .n_steps = 7,
                                     .local_steps = strcmp(cases[k].codec, "asgd") == 0 ? 2 : 0,
                                     .n_params = N_PARAMS,
                                     .is_asgd = true};

        sum_of_all(expected, &cfg);
        for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
            struct cluster c;

            run_well(&c, &cfg);
            if (!is_near(expected, c.nodes[4].params, 1e-5))
                fail_msg("%s:%s, seed %d", cfg.codec, cfg.options ? cfg.options : "", (int)cfg.seed);
            cluster_close(&c);
        }
    }
}

/* In ssgd all workers end with the sum of all changes, with and without servers. */
TEST(asgd_in_ssgd_adds_the_changes_of_all_workers)
{
    struct cluster_config cfg = {
        .codec = "asgd", .n_workers = 3, .n_steps = 6, .local_steps = 2, .n_params = N_PARAMS};
    double expected[N_PARAMS];

    sum_of_all(expected, &cfg);
    for (cfg.n_servers = 0; cfg.n_servers <= 2; cfg.n_servers++) {
        struct cluster c;

        run_well(&c, &cfg);
        for (int k = 0; k < cfg.n_workers; k++)
            assert_true(is_near(expected, c.nodes[k].params, 1e-5));
        cluster_close(&c);
    }
}

/* Two workers with one gradient each, both computed at the first weights: that of worker `second`
 * arrives after the other one has changed them. */
static void compensated(double *out, int second, double lambda, bool is_adaptive)
{
    for (size_t i = 0; i < N_PARAMS; i++) {
        double a = (double)cluster_gradient(0, 1 - second, i), b = (double)cluster_gradient(0, second, i);
        double moved = -(double)lr * a, square = 0.95 * 0.05 * a * a + 0.05 * b * b;

        out[i] = start(i) + moved -
                 (double)lr * (b + lambda / (is_adaptive ? sqrt(square + 1e-7) : 1) * b * b * moved);
    }
}

static void assert_compensates(const char *options, double lambda, bool is_adaptive)
{
    struct cluster_config cfg = {.codec = "dc_asgd",
                                 .options = options,
                                 .n_workers = 2,
                                 .n_servers = 1,
                                 .n_steps = 1,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true};
    double expected[2][N_PARAMS];

    for (int second = 0; second < 2; second++)
        compensated(expected[second], second, lambda, is_adaptive);
    assert_ends_with_each(cfg, expected, 2, NULL);
}

TEST(dc_asgd_compensates_as_equation_10_states)
{
    assert_compensates("lambda=0.7", 0.7, false);
    assert_compensates("mode=constant", 0.04, false);
    assert_compensates("mode=adaptive", 2, true);
    assert_compensates("mode=adaptive,lambda=0.5", 0.5, true);
}

/* As in dc_asgd, unless both ask for the weights before either has sent its change. */
TEST(dc_qsgd_compensates_the_changes_of_others_before_it_sends)
{
    static const double lambdas[] = {0.3, 0.9}; /* the default, and another */

    for (int k = 0; k < 2; k++) {
        struct cluster_config cfg = {.codec = "dc_qsgd",
                                     .options = k == 0 ? NULL : "lambda=0.9",
                                     .n_workers = 2,
                                     .n_servers = 1,
                                     .n_steps = 1,
                                     .n_params = N_PARAMS,
                                     .is_asgd = true};
        double expected[3][N_PARAMS];

        for (int second = 0; second < 2; second++)
            compensated(expected[second], second, lambdas[k], false);
        sum_of_all(expected[2], &cfg);
        assert_ends_with_each(cfg, expected, 3, NULL);
    }
}

/* The n weights of one layer, worked out as the header of loss_aware.c states it. */
static void quantize_by_loss(double *out, const double *w, const double *v, size_t n, int most)
{
    double alpha = 0, last = -1, b[N_PARAMS];

    for (size_t i = 0; i < n; i++)
        alpha = fmax(alpha, fabs(w[i]) / most);
    for (int k = 0; k < 20 && fabs(alpha - last) > 1e-4 * last; k++) {
        double up = 0, down = 0;

        for (size_t i = 0; i < n; i++) {
            b[i] = fmin(fmax(rint(w[i] / alpha), -most), most);
            up += sqrt(v[i]) * w[i] * b[i];
            down += sqrt(v[i]) * b[i] * b[i];
        }
        last = alpha;
        alpha = up / down;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = alpha * fmin(fmax(rint(w[i] / alpha), -most), most);
}

/* By hand, with 2 bits and d = 4 for the last weight, else 1: from alpha = 0.9 b = (1, 0, 1, -1), and
 * alpha = (0.9 + 0.7 + 4 0.6) / 6 = 2/3, with which b stays. With equal d it would be 0.7333. */
TEST(the_loss_of_a_heavy_weight_counts_more_in_its_quantization)
{
    static const double w[] = {0.9, 0.2, 0.7, -0.6}, v[] = {1, 1, 1, 16};
    static const double expected[] = {2 / 3., 0, 2 / 3., -2 / 3.};
    double out[4];

    quantize_by_loss(out, w, v, 4, 1);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(out[i] - expected[i]) < 1e-12);
}

TEST(loss_aware_replies_with_the_weights_that_change_the_loss_least)
{
    static const int bits[] = {2, 4, 8};

    for (int k = 0; k < 3; k++) {
        char options[32];
        struct cluster_config cfg = {.codec = "loss_aware",
                                     .options = options,
                                     .n_workers = 3,
                                     .n_servers = 1,
                                     .n_steps = 4,
                                     .n_params = N_PARAMS};
        double w[N_PARAMS], v[N_PARAMS] = {0}, expected[N_PARAMS];
        struct cluster c;

        snprintf(options, sizeof options, "bits=%d,decay=0.8", bits[k]);
        for (size_t i = 0; i < N_PARAMS; i++) {
            w[i] = start(i);
            for (uint64_t step = 0; step < cfg.n_steps; step++) {
                double g = 0;

                for (int worker = 0; worker < cfg.n_workers; worker++)
                    g += (double)cluster_gradient(step, worker, i) / cfg.n_workers;
                v[i] = 0.8 * v[i] + 0.2 * g * g;
                w[i] -= (double)lr * g;
            }
        }
        run_well(&c, &cfg);
        assert_true(is_near(w, c.nodes[3].params, 1e-6));
        for (int l = 0; l < 3; l++) {
            const struct codec_layer *layer = &c.nodes[3].layers[l];

            quantize_by_loss(expected + layer->offset, w + layer->offset, v + layer->offset, layer->n,
                             (1 << (bits[k] - 1)) - 1);
        }
        for (int worker = 0; worker < cfg.n_workers; worker++)
            assert_true(is_near(expected, c.nodes[worker].params, 1e-5));
        cluster_close(&c);
    }
}

TEST(dc_asgd_with_one_worker_is_gradient_descent)
{
    struct cluster_config cfg = {.codec = "dc_asgd",
                                 .options = "lambda=5",
                                 .n_workers = 1,
                                 .n_servers = 2,
                                 .n_steps = 7,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true};
    double expected[N_PARAMS];
    struct cluster c;

    sum_of_all(expected, &cfg);
    run_well(&c, &cfg);
    assert_true(is_near(expected, c.nodes[0].params, 1e-5));
    assert_string_equal(c.nodes[1].record.name, "staleness");
    assert_true(c.nodes[1].record.value == 0);
    cluster_close(&c);
}

/* ---- the numbers that a notebook prints: two workers, five steps of one number ---- */

static const double notebook_gradients[5][2] = {{.5488135, .07630829},
                                                {.71518937, .77991879},
                                                {.60276338, .43840923},
                                                {.54488318, .72346518},
                                                {.4236548, .97798951}};
static const double notebook_prints[5][3] = {/* worker 0, worker 1, the center */
                                             {-.383332, .041923, -.142574},
                                             {-.918662, -.743028, -.762018},
                                             {-1.390659, -1.146142, -1.217762},
                                             {-1.803250, -1.829489, -1.756509},
                                             {-2.163506, -2.676839, -2.353806}};

static void begin_notebook(struct workload *load, float *params)
{
    (void)load;
    params[0] = .1106f;
}

static int gradient_of_notebook(struct workload *load, const struct workload_batch *b, const float *params,
                                float *grads, struct net_score *score, struct err *e)
{
    (void)load, (void)params, (void)e;
    grads[0] = (float)notebook_gradients[b->step][b->node];
    score->n++;
    return 0;
}

static void assert_prints(int n_steps, int n_servers)
{
    static struct workload_ops ops;
    static struct sim s;
    const double *printed = notebook_prints[n_steps - 1];
    struct settings set;
    struct simulation how;
    float center;
    struct err e;

    settings_default(&set);
    simulation_default(&how);
    strcpy(set.codec, "easgd_grad");
    strcpy(set.server_codec, set.codec);
    strcpy(set.codec_options, "rho=0.5");
    strcpy(set.server_codec_options, set.codec_options);
    set.node_count = 2;
    set.server_count = n_servers;
    set.epochs = 1;
    set.steps_per_epoch = n_steps;
    set.local_steps = 1;
    set.learn_rate = 0.9;
    how.gradients = 1;
    strcpy(how.step_time, "0.01");
    strcpy(how.link, "100Mbit,1ms");
    sim_job_open(&s, &set, &how, set.codec);
    ops = *s.workload->ops;
    ops.begin = begin_notebook;
    ops.gradient = gradient_of_notebook;
    s.workload->ops = &ops;
    assert_ok(sim_restart(&s, &e));
    assert_ok(sim_run(&s, &e));
    assert_true(sim_has_succeeded(&s));
    for (int k = 0; k < 2; k++)
        assert_true(fabs(s.nodes[k].params[0] - printed[k]) < 1.5e-6);
    assert_true(exchange_model(s.nodes[0].x, &center));
    assert_true(fabs((double)center - printed[2]) < 1.5e-6);
    sim_close(&s);
}

TEST(easgd_grad_computes_the_numbers_that_the_notebook_prints)
{
    for (int n_steps = 1; n_steps <= 5; n_steps++) {
        assert_prints(n_steps, 0);
        assert_prints(n_steps, 1);
    }
}

/* With one worker the order of arrival is that of the steps. It gets the center from before its
 * contribution, as in the paper's asynchronous Algorithm 1. */
TEST(easgd_grad_in_asgd_moves_the_center_by_each_contribution)
{
    struct cluster_config cfg = {.codec = "easgd_grad",
                                 .options = "rho=0.4",
                                 .n_workers = 1,
                                 .n_servers = 1,
                                 .n_steps = 6,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true};
    double w[N_PARAMS], x[N_PARAMS];
    struct cluster c;

    for (size_t i = 0; i < N_PARAMS; i++) {
        double seen = w[i] = x[i] = start(i);

        for (uint64_t step = 0; step < cfg.n_steps; step++) {
            w[i] -= (double)lr * ((double)cluster_gradient(step, 0, i) + 0.4 * (w[i] - seen));
            seen = x[i];
            x[i] += (double)lr * 0.4 * (w[i] - x[i]);
        }
    }
    run_well(&c, &cfg);
    assert_true(is_near(w, c.nodes[0].params, 1e-5));
    assert_true(is_near(x, c.nodes[1].params, 1e-5));
    cluster_close(&c);
}

/* Without backups every global step has the gradients of all workers in that step: the mean, as in ps. */
TEST(sync_replicas_without_backups_is_synchronous_averaging)
{
    struct cluster_config cfg = {.codec = "sync_replicas",
                                 .n_workers = 4,
                                 .n_servers = 2,
                                 .n_steps = 6,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true};
    double expected[N_PARAMS];

    sum_of_all(expected, &cfg);
    for (size_t i = 0; i < N_PARAMS; i++)
        expected[i] = start(i) + (expected[i] - start(i)) / cfg.n_workers;
    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;

        run_well(&c, &cfg);
        for (int k = 0; k < cfg.n_workers; k++)
            assert_true(is_near(expected, c.nodes[k].params, 1e-5));
        assert_int_equal(c.nodes[4].record.n, 0);
        cluster_close(&c);
    }
}

static void assert_one_came_late(const struct cluster_node *server)
{
    assert_string_equal(server->record.name, "late");
    assert_int_equal(server->record.n, 1);
    assert_true(server->record.value == 1);
}

/* Three workers and one step, of which two count: one gradient is left out, and comes late. */
TEST(sync_replicas_takes_the_mean_of_the_first_and_drops_the_late)
{
    struct cluster_config cfg = {.codec = "sync_replicas",
                                 .options = "backups=1",
                                 .n_workers = 3,
                                 .n_servers = 1,
                                 .n_steps = 1,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true};
    double expected[3][N_PARAMS];

    for (int late = 0; late < 3; late++)
        for (size_t i = 0; i < N_PARAMS; i++) {
            expected[late][i] = start(i);
            for (int k = 0; k < 3; k++)
                expected[late][i] -= k == late ? 0 : (double)(lr * cluster_gradient(0, k, i)) / 2;
        }
    assert_ends_with_each(cfg, expected, 3, assert_one_came_late);
}

TEST(more_replicas_than_workers_and_uneven_fetches_are_refused)
{
    static const struct {
        const char *codec, *options, *why;
    } cases[] = {
        {"sync_replicas", "aggregate=3,backups=1", "aggregate=3 and backups=1 are not the 3 workers"},
        {"sync_replicas", "aggregate=1,backups=1", "aggregate=1 and backups=1 are not the 3 workers"},
        {"sync_replicas", "backups=3", "backups=3 leave no gradient"},
        {"sync_replicas", "aggregate=4", "aggregate=4 is too many: the job has 3 workers"},
        {"downpour", "n_push=2,n_fetch=3", "n_fetch=3 is not a multiple of n_push=2"},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        assert_refused(&(struct cluster_config){.codec = cases[k].codec,
                                                .options = cases[k].options,
                                                .n_workers = 3,
                                                .n_servers = 1,
                                                .is_asgd = true},
                       cases[k].why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_workers_add_up_on_the_server),
        cmocka_unit_test(asgd_in_ssgd_adds_the_changes_of_all_workers),
        cmocka_unit_test(dc_asgd_compensates_as_equation_10_states),
        cmocka_unit_test(dc_qsgd_compensates_the_changes_of_others_before_it_sends),
        cmocka_unit_test(the_loss_of_a_heavy_weight_counts_more_in_its_quantization),
        cmocka_unit_test(loss_aware_replies_with_the_weights_that_change_the_loss_least),
        cmocka_unit_test(dc_asgd_with_one_worker_is_gradient_descent),
        cmocka_unit_test(easgd_grad_computes_the_numbers_that_the_notebook_prints),
        cmocka_unit_test(easgd_grad_in_asgd_moves_the_center_by_each_contribution),
        cmocka_unit_test(sync_replicas_without_backups_is_synchronous_averaging),
        cmocka_unit_test(sync_replicas_takes_the_mean_of_the_first_and_drops_the_late),
        cmocka_unit_test(more_replicas_than_workers_and_uneven_fetches_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
