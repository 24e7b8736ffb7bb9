#include "shared/job/pair_key.h"
#include "submit/job/job_keys.h"

#include "tests/unit/unit.h"

TEST(the_key_of_a_pair_is_that_of_the_protocol)
{
    uint8_t data_key[SHA256_BYTES], key[SHA256_BYTES];
    char hex[SHA256_HEX];

    for (size_t i = 0; i < sizeof data_key; i++)
        data_key[i] = (uint8_t)i;
    pair_key(key, data_key, "j-1kq8x7m3qfab", 1, 0, -2);
    hex_encode(hex, key, sizeof key);
    assert_string_equal(hex, "c8131fe079b89543d231013286d1b4454126ae844cc55f9823140d16e6d380db");
}

TEST(pairs_jobs_and_attempts_have_different_keys)
{
    static const struct {
        uint8_t data_key;
        const char *job;
        int attempt, first, second;
    } pairs[] = {
        {1, "j-abcdef", 1, 0, 1},  {1, "j-abcdef", 1, 0, 2},   {1, "j-abcdef", 1, 1, 2},
        {1, "j-abcdef", 1, 0, -2}, {1, "j-abcdef", 1, 0, 12},  {1, "j-abcdef", 1, 1, -2},
        {1, "j-abcdef", 2, 0, 1},  {1, "j-abcdeg", 1, 0, 1},   {2, "j-abcdef", 1, 0, 1},
        {1, "j-abcdef", 10, 1, 2}, {1, "j-abcdef", 1, 10, 12},
    };
    uint8_t keys[N_OF(pairs)][SHA256_BYTES];

    for (size_t i = 0; i < N_OF(pairs); i++) {
        uint8_t data_key[SHA256_BYTES] = {pairs[i].data_key};

        pair_key(keys[i], data_key, pairs[i].job, pairs[i].attempt, pairs[i].first, pairs[i].second);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i], keys[k], SHA256_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_of_a_pair_is_that_of_the_protocol),
        cmocka_unit_test(pairs_jobs_and_attempts_have_different_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
