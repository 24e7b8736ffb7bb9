/* --compress in a codec's host: every built-in rule that accepts it, over many orders of events. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_state.h"
#include "runner/mesh/frame.h"
#include "shared/records/tensor_file.h"
#include "tests/lib/run_well.h"

enum { N_PARAMS = 200, SEEDS = 20 };

static const struct cluster_config plain3 = {
    .codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 3, .n_steps = 6, .n_params = N_PARAMS};

static void assert_equal_workers(const struct cluster *c)
{
    for (int i = 1; i < c->cfg.n_workers; i++)
        assert_memory_equal(c->nodes[i].params, c->nodes[0].params, N_PARAMS * sizeof(float));
}

static const char *const chains[] = {
    "none",
    "fp16",
    "bf16:ef=true",
    "bf16|huffman",
    "int8:ef=true",
    "fixed8:ef=true",
    "topk:ratio=0.1,ef=true|huffman",
    "layer0=topk:ratio=0.1,ef=true|huffman;layer2.dense.weight=fp16;*=none",
    "onebit:bucket=32,ef=true",
    "tern:alpha=fit,ef=true",
    "qsgd:bits=5,bucket=64|huffman",
    "randomk:ratio=0.2,ef=true",
    "tern:ef=true",
    "sgq",
};
enum { N_WITHOUT_DICE = 10 /* number of them: their messages do not depend on the seed */ };

/* Workers only, holders of the same blocks, servers; and rules that accept no lossy chain. */
enum { N_LOSSY = 6 };
static const struct cluster_config rules[] = {
    {.codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 3, .n_steps = 6},
    {.codec = "plain", .n_workers = 4, .redundancy = 2, .n_steps = 6},
    {.codec = "doublesqueeze", .n_workers = 3, .n_servers = 2, .n_steps = 6, .compress_down = "int8:ef=true"},
    {.codec = "ps", .n_workers = 3, .n_servers = 2, .n_steps = 6, .compress_down = "none|huffman"},
    {.codec = "fedpaq", .n_workers = 3, .local_steps = 3, .n_steps = 6},
    {.codec = "fedpaq", .n_workers = 3, .n_servers = 2, .local_steps = 1, .n_steps = 6},
    {.codec = "fedavg", .n_workers = 3, .local_steps = 2, .n_steps = 6},
    {.codec = "fedavg", .n_workers = 3, .n_servers = 2, .local_steps = 2, .n_steps = 6},
};

TEST(workers_get_the_same_bits_with_every_chain_and_order_of_events)
{
    for (size_t r = 0; r < N_LOSSY; r++)
        for (size_t k = 0; k < N_OF(chains); k++) {
            struct cluster_config cfg = rules[r];
            float first[N_PARAMS];

            cfg.n_params = N_PARAMS;
            cfg.compress = chains[k];
            for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
                struct cluster c;

                run_well(&c, &cfg);
                assert_equal_workers(&c);
                if (cfg.seed == 1)
                    memcpy(first, c.nodes[0].params, sizeof first);
                if (k < N_WITHOUT_DICE)
                    assert_memory_equal(c.nodes[0].params, first, sizeof first);
                cluster_close(&c);
            }
        }
}

/* With N workers a sum is rounded N - 1 times at most on its way to a worker, and each contribution once,
 * each time by 2^-8 of itself: bf16 is coarser than fp16. fixed8 rounds contributions only, each by 2^-8 of
 * the sum of the workers' largest values. Cancellation could make that more, relative to the weights, but
 * synthetic gradients do not cancel. */
