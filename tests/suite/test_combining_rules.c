/* What the papers of rules that combine state, compared with the rule in a cluster: its formula, its limits,
 * where it converges to, between workers and with servers, compressed or not. */
#include "tests/lib/rule_job.h"

/* The sum of all workers' losses is least at the mean of their targets. */
static void assert_converges(struct cluster_config cfg, float tolerance)
{
    struct cluster c;

    cfg.is_convex = true;
    run_well(&c, &cfg);
    for (int i = 0; i < cfg.n_workers; i++)
        for (size_t p = 0; p < N_PARAMS; p++) {
            float mean = 0;

            for (int k = 0; k < cfg.n_workers; k++)
                mean += cluster_target(k, p) / (float)cfg.n_workers;
            if (!(fabsf(c.nodes[i].params[p] - mean) < tolerance))
                fail_msg("%s: worker %d ends with %g, the least loss is at %g", cfg.codec, i,
                         (double)c.nodes[i].params[p], (double)mean);
        }
    cluster_close(&c);
}

static void assert_equals_plain(const char *codec, int n_servers)
{
    struct cluster_config cfg = {
        .codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};
    struct cluster c, plain;

    run_well(&plain, &cfg);
    cfg.codec = codec;
    cfg.path = n_servers > 0 ? COMBINE_PATH_SERVERS : COMBINE_PATH_GATHER;
    cfg.n_servers = n_servers;
    run_well(&c, &cfg);
    for (int i = 0; i < cfg.n_workers; i++)
        assert_memory_equal(plain.nodes[i].params, c.nodes[i].params, N_PARAMS * sizeof(float));
    cluster_close(&c);
    cluster_close(&plain);
    assert_independent_of_timing(cfg);
}

TEST(ps_with_gradient_descent_equals_plain_bit_for_bit)
{
    assert_equals_plain("ps", 1);
    assert_equals_plain("ps", 3);
}

/* By hand: x - lr (g_0 + g_1 + g_2) in each step, and in asgd, where each gradient is a step, the same. */
static void assert_takes_the_sum(bool is_asgd)
{
    struct cluster_config cfg = {.codec = "ps_sum",
                                 .n_workers = 3,
                                 .n_servers = 1,
                                 .n_steps = 5,
                                 .n_params = N_PARAMS,
                                 .is_asgd = is_asgd};
    float expected[N_PARAMS];
    struct cluster c;

    cluster_open(&c, &cfg);
    for (size_t i = 0; i < N_PARAMS; i++) {
        expected[i] = c.nodes[3].params[i];
        for (uint64_t step = 0; step < cfg.n_steps; step++)
            for (int k = 0; k < cfg.n_workers; k++)
                expected[i] -= lr * cluster_gradient(step, k, i);
    }
    cluster_close(&c);
    run_well(&c, &cfg);
    assert_near(expected, c.nodes[3].params, 1e-6f);
    if (!is_asgd)
        assert_near(expected, c.nodes[0].params, 1e-6f);
    cluster_close(&c);
}

TEST(ps_sum_steps_by_the_sum_of_all_gradients)
{
    assert_takes_the_sum(false);
    assert_takes_the_sum(true);
}

TEST(ps_in_asgd_with_one_worker_is_gradient_descent)
{
    struct cluster_config cfg = {
        .codec = "dummy", .n_workers = 1, .n_steps = 7, .n_params = N_PARAMS, .is_asgd = true};
    struct cluster c, alone;

    run_well(&alone, &cfg);
    cfg.codec = "ps";
    cfg.n_servers = 1;
    run_well(&c, &cfg);
    assert_near(alone.nodes[0].params, c.nodes[0].params, 1e-6f);
    assert_string_equal(c.nodes[1].record.name, "staleness");
    assert_int_equal(c.nodes[1].record.n, 7);
    assert_true(c.nodes[1].record.value == 0);
    cluster_close(&c);
    cluster_close(&alone);
}

