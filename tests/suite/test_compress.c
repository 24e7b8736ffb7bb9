/* Properties of every compressor, and the figures of each: bytes, largest error, variance. */
#include <float.h>
#include <math.h>

#include "codecs/compress/indices.h"
#include "shared/plugin/codec_options.h"
#include "tests/lib/compress_case.h"
#include "tests/unit/unit.h"

/* Bytes of a message of n > 0 values, not rounded up. */
static size_t four(size_t n)
{
    return 4 * n;
}

static size_t two(size_t n)
{
    return 2 * n;
}

static size_t int8_256(size_t n)
{
    return n + 4 * ((n + 255) / 256);
}

static size_t int8_64(size_t n)
{
    return n + 4 * ((n + 63) / 64);
}

static size_t n_sent(size_t n, double ratio)
{
    double k = floor(ratio * (double)n + 0.5);

    return k < 1 ? 1 : (size_t)k;
}

static size_t topk_100th(size_t n)
{
    size_t k = n_sent(n, 0.01);

    return 4 * k + indices_bytes(n, k);
}

static size_t topk_half_int8(size_t n)
{
    size_t k = n_sent(n, 0.5);

    return int8_256(k) + indices_bytes(n, k);
}

/* A seed, unless the indices themselves are no longer. */
static size_t randomk_10th(size_t n)
{
    size_t k = n_sent(n, 0.1), by_index = indices_bytes(n, k);

    return 4 * k + (by_index < 8 ? by_index : 8);
}

static size_t qsgd_4(size_t n)
{
    return 4 * ((n + 511) / 512) + (n + 1) / 2;
}

/* Symbols of 7 bits are split into parts of 4, 2 and 1. */
static size_t qsgd_7_64(size_t n)
{
    return 4 * ((n + 63) / 64) + (n + 1) / 2 + (n + 3) / 4 + (n + 7) / 8;
}

static size_t threes(size_t n)
{
    return 4 + (n + 4) / 5;
}

static size_t qsgd_2_max(size_t n)
{
    return 4 * ((n + 511) / 512) + (n + 4) / 5;
}

static size_t two_and_a_scale(size_t n)
{
    return 4 + 2 * n;
}

static size_t sgq_3(size_t n)
{
    return 4 + (n + 3) / 4 + (n + 7) / 8;
}

static size_t sgq_8(size_t n)
{
    return 4 + n;
}

static size_t onebit_512(size_t n)
{
    return 8 * ((n + 511) / 512) + (n + 7) / 8;
}

/* Largest |C(v) - v|^2 for a v of n values and |v|^2 = square. */
static double nothing(double square, size_t n)
{
    (void)n;
    return 0 * square;
}

static double of_fp16(double square, size_t n)
{
    return (0x1p-22 + (double)n * 0x1p-78) * square;
}

static double of_bf16(double square, size_t n)
{
    (void)n;
    return 0x1p-16 * square;
}

static double of_int8_256(double square, size_t n)
{
    (void)n;
    return 256.0 / 64516 * square;
}

static double of_int8_64(double square, size_t n)
{
    (void)n;
    return 64.0 / 64516 * square;
}

/* A unit is the largest of 256 values / 126.5. */
static double of_fixed8_256(double square, size_t n)
{
    (void)n;
    return 256.0 / 64009 * square;
}

static double of_topk_100th(double square, size_t n)
{
    return (1 - (double)n_sent(n, 0.01) / (double)n) * square;
}

static double of_topk_half_int8(double square, size_t n)
{
    return (1 - (double)n_sent(n, 0.5) / (double)n + 256.0 / 64516) * square;
}

static double of_onebit_512(double square, size_t n)
{
    (void)n;
    return (1 - 1.0 / 512) * square;
}

static double all(double square, size_t n)
{
    (void)n;
    return square;
}

/* Largest mean of |C(v) - v|^2. */
static double of_qsgd_4(double square, size_t n)
{
    double d = n < 512 ? (double)n : 512;

    return fmin(d / 49, sqrt(d) / 7) * square;
}

static double of_qsgd_7_64(double square, size_t n)
{
    double d = n < 64 ? (double)n : 64;

    return fmin(d / (63 * 63), sqrt(d) / 63) * square;
}

static double of_qsgd_2_max(double square, size_t n)
{
    return (n < 512 ? (double)n : 512) / 4 * square;
}

static double of_tern(double square, size_t n)
{
    return (sqrt((double)n) - 1) * square;
}

