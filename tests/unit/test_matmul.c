#include "nn/matmul.h"

#include <math.h>

#include "nn/blas.h"
#include "nn/onednn.h"
#include "shared/rng.h"
#include "tests/unit/unit.h"

/* |c - naive| <= (k + 1) 2^-24 (sum |a b| + |c|): k + 1 numbers in float are added in some order, each addition
 * rounds once (Higham 2002, eq. 3.5). */
static void assert_is_product(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b,
                              float beta, const float *before, const float *c)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = (double)beta * (double)before[i * n + j];
            double size = fabs(sum);

            for (int l = 0; l < k; l++) {
                double term = (double)(a_t ? a[l * m + i] : a[i * k + l]) *
                              (double)(b_t ? b[j * k + l] : b[l * n + j]);

                sum += term;
                size += fabs(term);
            }
            if (!(fabs((double)c[i * n + j] - sum) <= ldexp((k + 1) * size, -24)))
                fail_msg("%c%c %d x %d x %d: [%d][%d] is %g, not %g", "NT"[a_t], "NT"[b_t], m, n, k, i, j,
                         (double)c[i * n + j], sum);
        }
}

static void check(bool a_t, bool b_t, int m, int n, int k, float beta)
{
    struct rng r;
    float *a, *b, *before, *c;

    rng_init(&r, (uint64_t)(m * 1000 + n), (uint64_t)k, a_t + 2 * (uint64_t)b_t);
    a = unit_normals((size_t)(m * k), &r);
    b = unit_normals((size_t)(k * n), &r);
    before = unit_normals((size_t)(m * n), &r);
    c = malloc((size_t)(m * n) * sizeof *c);
    assert_non_null(c);
    memcpy(c, before, (size_t)(m * n) * sizeof *c);
    matmul(a_t, b_t, m, n, k, a, b, beta, c);
    assert_is_product(a_t, b_t, m, n, k, a, b, beta, before, c);
    memcpy(c, before, (size_t)(m * n) * sizeof *c);
    if (onednn_matmul(a_t, b_t, m, n, k, a, b, beta, c))
        assert_is_product(a_t, b_t, m, n, k, a, b, beta, before, c);
    free(a);
    free(b);
    free(before);
    free(c);
}

TEST(a_product_is_the_naive_one_whichever_library_takes_it)
{
    /* Sides of the rule in matmul.c, odd sizes, and vectors. */
    static const int sizes[][3] = {{1, 1, 1},    {3, 5, 7},    {64, 10, 128}, {17, 16, 33}, {33, 17, 16},
                                   {8, 512, 65}, {8, 512, 64}, {8, 511, 65},  {512, 9, 70}, {5, 12, 1024},
                                   {4, 6, 600},  {1, 130, 40}, {130, 1, 40}};

    for (size_t i = 0; i < N_OF(sizes); i++)
        for (int t = 0; t < 4; t++)
            for (int beta = 0; beta < 2; beta++)
                check(t & 1, t & 2, sizes[i][0], sizes[i][1], sizes[i][2], (float)beta);
}

TEST(the_result_of_beta_0_does_not_depend_on_what_lay_there)
{
    const float a[2] = {1, 2}, b[2] = {3, 4};
    float c = NAN;

    matmul(false, false, 1, 1, 2, a, b, 0, &c);
    assert_true(c == 11);
    c = NAN;
    if (onednn_matmul(false, false, 1, 1, 2, a, b, 0, &c))
        assert_true(c == 11);
}

TEST(kernels_of_old_processors_are_a_poor_choice_for_new_ones)
{
    static const struct {
        const char *core;
        bool avx2, avx512;
        const char *better;
    } cases[] = {
        {"Prescott", true, true, "SkylakeX"},
        {"prescott", true, false, "Haswell"},
        {"Sandybridge", true, false, "Haswell"},
        {"Nehalem", true, true, "SkylakeX"},
        {"Prescott", false, false, NULL},
        {"Haswell", true, true, NULL},
        {"Zen", true, true, NULL},
        {"SkylakeX", true, true, NULL},
        {"Cooperlake", true, true, NULL},
        {"neoversen1", false, false, NULL},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        const char *better = blas_better_core(cases[i].core, cases[i].avx2, cases[i].avx512);

        if (cases[i].better)
            assert_string_equal(better, cases[i].better);
        else
            assert_null(better);
    }
}

TEST(no_more_threads_than_processors)
{
    char text[200];

    assert_int_equal(blas_set_threads(1), 1);
    blas_describe(text, sizeof text);
    assert_non_null(strstr(text, "1 thread"));
    assert_true(blas_set_threads(1 << 20) < 1 << 20);
    blas_set_threads(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_the_naive_one_whichever_library_takes_it),
        cmocka_unit_test(the_result_of_beta_0_does_not_depend_on_what_lay_there),
        cmocka_unit_test(kernels_of_old_processors_are_a_poor_choice_for_new_ones),
        cmocka_unit_test(no_more_threads_than_processors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