TEST(ps_converges)
{
    struct cluster_config cfg = {
        .codec = "ps", .n_workers = 3, .n_servers = 2, .n_steps = 200, .n_params = N_PARAMS};

    assert_converges(cfg, 1e-3f);
}

/* The slowest worker ends alone and draws the weights towards its own target, and the cluster's turns make
 * some slower than others: so the mean over many runs is near the least loss, but not at it. */
/* The last gradient or difference varies from run to run: the mean of some runs ends near the least loss. */
static void assert_server_comes_near(struct cluster_config cfg)
{
    enum { RUNS = 60 };
    float mean[N_PARAMS] = {0};

    for (cfg.seed = 1; cfg.seed <= RUNS; cfg.seed++) {
        struct cluster c;

        run_well(&c, &cfg);
        for (size_t p = 0; p < N_PARAMS; p++)
            mean[p] += c.nodes[3].params[p] / (float)RUNS;
        cluster_close(&c);
    }
    for (size_t p = 0; p < N_PARAMS; p++)
        if (!(fabsf(mean[p] - cluster_target(1, p)) < 0.5f)) /* initially it is 1 and more away */
            fail_msg("%s: the server ends with %g, the least loss is at %g", cfg.codec, (double)mean[p],
                     (double)cluster_target(1, p));
}

TEST(ps_and_fedpaq_in_asgd_approach_the_least_loss)
{
    struct cluster_config cfg = {.codec = "ps",
                                 .n_workers = 3,
                                 .n_servers = 1,
                                 .n_steps = 100,
                                 .n_params = N_PARAMS,
                                 .is_asgd = true,
                                 .is_convex = true};
    struct cluster c;

    assert_server_comes_near(cfg);
    run_well(&c, &cfg);
    assert_int_equal(c.nodes[3].record.n, 300); /* one row "staleness" for each gradient */
    cluster_close(&c);
    cfg.codec = "fedpaq";
    assert_server_comes_near(cfg);
}

TEST(ps_needs_servers)
{
    assert_refused(&(struct cluster_config){.codec = "ps", .n_workers = 1},
                   "updates the weights on parameter servers");
}

/* Equations 5 and 6 of the paper with rounds of `every` steps, in double. The center lags behind the
 * workers. */
static void easgd_reference(float (*out)[N_PARAMS], const struct cluster_config *cfg, double alpha)
{
    int n = cfg->n_workers;

    for (size_t p = 0; p < N_PARAMS; p++) {
        double w[WORKERS_MAX + 1];

        for (int i = 0; i <= n; i++)
            w[i] = (double)((float)p / (float)N_PARAMS);
        for (uint64_t step = 0; step < cfg->n_steps; step++) {
            double pull = 0;

            for (int i = 0; i < n; i++)
                w[i] -= (double)(lr * cluster_gradient(step, i, p));
            if ((step + 1) % cfg->local_steps != 0)
                continue;
            for (int i = 0; i < n; i++)
                pull += w[i] - w[n];
            for (int i = 0; i < n; i++)
                w[i] -= alpha * (w[i] - w[n]);
            w[n] += alpha * pull;
        }
        for (int i = 0; i <= n; i++)
            out[i][p] = (float)w[i];
    }
}

TEST(easgd_matches_its_formula_with_and_without_servers)
{
    struct cluster_config cfg = {.codec = "easgd",
                                 .options = "alpha=0.25",
                                 .n_workers = 3,
                                 .local_steps = 2,
                                 .n_steps = 8,
                                 .n_params = N_PARAMS};
    float expected[WORKERS_MAX + 1][N_PARAMS], model[N_PARAMS];

    easgd_reference(expected, &cfg, 0.25);
    for (cfg.n_servers = 0; cfg.n_servers <= 2; cfg.n_servers++) {
        struct cluster c;

        run_well(&c, &cfg);
        for (int i = 0; i < cfg.n_workers; i++) {
            assert_near(expected[i], c.nodes[i].params, 1e-5f);
            assert_true(exchange_model(c.nodes[i].x, model));
            assert_near(expected[cfg.n_workers], model, 1e-5f);
        }
        cluster_close(&c);
        assert_independent_of_timing(cfg);
    }
}

