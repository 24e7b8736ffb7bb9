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

/* Kinds of vectors. */
static float normal(struct rng *r)
{
    return rng_normal(r);
}

static float heavy_tailed(struct rng *r)
{
    float x = rng_normal(r);

    return x * x * x * 1e-3f;
}

static float sparse(struct rng *r)
{
    return rng_uniform(r) < 0.05f ? rng_normal(r) : 0;
}

static float constant(struct rng *r)
{
    (void)r;
    return -0.37f;
}

static float zero(struct rng *r)
{
    (void)r;
    return 0;
}

static float huge(struct rng *r)
{
    return 1e30f * rng_normal(r);
}

static float (*const finite_kinds[])(struct rng *r) = {normal, heavy_tailed, sparse, constant, zero};

static float *make(size_t n, float (*kind)(struct rng *r), uint64_t seed)
{
    float *v = malloc((n + 1) * sizeof *v);
    struct rng r;

    assert_non_null(v);
    rng_init(&r, seed, 1, 1);
    for (size_t i = 0; i < n; i++)
        v[i] = kind(&r);
    return v;
}

static const size_t lengths[] = {1, 2, 7, 255, 256, 257, 1000, 2561, 40003};

TEST(a_message_has_exactly_the_stated_length)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(lengths); i++) {
            size_t n = lengths[i];
            float *v = make(n, normal, i);
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
                float *v = make(n, finite_kinds[kind], i);
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
    float *v = make(N_SMALL, kind, 3);
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
            check_mean(&all_chains[f], normal);
            check_mean(&all_chains[f], heavy_tailed);
        }
}

TEST(equal_seeds_give_equal_bytes_with_portable_and_optimized_loops)
{
    for (size_t f = 0; f < N_OF(all_chains); f++)
        for (size_t i = 0; i < N_OF(lengths); i++) {
            size_t n = lengths[i];
            float *v = make(n, heavy_tailed, i);
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
    float *v = make(N, heavy_tailed, 5);
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
        float *v = make(1000, zero, 1);
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
        float *v = make(1000, huge, 1);
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
                float *v = make(1000, normal, 1);
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
        float *v = make(N, sparse, 2);
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
        float *v = make(N, normal, 2);
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

/* One worker's part in the sum of a common scale; returns the largest error of what its receivers add. */
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
        v[w] = make(N_SCALED, kind, (uint64_t)w);
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

/* `constant` makes each sum as large as it can be. */
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
TEST(sums_of_halves_neither_overflow_nor_lose_what_is_small)
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
        cmocka_unit_test(sums_of_halves_neither_overflow_nor_lose_what_is_small),
        cmocka_unit_test(a_vector_of_halves_has_a_common_exponent),
        cmocka_unit_test(a_sum_of_halves_with_nan_or_infinity_is_not_finite),
        cmocka_unit_test(items_that_can_be_added_are_rounded_after_each_addition),
        cmocka_unit_test(sums_of_a_common_scale_are_exact_and_fit_into_8_bits),
        cmocka_unit_test(a_block_of_a_common_scale_with_nan_at_one_worker_is_nan_at_all),
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
