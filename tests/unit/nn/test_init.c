#include "nn/init.h"

#include <math.h>

#include "tests/unit/unit.h"

enum { IN = 120, OUT = 180, N = IN * OUT };

struct moments {
    double mean, variance, largest;
};

static struct moments moments_of(const float *w, size_t n)
{
    struct moments m = {0};

    for (size_t i = 0; i < n; i++) {
        m.mean += (double)w[i] / (double)n;
        m.largest = fmax(m.largest, fabs((double)w[i]));
    }
    for (size_t i = 0; i < n; i++)
        m.variance += ((double)w[i] - m.mean) * ((double)w[i] - m.mean) / (double)n;
    return m;
}

static void draw_tensor(float *w, const struct tensor_spec *t, uint64_t seed)
{
    struct rng r;

    memset(w, 0xff, tensor_spec_count(t) * sizeof *w);
    rng_init(&r, seed, 0, 0);
    init_tensor(w, t, &r);
}

static void draw(float *w, enum init_kind kind, size_t rows, size_t cols, uint64_t seed)
{
    const struct tensor_spec t = {.name = "weight",
                                  .n_dims = 2,
                                  .shape = {rows, cols},
                                  .init = kind,
                                  .scale = 0.3f,
                                  .fan_in = rows,
                                  .fan_out = cols};

    draw_tensor(w, &t, seed);
}

/* Rows of the matrix (rows, cols) at w, or columns where there are fewer. */
static void assert_orthonormal(const float *w, size_t rows, size_t cols, size_t stride)
{
    size_t n = rows < cols ? rows : cols, m = rows < cols ? cols : rows;
    size_t next = rows < cols ? stride : 1, step = rows < cols ? 1 : stride;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double product = 0;

            for (size_t k = 0; k < m; k++)
                product += (double)w[i * next + k * step] * (double)w[j * next + k * step];
            if (!(fabs(product - (i == j)) < 2e-6))
                fail_msg("(%zu, %zu): the product of %zu and %zu is %g", rows, cols, i, j, product);
        }
}

/* Deviation and bound as documented by PyTorch: xavier_uniform_ and similar, Linear, normal_, uniform_. */
static const struct {
    enum init_kind kind;
    double deviation, bound; /* bound 0: a normal distribution */
} random_kinds[] = {
    {INIT_GLOROT_UNIFORM, 0.08164965809, 0.1414213562}, /* sqrt(2 / 300), sqrt(6 / 300) */
    {INIT_GLOROT_NORMAL, 0.08164965809, 0},
    {INIT_HE_UNIFORM, 0.1290994449, 0.2236067977}, /* sqrt(2 / 120), sqrt(6 / 120) */
    {INIT_HE_NORMAL, 0.1290994449, 0},
    {INIT_FAN_IN_UNIFORM, 0.05270462767, 0.09128709292}, /* 1 / sqrt(3 * 120), 1 / sqrt(120) */
    {INIT_NORMAL, 0.3, 0},
    {INIT_UNIFORM, 0.1732050808, 0.3}, /* 0.3 / sqrt(3) */
};

/* 21,600 values: the standard error of the mean is deviation / 147, that of a normal distribution's
 * variance 1 %; five times that is allowed. */
TEST(random_weights_have_the_mean_variance_and_bound_of_their_initializer)
{
    float *w = malloc(N * sizeof *w);

    assert_non_null(w);
    for (size_t i = 0; i < N_OF(random_kinds); i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            double deviation = random_kinds[i].deviation, bound = random_kinds[i].bound;
            struct moments m;

            draw(w, random_kinds[i].kind, IN, OUT, seed);
            m = moments_of(w, N);
            if (!(fabs(m.mean) < 5 * deviation / 147) ||
                !(fabs(m.variance / (deviation * deviation) - 1) < 0.05) ||
                (bound > 0 && !(m.largest <= bound * (1 + 1e-6) && m.largest > 0.99 * bound)) ||
                (bound == 0 && !(m.largest > 3.5 * deviation && m.largest < 6 * deviation)))
                fail_msg("initializer %d: mean %g, variance %g, largest %g", random_kinds[i].kind, m.mean,
                         m.variance, m.largest);
        }
    free(w);
}

/* A normal distribution has 68.3 % within one deviation and 95.4 % within two, a uniform one 57.7 % and
 * all. */
TEST(normal_initializers_are_normal_and_uniform_ones_uniform)
{
    float *w = malloc(N * sizeof *w);

    assert_non_null(w);
    for (size_t i = 0; i < N_OF(random_kinds); i++) {
        double deviation = random_kinds[i].deviation, one = 0, two = 0;
        bool is_normal = random_kinds[i].bound == 0;

        draw(w, random_kinds[i].kind, IN, OUT, 4);
        for (size_t k = 0; k < N; k++) {
            one += fabs((double)w[k]) < deviation;
            two += fabs((double)w[k]) < 2 * deviation;
        }
        assert_true(fabs(one / (double)N - (is_normal ? 0.6827 : 0.5774)) < 0.015);
        assert_true(fabs(two / (double)N - (is_normal ? 0.9545 : 1.0)) < 0.007);
    }
    free(w);
}

TEST(zeros_and_ones_initialize_to_zeros_and_ones)
{
    float w[6];

    draw(w, INIT_ZEROS, 2, 3, 1);
    for (int i = 0; i < 6; i++)
        assert_true(w[i] == 0);
    draw(w, INIT_ONES, 2, 3, 1);
    for (int i = 0; i < 6; i++)
        assert_true(w[i] == 1);
}