TEST(easgd_without_alpha_uses_that_of_the_paper)
{
    struct cluster_config cfg = {
        .codec = "easgd", .n_workers = 4, .n_servers = 1, .n_steps = 4, .n_params = N_PARAMS};
    struct cluster a, b;

    run_well(&a, &cfg);
    cfg.options = "alpha=0.225";
    run_well(&b, &cfg);
    assert_memory_equal(a.nodes[0].params, b.nodes[0].params, N_PARAMS * sizeof(float));
    cluster_close(&a);
    cluster_close(&b);
}

TEST(easgd_with_alpha_0_trains_each_worker_alone)
{
    struct cluster_config cfg = {.codec = "dummy", .n_workers = 3, .n_steps = 6, .n_params = N_PARAMS};
    struct cluster a, b;

    run_well(&a, &cfg);
    cfg.codec = "easgd";
    cfg.options = "alpha=0";
    for (cfg.n_servers = 0; cfg.n_servers <= 1; cfg.n_servers++) {
        run_well(&b, &cfg);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(a.nodes[i].params, b.nodes[i].params, N_PARAMS * sizeof(float));
        cluster_close(&b);
    }
    cluster_close(&a);
}

/* The center converges; a worker is drawn to its own target as well. */
TEST(easgd_converges)
{
    struct cluster_config cfg = {.codec = "easgd",
                                 .n_workers = 3,
                                 .n_servers = 1,
                                 .n_steps = 400,
                                 .n_params = N_PARAMS,
                                 .is_convex = true};

    for (int sync = 0; sync < 2; sync++)
        for (cfg.seed = 1; cfg.seed <= 5; cfg.seed++) {
            struct cluster c;

            cfg.is_asgd = !sync;
            run_well(&c, &cfg);
            for (size_t p = 0; p < N_PARAMS; p++) {
                float x = c.nodes[3].params[p], best = cluster_target(1, p);

                if (!(fabsf(x - best) < (sync ? 1e-3f : 0.5f)))
                    fail_msg("the center ends with %g, the least loss is at %g", (double)x, (double)best);
                assert_true(c.nodes[0].params[p] < x && c.nodes[2].params[p] > x);
            }
            cluster_close(&c);
        }
}

TEST(uncompressed_fedpaq_equals_fedavg)
{
    struct cluster_config cfg = {.n_workers = 3, .local_steps = 2, .n_steps = 7, .n_params = N_PARAMS};

    for (cfg.n_servers = 0; cfg.n_servers <= 2; cfg.n_servers++) {
        struct cluster a, b;

        cfg.codec = "fedavg";
        run_well(&a, &cfg);
        cfg.codec = "fedpaq";
        run_well(&b, &cfg);
        for (int i = 0; i < cfg.n_workers; i++)
            assert_near(a.nodes[i].params, b.nodes[i].params, 1e-5f);
        cluster_close(&a);
        cluster_close(&b);
        assert_independent_of_timing(cfg);
    }
}

/* With differences quantized to 8 bits. */
TEST(fedpaq_converges)
{
    struct cluster_config cfg = {.codec = "fedpaq",
                                 .compress = "int8:ef=true",
                                 .n_workers = 3,
                                 .local_steps = 2,
                                 .n_steps = 400,
                                 .n_params = N_PARAMS};

    assert_converges(cfg, 0.01f);
    cfg.n_servers = 2;
    assert_converges(cfg, 0.01f);
}

