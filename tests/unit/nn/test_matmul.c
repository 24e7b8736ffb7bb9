#include "nn/kernels/matmul.h"

#include <math.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/kernels/narrow.h"
#include "nn/kernels/onednn.h"
#include "shared/base/compiler.h"
#include "shared/base/rng.h"
#include "tests/unit/unit.h"

/* |c - naive| <= (k + 1) 2^-24 (sum |a b| + |c|): k + 1 floats are added in some order, each addition
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

typedef bool taker(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c);

static bool chosen_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                          float *c)
{
    matmul(a_t, b_t, m, n, k, a, b, beta, c);
    return true;
}

static bool without_onednn(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b,
                           float beta, float *c)
{
    blas_allow_onednn(false);
    matmul(a_t, b_t, m, n, k, a, b, beta, c);
    blas_allow_onednn(true);
    return true;
}

static bool copied(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c)
{
    return a_t && !b_t && onednn_matmul_copied(m, n, k, a, b, beta, c);
}

static bool transposed_first(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b,
                             float beta, float *c)
{
    return !a_t && b_t && onednn_matmul_transposed(m, n, k, a, b, beta, c);
}

static bool packed_operand(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b,
                           float beta, float *c)
{
    float *space = malloc(matmul_pack_size(n, k) * sizeof *space);
    struct matmul_packed f;

    assert_non_null(space);
    matmul_pack(&f, b_t, n, k, b, space);
    if (!a_t)
        matmul_by_packed(&f, m, a, beta, c);
    free(space);
    return !a_t;
}

/* The libraries' threads: ThreadSanitizer does not understand how OpenBLAS's wait for each other. */
static bool plain_operand(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                          float *c)
{
    bool taken;

    blas_set_threads(IS_THREAD_SANITIZED ? 1 : 2, 1);
    taken = packed_operand(a_t, b_t, m, n, k, a, b, beta, c);
    blas_set_threads(1, 1);
    return taken;
}

/* The implementations; false: it does not support this product. */
static taker *const takers[] = {chosen_matmul, without_onednn,   narrow_matmul,  onednn_matmul,
                                copied,        transposed_first, packed_operand, plain_operand};

/* The numbers around c must not change. */
static void check(bool a_t, bool b_t, int m, int n, int k, float beta)
{
    enum { AROUND = 32 };
    size_t n_c = (size_t)(m * n), n_all = n_c + 2 * AROUND;
    struct rng r;
    float *a, *b, *before, *c;

    rng_init(&r, (uint64_t)(m * 1000 + n), (uint64_t)k, a_t + 2 * (uint64_t)b_t);
    a = unit_normals((size_t)(m * k), &r);
    b = unit_normals((size_t)(k * n), &r);
    before = unit_normals(n_all, &r);
    c = malloc(n_all * sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < N_OF(takers); i++) {
        memcpy(c, before, n_all * sizeof *c);
        if (!takers[i](a_t, b_t, m, n, k, a, b, beta, c + AROUND)) {
            assert_memory_equal(c, before, n_all * sizeof *c);
            continue;
        }
        assert_is_product(a_t, b_t, m, n, k, a, b, beta, before + AROUND, c + AROUND);
        assert_memory_equal(c, before, AROUND * sizeof *c);
        assert_memory_equal(c + AROUND + n_c, before + AROUND + n_c, AROUND * sizeof *c);
    }
    free(a);
    free(b);
    free(before);
    free(c);
}

TEST(a_product_matches_the_naive_one_with_every_library)
{
    /* Sizes on both sides of the rule in matmul.c and of the parts in narrow.c, odd sizes, and vectors. */
    static const int sizes[][3] = {
        {1, 1, 1},      {3, 5, 7},      {64, 10, 128}, {17, 16, 33},   {33, 17, 16},   {8, 512, 65},
        {8, 512, 64},   {8, 511, 65},   {512, 9, 70},  {5, 12, 1024},  {4, 6, 600},    {1, 130, 40},
        {130, 1, 40},   {17, 10, 799},  {17, 10, 800}, {21, 12, 1603}, {100, 1, 64},   {16, 5, 128},
        {16, 6, 512},   {15, 5, 512},   {512, 40, 33}, {33, 512, 40},  {40, 1024, 17}, {512, 33, 250},
        {600, 512, 3},  {64, 9, 512},   {64, 11, 801}, {128, 10, 784}, {784, 10, 128}, {130, 14, 600},
        {1300, 1, 784}, {1300, 3, 300}, {17, 24, 512}, {16, 520, 512}, {5, 8, 48}};

    for (size_t i = 0; i < N_OF(sizes); i++)
        for (int t = 0; t < 4; t++)
            for (int beta = 0; beta < 2; beta++)
                check(t & 1, t & 2, sizes[i][0], sizes[i][1], sizes[i][2], (float)beta);
}

TEST(every_small_product_matches_the_naive_one)
{
    for (int m = 1; m <= 35; m++)
        for (int n = 1; n <= 13; n++)
            for (int k = 1; k <= 17; k += m % 3 + 1)
                for (int t = 0; t < 4; t++)
                    check(t & 1, t & 2, m, n, k, (float)((m + n + k) & 1));
}

