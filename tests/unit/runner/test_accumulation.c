#include "runner/core/accumulation.h"

#include <math.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

enum { PASS = 4, PASSES = 3, SAMPLES = PASS * PASSES, N_IN = 6 };

static struct model_spec spec;
static struct settings set;
static float x[SAMPLES * N_IN];
static int32_t labels[SAMPLES];
static struct err e;

static void open_model(const char *layers)
{
    struct rng r;
    char text[512];
    json_t *doc;

    snprintf(text, sizeof text,
             "{\"version\":1,\"name\":\"m\",\"input\":[%d],\"layers\":[%s{\"kind\":\"dense\",\"units\":3}],"
             "\"loss\":\"softmax_cross_entropy\"}",
             N_IN, layers);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    json_decref(doc);
    rng_init(&r, 1, 2, 3);
    for (size_t i = 0; i < SAMPLES * N_IN; i++)
        x[i] = rng_normal(&r);
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (int32_t)rng_below(&r, 3);
    settings_default(&set);
}

/* The gradient of all samples in passes of `batch`. */
static struct net *train(int batch, struct net_score *score)
{
    const struct net_batch b = {.x = x, .truth = {.labels = labels}, .n = batch, .seed = 5, .stream = 7};
    struct accumulation a;
    struct net *net;

    set.batch_size = batch;
    set.accumulate = SAMPLES / batch;
    *score = (struct net_score){0};
    assert_ok(net_new(&net, &spec, batch, &e));
    assert_ok(accumulation_open(&a, &set, &spec, &e));
    net_init(net, 1);
    accumulation_train(&a, net, &b, score);
    accumulation_close(&a);
    return net;
}

TEST(several_passes_have_the_gradient_of_one_over_all_samples_but_for_rounding)
{
    struct net_score parts, whole;
    struct net *a, *b;

    open_model("{\"kind\":\"dense\",\"units\":5},{\"kind\":\"tanh\"},");
    a = train(PASS, &parts);
    b = train(SAMPLES, &whole);
    assert_int_equal(parts.n, SAMPLES);
    assert_int_equal(parts.n_right, whole.n_right);
    assert_true(fabs(parts.loss - whole.loss) <= 1e-6 * whole.loss);
    for (size_t i = 0; i < net_n_params(a); i++)
        assert_true(fabsf(net_grads(a)[i] - net_grads(b)[i]) <= 2e-7f);
    net_free(a);
    net_free(b);
    model_spec_clear(&spec);
}

TEST(one_pass_is_that_of_the_network_to_the_bit)
{
    const struct net_batch all = {.x = x, .truth = {.labels = labels}, .n = SAMPLES, .seed = 5, .stream = 7};
    struct net_score one, score = {0};
    struct net *a, *b;

    open_model("{\"kind\":\"dense\",\"units\":5},{\"kind\":\"dropout\"},");
    a = train(SAMPLES, &one);
    assert_ok(net_new(&b, &spec, SAMPLES, &e));
    net_init(b, 1);
    net_train(b, &all, &score);
    assert_memory_equal(net_grads(a), net_grads(b), net_n_params(a) * sizeof(float));
    assert_true(one.loss == score.loss);
    net_free(a);
    net_free(b);
    model_spec_clear(&spec);
}

/* With equal samples in each pass, gradients would be equal if the same values were dropped. */
TEST(each_pass_drops_other_values)
{
    struct net_score score, first = {0};
    struct net *a, *b;

    open_model("{\"kind\":\"dropout\"},");
    for (size_t i = 1; i < PASSES; i++) {
        memcpy(x + i * PASS * N_IN, x, PASS * N_IN * sizeof *x);
        memcpy(labels + i * PASS, labels, PASS * sizeof *labels);
    }
    a = train(PASS, &score);
    assert_ok(net_new(&b, &spec, PASS, &e));
    net_init(b, 1);
    net_train(b, &(struct net_batch){.x = x, .truth = {.labels = labels}, .n = PASS, .seed = 5, .stream = 21},
              &first);
    assert_true(fabs(score.loss - PASSES * first.loss) > 1e-3);
    net_free(a);
    net_free(b);
    model_spec_clear(&spec);
}

/* Their mean, as between workers. */
TEST(running_statistics_get_the_mean_of_the_passes)
{
    struct net_score score;
    struct net *a;
    size_t n;

    open_model("{\"kind\":\"batch_norm\"},");
    a = train(PASS, &score);
    n = net_n_trained(a);
    for (size_t j = 0; j < N_IN; j++) {
        double mean = 0;

        for (size_t i = 0; i < SAMPLES; i++)
            mean += (double)x[i * N_IN + j] / SAMPLES;
        assert_true(fabs((double)net_grads(a)[n + j] - mean) <= 1e-6);
    }
    net_free(a);
    model_spec_clear(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_passes_have_the_gradient_of_one_over_all_samples_but_for_rounding),
        cmocka_unit_test(one_pass_is_that_of_the_network_to_the_bit),
        cmocka_unit_test(each_pass_drops_other_values),
        cmocka_unit_test(running_statistics_get_the_mean_of_the_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
