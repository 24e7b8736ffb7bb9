#include "codecs/compress/indices.h"

#include "tests/unit/unit.h"

/* k of n in ascending order, each subset equally likely. */
static void draw(uint32_t *at, size_t n, size_t k, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, 0, 0);
    for (size_t i = 0; i < n && k > 0; i++)
        if (rng_below(&r, (uint32_t)(n - i)) < k) {
            *at++ = (uint32_t)i;
            k--;
        }
}

static bool read_back(uint32_t *at, const unsigned char *bytes, size_t len, size_t n, size_t k)
{
    struct wire_in in = {.bytes = unit_copy(bytes, len), .len = len};
    bool is_right = indices_get(&in, at, n, k) && wire_ok(&in);

    free((void *)in.bytes);
    return is_right;
}

static void check(const uint32_t *at, size_t n, size_t k)
{
    size_t len = indices_bytes(n, k);
    unsigned char *bytes = malloc(len + 1);
    uint32_t *back = malloc(k * sizeof *back);
    struct wire_out out = {.bytes = bytes, .limit = len};

    assert_true(bytes && back);
    bytes[len] = 0x5a;
    indices_put(&out, at, n, k);
    assert_false(out.bad);
    assert_int_equal(out.len, len);
    assert_int_equal(bytes[len], 0x5a);
    assert_true(read_back(back, bytes, len, n, k));
    assert_memory_equal(back, at, k * sizeof *at);
    for (size_t cut = 0; cut < len; cut += 1 + len / 50)
        assert_false(read_back(back, bytes, cut, n, k));
    free(bytes);
    free(back);
}

TEST(indices_are_restored_for_any_count)
{
    static uint32_t at[5000];

    for (size_t n = 1; n <= 5000; n += n < 40 ? 1 : 709)
        for (size_t k = 1; k <= n; k += k < 20 ? 1 : n / 7) {
            draw(at, n, k, n + k);
            check(at, n, k);
        }
}

TEST(first_last_and_adjacent_indices_are_restored_at_any_distance)
{
    check((const uint32_t[]){0}, 1u << 30, 1);
    check((const uint32_t[]){(1u << 30) - 1}, 1u << 30, 1);
    check((const uint32_t[]){0, 1, (1u << 30) - 2, (1u << 30) - 1}, 1u << 30, 4);
}

TEST(one_index_in_a_hundred_takes_nine_bits_and_all_indices_take_none)
{
    assert_int_equal(indices_bytes(1000000, 10000),
                     7500 + (15624 + 10000 + 7) / 8); /* log2 100 + log2 e: 8.1 */
    assert_int_equal(indices_bytes(1000, 1000), 0);
}

TEST(bytes_that_do_not_decode_to_ascending_indices_are_refused)
{
    unsigned char bytes[64];
    uint32_t at[20];
    struct wire_out out = {.bytes = bytes, .limit = sizeof bytes};
    size_t len = indices_bytes(100, 20);

    memset(bytes, 0, sizeof bytes); /* no index */
    assert_false(read_back(at, bytes, len, 100, 20));
    memset(bytes, 0xff, sizeof bytes); /* too many */
    assert_false(read_back(at, bytes, len, 100, 20));
    out.len = 0;
    indices_put(&out, (const uint32_t[]){5, 5, 70}, 100, 3); /* equal ones */
    assert_false(read_back(at, bytes, out.len, 100, 3));
    out.len = 0;
    indices_put(&out, (const uint32_t[]){5, 6, 99}, 100, 3);
    assert_true(read_back(at, bytes, out.len, 100, 3));
    assert_int_equal(out.len, indices_bytes(99, 3));
    assert_false(read_back(at, bytes, out.len, 99, 3)); /* one that is not below n */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_are_restored_for_any_count),
        cmocka_unit_test(first_last_and_adjacent_indices_are_restored_at_any_distance),
        cmocka_unit_test(one_index_in_a_hundred_takes_nine_bits_and_all_indices_take_none),
        cmocka_unit_test(bytes_that_do_not_decode_to_ascending_indices_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
