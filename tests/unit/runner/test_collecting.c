/* Which collectives of a codec use shared memory, and which use connections. */
#include "agent/runner/exchange/exchange.h"
#include "tests/lib/mesh_mem.h"
#include "tests/lib/shm_pair.h"
#include "tests/unit/unit.h"

enum { N_NODES = 2, N_PARAMS = 10, LONGEST = SHM_GROUP_SMALL };

static size_t n_asked;
static float in[N_NODES][LONGEST], out[N_NODES][LONGEST];

static int sums_on_grad(struct codec *c)
{
    return c->host->all_reduce(c, CODEC_SUM, in[c->node], out[c->node], n_asked);
}

static int sums_on_collective(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events events = {.on_grad = sums_on_grad, .on_collective = sums_on_collective};
static const struct codec_plugin sums = {.name = "sums", .events = &events};

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
    shm_pair_open(&p, N_PARAMS);
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
        exchange_attach(x[i], mesh_mem_node(net, i), false);
        exchange_share(x[i], p.a[i]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_vector_no_longer_than_the_model_uses_shared_memory),
        cmocka_unit_test(a_vector_longer_than_the_model_uses_connections_even_if_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
