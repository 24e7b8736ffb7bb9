#include "codecs/compress/chain.h"

#include <math.h>

#include "codecs/compress/indices.h"
#include "tests/lib/compress_case.h"
#include "tests/unit/unit.h"

TEST(a_vector_too_long_for_compressors_is_refused)
{
    struct chain_spec s;
    struct chain c;
    struct err e;

    assert_ok(chain_parse(&s, "none", &e));
    assert_int_equal(chain_open(&c, &s, (size_t)CHAIN_VALUES_MAX + 1, NULL, 0, &e), ERR_CONFIG);
    assert_error_has("longer than compressors take");
}

enum { N = 1000 };

static const char *const with_feedback[] = {
    "fp16:ef=true",
    "int8:ef=true",
    "topk:ef=true",
    "topk:ratio=0.1,ef=true|int8",
    "randomk:ef=true",
    "qsgd:ef=true",
    "tern:ef=true",
    "tern:ef=true,alpha=fit",
    "sgq:ef=true",
    "onebit:ef=true",
    "randomk:ef=true,unbiased=true",
    "qsgd:ef=true|huffman",
    "sgq:alpha=fit,ef=true|huffman",
};

TEST(the_residual_keeps_what_a_message_omits_bit_for_bit)
{
    for (size_t i = 0; i < N_OF(with_feedback); i++) {
        float residual[N] = {0}, x[N];
        struct compress_case k;
        struct rng r;

        rng_init(&r, 1, 0, 0);
        compress_case_open(&k, with_feedback[i], N);
        for (uint64_t t = 0; t < 20; t++) {
            float *v = unit_normals(N, &r);

            for (int j = 0; j < N; j++)
                x[j] = v[j] + residual[j];
            compress_case_send(&k, v, residual, t);
            for (int j = 0; j < N; j++)
                assert_true(residual[j] == x[j] - k.out[j]);
            assert_memory_equal(k.chain.sent, k.out, sizeof x);
            assert_true(square_sum(residual, N) <= square_sum(x, N) * 1.00001);
            compress_case_close(&k);
            compress_case_open(&k, with_feedback[i], N); /* the residual is the only state */
            free(v);
        }
        compress_case_close(&k);
    }
}

/* Mean gradients arrive: after T messages of the same vector, the sum received is T v minus the residual. */
TEST(with_feedback_all_of_a_vector_arrives_eventually)
{
    enum { TIMES = 600 };

    for (size_t i = 0; i < N_OF(with_feedback); i++) {
        float residual[N] = {0}, *v;
        double sum[N] = {0}, off = 0;
        struct compress_case k;
        struct rng r;

        rng_init(&r, 2, 0, 0);
        v = unit_normals(N, &r);
        compress_case_open(&k, with_feedback[i], N);
        for (uint64_t t = 0; t < TIMES; t++) {
            compress_case_send(&k, v, residual, t);
            for (int j = 0; j < N; j++)
                sum[j] += (double)k.out[j];
        }
        for (int j = 0; j < N; j++)
            off += pow(sum[j] / (double)TIMES - (double)v[j], 2);
        assert_true(off < 0.3 * square_sum(v, N));
        compress_case_close(&k);
        free(v);
    }
}

TEST(a_residual_decays_by_its_factor)
{
    const float zeros[4] = {0};
    float residual[4] = {8, 4, 2, 1};
    struct compress_case k;

    compress_case_open(&k, "topk:ratio=0.25,ef=true,decay=0.5", 4);
    compress_case_send(&k, zeros, residual, 1);
    assert_true(k.out[0] == 4 && residual[0] == 0);
    assert_true(residual[1] == 2 && residual[2] == 1 && residual[3] == 0.5f);
    compress_case_close(&k);
}

TEST(a_residual_that_is_not_finite_is_dropped)
{
    const float bad[4] = {1, NAN, 3, INFINITY}, good[4] = {1, 2, 3, 4};
    float residual[4] = {0};
    struct compress_case k;

    compress_case_open(&k, "int8:ef=true", 4);
    compress_case_send(&k, bad, residual, 1);
    assert_true(isnan(k.out[0]) && isnan(k.out[3]));
    for (int i = 0; i < 4; i++)
        assert_true(residual[i] == 0);
    compress_case_send(&k, good, residual, 1);
    assert_true(k.out[3] == 4);
    compress_case_close(&k);
}

TEST(layers_have_their_own_scales_and_their_own_fraction)
{
    static const size_t starts[] = {0, 3, 3, 7};
    const float v[10] = {1000, -500, 0, 1, 2, 3, 4, 0.001f, 0.002f, 0.003f};
    unsigned char bytes[256];
    struct wire_out out = {.bytes = bytes, .limit = sizeof bytes};
    struct wire_in in = {.bytes = bytes};
    float back[10];
    struct chain_spec s;
    struct chain c;
    struct rng r;
    struct err e;

    rng_init(&r, 1, 0, 0);
    assert_ok(chain_parse(&s, "topk:ratio=0.3,per=layer", &e));
    assert_ok(chain_open(&c, &s, 10, starts, 4, &e));
    chain_encode(&c, &r, NULL, v, 10, &out);
    in.len = out.len;
    assert_true(chain_decode(&c, &in, back, 10) && wire_ok(&in));
    for (int i = 0; i < 10; i++)
        assert_true(back[i] == (i == 0 || i == 6 || i == 9 ? v[i] : 0));
    assert_in_range(out.len, 1, chain_most_bytes(&c, 10));

    out.len = 0; /* a vector of another length has no layers */
    chain_encode(&c, &r, NULL, v, 7, &out);
    assert_int_equal(out.len, 2 * 4 + indices_bytes(7, 2));
    chain_clear(&c);
}

