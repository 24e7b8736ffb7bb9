/* batch_norm and layer_norm. */
#include "tests/lib/layer_check.h"

#define BATCH    "{\"kind\": \"batch_norm\"}"
#define LAYER    "{\"kind\": \"layer_norm\"}"
#define DENSE(n) "{\"kind\": \"dense\", \"units\": " #n "}"
#define TANH     "{\"kind\": \"tanh\"}"
#define COMMA    ", "
/* Momentum 1: the running statistics are those of the new batch, and so make them visible. */
#define WHOLE "{\"kind\": \"batch_norm\", \"momentum\": 1}"

TEST(gradients_agree_with_central_differences)
{
    static const char *const nets[] = {
        BATCH,
        LAYER,
        BATCH COMMA DENSE(4),
        LAYER COMMA DENSE(4),
        DENSE(5) COMMA BATCH COMMA TANH COMMA DENSE(4),
        DENSE(5) COMMA LAYER COMMA TANH COMMA DENSE(4),
        DENSE(3) COMMA TANH COMMA BATCH COMMA LAYER, /* after a layer whose output must be kept */
        DENSE(9) COMMA TANH COMMA LAYER COMMA TANH COMMA DENSE(4),
        DENSE(70) COMMA BATCH COMMA DENSE(3), /* more channels than a wide row has */
    };

    check_gradients("[7]", nets, N_OF(nets), 8, false);
}

TEST(gradients_agree_over_image_positions_and_sequence_steps)
{
    static const char *const nets[] = {BATCH, LAYER, BATCH COMMA TANH COMMA LAYER COMMA TANH COMMA DENSE(4)};

    check_gradients("[2, 3, 5]", nets, N_OF(nets), 6, true);
    check_gradients("[5, 3]", nets, N_OF(nets), 6, true);
}

/* Made with torch 1.13 in double precision: nn.BatchNorm2d(3, eps=1e-3, momentum=.3) and nn.LayerNorm(3,
 * eps=1e-3) on images (3, 2, 2, 3), cross entropy over their 12 values, labels 0, 5, 11, parameters and
 * inputs of check_number(), the running variances without their signs. */
static void hold_against_torch(const char *layer, double loss, double dot, double square,
                               const double running[6], const double last[4])
{
    struct check c;
    double dot_here, square_here;

    check_open(&c, "[2, 2, 3]", layer, 3);
    check_numbers(&c);
    for (size_t i = 9; i < net_n_params(c.net); i++)
        net_params(c.net)[i] = fabsf(net_params(c.net)[i]);
    c.labels[1] = 5;
    c.labels[2] = 11;
    assert_true(fabs(check_train(&c, 3) - loss) < 1e-6);
    check_dots(&c, &dot_here, &square_here);
    assert_true(fabs(dot_here - dot) < 1e-6 && fabs(square_here - square) < 1e-6);
    check_step_statistics(&c);
    assert_near(net_params(c.net) + 6, running, net_n_params(c.net) - 6, 1e-6);
    assert_near(net_forward(c.net, c.x, 3) + 2 * 12 + 8, last, 4, 1e-6);
    check_close(&c);
}

TEST(batch_norm_matches_pytorch)
{
    static const double running[] = {-0.30893895141780375, -0.13090928262099621, 0.10868904888629913,
                                     0.3384612899659303,   0.3869252617943038,   0.2729601172861946};
    static const double last[] = {-0.32001982142404123, 0.6046990116725072, 0.11203042034470563,
                                  -0.49230413207403867};

    hold_against_torch("{\"kind\": \"batch_norm\", \"epsilon\": 1e-3, \"momentum\": 0.3}", 2.664886294,
                       0.288824249, 0.466256255, running, last);
}

TEST(layer_norm_matches_pytorch)
{
    static const double last[] = {-0.085020356006076, 0.43346962661563837, -0.12635680200584462,
                                  -0.94234370628806};

    hold_against_torch("{\"kind\": \"layer_norm\", \"epsilon\": 1e-3}", 2.787688182, 0.427116047, 1.157304025,
                       NULL, last);
}

/* m rows of c values: mean and variance (divided by m - 1) of each channel. */
static void naive_moments(const float *x, size_t m, size_t c, double *mean, double *var)
{
    for (size_t k = 0; k < c; k++) {
        mean[k] = var[k] = 0;
        for (size_t i = 0; i < m; i++)
            mean[k] += (double)x[i * c + k] / (double)m;
        for (size_t i = 0; i < m; i++)
            var[k] += ((double)x[i * c + k] - mean[k]) * ((double)x[i * c + k] - mean[k]) / (double)(m - 1);
    }
}

/* Few channels and many, more rows than a block has, and a partial last block. */
TEST(statistics_of_a_large_batch_far_from_zero_are_exact)
{
    static const struct {
        const char *input;
        size_t c;
        int n;
    } cases[] = {{"[37, 5]", 5, 300}, {"[6, 6, 1]", 1, 251}, {"[3, 200]", 200, 50}, {"[5000]", 5000, 3}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t c = cases[i].c;
        double *mean = calloc(2 * c, sizeof *mean);
        struct check check;

        assert_non_null(mean);
        check_open(&check, cases[i].input, WHOLE, cases[i].n);
        check_fill(&check);
        for (size_t k = 0; k < (size_t)cases[i].n * (size_t)check.spec.n_in; k++)
            check.x[k] = check.x[k] * 0.1f + 100;
        naive_moments(check.x, (size_t)cases[i].n * (size_t)check.spec.n_in / c, c, mean, mean + c);
        check_train(&check, cases[i].n);
        check_step_statistics(&check);
        assert_near(net_params(check.net) + 2 * c, mean, c, 2e-7);
        assert_near(net_params(check.net) + 3 * c, mean + c, c, 1e-5);
        check_close(&check);
        free(mean);
    }
}