TEST(an_all_reduce_of_items_gives_all_workers_the_same_bits_near_those_of_floats)
{
    static const char *const items[] = {
        "fp16", "bf16", "fixed8", "fp16:ef=true", "bf16:ef=true,decay=0.9", "fixed8:ef=true"};

    for (int n = 2; n <= 9; n++)
        for (int a = COLLECTIVE_AUTO; a < COLLECTIVE_ALGORITHMS; a++)
            for (size_t k = 0; k < 2 * N_OF(items); k++) {
                struct cluster_config cfg = {.codec = k % 2 ? "fedpaq" : "allreduce",
                                             .path = COMBINE_PATH_ALLREDUCE,
                                             .n_workers = n,
                                             .n_steps = 6,
                                             .local_steps = k % 2 ? 2 : 0,
                                             .allreduce = (enum collective_algorithm)a,
                                             .n_params = N_PARAMS,
                                             .seed = (uint64_t)n};
                struct cluster floats, c;
                float most = 0;

                run_well(&floats, &cfg);
                cfg.compress = items[k / 2];
                run_well(&c, &cfg);
                assert_equal_workers(&c);
                if (strncmp(items[k / 2], "bf16", 4) == 0) /* the others send scales, too */
                    assert_int_equal(exchange_totals(c.nodes[0].x)->raw_bytes,
                                     exchange_totals(floats.nodes[0].x)->raw_bytes);
                for (size_t i = 0; i < N_PARAMS; i++)
                    most = fmaxf(most, fabsf(floats.nodes[0].params[i]));
                for (size_t i = 0; i < N_PARAMS; i++)
                    if (!(fabsf(c.nodes[0].params[i] - floats.nodes[0].params[i]) <=
                          0x1p-8f * (float)n * most))
                        fail_msg("%s %s, %d workers, algorithm %d: parameter %zu is %g instead of %g",
                                 cfg.codec, cfg.compress, n, a, i, (double)c.nodes[0].params[i],
                                 (double)floats.nodes[0].params[i]);
                cluster_close(&floats);
                cluster_close(&c);
            }
}

static void run_with(float out[N_PARAMS], struct cluster_config cfg, const char *up, const char *down)
{
    struct cluster c;

    cfg.n_params = N_PARAMS;
    cfg.compress = up;
    cfg.compress_down = down;
    run_well(&c, &cfg);
    memcpy(out, c.nodes[0].params, N_PARAMS * sizeof *out);
    cluster_close(&c);
}

/* The gradients do not depend on the weights, so a layer under a list goes the way that it goes in a job with
 * its chain for all layers. The two servers' ranges meet inside the middle layer. */
TEST(each_layer_of_a_list_ends_with_the_bits_of_a_job_with_its_chain_alone)
{
    static const char *const alone[] = {"topk:ratio=0.1,ef=true,per=layer|huffman", "int8:ef=true,per=layer",
                                        "bf16"};
    static const char list[] =
        "layer0=topk:ratio=0.1,ef=true|huffman;layer1=int8:ef=true;layer2.dense.weight=bf16";
    static const struct cluster_config jobs[] = {
        {.codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 3, .n_steps = 6},
        {.codec = "plain", .n_workers = 4, .redundancy = 2, .n_steps = 6},
        {.codec = "doublesqueeze", .n_workers = 3, .n_servers = 2, .n_steps = 6},
        {.codec = "fedpaq", .path = COMBINE_PATH_GATHER, .n_workers = 3, .local_steps = 2, .n_steps = 6},
    };
    float together[N_PARAMS], one[N_PARAMS];

    for (size_t j = 0; j < N_OF(jobs); j++) {
        bool has_servers = jobs[j].n_servers > 0;

        run_with(together, jobs[j], list, has_servers ? list : NULL);
        for (size_t k = 0; k < N_OF(alone); k++) {
            size_t from = collective_slice(N_PARAMS, (int)k, 3),
                   to = collective_slice(N_PARAMS, (int)k + 1, 3);

            run_with(one, jobs[j], alone[k], has_servers ? alone[k] : NULL);
            assert_memory_equal(together + from, one + from, (to - from) * sizeof *one);
            assert_memory_not_equal(together, one, sizeof one);
        }
    }
}

