#include "nn/optimizer.h"

#include <float.h>
#include <math.h>

#include "shared/base/crc32c.h"
#include "shared/records/tensor_file.h"
#include "tests/unit/unit.h"

static struct optimizer *make(enum optimizer_kind kind, size_t n, float momentum, float weight_decay)
{
    const struct optimizer_config cfg = {.kind = kind, .momentum = momentum, .weight_decay = weight_decay};
    struct optimizer *o;
    struct err e;

    assert_ok(optimizer_new(&o, &cfg, n, &e));
    return o;
}

static void assert_near(float x, double expected)
{
    if (!(fabs((double)x - expected) <= 2e-7 * fabs(expected)))
        fail_msg("%.9g, expected %.9g", (double)x, expected);
}

/* What tests/reference/optimizers.py did, variant by variant. */
static const struct {
    const char *name;
    enum optimizer_kind kind;
    float lr, momentum, weight_decay, clip;
    double beta1, beta2, epsilon;
    size_t n_decay; /* 0: all */
    size_t rows;    /* of a matrix, the first 6 parameters; 0: none */
} variants[] = {
    {"sgd", OPTIMIZER_SGD, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"sgd, decay", OPTIMIZER_SGD, 0.01f, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {"sgd, clip", OPTIMIZER_SGD, 0.01f, 0, 0, 1.5f, 0, 0, 0, 0, 0},
    {"momentum", OPTIMIZER_MOMENTUM, 0.01f, 0.9f, 0, 0, 0, 0, 0, 0, 0},
    {"momentum 0.5, decay", OPTIMIZER_MOMENTUM, 0.01f, 0.5f, 0.1f, 0, 0, 0, 0, 0, 0},
    {"nesterov", OPTIMIZER_NESTEROV, 0.01f, 0.9f, 0, 0, 0, 0, 0, 0, 0},
    {"nesterov, decay, clip", OPTIMIZER_NESTEROV, 0.01f, 0.9f, 0.1f, 1.5f, 0, 0, 0, 0, 0},
    {"adam", OPTIMIZER_ADAM, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"adam, decay, clip", OPTIMIZER_ADAM, 0.01f, 0, 0.1f, 1.5f, 0, 0, 0, 0, 0},
    {"adamw, decay", OPTIMIZER_ADAMW, 0.01f, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {"adagrad", OPTIMIZER_ADAGRAD, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"adagrad, decay", OPTIMIZER_ADAGRAD, 0.01f, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {"adadelta", OPTIMIZER_ADADELTA, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    {"adadelta, decay", OPTIMIZER_ADADELTA, 1, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {"rmsprop", OPTIMIZER_RMSPROP, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"rmsprop, decay", OPTIMIZER_RMSPROP, 0.01f, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {"rmsprop_graves", OPTIMIZER_RMSPROP_GRAVES, 0.01f, 0.9f, 0, 0, 0, 0, 0, 0, 0},
    {"rmsprop_graves 0.5, decay", OPTIMIZER_RMSPROP_GRAVES, 0.01f, 0.5f, 0.1f, 0, 0, 0, 0, 0, 0},
    {"gradient_decay", OPTIMIZER_GRADIENT_DECAY, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"adamw 0.8 0.95 1e-3, decay", OPTIMIZER_ADAMW, 0.01f, 0, 0.1f, 0, 0.8, 0.95, 1e-3, 0, 0},
    {"adamw, decay of 4", OPTIMIZER_ADAMW, 0.01f, 0, 0.1f, 0, 0, 0, 0, 4, 0},
    {"muon of 2 inputs", OPTIMIZER_MUON, 0.01f, 0.95f, 0, 0, 0.9, 0.95, 1e-10, 6, 2},
    {"muon of 3 inputs, decay", OPTIMIZER_MUON, 0.01f, 0.95f, 0.1f, 0, 0.9, 0.95, 1e-10, 6, 3},
    {"lion", OPTIMIZER_LION, 0.01f, 0, 0, 0, 0, 0, 0, 0, 0},
    {"lion 0.95 0.98, decay, clip", OPTIMIZER_LION, 0.01f, 0, 0.1f, 1.5f, 0.95, 0.98, 0, 0, 0},
};

static const float *reference(const struct tensor_file *f, const char *name, size_t n)
{
    const struct tensor_view *t = tensor_file_find(f, name);

    assert_non_null(t);
    assert_int_equal(tensor_count(t), n);
    return t->data;
}

/* Two correct float32 programs drift apart by roundings, 6e-8 of the weight each: after 100 steps by at
 * most 2.5e-7 of a weight's size, or of 1 where the weight is smaller. Muon is compared with double: each
 * step of 0.01 adds at most 485 roundings of 6e-8 (test_orthogonal.c), 3e-5 in 100 steps; found are 8e-7. */
TEST(every_optimizer_matches_the_iterates_of_pytorch)
{
    enum { STEPS = 100, PARAMS = 7 };
    struct tensor_file f;
    struct err e;

    assert_ok(tensor_file_open(&f, "tests/reference/optimizers.safetensors", &e));
    assert_int_equal(f.n, N_OF(variants) + 2);
    for (size_t k = 0; k < N_OF(variants); k++) {
        const float *grads = reference(&f, "grads", (size_t)STEPS * PARAMS);
        const float *expected = reference(&f, variants[k].name, (size_t)STEPS * PARAMS);
        size_t n = variants[k].n_decay, rows = variants[k].rows;
        const struct optimizer_part parts[] = {
            {.n = n, .decays = true, .rows = rows, .cols = rows > 0 ? n / rows : 0},
            {.n = PARAMS - n, .decays = rows > 0}};
        const struct optimizer_config cfg = {.kind = variants[k].kind,
                                             .momentum = variants[k].momentum,
                                             .weight_decay = variants[k].weight_decay,
                                             .has_parameters = variants[k].beta2 > 0 || rows > 0,
                                             .beta1 = variants[k].beta1,
                                             .beta2 = variants[k].beta2,
                                             .epsilon = variants[k].epsilon,
                                             .adamw_share = 0.3,
                                             .parts = parts,
                                             .n_parts = n > 0 ? 2 : 0};
        const float bound = rows > 0 ? 2e-6f : 5e-7f;
        struct optimizer *o;
        float w[PARAMS];

        assert_ok(optimizer_new(&o, &cfg, PARAMS, &e));

        memcpy(w, reference(&f, "start", PARAMS), sizeof w);
        for (int t = 0; t < STEPS; t++, grads += PARAMS, expected += PARAMS) {
            float scale = gradient_clip(gradient_norm(grads, PARAMS), (double)variants[k].clip);

            optimizer_step(o, w, grads, variants[k].lr, scale);
            for (int i = 0; i < PARAMS; i++)
                if (!(fabsf(w[i] - expected[i]) <= bound * fmaxf(1, fabsf(expected[i]))))
                    fail_msg("%s, step %d, parameter %d: %.9g, PyTorch has %.9g", variants[k].name, t + 1, i,
                             (double)w[i], (double)expected[i]);
        }
        optimizer_free(o);
    }
    tensor_file_close(&f);
}

/* Nodes of one job, which may have different processors, must get the same bits: `make test-processors`
 * runs this on several. */
TEST(every_optimizer_gives_the_same_bits_on_every_processor)
{
    enum { STEPS = 300, SOME = 77 }; /* whole vectors, and a remainder */
    static const uint32_t sums[N_OPTIMIZERS] = {0x26f16b82, 0xce87670d, 0x71113d6c, 0x8c5faef9,
                                                0xd9825052, 0xbcfa55cc, 0xe9d56e,   0xa306fc6b,
                                                0xc569f118, 0x68b83706, 0x8b61d297, 0x4f3edbd0};

    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        struct optimizer *o = make(k, SOME, 0.9f, 0.01f);
        float w[SOME], g[SOME];
        uint32_t sum = 0;
        struct rng r;

        rng_init(&r, 1, 2, 3);
        for (size_t i = 0; i < SOME; i++)
            w[i] = rng_normal(&r);
        for (int t = 0; t < STEPS; t++) {
            double norm;

            for (size_t i = 0; i < SOME; i++)
                g[i] = w[i] + rng_normal(&r);
            norm = optimizer_step(o, w, g, 0.01f, 0.7f);
            sum = crc32c_more(sum, w, sizeof w);
            sum = crc32c_more(sum, &norm, sizeof norm);
        }
        optimizer_free(o);
        if (sum != sums[k])
            fail_msg("%s: %#x, not %#x", optimizer_kinds[k].name, sum, sums[k]);
    }
}

TEST(sgd_descends_along_the_gradient)
{
    float w[3] = {1, -2, 0};
    const float g[3] = {2, -4, 0};
    struct optimizer *o = make(OPTIMIZER_SGD, 3, 0, 0);

    optimizer_step(o, w, g, 0.25f, 1);
    assert_true(w[0] == 0.5f && w[1] == -1 && w[2] == 0);
    optimizer_step(o, w, g, 0.25f, 1);
    assert_true(w[0] == 0 && w[1] == 0 && w[2] == 0);
    optimizer_free(o);
}

/* Worked out from Algorithm 1 in double precision, lr = 0.1. First step: m^ = g, v^ = g^2, so w falls by
 * 0.1 * 0.1 / (0.1 + 1e-8). Second: m = -0.011, m^ = -0.011 / 0.19, v = 4.999e-5, v^ = 4.999e-5 /
 * 0.001999. */
TEST(adam_matches_the_iterates_of_the_paper)
{
    static const float grads[] = {0.1f, -0.2f, 0, 3};
    static const double expected[] = {0.900000009999999, 0.9366103603884888, 0.9649102669442554,
                                      0.9086790214307613};
    struct optimizer *o = make(OPTIMIZER_ADAM, 1, 0, 0);
    float w = 1;

    for (size_t t = 0; t < N_OF(grads); t++) {
        optimizer_step(o, &w, &grads[t], 0.1f, 1);
        assert_near(w, expected[t]);
    }
    optimizer_free(o);
}

/* The mean square less the square of the mean, 0 but for rounding, would have no root. */
TEST(rmsprop_graves_takes_large_gradients_that_do_not_change)
{
    static const float sizes[] = {12.59f, 46.63f, 1e5f, 3e9f};

    for (size_t k = 0; k < N_OF(sizes); k++) {
        struct optimizer *o = make(OPTIMIZER_RMSPROP_GRAVES, 1, 0, 0);
        float w = 0;

        for (int t = 0; t < 1000; t++) {
            optimizer_step(o, &w, &sizes[k], 1e-9f, 1);
            assert_true(isfinite(w) && w < 0);
        }
        optimizer_free(o);
    }
}

TEST(every_optimizer_stays_in_place_without_a_gradient)
{
    const float g[5] = {0};

    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        struct optimizer *o = make(k, 5, 0.9f, 0);
        float w[5] = {1, 2, 3, 4, 5};

        for (int t = 0; t < 3; t++)
            optimizer_step(o, w, g, 0.1f, 1);
        for (int i = 0; i < 5; i++)
            assert_true(w[i] == (float)(i + 1));
        optimizer_free(o);
    }
}

/* Also in the remainders of vectors and beyond one block, and with parameters that differ from each other. */
TEST(parameters_are_updated_the_same_way_for_any_count)
{
    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++)
        for (size_t n = 0; n <= 4500; n += n < 67 ? 1 : 4433 / 3) {
            float *w = calloc(n + 1, sizeof *w);
            float *g = calloc(n + 1, sizeof *g);
            struct optimizer *o = make(k, n, 0.9f, 0.01f);

            for (size_t i = 0; i <= n; i++)
                g[i] = w[i] = 0.5f + 0.01f * (float)i;
            for (int t = 0; t < 3; t++)
                optimizer_step(o, w, g, 0.1f, 0.75f);
            for (size_t i = 0; i < n; i++) {
                struct optimizer *single = make(k, 1, 0.9f, 0.01f);
                float one = 0.5f + 0.01f * (float)i;

                for (int t = 0; t < 3; t++)
                    optimizer_step(single, &one, &g[i], 0.1f, 0.75f);
                assert_true(w[i] == one);
                optimizer_free(single);
            }
            assert_true(w[n] == g[n]); /* nor any after the last one */
            optimizer_free(o);
            free(w);
            free(g);
        }
}

/* Also of parts that are empty, and that begin or end inside a block. */
TEST(the_decay_of_each_part_is_its_own)
{
    enum { COUNT = 9000 };
    static const struct optimizer_part parts[] = {
        {.n = 7, .decays = true}, {.n = 0},    {.n = 2041},
        {.n = 1, .decays = true}, {.n = 3000}, {.n = 3951, .decays = true}};
    float *w[3], *g = malloc(COUNT * sizeof *g);
    struct err e;

    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        const struct optimizer_config cfg = {
            .kind = k, .momentum = 0.9f, .weight_decay = 0.3f, .parts = parts, .n_parts = N_OF(parts)};
        struct optimizer *o[3] = {NULL, make(k, COUNT, 0.9f, 0.3f), make(k, COUNT, 0.9f, 0)};

        assert_ok(optimizer_new(&o[0], &cfg, COUNT, &e));
        for (size_t j = 0; j < 3; j++) {
            w[j] = malloc(COUNT * sizeof *w[j]);
            for (size_t i = 0; i < COUNT; i++)
                g[i] = w[j][i] = 0.5f + 0.01f * (float)(i % 100);
            for (int t = 0; t < 3; t++)
                optimizer_step(o[j], w[j], g, 0.1f, 0.75f);
            optimizer_free(o[j]);
        }
        for (size_t i = 0, at = 0; i < N_OF(parts); at += parts[i++].n)
            assert_memory_equal(w[0] + at, w[parts[i].decays ? 1 : 2] + at, parts[i].n * sizeof(float));
        assert_true(w[1][0] != w[2][0]);
        for (size_t j = 0; j < 3; j++)
            free(w[j]);
    }
    free(g);
}

TEST(a_nan_gradient_is_visible_in_the_parameter)
{
    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        struct optimizer *o = make(k, 1, 0.9f, 0);
        float w = 1, g = NAN;

        optimizer_step(o, &w, &g, 0.1f, 1);
        assert_true(isnan(w));
        optimizer_free(o);
    }
}

/* 0.9^t falls below the least normal float after 830 steps. */
TEST(decaying_moments_become_zero)
{
    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        struct optimizer *o = make(k, 1, 0.9f, 0);
        struct tensor_view views[OPTIMIZER_TENSORS];
        size_t n = optimizer_tensors(o, views);
        float w = 1;

        for (int t = 0; t < 2000; t++)
            optimizer_step(o, &w, &(float){t == 0 ? 1e-3f : 0}, 1e-3f, 1);
        for (size_t i = 0; i < n; i++) {
            float m = *(const float *)views[i].data;

            assert_true(m == 0 || fabsf(m) >= FLT_MIN);
        }
        optimizer_free(o);
    }
}

