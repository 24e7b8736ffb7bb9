#include "codecs/compress/chain_list.h"

#include "tests/unit/unit.h"

static struct err e;

static int parse(struct chain_list *l, const char *text)
{
    return chain_list_parse(l, text, &e);
}

TEST(a_text_is_parsed_into_stages_with_their_options_and_defaults)
{
    struct chain_spec s;

    assert_ok(chain_parse(&s, "topk:ratio=0.25,ef=true,decay=0.5,per=layer|int8|huffman", &e));
    assert_ptr_equal(s.is[COMPRESS_SELECT], &compress_topk);
    assert_ptr_equal(s.is[COMPRESS_VALUES], &compress_int8);
    assert_ptr_equal(s.is[COMPRESS_SYMBOLS], &compress_huffman);
    assert_true(s.ef && s.decay == 0.5f && s.per == CHAIN_PER_LAYER);
    assert_int_equal(compress_topk.count(&s.options[COMPRESS_SELECT], 100), 25);
    assert_int_equal(compress_int8.n_scales(&s.options[COMPRESS_VALUES], 512), 2);

    assert_ok(chain_parse(&s, "qsgd:norm=max,bits=3", &e));
    assert_null(s.is[COMPRESS_SELECT]);
    assert_true(!s.ef && s.decay == 1 && s.per == CHAIN_PER_VECTOR);
    assert_int_equal(compress_qsgd.alphabet(&s.options[COMPRESS_VALUES]), 7);
}

TEST(invalid_texts_are_refused_with_the_valid_choices)
{
    static const struct {
        const char *text, *expected;
    } wrong[] = {
        {"", "no compressor is called \"\"; there are: none, fp16,"},
        {"tpok", "did you mean \"topk\"?"},
        {"topk:ratio", "topk: \"ratio\" is not NAME=VALUE; it takes ratio (1e-06 to 1, default 0.01"},
        {"topk:ratio=2", "ratio: 2 is not between 1e-06 and 1"},
        {"qsgd:bits=4.5", "bits: \"4.5\" is not an integer"},
        {"qsgd:norm=l1", "norm: \"l1\" is not one of l2|max"},
        {"qsgd:bit=4", "no parameter \"bit\" (did you mean \"bits\"?)"},
        {"qsgd:bit=4", "ef (true|false, default false: error feedback"},
        {"topk|qsgd:ef=true", "qsgd: no parameter \"ef\""},
        {"topk|huffman:x=1", "huffman: no parameter \"x\"; it takes none"},
        {"huffman|topk", "topk is out of order"},
        {"topk|randomk", "randomk is out of order"},
        {"none:ef=true|huffman", "there is no error to feed back"},
        {"topk|", "no compressor is called \"\""},
    };
    char longer[CHAIN_TEXT_MAX + 2];
    struct chain_spec s;

    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(chain_parse(&s, wrong[i].text, &e), ERR_CONFIG);
        assert_error_has(wrong[i].expected);
    }
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(chain_parse(&s, longer, &e), ERR_CONFIG);
    assert_error_has("more than 255 characters");
}

TEST(a_chain_is_lossy_if_one_of_its_stages_is)
{
    struct chain_spec s;

    assert_ok(chain_parse(&s, "none|huffman", &e));
    assert_false(chain_is_lossy(&s));
    assert_ok(chain_parse(&s, "bf16|huffman", &e));
    assert_true(chain_is_lossy(&s));
    assert_ok(chain_parse(&s, "topk|huffman", &e));
    assert_true(chain_is_lossy(&s));
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

TEST(the_longest_beginning_of_a_tensors_name_up_to_a_dot_counts)
{
    struct chain_list l;

    assert_ok(parse(&l, "encoder=fp16;encoder.layers.1.attn=none;*=tern;encoder.layers.1=int8;scale=none"));
    assert_int_equal(chain_list_find(&l, "encoder.norm.weight"), 0);
    assert_int_equal(chain_list_find(&l, "encoder.layers.1.attn.in_proj_weight"), 1);
    assert_int_equal(chain_list_find(&l, "encoder.layers.1.attn_norm.weight"), 3);
    assert_int_equal(chain_list_find(&l, "encoder.layers.10.attn.in_proj_weight"), 0);
    assert_int_equal(chain_list_find(&l, "encoders.weight"), 2);
    assert_int_equal(chain_list_find(&l, "scale"), 4);
    assert_true(chain_name_fits("scale", "scale"));
    assert_false(chain_name_fits("scale", "scal"));
    assert_true(chain_name_fits("layer2", "layer2.1.attention.weight")); /* a residual block */
    assert_true(chain_name_fits("layer2.1", "layer2.1.attention.weight"));
    assert_false(chain_name_fits("layer2.1", "layer2.10.dense.weight"));
}

TEST(an_invalid_list_of_workers_is_refused_with_the_entry)
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
    assert_error_has("there is no residual that could decay");
    assert_ok(chain_pair_parse(&p, NULL, "layer0=topk;*=none", "ps", CODEC_LOSSY_UP, true, &e));
    assert_true(p.down_differs && p.down.of[0].chain.ef && !p.down.of[1].chain.ef);
    assert_int_equal(
        chain_pair_parse(&p, NULL, "*=none;layer0=int8:ef=true,decay=0.5", "ps", CODEC_LOSSY_UP, true, &e),
        ERR_CONFIG);
    assert_error_has("there is no residual that could decay");
    assert_int_equal(chain_pair_parse(&p, "topk", NULL, "fedavg", CODEC_LOSSLESS_ONLY, true, &e), ERR_CONFIG);
    assert_error_has("--compress topk: codec fedavg accepts lossless compression only");
    assert_non_null(strstr(e.hint, "--codec fedpaq is fedavg that sends changes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_parsed_into_stages_with_their_options_and_defaults),
        cmocka_unit_test(invalid_texts_are_refused_with_the_valid_choices),
        cmocka_unit_test(a_chain_is_lossy_if_one_of_its_stages_is),
        cmocka_unit_test(a_chain_alone_is_no_list),
        cmocka_unit_test(a_tensors_own_chain_comes_before_its_layers_and_that_before_the_one_of_all_others),
        cmocka_unit_test(the_longest_beginning_of_a_tensors_name_up_to_a_dot_counts),
        cmocka_unit_test(an_invalid_list_of_workers_is_refused_with_the_entry),
        cmocka_unit_test(only_a_lossy_chain_of_servers_that_send_parameters_sends_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