TEST(a_list_of_the_same_chains_is_that_chain_per_layer)
{
    static const struct cluster_config job = {
        .codec = "doublesqueeze", .n_workers = 3, .n_servers = 2, .n_steps = 6, .seed = 5};
    float list[N_PARAMS], one[N_PARAMS];

    run_with(list, job, "layer1=qsgd:bits=4,ef=true;*=qsgd:bits=4,ef=true", "*=tern:ef=true");
    run_with(one, job, "qsgd:bits=4,ef=true,per=layer", "tern:ef=true,per=layer");
    assert_memory_equal(list, one, sizeof one);
}

TEST(a_lossless_chain_changes_no_bit_of_the_result)
{
    for (size_t r = 0; r < N_OF(rules); r++) {
        struct cluster_config cfg = rules[r];
        struct cluster as_it_is, coded;

        cfg.n_params = N_PARAMS;
        cfg.compress_down = NULL;
        cfg.path = cfg.n_servers > 0 ? COMBINE_PATH_SERVERS : COMBINE_PATH_GATHER;
        run_well(&as_it_is, &cfg);
        cfg.compress = "none|huffman";
        cfg.compress_down = cfg.n_servers > 0 ? cfg.compress : NULL;
        run_well(&coded, &cfg);
        for (int i = 0; i < cfg.n_workers; i++)
            assert_memory_equal(as_it_is.nodes[i].params, coded.nodes[i].params, N_PARAMS * sizeof(float));
        cluster_close(&as_it_is);
        cluster_close(&coded);
    }
}

TEST(raw_bytes_equal_those_without_a_chain_and_sent_bytes_those_with_it)
{
    struct cluster_config cfg = plain3;
    struct exchange_totals plain, half;
    struct cluster c;

    run_well(&c, &cfg);
    plain = *exchange_totals(c.nodes[0].x);
    cluster_close(&c);
    cfg.compress = "fp16";
    run_well(&c, &cfg);
    half = *exchange_totals(c.nodes[0].x);
    cluster_close(&c);
    assert_int_equal(half.raw_bytes, plain.raw_bytes);
    assert_int_equal(plain.raw_bytes, plain.sent_messages * N_PARAMS * 4);
    assert_int_equal(half.sent_bytes, plain.sent_messages * (4 + N_PARAMS * 2 + FRAME_BYTES));
}

TEST(traffic_of_a_round_has_raw_bytes_of_both_directions)
{
    struct cluster_config cfg = plain3;
    const struct exchange_traffic *sent, *received;
    struct cluster c;
    uint64_t round;

    cfg.compress = "fp16";
    run_well(&c, &cfg);
    assert_true(exchange_round_done(c.nodes[1].x, &round));
    sent = exchange_sent(c.nodes[1].x, 0);
    received = exchange_received(c.nodes[1].x, 0);
    assert_int_equal(sent->raw_bytes, N_PARAMS * 4);
    assert_int_equal(sent->wire_bytes, 4 + N_PARAMS * 2 + FRAME_BYTES);
    assert_int_equal(received->raw_bytes, N_PARAMS * 4);
    assert_int_equal(received->wire_bytes, 4 + N_PARAMS * 2 + FRAME_BYTES);
    cluster_close(&c);
}

TEST(coded_symbols_are_counted_with_their_entropy)
{
    struct cluster_config cfg = plain3;
    struct compress_report r;
    struct cluster c;

    cfg.compress = "qsgd:bits=4|huffman";
    run_well(&c, &cfg);
    r = exchange_coded(c.nodes[0].x);
    assert_true(r.n_symbols == (double)(N_PARAMS * cfg.n_steps));
    assert_true(r.entropy > 0 && r.entropy <= r.n_bits &&
                r.n_bits <= 4 * r.n_symbols + 8 * (double)cfg.n_steps);
    cluster_close(&c);
    cfg.compress = "qsgd:bits=4";
    run_well(&c, &cfg);
    assert_true(exchange_coded(c.nodes[0].x).n_symbols == 0);
    cluster_close(&c);
}

