#include "shared/base/rng.h"

#include <math.h>

#include "tests/unit/unit.h"

TEST(numbers_match_the_reference_implementation)
{
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240, 1216172134540287360};
    struct rng r = {{1, 2, 3, 4}};

    for (size_t i = 0; i < N_OF(expected); i++)
        assert_true(rng_u64(&r) == expected[i]);
}

TEST(each_seed_and_stream_gives_its_own_reproducible_numbers)
{
    static const uint64_t streams[][3] = {{1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
    uint64_t first[N_OF(streams)];

    for (size_t i = 0; i < N_OF(streams); i++) {
        struct rng a, b;

        rng_init(&a, streams[i][0], streams[i][1], streams[i][2]);
        rng_init(&b, streams[i][0], streams[i][1], streams[i][2]);
        first[i] = rng_u64(&a);
        assert_true(first[i] == rng_u64(&b));
        for (size_t k = 0; k < i; k++)
            assert_true(first[k] != first[i]);
    }
}

TEST(below_returns_each_number_about_equally_often)
{
    int hits[7] = {0};
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < 70000; i++)
        hits[rng_below(&r, 7)]++;
    for (int k = 0; k < 7; k++)
        assert_in_range(hits[k], 9600, 10400); /* more than four standard deviations */
    assert_int_equal(rng_below(&r, 1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&r, UINT32_MAX) < UINT32_MAX);
}

/* They must never change: a job may resume, and its nodes may be of different versions. */
TEST(common_numbers_depend_on_seed_key_and_place_only)
{
    float a[5], b[3], c[3];

    rng_common(a, 5, 1, 2);
    rng_common(b, 3, 1, 2);
    assert_memory_equal(a, b, sizeof b);
    rng_common(b, 3, 1, 3);
    rng_common(c, 3, 2, 2);
    assert_memory_not_equal(a, b, sizeof b);
    assert_memory_not_equal(a, c, sizeof c);
    assert_true(a[0] == 0x1.4c01d4p-2f && a[4] == 0x1.cadc3p-3f);
}

TEST(uniform_is_in_the_half_open_unit_interval)
{
    double sum = 0;
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < 100000; i++) {
        float u = rng_uniform(&r);

        assert_true(u >= 0 && u < 1);
        sum += (double)u;
    }
    assert_true(sum > 49500 && sum < 50500);
}

TEST(normal_has_mean_0_and_variance_1)
{
    double sum = 0, squares = 0;
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < 100000; i++) {
        double x = (double)rng_normal(&r);

        sum += x;
        squares += x * x;
    }
    assert_true(sum > -1500 && sum < 1500);
    assert_true(squares > 98000 && squares < 102000);
}

/* The bits to which Box and Muller's formula rounds, computed with 64-bit mantissas. */
TEST(normal_numbers_have_the_same_bits_on_every_machine)
{
    static const float expected[] = {0x1.aae586p-1f, -0x1.849ed4p-2f, -0x1.3a4ea4p+1f, 0x1.38967p+0f,
                                     0x1.026132p+0f, -0x1.b1fa5cp+0f, 0x1.7c55b6p+0f,  0x1.c75d0cp+0f};
    struct rng r, same;

    rng_init(&r, 1, 2, 3);
    rng_init(&same, 1, 2, 3);
    for (size_t i = 0; i < 100000; i++) {
        long double u = ((long double)(rng_u64(&same) >> 11) + 0.5L) * 0x1p-53L;
        long double v = (long double)(rng_u64(&same) >> 11) * 0x1p-53L;
        long double exact = sqrtl(-2 * logl(u)) * cosl(6.28318530717958647692528676655900577L * v);
        float x = rng_normal(&r);

        assert_true(i >= N_OF(expected) || x == expected[i]);
        assert_true(fabsl((long double)x - exact) <= 0x1.0001p-24L * fabsl(exact) + 1e-15L);
    }
}

TEST(shuffle_keeps_every_item_and_moves_most)
{
    uint32_t items[1000];
    bool seen[1000] = {false};
    int moved = 0;
    struct rng r;

    for (uint32_t i = 0; i < 1000; i++)
        items[i] = i;
    rng_init(&r, 1, 2, 3);
    rng_shuffle(&r, items, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_false(seen[items[i]]);
        seen[items[i]] = true;
        moved += items[i] != i;
    }
    assert_true(moved > 980);
    rng_shuffle(&r, items, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_match_the_reference_implementation),
        cmocka_unit_test(each_seed_and_stream_gives_its_own_reproducible_numbers),
        cmocka_unit_test(below_returns_each_number_about_equally_often),
        cmocka_unit_test(common_numbers_depend_on_seed_key_and_place_only),
        cmocka_unit_test(uniform_is_in_the_half_open_unit_interval),
        cmocka_unit_test(normal_has_mean_0_and_variance_1),
        cmocka_unit_test(normal_numbers_have_the_same_bits_on_every_machine),
        cmocka_unit_test(shuffle_keeps_every_item_and_moves_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
