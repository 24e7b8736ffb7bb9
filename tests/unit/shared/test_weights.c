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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_negative_variance_is_refused_but_not_a_negative_mean),
        cmocka_unit_test(nan_is_reported_without_a_sign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
