/* What each rule's paper states, compared with the rule in a cluster: its formula, its limits, where it
 * converges to, and that it resumes from a saved state. */
#include "tests/lib/run_well.h"

#include <math.h>

#include "agent/runner/exchange/exchange_state.h"
#include "shared/tensor_file.h"

enum { N_PARAMS = 23, WORKERS_MAX = 8, SEEDS = 30 };

static const float lr = 0.125f; /* the cluster's */

static void assert_near(const float *expected, const float *params, float tolerance)
{
    for (size_t i = 0; i < N_PARAMS; i++)
        if (!(fabsf(expected[i] - params[i]) <= tolerance))
            fail_msg("number %zu is %g instead of %g", i, (double)params[i], (double)expected[i]);
}

/* Each worker ends with the same bits under many orders of events. */
static void assert_independent_of_timing(struct cluster_config cfg)
{
    float first[WORKERS_MAX][N_PARAMS];

    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;

        run_well(&c, &cfg);
        for (int i = 0; i < cfg.n_workers; i++) {
            if (cfg.seed == 1)
                memcpy(first[i], c.nodes[i].params, sizeof first[i]);
            assert_memory_equal(first[i], c.nodes[i].params, sizeof first[i]);
        }
        cluster_close(&c);
    }
}

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
        .codec = "plain", .path = PATH_GATHER, .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};
    struct cluster c, plain;

    run_well(&plain, &cfg);
    cfg.codec = codec;
    cfg.path = n_servers > 0 ? PATH_SERVERS : PATH_GATHER;
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

/* On input v is the vector to send, on output what is sent: the 5 largest of it and of the previous
 * residual, as topk:ratio=0.2 has it of 23. */
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

/* EF21-P: what servers send are the 5 largest of what their parameters differ from the workers'. */
TEST(ps_sends_what_the_workers_lack)
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

/* Workers begin with y, so their weights lack what was left out, `left`, which the server adds to their
 * mean. */
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

/* D-PSGD with the matrix W written out. */
static void gossip_reference(float (*out)[N_PARAMS], const struct cluster_config *cfg,
                             const bool (*edge)[WORKERS_MAX])
{
    int n = cfg->n_workers;

    for (size_t p = 0; p < N_PARAMS; p++) {
        double w[WORKERS_MAX], next[WORKERS_MAX];

        for (int i = 0; i < n; i++)
            w[i] = (double)((float)p / (float)N_PARAMS);
        for (uint64_t step = 0; step < cfg->n_steps; step++) {
            for (int i = 0; i < n; i++) {
                double sum = w[i];
                int degree = 0;

                for (int j = 0; j < n; j++) {
                    sum += edge[i][j] ? w[j] : 0;
                    degree += edge[i][j];
                }
                next[i] = sum / (1 + degree) - (double)(lr * cluster_gradient(step, i, p));
            }
            memcpy(w, next, sizeof w);
        }
        for (int i = 0; i < n; i++)
            out[i][p] = (float)w[i];
    }
}

TEST(gossip_matches_d_psgd_on_its_graph)
{
    static const struct {
        const char *options;
        int n;
        bool edge[WORKERS_MAX][WORKERS_MAX];
    } cases[] = {
        {"graph=ring", 1, {{0}}},
        {"graph=ring", 2, {{0, 1}, {1, 0}}},
        {"graph=exponential", 2, {{0, 1}, {1, 0}}},
        {"graph=ring", 3, {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}},
        {NULL, 4, {{0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}}},
        {"graph=exponential", 4, {{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}}},
        /* 1, 2 and 4 apart on both sides: all except those 3 apart, which do not exist among 7 workers */
        {"graph=exponential",
         7,
         {{0, 1, 1, 1, 1, 1, 1},
          {1, 0, 1, 1, 1, 1, 1},
          {1, 1, 0, 1, 1, 1, 1},
          {1, 1, 1, 0, 1, 1, 1},
          {1, 1, 1, 1, 0, 1, 1},
          {1, 1, 1, 1, 1, 0, 1},
          {1, 1, 1, 1, 1, 1, 0}}},
        {"graph=exponential",
         8,
         {{0, 1, 1, 0, 1, 0, 1, 1},
          {1, 0, 1, 1, 0, 1, 0, 1},
          {1, 1, 0, 1, 1, 0, 1, 0},
          {0, 1, 1, 0, 1, 1, 0, 1},
          {1, 0, 1, 1, 0, 1, 1, 0},
          {0, 1, 0, 1, 1, 0, 1, 1},
          {1, 0, 1, 0, 1, 1, 0, 1},
          {1, 1, 0, 1, 0, 1, 1, 0}}},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = {.codec = "gossip",
                                     .options = cases[k].options,
                                     .n_workers = cases[k].n,
                                     .n_steps = 7,
                                     .n_params = N_PARAMS};
        float expected[WORKERS_MAX][N_PARAMS];
        struct cluster c;

        gossip_reference(expected, &cfg, cases[k].edge);
        run_well(&c, &cfg);
        for (int i = 0; i < cfg.n_workers; i++)
            assert_near(expected[i], c.nodes[i].params, 1e-5f);
        cluster_close(&c);
        assert_independent_of_timing(cfg);
    }
}

