/* Properties of single compressors beyond their error bound; those of all are in
 * tests/suite/test_compress.c. */
#include <math.h>

#include "tests/lib/compress_case.h"
#include "tests/unit/unit.h"

static int by_magnitude(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

    return (x < y) - (x > y);
}

TEST(topk_sends_the_k_largest_exactly_and_the_first_of_equal_ones)
{
    enum { N = 3000, K = 30 };

    for (uint64_t seed = 0; seed < 20; seed++) {
        float v[N], sorted[N];
        struct compress_case c;
        int n_sent = 0, n_least = 0;
        bool was_left_out = false;
        struct rng r;

        rng_init(&r, seed, 0, 0);
        for (int i = 0; i < N; i++)
            v[i] = seed % 2 ? rng_normal(&r) : (float)(1 + rng_below(&r, 60)) * (i % 2 ? 1 : -1);
        memcpy(sorted, v, sizeof v);
        qsort(sorted, N, sizeof *sorted, by_magnitude);
        compress_case_open(&c, "topk:ratio=0.01", N);
        compress_case_send(&c, v, NULL, seed);
        for (int i = 0; i < N; i++) {
            float least = fabsf(sorted[K - 1]);

            assert_true(c.out[i] == 0 || c.out[i] == v[i]);
            assert_true(fabsf(v[i]) <= least || c.out[i] == v[i]);
            assert_true(fabsf(v[i]) >= least || c.out[i] == 0);
            n_sent += c.out[i] != 0;
            n_least += fabsf(v[i]) == least && c.out[i] != 0;
            assert_false(was_left_out && fabsf(v[i]) == least && c.out[i] != 0);
            was_left_out |= fabsf(v[i]) == least && c.out[i] == 0;
        }
        assert_int_equal(n_sent, K);
        assert_true(n_least > 0);
        compress_case_close(&c);
    }
}

TEST(randomk_draws_each_value_equally_often)
{
    enum { N = 50, TIMES = 10000 };
    int counts[N] = {0};
    float v[N];
    struct compress_case c;

    for (int i = 0; i < N; i++)
        v[i] = 1;
    compress_case_open(&c, "randomk:ratio=0.8", N);
    for (uint64_t t = 0; t < TIMES; t++) {
        compress_case_send(&c, v, NULL, t);
        for (int i = 0; i < N; i++)
            counts[i] += c.out[i] == 1;
    }
    for (int i = 0; i < N; i++)
        assert_in_range(counts[i], 8000 - 200, 8000 + 200); /* 5 standard deviations */
    compress_case_close(&c);
}

TEST(tern_sends_the_largest_magnitude_and_signs)
{
    const float v[] = {0.5f, -2, 0, 2, -0.5f};
    struct compress_case c;

    compress_case_open(&c, "tern", N_OF(v));
    for (uint64_t t = 0; t < 100; t++) {
        compress_case_send(&c, v, NULL, t);
        assert_true(c.out[0] == 0 || c.out[0] == 2);
        assert_true(c.out[1] == -2 && c.out[2] == 0 && c.out[3] == 2);
        assert_true(c.out[4] == 0 || c.out[4] == -2);
    }
    compress_case_close(&c);
}

static double fit_error(const char *text, const float *v, size_t n)
{
    struct compress_case c;
    double error;

    compress_case_open(&c, text, n);
    compress_case_send(&c, v, NULL, 1);
    error = square_distance(c.out, v, n) / square_sum(v, n);
    compress_case_close(&c);
    return error;
}

TEST(each_iteration_of_fitting_does_not_increase_the_error)
{
    enum { N = 5000 };
    struct rng r;
    float *v;
    char text[64];

    rng_init(&r, 1, 0, 0);
    v = unit_normals(N, &r);
    for (int i = 0; i < N; i++)
        v[i] *= fabsf(v[i]); /* heavier tails than the initial levels are made for */
    for (int tern = 0; tern < 2; tern++) {
        double last = 1;

        for (int turns = 1; turns <= 20; turns++) {
            double error;

            snprintf(text, sizeof text, "%s,alpha=fit,iterations=%d", tern ? "tern:per=vector" : "sgq:bits=4",
                     turns);
            error = fit_error(text, v, N);
            assert_true(error <= last + 1e-7);
            last = error;
        }
        assert_true(last < (tern ? 0.32 : 0.05));
    }
    free(v);
}

TEST(sgq_has_the_levels_of_its_formula)
{
    const float level[] = {1, 1.7321f, 3.7321f};
    float v[7] = {0};
    struct compress_case c;

    for (int i = 0; i < 3; i++) {
        v[i] = level[i];
        v[3 + i] = -level[i];
    }
    compress_case_open(&c, "sgq:bits=3", 7);
    compress_case_send(&c, v, NULL, 1);
    for (int i = 0; i < 7; i++)
        assert_true(fabsf(c.out[i] - v[i]) <= 1e-6f);
    compress_case_close(&c);
}

TEST(onebit_sends_the_mean_of_each_sign_for_each_bucket)
{
    float v[20], mean[] = {2, -3, 5.5f};
    struct compress_case c;

    for (int i = 0; i < 16; i++)
        v[i] = i % 2 ? (i % 4 == 1 ? 1.0f : 3.0f) : (i % 4 == 0 ? -2.5f : -3.5f);
    for (int i = 16; i < 20; i++)
        v[i] = (float)i - 12;
    compress_case_open(&c, "onebit:bucket=16", 20);
    compress_case_send(&c, v, NULL, 1);
    for (int i = 0; i < 20; i++)
        assert_true(c.out[i] == mean[i >= 16 ? 2 : i % 2 ? 0 : 1]);
    compress_case_close(&c);
}

TEST(a_quantized_gradient_takes_fewer_bits_with_huffman)
{
    enum { N = 100000 };
    static const char *const plain[] = {"tern", "qsgd:bits=4", "sgq:bits=3", "topk|int8", "bf16"};
    struct rng r;
    float *v;

    rng_init(&r, 1, 0, 0);
    v = unit_normals(N, &r);
    for (size_t i = 0; i < N_OF(plain); i++) {
        struct compress_case c;
        char text[64];
        size_t len;

        compress_case_open(&c, plain[i], N);
        compress_case_send(&c, v, NULL, 1);
        len = c.len;
        compress_case_close(&c);
        snprintf(text, sizeof text, "%s|huffman", plain[i]);
        compress_case_open(&c, text, N);
        compress_case_send(&c, v, NULL, 1);
        assert_true(c.len < len);
        compress_case_close(&c);
    }
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_sends_the_k_largest_exactly_and_the_first_of_equal_ones),
        cmocka_unit_test(randomk_draws_each_value_equally_often),
        cmocka_unit_test(tern_sends_the_largest_magnitude_and_signs),
        cmocka_unit_test(each_iteration_of_fitting_does_not_increase_the_error),
        cmocka_unit_test(sgq_has_the_levels_of_its_formula),
        cmocka_unit_test(onebit_sends_the_mean_of_each_sign_for_each_bucket),
        cmocka_unit_test(a_quantized_gradient_takes_fewer_bits_with_huffman),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
