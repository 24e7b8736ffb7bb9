#include "nn/loss.h"

#include <float.h>
#include <math.h>

#include "shared/base/rng.h"
#include "tests/unit/unit.h"

enum { VALUES = 6000 };

static struct truth of_classes(const int32_t *labels)
{
    return (struct truth){.labels = labels};
}

static double loss(enum loss_kind kind, const float *z, struct truth t, int n, int k, float *dz)
{
    size_t n_right = 0;

    return loss_of(kind, z, &t, n, k, dz, &n_right);
}

static void assert_near(double x, double expected, double bound)
{
    if (!(fabs(x - expected) <= bound))
        fail_msg("%.17g, expected %.17g", x, expected);
}

/* Two samples, labels 2 and 0. -log(e^3 / (e^1 + e^2 + e^3)) = log(1 + e^-1 + e^-2) = 0.40760596;
 * of three equal outputs log 3. The gradient is (softmax - one-hot) / 2. */
TEST(softmax_cross_entropy_worked_out_by_hand)
{
    const float z[] = {1, 2, 3, 5, 5, 5};
    const double expected[] = {0.0900305732 / 2,  0.2447284711 / 2, (0.6652409558 - 1) / 2,
                               (1.0 / 3 - 1) / 2, 1.0 / 6,          1.0 / 6};
    struct truth t = of_classes((const int32_t[]){2, 0});
    size_t n_right = 0;
    float dz[6];

    assert_near(loss_of(LOSS_SOFTMAX_CROSS_ENTROPY, z, &t, 2, 3, dz, &n_right), 0.4076059644 + log(3), 1e-6);
    assert_int_equal(n_right, 2); /* of equal outputs the first */
    for (int i = 0; i < 6; i++)
        assert_near((double)dz[i], expected[i], 1e-7);
}

/* One output: log(1 + e^-2) for label 1 at z = 2, log(1 + e^2) for label 0. Two outputs: one-hot of the
 * label. */
TEST(sigmoid_cross_entropy_worked_out_by_hand)
{
    const float z[] = {2, 2}, targets[] = {1, 0.25f};
    const double s = 1 / (1 + exp(-2.0)), right = log1p(exp(-2.0)), wrong = log1p(exp(2.0));
    float dz[2];

    assert_near(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, of_classes((const int32_t[]){1, 0}), 2, 1, dz),
                right + wrong, 1e-6);
    assert_near((double)dz[0], (s - 1) / 2, 1e-7);
    assert_near((double)dz[1], s / 2, 1e-7);
    assert_near(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, of_classes((const int32_t[]){1}), 1, 2, dz),
                right + wrong, 1e-6);
    assert_near((double)dz[0], s, 1e-7);
    assert_near((double)dz[1], s - 1, 1e-7);
    assert_near(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, (struct truth){.targets = targets}, 1, 2, dz),
                right + 0.25 * right + 0.75 * wrong, 1e-6);
    assert_near((double)dz[1], s - 0.25, 1e-7);
}

TEST(mse_worked_out_by_hand)
{
    const float z[] = {3, -1, 0.5f, 2}, targets[] = {1, -1, 0, 5};
    const double expected[] = {2 * 2 / 4.0, 0, 2 * 0.5 / 4, 2 * -3 / 4.0};
    float dz[4];

    assert_near(loss(LOSS_MSE, z, (struct truth){.targets = targets}, 2, 2, dz), (4 + 0 + 0.25 + 9) / 2,
                1e-9);
    for (int i = 0; i < 4; i++)
        assert_near((double)dz[i], expected[i], 1e-7);
    /* labels 1 and 0: one-hot (0, 1), (1, 0) */
    assert_near(loss(LOSS_MSE, z, of_classes((const int32_t[]){1, 0}), 2, 2, dz), (9 + 4 + 0.25 + 4) / 2,
                1e-9);
}

/* tanh(0.6) = 0.5370495670: Parallel-SGD's example, whose gradient for the target was 2 t (1 + t^2) = 1.384
 * where the derivative is that for the output with the other sign, 2 t (1 - t^2) = 0.764. */
TEST(tanh_squared_worked_out_by_hand)
{
    const float z[] = {0.6f, -1, 0.5f, 400}, targets[] = {0, -1, 1.1f, 5};
    const double t = 0.5370495670, square = t * t;
    float dz[4];

    assert_near(loss(LOSS_TANH_SQUARED, z, (struct truth){.targets = targets}, 2, 2, dz), square + 0.5, 1e-6);
    assert_near((double)dz[0], 0.7643 / 4, 1e-5);
    assert_near((double)dz[0], 2 * t * (1 - square) / 4, 1e-7);
    assert_near((double)dz[1], 0, 1e-9);
    assert_near((double)dz[2], -2 * t * (1 - square) / 4, 1e-7);
    assert_near((double)dz[3], 0, 1e-9); /* however far off, an outlier costs 1 and pulls at nothing */
    /* labels 1 and 0: one-hot (0, 1), (1, 0) */
    assert_near(loss(LOSS_TANH_SQUARED, (const float[]){0.6f, 1, 1, 0.6f},
                     of_classes((const int32_t[]){1, 0}), 2, 2, dz),
                square, 1e-6);
}