TEST(a_stopped_optimizer_resumes_from_its_named_state)
{
    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        struct optimizer *a = make(k, 3, 0.9f, 0.1f);
        struct optimizer *b = make(k, 3, 0.9f, 0.1f);
        struct tensor_view views[OPTIMIZER_TENSORS];
        float w[3] = {1, -2, 3}, u[3];
        const float g[3] = {0.1f, 2, -0.3f};
        size_t n;

        for (int t = 0; t < 5; t++)
            optimizer_step(a, w, g, 0.05f, 1);
        n = optimizer_tensors(a, views);
        for (size_t i = 0; i < n; i++) {
            assert_memory_equal(views[i].name, optimizer_kinds[k].name, strlen(optimizer_kinds[k].name));
            assert_int_equal(views[i].name[strlen(optimizer_kinds[k].name)], '.');
            assert_int_equal(tensor_count(&views[i]), 3);
            memcpy(optimizer_vector(b, i), views[i].data, 3 * sizeof(float));
        }
        assert_int_equal(optimizer_steps(a), 5);
        optimizer_set_steps(b, optimizer_steps(a));
        memcpy(u, w, sizeof u);
        optimizer_step(a, w, g, 0.05f, 1);
        optimizer_step(b, u, g, 0.05f, 1);
        assert_memory_equal(w, u, sizeof w);
        optimizer_free(a);
        optimizer_free(b);
    }
}

