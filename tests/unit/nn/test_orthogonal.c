#include "nn/kernels/orthogonal.h"

#include <math.h>

#include "shared/base/crc32c.h"
#include "tests/unit/unit.h"

enum { MOST = 70 };

static void fill(float *x, size_t n, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, 2, 3);
    for (size_t i = 0; i < n; i++)
        x[i] = rng_normal(&r);
}

static void replace(float *x, size_t rows, size_t cols)
{
    float *work = malloc(orthogonal_work(rows, cols) * sizeof *work);

    assert_non_null(work);
    orthogonal_replace(x, rows, cols, work);
    free(work);
}

/* c (m, n) = a (m, k) b (k, n), or b (n, k) transposed */
static void product(double *c, const double *a, const double *b, bool b_t, size_t m, size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (size_t p = 0; p < k; p++)
                c[i * n + j] += a[i * k + p] * (b_t ? b[j * k + p] : b[p * n + j]);
        }
}

/* The iteration as it is written, without a transposition: (x x^T) x = x (x^T x). */
static void in_double(double *x, size_t rows, size_t cols)
{
    static double a[MOST * MOST], aa[MOST * MOST], y[MOST * MOST];
    double norm = 0;

    for (size_t i = 0; i < rows * cols; i++)
        norm += x[i] * x[i];
    for (size_t i = 0; i < rows * cols; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int t = 0; t < 5; t++) {
        product(a, x, x, true, rows, rows, cols);
        product(aa, a, a, false, rows, rows, rows);
        for (size_t i = 0; i < rows * rows; i++)
            a[i] = -4.7750 * a[i] + 2.0315 * aa[i];
        product(y, a, x, false, rows, cols, rows);
        for (size_t i = 0; i < rows * cols; i++)
            x[i] = 3.4445 * x[i] + y[i];
    }
}

/* Each step multiplies what rounding has changed by at most 3.4445, 485 in all, and values are below 1.3. */
TEST(the_iteration_is_that_in_double_but_for_rounding)
{
    static const size_t shapes[][2] = {{1, 1},   {1, 9},   {9, 1},   {2, 3},
                                       {16, 16}, {17, 33}, {40, 70}, {70, 40}};
    static float x[MOST * MOST];
    static double y[MOST * MOST];

    for (size_t s = 0; s < N_OF(shapes); s++) {
        size_t rows = shapes[s][0], cols = shapes[s][1];

        fill(x, rows * cols, s);
        for (size_t i = 0; i < rows * cols; i++)
            y[i] = (double)x[i];
        replace(x, rows, cols);
        in_double(y, rows, cols);
        for (size_t i = 0; i < rows * cols; i++)
            if (!(fabs((double)x[i] - y[i]) <= 485 * 6e-8))
                fail_msg("%zu x %zu: value %zu is %.9g, in double %.9g", rows, cols, i, (double)x[i], y[i]);
    }
}

/* Of a matrix of random values, 20 x 40, whose singular values are within 1.9 .. 10.8. */
TEST(the_result_is_nearly_orthogonal)
{
    enum { ROWS = 20, COLS = 40 };
    static float x[ROWS * COLS];
    static double y[ROWS * COLS], square[ROWS * ROWS];
    double trace = 0;

    fill(x, ROWS * COLS, 1);
    replace(x, ROWS, COLS);
    for (size_t i = 0; i < ROWS * COLS; i++)
        y[i] = (double)x[i];
    product(square, y, y, true, ROWS, ROWS, COLS);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            double value = square[i * ROWS + j];

            trace += i == j ? value : 0;
            assert_true(i == j ? value > 0.4 && value < 1.6 : fabs(value) < 0.4);
        }
    assert_true(trace > 0.6 * ROWS && trace < 1.3 * ROWS);
}

/* Nodes of one job, which may have different processors, must get the same bits: `make test-processors`
 * runs this on several. */
TEST(the_bits_are_the_same_on_every_processor)
{
    static const struct {
        size_t rows, cols;
        uint32_t sum;
    } cases[] = {{20, 33, 0xfac845e9}, {33, 20, 0xea6b330b}, {6, 16, 0xb4454044}};
    float x[33 * 20];

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t n = cases[i].rows * cases[i].cols;
        uint32_t sum;

        fill(x, n, 7);
        replace(x, cases[i].rows, cases[i].cols);
        sum = crc32c_more(0, x, n * sizeof *x);
        if (sum != cases[i].sum)
            fail_msg("%zu x %zu: %#x, not %#x", cases[i].rows, cases[i].cols, sum, cases[i].sum);
    }
}

TEST(zeros_stay_zeros_and_a_nan_spreads)
{
    float x[12] = {0};

    replace(x, 3, 4);
    for (size_t i = 0; i < 12; i++)
        assert_true(x[i] == 0);
    x[5] = NAN;
    replace(x, 3, 4);
    for (size_t i = 0; i < 12; i++)
        assert_true(isnan(x[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_iteration_is_that_in_double_but_for_rounding),
        cmocka_unit_test(the_result_is_nearly_orthogonal),
        cmocka_unit_test(the_bits_are_the_same_on_every_processor),
        cmocka_unit_test(zeros_stay_zeros_and_a_nan_spreads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