/* Adjacent levels are at most 3.73 - 1.73 = 2 times alpha apart, and alpha is max |v| / 3.73. */
static double of_sgq_3(double square, size_t n)
{
    return (double)n * 0.5359 * 0.5359 / 4 * square;
}

static double of_randomk_10th(double square, size_t n)
{
    return (1 - (double)n_sent(n, 0.1) / (double)n) * square;
}

static double of_randomk_10th_unbiased(double square, size_t n)
{
    return ((double)n / (double)n_sent(n, 0.1) - 1) * square;
}

static const struct figures {
    const char *text;
    size_t (*bytes)(size_t n); /* NULL: they depend on the values */
    double (*always)(double square, size_t n);
    double (*in_the_mean)(double square, size_t n);
    bool is_unbiased;
} all_chains[] = {
    {"none", four, nothing, NULL, false},
    {"fp16", two_and_a_scale, of_fp16, NULL, false},
    {"bf16", two, of_bf16, NULL, false},
    {"int8", int8_256, of_int8_256, NULL, false},
    {"int8:block=64", int8_64, of_int8_64, NULL, false},
    {"fixed8", int8_256, of_fixed8_256, NULL, false},
    {"fixed8|huffman", NULL, of_fixed8_256, NULL, false},
    {"topk", topk_100th, of_topk_100th, NULL, false},
    {"topk:ratio=1", four, nothing, NULL, false},
    {"topk:ratio=0.5|int8", topk_half_int8, of_topk_half_int8, NULL, false},
    {"randomk:ratio=0.1", randomk_10th, all, of_randomk_10th, false},
    {"randomk:ratio=0.1,unbiased=true", randomk_10th, NULL, of_randomk_10th_unbiased, true},
    {"qsgd", qsgd_4, NULL, of_qsgd_4, true},
    {"qsgd:bits=7,bucket=64", qsgd_7_64, NULL, of_qsgd_7_64, true},
    {"qsgd:bits=2,norm=max", qsgd_2_max, NULL, of_qsgd_2_max, true},
    {"tern", threes, NULL, of_tern, true},
    {"tern:alpha=fit", threes, all, NULL, false},
    {"sgq", sgq_3, NULL, of_sgq_3, true},
    {"sgq:bits=8,alpha=fit", sgq_8, all, NULL, false},
    {"onebit", onebit_512, of_onebit_512, NULL, false},
    {"none|huffman", NULL, nothing, NULL, false},
    {"fp16|huffman", NULL, of_fp16, NULL, false},
    {"int8|huffman", NULL, of_int8_256, NULL, false},
    {"tern|huffman", NULL, NULL, of_tern, true},
    {"sgq:alpha=fit|huffman", NULL, all, NULL, false},
    {"topk|huffman", NULL, of_topk_100th, NULL, false},
    {"topk:ratio=0.5|int8|huffman", NULL, of_topk_half_int8, NULL, false},
};

static const size_t lengths[] = {1, 2, 7, 255, 256, 257, 1000, 2561, 40003};

TEST(a_message_has_exactly_the_stated_length)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(lengths); i++) {
            size_t n = lengths[i];
            float *v = make_vector(n, kind_normal, i);
            struct compress_case k;

            compress_case_open(&k, all_chains[f].text, n);
            compress_case_send(&k, v, NULL, i);
            if (all_chains[f].bytes)
                assert_int_equal(k.len, all_chains[f].bytes(n));
            assert_in_range(k.len, 1, k.room);
            assert_true(!all_chains[f].bytes || k.room == (k.len + 3) / 4 * 4);
            compress_case_close(&k);
            free(v);
        }
}

TEST(no_values_take_no_bytes)
{
    for (size_t f = 0; f < N_OF(all_chains); f++) {
        struct compress_case k;

        compress_case_open(&k, all_chains[f].text, 0);
        compress_case_send(&k, (const float[]){1}, NULL, 1);
        assert_int_equal(k.len, 0);
        assert_int_equal(k.room, 0);
        compress_case_close(&k);
    }
}

TEST(errors_stay_below_the_stated_bound)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(lengths) && all_chains[f].always; i++)
            for (size_t kind = 0; kind < N_OF(finite_kinds); kind++) {
                size_t n = lengths[i];
                float *v = make_vector(n, finite_kinds[kind], i);
                double square = square_sum(v, n);
                struct compress_case k;

                compress_case_open(&k, all_chains[f].text, n);
                compress_case_send(&k, v, NULL, i);
                assert_true(square_distance(k.out, v, n) <=
                            all_chains[f].always(square, n) +
                                1e-6 * square * (all_chains[f].always != nothing));
                compress_case_close(&k);
                free(v);
            }
}