/* An exchange opened by itself. */
static int open_alone(const char *codec, const char *compress, const char *down, struct err *e)
{
    struct codec_library lib;
    struct exchange *x = NULL;
    struct blocks blocks;
    float v[2][4] = {{0}};
    char path[512];
    int rc;

    snprintf(path, sizeof path, "%s/codecs/%s.so", test_build_dir(), codec);
    assert_int_equal(codec_library_open(&lib, path, e), 0);
    assert_int_equal(blocks_init(&blocks, BLOCKS_IID, 2, 1, e), 0);
    rc = exchange_new(&x,
                      &(struct exchange_config){.plugin = lib.plugin,
                                                .compress = compress,
                                                .compress_down = down,
                                                .n_workers = 2,
                                                .blocks = &blocks,
                                                .is_sync = true,
                                                .local_steps = 1,
                                                .n_steps = 1,
                                                .n_params = 4,
                                                .params = v[0],
                                                .grads = v[1]},
                      e);
    exchange_free(x);
    blocks_clear(&blocks);
    codec_library_close(&lib);
    return rc;
}

TEST(a_codec_that_needs_exact_messages_refuses_lossy_chains)
{
    struct err e;

    assert_int_equal(open_alone("gossip", "topk", NULL, &e), ERR_CONFIG);
    assert_error_has("--compress topk: codec gossip accepts lossless compression only");
    assert_int_equal(open_alone("gossip", "none|huffman", NULL, &e), 0);
    assert_int_equal(open_alone("fedavg", NULL, "fp16", &e), ERR_CONFIG);
    assert_error_has(
        "--compress-down fp16: codec fedavg accepts only lossless compression of what servers send");
    assert_int_equal(open_alone("plain", "topk:ratio=3", NULL, &e), ERR_CONFIG);
    assert_error_has("--compress: topk: ratio: 3 is not between 1e-06 and 1");
    assert_int_equal(open_alone("plain", "topk", "none|huffman", &e), 0);
    assert_int_equal(open_alone("fedavg", NULL, "fp16", &e), ERR_CONFIG); /* it has no servers */
}

TEST(a_codec_without_vectors_refuses_every_chain)
{
    struct err e;

    assert_int_equal(open_alone("dummy", "none|huffman", NULL, &e), ERR_CONFIG);
    assert_error_has("--compress none|huffman: codec dummy sends no vectors");
    assert_int_equal(open_alone("dummy", NULL, "none|huffman", &e), ERR_CONFIG);
    assert_error_has("--compress-down none|huffman: codec dummy sends no vectors");
    assert_int_equal(open_alone("dummy", NULL, NULL, &e), 0);
}

/* The result of exchange_save, through a file. */
static void carry_over(struct exchange *from, struct exchange *to, uint64_t step)
{
    const char *folder = unit_folder();
    struct exchange_state state;
    struct tensor_file file;
    char path[512];
    struct err e;

    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    assert_ok(exchange_save(&state, from, step, &e));
    assert_ok(tensor_file_write(path, state.tensors, state.n, NULL, &e));
    assert_ok(tensor_file_open(&file, path, &e));
    assert_ok(exchange_restore(to, &file, step, &e));
    tensor_file_close(&file);
    exchange_state_clear(&state);
    unit_remove(folder);
}

static void assert_resumes(struct cluster_config cfg, uint64_t at)
{
    struct cluster_config first;
    struct cluster whole, half, rest;

    cfg.n_params = N_PARAMS;
    first = cfg;
    first.n_steps = at;
    run_well(&whole, &cfg);
    run_well(&half, &first);
    cluster_open(&rest, &cfg);
    for (int i = 0; i < rest.n_nodes; i++) {
        carry_over(half.nodes[i].x, rest.nodes[i].x, at);
        memcpy(rest.nodes[i].params, half.nodes[i].params, N_PARAMS * sizeof(float));
        rest.nodes[i].step.n_done = at;
    }
    assert_true(cluster_run(&rest));
    for (int i = 0; i < cfg.n_workers; i++)
        assert_memory_equal(rest.nodes[i].params, whole.nodes[i].params, N_PARAMS * sizeof(float));
    cluster_close(&whole);
    cluster_close(&half);
    cluster_close(&rest);
}

