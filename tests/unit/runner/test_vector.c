#include "runner/base/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/unit.h"

enum { N_MAX = 200, SHIFTS = 17 };

TEST(a_sum_matches_a_plain_loop_for_any_length_and_alignment)
{
    static float x[3][N_MAX + SHIFTS], out[N_MAX + SHIFTS + 1];

    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N_MAX + SHIFTS; i++)
            x[k][i] = (float)((i * 7919 + k * 104729) % 1000) / 999.0f + (float)(k * 100);
    for (size_t n = 0; n <= N_MAX; n++)
        for (size_t shift = 0; shift < SHIFTS; shift += 3) {
            const float *in[3] = {x[0] + shift, x[1], x[2] + SHIFTS - shift};

            out[shift + n] = -1;
            vector_sum(out + shift, in, 3, n, 1.0f / 3.0f);
            for (size_t i = 0; i < n; i++) {
                float s = in[0][i];

                s += in[1][i];
                s += in[2][i];
                assert_true(out[shift + i] == s * (1.0f / 3.0f));
            }
            assert_true(out[shift + n] == -1);
        }
}

TEST(a_copy_is_equal_for_any_length_and_alignment)
{
    static float in[2048], out[2048 + SHIFTS + 1];

    for (int i = 0; i < 2048; i++)
        in[i] = (float)i;
    for (size_t n = 0; n <= 2048; n += n < 70 ? 1 : 97)
        for (size_t shift = 0; shift < SHIFTS; shift++) {
            out[shift + n] = -1;
            vector_copy(out + shift, in, n);
            assert_memory_equal(out + shift, in, n * sizeof *in);
            assert_true(out[shift + n] == -1);
        }
}

TEST(partial_sums_match_a_plain_loop)
{
    static float v[N_MAX], sum[N_MAX + SHIFTS + 1];
    const float third = 1.0f / 3.0f;

    for (int i = 0; i < N_MAX; i++)
        v[i] = (float)(i * 7919 % 1000) / 999.0f;
    for (size_t n = 0; n <= N_MAX; n++)
        for (size_t shift = 0; shift < SHIFTS; shift += 3) {
            sum[shift + n] = -1;
            vector_scale(sum + shift, v, third, n);
            vector_add(sum + shift, v, 0.7f, n);
            for (size_t i = 0; i < n; i++) {
                float s = third * v[i];

                s += 0.7f * v[i];
                assert_true(sum[shift + i] == s);
            }
            assert_true(sum[shift + n] == -1);
        }
}

TEST(partial_sums_tell_whether_the_vector_is_finite_wherever_a_value_is_not)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float v[N_MAX], sum[N_MAX];

    for (size_t n = 1; n <= N_MAX; n += 33)
        for (size_t at = 0; at < n; at++) {
            memset(sum, 0, sizeof sum);
            for (size_t i = 0; i < n; i++)
                v[i] = i % 2 ? FLT_MAX : -1;
            assert_true(vector_scale(sum, v, 0.5f, n) && vector_add(sum, v, 0.1f, n) &&
                        vector_mix(sum, v, 1, n));
            v[at] = bad[at % N_OF(bad)];
            assert_true(!vector_scale(sum, v, 0, n) && !vector_add(sum, v, 1, n) &&
                        !vector_mix(sum, v, 0.5f, n));
            v[at] = 0; /* values of `sum` that are not finite do not count */
            assert_true(vector_add(sum, v, 1, n));
        }
    assert_true(vector_scale(sum, v, 1, 0));
}

TEST(a_sum_of_a_vector_is_finite_only_if_all_of_its_values_are)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float v[2][N_MAX], out[N_MAX];
    const float *in[] = {v[0], v[1]};

    for (size_t n = 1; n <= N_MAX; n += 33)
        for (size_t at = 0; at < n; at++) {
            for (size_t i = 0; i < n; i++)
                v[0][i] = FLT_MAX, v[1][i] = -1;
            assert_true(vector_sum(out, in, 2, n, 0.5f));
            v[at % 2][at] = bad[at % N_OF(bad)];
            assert_false(vector_sum(out, in, 2, n, 0.5f));
            v[0][at] = v[1][at] = FLT_MAX;
            assert_false(vector_sum(out, in, 2, n, 0.5f)); /* it has overflowed */
        }
    assert_true(vector_sum(out, in, 2, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_of_a_vector_is_finite_only_if_all_of_its_values_are),
        cmocka_unit_test(partial_sums_tell_whether_the_vector_is_finite_wherever_a_value_is_not),
        cmocka_unit_test(a_sum_matches_a_plain_loop_for_any_length_and_alignment),
        cmocka_unit_test(a_copy_is_equal_for_any_length_and_alignment),
        cmocka_unit_test(partial_sums_match_a_plain_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
