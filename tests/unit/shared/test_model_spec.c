#include "shared/job/model_spec.h"

#include "submit/data/data_open.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define MODEL(input, layers)                                                                                 \
    "{\"version\": 1, \"name\": \"m\", \"input\": " input ", \"layers\": " layers                            \
    ", \"loss\": \"softmax_cross_entropy\"}"
#define DENSE(n) "{\"kind\": \"dense\", \"units\": " #n "}"

static int parse(struct model_spec *m, const char *text, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, strlen(text), "model", e) < 0)
        return e->code;
    rc = model_spec_parse(m, doc, e);
    json_decref(doc);
    return rc;
}

/* A data set of bytes with labels. */
static int fits(const struct model_spec *m, int n_in, int n_classes, struct err *e)
{
    static int32_t label;
    struct dataset d = {.shape = {.n_dims = 1, .dim = {n_in}},
                        .x_type = TENSOR_U8,
                        .n_classes = n_classes,
                        .train_y = &label};

    return data_fits_model(m, &d, e);
}

TEST(layer_widths_are_propagated_and_parameters_counted)
{
    struct model_spec m;
    struct err e;

    assert_ok(parse(&m, MODEL("[28, 28]", "[" DENSE(128) ", {\"kind\": \"tanh\"}, " DENSE(10) "]"), &e));
    assert_int_equal(m.n_in, 784);
    assert_int_equal(m.n_out, 10);
    assert_int_equal(m.n_layers, 3);
    assert_int_equal(m.layers[1].kind, LAYER_TANH);
    assert_int_equal(m.layers[1].n_in, 128);
    assert_int_equal(m.layers[1].n_out, 128);
    assert_int_equal(m.layers[2].n_in, 128);
    assert_int_equal(m.n_params, 784 * 128 + 128 + 128 * 10 + 10);
    model_spec_clear(&m);
}

TEST(weights_default_to_glorot)
{
    struct model_spec m;
    struct err e;

    assert_ok(parse(
        &m, MODEL("[2]", "[" DENSE(3) ", {\"kind\": \"dense\", \"units\": 2, \"init\": \"zeros\"}]"), &e));
    assert_int_equal(m.layers[0].tensors[0].init, INIT_GLOROT_UNIFORM);
    assert_int_equal(m.layers[1].tensors[0].init, INIT_ZEROS);
    model_spec_clear(&m);
}