TEST(a_message_may_be_part_of_a_longer_one)
{
    float v[N], back[N];
    unsigned char bytes[16 * N];
    struct wire_out out = {.bytes = bytes, .limit = sizeof bytes};
    struct wire_in in = {.bytes = bytes};
    struct chain_spec s;
    struct chain c;
    struct rng r;
    struct err e;

    rng_init(&r, 1, 0, 0);
    for (int i = 0; i < N; i++)
        v[i] = rng_normal(&r);
    assert_ok(chain_parse(&s, "randomk:ratio=0.5|fp16", &e));
    assert_ok(chain_open(&c, &s, N, NULL, 0, &e));
    wire_put(&out, 1, 1);
    chain_encode(&c, &r, NULL, v, N, &out);
    wire_put(&out, 3, 1);
    chain_encode(&c, &r, NULL, v, N, &out);
    in.len = out.len;
    wire_get(&in, 1, 1);
    assert_true(chain_decode(&c, &in, back, N));
    wire_get(&in, 3, 1);
    assert_true(chain_decode(&c, &in, back, N) && wire_ok(&in));
    chain_clear(&c);
}

/* topk of half the values: of each tensor by itself, the larger ones. Worked by hand. */
TEST(each_tensor_goes_through_its_own_chain)
{
    static const struct codec_layer layers[] = {
        {.name = "layer0.dense.weight", .offset = 0, .n = 4},
        {.name = "layer0.dense.bias", .offset = 4, .n = 2},
        {.name = "layer2.dense.weight", .offset = 6, .n = 2},
    };
    static const size_t starts[] = {0, 4, 6};
    static const float v[] = {1, -4, 3, 2, 10, 20, 0.1f, 1000.1f};
    static const float sent[] = {0, -4, 3, 0, 10, 20, 0.1f, 1000.1f};
    static const float half[] = {0, -4, 3, 0, 0, 20, 0.0999755859375f, 1000};
    static const struct {
        const char *text;
        const float *expected;
    } cases[] = {
        {"layer0.dense.weight=topk:ratio=0.5;*=none", sent},
        {"layer0=topk:ratio=0.5;*=fp16", half},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        unsigned char message[256];
        struct wire_out out = {.bytes = message, .limit = sizeof message};
        struct wire_in in = {.bytes = message};
        struct chain_list l;
        struct chains c;
        struct err e;
        float got[8];
        struct rng r;

        rng_init(&r, 1, 0, 0);
        assert_ok(chain_list_parse(&l, cases[i].text, &e));
        assert_ok(chains_open(&c, &l, 8, layers, starts, 3, &e));
        assert_true(chains_take(&c, 8));
        assert_false(chains_take(&c, 7));
        chains_encode(&c, &r, NULL, v, 8, &out);
        assert_false(out.bad);
        assert_true(out.len <= chains_most_bytes(&c));
        for (in.len = 0; in.len < out.len; in.len++) {
            struct wire_in cut = in;

            assert_false(chains_decode(&c, &cut, got, 8));
        }
        assert_true(chains_decode(&c, &in, got, 8));
        assert_int_equal(in.at, out.len);
        for (int k = 0; k < 8; k++)
            assert_true(got[k] == cases[i].expected[k]);
        chains_clear(&c);
    }
}

TEST(a_tensor_without_a_chain_is_refused_by_name)
{
    static const struct codec_layer layers[] = {{.name = "layer0.dense.weight", .n = 4}};
    static const size_t starts[] = {0};
    struct chain_list l;
    struct chains c;
    struct err e;

    assert_ok(chain_list_parse(&l, "layer1=fp16", &e));
    assert_int_equal(chains_open(&c, &l, 4, layers, starts, 1, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "has none for layer0.dense.weight"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vector_too_long_for_compressors_is_refused),
        cmocka_unit_test(the_residual_keeps_what_a_message_omits_bit_for_bit),
        cmocka_unit_test(with_feedback_all_of_a_vector_arrives_eventually),
        cmocka_unit_test(a_residual_decays_by_its_factor),
        cmocka_unit_test(a_residual_that_is_not_finite_is_dropped),
        cmocka_unit_test(layers_have_their_own_scales_and_their_own_fraction),
        cmocka_unit_test(a_message_may_be_part_of_a_longer_one),
        cmocka_unit_test(each_tensor_goes_through_its_own_chain),
        cmocka_unit_test(a_tensor_without_a_chain_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