TEST(the_state_of_adam_has_the_names_of_the_paper)
{
    struct optimizer *o = make(OPTIMIZER_ADAM, 2, 0, 0);
    struct tensor_view views[OPTIMIZER_TENSORS];

    assert_int_equal(optimizer_tensors(o, views), 2);
    assert_string_equal(views[0].name, "adam.m");
    assert_string_equal(views[1].name, "adam.v");
    optimizer_free(o);
}

TEST(moments_start_at_a_cache_line)
{
    struct optimizer *o = make(OPTIMIZER_ADAM, 100000, 0, 0);

    for (size_t i = 0; i < 2; i++)
        assert_int_equal((uintptr_t)optimizer_vector(o, i) % 64, 0);
    optimizer_free(o);
}

TEST(the_norm_is_right_for_every_length_and_magnitude)
{
    static const float sizes[] = {1, 1e-3f, 1e-25f, 1e-38f, 1e25f, 3e38f};
    enum { MAX = 10000 };
    float *g = malloc(MAX * sizeof *g);

    for (size_t k = 0; k < N_OF(sizes); k++)
        for (size_t n = 0; n <= MAX; n += n < 70 ? 1 : 1103) {
            double sum = 0, norm;

            for (size_t i = 0; i < n; i++) {
                g[i] = sizes[k] * (i % 3 ? -0.7f : 1);
                sum += (double)g[i] * (double)g[i];
            }
            norm = gradient_norm(g, n);
            if (!(fabs(norm - sqrt(sum)) <= 1e-5 * sqrt(sum)))
                fail_msg("%zu values of %g: %.9g, expected %.9g", n, (double)sizes[k], norm, sqrt(sum));
        }
    free(g);
}

