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
        cmocka_unit_test(a_checkpoint_belongs_to_one_node_and_one_codec),
        cmocka_unit_test(another_format_or_version_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
