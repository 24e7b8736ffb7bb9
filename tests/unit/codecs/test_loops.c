#include "codecs/compress/loops.h"

#include <math.h>

#include "tests/unit/unit.h"

static float float_of(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The value of an fp16 number by its definition. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);

    if (exponent == 31)
        v = fraction ? NAN : INFINITY;
    return h & 0x8000 ? -v : v;
}

TEST(each_fp16_value_is_decoded_by_its_definition_and_encoded_back)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t in = (uint16_t)h, back;
        float v;

        loops_portable.from_fp16(&v, &in, 1);
        loops_portable.to_fp16(&back, &v, 1);
        if (isnan(half_value(in)))
            assert_true(isnan(v) && (back & 0x7fff) > 0x7c00);
        else
            assert_true((double)v == half_value(in) && back == in);
    }
}

TEST(fp16_rounds_to_nearest_even)
{
    for (uint16_t h = 0; h < 0x7bff; h++) { /* every finite one and its successor */
        double low = half_value(h), high = half_value((uint16_t)(h + 1)), middle = (low + high) / 2;
        float v[3] = {nextafterf((float)middle, 0), (float)middle, nextafterf((float)middle, INFINITY)};
        uint16_t out[3];

        loops_portable.to_fp16(out, v, 3);
        assert_int_equal(out[0], h);
        assert_int_equal(out[1], h % 2 ? h + 1 : h);
        assert_int_equal(out[2], h + 1);
    }
}

TEST(values_too_large_for_a_cast_become_its_largest_number)
{
    const float v[] = {65505, 1e30f, -1e30f, INFINITY, -INFINITY, 0x1.fffffep127f};
    uint16_t half[N_OF(v)], bf[N_OF(v)];

    loops_portable.to_fp16(half, v, N_OF(v));
    loops_portable.to_bf16(bf, v, N_OF(v));
    assert_int_equal(half[0], 0x7bff);
    assert_int_equal(half[1], 0x7bff);
    assert_int_equal(half[2], 0xfbff);
    assert_int_equal(half[3], 0x7c00);
    assert_int_equal(half[4], 0xfc00);
    assert_int_equal(bf[3], 0x7f80);
    assert_int_equal(bf[5], 0x7f7f);
}

TEST(bf16_rounds_to_nearest_and_keeps_nan)
{
    const uint32_t in[] = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001,
                           0xbf80ffff, 0x7f800001, 0xffffffff, 1};
    const uint16_t right[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf81, 0x7fc0, 0xffff, 0};

    for (size_t i = 0; i < N_OF(in); i++) {
        float v = float_of(in[i]), back;
        uint16_t out;

        loops_portable.to_bf16(&out, &v, 1);
        assert_int_equal(out, right[i]);
        loops_portable.from_bf16(&back, &out, 1);
        assert_int_equal(bits_of(back), (uint32_t)right[i] << 16);
    }
}

enum { N_MOST = 1100 };

/* Finite and infinite numbers of all magnitudes, zeros, NaN. */
static void any_floats(float *v, size_t n, struct rng *r)
{
    for (size_t i = 0; i < n; i++)
        v[i] = float_of((uint32_t)rng_u64(r) & (rng_below(r, 8) ? 0xffffffff : 0x80000000));
}

struct everything {
    float largest, from_fp16[N_MOST], from_bf16[N_MOST], unround[N_MOST], unsign[N_MOST], fed[N_MOST];
    double dot, positive, negative, vb, bb;
    uint16_t fp16[N_MOST], bf16[N_MOST];
    uint8_t nearest[N_MOST], random[N_MOST], level[N_MOST], level_random[N_MOST], sign[N_MOST];
    uint8_t packed[N_MOST], unpacked[N_MOST];
    uint32_t counts[1 << 11], few[1 << 10], at[N_MOST + 1];
    size_t n_negative, n_picked;
    uint8_t largest_symbol;
    struct random_lanes r;
};

static struct level_set three_levels(void)
{
    struct level_set s = {.n_levels = 3};

    for (int i = 0; i < LEVEL_ROOM; i++)
        s.level[i] = s.middle[i] = i > 3 ? INFINITY : (float)i;
    for (int i = 1; i <= 3; i++)
        s.middle[i] = (float)i - 0.5f;
    return s;
}

/* All loops on `any` floats and on `some` of about 1. */
static void run(struct everything *x, const struct loops *l, const float *any, const float *some, size_t n)
{
    struct level_set s = three_levels();
    struct rng seed;

    memset(x, 0, sizeof *x);
    rng_init(&seed, n, 0, 0);
    random_lanes_init(&x->r, &seed);
    x->largest = l->largest(any, n);
    x->dot = l->dot(some, some, n);
    l->sums_by_sign(some, n, &x->positive, &x->negative);
    l->to_fp16(x->fp16, any, n);
    l->from_fp16(x->from_fp16, x->fp16, n);
    l->to_bf16(x->bf16, any, n);
    l->from_bf16(x->from_bf16, x->bf16, n);
    l->round_nearest(x->nearest, some, n, 20, 128);
    l->round_random(x->random, some, n, 2, 3, &x->r);
    l->unround(x->unround, x->nearest, n, 0.05f, 128);
    l->level_nearest(x->level, some, n, 1.5f, &s);
    l->level_random(x->level_random, some, n, 1.5f, &s, &x->r);
    l->level_sums(some, n, 1.5f, &s, &x->vb, &x->bb);
    x->n_negative = l->signs(x->sign, some, n);
    l->unsign(x->unsign, x->sign, n, 2, -3);
    l->count_keys(x->counts, some, n, 0, 20, 11);
    l->count_keys(x->few, some, n, bits_of(1) >> 20, 10, 10);
    x->n_picked = l->pick(x->at, some, n, bits_of(1), 1);
    l->feed(x->fed, some, n, 0.5f);
    l->keep(x->fed, any, n);
    l->scale(x->fed, n, 3);
    l->pack(x->packed, x->random, n, 7);
    l->unpack(x->unpacked, x->packed, n, 7);
    x->largest_symbol = l->largest_symbol(x->nearest, n);
}

