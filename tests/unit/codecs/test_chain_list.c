#include "codecs/compress/chain_list.h"

#include "tests/unit/unit.h"

static struct err e;

static int parse(struct chain_list *l, const char *text)
{
    return chain_list_parse(l, text, &e);
}

TEST(a_chain_alone_is_no_list)
{
    static const char *const alone[] = {"fp16", "topk:ratio=0.1,ef=true|huffman", "none|huffman",
                                        "sgq|huffman"};
    struct chain_list l;

    for (size_t i = 0; i < N_OF(alone); i++) {
        assert_false(chain_list_is_one(alone[i]));
        assert_ok(parse(&l, alone[i]));
        assert_false(l.is_by_layer);
        assert_int_equal(l.n, 1);
    }
    assert_ok(parse(&l, ""));
    assert_int_equal(l.n, 0);
    assert_ok(parse(&l, NULL));
    assert_int_equal(l.n, 0);
}

TEST(a_tensors_own_chain_comes_before_its_layers_and_that_before_the_one_of_all_others)
{
    struct chain_list l;

    assert_ok(parse(&l, "*=none;layer1=topk:ratio=0.1,ef=true|huffman;layer1.dense.bias=fp16"));
    assert_true(l.is_by_layer);
    assert_int_equal(l.n, 3);
    assert_int_equal(chain_list_find(&l, "layer1.dense.bias"), 2);
    assert_int_equal(chain_list_find(&l, "layer1.dense.weight"), 1);
    assert_int_equal(chain_list_find(&l, "layer10.dense.weight"), 0);
    assert_int_equal(chain_list_find(&l, "layer0.dense.bias"), 0);
    assert_ok(parse(&l, "layer1=fp16"));
    assert_int_equal(chain_list_find(&l, "layer0.dense.bias"), -1);
}

TEST(what_is_not_a_list_is_refused_with_the_entry)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"layer0=", "\"layer0=\" is not LAYER=CHAIN"},
        {"layer0=fp16;", "\"\" is not LAYER=CHAIN"},
        {"layer0=fp16;tern", "\"tern\" is not LAYER=CHAIN"},
        {"=fp16", "is not LAYER=CHAIN"},
        {"layer0=fp16;layer0=tern", "layer0 has two chains"},
        {"layer0=fp61", "layer0: no compressor is called \"fp61\""},
        {"layer0=topk:ratio=3;*=none", "layer0: topk: ratio: 3 is not between"},
    };
    struct chain_list l;
    char text[CHAIN_LIST_TEXT_MAX + 100];
    size_t n = 0;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse(&l, cases[i].text), ERR_CONFIG);
        assert_error_has(cases[i].why);
    }
    for (int i = 0; i <= CHAIN_LIST_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%sl%d=none", i > 0 ? ";" : "", i);
    assert_int_equal(parse(&l, text), ERR_CONFIG);
    assert_error_has("more than 64 entries");
    memset(text, 'x', sizeof text);
    text[1] = '=';
    text[sizeof text - 1] = '\0';
    assert_int_equal(parse(&l, text), ERR_CONFIG);
    assert_error_has("more than 2047 characters");
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
        float got[8];
        struct rng r;

        rng_init(&r, 1, 0, 0);
        assert_ok(parse(&l, cases[i].text));
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

    assert_ok(parse(&l, "layer1=fp16"));
    assert_int_equal(chains_open(&c, &l, 4, layers, starts, 1, &e), ERR_CONFIG);
    assert_error_has("has none for layer0.dense.weight");
}

/* Error feedback is in the differences themselves: it is on, and cannot decay. */
TEST(only_a_lossy_chain_of_servers_that_send_parameters_sends_differences)
{
    struct chain_pair p;

    assert_ok(chain_pair_parse(&p, NULL, "topk", "ps", CODEC_LOSSY_UP, true, &e));
    assert_true(p.down_differs && p.down.of[0].chain.ef);
    assert_ok(chain_pair_parse(&p, "fp16", "none|huffman", "ps", CODEC_LOSSY_UP, true, &e));
    assert_false(p.down_differs || p.down.of[0].chain.ef);
    assert_ok(chain_pair_parse(&p, NULL, "topk", "doublesqueeze", CODEC_LOSSY, false, &e));
    assert_false(p.down_differs || p.down.of[0].chain.ef);
    assert_int_equal(chain_pair_parse(&p, NULL, "topk", "fedadam", CODEC_LOSSY_UP, false, &e), ERR_CONFIG);
    assert_error_has("codec fedadam accepts only lossless compression of what servers send");
    assert_int_equal(chain_pair_parse(&p, NULL, "topk:ef=true,decay=0.5", "ps", CODEC_LOSSY_UP, true, &e),
                     ERR_CONFIG);
    assert_error_has("nothing is left out that could decay");
    assert_ok(chain_pair_parse(&p, NULL, "layer0=topk;*=none", "ps", CODEC_LOSSY_UP, true, &e));
    assert_true(p.down_differs && p.down.of[0].chain.ef && !p.down.of[1].chain.ef);
    assert_int_equal(
        chain_pair_parse(&p, NULL, "*=none;layer0=int8:ef=true,decay=0.5", "ps", CODEC_LOSSY_UP, true, &e),
        ERR_CONFIG);
    assert_error_has("nothing is left out that could decay");
    assert_int_equal(chain_pair_parse(&p, "topk", NULL, "fedavg", CODEC_LOSSLESS_ONLY, true, &e), ERR_CONFIG);
    assert_error_has("--compress topk: codec fedavg accepts lossless compression only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_alone_is_no_list),
        cmocka_unit_test(a_tensors_own_chain_comes_before_its_layers_and_that_before_the_one_of_all_others),
        cmocka_unit_test(what_is_not_a_list_is_refused_with_the_entry),
        cmocka_unit_test(each_tensor_goes_through_its_own_chain),
        cmocka_unit_test(a_tensor_without_a_chain_is_refused_by_name),
        cmocka_unit_test(only_a_lossy_chain_of_servers_that_send_parameters_sends_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