TEST(narrow_products_use_their_kernel_where_the_processor_can)
{
    static float a[16 * 16], b[16 * 13], c[16 * 13];
    bool can = narrow_matmul(false, false, 16, 12, 16, a, b, 0, c);

#ifdef __x86_64__
    assert_int_equal(can, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#elif defined(__aarch64__)
    assert_true(can);
#endif
    assert_int_equal(narrow_matmul(true, false, 16, 12, 16, a, b, 1, c), can);
    assert_false(narrow_matmul(false, true, 16, 12, 16, a, b, 0, c));
    assert_false(narrow_matmul(false, false, 15, 12, 16, a, b, 0, c));
    assert_false(narrow_matmul(false, false, 16, 13, 16, a, b, 0, c));
    assert_false(narrow_matmul(false, false, 16, 12, 16, a, b, 0.5f, c));
}

TEST(the_same_product_at_another_address_has_the_same_bits)
{
    enum { M = 37, N = 10, K = 850 };
    struct rng r;
    float *a, *b, *c, *a_2 = malloc((M * K + 1) * sizeof *a_2), *b_2 = malloc((K * N + 3) * sizeof *b_2);

    assert_non_null(a_2);
    assert_non_null(b_2);
    rng_init(&r, 1, 2, 3);
    a = unit_normals(M * K, &r);
    b = unit_normals(K * N, &r);
    c = unit_normals((size_t)2 * M * N, &r);
    memcpy(a_2 + 1, a, M * K * sizeof *a);
    memcpy(b_2 + 3, b, K * N * sizeof *b);
    for (int t = 0; t < 2; t++)
        if (narrow_matmul(t, false, M, N, K, a, b, 0, c)) {
            assert_true(narrow_matmul(t, false, M, N, K, a_2 + 1, b_2 + 3, 0, c + M * N));
            assert_memory_equal(c, c + M * N, M * N * sizeof *c);
        }
    free(a);
    free(b);
    free(c);
    free(a_2);
    free(b_2);
}

TEST(with_beta_0_the_result_does_not_depend_on_prior_contents)
{
    static const int sizes[][3] = {{1, 1, 2}, {8, 16, 2}, {16, 5, 2}, {16, 10, 24}};
    static float a[16 * 24], b[24 * 10], c[16 * 10];

    for (size_t i = 0; i < N_OF(a); i++)
        a[i] = 1;
    for (size_t i = 0; i < N_OF(b); i++)
        b[i] = 1;
    for (size_t i = 0; i < N_OF(sizes); i++)
        for (size_t t = 0; t < 2 * N_OF(takers); t++) {
            const int *s = sizes[i];

            for (int q = 0; q < s[0] * s[1]; q++)
                c[q] = NAN;
            if (takers[t / 2](t & 1, false, s[0], s[1], s[2], a, b, 0, c))
                for (int q = 0; q < s[0] * s[1]; q++)
                    assert_true(c[q] == (float)s[2]);
        }
}

TEST(a_non_finite_operand_affects_its_row_only)
{
    static float a[33 * 83], b[83 * 10], c[33 * 10];

    for (size_t i = 0; i < N_OF(a); i++)
        a[i] = 1;
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < 83; p += 82)
            for (int row = 0; row < 33; row += 8) {
                float *operand = a + (t ? p * 33 + row : row * 83 + p);

                *operand = NAN;
                matmul(t, false, 33, 10, 83, a, b, 0, c);
                *operand = 1;
                for (int i = 0; i < 33; i++)
                    for (int j = 0; j < 10; j++)
                        assert_true(i == row ? isnan(c[i * 10 + j]) : c[i * 10 + j] == 0);
            }
}

static bool is_laid_out(bool b_t)
{
    static float b[8 * 20], space[16 * 20];
    struct matmul_packed f;

    assert_int_equal(matmul_pack_size(20, 8), N_OF(space));
    matmul_pack(&f, b_t, 20, 8, b, space);
    return f.panels != NULL;
}

TEST(an_operand_is_packed_where_that_is_faster)
{
    bool always = cpu_fuses() && !cpu_has_avx512();
    bool halves = cpu_fuses() && cpu_halves_avx512();

    assert_int_equal(is_laid_out(true), always || halves);
    assert_int_equal(is_laid_out(false), always || (halves && !blas_allows_onednn()));
    blas_allow_onednn(false);
    assert_int_equal(is_laid_out(false), always || halves);
    blas_allow_onednn(true);
}

struct core_case {
    const char *core;
    struct blas_processor has;
    const char *better;
};

static void expect_cores(const struct core_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *better = blas_better_core(cases[i].core, &cases[i].has);

        if (cases[i].better)
            assert_string_equal(better, cases[i].better);
        else
            assert_null(better);
    }
}

