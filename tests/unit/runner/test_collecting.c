/* Which collectives of a codec use shared memory, and which use connections. */
#include "runner/exchange/exchange.h"
#include "runner/exchange/exchange_step.h"
#include "tests/lib/mesh_mem.h"
#include "tests/lib/shm_pair.h"
#include "tests/unit/unit.h"

#include <math.h>

enum { N_NODES = 2, N_PARAMS = 10, LONGEST = SHM_GROUP_SMALL };

static size_t n_asked;
static float in[N_NODES][LONGEST], out[N_NODES][LONGEST];

static int sums_on_grad(struct codec *c)
{
    return codec_all_reduce(c, CODEC_SUM, in[c->run->node], out[c->run->node], n_asked);
}

static int sums_on_collective(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events events = {.on_grad = sums_on_grad, .on_collective = sums_on_collective};
static const struct codec_plugin sums = {.name = "sums", .more = CODEC_MORE(.events = &events)};

/* The bytes that each of two nodes with shared memory sends over its connection for a sum of n numbers. */
static uint64_t sent_for(size_t n)
{
    struct mesh_mem *net = mesh_mem_new(N_NODES, 0, 64, 1);
    struct exchange *x[N_NODES];
    float params[N_PARAMS] = {0};
    struct shm_pair p;
    struct blocks blocks;
    uint64_t sent;
    int rc[N_NODES];
    struct err e;

    n_asked = n;
    shm_pair_open_as(&p, (int[]){0, 1}, N_PARAMS);
    assert_ok(blocks_init(&blocks, BLOCKS_IID, N_NODES, 1, &e));
    for (int i = 0; i < N_NODES; i++) {
        for (size_t k = 0; k < LONGEST; k++)
            in[i][k] = (float)(1 + i + (int)k);
        assert_ok(exchange_new(&x[i],
                               &(struct exchange_config){.plugin = &sums,
                                                         .node = i,
                                                         .n_workers = N_NODES,
                                                         .is_sync = true,
                                                         .blocks = &blocks,
                                                         .n_params = N_PARAMS,
                                                         .params = params,
                                                         .grads = shm_group_in(p.a[i])},
                               &e));
        exchange_attach(x[i], mesh_mem_node(net, i), NULL);
        assert_ok(exchange_share(x[i], p.a[i], &e));
        rc[i] = exchange_on_grad(x[i], 1, &e);
    }
    for (int k = 0; k < 1000 && (rc[0] != CODEC_GO || rc[1] != CODEC_GO); k++) {
        struct mesh_event ev;

        assert_ok(mesh_poll(mesh_mem_node(net, k % 2), &ev, 0, &e));
        rc[k % 2] = exchange_on_event(x[k % 2], &ev, &e);
        assert_ok(rc[k % 2]);
    }
    assert_true(rc[0] == CODEC_GO && rc[1] == CODEC_GO);
    for (size_t k = 0; k < n; k++)
        assert_true(out[0][k] == (float)(3 + 2 * k) && out[1][k] == out[0][k]);
    sent = exchange_totals(x[0])->sent_bytes;
    assert_int_equal(exchange_totals(x[1])->sent_bytes, sent);
    for (int i = 0; i < N_NODES; i++) {
        exchange_detach(x[i]);
        mesh_close(mesh_mem_node(net, i), 0);
        exchange_free(x[i]);
    }
    mesh_mem_free(net);
    shm_pair_close(&p);
    blocks_clear(&blocks);
    return sent;
}

TEST(a_short_vector_no_longer_than_the_model_uses_shared_memory)
{
    assert_int_equal(sent_for(1), sizeof(float)); /* no frame's header */
    assert_int_equal(sent_for(N_PARAMS), N_PARAMS * sizeof(float));
}

/* The shared memory has the size of the model: a longer vector does not fit, not even in the space of short
 * ones. */
TEST(a_vector_longer_than_the_model_uses_connections_even_if_short)
{
    assert_true(sent_for(N_PARAMS + 1) > (N_PARAMS + 1) * sizeof(float));
    assert_true(sent_for(LONGEST) > LONGEST * sizeof(float));
}

/* Otherwise a sum in shared memory could not be counted: in a large job statistics are made on first use. */
TEST(in_a_large_job_the_nodes_of_a_machine_have_statistics_before_the_first_sum)
{
    float params[N_PARAMS] = {0};
    struct exchange *x;
    struct shm_pair p;
    struct blocks blocks;
    struct err e;

    shm_pair_open_as(&p, (int[]){70, 71}, N_PARAMS);
    assert_ok(blocks_init(&blocks, BLOCKS_IID, 100, 1, &e));
    assert_ok(exchange_new(&x,
                           &(struct exchange_config){.plugin = &sums,
                                                     .node = 70,
                                                     .n_workers = 100,
                                                     .is_sync = true,
                                                     .blocks = &blocks,
                                                     .n_params = N_PARAMS,
                                                     .params = params,
                                                     .grads = shm_group_in(p.a[0])},
                           &e));
    assert_int_equal(exchange_next_peer(x, 0), EXCHANGE_NO_PEER);
    assert_ok(exchange_share(x, p.a[0], &e));
    assert_int_equal(exchange_next_peer(x, 71), 71);
    exchange_free(x);
    shm_pair_close(&p);
    blocks_clear(&blocks);
}

/* ---- levels: workers 0 and 1 share memory, 2 and 3 do, and 4 is alone ---- */

enum { N_WORKERS = 5, MOST = 3 * SHM_GROUP_SMALL, N_STEPS = 5 };

static const int machines[N_WORKERS] = {0, 0, 2, 2, 4};

static float contribute_doubled(struct codec *c, float *const *v)
{
    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = 2 * c->grads[i];
    c->numbers[0] = (float)(c->run->node + 1);
    return (float)(c->run->node + 1);
}

static float mean_number[N_WORKERS];

static int apply_doubled(struct codec *c, const float *const *v)
{
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = v[0][i];
    mean_number[c->run->node] = c->numbers[0];
    return CODEC_GO;
}

static const struct codec_combine means[] = {
    {.when = CODEC_EACH_STEP, .reduction = CODEC_MEAN},
    {.when = CODEC_EACH_STEP,
     .reduction = CODEC_MEAN,
     .contribute = contribute_doubled,
     .n_numbers = 1,
     .apply = apply_doubled},
};

static float gradient(int worker, int step, size_t i)
{
    return (float)((int)i % 17 + 3 * worker + step);
}

/* What a worker's update uses: sums of small integers over 5 workers, and weights 1 to 5, are exact. */
static float expected(const struct codec_combine *r, int step, size_t i)
{
    float sum = 0;

    for (int k = 0; k < N_WORKERS; k++)
        sum += r->contribute ? 2 * (float)(k + 1) * gradient(k, step, i) : gradient(k, step, i);
    return sum / (r->contribute ? 15 : N_WORKERS);
}

static void take_step(struct exchange *x[], struct mesh_mem *net, int step)
{
    int rc[N_WORKERS], n_waiting = N_WORKERS;
    struct mesh_event ev;
    struct err e = {0};

    for (int i = 0; i < N_WORKERS; i++)
        assert_ok(rc[i] = exchange_on_grad(x[i], (uint64_t)step, &e));
    for (int k = 0; k < 100000 && n_waiting > 0; k++) {
        int i = (k * 7 + k / 3) % N_WORKERS;

        assert_ok(mesh_poll(mesh_mem_node(net, i), &ev, 0, &e));
        if (ev.kind != MESH_NOTHING || rc[i] == CODEC_WAIT) {
            rc[i] = exchange_on_event(x[i], &ev, &e);
            assert_ok(rc[i]);
        }
        n_waiting = 0;
        for (int j = 0; j < N_WORKERS; j++)
            n_waiting += rc[j] != CODEC_GO;
    }
    assert_int_equal(n_waiting, 0);
}

static void run_on_levels(const struct codec_combine *rule, size_t n)
{
    const struct codec_plugin plugin = {.name = "mean", .combine = rule};
    static float params[N_WORKERS][MOST], alone[MOST];
    struct mesh_mem *net = mesh_mem_new(N_WORKERS, 0, 64, 1);
    struct exchange *x[N_WORKERS];
    struct shm_pair pairs[2];
    struct shm_group *groups[N_WORKERS] = {0};
    float *grads[N_WORKERS];
    struct blocks blocks;
    struct err e = {0};

    assert_ok(blocks_init(&blocks, BLOCKS_IID, N_WORKERS, 1, &e));
    for (int k = 0; k < 2; k++) {
        shm_pair_open_as(&pairs[k], (int[]){2 * k, 2 * k + 1}, n);
        groups[2 * k] = pairs[k].a[0];
        groups[2 * k + 1] = pairs[k].a[1];
    }
    for (int i = 0; i < N_WORKERS; i++) {
        grads[i] = groups[i] ? shm_group_in(groups[i]) : alone;
        assert_ok(exchange_new(&x[i],
                               &(struct exchange_config){.plugin = &plugin,
                                                         .node = i,
                                                         .n_workers = N_WORKERS,
                                                         .is_sync = true,
                                                         .path = COMBINE_PATH_TREE,
                                                         .blocks = &blocks,
                                                         .n_params = n,
                                                         .params = params[i],
                                                         .grads = grads[i]},
                               &e));
        assert_true(exchange_has_levels(x[i]));
        exchange_attach(x[i], mesh_mem_node(net, i), machines);
        assert_ok(exchange_share(x[i], groups[i], &e));
    }
    for (int step = 1; step <= N_STEPS; step++) {
        for (int k = 0; k < N_WORKERS; k++)
            for (size_t i = 0; i < n; i++)
                grads[k][i] = gradient(k, step, i);
        take_step(x, net, step);
        for (int k = 0; k < N_WORKERS; k++)
            for (size_t i = 0; i < n; i++)
                assert_true(fabsf(exchange_gradient(x[k])[i] - expected(rule, step, i)) < 1e-4f);
        for (int k = 1; k < N_WORKERS; k++) {
            assert_memory_equal(exchange_gradient(x[k]), exchange_gradient(x[0]), n * sizeof(float));
            if (rule->n_numbers > 0)
                assert_true(mean_number[k] == 55.0f / 15);
        }
    }
    for (int i = 0; i < N_WORKERS; i++) {
        exchange_detach(x[i]);
        mesh_close(mesh_mem_node(net, i), 0);
        exchange_free(x[i]);
    }
    mesh_mem_free(net);
    shm_pair_close(&pairs[0]);
    shm_pair_close(&pairs[1]);
    blocks_clear(&blocks);
}

TEST(on_levels_all_workers_get_the_mean_with_the_same_bits)
{
    for (size_t r = 0; r < N_OF(means); r++) {
        run_on_levels(&means[r], 1); /* shorter than the numbers and the weight */
        run_on_levels(&means[r], 10);
        run_on_levels(&means[r], SHM_GROUP_SMALL);
        run_on_levels(&means[r], SHM_GROUP_SMALL + 1);
        run_on_levels(&means[r], MOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_vector_no_longer_than_the_model_uses_shared_memory),
        cmocka_unit_test(a_vector_longer_than_the_model_uses_connections_even_if_short),
        cmocka_unit_test(in_a_large_job_the_nodes_of_a_machine_have_statistics_before_the_first_sum),
        cmocka_unit_test(on_levels_all_workers_get_the_mean_with_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