static void fill(float *z, int32_t *labels, float *targets, int n, int k)
{
    struct rng r;

    rng_init(&r, 5, (uint64_t)n, (uint64_t)k);
    for (int i = 0; i < n * k; i++) {
        z[i] = 2 * rng_normal(&r);
        targets[i] = rng_uniform(&r);
    }
    for (int i = 0; i < n; i++)
        labels[i] = (int32_t)rng_below(&r, k == 1 ? 2 : (uint32_t)k);
}

/* Central differences of width h: for a loss summed in double, their error is that of h^2 and of z + h in
 * float32. */
static void check_gradient(enum loss_kind kind, float *z, struct truth t, int n, int k)
{
    float *dz = malloc(VALUES * sizeof *dz);

    loss(kind, z, t, n, k, dz);
    for (int i = 0; i<n * k; i += n * k> 100 ? 17 : 1) {
        float old = z[i], up = old + 0x1p-6f, down = old - 0x1p-6f;
        double high, low;

        z[i] = up;
        high = loss(kind, z, t, n, k, NULL);
        z[i] = down;
        low = loss(kind, z, t, n, k, NULL);
        z[i] = old;
        assert_near((double)dz[i] * n, (high - low) / ((double)up - (double)down), 2e-4);
    }
    free(dz);
}

/* One row and many, rows shorter than a vector, and rows and batches longer than one block. */
TEST(gradients_agree_with_central_differences)
{
    static const struct {
        int n, k;
    } shapes[] = {{1, 1}, {1, 2}, {3, 5}, {7, 10}, {130, 9}, {5, 1024}, {2, 1025}, {2, 3000}};
    float *z = malloc(VALUES * sizeof *z), *targets = malloc(VALUES * sizeof *targets);
    int32_t labels[VALUES];

    for (size_t s = 0; s < N_OF(shapes); s++)
        for (int kind = 0; kind < N_LOSS_KINDS; kind++) {
            int n = shapes[s].n, k = shapes[s].k;

            fill(z, labels, targets, n, k);
            check_gradient((enum loss_kind)kind, z, (struct truth){.labels = labels}, n, k);
            if (!loss_kind_needs_labels((enum loss_kind)kind))
                check_gradient((enum loss_kind)kind, z, (struct truth){.targets = targets}, n, k);
        }
    free(z);
    free(targets);
}

/* In double, sample by sample, with libm. */
static double plain_loss(enum loss_kind kind, const float *z, const int32_t *labels, int n, int k)
{
    double sum = 0;

    for (int i = 0; i < n; i++, z += k) {
        double e = 0;

        for (int j = 0; j < k; j++) {
            double y = k == 1 ? labels[i] : labels[i] == j, v = (double)z[j];

            e += exp(v);
            if (kind == LOSS_SIGMOID_CROSS_ENTROPY)
                sum += (v > 0 ? v : 0) - y * v + log1p(exp(-fabs(v)));
            if (kind == LOSS_MSE)
                sum += (v - y) * (v - y) / k;
            if (kind == LOSS_TANH_SQUARED)
                sum += tanh(v - y) * tanh(v - y) / k;
        }
        if (loss_kind_needs_labels(kind))
            sum += log(e) - (double)z[labels[i]];
    }
    return sum;
}

TEST(the_loss_is_the_same_with_and_without_gradient_and_matches_double)
{
    float *z = malloc(VALUES * sizeof *z), *dz = malloc(VALUES * sizeof *dz);
    int32_t labels[VALUES];

    for (int kind = 0; kind < N_LOSS_KINDS; kind++)
        for (int k = 1; k <= 3000; k = k * 5 / 2 + 1)
            for (int n = 1; n * k <= VALUES; n = n * 3 + 1) {
                double with, without, expected;

                fill(z, labels, dz, n, k);
                expected = plain_loss((enum loss_kind)kind, z, labels, n, k);
                with = loss((enum loss_kind)kind, z, (struct truth){.labels = labels}, n, k, dz);
                without = loss((enum loss_kind)kind, z, (struct truth){.labels = labels}, n, k, NULL);
                assert_near(with, expected, 5e-7 * (fabs(expected) + n));
                assert_near(without, with, 2e-7 * (fabs(expected) + n));
            }
    free(z);
    free(dz);
}

