/* Sums of compressed vectors, as all-reduces make them: of rounded numbers, of a common scale, of halves. */
#include <float.h>
#include <math.h>

#include "codecs/compress/compress.h"
#include "tests/lib/compress_case.h"
#include "tests/unit/unit.h"

/* Compares compressor.sum of two or three vectors with their decoded sum, rounded after each addition. */
static void assert_sum(const struct compressor *is, int n_in, float scale)
{
    enum { N = 2500 };
    struct compress_work w = {.loops = loops_best()};
    uint16_t items[3][N], rounded[N];
    const void *const in[] = {items[0], items[1], items[2]};
    float v[N], sum[N], got[N];
    struct rng r;

    rng_init(&r, 5, 1, 1);
    for (int k = 0; k < n_in; k++) {
        for (size_t i = 0; i < N; i++)
            v[i] = ldexpf(rng_normal(&r), (int)(i % 20) - 10);
        is->encode(NULL, &w, v, N, NULL, items[k]);
        is->decode(NULL, &w, NULL, items[k], v, N);
        for (size_t i = 0; i < N; i++)
            sum[i] = k == 0 ? v[i] : sum[i] + v[i];
        for (size_t i = 0; k == n_in - 1 && i < N; i++)
            sum[i] *= scale;
        is->encode(NULL, &w, sum, N, NULL, rounded);
        is->decode(NULL, &w, NULL, rounded, sum, N);
    }
    is->sum(&w, items[0], in, n_in, N, scale);
    is->decode(NULL, &w, NULL, items[0], got, N);
    assert_memory_equal(got, sum, sizeof got);
}

TEST(items_that_can_be_added_are_rounded_after_each_addition)
{
    int n = 0;

    for (size_t k = 0; compressors[k]; k++)
        for (int n_in = 2; compressors[k]->sum && !compressors[k]->measure && n_in <= 3; n_in++, n++) {
            assert_int_equal(compressors[k]->item_bytes, sizeof(uint16_t));
            assert_sum(compressors[k], n_in, 1);
            assert_sum(compressors[k], n_in, 1 / 3.0f);
        }
    assert_int_equal(n, 2);
}

enum { N_SCALED = 700 /* three blocks */ };

/* One worker's part in the sum of a common scale; returns the largest error of the values that its
 * receivers add. */
static double add_scaled(struct compress_case *k, float *v, float *sums, int n_workers, uint8_t *sum)
{
    uint8_t items[N_SCALED];
    const void *const in[] = {sum, items};
    float decoded[N_SCALED];

    chain_to_items(&k->chain, NULL, v, sums, n_workers, items);
    chain_of_items(&k->chain, sums, n_workers, items, decoded);
    for (size_t i = 0; i < N_SCALED; i++)
        decoded[i] -= v[i];
    k->chain.items.values->sum(&k->chain.work, sum, in, 2, N_SCALED, 1);
    return (double)loops_portable.largest(decoded, N_SCALED);
}

/* Adds vectors of n_workers; the result is within half a unit for each of them, and so no sum has left 8
 * bits. */
static void check_scaled(int n_workers, float (*kind)(struct rng *r))
{
    struct compress_case k;
    float *v[64], sums[3] = {0}, own[3], got[N_SCALED], most;
    double exact[N_SCALED] = {0};
    uint8_t sum[N_SCALED];

    compress_case_open(&k, "fixed8", N_SCALED);
    assert_int_equal(chain_n_scales(&k.chain), 3);
    for (int w = 0; w < n_workers; w++) {
        v[w] = make_vector(N_SCALED, kind, (uint64_t)w);
        chain_measure(&k.chain, NULL, v[w], own);
        for (int b = 0; b < 3; b++)
            sums[b] += own[b];
        for (size_t i = 0; i < N_SCALED; i++)
            exact[i] += (double)v[w][i];
    }
    most = loops_portable.largest(sums, 3) / (127 - (float)n_workers / 2);
    memset(sum, 128, sizeof sum);
    for (int w = 0; w < n_workers; w++)
        assert_true(add_scaled(&k, v[w], sums, n_workers, sum) <= 0.50001 * (double)most);
    chain_of_items(&k.chain, sums, n_workers, sum, got);
    for (size_t i = 0; i < N_SCALED; i++)
        assert_true(fabs((double)got[i] - exact[i]) <= 0.50001 * n_workers * (double)most);
    for (int w = 0; w < n_workers; w++)
        free(v[w]);
    compress_case_close(&k);
}

/* `kind_constant` makes each sum as large as it can be. */
TEST(sums_of_a_common_scale_are_exact_and_fit_into_8_bits)
{
    for (int n = 1; n <= 64; n++)
        for (size_t kind = 0; kind < N_OF(finite_kinds); kind++)
            check_scaled(n, finite_kinds[kind]);
}

