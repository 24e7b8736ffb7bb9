/* The guarantees of a codec's host, for every built-in rule, over many orders of events. */
#include "runner/exchange/exchange_step.h"
#include "tests/lib/run_well.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PARAMS = 37, SEEDS = 100 };

static const struct cluster_config plain4 = {
    .codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};

static void assert_equal_params(const float *a, const float *b)
{
    assert_memory_equal(a, b, N_PARAMS * sizeof *a);
}

/* Runs the job under SEEDS orders of events; workers must end with the same bits in all of them. */
static void assert_independent_of_timing(struct cluster_config cfg)
{
    float first[N_PARAMS];

    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;

        run_well(&c, &cfg);
        if (cfg.seed == 1)
            memcpy(first, c.nodes[0].params, sizeof first);
        for (int i = 0; i < cfg.n_workers; i++)
            assert_equal_params(first, c.nodes[i].params);
        cluster_close(&c);
    }
}

/* params after n_steps of p <- p - lr mean_b(g_b), which is plain's definition */
static void reference(float *params, const struct blocks *b, uint64_t n_steps)
{
    for (size_t i = 0; i < N_PARAMS; i++) {
        params[i] = (float)i / (float)N_PARAMS;
        for (uint64_t s = 0; s < n_steps; s++) {
            double sum = 0;

            for (int k = 0; k < b->n_blocks; k++)
                sum += cluster_gradient(s, k, i);
            params[i] -= 0.125f * (float)(sum / b->n_blocks);
        }
    }
}

TEST(plain_is_the_mean_over_all_blocks)
{
    static const struct {
        int n, r;
        enum block_assignment assignment;
    } cases[] = {{1, 1, BLOCKS_IID}, {2, 1, BLOCKS_IID}, {4, 1, BLOCKS_IID}, {4, 2, BLOCKS_IID},
                 {4, 2, BLOCKS_DUP}, {5, 3, BLOCKS_IID}, {6, 3, BLOCKS_DUP}};

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = plain4;
        float expected[N_PARAMS];
        struct cluster c;

        cfg.n_workers = cases[k].n;
        cfg.redundancy = cases[k].r;
        cfg.assignment = cases[k].assignment;
        run_well(&c, &cfg);
        reference(expected, &c.blocks, cfg.n_steps);
        for (int i = 0; i < cases[k].n; i++)
            for (size_t p = 0; p < N_PARAMS; p++)
                assert_true(fabsf(expected[p] - c.nodes[i].params[p]) < 1e-6f);
        cluster_close(&c);
    }
}

TEST(synchronous_rules_do_not_depend_on_timing)
{
    struct cluster_config cfg = plain4;

    assert_independent_of_timing(cfg);
    cfg.redundancy = 2;
    assert_independent_of_timing(cfg);
    cfg = (struct cluster_config){
        .codec = "fedavg", .n_workers = 5, .local_steps = 3, .n_steps = 8, .n_params = N_PARAMS};
    assert_independent_of_timing(cfg);
    cfg.n_servers = 1;
    assert_independent_of_timing(cfg);
    cfg.n_servers = 3;
    assert_independent_of_timing(cfg);
}

TEST(fedavg_with_one_step_per_round_equals_plain)
{
    struct cluster_config cfg = {.codec = "fedavg", .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};
    struct cluster c, p;

    run_well(&p, &plain4);
    for (cfg.n_servers = 0; cfg.n_servers <= 2; cfg.n_servers++) {
        run_well(&c, &cfg);
        for (size_t i = 0; i < N_PARAMS; i++)
            assert_true(fabsf(p.nodes[0].params[i] - c.nodes[0].params[i]) < 1e-6f);
        cluster_close(&c);
    }
    cluster_close(&p);
}

