/* What the papers of rules with messages of their own state, compared with the rule in a cluster. */
#include "tests/lib/rule_job.h"

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
                                         .path = COMBINE_PATH_GATHER,
                                         .n_workers = cases[k][0],
                                         .redundancy = cases[k][1],
                                         .n_steps = 5,
                                         .n_params = N_PARAMS};
            struct cluster plain, c;

            run_well(&plain, &cfg);
            cfg.codec = codecs[j];
            cfg.path = COMBINE_PATH_AUTO;
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

TEST(laq_sends_and_leaves_out_contributions_by_equation_7)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossip_matches_d_psgd_on_its_graph),
        cmocka_unit_test(gossip_converges),
        cmocka_unit_test(gossip_continues_without_a_lost_neighbor),
        cmocka_unit_test(coded_and_uncoded_exchanges_of_blocks_equal_plain_bit_for_bit),
        cmocka_unit_test(laq_sends_and_leaves_out_contributions_by_equation_7),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
