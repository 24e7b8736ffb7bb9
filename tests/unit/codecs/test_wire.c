#include "codecs/wire.h"
#include "shared/base/rng.h"
#include "tests/unit/unit.h"

enum { NUMBERS = 100, ROOM = 4 * NUMBERS };

static uint32_t number(struct rng *r, int n_bits)
{
    return (uint32_t)(rng_u64(r) >> (64 - n_bits));
}

TEST(numbers_of_any_width_are_read_as_written_in_the_fewest_words)
{
    for (int n_bits = 1; n_bits <= 32; n_bits++) {
        unsigned char bytes[ROOM];
        struct wire_out out = {.bytes = bytes, .limit = sizeof bytes};
        struct wire_bits b = {0};
        struct wire_in in;
        struct rng r;

        rng_init(&r, (uint64_t)n_bits, 0, 0);
        for (int i = 0; i < NUMBERS; i++)
            wire_put_bits(&out, &b, number(&r, n_bits), n_bits);
        wire_put_last_bits(&out, &b);
        assert_true(!out.bad && out.len == 4 * (size_t)((NUMBERS * n_bits + 31) / 32));
        in = (struct wire_in){.bytes = bytes, .len = out.len};
        rng_init(&r, (uint64_t)n_bits, 0, 0);
        for (int i = 0; i < NUMBERS; i++)
            assert_int_equal(wire_get_bits(&in, &b, n_bits), number(&r, n_bits));
        assert_true(wire_ok(&in));
    }
}

TEST(numbers_beyond_the_end_are_0_and_set_the_flag)
{
    const uint32_t word = UINT32_MAX;
    struct wire_in in = {.bytes = (const unsigned char *)&word, .len = sizeof word};
    struct wire_bits b = {0};

    for (int i = 0; i < 4; i++)
        assert_int_equal(wire_get_bits(&in, &b, 7), 127);
    assert_false(in.bad);
    assert_int_equal(wire_get_bits(&in, &b, 7), 15); /* the last 4 bits, and none after them */
    assert_false(wire_ok(&in));
    assert_int_equal(wire_get_bits(&in, &b, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_any_width_are_read_as_written_in_the_fewest_words),
        cmocka_unit_test(numbers_beyond_the_end_are_0_and_set_the_flag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