TEST(fedavg_closes_with_a_partial_round_if_the_steps_do_not_divide)
{
    struct cluster_config cfg = {
        .codec = "fedavg", .n_workers = 3, .local_steps = 4, .n_steps = 10, .n_params = N_PARAMS};
    struct cluster c;
    uint64_t rounds = 0;

    run_well(&c, &cfg);
    assert_true(exchange_round_done(c.nodes[0].x, &rounds));
    assert_int_equal(rounds, 3); /* after steps 4, 8 and 10 */
    assert_equal_params(c.nodes[0].params, c.nodes[2].params);
    cluster_close(&c);
}

TEST(servers_end_with_the_parameters_of_the_workers)
{
    struct cluster_config cfg = {
        .codec = "fedavg", .n_workers = 3, .n_servers = 1, .n_steps = 4, .n_params = N_PARAMS};
    struct cluster c;

    run_well(&c, &cfg);
    assert_equal_params(c.nodes[0].params, c.nodes[3].params);
    cluster_close(&c);
}

TEST(event_rules_run_on_workers_and_servers)
{
    struct cluster_config cfg = {
        .codec = "tests/one_way", .n_workers = 3, .n_steps = 5, .n_params = N_PARAMS};

    for (cfg.n_servers = 0; cfg.n_servers <= 2; cfg.n_servers++)
        for (cfg.seed = 1; cfg.seed <= 20; cfg.seed++) {
            struct cluster c;

            run_well(&c, &cfg);
            cluster_close(&c);
        }
    cfg = (struct cluster_config){.codec = "tests/ping", .n_workers = 5, .n_steps = 5, .n_params = N_PARAMS};
    for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
        struct cluster c;

        run_well(&c, &cfg);
        cluster_close(&c);
    }
}

/* Calls `check` for each algorithm and a few numbers of workers. */
static void for_allreduce(void (*check)(struct cluster_config))
{
    struct cluster_config cfg = {.codec = "allreduce", .n_steps = 6, .n_params = N_PARAMS};

    for (int a = COLLECTIVE_AUTO; a < COLLECTIVE_ALGORITHMS; a++)
        for (cfg.n_workers = 1; cfg.n_workers <= 5; cfg.n_workers++) {
            cfg.allreduce = (enum collective_algorithm)a;
            check(cfg);
        }
}

static void assert_as_plain(struct cluster_config cfg)
{
    float expected[N_PARAMS];
    struct cluster c;

    run_well(&c, &cfg);
    reference(expected, &c.blocks, cfg.n_steps);
    for (int i = 0; i < cfg.n_workers; i++)
        for (size_t p = 0; p < N_PARAMS; p++)
            assert_true(fabsf(expected[p] - c.nodes[i].params[p]) < 1e-6f);
    cluster_close(&c);
}

TEST(allreduce_equals_plain_up_to_the_order_of_summation)
{
    for_allreduce(assert_as_plain);
}

TEST(allreduce_does_not_depend_on_timing)
{
    for_allreduce(assert_independent_of_timing);
}

/* Buckets change the order of summation, but not with two workers; overlapping them changes nothing. */
static void assert_overlap_changes_nothing(struct cluster_config cfg)
{
    struct cluster_config whole = cfg;
    struct cluster c, w;

    if (cfg.n_workers == 1)
        return;
    cfg.bucket = N_PARAMS / 4;
    assert_as_plain(cfg);
    assert_independent_of_timing(cfg);
    if (cfg.n_workers > 2)
        return;
    run_well(&w, &whole);
    run_well(&c, &cfg);
    assert_equal_params(w.nodes[0].params, c.nodes[1].params);
    assert_int_equal(exchange_totals(w.nodes[0].x)->raw_bytes, exchange_totals(c.nodes[0].x)->raw_bytes);
    cluster_close(&c);
    cluster_close(&w);
}

TEST(allreduce_can_reduce_a_gradient_while_it_is_computed)
{
    for_allreduce(assert_overlap_changes_nothing);
}

TEST(every_collective_gives_its_result)
{
    struct cluster_config cfg = {.codec = "tests/collect", .n_steps = 4, .n_params = N_PARAMS};

    for (cfg.n_workers = 1; cfg.n_workers <= 6; cfg.n_workers++)
        for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
            struct cluster c;

            run_well(&c, &cfg);
            cluster_close(&c);
        }
}