enum { TIMES = 4000, N_SMALL = 60 };

/* Over TIMES messages of the same vector. */
static void check_mean(const struct figures *f, float (*kind)(struct rng *r))
{
    float *v = make_vector(N_SMALL, kind, 3);
    double sum[N_SMALL] = {0}, squares[N_SMALL] = {0}, errors = 0, square = square_sum(v, N_SMALL);
    struct compress_case k;

    compress_case_open(&k, f->text, N_SMALL);
    for (uint64_t t = 0; t < TIMES; t++) {
        compress_case_send(&k, v, NULL, t);
        errors += square_distance(k.out, v, N_SMALL) / (double)TIMES;
        for (int i = 0; i < N_SMALL; i++) {
            sum[i] += (double)k.out[i];
            squares[i] += (double)k.out[i] * (double)k.out[i];
        }
    }
    assert_true(errors <= 1.1 * f->in_the_mean(square, N_SMALL) + 1e-6 * square);
    for (int i = 0; i < N_SMALL && f->is_unbiased; i++) {
        double mean = sum[i] / (double)TIMES, variance = squares[i] / (double)TIMES - mean * mean;

        /* Five standard deviations, and five messages: rarely sent values do not occur in the sample. */
        assert_true(fabs(mean - (double)v[i]) <=
                    5 * sqrt(fmax(variance, 0) / (double)TIMES) + 5 * sqrt(square) / (double)TIMES);
    }
    compress_case_close(&k);
    free(v);
}

TEST(unbiased_compressors_have_the_mean_and_the_variance_stated)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        if (all_chains[f].in_the_mean) {
            check_mean(&all_chains[f], kind_normal);
            check_mean(&all_chains[f], kind_heavy_tailed);
        }
}

TEST(equal_seeds_give_equal_bytes_with_portable_and_optimized_loops)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(lengths); i++) {
            size_t n = lengths[i];
            float *v = make_vector(n, kind_heavy_tailed, i);
            struct compress_case a, b;

            compress_case_open(&a, all_chains[f].text, n);
            compress_case_open(&b, all_chains[f].text, n);
            b.chain.work.loops = &loops_portable;
            compress_case_send(&a, v, NULL, 9);
            compress_case_send(&b, v, NULL, 9);
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.message, b.message, a.len);
            assert_memory_equal(a.out, b.out, n * sizeof *v);
            compress_case_close(&a);
            compress_case_close(&b);
            free(v);
        }
}

TEST(a_million_values_are_restored)
{
    enum { N = 1000000 };
    float *v = make_vector(N, kind_heavy_tailed, 5);
    double square = square_sum(v, N);

    for (size_t f = 0; f < N_OF(all_chains); f++) {
        struct compress_case k;

        compress_case_open(&k, all_chains[f].text, N);
        compress_case_send(&k, v, NULL, 5);
        if (all_chains[f].bytes)
            assert_int_equal(k.len, all_chains[f].bytes(N));
        if (all_chains[f].always)
            assert_true(square_distance(k.out, v, N) <= all_chains[f].always(square, N) + 1e-6 * square);
        else
            assert_true(square_distance(k.out, v, N) <= 1.1 * all_chains[f].in_the_mean(square, N));
        compress_case_close(&k);
    }
    free(v);
}

TEST(zeros_are_restored_as_zeros)
{
    for (size_t f = 0; f < N_OF(all_chains); f++) {
        float *v = make_vector(1000, kind_zero, 1);
        struct compress_case k;

        compress_case_open(&k, all_chains[f].text, 1000);
        compress_case_send(&k, v, NULL, 1);
        for (int i = 0; i < 1000; i++)
            assert_true(k.out[i] == 0);
        compress_case_close(&k);
        free(v);
    }
}

TEST(huge_values_stay_finite_and_keep_their_signs)
{
    for (size_t f = 0; f < N_OF(all_chains); f++) {
        float *v = make_vector(1000, kind_huge, 1);
        struct compress_case k;

        compress_case_open(&k, all_chains[f].text, 1000);
        compress_case_send(&k, v, NULL, 1);
        for (int i = 0; i < 1000; i++)
            assert_true(isfinite(k.out[i]) && k.out[i] * v[i] >= 0);
        compress_case_close(&k);
        free(v);
    }
}

