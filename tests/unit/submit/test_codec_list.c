#include "submit/compat/codec_list.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

static struct err e;

/* Layers 0, 2 and 3 have parameters. */
static void parse_model(struct model_spec *m)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"m\", \"input\": [2], \"layers\": [{\"kind\": \"dense\", \"units\": 3}, "
        "{\"kind\": \"tanh\"}, {\"kind\": \"batch_norm\"}, {\"kind\": \"dense\", \"units\": 2}], \"loss\": "
        "\"softmax_cross_entropy\"}";
    json_t *doc;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(m, doc, &e));
    json_decref(doc);
}

static int read_list(struct codec_list *l, const char *text)
{
    const char *build = getenv("BUILD");
    struct model_spec m;
    char path[512];
    int rc;

    snprintf(path, sizeof path, "%s/codecs", build ? build : "build");
    setenv("PSGD_CODEC_PATH", path, 1);
    parse_model(&m);
    rc = codec_list_read(l, text, &m, &e);
    model_spec_clear(&m);
    return rc;
}

TEST(a_comma_between_parameters_makes_no_list)
{
    assert_true(codec_list_is_one("plain,tern,sgq"));
    assert_true(codec_list_is_one("topk:ratio=0.1,ef=true,plain"));
    assert_true(codec_list_is_one("{\"*\": \"plain\"}"));
    assert_false(codec_list_is_one("plain"));
    assert_false(codec_list_is_one("easgd:alpha=0.3,every=10"));
    assert_false(codec_list_is_one("my,folder/x.c"));
    assert_false(codec_list_is_one("a,b.c"));
}

TEST(a_list_of_codecs_is_a_rule_and_a_chain_for_each_layer)
{
    static const struct {
        const char *text, *codec, *up, *down, *first;
    } cases[] = {
        /* The last layer's entry comes first. */
        {"plain,tern,low", "doublesqueeze", "layer3=none;layer2=tern;layer0=fp16",
         "layer3=none;layer2=none;layer0=fp16", "low"},
        {"ps,low,quantization", "ps", "layer3=none;layer2=fp16;layer0=qsgd:bits=4,ef=true",
         "layer3=none;layer2=fp16;layer0=qsgd:bits=4,ef=true", "quantization"},
        {"low,low,low", "doublesqueeze", "layer3=fp16;layer2=fp16;layer0=fp16",
         "layer3=fp16;layer2=fp16;layer0=fp16", "low"},
        {"plain,plain,plain", "plain", "", "", "plain"},
        {"plain,allreduce,plain", "doublesqueeze", "", "", "plain"},
        {"tern,none,fp16", "doublesqueeze", "layer3=tern;layer2=none;layer0=fp16", "", "fp16"},
        {"plain,topk:ratio=0.1,ef=true|huffman,sgq:bits=4", "plain",
         "layer3=none;layer2=topk:ratio=0.1,ef=true|huffman;layer0=sgq:bits=4", "", "sgq:bits=4"},
        {"fedpaq:every=5,fp16,fedpaq:every=5", "fedpaq:every=5", "layer3=none;layer2=fp16;layer0=none", "",
         "fedpaq:every=5"},
        {"{\"layer3\": \"plain\", \"layer0.dense.weight\": \"tern\", \"*\": \"fp16\"}", "plain",
         "layer3=none;layer0.dense.weight=tern;*=fp16", "", "tern"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct codec_list l;

        assert_ok(read_list(&l, cases[i].text));
        assert_string_equal(l.codec, cases[i].codec);
        assert_string_equal(l.compress, cases[i].up);
        assert_string_equal(l.compress_down, cases[i].down);
        assert_int_equal(json_object_size(l.entries), 3);
        assert_string_equal(json_string_value(json_object_get(l.entries, "layer0")), cases[i].first);
        codec_list_clear(&l);
    }
}

static int read_list_of_program(struct codec_list *l, const char *text)
{
    static const char program[] =
        "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": [{\"name\": "
        "\"encoder.layers.0.weight\", \"shape\": [2]}, {\"name\": \"head.bias\", \"shape\": [2]}]}";
    struct model_spec m;
    json_t *doc;
    int rc;

    assert_ok(json_parse(&doc, program, strlen(program), "model", &e));
    assert_ok(model_spec_parse(&m, doc, &e));
    json_decref(doc);
    rc = codec_list_read(l, text, &m, &e);
    model_spec_clear(&m);
    return rc;
}

TEST(a_list_for_a_training_program_names_its_tensors_or_the_modules_that_they_are_of)
{
    struct codec_list l;

    assert_ok(read_list_of_program(&l, "{\"encoder.layers.0\": \"tern\", \"*\": \"plain\"}"));
    assert_string_equal(l.compress, "encoder.layers.0=tern;*=none");
    assert_int_equal(json_object_size(l.entries), 2);
    assert_string_equal(json_string_value(json_object_get(l.entries, "encoder.layers.0")), "tern");
    codec_list_clear(&l);
    assert_int_equal(read_list_of_program(&l, "plain,tern"), ERR_CONFIG);
    assert_error_has("--codec: train.py has tensors and no layers, so a list must have names");
    assert_int_equal(read_list_of_program(&l, "{\"encoder.layers\": \"plain\"}"), ERR_CONFIG);
    assert_error_has("the list has no entry for head.bias, and none for *");
    assert_int_equal(read_list_of_program(&l, "{\"decoder\": \"plain\", \"*\": \"plain\"}"), ERR_CONFIG);
    assert_error_has("model \"train.py\" has no layer or tensor \"decoder\" with parameters");
    assert_string_equal(e.hint, "Its tensors have their names in the program, as encoder.layers.0.weight.");
}

TEST(an_invalid_list_of_codecs_is_refused_with_the_layer)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"plain,tern", "--codec: 2 entries, and model \"m\" has 3 layers with parameters"},
        {"plain,fedavg,plain", "layer2: plain and fedavg are two rules"},
        {"fedavg:every=2,fedavg:every=3,none", "layer2: fedavg:every=2 and fedavg:every=3 are two rules"},
        {"plain,plain,adam_gradiff", "layer0: adam_gradiff sets --gradient-descent=adam for the whole job"},
        {"plain,plain,binary:x=1", "layer0: binary:x=1: binary is a name for a rule with compressors"},
        {"plain,tren,plain", "layer2: unknown codec \"tren\""},
        {"plain,tern:alhpa=fit,plain", "layer2: tern: "},
        {"{\"layer0\": \"plain\"}", "the list has no entry for layer2.batch_norm.gain"},
        {"{\"layer1\": \"plain\", \"*\": \"plain\"}", "no layer or tensor \"layer1\" with parameters"},
        {"{\"layer\": \"plain\", \"*\": \"plain\"}", "no layer or tensor \"layer\" with parameters"},
        {"{\"layer0\": 3, \"*\": \"plain\"}", "layer0: not the name of a codec, in quotes"},
        {"{\"a=b\": \"plain\", \"*\": \"plain\"}", "\"a=b\" is not the name of a layer"},
        {"{}", "no layer is in the list"},
        {"{\"*\": ", "--codec: the list:"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct codec_list l;

        assert_true(read_list(&l, cases[i].text) < 0);
        assert_error_has(cases[i].why);
        assert_null(l.entries);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comma_between_parameters_makes_no_list),
        cmocka_unit_test(a_list_of_codecs_is_a_rule_and_a_chain_for_each_layer),
        cmocka_unit_test(a_list_for_a_training_program_names_its_tensors_or_the_modules_that_they_are_of),
        cmocka_unit_test(an_invalid_list_of_codecs_is_refused_with_the_layer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