/* With a constant step D-PSGD keeps a distance from the least loss that grows with the difference of the
 * workers' losses: the weights are spread around it, and their mean is at it. */
TEST(gossip_converges)
{
    static const char *const graphs[] = {"graph=ring", "graph=exponential"};

    for (size_t g = 0; g < N_OF(graphs); g++) {
        struct cluster_config cfg = {.codec = "gossip",
                                     .options = graphs[g],
                                     .n_workers = 5,
                                     .n_steps = 300,
                                     .n_params = N_PARAMS,
                                     .is_convex = true};
        struct cluster c;

        run_well(&c, &cfg);
        for (size_t p = 0; p < N_PARAMS; p++) {
            float mean = 0, best = cluster_target(2, p);

            for (int i = 0; i < 5; i++) {
                mean += c.nodes[i].params[p] / 5;
                assert_true(fabsf(c.nodes[i].params[p] - best) < 0.6f);
            }
            assert_true(fabsf(mean - best) < 1e-3f);
        }
        cluster_close(&c);
    }
}

TEST(gossip_continues_without_a_lost_neighbor)
{
    struct cluster_config cfg = {
        .codec = "gossip", .n_workers = 4, .n_steps = 5, .n_params = N_PARAMS, .goes_on = 2};

    for (cfg.kill_node = 0; cfg.kill_node < 4; cfg.kill_node++)
        for (cfg.kill_at = 1; cfg.kill_at < 60; cfg.kill_at++) {
            struct cluster c;

            cfg.seed = cfg.kill_at;
            cluster_open(&c, &cfg);
            if (!cluster_run(&c))
                fail_msg("hangs with node %d killed at %llu", cfg.kill_node, (unsigned long long)cfg.kill_at);
            for (int i = 0; i < 4; i++)
                if (c.nodes[i].phase == NODE_FAILED)
                    fail_msg("node %d: %s", i, c.nodes[i].e.text);
            cluster_close(&c);
        }
}

/* The same blocks are summed in the same order, however their gradients come. */
TEST(coded_and_uncoded_exchanges_of_blocks_equal_plain_bit_for_bit)
{
    static const int cases[][2] = {{2, 1}, {3, 1}, {3, 2}, {4, 2}, {4, 3}, {5, 3}, {6, 2}};
    static const char *const codecs[] = {"ndc", "ccdc"};

    for (size_t k = 0; k < N_OF(cases); k++)
        for (size_t j = 0; j < N_OF(codecs); j++) {
            struct cluster_config cfg = {.codec = "plain",
                                         .path = PATH_GATHER,
                                         .n_workers = cases[k][0],
                                         .redundancy = cases[k][1],
                                         .n_steps = 5,
                                         .n_params = N_PARAMS};
            struct cluster plain, c;

            run_well(&plain, &cfg);
            cfg.codec = codecs[j];
            cfg.path = PATH_AUTO;
            run_well(&c, &cfg);
            for (int i = 0; i < cfg.n_workers; i++)
                assert_memory_equal(plain.nodes[i].params, c.nodes[i].params, N_PARAMS * sizeof(float));
            cluster_close(&c);
            cluster_close(&plain);
            assert_independent_of_timing(cfg);
        }
}

/* The paper's worker, in its notation; by d of equation 7 the movement of step k - d is moved[k - d]. */
struct lazy {
    double q[N_PARAMS], e2;
    int clock;
};