TEST(fedpaq_in_asgd_with_one_worker_trains_alone)
{
    struct cluster_config cfg = {
        .codec = "dummy", .n_workers = 1, .n_steps = 7, .n_params = N_PARAMS, .is_asgd = true};
    struct cluster c, alone;

    run_well(&alone, &cfg);
    cfg.codec = "fedpaq";
    cfg.local_steps = 3;
    cfg.n_servers = 1;
    run_well(&c, &cfg);
    assert_near(alone.nodes[0].params, c.nodes[0].params, 1e-6f);
    cluster_close(&c);
    cluster_close(&alone);
}

/* Also between workers: the same contributions are added in the same order. */
TEST(uncompressed_doublesqueeze_equals_plain_bit_for_bit)
{
    for (int n_servers = 0; n_servers <= 2; n_servers++)
        assert_equals_plain("doublesqueeze", n_servers);
}

/* v is the vector to send and is replaced by the one sent: of its sum with the previous residual the 5
 * largest values, as topk:ratio=0.2 selects of 23. */
static void squeeze(float *v, float *rest)
{
    for (size_t i = 0; i < N_PARAMS; i++)
        rest[i] += v[i];
    memset(v, 0, N_PARAMS * sizeof *v);
    for (int k = 0; k < 5; k++) {
        size_t most = 0;

        for (size_t i = 1; i < N_PARAMS; i++)
            if (fabsf(rest[i]) > fabsf(rest[most]))
                most = i;
        v[most] = rest[most];
        rest[most] = 0;
    }
}

TEST(doublesqueeze_matches_algorithm_1_with_both_residuals)
{
    enum { WORKERS = 3 };
    struct cluster_config cfg = {.codec = "doublesqueeze",
                                 .compress = "topk:ratio=0.2,ef=true",
                                 .compress_down = "topk:ratio=0.2,ef=true",
                                 .n_workers = WORKERS,
                                 .n_servers = 1,
                                 .n_steps = 9,
                                 .n_params = N_PARAMS};
    float x[N_PARAMS], rests[WORKERS][N_PARAMS] = {{0}}, rest[N_PARAMS] = {0};
    struct cluster c;

    for (size_t i = 0; i < N_PARAMS; i++)
        x[i] = (float)i / (float)N_PARAMS;
    for (uint64_t step = 0; step < cfg.n_steps; step++) {
        float mean[N_PARAMS] = {0};

        for (int k = 0; k < WORKERS; k++) {
            float g[N_PARAMS];

            for (size_t i = 0; i < N_PARAMS; i++)
                g[i] = cluster_gradient(step, k, i);
            squeeze(g, rests[k]);
            for (size_t i = 0; i < N_PARAMS; i++)
                mean[i] += g[i] / (float)WORKERS;
        }
        squeeze(mean, rest);
        for (size_t i = 0; i < N_PARAMS; i++)
            x[i] -= lr * mean[i];
    }
    run_well(&c, &cfg);
    for (int i = 0; i < WORKERS; i++)
        assert_near(x, c.nodes[i].params, 1e-6f);
    cluster_close(&c);
    assert_independent_of_timing(cfg);
}

/* EF21-P: servers send the 5 largest differences of their parameters from the workers'. */
TEST(ps_sends_the_changes_that_the_workers_lack)
{
    enum { WORKERS = 3 };
    struct cluster_config cfg = {.codec = "ps",
                                 .compress_down = "topk:ratio=0.2",
                                 .n_workers = WORKERS,
                                 .n_servers = 1,
                                 .n_steps = 9,
                                 .n_params = N_PARAMS};
    float x[N_PARAMS], y[N_PARAMS];
    struct cluster c;

    for (size_t i = 0; i < N_PARAMS; i++)
        x[i] = y[i] = (float)i / (float)N_PARAMS;
    for (uint64_t step = 0; step < cfg.n_steps; step++) {
        float d[N_PARAMS], none[N_PARAMS] = {0};

        for (size_t i = 0; i < N_PARAMS; i++) {
            float sum = 0;

            for (int k = 0; k < WORKERS; k++)
                sum += cluster_gradient(step, k, i);
            x[i] -= lr * sum / (float)WORKERS;
            d[i] = x[i] - y[i];
        }
        squeeze(d, none);
        for (size_t i = 0; i < N_PARAMS; i++)
            y[i] += d[i];
    }
    run_well(&c, &cfg);
    for (int i = 0; i < WORKERS; i++)
        assert_near(y, c.nodes[i].params, 1e-6f);
    assert_near(x, c.nodes[WORKERS].params, 1e-6f);
    cluster_close(&c);
    assert_independent_of_timing(cfg);
}