TEST(doublebuffer_equals_plain_one_step_behind)
{
    struct cluster_config cfg = {.codec = "doublebuffer", .n_params = N_PARAMS};

    for (cfg.n_workers = 1; cfg.n_workers <= 4; cfg.n_workers++)
        for (cfg.n_steps = 1; cfg.n_steps <= 6; cfg.n_steps++) {
            float expected[N_PARAMS];
            struct cluster c;

            run_well(&c, &cfg);
            reference(expected, &c.blocks, cfg.n_steps - 1);
            for (int i = 0; i < cfg.n_workers; i++)
                for (size_t p = 0; p < N_PARAMS; p++)
                    assert_true(fabsf(expected[p] - c.nodes[i].params[p]) < 1e-6f);
            cluster_close(&c);
        }
    cfg = (struct cluster_config){
        .codec = "doublebuffer", .n_workers = 4, .n_steps = 6, .n_params = N_PARAMS};
    assert_independent_of_timing(cfg);
}

TEST(allreduce_refuses_unsupported_jobs)
{
    static const struct {
        struct exchange_config cfg;
        int redundancy;
        const char *error_text;
    } cases[] = {
        {{.n_workers = 3, .n_servers = 1, .is_sync = true}, 1, "leave the parameter servers out"},
        {{.n_workers = 3}, 1, "it does not support asgd"},
        {{.n_workers = 3, .is_sync = true}, 2, "redundant blocks"},
        {{.n_workers = 3, .is_sync = true, .goes_on = true, .min_nodes = 1, .path = COMBINE_PATH_ALLREDUCE},
         1,
         "path allreduce waits for every worker, and --on-node-loss is continue"},
    };
    struct codec_library lib;
    struct err e = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/codecs/allreduce.so", test_build_dir());
    assert_int_equal(codec_library_open(&lib, path, &e), 0);
    for (size_t k = 0; k < N_OF(cases); k++) {
        struct exchange_config cfg = cases[k].cfg;
        float params[N_PARAMS], grads[N_PARAMS];
        struct blocks blocks;
        struct exchange *x;

        assert_int_equal(blocks_init(&blocks, BLOCKS_IID, cfg.n_workers, cases[k].redundancy, &e), 0);
        cfg.plugin = lib.plugin;
        cfg.blocks = &blocks;
        cfg.n_params = N_PARAMS;
        cfg.params = params;
        cfg.grads = grads;
        assert_int_equal(exchange_new(&x, &cfg, &e), ERR_CODEC);
        assert_error_has(cases[k].error_text);
        blocks_clear(&blocks);
    }
    codec_library_close(&lib);
}

/* A rule that violates the contract of collectives, for one worker alone. */
static struct {
    float a[4], b[4];
    int (*ask)(struct codec *c);
} broken;

static int ask_twice(struct codec *c)
{
    codec_all_reduce(c, CODEC_SUM, broken.a, broken.b, 4);
    return codec_all_reduce(c, CODEC_SUM, broken.a, broken.b, 4);
}

static int ask_in_place(struct codec *c)
{
    return codec_all_reduce(c, CODEC_SUM, broken.a, broken.a + 3, 4);
}

static int ask_of_no_worker(struct codec *c)
{
    return codec_broadcast(c, 1, broken.a, broken.b, 4);
}

static int ask_into_the_same(struct codec *c)
{
    return codec_all_reduce(c, CODEC_SUM, broken.a, broken.b, 4);
}

static int ask_on_collective(struct codec *c)
{
    return broken.ask == ask_into_the_same ? ask_into_the_same(c) : CODEC_GO;
}