TEST(a_job_resumed_from_a_checkpoint_ends_with_the_same_bits)
{
    for (size_t r = 0; r < N_LOSSY; r++)
        for (size_t k = 0; k < N_OF(chains); k++) {
            struct cluster_config cfg = rules[r];

            cfg.compress = chains[k];
            assert_resumes(cfg, 3);
        }
}

TEST(a_residual_is_saved_and_its_size_known_before_it_exists)
{
    struct cluster_config cfg = plain3;
    uint64_t before, after;
    struct cluster c;

    cfg.compress = "topk:ef=true";
    cluster_open(&c, &cfg);
    before = exchange_saved_bytes(c.nodes[0].x);
    cluster_close(&c);
    run_well(&c, &cfg);
    after = exchange_saved_bytes(c.nodes[0].x);
    cluster_close(&c);
    assert_true(before >= after && after >= N_PARAMS * sizeof(float));
}

/* Rules whose servers send parameters, as differences if the chain is lossy. */
static const struct cluster_config with_differences[] = {
    {.codec = "ps", .n_workers = 3, .n_servers = 2, .n_steps = 6},
    {.codec = "fedavg", .n_workers = 3, .n_servers = 2, .local_steps = 2, .n_steps = 6},
    {.codec = "easgd", .n_workers = 3, .n_servers = 1, .local_steps = 2, .n_steps = 6},
    {.codec = "ps", .is_asgd = true, .n_workers = 3, .n_servers = 2, .n_steps = 6},
    {.codec = "fedavg", .is_asgd = true, .n_workers = 3, .n_servers = 2, .local_steps = 2, .n_steps = 6},
    {.codec = "easgd", .is_asgd = true, .n_workers = 3, .n_servers = 2, .local_steps = 2, .n_steps = 6},
    {.codec = "fedpaq", .is_asgd = true, .n_workers = 3, .n_servers = 2, .local_steps = 2, .n_steps = 6},
    {.codec = "dc_qsgd", .is_asgd = true, .n_workers = 3, .n_servers = 2, .n_steps = 6},
    {.codec = "dc_asgd", .is_asgd = true, .n_workers = 3, .n_servers = 2, .n_steps = 6},
    {.codec = "sync_replicas",
     .options = "backups=1",
     .is_asgd = true,
     .n_workers = 3,
     .n_servers = 2,
     .n_steps = 6},
    {.codec = "downpour",
     .options = "n_push=2",
     .is_asgd = true,
     .n_workers = 3,
     .n_servers = 2,
     .n_steps = 6},
};
enum { N_SYNCHRONOUS = 3 };

/* The layer with `none` is sent itself. */
TEST(each_layer_of_differences_by_layer_ends_with_the_bits_of_a_job_with_its_chain_alone)
{
    static const char *const alone[] = {"topk:ratio=0.1,per=layer|huffman", "int8:per=layer", "none"};
    float together[N_PARAMS], one[N_PARAMS];

    for (size_t r = 0; r < 2; r++) { /* of gradients, and of weights */
        run_with(together, with_differences[r], NULL, "layer0=topk:ratio=0.1|huffman;layer1=int8;*=none");
        for (size_t k = 0; k < N_OF(alone); k++) {
            size_t from = collective_slice(N_PARAMS, (int)k, 3),
                   to = collective_slice(N_PARAMS, (int)k + 1, 3);

            run_with(one, with_differences[r], NULL, alone[k]);
            assert_memory_equal(together + from, one + from, (to - from) * sizeof *one);
            assert_memory_not_equal(together, one, sizeof one);
        }
    }
}

