/* rule_job -- for tests of what a rule's paper states: jobs of N_PARAMS parameters in a cluster. */
#ifndef PSGD_TEST_RULE_JOB_H
#define PSGD_TEST_RULE_JOB_H

#include <math.h>

#include "tests/lib/run_well.h"

enum { N_PARAMS = 23, WORKERS_MAX = 8, SEEDS = 30 };

static const float lr = 0.125f; /* the cluster's */

static inline void assert_near(const float *expected, const float *params, float tolerance)
{
    for (size_t i = 0; i < N_PARAMS; i++)
        if (!(fabsf(expected[i] - params[i]) <= tolerance))
            fail_msg("number %zu is %g instead of %g", i, (double)params[i], (double)expected[i]);
}

/* Each worker ends with the same bits under many orders of events. */
static inline void assert_independent_of_timing(struct cluster_config cfg)
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

#endif