TEST(evaluation_uses_the_running_statistics)
{
    struct check c;
    const float *y, *w;

    check_open(&c, "[3]", BATCH, 4);
    check_fill(&c);
    w = net_params(c.net);
    y = net_forward(c.net, c.x, 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            double expected = (double)w[k] * ((double)c.x[i * 3 + k] - (double)w[6 + k]) /
                                  sqrt((double)w[9 + k] + 1e-5) +
                              (double)w[3 + k];

            assert_near(&y[i * 3 + k], &expected, 1, 1e-6);
        }
    check_close(&c);
}

TEST(running_statistics_converge_to_the_batch_statistics)
{
    struct check c;
    double mean[3], var[3];

    check_open(&c, "[4, 3]", BATCH, 8);
    check_fill(&c);
    naive_moments(c.x, 32, 3, mean, var);
    for (int i = 0; i < 200; i++) {
        check_train(&c, 8);
        check_step_statistics(&c);
    }
    assert_near(net_params(c.net) + 6, mean, 3, 1e-6);
    assert_near(net_params(c.net) + 9, var, 3, 1e-6);
    check_close(&c);
}

TEST(one_value_per_channel_updates_the_running_mean_only)
{
    struct check c;
    float before[12];

    check_open(&c, "[3]", BATCH, 1);
    check_fill(&c);
    memcpy(before, net_params(c.net), sizeof before);
    check_train(&c, 1);
    assert_true(gradient_is_finite(net_grads(c.net), net_n_params(c.net)));
    check_step_statistics(&c);
    for (int k = 0; k < 3; k++) {
        double expected = 0.9 * (double)before[6 + k] + 0.1 * (double)c.x[k];

        assert_near(net_params(c.net) + 6 + k, &expected, 1, 1e-6);
        assert_true(net_grads(c.net)[k] == 0);
    }
    assert_memory_equal(net_params(c.net) + 9, before + 9, 3 * sizeof *before);
    check_close(&c);
}

TEST(a_constant_channel_outputs_the_bias)
{
    static const char *const nets[] = {WHOLE, LAYER};

    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check c;
        const float *y;

        check_open(&c, "[3]", nets[i], 4);
        check_fill(&c);
        for (int k = 0; k < 12; k++)
            c.x[k] = 7;
        check_train(&c, 4);
        assert_true(gradient_is_finite(net_grads(c.net), net_n_params(c.net)));
        check_step_statistics(&c);
        y = net_forward(c.net, c.x, 4);
        assert_memory_equal(y + 9, net_params(c.net) + 3, 3 * sizeof *y);
        check_close(&c);
    }
}

TEST(a_nan_is_propagated)
{
    static const char *const nets[] = {BATCH, LAYER};

    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check c;

        check_open(&c, "[40]", nets[i], 4);
        check_fill(&c);
        c.x[25] = NAN;
        assert_true(isnan(check_train(&c, 4)));
        assert_false(gradient_is_finite(net_grads(c.net), net_n_params(c.net)));
        check_close(&c);
    }
}

TEST(a_variance_overflow_is_propagated)
{
    struct check c;

    check_open(&c, "[40]", LAYER, 4);
    check_fill(&c);
    c.x[25] = 1e25f;
    assert_true(isnan(check_train(&c, 4)));
    check_close(&c);
}

/* Rows of a wide layer are summed in lanes, with a remainder. */
TEST(layer_norm_of_many_values_matches_the_naive_loop)
{
    enum { C = 37 };
    struct check c;
    const float *y, *w;

    check_open(&c, "[2, 37]", LAYER, 3);
    check_fill(&c);
    w = net_params(c.net);
    y = net_forward(c.net, c.x, 3);
    for (int i = 0; i < 6; i++) {
        double mean = 0, var = 0, expected[C];

        for (int k = 0; k < C; k++)
            mean += (double)c.x[i * C + k] / (double)C;
        for (int k = 0; k < C; k++)
            var += ((double)c.x[i * C + k] - mean) * ((double)c.x[i * C + k] - mean) / (double)C;
        for (int k = 0; k < C; k++)
            expected[k] = (double)w[k] * ((double)c.x[i * C + k] - mean) / sqrt(var + 1e-5) +
                          (double)w[C + k];
        assert_near(y + i * C, expected, C, 1e-6);
    }
    check_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(gradients_agree_over_image_positions_and_sequence_steps),
        cmocka_unit_test(batch_norm_matches_pytorch),
        cmocka_unit_test(layer_norm_matches_pytorch),
        cmocka_unit_test(statistics_of_a_large_batch_far_from_zero_are_exact),
        cmocka_unit_test(evaluation_uses_the_running_statistics),
        cmocka_unit_test(running_statistics_converge_to_the_batch_statistics),
        cmocka_unit_test(one_value_per_channel_updates_the_running_mean_only),
        cmocka_unit_test(a_constant_channel_outputs_the_bias),
        cmocka_unit_test(a_nan_is_propagated),
        cmocka_unit_test(layer_norm_of_many_values_matches_the_naive_loop),
        cmocka_unit_test(a_variance_overflow_is_propagated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