static struct channel *channel_of_range(const struct cluster_node *n, int range)
{
    struct channel *ch;

    for (int i = 0; (ch = exchange_channel(n->x, i)) != NULL; i++)
        if (ch->id == range)
            return ch;
    fail_msg("node %d has no range %d", n->node, range);
    return NULL;
}

static void assert_equal_copies(const struct cluster *c)
{
    for (int range = 0; range < c->cfg.n_servers; range++) {
        const struct copies *server =
            &channel_of_range(&c->nodes[c->cfg.n_workers + range], range)->compressing.copies;

        assert_int_equal(server->n, c->cfg.is_asgd ? c->cfg.n_workers : 1);
        for (int k = 0; k < c->cfg.n_workers; k++) {
            const struct copies *worker = &channel_of_range(&c->nodes[k], range)->compressing.copies;

            assert_int_equal(worker->n_params, server->n_params);
            assert_memory_equal(worker->of[0], server->of[server->n == 1 ? 0 : k],
                                worker->n_params * sizeof(float));
        }
    }
}

TEST(servers_track_the_parameters_of_workers_with_every_chain_and_order_of_events)
{
    for (size_t r = 0; r < N_OF(with_differences); r++)
        for (size_t k = 1; k < N_OF(chains); k++) { /* the first is lossless */
            struct cluster_config cfg = with_differences[r];

            cfg.n_params = N_PARAMS;
            cfg.compress_down = chains[k];
            for (cfg.seed = 1; cfg.seed <= SEEDS; cfg.seed++) {
                struct cluster c;

                run_well(&c, &cfg);
                assert_equal_copies(&c);
                cluster_close(&c);
            }
        }
}

TEST(a_job_with_differences_resumed_from_a_checkpoint_ends_with_the_same_bits)
{
    for (size_t r = 0; r < N_SYNCHRONOUS; r++)
        for (size_t k = 1; k < N_OF(chains); k++) {
            struct cluster_config cfg = with_differences[r];

            cfg.compress_down = chains[k];
            assert_resumes(cfg, cfg.local_steps == 2 ? 4 : 3);
        }
}

TEST(a_checkpoint_without_the_copies_that_differences_need_is_refused)
{
    struct cluster_config cfg = with_differences[0];
    struct exchange_state state;
    struct tensor_file file;
    struct cluster without, with;
    const char *folder = unit_folder();
    char path[512];
    struct err e;

    cfg.n_params = N_PARAMS;
    run_well(&without, &cfg);
    cfg.compress_down = "int8";
    cluster_open(&with, &cfg);
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    assert_ok(exchange_save(&state, without.nodes[0].x, cfg.n_steps, &e));
    assert_ok(tensor_file_write(path, state.tensors, state.n, NULL, &e));
    assert_ok(tensor_file_open(&file, path, &e));
    assert_int_equal(exchange_restore(with.nodes[0].x, &file, cfg.n_steps, &e), ERR_CONFIG);
    assert_error_has("tensor \"codec/0/copy/0\" is missing");
    tensor_file_close(&file);
    exchange_state_clear(&state);
    unit_remove(folder);
    cluster_close(&without);
    cluster_close(&with);
}

/* One residual for all workers in ssgd, one for each in asgd, and for fedavg the values left out. */
TEST(copies_are_counted_as_memory_and_in_checkpoints)
{
    static const struct {
        const char *codec;
        bool is_asgd;
        uint64_t n_vectors;
    } cases[] = {{"ps", false, 1}, {"ps", true, 3}, {"fedavg", false, 2}, {"fedavg", true, 6}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct cluster_config cfg = {.codec = cases[i].codec,
                                     .is_asgd = cases[i].is_asgd,
                                     .n_workers = 3,
                                     .n_servers = 1,
                                     .local_steps = 2,
                                     .n_steps = 2,
                                     .n_params = N_PARAMS};
        struct cluster with, without;
        uint64_t bytes = cases[i].n_vectors * N_PARAMS * sizeof(float);

        cluster_open(&without, &cfg);
        cfg.compress_down = "topk";
        cluster_open(&with, &cfg);
        assert_int_equal(exchange_saved_bytes(with.nodes[3].x),
                         exchange_saved_bytes(without.nodes[3].x) + bytes);
        assert_true(exchange_bytes(with.nodes[3].x) >= exchange_bytes(without.nodes[3].x) + (double)bytes);
        assert_int_equal(exchange_saved_bytes(with.nodes[0].x),
                         exchange_saved_bytes(without.nodes[0].x) + N_PARAMS * sizeof(float));
        cluster_close(&with);
        cluster_close(&without);
    }
}

