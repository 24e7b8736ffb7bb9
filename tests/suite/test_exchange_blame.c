/* A worker whose contribution the rule cannot use is lost to a job that continues without lost workers. */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/lib/cluster.h"

enum { N_PARAMS = 37, N_STEPS = 5, SHORT_ROUND = 2, SEEDS = 50 };

static const struct cluster_config short_message = {.codec = "tests/short_message",
                                                    .n_workers = 3,
                                                    .n_servers = 1,
                                                    .n_steps = N_STEPS,
                                                    .n_params = N_PARAMS,
                                                    .goes_on = 2};

static const struct cluster_node *node_of(const struct cluster *c, int node)
{
    return &c->nodes[mesh_slot(c->cfg.n_workers, node)];
}

/* The value of parameter i if worker 1 counts until its malformed contribution, and from that round on did
 * not. */
static float expected(size_t i)
{
    double p = (double)i / (double)N_PARAMS, n_merged = 0;

    for (uint64_t s = 0; s < N_STEPS; s++) {
        bool has_all = s < SHORT_ROUND;
        double g0 = (double)cluster_gradient(s, 0, i), g1 = (double)cluster_gradient(s, 1, i),
               g2 = (double)cluster_gradient(s, 2, i);

        n_merged += has_all ? 3 : 2;
        p -= 0.125 * (i == 0 ? n_merged : has_all ? (g0 + g1 + g2) / 3 : (g0 + g2) / 2);
    }
    return (float)p;
}

/* Worker 0's contribution has been merged as one of three before the short one arrives: that is undone. */
TEST(a_malformed_contribution_drops_its_sender_and_the_round_is_as_without_it)
{
    struct cluster_config cfg = short_message;

    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;

        cluster_open(&c, &cfg);
        assert_true(cluster_run(&c));
        assert_int_equal(node_of(&c, 1)->phase, NODE_FAILED);
        for (int node = -2; node <= 2; node += 2) {
            const struct cluster_node *n = node_of(&c, node);

            if (n->phase != NODE_DONE)
                fail_msg("seed %d: node %d: %s", (int)cfg.seed, node, n->e.text);
            for (size_t i = 0; node >= 0 && i < N_PARAMS; i++)
                assert_true(fabsf(n->params[i] - expected(i)) < 1e-5f);
        }
        cluster_close(&c);
    }
}

TEST(a_malformed_contribution_drops_its_sender_with_several_servers_and_in_asgd)
{
    for (int is_asgd = 0; is_asgd < 2; is_asgd++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct cluster_config cfg = short_message;
            struct cluster c;

            cfg.seed = seed;
            cfg.is_asgd = is_asgd;
            cfg.n_servers = 2;
            cluster_open(&c, &cfg);
            assert_true(cluster_run(&c));
            for (int node = -3; node <= 2; node++)
                if (node != -1)
                    assert_int_equal(node_of(&c, node)->phase, node == 1 ? NODE_FAILED : NODE_DONE);
            for (size_t i = 0; i < N_PARAMS; i++)
                assert_true(isfinite(node_of(&c, 2)->params[i]));
            cluster_close(&c);
        }
}

/* Contributions are merged and counted one by one if all are needed, and otherwise only when all have
 * arrived. */
TEST(a_server_that_continues_after_losses_counts_compressed_bytes_the_same_way)
{
    uint64_t raw[2][3];

    for (int k = 0; k < 2; k++) {
        struct cluster_config cfg = {.codec = "fedavg",
                                     .compress = "huffman",
                                     .n_workers = 3,
                                     .n_servers = 1,
                                     .n_steps = 2,
                                     .n_params = N_PARAMS,
                                     .goes_on = 2 * k};
        struct cluster c;

        cluster_open(&c, &cfg);
        assert_true(cluster_run(&c));
        for (int w = 0; w < 3; w++)
            raw[k][w] = exchange_received(node_of(&c, -2)->x, w)->raw_bytes;
        cluster_close(&c);
    }
    assert_memory_equal(raw[0], raw[1], sizeof raw[0]);
    assert_true(raw[0][1] >= N_PARAMS * sizeof(float));
}

TEST(a_malformed_contribution_ends_the_job_if_too_few_workers_remain_or_all_are_needed)
{
    static const char *const reason[] = {
        "node 1 sent a malformed gradient",
        "node 1 is lost: codec short_message: node 1 sent a malformed gradient; 2 workers "
        "are left, at least 3 are needed"};

    for (int k = 0; k < 2; k++) {
        struct cluster_config cfg = short_message;
        struct cluster c;

        cfg.goes_on = 3 * k;
        cluster_open(&c, &cfg);
        assert_true(cluster_run(&c));
        assert_int_equal(node_of(&c, -2)->phase, NODE_FAILED);
        assert_non_null(strstr(node_of(&c, -2)->e.text, reason[k]));
        cluster_close(&c);
    }
}

TEST(a_contribution_out_of_turn_drops_its_sender)
{
    static const struct {
        struct mesh_head head;
        const char *reason;
    } bad[] = {
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 2}, "it may not send"},
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 99}, "it may not send"},
        {{.kind = FRAME_EVENT, .peer = 1, .index = 1}, "it may not send"},
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .round = 2},
         "its contribution to round 2 in round 0"},
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .channel = 7}, "a message for channel 7"},
    };

    for (size_t k = 0; k < N_OF(bad); k++) {
        struct mesh_event ev = {.kind = MESH_MESSAGE, .head = bad[k].head};
        struct err e = {0};
        struct cluster c;
        struct mesh *m;

        cluster_open(&c, &short_message);
        m = node_of(&c, -2)->mesh;
        ev.buf = mesh_buf_take(m);
        ev.buf->len = 0;
        assert_ok(exchange_on_event(node_of(&c, -2)->x, &ev, &e));
        assert_ok(mesh_poll(m, &ev, 0, &e));
        assert_int_equal(ev.kind, MESH_LOST);
        assert_int_equal(ev.head.peer, 1);
        assert_non_null(strstr(ev.why, bad[k].reason));
        assert_ok(exchange_on_event(node_of(&c, -2)->x, &ev, &e));
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_malformed_contribution_drops_its_sender_and_the_round_is_as_without_it),
        cmocka_unit_test(a_malformed_contribution_drops_its_sender_with_several_servers_and_in_asgd),
        cmocka_unit_test(a_server_that_continues_after_losses_counts_compressed_bytes_the_same_way),
        cmocka_unit_test(a_malformed_contribution_ends_the_job_if_too_few_workers_remain_or_all_are_needed),
        cmocka_unit_test(a_contribution_out_of_turn_drops_its_sender),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