/* Equations 5 to 7. Returns whether the worker sends, and then moves its Q and the sum. */
static bool laq_worker(struct lazy *m, double *sum, int n, const double *g, const double *moved, uint64_t k,
                       double xi, int bits)
{
    double dq[N_PARAMS], r = 0, size = 0, e2 = 0, allowed = 0;
    double tau = 1 / (pow(2, bits) - 1);

    for (size_t i = 0; i < N_PARAMS; i++)
        r = fmax(r, fabs(g[i] - m->q[i]));
    for (size_t i = 0; i < N_PARAMS; i++) {
        dq[i] = 2 * tau * r * floor((g[i] - m->q[i] + r) / (2 * tau * r) + 0.5) - r;
        size += dq[i] * dq[i];
        e2 += (g[i] - m->q[i] - dq[i]) * (g[i] - m->q[i] - dq[i]);
    }
    for (uint64_t d = 1; d <= 10 && d <= k; d++)
        allowed += xi / 10 * moved[k - d] / (double)(lr * lr);
    if (m->clock > 0 && size <= allowed + 3 * (e2 + m->e2)) {
        m->clock++;
        return false;
    }
    for (size_t i = 0; i < N_PARAMS; i++) {
        m->q[i] += dq[i];
        sum[i] += dq[i] / n;
    }
    m->e2 = e2;
    m->clock = 1;
    return true;
}

/* Sets the parameters after the job, and returns how many gradients were not sent. */
static int laq_reference(double *x, const struct cluster_config *cfg, double xi, int bits)
{
    struct lazy m[WORKERS_MAX] = {{{0}, 0, 0}};
    double sum[N_PARAMS] = {0}, moved[64];
    int n_lazy = 0;

    for (size_t i = 0; i < N_PARAMS; i++)
        x[i] = (double)((float)i / (float)N_PARAMS);
    for (uint64_t k = 0; k < cfg->n_steps; k++) {
        for (int w = 0; w < cfg->n_workers; w++) {
            double g[N_PARAMS];

            for (size_t i = 0; i < N_PARAMS; i++)
                g[i] = x[i] - (double)cluster_target(w, i);
            n_lazy += !laq_worker(&m[w], sum, cfg->n_workers, g, moved, k, xi, bits);
        }
        moved[k] = 0;
        for (size_t i = 0; i < N_PARAMS; i++) {
            x[i] -= (double)lr * sum[i];
            moved[k] += (double)(lr * lr) * sum[i] * sum[i];
        }
    }
    return n_lazy;
}

TEST(laq_sends_and_leaves_out_what_equation_7_says)
{
    static const struct {
        const char *options;
        double xi;
        int bits;
    } cases[] = {{NULL, 0.8, 8}, {"bits=4,xi=2", 2, 4}, {"bits=12,xi=0", 0, 12}, {"bits=6", 0.8, 6}};

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = {.codec = "laq",
                                     .options = cases[k].options,
                                     .n_workers = 3,
                                     .n_steps = 30,
                                     .n_params = N_PARAMS,
                                     .is_convex = true};
        double expected[N_PARAMS];
        int n_lazy = laq_reference(expected, &cfg, cases[k].xi, cases[k].bits);

        for (cfg.n_servers = 0; cfg.n_servers <= 1; cfg.n_servers++) {
            struct cluster c;
            int n = 0;

            run_well(&c, &cfg);
            for (int w = 0; w < cfg.n_workers; w++) {
                n += c.nodes[w].record.n;
                for (size_t i = 0; i < N_PARAMS; i++)
                    if (!(fabs((double)c.nodes[w].params[i] - expected[i]) < 1e-4))
                        fail_msg("laq:%s: number %zu is %g instead of %g",
                                 cases[k].options ? cases[k].options : "", i, (double)c.nodes[w].params[i],
                                 expected[i]);
            }
            assert_int_equal(n, n_lazy);
            cluster_close(&c);
        }
    }
}

