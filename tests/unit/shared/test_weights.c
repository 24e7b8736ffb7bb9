#include "shared/records/weights.h"

#include <math.h>

#include "nn/net.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* Writes and checks weights of a small model; value 3 of the tensor whose name has this suffix is `value`. */
static int check_with(const char *tensor, float value, struct err *out)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"m\", \"input\": [5], \"layers\": [{\"kind\": \"batch_norm\"}, "
        "{\"kind\": \"dense\", \"units\": 4}], \"loss\": \"softmax_cross_entropy\"}";
    const char *folder = unit_folder();
    const struct tensor_view *tensors;
    struct model_spec m;
    struct tensor_file f;
    struct net *net;
    char path[300];
    json_t *doc;
    struct err e;
    size_t n;
    int rc;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&m, doc, &e));
    assert_ok(net_new(&net, &m, 1, &e));
    net_init(net, 1);
    n = net_tensors(net, &tensors);
    for (size_t i = 0; i < n; i++)
        if (strstr(tensors[i].name, tensor))
            net_params(net)[(const float *)tensors[i].data - net_params(net) + 3] = value;
    snprintf(path, sizeof path, "%s/weights", folder);
    assert_ok(tensor_file_write(path, tensors, n, NULL, &e));
    assert_ok(tensor_file_open(&f, path, &e));
    rc = weights_check(&f, "", &m, out);
    tensor_file_close(&f);
    net_free(net);
    model_spec_clear(&m);
    json_decref(doc);
    unit_remove(folder);
    return rc;
}

TEST(a_negative_variance_is_refused_but_not_a_negative_mean)
{
    struct err e;

    assert_ok(check_with("running_mean", -1, &e));
    assert_ok(check_with("running_var", 0, &e));
    assert_int_equal(check_with("running_var", -0.5f, &e), ERR_CONFIG);
    assert_error_has("layer0.batch_norm.running_var\": value 3 is -0.5, a variance is never negative");
}

TEST(nan_is_reported_without_a_sign)
{
    struct err e;

    assert_int_equal(check_with("running_mean", -NAN, &e), ERR_CONFIG);
    assert_error_has("value 3 is nan, not a finite float");
    assert_int_equal(check_with("running_mean", -INFINITY, &e), ERR_CONFIG);
    assert_error_has("value 3 is -inf, not a finite float");
}