TEST(a_block_of_a_common_scale_with_nan_at_one_worker_is_nan_at_all)
{
    struct compress_case k;
    float v[N_SCALED] = {0}, got[N_SCALED], sums[3] = {1, NAN, INFINITY};
    uint8_t items[N_SCALED];

    compress_case_open(&k, "fixed8", N_SCALED);
    chain_to_items(&k.chain, NULL, v, sums, 2, items);
    chain_of_items(&k.chain, sums, 2, items, got);
    for (size_t i = 0; i < N_SCALED; i++)
        assert_true(i < 256 ? got[i] == 0 : isnan(got[i]));
    compress_case_close(&k);
}

/* The sum of n_workers vectors of v as an all-reduce makes it, one addition after the other. */
static void sum_halves(float *got, const char *chain, const float *v, size_t n, int n_workers)
{
    struct compress_case k;
    float own = 0, sum = 0;
    uint16_t items[8], total[8];
    const void *const in[] = {total, items};

    assert_in_range(n, 1, N_OF(items));
    compress_case_open(&k, chain, n);
    if (chain_n_scales(&k.chain) > 0)
        chain_measure(&k.chain, NULL, v, &own);
    for (int w = 0; w < n_workers; w++)
        sum += own;
    chain_to_items(&k.chain, NULL, v, &sum, n_workers, items);
    memcpy(total, items, sizeof total);
    for (int w = 1; w < n_workers; w++)
        k.chain.items.values->sum(&k.chain.work, total, in, 2, n, 1);
    chain_of_items(&k.chain, &sum, n_workers, total, got);
    compress_case_close(&k);
}

/* Compared with sums in double precision. 40000 + 40000 is no number of half precision, 1e-9 is none either,
 * and the sum of 1,000 of 1e36 is no float: 33 are. */
TEST(sums_of_halves_do_not_overflow_and_keep_small_values)
{
    static const float large[] = {40000, -40000, 1, 0.001f}, small[] = {1e-9f, -3e-9f, 1e-11f, 0},
                       largest[] = {1e36f, -1e36f, 3e35f, 0}, *const all[] = {large, small, largest};
    static const int n_workers[] = {1, 2, 4, 33, 1000};

    for (size_t i = 0; i < N_OF(n_workers); i++)
        for (size_t k = 0; k < N_OF(all) * 2; k++) {
            const char *chain = k % 2 ? "bf16" : "fp16";
            double each = (k % 2 ? 0x1p-9 : 0x1p-12) * (1 + n_workers[i]); /* each addition is rounded */
            const float *v = all[k / 2];
            double lost = n_workers[i] * 0x1p-36 * n_workers[i] * fabs((double)v[0]) * (k % 2 == 0);
            float got[4];

            sum_halves(got, chain, v, 4, n_workers[i]);
            for (int j = 0; j < 4; j++) {
                double right = (double)n_workers[i] * (double)v[j];

                if (fabs(right) > (double)FLT_MAX)
                    assert_true(isinf(got[j]) && (got[j] > 0) == (right > 0));
                else if (!(fabs((double)got[j] - right) <= each * fabs(right) + lost))
                    fail_msg("%s of %d workers: %g instead of %g", chain, n_workers[i], (double)got[j],
                             right);
            }
        }
}

/* In a message of one, too. */
TEST(a_vector_of_halves_has_a_common_exponent)
{
    static const float v[] = {1e6f, 65504, 1e-3f, -2e6f},
                       small[] = {1e-12f, -2e-12f, 1e-13f, 0}, *const all[] = {v, small};
    static const double most[] = {2e6, 2e-12};

    for (size_t k = 0; k < N_OF(all); k++) {
        struct compress_case c;

        compress_case_open(&c, "fp16", 4);
        compress_case_send(&c, all[k], NULL, 1);
        for (int i = 0; i < 4; i++)
            assert_true(fabs((double)c.out[i] - (double)all[k][i]) <=
                        0x1p-11 * fabs((double)all[k][i]) + 0x1p-39 * most[k]);
        compress_case_close(&c);
    }
}

TEST(a_sum_of_halves_with_nan_or_infinity_is_not_finite)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    for (size_t k = 0; k < N_OF(bad) * 2; k++) {
        const float v[] = {1, bad[k / 2], 2};
        float got[3];

        sum_halves(got, k % 2 ? "bf16" : "fp16", v, 3, 4);
        assert_true(!isfinite(got[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_halves_do_not_overflow_and_keep_small_values),
        cmocka_unit_test(a_vector_of_halves_has_a_common_exponent),
        cmocka_unit_test(a_sum_of_halves_with_nan_or_infinity_is_not_finite),
        cmocka_unit_test(items_that_can_be_added_are_rounded_after_each_addition),
        cmocka_unit_test(sums_of_a_common_scale_are_exact_and_fit_into_8_bits),
        cmocka_unit_test(a_block_of_a_common_scale_with_nan_at_one_worker_is_nan_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
