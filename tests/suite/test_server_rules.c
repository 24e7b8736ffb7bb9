/* Rules in which each worker has its own dealings with the servers: what their papers state, whatever the
 * order in which workers come. */
#include "tests/lib/run_well.h"

#include <math.h>

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

TEST(what_workers_change_adds_up_on_the_server)
{
    static const struct {
        const char *codec, *options;
    } cases[] = {{"asgd", NULL},           {"downpour", NULL},
                 {"downpour", "n_push=2"}, {"downpour", "n_push=2,n_fetch=4"},
                 {"dc_asgd", "lambda=0"},  {"dc_asgd", "lambda=0,mode=adaptive"}};
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

/* Two workers with one gradient each, both computed at the first weights: the one of `second` comes when the
 * other one has moved them. */
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
    int n[2] = {0};

    for (int second = 0; second < 2; second++)
        compensated(expected[second], second, lambda, is_adaptive);
    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;
        int second = 0;

        run_well(&c, &cfg);
        while (second < 2 && !is_near(expected[second], c.nodes[2].params, 1e-6))
            second++;
        if (second == 2)
            fail_msg("%s, seed %d: neither order gives these weights", options, (int)cfg.seed);
        n[second]++;
        cluster_close(&c);
    }
    assert_true(n[0] > 0 && n[1] > 0);
}

TEST(dc_asgd_compensates_as_equation_10_states)
{
    assert_compensates("lambda=0.7", 0.7, false);
    assert_compensates("mode=constant", 0.04, false);
    assert_compensates("mode=adaptive", 2, true);
    assert_compensates("mode=adaptive,lambda=0.5", 0.5, true);
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
    int n[3] = {0};

    for (int late = 0; late < 3; late++)
        for (size_t i = 0; i < N_PARAMS; i++) {
            expected[late][i] = start(i);
            for (int k = 0; k < 3; k++)
                expected[late][i] -= k == late ? 0 : (double)(lr * cluster_gradient(0, k, i)) / 2;
        }
    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;
        int late = 0;

        run_well(&c, &cfg);
        while (late < 3 && !is_near(expected[late], c.nodes[3].params, 1e-6))
            late++;
        assert_int_not_equal(late, 3);
        n[late]++;
        assert_string_equal(c.nodes[3].record.name, "late");
        assert_int_equal(c.nodes[3].record.n, 1);
        assert_true(c.nodes[3].record.value == 1);
        cluster_close(&c);
    }
    assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
}

TEST(more_replicas_than_workers_and_uneven_fetches_are_refused)
{
    static const struct {
        const char *codec, *options, *why;
    } cases[] = {
        {"sync_replicas", "aggregate=3,backups=1", "aggregate=3 and backups=1 are more than the 3 workers"},
        {"sync_replicas", "backups=3", "aggregate=0 and backups=3 are more than the 3 workers"},
        {"downpour", "n_push=2,n_fetch=3", "n_fetch=3 is not a multiple of n_push=2"},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config alone = {.codec = cases[k].codec,
                                       .n_workers = 1,
                                       .n_servers = 1,
                                       .n_steps = 1,
                                       .n_params = N_PARAMS,
                                       .is_asgd = true};
        float numbers[4] = {0};
        struct exchange *x;
        struct cluster c;
        struct err e;

        run_well(&c, &alone);
        assert_int_equal(exchange_new(&x,
                                      &(struct exchange_config){.plugin = c.lib->plugin,
                                                                .options = cases[k].options,
                                                                .n_workers = 3,
                                                                .n_servers = 1,
                                                                .blocks = &c.blocks,
                                                                .n_params = 4,
                                                                .params = numbers,
                                                                .grads = numbers},
                                      &e),
                         ERR_CODEC);
        assert_error_has(cases[k].why);
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_workers_change_adds_up_on_the_server),
        cmocka_unit_test(asgd_in_ssgd_adds_the_changes_of_all_workers),
        cmocka_unit_test(dc_asgd_compensates_as_equation_10_states),
        cmocka_unit_test(dc_asgd_with_one_worker_is_gradient_descent),
        cmocka_unit_test(sync_replicas_without_backups_is_synchronous_averaging),
        cmocka_unit_test(sync_replicas_takes_the_mean_of_the_first_and_drops_the_late),
        cmocka_unit_test(more_replicas_than_workers_and_uneven_fetches_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
