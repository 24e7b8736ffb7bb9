#include <math.h>

#include "codecs/compress/compress.h"
#include "codecs/compress/huffman_code.h"
#include "tests/unit/unit.h"

/* Bits of the shortest code without a length limit, by Huffman's own algorithm. */
static uint64_t shortest(const uint32_t *counts, int n)
{
    uint64_t weights[HUFFMAN_SYMBOLS], bits = 0;
    int n_left = 0;

    for (int s = 0; s < n; s++)
        if (counts[s] > 0)
            weights[n_left++] = counts[s];
    while (n_left > 1) {
        uint64_t sum = 0;

        for (int twice = 0; twice < 2; twice++) {
            int least = 0;

            for (int i = 1; i < n_left; i++)
                if (weights[i] < weights[least])
                    least = i;
            sum += weights[least];
            weights[least] = weights[--n_left];
        }
        weights[n_left++] = sum;
        bits += sum;
    }
    return bits;
}

static uint64_t bits_with(const uint8_t *lengths, const uint32_t *counts, int n)
{
    uint64_t bits = 0;

    for (int s = 0; s < n; s++)
        bits += (uint64_t)counts[s] * lengths[s];
    return bits;
}

TEST(codes_are_as_short_as_huffman_codes_where_the_limit_does_not_apply)
{
    struct rng r;

    rng_init(&r, 1, 0, 0);
    for (int n = 2; n <= HUFFMAN_SYMBOLS; n += n < 20 ? 1 : 47) {
        uint32_t counts[HUFFMAN_SYMBOLS];
        uint8_t lengths[HUFFMAN_SYMBOLS];
        uint16_t codes[HUFFMAN_SYMBOLS];

        for (int s = 0; s < n; s++)
            counts[s] = s > 1 && s % 3 == 0 ? 0 : 100 + rng_below(&r, 400);
        huffman_lengths(lengths, counts, n);
        assert_true(huffman_codes(codes, lengths, n));
        assert_true(bits_with(lengths, counts, n) == shortest(counts, n));
        for (int s = 0; s < n; s++)
            assert_int_equal(lengths[s] > 0, counts[s] > 0);
    }
}

/* Fibonacci frequencies make Huffman's tree as deep as possible: 19 levels for 20 symbols. */
TEST(codes_respect_their_length_limit_at_little_cost)
{
    uint32_t counts[20] = {1, 1};
    uint8_t lengths[20];
    uint16_t codes[20];

    for (int s = 2; s < 20; s++)
        counts[s] = counts[s - 1] + counts[s - 2];
    huffman_lengths(lengths, counts, 20);
    for (int s = 0; s < 20; s++)
        assert_in_range(lengths[s], 1, HUFFMAN_BITS);
    assert_true(huffman_codes(codes, lengths, 20));
    assert_true(bits_with(lengths, counts, 20) > shortest(counts, 20));
    assert_true((double)bits_with(lengths, counts, 20) < 1.01 * (double)shortest(counts, 20));
}

TEST(incomplete_or_oversubscribed_code_lengths_are_refused)
{
    uint16_t codes[4];

    assert_true(huffman_codes(codes, (const uint8_t[]){1, 2, 3, 3}, 4));
    assert_false(huffman_codes(codes, (const uint8_t[]){1, 2, 3, 0}, 4));
    assert_false(huffman_codes(codes, (const uint8_t[]){1, 1, 1, 0}, 4));
    assert_false(huffman_codes(codes, (const uint8_t[]){0, 0, 0, 0}, 4));
}

struct bench {
    struct compress_work work;
    unsigned char *bytes;
    size_t len;
};

static void put(struct bench *b, const uint8_t *q, size_t n, int alphabet)
{
    struct wire_out out = {.limit = compress_huffman.most_bytes(n, alphabet)};

    *b = (struct bench){.work.loops = loops_best(), .bytes = malloc(out.limit)};
    assert_non_null(b->bytes);
    out.bytes = b->bytes;
    compress_huffman.put(&b->work, &out, q, n, alphabet);
    assert_false(out.bad);
    b->len = out.len;
}