TEST(invalid_collective_requests_are_refused_with_a_message)
{
    static const struct {
        int (*ask)(struct codec *);
        const char *error_text;
    } cases[] = {
        {ask_twice, "before the last collective is done"},
        {ask_in_place, "its `out` is its `in`"},
        {ask_of_no_worker, "node 1, which is not a worker"},
        {ask_into_the_same, "the `out` of the previous collective"},
    };
    struct err e = {0};
    struct blocks blocks;

    assert_int_equal(blocks_init(&blocks, BLOCKS_IID, 1, 1, &e), 0);
    for (size_t k = 0; k < N_OF(cases); k++) {
        struct codec_events events = {.on_grad = cases[k].ask, .on_collective = ask_on_collective};
        struct codec_plugin plugin = {.name = "broken", .more = CODEC_MORE(.events = &events)};
        struct mesh_mem *net = mesh_mem_new(1, 0, 64, 1);
        float params[4] = {0}, grads[4] = {0};
        struct exchange *x;

        broken.ask = cases[k].ask;
        assert_int_equal(exchange_new(&x,
                                      &(struct exchange_config){.plugin = &plugin,
                                                                .n_workers = 1,
                                                                .is_sync = true,
                                                                .blocks = &blocks,
                                                                .n_params = 4,
                                                                .params = params,
                                                                .grads = grads},
                                      &e),
                         0);
        exchange_attach(x, mesh_mem_node(net, 0), NULL);
        assert_int_equal(exchange_on_grad(x, 1, &e), ERR_CODEC);
        assert_error_has(cases[k].error_text);
        exchange_free(x);
        mesh_mem_free(net);
    }
    blocks_clear(&blocks);
}

TEST(dummy_sends_nothing_and_changes_nothing)
{
    struct cluster_config cfg = {.codec = "dummy", .n_workers = 2, .n_steps = 3, .n_params = N_PARAMS};
    struct cluster c;
    float expected[N_PARAMS];

    run_well(&c, &cfg);
    for (size_t i = 0; i < N_PARAMS; i++) {
        expected[i] = (float)i / (float)N_PARAMS;
        for (uint64_t s = 0; s < 3; s++)
            expected[i] -= 0.125f * cluster_gradient(s, 1, i);
    }
    assert_equal_params(expected, c.nodes[1].params);
    assert_int_equal(exchange_totals(c.nodes[0].x)->sent_bytes, 0);
    cluster_close(&c);
}

TEST(asynchronous_runs_end_for_every_rule)
{
    static const struct cluster_config cases[] = {
        {.codec = "plain", .n_workers = 4, .n_steps = 20, .n_params = N_PARAMS, .is_asgd = true},
        {.codec = "plain",
         .n_workers = 4,
         .redundancy = 2,
         .n_steps = 20,
         .n_params = N_PARAMS,
         .is_asgd = true},
        {.codec = "fedavg",
         .n_workers = 4,
         .local_steps = 3,
         .n_steps = 20,
         .n_params = N_PARAMS,
         .is_asgd = true},
        {.codec = "fedavg",
         .n_workers = 4,
         .n_servers = 2,
         .n_steps = 20,
         .n_params = N_PARAMS,
         .is_asgd = true},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct cluster_config cfg = cases[k];
            struct cluster c;

            cfg.seed = seed;
            run_well(&c, &cfg);
            for (size_t i = 0; i < N_PARAMS; i++)
                assert_true(isfinite(c.nodes[0].params[i]));
            cluster_close(&c);
        }
}