/* A name of 127 characters, a number, eight dimensions; PyTorch's order of a weight's dimensions. */
static const char of_program[] =
    "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": ["
    "{\"name\": \"bn.running_var\", \"shape\": [4], \"statistic\": true}, {\"name\": \"head.weight\", "
    "\"shape\": "
    "[2, 5]}, {\"name\": \"scale\", \"shape\": []}, {\"name\": \"c\", \"shape\": [1, 2, 1, 2, 1, 1, 1, 3]}, "
    "{\"name\": "
    "\"0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.01234567"
    "89.0123456789.0123456789.012345\", \"shape\": [1]}]}";

static struct model_spec *program(void)
{
    struct model_spec *m;
    json_t *doc;
    struct err e;

    assert_ok(json_parse(&doc, of_program, strlen(of_program), "model", &e));
    assert_ok(model_spec_new(&m, doc, &e));
    json_decref(doc);
    assert_int_equal(strlen(m->tensors[4].name), MODEL_TENSOR_NAME - 1);
    return m;
}

/* Some of them are negative, a variance, too: what it means is the program's business. */
TEST(the_weights_of_a_training_program_are_read_back_from_a_file_as_they_were)
{
    const char *folder = unit_folder();
    struct model_spec *m = program();
    const struct tensor_view *tensors;
    struct net *net, *again;
    uint8_t sum[2][SHA256_BYTES];
    struct tensor_file f;
    char path[300];
    struct err e;

    assert_ok(net_new(&net, m, 1, &e));
    assert_ok(net_new(&again, m, 1, &e));
    for (size_t i = 0; i < net_n_params(net); i++)
        net_params(net)[i] = (float)i - 20.5f;
    assert_int_equal(net_tensors(net, &tensors), 5);
    snprintf(path, sizeof path, "%s/weights", folder);
    assert_ok(tensor_file_write(path, tensors, 5, NULL, &e));
    assert_ok(tensor_file_open(&f, path, &e));
    assert_ok(weights_check(&f, "", m, &e));
    assert_ok(weights_check_shapes(&f, "", m, &e));
    net_load(again, &f, "");
    assert_memory_equal(net_params(net), net_params(again), net_n_params(net) * sizeof(float));
    assert_true(weights_sha256(sum[0], m, net_params(net)));
    net_params(again)[net_n_trained(again)] = 7; /* a statistic */
    assert_true(weights_sha256(sum[1], m, net_params(again)));
    assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
    tensor_file_close(&f);
    net_free(net);
    net_free(again);
    model_spec_free(m);
    unit_remove(folder);
}

TEST(weights_that_are_not_those_of_the_training_program_are_refused_with_the_tensor)
{
    const char *folder = unit_folder();
    struct model_spec *m = program();
    struct tensor_view t[6];
    struct tensor_file f;
    float values[32] = {0};
    char path[300];
    struct err e = {0};

    const struct {
        size_t n, shape; /* tensors in the file, and rows of the second */
        const char *expected;
    } cases[] = {
        {1, 2, "tensor \"head.weight\" of shape (2, 5) is missing"},
        {6, 2, "tensor \"more\" of shape () does not belong to model \"train.py\""},
        {5, 5, "tensor \"head.weight\" has the shape (5, 2), the model's has (2, 5)"},
    };

    for (int i = 0; i < 5; i++)
        weights_view(&t[i], &m->tensors[i], values);
    t[5] = (struct tensor_view){.name = "more", .data = values};
    snprintf(path, sizeof path, "%s/weights", folder);
    for (size_t i = 0; i < N_OF(cases); i++) {
        t[1].shape[0] = cases[i].shape;
        t[1].shape[1] = 10 / cases[i].shape;
        assert_ok(tensor_file_write(path, t, cases[i].n, NULL, &e));
        assert_ok(tensor_file_open(&f, path, &e));
        assert_int_equal(weights_check(&f, "", m, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        assert_string_equal(e.hint, "");
        tensor_file_close(&f);
    }
    model_spec_free(m);
    unit_remove(folder);
}

static struct err e;

/* A file without tensors and with this metadata; NULL values are omitted. */
static void write_file(const char *folder, struct tensor_file *f, const char *format, const char *version)
{
    const struct tensor_meta meta[] = {{"node", "-2"},
                                       {"codec_sha256", "00c0dec1"},
                                       {"format", format},
                                       {version ? "version" : NULL, version},
                                       {NULL, NULL}};
    char path[256];

    assert_ok(file_join(path, sizeof path, folder, "f.safetensors", &e));
    assert_ok(tensor_file_write(path, NULL, 0, meta, &e));
    assert_ok(tensor_file_open(f, path, &e));
}

TEST(a_checkpoint_belongs_to_one_node_and_one_codec)
{
    const char *folder = unit_folder();
    struct tensor_file f;

    write_file(folder, &f, CHECKPOINT_FORMAT, CHECKPOINT_VERSION);
    assert_true(weights_is_checkpoint(&f));
    assert_ok(weights_check_node(&f, -2, &e));
    assert_int_equal(weights_check_node(&f, 2, &e), ERR_CONFIG);
    assert_error_has("it belongs to node -2, not to node 2");
    assert_ok(weights_check_codec(&f, "plain", "00c0dec1", &e));
    assert_int_equal(weights_check_codec(&f, "plain", "00c0dec2", &e), ERR_CONFIG);
    assert_error_has("another build of codec plain (SHA-256 00c0dec1, now 00c0dec2)");
    tensor_file_close(&f);
    unit_remove(folder);
}

TEST(another_format_or_version_is_refused)
{
    const char *folder = unit_folder();
    struct tensor_file f;

    write_file(folder, &f, "psgd-model", CHECKPOINT_VERSION);
    assert_false(weights_is_checkpoint(&f));
    assert_int_equal(weights_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("its format is \"psgd-model\", expected psgd-checkpoint");
    tensor_file_close(&f);
    write_file(folder, &f, CHECKPOINT_FORMAT, "1");
    assert_true(weights_is_checkpoint(&f));
    assert_int_equal(weights_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("it has version \"1\", this psgd reads 2");
    tensor_file_close(&f);
    write_file(folder, &f, CHECKPOINT_FORMAT, NULL);
    assert_int_equal(weights_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("its metadata has no \"version\"");
    tensor_file_close(&f);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_negative_variance_is_refused_but_not_a_negative_mean),
        cmocka_unit_test(nan_is_reported_without_a_sign),
        cmocka_unit_test(the_weights_of_a_training_program_are_read_back_from_a_file_as_they_were),
        cmocka_unit_test(weights_that_are_not_those_of_the_training_program_are_refused_with_the_tensor),
        cmocka_unit_test(a_checkpoint_belongs_to_one_node_and_one_codec),
        cmocka_unit_test(another_format_or_version_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
