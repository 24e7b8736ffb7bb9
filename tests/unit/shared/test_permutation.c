#include "shared/job/permutation.h"

#include "tests/unit/unit.h"

TEST(each_number_has_one_place)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 64, 65, 1000, 4097};
    bool seen[4097];

    for (size_t k = 0; k < N_OF(sizes); k++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct permutation p;

            memset(seen, 0, sizeof seen);
            permutation_init(&p, sizes[k], seed, 3, 4);
            for (uint64_t i = 0; i < sizes[k]; i++) {
                uint64_t at = permutation_at(&p, i);

                assert_true(at < sizes[k] && !seen[at]);
                seen[at] = true;
            }
        }
}

TEST(a_permutation_of_more_than_two_to_the_32_numbers_is_inside_its_range)
{
    const uint64_t n = ((uint64_t)5 << 40) + 3;
    struct permutation p;
    uint64_t high = 0;

    permutation_init(&p, n, 1, 2, 3);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t at = permutation_at(&p, i * (n / 1000));

        assert_true(at < n);
        high += at >= n / 2;
    }
    assert_in_range(high, 400, 600);
}

/* Of the places of each number over many permutations none is more frequent than chance: chi-square with 7
 * degrees of freedom is above 40 once in a million. */
TEST(every_place_is_equally_likely)
{
    enum { N = 8, TRIES = 8000 };
    int count[N][N] = {{0}};

    for (uint64_t a = 0; a < TRIES; a++) {
        struct permutation p;

        permutation_init(&p, N, 7, a, 1);
        for (uint64_t i = 0; i < N; i++)
            count[i][permutation_at(&p, i)]++;
    }
    for (int i = 0; i < N; i++) {
        double chi = 0, expected = (double)TRIES / N;

        for (int k = 0; k < N; k++)
            chi += (count[i][k] - expected) * (count[i][k] - expected) / expected;
        assert_true(chi < 40);
    }
}

TEST(each_seed_epoch_and_column_has_another_order)
{
    struct permutation p, q[3];
    size_t equal[3] = {0};

    permutation_init(&p, 1000, 1, 2, 3);
    permutation_init(&q[0], 1000, 2, 2, 3);
    permutation_init(&q[1], 1000, 1, 3, 3);
    permutation_init(&q[2], 1000, 1, 2, 4);
    for (uint64_t i = 0; i < 1000; i++)
        for (size_t k = 0; k < 3; k++)
            equal[k] += permutation_at(&p, i) == permutation_at(&q[k], i);
    for (size_t k = 0; k < 3; k++)
        assert_true(equal[k] < 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_has_one_place),
        cmocka_unit_test(a_permutation_of_more_than_two_to_the_32_numbers_is_inside_its_range),
        cmocka_unit_test(every_place_is_equally_likely),
        cmocka_unit_test(each_seed_epoch_and_column_has_another_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