TEST(sent_bytes_match_the_declared_cost)
{
    struct cluster_config cfg = plain4;
    struct cluster c;

    run_well(&c, &cfg);
    for (int i = 0; i < 4; i++) { /* one block each, to three others, in 6 steps */
        assert_int_equal(exchange_totals(c.nodes[i].x)->raw_bytes, 6 * 3 * 4 * N_PARAMS);
        assert_int_equal(exchange_totals(c.nodes[i].x)->sent_bytes, 6 * 3 * (4 * N_PARAMS + FRAME_BYTES));
        assert_int_equal(exchange_totals(c.nodes[i].x)->recv_bytes, 6 * 3 * (4 * N_PARAMS + FRAME_BYTES));
    }
    cluster_close(&c);
    cfg.codec = "allreduce";
    cfg.path = COMBINE_PATH_ALLREDUCE;
    cfg.allreduce = COLLECTIVE_RING;
    run_well(&c, &cfg);
    for (int i = 0; i < 4; i++) { /* 2 (n - 1) slices of 9 or 10 numbers, one chunk each */
        const struct exchange_totals *t = exchange_totals(c.nodes[i].x);

        assert_true(t->raw_bytes >= 6 * 6 * 4 * 9 && t->raw_bytes <= 6 * 6 * 4 * 10);
        assert_int_equal(t->sent_bytes, t->raw_bytes + 6 * 6 * FRAME_BYTES);
    }
    cluster_close(&c);
    cfg = (struct cluster_config){
        .codec = "fedavg", .n_workers = 4, .n_servers = 2, .n_steps = 6, .n_params = N_PARAMS};
    run_well(&c, &cfg);
    assert_int_equal(exchange_totals(c.nodes[1].x)->raw_bytes, 6 * (2 * 4 + 4 * N_PARAMS));
    assert_int_equal(exchange_totals(c.nodes[4].x)->raw_bytes + exchange_totals(c.nodes[5].x)->raw_bytes,
                     6 * 4 * 4 * N_PARAMS);
    cluster_close(&c);
}

TEST(a_rule_without_a_server_side_refuses_servers)
{
    struct cluster c;
    struct exchange *x;
    struct err e = {0};

    cluster_open(&c, &plain4);
    assert_int_equal(exchange_new(&x,
                                  &(struct exchange_config){.plugin = c.lib->plugin,
                                                            .n_workers = 4,
                                                            .n_servers = 1,
                                                            .blocks = &c.blocks,
                                                            .n_params = 1,
                                                            .params = c.nodes[0].params},
                                  &e),
                     ERR_CODEC);
    assert_non_null(strstr(e.text, "codec plain is for workers only"));
    cluster_close(&c);
}

/* Hostile contributions: each is refused with a message, and none is read beyond its end. */
TEST(malformed_contributions_are_refused)
{
    static const char *const codecs[] = {"plain", "fedavg"};

    for (size_t k = 0; k < 2; k++)
        for (size_t len = 0; len < 4 * N_PARAMS + 4; len++) {
            struct cluster_config cfg = {.codec = codecs[k],
                                         .path = COMBINE_PATH_GATHER,
                                         .n_workers = 2,
                                         .n_steps = 1,
                                         .n_params = N_PARAMS};
            struct cluster c;
            struct cluster_node *n;
            struct mesh_event ev = {.kind = MESH_MESSAGE,
                                    .head = {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1}};
            int rc;

            cluster_open(&c, &cfg);
            n = &c.nodes[0];
            if (len == (k == 0 ? 4 * N_PARAMS : 4 * N_PARAMS + 4)) {
                cluster_close(&c);
                continue;
            }
            ev.buf = mesh_buf_take(n->mesh);
            ev.buf->len = len;
            memset(ev.buf->bytes, 0x3f, len);
            assert_true(exchange_on_event(n->x, &ev, &n->e) >=
                        0); /* kept until this worker's contribution is sent */
            if (exchange_wants_blocks(n->x))
                assert_int_equal(exchange_on_block(n->x, 0, &n->e), 0);
            rc = exchange_on_grad(n->x, 1, &n->e);
            if (rc == CODEC_GO)
                rc = exchange_on_step(n->x, &n->e);
            assert_int_equal(rc, ERR_CODEC);
            cluster_close(&c);
        }
}