TEST(a_step_reports_the_exact_norm_of_its_gradient)
{
    static const float sizes[] = {1, 1e-25f, 1e25f, INFINITY};
    enum { MAX = 5000 };
    float *g = malloc(MAX * sizeof *g), *w = calloc(MAX, sizeof *w);

    assert_non_null(g);
    assert_non_null(w);
    for (size_t s = 0; s < N_OF(sizes); s++)
        for (size_t n = 0; n <= MAX; n += n < 40 ? 1 : 620) {
            struct optimizer *o = make(OPTIMIZER_SGD, n, 0, 0);

            for (size_t i = 0; i < n; i++)
                g[i] = i % 1000 < 999 ? 0.01f * (float)(i % 77) : sizes[s];
            assert_true(optimizer_step(o, w, g, 0.1f, 0.5f) == gradient_norm(g, n));
            optimizer_free(o);
        }
    free(g);
    free(w);
}

TEST(the_norm_shows_a_non_finite_value_at_any_position)
{
    enum { MAX = 4200 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float *g = calloc(MAX, sizeof *g);

    for (size_t k = 0; k < N_OF(bad); k++)
        for (size_t i = 0; i < MAX; i += i < 100 || i > 4050 ? 1 : 50) {
            g[i] = bad[k];
            assert_true(!isfinite(gradient_norm(g, MAX)));
            g[i] = 0;
        }
    free(g);
}

TEST(only_gradients_longer_than_the_limit_are_clipped)
{
    assert_true(gradient_clip(5, 0) == 1);
    assert_true(gradient_clip(5, 10) == 1);
    assert_near(gradient_clip(5, 1), 1 / (5 + 1e-6));
    assert_true(gradient_clip(0, 1) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_matches_the_iterates_of_pytorch),
        cmocka_unit_test(every_optimizer_gives_the_same_bits_on_every_processor),
        cmocka_unit_test(sgd_descends_along_the_gradient),
        cmocka_unit_test(adam_matches_the_iterates_of_the_paper),
        cmocka_unit_test(rmsprop_graves_takes_large_gradients_that_do_not_change),
        cmocka_unit_test(every_optimizer_stays_in_place_without_a_gradient),
        cmocka_unit_test(parameters_are_updated_the_same_way_for_any_count),
        cmocka_unit_test(the_decay_of_each_part_is_its_own),
        cmocka_unit_test(a_nan_gradient_is_visible_in_the_parameter),
        cmocka_unit_test(decaying_moments_become_zero),
        cmocka_unit_test(a_stopped_optimizer_resumes_from_its_named_state),
        cmocka_unit_test(the_state_of_adam_has_the_names_of_the_paper),
        cmocka_unit_test(moments_start_at_a_cache_line),
        cmocka_unit_test(the_norm_is_right_for_every_length_and_magnitude),
        cmocka_unit_test(a_step_reports_the_exact_norm_of_its_gradient),
        cmocka_unit_test(the_norm_shows_a_non_finite_value_at_any_position),
        cmocka_unit_test(only_gradients_longer_than_the_limit_are_clipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
