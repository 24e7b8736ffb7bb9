#include "runner/core/step_optimizer.h"

#include <math.h>

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
    settings_set_optimizer(&set, OPTIMIZER_ADAMW);
    set.weight_decay = 1;
    set.decay_of = of;
    for (size_t i = 0; i < COUNT; i++)
        w[i] = 1;
    assert_ok(step_optimizer_new(&o, &set, layers, N_OF(layers), first, n, &e));
    optimizer_step(o, w + first, g, 0.1f, 1);
    optimizer_free(o);
}

/* Betas of 0 are values like others: lion with them follows the sign of the gradient. */
TEST(betas_of_0_are_those_of_the_optimizer)
{
    const float g[2][2] = {{1, -1}, {-0.001f, 0.001f}};
    float w[COUNT] = {0};
    struct settings set;
    struct optimizer *o;
    struct err e;

    settings_default(&set);
    settings_set_optimizer(&set, OPTIMIZER_LION);
    set.beta1 = set.beta2 = 0;
    assert_ok(step_optimizer_new(&o, &set, layers, N_OF(layers), 6, 2, &e));
    optimizer_step(o, w, g[0], 0.5f, 1);
    optimizer_step(o, w, g[1], 0.5f, 1);
    assert_true(w[0] == 0 && w[1] == 0);
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

/* The shape that a tensor's step has under muon shows who updates it: all singular values of the step of a
 * hidden matrix are near the rate, while adamw's first step is the rate at the sign of each gradient. */
static void assert_updated(const struct codec_layer *l, size_t n, const bool *is_hidden)
{
    float w[64] = {0}, g[64];
    struct settings set;
    struct optimizer *o;
    struct err e;
    size_t count = 0;

    settings_default(&set);
    settings_set_optimizer(&set, OPTIMIZER_MUON);
    set.adamw_rate = set.learn_rate = 0.25;
    for (size_t i = 0; i < n; i++)
        count += l[i].n;
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++)
        g[i] = 1 + (float)(i % 5);
    assert_ok(step_optimizer_new(&o, &set, l, (int)n, 0, count, &e));
    optimizer_step(o, w, g, 0.25f, 1);
    for (size_t i = 0; i < n; i++) {
        bool is_adamw = true;

        for (size_t k = l[i].offset; k < l[i].offset + l[i].n; k++)
            is_adamw = is_adamw && fabsf(w[k] + 0.25f) < 1e-6f;
        if (is_adamw == is_hidden[i])
            fail_msg("%s is%s updated by adamw", l[i].name, is_adamw ? "" : " not");
    }
    optimizer_free(o);
}

TEST(muon_leaves_embeddings_vectors_and_the_head_to_adamw)
{
    static const struct codec_layer of_dense[] = {
        {.name = "layer0.embedding.weight", .offset = 0, .n = 6, .n_dims = 2, .shape = {3, 2}},
        {.name = "layer1.dense.weight", .offset = 6, .n = 4, .n_dims = 2, .shape = {2, 2}},
        {.name = "layer1.dense.bias", .offset = 10, .n = 2, .n_dims = 1, .shape = {2}},
        {.name = "layer10.dense.weight", .offset = 12, .n = 6, .n_dims = 2, .shape = {2, 3}},
        {.name = "layer2.conv2d.weight", .offset = 18, .n = 8, .n_dims = 4, .shape = {1, 2, 2, 2}},
    };
    static const struct codec_layer of_blocks[] = {
        {.name = "layer0.embedding.weight", .offset = 0, .n = 6, .n_dims = 2, .shape = {3, 2}},
        {.name = "layer1.position_embedding.weight", .offset = 6, .n = 4, .n_dims = 2, .shape = {2, 2}},
        {.name = "layer2.0.layer_norm.gain", .offset = 10, .n = 2, .n_dims = 1, .shape = {2}},
        {.name = "layer2.1.dense.weight", .offset = 12, .n = 6, .n_dims = 2, .shape = {2, 3}},
        {.name = "layer3.layer_norm.gain", .offset = 18, .n = 2, .n_dims = 1, .shape = {2}},
    };

    assert_updated(of_dense, N_OF(of_dense), (const bool[]){false, true, false, false, true});
    assert_updated(of_blocks, N_OF(of_blocks), (const bool[]){false, false, false, true, false});
}

TEST(a_part_of_a_hidden_matrix_is_refused)
{
    static const struct codec_layer two[] = {
        {.name = "layer0.dense.weight", .offset = 0, .n = 6, .n_dims = 2, .shape = {3, 2}},
        {.name = "layer1.dense.weight", .offset = 6, .n = 6, .n_dims = 2, .shape = {2, 3}},
    };
    struct settings set;
    struct optimizer *o;
    struct err e;

    settings_default(&set);
    settings_set_optimizer(&set, OPTIMIZER_MUON);
    assert_int_equal(step_optimizer_new(&o, &set, two, 2, 4, 8, &e), ERR_CONFIG);
    assert_string_equal(e.text,
                        "muon updates layer0.dense.weight as a whole, and this server has a part of it");
    assert_ok(step_optimizer_new(&o, &set, two, 2, 8, 4, &e)); /* of the head */
    optimizer_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(betas_of_0_are_those_of_the_optimizer),
        cmocka_unit_test(by_default_all_parameters_decay),
        cmocka_unit_test(with_decay_of_matrices_biases_and_gains_do_not_decay),
        cmocka_unit_test(muon_leaves_embeddings_vectors_and_the_head_to_adamw),
        cmocka_unit_test(a_part_of_a_hidden_matrix_is_refused),
        cmocka_unit_test(a_server_treats_its_range_as_a_worker_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