/* The others go on with theirs. Returns whether it was killed: at some turns it is not its turn. */
static bool lose_worker_1(struct cluster_config cfg, uint64_t at)
{
    struct cluster c;
    bool is_lost;

    cfg.n_params = N_PARAMS;
    cfg.n_steps = 60;
    cfg.compress_down = "topk";
    cfg.goes_on = 2;
    cfg.kill_node = 1;
    cfg.kill_at = at;
    cluster_open(&c, &cfg);
    assert_true(cluster_run(&c));
    is_lost = c.nodes[1].phase == NODE_KILLED;
    assert_int_equal(c.nodes[0].phase, NODE_DONE);
    assert_int_equal(c.nodes[2].phase, NODE_DONE);
    for (int i = cfg.n_workers; is_lost && cfg.is_asgd && i < c.n_nodes; i++) {
        const struct copies *copies = &exchange_channel(c.nodes[i].x, 0)->compressing.copies;

        assert_null(copies->of[1]);
        assert_true(!copies->left || !copies->left[1]);
    }
    cluster_close(&c);
    return is_lost;
}

TEST(the_copy_of_a_lost_worker_is_forgotten)
{
    for (size_t r = 0; r < N_OF(with_differences); r++) {
        int n_lost = 0;

        for (uint64_t at = 1; at <= 12; at++)
            n_lost += lose_worker_1(with_differences[r], at);
        assert_true(n_lost > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_get_the_same_bits_with_every_chain_and_order_of_events),
        cmocka_unit_test(an_all_reduce_of_items_gives_all_workers_the_same_bits_near_those_of_floats),
        cmocka_unit_test(each_layer_of_a_list_ends_with_the_bits_of_a_job_with_its_chain_alone),
        cmocka_unit_test(a_list_of_the_same_chains_is_that_chain_per_layer),
        cmocka_unit_test(a_lossless_chain_changes_no_bit_of_the_result),
        cmocka_unit_test(raw_bytes_equal_those_without_a_chain_and_sent_bytes_those_with_it),
        cmocka_unit_test(traffic_of_a_round_has_raw_bytes_of_both_directions),
        cmocka_unit_test(coded_symbols_are_counted_with_their_entropy),
        cmocka_unit_test(a_codec_that_needs_exact_messages_refuses_lossy_chains),
        cmocka_unit_test(a_codec_without_vectors_refuses_every_chain),
        cmocka_unit_test(a_job_resumed_from_a_checkpoint_ends_with_the_same_bits),
        cmocka_unit_test(a_residual_is_saved_and_its_size_known_before_it_exists),
        cmocka_unit_test(each_layer_of_differences_by_layer_ends_with_the_bits_of_a_job_with_its_chain_alone),
        cmocka_unit_test(servers_track_the_parameters_of_workers_with_every_chain_and_order_of_events),
        cmocka_unit_test(a_job_with_differences_resumed_from_a_checkpoint_ends_with_the_same_bits),
        cmocka_unit_test(a_checkpoint_without_the_copies_that_differences_need_is_refused),
        cmocka_unit_test(copies_are_counted_as_memory_and_in_checkpoints),
        cmocka_unit_test(the_copy_of_a_lost_worker_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