TEST(contributions_out_of_turn_are_refused)
{
    static const struct mesh_head bad[] = {
        {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 2},               /* in the name of another worker */
        {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 99},              /* no such worker */
        {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .round = 2},   /* two rounds ahead */
        {.kind = FRAME_REPLY, .peer = 1, .index = 1},                      /* not requested */
        {.kind = FRAME_EVENT, .peer = 1, .index = 1},                      /* only for event rules */
        {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .channel = 7}, /* no such range */
    };

    for (size_t k = 0; k < N_OF(bad); k++) {
        struct cluster c;
        struct mesh_event ev = {.kind = MESH_MESSAGE, .head = bad[k]};

        cluster_open(&c, &plain4);
        ev.buf = mesh_buf_take(c.nodes[0].mesh);
        assert_int_equal(exchange_on_event(c.nodes[0].x, &ev, &c.nodes[0].e), ERR_CODEC);
        cluster_close(&c);
    }
}

TEST(a_late_memory_offer_is_ignored)
{
    struct cluster c;
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = {.kind = FRAME_LOCAL, .peer = 1, .index = 1}};

    cluster_open(&c, &plain4);
    ev.buf = mesh_buf_take(c.nodes[0].mesh);
    assert_int_equal(exchange_on_event(c.nodes[0].x, &ev, &c.nodes[0].e), CODEC_GO);
    assert_int_equal(exchange_received(c.nodes[0].x, 1)->messages, 0);
    cluster_close(&c);
}

/* Worker 1 reads nothing. Worker 0 continues alone, and its queue for worker 1 stays bounded. */
TEST(in_asgd_no_worker_waits_for_a_peer_that_does_not_read)
{
    struct cluster_config cfg = {
        .codec = "plain", .n_workers = 2, .n_steps = 30, .n_params = N_PARAMS, .is_asgd = true};
    struct cluster c;
    struct err e = {0};

    cluster_open(&c, &cfg);
    for (uint64_t step = 0; step < cfg.n_steps; step++) {
        assert_int_equal(exchange_on_block(c.nodes[0].x, 0, &e), CODEC_GO);
        assert_int_equal(exchange_on_grad(c.nodes[0].x, 1, &e), CODEC_GO);
        assert_int_equal(exchange_on_step(c.nodes[0].x, &e), CODEC_GO);
    }
    assert_true(exchange_never_waits(c.nodes[0].x));
    assert_int_equal(mesh_queued_for(c.nodes[0].mesh, 1), EXCHANGE_BACKLOG_MAX);
    assert_int_equal(exchange_totals(c.nodes[0].x)->sent_messages, EXCHANGE_BACKLOG_MAX);
    assert_int_equal(exchange_totals(c.nodes[0].x)->n_overtaken, cfg.n_steps - EXCHANGE_BACKLOG_MAX);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_is_the_mean_over_all_blocks),
        cmocka_unit_test(synchronous_rules_do_not_depend_on_timing),
        cmocka_unit_test(fedavg_with_one_step_per_round_equals_plain),
        cmocka_unit_test(fedavg_closes_with_a_partial_round_if_the_steps_do_not_divide),
        cmocka_unit_test(servers_end_with_the_parameters_of_the_workers),
        cmocka_unit_test(event_rules_run_on_workers_and_servers),
        cmocka_unit_test(allreduce_equals_plain_up_to_the_order_of_summation),
        cmocka_unit_test(allreduce_does_not_depend_on_timing),
        cmocka_unit_test(allreduce_can_reduce_a_gradient_while_it_is_computed),
        cmocka_unit_test(every_collective_gives_its_result),
        cmocka_unit_test(doublebuffer_equals_plain_one_step_behind),
        cmocka_unit_test(allreduce_refuses_unsupported_jobs),
        cmocka_unit_test(invalid_collective_requests_are_refused_with_a_message),
        cmocka_unit_test(dummy_sends_nothing_and_changes_nothing),
        cmocka_unit_test(asynchronous_runs_end_for_every_rule),
        cmocka_unit_test(in_asgd_no_worker_waits_for_a_peer_that_does_not_read),
        cmocka_unit_test(sent_bytes_match_the_declared_cost),
        cmocka_unit_test(a_rule_without_a_server_side_refuses_servers),
        cmocka_unit_test(malformed_contributions_are_refused),
        cmocka_unit_test(contributions_out_of_turn_are_refused),
        cmocka_unit_test(a_late_memory_offer_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