TEST(subnormal_values_are_restored_or_nearly_zero)
{
    static const float tiny[] = {0x1p-149f, -0x1p-149f, 0x1p-126f, -0x1.8p-130f, 0x1p-82f, 0, -0.0f};

    for (size_t f = 0; f < N_OF(all_chains); f++) {
        struct compress_case k;

        compress_case_open(&k, all_chains[f].text, N_OF(tiny));
        compress_case_send(&k, tiny, NULL, 1);
        for (size_t i = 0; i < N_OF(tiny); i++)
            assert_true(fabsf(k.out[i] - tiny[i]) <= 0x1p-81f * 10);
        compress_case_close(&k);
    }
}

/* NaN or infinity, alone or among finite values: no receiver may decode it as a finite number. */
TEST(values_that_are_not_finite_are_not_decoded_as_finite)
{
    static const float none[] = {NAN, INFINITY, -INFINITY};

    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(none) && !strstr(all_chains[f].text, "randomk"); i++)
            for (int at = 0; at < 1000; at += 333) {
                float *v = make_vector(1000, kind_normal, 1);
                struct compress_case k;

                v[at] = none[i];
                compress_case_open(&k, all_chains[f].text, 1000);
                compress_case_send(&k, v, NULL, 1);
                assert_true(!isfinite(k.out[at]));
                compress_case_close(&k);
                free(v);
            }
}

TEST(truncated_and_extended_messages_are_refused)
{
    enum { N = 700 };

    for (size_t f = 0; f < N_OF(all_chains); f++) {
        float *v = make_vector(N, kind_sparse, 2);
        unsigned char *whole;
        struct compress_case k;
        size_t len;

        compress_case_open(&k, all_chains[f].text, N);
        compress_case_send(&k, v, NULL, 2);
        len = k.len;
        whole = malloc(len + 1);
        assert_non_null(whole);
        memcpy(whole, k.message, len);
        whole[len] = 0;
        for (size_t i = 0; i < len; i++)
            assert_false(compress_case_reads(&k, whole, i));
        assert_false(compress_case_reads(&k, whole, len + 1));
        assert_true(compress_case_reads(&k, whole, len));
        compress_case_close(&k);
        free(whole);
        free(v);
    }
}

TEST(a_buffer_that_is_too_small_sets_the_flag_and_is_not_overrun)
{
    enum { N = 700 };

    for (size_t f = 0; f < N_OF(all_chains); f++) {
        float *v = make_vector(N, kind_normal, 2);
        struct compress_case k;
        size_t len;

        compress_case_open(&k, all_chains[f].text, N);
        compress_case_send(&k, v, NULL, 2);
        len = k.len;
        for (size_t room = 0; room < len; room += 1 + room / 16) {
            unsigned char *bytes = malloc(room + 1);
            struct wire_out out = {.bytes = bytes, .limit = room};
            struct rng r;

            assert_non_null(bytes);
            bytes[room] = 0xa5;
            rng_init(&r, 2, 0, 0);
            chain_encode(&k.chain, &r, NULL, v, N, &out);
            assert_true(out.bad);
            assert_int_equal(bytes[room], 0xa5);
            free(bytes);
        }
        compress_case_close(&k);
        free(v);
    }
}

TEST(each_compressor_names_its_source_and_has_valid_options)
{
    struct err e;

    for (const struct compressor *const *c = compressors; *c; c++) {
        assert_true((*c)->source && (*c)->help);
        assert_ptr_equal(compressor_find((*c)->name), *c);
        assert_ok(codec_options_check((*c)->options, COMPRESS_OPTIONS_MAX, &e));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_exactly_the_stated_length),
        cmocka_unit_test(no_values_take_no_bytes),
        cmocka_unit_test(errors_stay_below_the_stated_bound),
        cmocka_unit_test(unbiased_compressors_have_the_mean_and_the_variance_stated),
        cmocka_unit_test(equal_seeds_give_equal_bytes_with_portable_and_optimized_loops),
        cmocka_unit_test(a_million_values_are_restored),
        cmocka_unit_test(zeros_are_restored_as_zeros),
        cmocka_unit_test(huge_values_stay_finite_and_keep_their_signs),
        cmocka_unit_test(subnormal_values_are_restored_or_nearly_zero),
        cmocka_unit_test(values_that_are_not_finite_are_not_decoded_as_finite),
        cmocka_unit_test(truncated_and_extended_messages_are_refused),
        cmocka_unit_test(a_buffer_that_is_too_small_sets_the_flag_and_is_not_overrun),
        cmocka_unit_test(each_compressor_names_its_source_and_has_valid_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
