#include "runner/core/step_optimizer.h"

#include "tests/unit/unit.h"

/* A layer's weight (3, 2) and bias (2), then a gain (4). */
static const struct codec_layer layers[] = {
    {.name = "layer0.dense.weight", .offset = 0, .n = 6, .n_dims = 2, .shape = {3, 2}},
    {.name = "layer0.dense.bias", .offset = 6, .n = 2, .n_dims = 1, .shape = {2}},
    {.name = "layer1.layer_norm.gain", .offset = 8, .n = 4, .n_dims = 1, .shape = {4}},
};
enum { COUNT = 12 };

/* A step of adamw without a gradient: what decays is 0.9 of what it was. */
static void decay(float w[COUNT], enum decay_of of, size_t first, size_t n)
{
    const float g[COUNT] = {0};
    struct settings set;
    struct optimizer *o;
    struct err e;

    settings_default(&set);
    set.optimizer = OPTIMIZER_ADAMW;
    set.weight_decay = 1;
    set.decay_of = of;
    for (size_t i = 0; i < COUNT; i++)
        w[i] = 1;
    assert_ok(step_optimizer_new(&o, &set, layers, N_OF(layers), first, n, &e));
    optimizer_step(o, w + first, g, 0.1f, 1);
    optimizer_free(o);
}

TEST(by_default_all_parameters_decay)
{
    float w[COUNT];

    decay(w, DECAY_OF_ALL, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(w[i] == 0.9f);
}

TEST(with_decay_of_matrices_biases_and_gains_do_not_decay)
{
    float w[COUNT];

    decay(w, DECAY_OF_MATRICES, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(w[i] == (i < 6 ? 0.9f : 1));
}

/* Its range begins inside the matrix and ends inside the gain. */
TEST(a_server_treats_its_range_as_a_worker_would)
{
    float w[COUNT];

    decay(w, DECAY_OF_MATRICES, 4, 6);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(w[i] == (i >= 4 && i < 6 ? 0.9f : 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_all_parameters_decay),
        cmocka_unit_test(with_decay_of_matrices_biases_and_gains_do_not_decay),
        cmocka_unit_test(a_server_treats_its_range_as_a_worker_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
