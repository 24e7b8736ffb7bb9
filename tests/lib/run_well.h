/* run_well -- for tests of clusters: a job must succeed, or the test fails with the failed node and its
 * error; or a job must be refused, for the reason that is given. */
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

/* On worker 0. */
static inline void assert_refused(const struct cluster_config *cfg, const char *why)
{
    float numbers[4] = {0};
    struct exchange *x;
    struct blocks blocks;
    struct err e;

    assert_ok(blocks_init(&blocks, cfg->assignment, cfg->n_workers, 1, &e));
    assert_int_equal(exchange_new(&x,
                                  &(struct exchange_config){.plugin = cluster_library(cfg->codec)->plugin,
                                                            .options = cfg->options,
                                                            .n_workers = cfg->n_workers,
                                                            .n_servers = cfg->n_servers,
                                                            .is_sync = !cfg->is_asgd,
                                                            .blocks = &blocks,
                                                            .n_params = 4,
                                                            .params = numbers,
                                                            .grads = numbers},
                                  &e),
                     ERR_CODEC);
    assert_error_has(why);
    blocks_clear(&blocks);
}

#endif