TEST(kernels_of_old_processors_are_replaced_on_new_ones)
{
    static const struct core_case cases[] = {
        {"Prescott", {.avx = true, .avx2 = true, .avx512 = true}, "SkylakeX"},
        {"prescott", {.avx = true, .avx2 = true}, "Haswell"},
        {"Sandybridge", {.avx = true, .avx2 = true}, "Haswell"},
        {"Nehalem", {.avx = true, .avx2 = true, .avx512 = true}, "SkylakeX"},
        {"Prescott", {.avx = false}, NULL},
        {"Sandybridge", {.avx = true}, NULL},
        {"Haswell", {.avx = true, .avx2 = true, .avx512 = true}, NULL},
        {"Zen", {.avx = true, .avx2 = true, .avx512 = true}, NULL},
        {"SkylakeX", {.avx = true, .avx2 = true, .avx512 = true}, NULL},
        {"Cooperlake", {.avx = true, .avx2 = true, .avx512 = true}, NULL},
        {"neoversen1", {.avx = false}, NULL},
    };

    expect_cores(cases, N_OF(cases));
}

/* By processor family, virtual machines may have processors whose instructions they lack. */
TEST(kernels_use_only_instructions_of_the_processor)
{
    static const struct core_case cases[] = {
        {"Opteron", {.amd_3dnow = true}, NULL},
        {"Opteron", {.fma4 = false}, "Prescott"},
        {"Opteron_SSE3", {.fma4 = false}, "Prescott"},
        {"Opteron_SSE3", {.avx = true, .avx2 = true}, "Haswell"},
        {"Bulldozer", {.fma4 = true, .avx = true}, NULL},
        {"Bulldozer", {.avx = true}, "Sandybridge"},
        {"Piledriver", {.fma4 = false}, "Prescott"},
        {"Excavator", {.fma4 = true, .avx = true, .avx2 = true}, NULL},
        {"Excavator", {.avx = true, .avx2 = true}, "Haswell"},
        {"Barcelona", {.avx = false}, NULL},
    };

    expect_cores(cases, N_OF(cases));
}

TEST(there_are_no_more_threads_than_processors)
{
    char text[200];

    assert_int_equal(blas_set_threads(1, 1), 1);
    blas_describe(text, sizeof text);
    assert_non_null(strstr(text, "1 thread"));
    assert_true(blas_set_threads(1 << 20, 1) < 1 << 20);
    blas_set_threads(1, 1);
}

TEST(processes_on_one_machine_use_no_more_threads_than_processors_in_total)
{
    int n_processors = (int)sysconf(_SC_NPROCESSORS_ONLN);

    for (int n = 2; n <= 2 * n_processors; n++)
        assert_in_range(blas_set_threads(1 << 20, n), 1, n < n_processors ? n_processors / n : 1);
    assert_int_equal(blas_set_threads(1, 2), 1);
    blas_set_threads(1, 1);
}

/* In the form for this processor, for any, and by halves. */
TEST(an_exact_product_has_the_same_bits_in_each_form)
{
    static const int shapes[][3] = {{1, 1, 1},    {5, 16, 7},  {16, 33, 20},
                                    {40, 17, 64}, {33, 33, 9}, {48, 48, 48}};
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (size_t s = 0; s < N_OF(shapes); s++)
        for (int b_t = 0; b_t < 2; b_t++) {
            int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            float *a = unit_normals((size_t)(m * k), &r), *b = unit_normals((size_t)(k * n), &r);
            float *c = malloc((size_t)(m * n) * sizeof *c), *d = malloc((size_t)(m * n) * sizeof *d);
            float *space = malloc(matmul_pack_size(n, k) * sizeof *space);

            matmul_exact(b_t, false, m, n, k, a, b, space, c);
            matmul_exact_loop(b_t, m, n, k, a, b, d);
            assert_is_product(false, b_t, m, n, k, a, b, 0, d, d);
            assert_memory_equal(c, d, (size_t)(m * n) * sizeof *c);
            if (m == n) {
                matmul_exact(true, false, m, n, k, a, a, space, c);
                matmul_exact(true, true, m, n, k, a, a, space, d);
                assert_memory_equal(c, d, (size_t)(m * n) * sizeof *c);
            }
            free(a);
            free(b);
            free(c);
            free(d);
            free(space);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_matches_the_naive_one_with_every_library),
        cmocka_unit_test(every_small_product_matches_the_naive_one),
        cmocka_unit_test(narrow_products_use_their_kernel_where_the_processor_can),
        cmocka_unit_test(the_same_product_at_another_address_has_the_same_bits),
        cmocka_unit_test(with_beta_0_the_result_does_not_depend_on_prior_contents),
        cmocka_unit_test(a_non_finite_operand_affects_its_row_only),
        cmocka_unit_test(an_operand_is_packed_where_that_is_faster),
        cmocka_unit_test(kernels_of_old_processors_are_replaced_on_new_ones),
        cmocka_unit_test(kernels_use_only_instructions_of_the_processor),
        cmocka_unit_test(there_are_no_more_threads_than_processors),
        cmocka_unit_test(processes_on_one_machine_use_no_more_threads_than_processors_in_total),
        cmocka_unit_test(an_exact_product_has_the_same_bits_in_each_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