/* "NAME (DIM, ...)xN@OFFSET" */
static void assert_tensor(const struct model_tensor *t, const char *expected)
{
    char text[200];
    int n = snprintf(text, sizeof text, "%s (", t->name);

    for (int i = 0; i < t->n_dims; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%zu", i ? ", " : "", t->shape[i]);
    snprintf(text + n, sizeof text - (size_t)n, ")x%zu@%zu%s", t->n, t->offset,
             t->is_statistic ? " statistic" : "");
    assert_string_equal(text, expected);
}

TEST(the_tensors_of_layers_are_listed_layer_by_layer_with_statistics_behind_all_others)
{
    struct model_spec m;
    struct err e;

    assert_ok(parse(
        &m, MODEL("[2]", "[" DENSE(3) ", {\"kind\": \"tanh\"}, {\"kind\": \"batch_norm\"}, " DENSE(2) "]"),
        &e));
    assert_false(m.has_trainer);
    assert_int_equal(m.n_tensors, 8);
    assert_tensor(&m.tensors[0], "layer0.dense.weight (2, 3)x6@0");
    assert_tensor(&m.tensors[1], "layer0.dense.bias (3)x3@6");
    assert_tensor(&m.tensors[2], "layer2.batch_norm.gain (3)x3@9");
    assert_tensor(&m.tensors[4], "layer2.batch_norm.running_mean (3)x3@23 statistic");
    assert_tensor(&m.tensors[5], "layer2.batch_norm.running_var (3)x3@26 statistic");
    assert_ptr_equal(model_spec_tensor(&m, 3, 1), &m.tensors[7]);
    assert_tensor(&m.tensors[7], "layer3.dense.bias (2)x2@21");
    model_spec_clear(&m);
    assert_null(m.tensors);
    model_spec_clear(&m);
}

#define RESIDUAL(layers) "{\"kind\": \"residual\", \"layers\": " layers "}"
#define EMBEDDING        "{\"kind\": \"embedding\", \"vocab\": 5, \"units\": 4}"
#define HEAD             "{\"kind\": \"head\", \"tied\": 0}"
#define TOKENS(layers)                                                                                       \
    "{\"version\": 1, \"name\": \"m\", \"input\": [3], \"layers\": " layers                                  \
    ", \"loss\": \"token_cross_entropy\"}"

TEST(a_residual_block_lies_flat_between_a_residual_and_a_sum)
{
    static const enum layer_kind kinds[] = {LAYER_EMBEDDING, LAYER_RESIDUAL, LAYER_RMS_NORM, LAYER_ATTENTION,
                                            LAYER_SUM,       LAYER_TANH,     LAYER_HEAD};
    static const char *const places[] = {"0", "1", "1.0", "1.1", "1", "2", "3"};
    struct model_spec m;
    char place[24];
    struct err e;

    assert_ok(parse(&m,
                    TOKENS("[" EMBEDDING ", " RESIDUAL("[{\"kind\": \"rms_norm\"}, {\"kind\": \"attention\", "
                                                       "\"heads\": 2, \"bias\": false}]") //
                           ", {\"kind\": \"tanh\"}, " HEAD "]"),
                    &e));
    assert_int_equal(m.n_layers, N_OF(kinds));
    for (int i = 0; i < m.n_layers; i++) {
        assert_int_equal(m.layers[i].kind, kinds[i]);
        assert_string_equal(layer_spec_place(place, &m.layers[i]), places[i]);
    }
    assert_int_equal(m.layers[1].partner, 3);
    assert_int_equal(m.layers[4].partner, -3);
    assert_int_equal(m.layers[0].partner, 6);
    assert_int_equal(m.layers[6].partner, -6);
    assert_int_equal(m.n_tensors, 4); /* the head's tensor is the embedding's */
    assert_tensor(&m.tensors[0], "layer0.embedding.weight (5, 4)x20@0");
    assert_tensor(&m.tensors[1], "layer1.0.rms_norm.gain (4)x4@20");
    assert_tensor(&m.tensors[3], "layer1.1.attention.output_weight (4, 4)x16@72");
    assert_int_equal(m.n_out, 15);
    assert_int_equal(model_spec_labels(&m), 3);
    assert_int_equal(model_spec_classes(&m), 5);
    model_spec_clear(&m);
}

#define PROGRAM(tensors)                                                                                     \
    "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": " tensors "}"

TEST(a_training_programs_model_has_its_tensors_and_nothing_else)
{
    struct model_spec *m;
    json_t *doc;
    struct err e;

    doc = json_loads(PROGRAM("[{\"name\": \"encoder.layers.0.attn.in_proj_weight\", \"shape\": [6, 2]}, "
                             "{\"name\": \"bn.running_mean\", \"shape\": [2], \"statistic\": true}, "
                             "{\"name\": \"scale\", \"shape\": []}, "
                             "{\"name\": \"c\", \"shape\": [1, 2, 1, 2, 1, 1, 1, 3], \"statistic\": false}], "
                             "\"frozen\": {\"base.weight\": 4294967295, \"base.bias\": 0}"),
                     0, NULL);
    assert_ok(model_spec_new(&m, doc, &e));
    json_decref(doc);
    assert_true(m->has_trainer);
    assert_string_equal(m->name, "train.py");
    assert_int_equal(m->n_layers, 0);
    assert_int_equal(m->n_in, 0);
    assert_int_equal(m->n_out, 0);
    assert_int_equal(model_spec_vocab(m), 0);
    assert_int_equal(m->n_trained, 12 + 1 + 12);
    assert_int_equal(m->n_params, 27);
    assert_int_equal(m->n_tensors, 4);
    assert_tensor(&m->tensors[0], "encoder.layers.0.attn.in_proj_weight (6, 2)x12@0");
    assert_tensor(&m->tensors[1], "bn.running_mean (2)x2@25 statistic");
    assert_tensor(&m->tensors[2], "scale ()x1@12");
    assert_tensor(&m->tensors[3], "c (1, 2, 1, 2, 1, 1, 1, 3)x12@13");
    assert_int_equal(m->n_frozen, 2);
    assert_string_equal(m->frozen[0].name, "base.weight");
    assert_true(m->frozen[0].checksum == UINT32_MAX && m->frozen[1].checksum == 0);
    model_spec_free(m);
    model_spec_free(NULL);
}