TEST(optimized_loops_give_the_bits_of_the_portable_ones)
{
    static struct everything a, b;
    static float any[N_MOST + 3], some[N_MOST + 3];
    struct rng r;

    rng_init(&r, 4, 0, 0);
    any_floats(any, N_OF(any), &r);
    for (size_t i = 0; i < N_OF(some); i++)
        some[i] = i % 5 ? rng_normal(&r) : rng_below(&r, 3) ? -1 : 1;
    for (size_t n = 0; n <= N_MOST; n += n < 70 ? 1 : 103)
        for (size_t shift = 0; shift < 4; shift++) {
            run(&a, &loops_portable, any + shift, some + shift, n);
            run(&b, loops_best(), any + shift, some + shift, n);
            assert_memory_equal(&a, &b, sizeof a);
        }
}

TEST(a_key_search_counts_and_picks_as_a_plain_loop_does)
{
    enum { N = 1000 };
    uint32_t counts[1 << 11], at[N + 1];
    float v[N];
    struct rng r;

    rng_init(&r, 5, 0, 0);
    for (int i = 0; i < N; i++)
        v[i] = (float)((int)rng_below(&r, 41) - 20) / 16;
    for (int shift = 0; shift <= 20; shift += 10) {
        int bits = shift == 20 ? 11 : 10;
        uint32_t prefix = shift == 20 ? 0 : bits_of(0.5f) >> (shift + bits), right[1 << 11] = {0};

        for (int i = 0; i < N; i++)
            if ((bits_of(v[i]) & 0x7fffffff) >> (shift + bits) == prefix)
                right[bits_of(v[i]) >> shift & ((1u << bits) - 1)]++;
        loops_portable.count_keys(counts, v, N, prefix, shift, bits);
        assert_memory_equal(counts, right, sizeof *right << bits);
    }
    for (size_t n_ties = 0; n_ties < 4; n_ties++) {
        size_t n = loops_portable.pick(at, v, N, bits_of(1), n_ties), k = 0, ties = 0;

        for (uint32_t i = 0; i < N; i++)
            if (fabsf(v[i]) > 1 || (fabsf(v[i]) == 1 && ties++ < n_ties)) {
                assert_true(k < n);
                assert_int_equal(at[k++], i);
            }
        assert_int_equal(k, n);
    }
}

TEST(symbols_of_every_alphabet_survive_bit_packing)
{
    enum { N = 6000 };
    static uint8_t q[N], back[N];
    struct rng r;

    rng_init(&r, 6, 0, 0);
    for (int alphabet = 2; alphabet <= 256; alphabet += alphabet < 20 ? 1 : 59)
        for (size_t n = 0; n <= N; n += n < 20 ? 1 : 859) {
            size_t len = packed_bytes(n, alphabet);
            uint8_t *packed = malloc(len + 1);

            assert_non_null(packed);
            packed[len] = 0x5a;
            for (size_t i = 0; i < n; i++)
                q[i] = (uint8_t)rng_below(&r, (uint32_t)alphabet);
            loops_portable.pack(packed, q, n, alphabet);
            loops_portable.unpack(back, packed, n, alphabet);
            assert_memory_equal(q, back, n);
            assert_int_equal(packed[len], 0x5a);
            free(packed);
        }
    assert_int_equal(packed_bytes(1000000, 3), 200000);
    assert_int_equal(packed_bytes(1000000, 7), 375000);
    assert_int_equal(packed_bytes(1000000, 256), 1000000);
}

TEST(random_lanes_are_uniform_and_independent)
{
    enum { N = 100000, LEVELS = 4 };
    static float half[N];
    static uint8_t q[N];
    struct random_lanes lanes;
    size_t n_up = 0, n_equal = 0;
    struct rng seed;

    rng_init(&seed, 7, 0, 0);
    random_lanes_init(&lanes, &seed);
    for (int i = 0; i < N; i++)
        half[i] = 0.5f;
    loops_best()->round_random(q, half, N, 1, LEVELS, &lanes);
    for (int i = 0; i < N; i++)
        n_up += q[i] - LEVELS;
    for (int i = 1; i < N; i++)
        n_equal += q[i] == q[i - 1];
    assert_in_range(n_up, N / 2 - 800, N / 2 + 800); /* 5 standard deviations */
    assert_in_range(n_equal, N / 2 - 800, N / 2 + 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fp16_value_is_decoded_by_its_definition_and_encoded_back),
        cmocka_unit_test(fp16_rounds_to_nearest_even),
        cmocka_unit_test(values_too_large_for_a_cast_become_its_largest_number),
        cmocka_unit_test(bf16_rounds_to_nearest_and_keeps_nan),
        cmocka_unit_test(optimized_loops_give_the_bits_of_the_portable_ones),
        cmocka_unit_test(a_key_search_counts_and_picks_as_a_plain_loop_does),
        cmocka_unit_test(symbols_of_every_alphabet_survive_bit_packing),
        cmocka_unit_test(random_lanes_are_uniform_and_independent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