/* Workers begin with y, so their weights lack the values left out, `left`, which the server adds to
 * their mean. */
TEST(fedavg_loses_nothing_that_a_reply_leaves_out)
{
    enum { WORKERS = 3, EVERY = 2 };
    struct cluster_config cfg = {.codec = "fedavg",
                                 .compress_down = "topk:ratio=0.2",
                                 .n_workers = WORKERS,
                                 .n_servers = 1,
                                 .local_steps = EVERY,
                                 .n_steps = 9 * EVERY,
                                 .n_params = N_PARAMS};
    float y[N_PARAMS], left[N_PARAMS] = {0};
    struct cluster c;

    for (size_t i = 0; i < N_PARAMS; i++)
        y[i] = (float)i / (float)N_PARAMS;
    for (uint64_t step = 0; step < cfg.n_steps; step += EVERY) {
        float d[N_PARAMS];

        for (size_t i = 0; i < N_PARAMS; i++) {
            d[i] = 0;
            for (int k = 0; k < WORKERS; k++)
                for (uint64_t s = step; s < step + EVERY; s++)
                    d[i] -= lr * cluster_gradient(s, k, i) / (float)WORKERS;
        }
        squeeze(d, left); /* d + left, of which the rest stays in left */
        for (size_t i = 0; i < N_PARAMS; i++)
            y[i] += d[i];
    }
    run_well(&c, &cfg);
    for (int i = 0; i < WORKERS; i++)
        assert_near(y, c.nodes[i].params, 1e-5f);
    cluster_close(&c);
    assert_independent_of_timing(cfg);
}

/* With 8 bits per number in both directions. */
TEST(doublesqueeze_converges)
{
    struct cluster_config cfg = {.codec = "doublesqueeze",
                                 .compress = "int8:ef=true",
                                 .compress_down = "int8:ef=true",
                                 .n_workers = 3,
                                 .n_servers = 2,
                                 .n_steps = 400,
                                 .n_params = N_PARAMS};

    assert_converges(cfg, 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ps_with_gradient_descent_equals_plain_bit_for_bit),
        cmocka_unit_test(ps_sum_steps_by_the_sum_of_all_gradients),
        cmocka_unit_test(ps_in_asgd_with_one_worker_is_gradient_descent),
        cmocka_unit_test(ps_converges),
        cmocka_unit_test(ps_and_fedpaq_in_asgd_approach_the_least_loss),
        cmocka_unit_test(ps_needs_servers),
        cmocka_unit_test(easgd_matches_its_formula_with_and_without_servers),
        cmocka_unit_test(easgd_without_alpha_uses_that_of_the_paper),
        cmocka_unit_test(easgd_with_alpha_0_trains_each_worker_alone),
        cmocka_unit_test(easgd_converges),
        cmocka_unit_test(uncompressed_fedpaq_equals_fedavg),
        cmocka_unit_test(fedpaq_converges),
        cmocka_unit_test(fedpaq_in_asgd_with_one_worker_trains_alone),
        cmocka_unit_test(uncompressed_doublesqueeze_equals_plain_bit_for_bit),
        cmocka_unit_test(doublesqueeze_matches_algorithm_1_with_both_residuals),
        cmocka_unit_test(ps_sends_the_changes_that_the_workers_lack),
        cmocka_unit_test(fedavg_loses_nothing_that_a_reply_leaves_out),
        cmocka_unit_test(doublesqueeze_converges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