TEST(each_gate_of_a_recurrent_layer_has_an_orthogonal_matrix)
{
    static const size_t sizes[] = {1, 2,  7,  8,
                                   9, 17, 203}; /* with and without a remainder beside whole lanes */
    enum { GATES = 4 };

    for (size_t n = 0; n < N_OF(sizes); n++) {
        size_t m = sizes[n];
        const struct tensor_spec t = {.name = "recurrent",
                                      .n_dims = 2,
                                      .shape = {m, GATES * m},
                                      .init = INIT_ORTHOGONAL,
                                      .fan_in = m,
                                      .fan_out = m};
        float *w = malloc(m * m * GATES * sizeof *w);

        assert_non_null(w);
        draw_tensor(w, &t, 3);
        for (size_t k = 0; k < GATES; k++)
            assert_orthonormal(w + k * m, m, m, GATES * m);
        assert_true(m == 1 || memcmp(w, w + m, m * sizeof *w) != 0);
        free(w);
    }
}

TEST(rows_or_columns_of_a_non_square_matrix_are_orthonormal)
{
    static const size_t sizes[][2] = {{1, 9}, {9, 1}, {50, 70}, {70, 50}, {64, 128}, {784, 10}, {300, 133}};

    for (size_t i = 0; i < N_OF(sizes); i++) {
        size_t rows = sizes[i][0], cols = sizes[i][1];
        float *w = malloc(rows * cols * sizeof *w);

        assert_non_null(w);
        draw(w, INIT_ORTHOGONAL, rows, cols, 3);
        assert_orthonormal(w, rows, cols, cols);
        free(w);
    }
}

TEST(an_orthogonal_convolution_is_one_matrix_from_window_to_filters)
{
    static const size_t filters[] = {8, 18, 40};

    for (size_t i = 0; i < N_OF(filters); i++) {
        const struct tensor_spec t = {.name = "weight",
                                      .n_dims = 4,
                                      .shape = {3, 3, 2, filters[i]},
                                      .init = INIT_ORTHOGONAL,
                                      .fan_in = 18,
                                      .fan_out = 9 * filters[i]};
        float w[18 * 40];

        draw_tensor(w, &t, 5);
        assert_orthonormal(w, 18, filters[i], filters[i]);
    }
}

/* Of the Haar distribution each value has mean 0 and variance 1/m, the trace mean 0 and variance 1
 * (Diaconis and Shahshahani 1994). Over 4,000 draws a mean's standard error is 1/63 of the deviation, and
 * five times that is allowed. */
TEST(square_orthogonal_matrices_are_haar_distributed)
{
    enum { M = 5, DRAWS = 4000 };
    double sum[M * M] = {0}, square[M * M] = {0}, trace = 0, traces = 0;

    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        double t = 0;
        float w[M * M];

        draw(w, INIT_ORTHOGONAL, M, M, seed);
        for (int i = 0; i < M * M; i++) {
            sum[i] += (double)w[i] / (double)DRAWS;
            square[i] += (double)w[i] * (double)w[i] / (double)DRAWS;
            t += i % (M + 1) == 0 ? (double)w[i] : 0;
        }
        trace += t / (double)DRAWS;
        traces += t * t / (double)DRAWS;
    }
    for (int i = 0; i < M * M; i++)
        assert_true(fabs(sum[i]) < 0.08 / sqrt(M) && fabs(square[i] - 1.0 / (double)M) < 0.02);
    assert_true(fabs(trace) < 0.08 && fabs(traces - 1) < 0.12);
}

/* Three columns of five values: as above. */
TEST(columns_of_orthogonal_matrices_are_haar_distributed)
{
    enum { M = 5, N_COLS = 3, DRAWS = 4000 };
    double sum[M * N_COLS] = {0}, square[M * N_COLS] = {0};

    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        float w[M * N_COLS];

        draw(w, INIT_ORTHOGONAL, M, N_COLS, seed);
        for (int i = 0; i < M * N_COLS; i++) {
            sum[i] += (double)w[i] / (double)DRAWS;
            square[i] += (double)w[i] * (double)w[i] / (double)DRAWS;
        }
    }
    for (int i = 0; i < M * N_COLS; i++)
        assert_true(fabs(sum[i]) < 0.08 / sqrt(M) && fabs(square[i] - 1.0 / (double)M) < 0.02);
}

TEST(every_initializer_is_tested)
{
    bool seen[N_INIT_KINDS] = {[INIT_ZEROS] = true, [INIT_ONES] = true, [INIT_ORTHOGONAL] = true};

    for (size_t i = 0; i < N_OF(random_kinds); i++)
        seen[random_kinds[i].kind] = true;
    for (int i = 0; i < N_INIT_KINDS; i++)
        if (!seen[i])
            fail_msg("initializer %d has no test", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_weights_have_the_mean_variance_and_bound_of_their_initializer),
        cmocka_unit_test(normal_initializers_are_normal_and_uniform_ones_uniform),
        cmocka_unit_test(zeros_and_ones_initialize_to_zeros_and_ones),
        cmocka_unit_test(each_gate_of_a_recurrent_layer_has_an_orthogonal_matrix),
        cmocka_unit_test(rows_or_columns_of_a_non_square_matrix_are_orthonormal),
        cmocka_unit_test(an_orthogonal_convolution_is_one_matrix_from_window_to_filters),
        cmocka_unit_test(square_orthogonal_matrices_are_haar_distributed),
        cmocka_unit_test(columns_of_orthogonal_matrices_are_haar_distributed),
        cmocka_unit_test(every_initializer_is_tested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