#define LONG_NAME                                                                                            \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"   \
    "012345678901234567890123456"

TEST(an_invalid_model_of_a_training_program_is_refused_with_its_path)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"trainer\": true}", "/version: missing"},
        {"{\"version\": 1, \"trainer\": true}", "/name: missing"},
        {"{\"version\": 1, \"name\": \"a\\u001b[2J\", \"trainer\": true}",
         "/name: contains a control character"},
        {"{\"version\": 1, \"name\": \"t\", \"trainer\": true}", "/tensors: missing"},
        {"{\"version\": 1, \"name\": \"t\", \"trainer\": false, \"tensors\": []}", "/trainer: not true"},
        {"{\"version\": 1, \"name\": \"t\", \"trainer\": true, \"tensors\": [], \"layers\": []}",
         "/layers: unknown key"},
        {PROGRAM("{}"), "/tensors: not an array"},
        {PROGRAM("[]"), "/tensors: 0 tensors, expected 1 to 4096"},
        {PROGRAM("[3]"), "/tensors/0: not an object"},
        {PROGRAM("[{\"shape\": [1]}]"), "/tensors/0/name: missing"},
        {PROGRAM("[{\"name\": \"\", \"shape\": [1]}]"), "/tensors/0/name: empty"},
        {PROGRAM("[{\"name\": \"a\\nb\", \"shape\": [1]}]"), "/tensors/0/name: contains a control character"},
        {PROGRAM("[{\"name\": \"" LONG_NAME "7\", \"shape\": [1]}]"),
         "/tensors/0/name: longer than 127 characters"},
        {PROGRAM("[{\"name\": \"__metadata__\", \"shape\": [1]}]"),
         "/tensors/0/name: \"__metadata__\" is no tensor's name"},
        {PROGRAM("[{\"name\": \"w\"}]"), "/tensors/0/shape: missing"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": 3}]"), "/tensors/0/shape: not an array"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 1]}]"),
         "/tensors/0/shape: 9 dimensions, at most 8"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2, 0]}]"), "/tensors/0/shape/1: not an integer from 1 to"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [-1]}]"), "/tensors/0/shape/0: not an integer from 1 to"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2.0]}]"), "/tensors/0/shape/0: not an integer from 1 to"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [1073741825]}]"),
         "/tensors/0/shape/0: not an integer from 1 to 1073741824"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [1073741824, 1073741824, 1073741824]}]"),
         "/tensors/0: \"w\" has more than 1073741824 values"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [1073741824]}, {\"name\": \"b\", \"shape\": []}]"),
         "/tensors/1: 1073741825 parameters up to here, at most 1073741824"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2], \"statistic\": 1}]"),
         "/tensors/0/statistic: neither true nor false"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2], \"state\": true}]"), "/tensors/0/state: unknown key"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}, {\"name\": \"v\", \"shape\": [2]}, "
                 "{\"name\": \"w\", \"shape\": [2]}]"),
         "/tensors/2/name: \"w\" is the name of an earlier tensor, too"},
        {PROGRAM("[{\"name\": \"m\", \"shape\": [2], \"statistic\": true}]"),
         "/tensors: all are statistics, so there is nothing to train"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": []"), "/frozen: not an object"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": {\"\": 1}"), "/frozen: a name is empty"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": {\"" LONG_NAME "7\": 1}"),
         "/frozen: a name is empty, longer than 127 bytes"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": {\"a\": -1}"),
         "/frozen/a: not an integer from 0 to 2^32 - 1"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": {\"a\": 4294967296}"),
         "/frozen/a: not an integer"},
        {PROGRAM("[{\"name\": \"w\", \"shape\": [2]}], \"frozen\": {\"a\": true}"),
         "/frozen/a: not an integer"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct model_spec m;
        struct err e;

        assert_int_equal(parse(&m, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        assert_null(m.tensors);
        assert_null(m.frozen);
    }
}

TEST(frozen_tensors_count_among_those_that_a_model_may_have)
{
    json_t *frozen = json_object(), *doc;
    struct model_spec m;
    struct err e;

    for (int i = 0; i < MODEL_TENSORS_MAX; i++) {
        char name[16];

        snprintf(name, sizeof name, "t%d", i);
        json_object_set_new(frozen, name, json_integer(i));
    }
    doc = json_pack("{s:i, s:s, s:b, s:[{s:s, s:[i]}], s:o}", "version", 1, "name", "t", "trainer", 1,
                    "tensors", "name", "w", "shape", 2, "frozen", frozen);
    assert_int_equal(model_spec_parse(&m, doc, &e), ERR_CONFIG);
    assert_error_has("/frozen: 4096 tensors, with the 1 others at most 4096");
    json_object_del(frozen, "t0");
    assert_ok(model_spec_parse(&m, doc, &e));
    model_spec_clear(&m);
    json_decref(doc);
}

/* Names of which each character is escaped, and shapes of eight dimensions. */
TEST(the_longest_document_of_a_training_program_fits_its_maximum)
{
    json_t *doc = json_pack("{s:i, s:s, s:b, s:[]}", "version", 1, "name", "train.py", "trainer", 1,
                            "tensors");
    json_t *tensors = json_object_get(doc, "tensors");
    char name[MODEL_TENSOR_NAME], *text;
    struct model_spec m;
    struct err e;

    memset(name, '"', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < MODEL_TENSORS_MAX; i++) {
        for (int bit = 0; bit < 12; bit++)
            name[bit] = i >> bit & 1 ? '\\' : '"';
        json_array_append_new(tensors, json_pack("{s:s, s:[iiiiiiii], s:b}", "name", name, "shape", 1, 1, 1,
                                                 1, 1, 1, 1, 262144, "statistic", i > 0));
    }
    text = json_dump(doc, JSON_COMPACT);
    assert_in_range(strlen(text), 1, MODEL_DOCUMENT_MAX);
    assert_ok(parse(&m, text, &e));
    assert_int_equal(m.n_params, MODEL_PARAMS_MAX);
    assert_int_equal(m.n_tensors, MODEL_TENSORS_MAX);
    model_spec_clear(&m);
    json_array_append_new(tensors, json_pack("{s:s, s:[]}", "name", "one", "shape"));
    assert_int_equal(model_spec_parse(&m, doc, &e), ERR_CONFIG);
    assert_error_has("/tensors: 4097 tensors, expected 1 to 4096");
    free(text);
    json_decref(doc);
}

TEST(errors_are_reported_with_their_path)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{}", "/version: missing"},
        {"[]", "not an object"},
        {"{\"version\": 2}", "/version: 2 is not between 1 and 1"},
        {MODEL("[784]", "[]"), "/layers: 0 layers"},
        {MODEL("[784]", "{}"), "/layers: not an array"},
        {MODEL("784", "[" DENSE(1) "]"), "/input: not an array"},
        {MODEL("[]", "[" DENSE(1) "]"), "/input: 0 dimensions"},
        {MODEL("[0]", "[" DENSE(1) "]"), "/input/0: not an integer from 1 to"},
        {MODEL("[2, 2.5]", "[" DENSE(1) "]"), "/input/1: not an integer from 1 to"},
        {MODEL("[1000000, 1000000]", "[" DENSE(1) "]"), "/input: 1000000000000 values"},
        {MODEL("[784]", "[3]"), "/layers/0: not an object"},
        {MODEL("[784]", "[{\"units\": 3}]"), "/layers/0/kind: missing"},
        {MODEL("[784]", "[{\"kind\": \"dens\"}]"),
         "/layers/0/kind: \"dens\" is unknown; did you mean \"dense\"?"},
        {MODEL("[784]", "[{\"kind\": \"xyzzy\"}]"),
         "/layers/0/kind: \"xyzzy\" is unknown; there are: dense, conv2d, max_pool"},
        {MODEL("[784]", "[" DENSE(3) ", {\"kind\": \"dense\"}]"), "/layers/1/units: missing"},
        {MODEL("[784]", "[" DENSE(0) "]"), "/layers/0/units: 0 is not between 1 and"},
        {MODEL("[784]", "[{\"kind\": \"dense\", \"unit\": 3}]"),
         "/layers/0/unit: unknown key; did you mean \"units\"?"},
        {MODEL("[784]", "[{\"kind\": \"tanh\", \"units\": 3}]"), "/layers/0/units: unknown key"},
        {MODEL("[784]", "[{\"kind\": \"dense\", \"units\": 3, \"init\": \"zero\"}]"),
         "did you mean \"zeros\"?"},
        {MODEL("[784]", "[{\"kind\": \"tanh\"}]"), "no layer has parameters"},
        {MODEL("[1048576]", "[" DENSE(1048576) "]"), "/layers/0: \"weight\" has more than 1073741824 values"},
        {"{\"version\": 1, \"name\": \"m\", \"input\": [1], \"layers\": [" DENSE(
             1) "], \"loss\": \"softmax\"}",
         "/loss: \"softmax\""},
        {"{\"version\": 1, \"name\": \"m\", \"input\": [1], \"layers\": [" DENSE(1) "]}", "/loss: missing"},
        {MODEL("[4]", "[" RESIDUAL("3") "]"), "/layers/0/layers: not an array"},
        {MODEL("[4]", "[{\"kind\": \"residual\"}]"), "/layers/0/layers: missing"},
        {MODEL("[4]", "[" RESIDUAL("[]") "]"), "/layers/0/layers: no layers"},
        {MODEL("[4]", "[" RESIDUAL("[{\"kind\": \"dens\"}]") "]"), "/layers/0/layers/0/kind: \"dens\""},
        {MODEL("[4]", "[" RESIDUAL("[" RESIDUAL("[" DENSE(4) "]") "]") "]"),
         "/layers/0/layers/0: a residual block in a residual block"},
        {MODEL("[4]", "[" RESIDUAL("[" DENSE(3) "]") "]"),
         "/layers/0: its layers turn (4) into (3), which cannot be added"},
        {MODEL("[4]", "[{\"kind\": \"sum\"}]"), "/layers/0/kind: \"sum\" is unknown"},
        {MODEL("[4]", "[{\"kind\": \"dense\", \"units\": 3, \"positionwise\": true}]"),
         "/layers/0: dense takes sequences (time, values) if positionwise, its input is (4)"},
        {MODEL("[4]", "[{\"kind\": \"dense\", \"units\": 3, \"bias\": 0}]"), "/layers/0/bias: neither true"},
        {MODEL("[2, 4]", "[{\"kind\": \"attention\", \"heads\": 3}]"),
         "/layers/0/heads: 3 heads do not divide the input's 4 values"},
        {MODEL("[3, 4]", "[{\"kind\": \"position_embedding\", \"positions\": 2}]"),
         "/layers/0/positions: 2 is not between 3 and"},
        {MODEL("[2, 4]", "[" HEAD "]"), "/layers/0/tied: layer 0 is no embedding"},
        {TOKENS("[" EMBEDDING ", {\"kind\": \"head\", \"tied\": 1}]"),
         "/layers/1/tied: layer 1 is no embedding"},
        {TOKENS("[" EMBEDDING ", " HEAD ", " HEAD "]"), "/layers/2/tied: an earlier head is tied to layer 0"},
        {TOKENS("[" EMBEDDING ", {\"kind\": \"dense\", \"units\": 3, \"positionwise\": true}, " HEAD "]"),
         "/layers/2: its input has 3 values a step, the embedding 4"},
        {TOKENS("[" EMBEDDING ", " DENSE(3) "]"),
         "/loss: token_cross_entropy needs outputs (time, classes), the last layer has (3)"},
        {TOKENS("[" EMBEDDING ", {\"kind\": \"dense\", \"units\": 1, \"positionwise\": true}]"),
         "/loss: token_cross_entropy needs two or more outputs a step"},
        {"{\"version\": 1, \"name\": \"m\", \"input\": [1], \"layer\": []}", "did you mean \"layers\"?"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct model_spec m;
        struct err e;

        assert_int_equal(parse(&m, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

TEST(a_wrong_loss_width_and_control_characters_are_refused)
{
    struct model_spec *m = malloc(sizeof *m);
    struct err e;

    assert_non_null(m);
    assert_int_equal(parse(m, MODEL("[2]", "[" DENSE(1) "]"), &e), ERR_CONFIG);
    assert_error_has("/loss: softmax_cross_entropy needs two or more outputs, the last layer has one");
    assert_int_equal(parse(m, "{\"version\": 1, \"name\": \"a\\u001b[2J\"}", &e), ERR_CONFIG);
    assert_error_has("/name: contains a control character");
    assert_int_equal(parse(m, "{\"version\": 1, \"name\": \"a\\u009b2J\"}", &e), ERR_CONFIG);
    assert_error_has("/name: contains a control character");
    free(m);
}

TEST(too_many_layers_are_refused)
{
    json_t *doc = json_pack("{s:i, s:s, s:[i], s:[], s:s}", "version", 1, "name", "m", "input", 1, "layers",
                            "loss", "softmax_cross_entropy");
    struct model_spec m;
    struct err e;

    for (int i = 0; i <= MODEL_LAYERS_MAX; i++)
        json_array_append_new(json_object_get(doc, "layers"),
                              json_pack("{s:s, s:i}", "kind", "dense", "units", 1));
    assert_int_equal(model_spec_parse(&m, doc, &e), ERR_CONFIG);
    assert_error_has("/layers: 257 layers, expected 1 to 256");
    json_decref(doc);
}

TEST(a_model_must_match_the_data)
{
    struct model_spec m;
    struct err e;

    assert_ok(parse(&m, MODEL("[784]", "[" DENSE(10) "]"), &e));
    assert_ok(fits(&m, 784, 10, &e));
    assert_int_equal(fits(&m, 3072, 10, &e), ERR_CONFIG);
    assert_error_has("takes 784 values per sample, the data set has 3072");
    assert_int_equal(fits(&m, 784, 100, &e), ERR_CONFIG);
    assert_error_has("ends with 10 outputs, the data set has 100 classes");
    model_spec_clear(&m);
}

static void read_bundled(struct model_spec *m, const char *name)
{
    char path[256];
    json_t *doc;
    struct err e;

    snprintf(path, sizeof path, "nn/models/%s.json", name);
    assert_ok(json_read(&doc, path, 1 << 16, &e));
    assert_ok(model_spec_parse(m, doc, &e));
    assert_string_equal(m->name, name);
    json_decref(doc);
}

TEST(the_bundled_models_match_their_names)
{
    static const struct {
        const char *name;
        size_t n_params;
    } models[] = {
        {"softmax", 7850},
        {"mlp-tutorial", 784 * 128 + 128 + 128 * 128 + 128 + 1290},
        {"mlp-relu", 784 * 512 + 512 + 512 * 512 + 512 + 5130},
        {"mlp-default", 2 * (784 * 784 + 784) + 784 * 392 + 392 + 392 * 196 + 196 + 196 * 128 + 128 + 1290},
        {"convnet-ray", 3 * 9 + 3 + 192 * 10 + 10},
        {"lenet", 32 * 9 + 32 + 64 * 32 * 9 + 64 + 9216 * 128 + 128 + 1290},
    };

    for (size_t i = 0; i < N_OF(models); i++) {
        struct model_spec m;
        struct err e;

        read_bundled(&m, models[i].name);
        assert_int_equal(m.n_params, models[i].n_params);
        assert_ok(fits(&m, 784, 10, &e));
        model_spec_clear(&m);
    }
}

/* Krizhevsky et al. 2012, Figure 2, in one part instead of two. */
TEST(alexnet_has_the_images_and_the_parameters_of_its_paper)
{
    static const struct {
        enum layer_kind kind;
        int side, channels;
        size_t n_params;
    } images[] = {
        {LAYER_CONV2D, 55, 96, 11 * 11 * 3 * 96 + 96},   {LAYER_MAX_POOL, 27, 96, 0},
        {LAYER_CONV2D, 27, 256, 5 * 5 * 96 * 256 + 256}, {LAYER_MAX_POOL, 13, 256, 0},
        {LAYER_CONV2D, 13, 384, 9 * 256 * 384 + 384},    {LAYER_CONV2D, 13, 384, 9 * 384 * 384 + 384},
        {LAYER_CONV2D, 13, 256, 9 * 384 * 256 + 256},    {LAYER_MAX_POOL, 6, 256, 0},
    };
    size_t n_params = (9216 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 1000, k = 0;
    struct model_spec m;

    read_bundled(&m, "alexnet");
    for (int i = 0; i < m.n_layers; i++) {
        const struct layer_spec *l = &m.layers[i];

        if (l->kind != LAYER_CONV2D && l->kind != LAYER_MAX_POOL)
            continue;
        assert_true(k < N_OF(images));
        assert_int_equal(l->kind, images[k].kind);
        assert_int_equal(l->out.dim[0], images[k].side);
        assert_int_equal(l->out.dim[1], images[k].side);
        assert_int_equal(l->out.dim[2], images[k].channels);
        n_params += images[k++].n_params;
    }
    assert_int_equal(k, N_OF(images));
    assert_int_equal(n_params, 62378344);
    assert_int_equal(m.n_params, n_params);
    assert_int_equal(m.n_in, 227 * 227 * 3);
    model_spec_clear(&m);
}

/* Takes the model out of the hint, as a user would. */
static void assert_hint_fits(const struct dataset *d)
{
    struct model_spec m;
    struct err e = {0};
    char *first, *last;

    data_hint_model(d, &e);
    first = strchr(e.hint, '\'');
    last = strrchr(e.hint, '\'');
    assert_non_null(first);
    assert_true(last > first);
    *last = '\0';
    assert_ok(parse(&m, first + 1, &e));
    assert_ok(data_fits_model(&m, d, &e));
    model_spec_clear(&m);
}

TEST(the_model_of_the_hint_fits_the_data)
{
    static int32_t label;
    static float target;

    assert_hint_fits(&(struct dataset){.shape = {.n_dims = 3, .dim = {32, 32, 3}},
                                       .x_type = TENSOR_U8,
                                       .n_classes = 100,
                                       .train_y = &label});
    assert_hint_fits(&(struct dataset){
        .shape = {.n_dims = 1, .dim = {7}}, .x_type = TENSOR_F32, .n_targets = 3, .train_t = &target});
    assert_hint_fits(&(struct dataset){.shape = {.n_dims = 1, .dim = {INT16_MAX}},
                                       .x_type = TENSOR_I32,
                                       .n_classes = CLASSES_MAX,
                                       .vocab = 1000000,
                                       .train_y = &label});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_of_the_hint_fits_the_data),
        cmocka_unit_test(layer_widths_are_propagated_and_parameters_counted),
        cmocka_unit_test(weights_default_to_glorot),
        cmocka_unit_test(the_tensors_of_layers_are_listed_layer_by_layer_with_statistics_behind_all_others),
        cmocka_unit_test(a_residual_block_lies_flat_between_a_residual_and_a_sum),
        cmocka_unit_test(a_training_programs_model_has_its_tensors_and_nothing_else),
        cmocka_unit_test(an_invalid_model_of_a_training_program_is_refused_with_its_path),
        cmocka_unit_test(frozen_tensors_count_among_those_that_a_model_may_have),
        cmocka_unit_test(the_longest_document_of_a_training_program_fits_its_maximum),
        cmocka_unit_test(errors_are_reported_with_their_path),
        cmocka_unit_test(a_wrong_loss_width_and_control_characters_are_refused),
        cmocka_unit_test(too_many_layers_are_refused),
        cmocka_unit_test(a_model_must_match_the_data),
        cmocka_unit_test(the_bundled_models_match_their_names),
        cmocka_unit_test(alexnet_has_the_images_and_the_parameters_of_its_paper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