TEST(unsupported_jobs_are_refused_with_a_message)
{
    static const struct {
        struct cluster_config cfg;
        const char *why;
    } cases[] = {
        {{.codec = "gossip", .n_workers = 3, .is_asgd = true},
         "codec gossip needs a message from every worker it works with; it does not support asgd"},
        {{.codec = "gossip", .n_workers = 3, .n_servers = 1},
         "codec gossip is for workers only; leave the parameter servers out"},
        {{.codec = "easgd", .n_workers = 3, .is_asgd = true}, "codec easgd needs parameter servers in asgd"},
        {{.codec = "fedpaq", .n_workers = 3, .is_asgd = true},
         "codec fedpaq needs parameter servers in asgd"},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        assert_refused(&cases[k].cfg, cases[k].why);
}

static void carry_over(struct cluster *to, struct cluster *from, uint64_t step)
{
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "state.safetensors", &e));
    for (int i = 0; i < from->n_nodes; i++) {
        struct exchange_state s;
        struct tensor_file f;

        assert_ok(exchange_save(&s, from->nodes[i].x, step, &e));
        assert_ok(tensor_file_write(path, s.tensors, s.n, NULL, &e));
        exchange_state_clear(&s);
        assert_ok(tensor_file_open(&f, path, &e));
        assert_ok(exchange_restore(to->nodes[i].x, &f, step, &e));
        tensor_file_close(&f);
        memcpy(to->nodes[i].params, from->nodes[i].params, N_PARAMS * sizeof(float));
        to->nodes[i].step = step;
    }
    unit_remove(dir);
}

/* Half of a job, its state saved, and the other half from there: the bits of the whole. */
TEST(a_rule_resumes_from_its_saved_state)
{
    static const struct cluster_config cases[] = {
        {.codec = "ps", .n_workers = 3, .n_servers = 2},
        {.codec = "easgd", .n_workers = 3, .local_steps = 3},
        {.codec = "easgd", .n_workers = 3, .n_servers = 1},
        {.codec = "gossip", .n_workers = 5},
        {.codec = "gossip", .options = "graph=exponential", .n_workers = 7},
        {.codec = "fedavg", .n_workers = 3, .local_steps = 2},
        {.codec = "fedpaq", .n_workers = 3, .local_steps = 2, .compress = "topk:ratio=0.2,ef=true"},
        {.codec = "fedpaq", .n_workers = 3, .n_servers = 2, .local_steps = 3},
        {.codec = "allreduce", .n_workers = 3},
        /* With one worker asgd does not depend on timing. */
        {.codec = "ps", .n_workers = 1, .n_servers = 2, .is_asgd = true},
        {.codec = "easgd", .n_workers = 1, .n_servers = 1, .local_steps = 2, .is_asgd = true},
        {.codec = "asgd", .n_workers = 1, .n_servers = 1, .local_steps = 3, .is_asgd = true},
        {.codec = "dc_asgd", .options = "mode=adaptive", .n_workers = 1, .n_servers = 1, .is_asgd = true},
        {.codec = "downpour", .options = "n_push=2", .n_workers = 1, .n_servers = 2, .is_asgd = true},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct cluster_config cfg = cases[k];
            struct cluster whole, half, rest;

            cfg.seed = seed;
            cfg.n_params = N_PARAMS;
            cfg.n_steps = 12;
            run_well(&whole, &cfg);
            cfg.n_steps = 6;
            run_well(&half, &cfg);
            cfg.n_steps = 12;
            cluster_open(&rest, &cfg);
            carry_over(&rest, &half, 6);
            assert_true(cluster_run(&rest));
            for (int i = 0; i < rest.n_nodes; i++) {
                if (rest.nodes[i].phase != NODE_DONE)
                    fail_msg("%s, node %d: %s", cfg.codec, rest.nodes[i].node, rest.nodes[i].e.text);
                assert_memory_equal(whole.nodes[i].params, rest.nodes[i].params, N_PARAMS * sizeof(float));
            }
            cluster_close(&rest);
            cluster_close(&half);
            cluster_close(&whole);
        }
}

/* A message of zeros, which begins with step 0 and block 0, from a node that has no part in the exchange, or
 * a second time. */
