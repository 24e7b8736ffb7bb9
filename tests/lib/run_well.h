/* run_well -- for tests of clusters: a job must succeed, or the test fails with the failed node and its
 * error. */
#ifndef PSGD_TEST_RUN_WELL_H
#define PSGD_TEST_RUN_WELL_H

#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

static inline void run_well(struct cluster *c, const struct cluster_config *cfg)
{
    cluster_open(c, cfg);
    if (!cluster_run(c))
        fail_msg("%s hangs with seed %llu", cfg->codec, (unsigned long long)cfg->seed);
    for (int i = 0; i < c->n_nodes; i++)
        if (c->nodes[i].phase != NODE_DONE)
            fail_msg("node %d: %s", c->nodes[i].node, c->nodes[i].e.text);
}

#endif