TEST(huge_logits_cost_their_error_without_overflow)
{
    const float z[] = {1e30f, -1e30f};
    struct truth first = of_classes((const int32_t[]){0}), second = of_classes((const int32_t[]){1});
    float dz[2];

    assert_true(loss(LOSS_SOFTMAX_CROSS_ENTROPY, z, first, 1, 2, dz) == 0);
    assert_near((double)dz[0], 0, 1e-7);
    assert_near(loss(LOSS_SOFTMAX_CROSS_ENTROPY, z, second, 1, 2, dz), 2e30, 1e24);
    assert_true(dz[0] == 1 && dz[1] == -1);
    assert_true(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, first, 1, 2, dz) == 0);
    assert_near(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, second, 1, 2, dz), 2e30, 1e24);
    assert_true(dz[0] == 1 && dz[1] == -1);
    assert_near(loss(LOSS_MSE, (const float[]){1e15f, 0}, second, 1, 2, dz), 5e29, 1e23);
}

TEST(a_thousand_uninformed_samples_cost_log_2_each)
{
    float z[2000] = {0};
    int32_t labels[1000] = {0};
    struct truth t = {.labels = labels};

    assert_near(loss(LOSS_SIGMOID_CROSS_ENTROPY, z, t, 1000, 1, NULL), 1000 * log(2), 1e-9);
    assert_near(loss(LOSS_SOFTMAX_CROSS_ENTROPY, z, t, 1000, 2, NULL), 1000 * log(2), 1e-9);
}

TEST(a_nan_is_propagated_from_any_position)
{
    enum { N = 3, K = 11 };
    static const float bad[] = {NAN, INFINITY};
    const int32_t labels[N] = {1, 0, 10};

    for (int kind = 0; kind < N_LOSS_KINDS; kind++)
        for (size_t b = 0; b < N_OF(bad); b++)
            for (int i = 0; i < N * K; i++) {
                float z[N * K] = {0}, dz[N * K];

                z[i] = bad[b];
                assert_true(
                    !isfinite(loss((enum loss_kind)kind, z, (struct truth){.labels = labels}, N, K, dz)));
                if (isnan(bad[b]))
                    assert_true(isnan(dz[i]));
            }
}

TEST(the_predicted_class_is_the_largest_output_or_the_sign)
{
    static const float z[] = {0, 1, 1, -2};
    const struct truth first = of_classes((const int32_t[]){0, 0});
    size_t n_right = 0;

    assert_int_equal(loss_class(LOSS_SOFTMAX_CROSS_ENTROPY, z, 4), 1);
    assert_int_equal(loss_rank(z, 4, 0), 2);
    assert_int_equal(loss_rank(z, 4, 1), 0);
    assert_int_equal(loss_rank(z, 4, 2), 1);
    assert_int_equal(loss_rank(z, 4, 3), 3);
    assert_int_equal(loss_class(LOSS_SIGMOID_CROSS_ENTROPY, (const float[]){0}, 1), 0);
    assert_int_equal(loss_class(LOSS_SIGMOID_CROSS_ENTROPY, (const float[]){0.1f}, 1), 1);
    assert_int_equal(loss_class(LOSS_MSE, (const float[]){0.4f}, 1), 0);
    assert_int_equal(loss_class(LOSS_MSE, (const float[]){0.6f}, 1), 1);
    loss_of(LOSS_SOFTMAX_CROSS_ENTROPY, (const float[]){NAN, 0, 1, NAN}, &first, 2, 2, NULL, &n_right);
    assert_int_equal(n_right, 0); /* no class is right among NaN outputs */
    loss_of(LOSS_MSE, z, &(struct truth){.targets = z}, 2, 2, NULL, &n_right);
    assert_int_equal(n_right, 0); /* nor with targets */
}

TEST(the_prediction_is_a_probability_under_a_cross_entropy_and_the_output_under_mse)
{
    static const float z[] = {0, 1.0986123f}; /* log 3 */
    float p[2];

    loss_prediction(LOSS_SOFTMAX_CROSS_ENTROPY, p, z, 2); /* e^z = 1, 3 */
    assert_float_equal(p[0], 0.25f, 1e-6f);
    assert_float_equal(p[1], 0.75f, 1e-6f);
    loss_prediction(LOSS_SIGMOID_CROSS_ENTROPY, p, z, 2); /* 1 / (1 + e^-z) */
    assert_float_equal(p[0], 0.5f, 1e-6f);
    assert_float_equal(p[1], 0.75f, 1e-6f);
    loss_prediction(LOSS_MSE, p, z, 2);
    assert_memory_equal(p, z, sizeof p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_cross_entropy_worked_out_by_hand),
        cmocka_unit_test(sigmoid_cross_entropy_worked_out_by_hand),
        cmocka_unit_test(mse_worked_out_by_hand),
        cmocka_unit_test(tanh_squared_worked_out_by_hand),
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(the_loss_is_the_same_with_and_without_gradient_and_matches_double),
        cmocka_unit_test(huge_logits_cost_their_error_without_overflow),
        cmocka_unit_test(a_thousand_uninformed_samples_cost_log_2_each),
        cmocka_unit_test(a_nan_is_propagated_from_any_position),
        cmocka_unit_test(the_predicted_class_is_the_largest_output_or_the_sign),
        cmocka_unit_test(the_prediction_is_a_probability_under_a_cross_entropy_and_the_output_under_mse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