TEST(messages_that_no_honest_node_sends_are_refused)
{
    enum { WORKER_0, SERVER = 3 }; /* by slot */
    static const struct {
        const char *codec;
        int n_servers, to, from, n_before; /* n_before: as often the same message is right */
        size_t len;
        const char *why;
    } cases[] = {
        {"sync_replicas", 2, SERVER, -3, 0, 4 + 4 * N_PARAMS, "node -3 has no part in this exchange"},
        {"sync_replicas", 1, WORKER_0, 1, 0, 4 + 4 * N_PARAMS, "node 1 has no part in this exchange"},
        {"sync_replicas", 1, SERVER, 1, 1, 4 + 4 * N_PARAMS, "node 1 sent a malformed vector"},
        {"downpour", 2, SERVER, -3, 0, 8 + 4 * N_PARAMS, "node -3 has no part in this exchange"},
        {"downpour", 1, WORKER_0, 1, 0, 8 + 4 * N_PARAMS, "node 1 has no part in this exchange"},
        {"ndc", 0, 1, 0, 1, 8 + 4 * N_PARAMS, "worker 0 sent a slice twice"},
        {"ccdc", 0, 0, 1, 1, 8 + 4 * N_PARAMS, "worker 1 sent a message twice"},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = {.codec = cases[k].codec,
                                     .n_workers = 3,
                                     .n_servers = cases[k].n_servers,
                                     .n_steps = 1,
                                     .is_asgd = cases[k].n_servers > 0,
                                     .n_params = N_PARAMS * (cases[k].n_servers > 1 ? 2 : 1)};
        struct cluster c;

        cluster_open(&c, &cfg);
        for (int i = 0; i <= cases[k].n_before; i++) {
            struct cluster_node *n = &c.nodes[cases[k].to];
            struct mesh_event ev = {.kind = MESH_MESSAGE,
                                    .head = {.kind = FRAME_EVENT, .peer = cases[k].from},
                                    .buf = mesh_buf_take(n->mesh)};

            ev.buf->len = cases[k].len;
            memset(ev.buf->bytes, 0, cases[k].len);
            if (i < cases[k].n_before)
                assert_true(exchange_on_event(n->x, &ev, &n->e) >= 0);
            else
                assert_int_equal(exchange_on_event(n->x, &ev, &n->e), ERR_CODEC);
        }
        if (!strstr(c.nodes[cases[k].to].e.text, cases[k].why))
            fail_msg("%s: %s", cases[k].codec, c.nodes[cases[k].to].e.text);
        cluster_close(&c);
    }
}

/* Every truncation of a valid message, and one that is too long. */
TEST(malformed_messages_are_refused)
{
    static const struct {
        struct cluster_config cfg;
        struct mesh_head head;
        int node; /* by slot: the receiver */
        size_t len, weight_at;
    } cases[] = {
        {{.codec = "gossip", .n_workers = 3}, {.kind = FRAME_EVENT, .peer = 1}, 0, 4 + 4 * N_PARAMS, 0},
        {{.codec = "easgd", .n_workers = 2, .n_servers = 1, .is_asgd = true},
         {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1},
         2,
         8 + 4 * N_PARAMS,
         4},
        {{.codec = "ps", .n_workers = 2, .n_servers = 1, .is_asgd = true},
         {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1},
         2,
         4 + 4 * N_PARAMS,
         0},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (size_t len = 0; len <= cases[k].len + 4; len++) {
            struct cluster_config cfg = cases[k].cfg;
            struct mesh_event ev = {.kind = MESH_MESSAGE, .head = cases[k].head};
            struct cluster_node *n;
            const float weight = 1;
            struct cluster c;
            int rc;

            cfg.n_params = N_PARAMS;
            cfg.n_steps = 1;
            cluster_open(&c, &cfg);
            n = &c.nodes[cases[k].node];
            ev.buf = mesh_buf_take(n->mesh);
            ev.buf->len = len;
            memset(ev.buf->bytes, 0, len);
            if (cases[k].weight_at > 0 && len >= cases[k].weight_at + sizeof weight)
                memcpy(ev.buf->bytes + cases[k].weight_at, &weight, sizeof weight);
            rc = exchange_on_event(n->x, &ev, &n->e);
            assert_int_equal(rc, len == cases[k].len ? CODEC_GO : ERR_CODEC);
            cluster_close(&c);
        }
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
        cmocka_unit_test(ps_sends_what_the_workers_lack),
        cmocka_unit_test(fedavg_loses_nothing_that_a_reply_leaves_out),
        cmocka_unit_test(doublesqueeze_converges),
        cmocka_unit_test(gossip_matches_d_psgd_on_its_graph),
        cmocka_unit_test(gossip_converges),
        cmocka_unit_test(gossip_continues_without_a_lost_neighbor),
        cmocka_unit_test(coded_and_uncoded_exchanges_of_blocks_equal_plain_bit_for_bit),
        cmocka_unit_test(laq_sends_and_leaves_out_what_equation_7_says),
        cmocka_unit_test(unsupported_jobs_are_refused_with_a_message),
        cmocka_unit_test(a_rule_resumes_from_its_saved_state),
        cmocka_unit_test(messages_that_no_honest_node_sends_are_refused),
        cmocka_unit_test(malformed_messages_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