static void check_round_trip(const uint8_t *q, size_t n, int alphabet, struct bench *b)
{
    uint8_t *back = malloc(n);
    struct wire_in in;

    assert_non_null(back);
    put(b, q, n, alphabet);
    in = (struct wire_in){.bytes = unit_copy(b->bytes, b->len), .len = b->len};
    assert_true(compress_huffman.get(&b->work, &in, back, n, alphabet));
    assert_true(wire_ok(&in));
    assert_memory_equal(back, q, n);
    free((void *)in.bytes);
    free(back);
    free(b->bytes);
}

/* Geometric: symbol s is about half as frequent as s - 1. */
static void geometric(uint8_t *q, size_t n, int alphabet, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, 0, 0);
    for (size_t i = 0; i < n; i++) {
        q[i] = 0;
        while (q[i] + 1 < alphabet && rng_below(&r, 2))
            q[i]++;
    }
}

TEST(symbols_are_restored_for_any_count_and_alphabet)
{
    static uint8_t q[5000];
    struct bench b;

    for (int alphabet = 2; alphabet <= 256; alphabet *= 2)
        for (size_t n = 1; n <= N_OF(q); n += n < 30 ? 1 : 355) {
            geometric(q, n, alphabet, n);
            check_round_trip(q, n, alphabet, &b);
        }
}

TEST(equal_symbols_take_two_bytes_and_random_ones_no_more_than_packed)
{
    static uint8_t q[10000];
    struct bench b;
    struct rng r;

    memset(q, 4, sizeof q);
    check_round_trip(q, sizeof q, 7, &b);
    assert_int_equal(b.len, 2);
    rng_init(&r, 3, 0, 0);
    for (size_t i = 0; i < sizeof q; i++)
        q[i] = (uint8_t)rng_below(&r, 256);
    check_round_trip(q, sizeof q, 256, &b);
    assert_int_equal(b.len, sizeof q + 1);
}

TEST(bits_per_symbol_are_reported_and_close_to_the_entropy)
{
    static uint8_t q[100000];
    struct bench b;
    double bits, entropy;

    geometric(q, sizeof q, 15, 8);
    check_round_trip(q, sizeof q, 15, &b);
    bits = b.work.report.n_bits / b.work.report.n_symbols;
    entropy = b.work.report.entropy / b.work.report.n_symbols;
    assert_true(fabs(entropy - 2) <
                0.02); /* geometric distribution with 1/2: 2 bits, less the truncation at 15 */
    assert_true(bits >= entropy && bits < entropy + 0.01);
    assert_true(b.work.report.n_bits == 8 * (double)b.len);
}

TEST(changed_bytes_never_decode_to_symbols_outside_the_alphabet)
{
    static uint8_t q[3000], back[3000];
    struct rng r;
    struct bench b;
    int n_refused = 0;

    geometric(q, sizeof q, 15, 9);
    put(&b, q, sizeof q, 15);
    rng_init(&r, 10, 0, 0);
    for (int i = 0; i < 20000; i++) {
        unsigned char *bytes = unit_copy(b.bytes, b.len);
        struct wire_in in = {.bytes = bytes, .len = b.len};

        bytes[rng_below(&r, (uint32_t)(i % 2 ? b.len : 30))] ^= (unsigned char)(1 + rng_below(&r, 255));
        if (!compress_huffman.get(&b.work, &in, back, sizeof back, 15))
            n_refused++;
        else
            for (size_t k = 0; k < sizeof back; k++)
                assert_in_range(back[k], 0, 14);
        free(bytes);
    }
    assert_in_range(n_refused, 5000, 20000);
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_as_short_as_huffman_codes_where_the_limit_does_not_apply),
        cmocka_unit_test(codes_respect_their_length_limit_at_little_cost),
        cmocka_unit_test(incomplete_or_oversubscribed_code_lengths_are_refused),
        cmocka_unit_test(symbols_are_restored_for_any_count_and_alphabet),
        cmocka_unit_test(equal_symbols_take_two_bytes_and_random_ones_no_more_than_packed),
        cmocka_unit_test(bits_per_symbol_are_reported_and_close_to_the_entropy),
        cmocka_unit_test(changed_bytes_never_decode_to_symbols_outside_the_alphabet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
