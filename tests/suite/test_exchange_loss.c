/* Jobs whose nodes are killed: at any point, with others that end, or that go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/run_well.h"

enum { N_PARAMS = 37 };

static const struct cluster_config plain4 = {
    .codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};

static void assert_equal_params(const float *a, const float *b)
{
    assert_memory_equal(a, b, N_PARAMS * sizeof *a);
}

TEST(killing_a_node_at_any_point_ends_the_others)
{
    static const struct cluster_config cases[] = {
        {.codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 3, .n_steps = 3, .n_params = N_PARAMS},
        {.codec = "fedavg", .n_workers = 3, .n_servers = 2, .n_steps = 3, .n_params = N_PARAMS},
        {.codec = "allreduce",
         .n_workers = 3,
         .n_steps = 3,
         .n_params = N_PARAMS,
         .allreduce = COLLECTIVE_RING},
        {.codec = "allreduce",
         .n_workers = 3,
         .n_steps = 3,
         .n_params = N_PARAMS,
         .allreduce = COLLECTIVE_TREE},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t at = 1; at < 60; at++)
            for (int killed = -1 - cases[k].n_servers; killed < 3; killed++) {
                struct cluster_config cfg = cases[k];
                struct cluster c;

                cfg.kill_node = killed;
                cfg.kill_at = at;
                cfg.seed = at;
                cluster_open(&c, &cfg);
                assert_true(cluster_run(&c));
                for (int i = 0; i < c.n_nodes; i++)
                    if (c.nodes[i].phase == NODE_FAILED)
                        assert_int_equal(c.nodes[i].e.code, ERR_LOST);
                cluster_close(&c);
            }
}

/* Each order of events kills at another moment; the remaining nodes succeed and, in ssgd, agree. */
TEST(the_others_continue_without_a_killed_worker)
{
    static const struct cluster_config cases[] = {
        {.codec = "fedavg", .n_workers = 3, .n_servers = 2, .n_steps = 4, .n_params = N_PARAMS, .goes_on = 2},
        {.codec = "doublesqueeze",
         .n_workers = 3,
         .n_servers = 1,
         .n_steps = 4,
         .n_params = N_PARAMS,
         .goes_on = 1},
        {.codec = "plain", .n_workers = 4, .redundancy = 2, .n_steps = 4, .n_params = N_PARAMS, .goes_on = 3},
        {.codec = "plain", .n_workers = 3, .is_asgd = true, .n_steps = 4, .n_params = N_PARAMS, .goes_on = 2},
        {.codec = "fedavg",
         .n_workers = 3,
         .n_servers = 1,
         .is_asgd = true,
         .n_steps = 4,
         .n_params = N_PARAMS,
         .goes_on = 2},
        {.codec = "plain", .n_workers = 4, .n_steps = 3, .n_params = N_PARAMS, .goes_on = 3},
        {.codec = "fedavg",
         .n_workers = 4,
         .local_steps = 2,
         .n_steps = 5,
         .n_params = N_PARAMS,
         .goes_on = 3},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t at = 1; at < 80; at++)
            for (int killed = 0; killed < cases[k].n_workers; killed++) {
                struct cluster_config cfg = cases[k];
                const float *first = NULL;
                struct cluster c;

                cfg.kill_node = killed;
                cfg.kill_at = at;
                cfg.seed = at;
                cluster_open(&c, &cfg);
                if (!cluster_run(&c))
                    fail_msg("case %zu hangs with node %d killed at %llu", k, killed, (unsigned long long)at);
                for (int i = 0; i < c.n_nodes; i++) {
                    if (c.nodes[i].phase == NODE_FAILED)
                        fail_msg("case %zu, node %d killed at %llu: node %d: %s", k, killed,
                                 (unsigned long long)at, c.nodes[i].node, c.nodes[i].e.text);
                    if (c.nodes[i].phase != NODE_DONE || c.nodes[i].node < 0 || cfg.is_asgd)
                        continue;
                    if (first)
                        assert_equal_params(first, c.nodes[i].params);
                    first = c.nodes[i].params;
                }
                cluster_close(&c);
            }
}

TEST(too_few_workers_end_the_job)
{
    const struct cluster_config cfg = {.codec = "fedavg",
                                       .n_workers = 3,
                                       .n_servers = 1,
                                       .n_steps = 4,
                                       .n_params = N_PARAMS,
                                       .goes_on = 3,
                                       .kill_node = 1,
                                       .kill_at = 5,
                                       .seed = 1};
    struct cluster c;

    cluster_open(&c, &cfg);
    assert_true(cluster_run(&c));
    assert_int_equal(c.nodes[3].phase, NODE_FAILED);
    assert_non_null(strstr(c.nodes[3].e.text, "2 workers are left, at least 3 are needed"));
    cluster_close(&c);
}

TEST(an_event_rule_without_loss_callback_refuses_to_continue_after_losses)
{
    struct cluster_config cfg = plain4;
    struct exchange_config x = {.n_workers = 4, .is_sync = true, .goes_on = true, .n_params = 1};
    struct exchange *out;
    struct cluster c;
    struct err e = {0};

    cfg.codec = "tests/ping";
    cfg.path = COMBINE_PATH_AUTO;
    cluster_open(&c, &cfg);
    x.plugin = c.lib->plugin;
    x.blocks = &c.blocks;
    x.params = c.nodes[0].params;
    assert_int_equal(exchange_new(&out, &x, &e), ERR_CODEC);
    assert_error_has("cannot continue after a node is lost");
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killing_a_node_at_any_point_ends_the_others),
        cmocka_unit_test(the_others_continue_without_a_killed_worker),
        cmocka_unit_test(too_few_workers_end_the_job),
        cmocka_unit_test(an_event_rule_without_loss_callback_refuses_to_continue_after_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
