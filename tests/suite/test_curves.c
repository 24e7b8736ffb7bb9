/* 100 training steps, each loss compared with PyTorch's (tests/reference/curves.py, which also has the
 * formulas of samples and weights).
 *
 * The bound: PyTorch computed in double, we round in float32. A step begins with weights that differ by
 * d, and ends with d' = (1 + lr c) d + lr r, c the curvature of the loss and r the rounding of a
 * gradient, about 1e-6 of it. While the loss falls, lr c is below 1 and mostly reduces d, so that d grows
 * like a sum of roundings, some 100 times 1e-6 of a step, not like a power. Adam divides by the root of
 * v, so where a gradient is only rounding its steps are as large as any other; but there the loss is
 * insensitive. relu and max_pool branch: where two values are closer than d, both programs may branch
 * differently, which moves a gradient by one sample's part. PyTorch's own float32 differs from its double
 * by 3e-7 of a loss with sgd, by 3e-6 with Adam, and by 5e-5 in a weight; ours by as much. Ten times that
 * is allowed; a mistake in a layer, in an optimizer's constants or in the order of operations exceeds
 * 1e-3 within a few steps. */
#include <math.h>

#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/choice.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

enum { N_STEPS = 100, BATCH = 64, N_SAMPLES = 640, N_IN = 784, N_CLASSES = 10, PROBE = 97 };

static const double LOSS_BOUND = 3e-5, WEIGHT_BOUND = 5e-4;

/* 32 bits for each i: MurmurHash3's finalizer. */
static uint32_t bits(uint32_t stream, size_t i)
{
    uint32_t h = (stream << 24) + (uint32_t)i;

    h ^= h >> 16;
    h *= 0x85ebca6b;
    h ^= h >> 13;
    h *= 0xc2b2ae35;
    return h ^ h >> 16;
}

static void make_samples(float *x, int32_t *labels)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        labels[i] = (int32_t)(bits(1, i) % N_CLASSES);
        for (size_t j = 0; j < N_IN; j++)
            x[i * N_IN + j] = (float)(3 * (bits(3, i * N_IN + j) >> 24) +
                                      (bits(2, (size_t)labels[i] * N_IN + j) >> 24)) /
                                  1024 -
                              0.5f;
    }
}

/* Tensor k: uniform in +-2^-e with 24 bits, 2^-e next below the root of 6 / (first and last dimension). */
static void make_weights(struct net *net)
{
    const struct tensor_view *t;
    size_t n = net_tensors(net, &t);

    for (size_t k = 0; k < n; k++) {
        float *w = net_params(net) + ((const float *)t[k].data - net_params(net));
        double both = (double)(t[k].shape[0] + t[k].shape[t[k].n_dims - 1]);
        double bound = t[k].n_dims > 1 ? exp2(floor(log2(sqrt(6 / both)))) : 0;

        for (size_t i = 0; i < tensor_count(&t[k]); i++)
            w[i] = (float)(((double)(bits(16 + (uint32_t)k, i) >> 8) / 0x1p23 - 1) * bound);
    }
}

static struct net *net_of(const struct tensor_file *f)
{
    const char *text = tensor_file_meta(f, "model");
    struct model_spec spec;
    struct net *net;
    json_t *doc;
    struct err e;

    assert_non_null(text);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    assert_ok(net_new(&net, &spec, BATCH, &e));
    model_spec_clear(&spec);
    json_decref(doc);
    return net;
}

static void check_weights(const char *name, struct net *net, const struct tensor_view *theirs)
{
    for (size_t i = 0; i < tensor_count(theirs); i++) {
        double ours = (double)net_params(net)[i * PROBE], wanted = (double)((const float *)theirs->data)[i];

        if (!(fabs(ours - wanted) <= WEIGHT_BOUND))
            fail_msg("%s: after %d steps weight %zu is %.8g, PyTorch's is %.8g", name, N_STEPS, i * PROBE,
                     ours, wanted);
    }
}

static void follow(const char *name)
{
    const struct tensor_view *losses, *weights;
    struct tensor_file f;
    struct optimizer *o;
    struct net *net;
    char path[128];
    float *x = malloc(sizeof *x * N_SAMPLES * N_IN);
    int32_t labels[N_SAMPLES];
    float lr;
    int kind;
    struct err e;

    snprintf(path, sizeof path, "tests/reference/curves/%s.safetensors", name);
    assert_ok(tensor_file_open(&f, path, &e));
    losses = tensor_file_find(&f, "losses");
    weights = tensor_file_find(&f, "weights");
    assert_true(x && losses && tensor_count(losses) == N_STEPS && weights);
    net = net_of(&f);
    assert_int_equal(tensor_count(weights), (net_n_params(net) + PROBE - 1) / PROBE);
    lr = (float)atof(tensor_file_meta(&f, "learn_rate"));
    kind = choice_find(OPTIMIZER_CHOICES, tensor_file_meta(&f, "gradient_descent"));
    assert_true(kind >= 0);
    assert_ok(optimizer_new(&o, &(struct optimizer_config){.kind = (enum optimizer_kind)kind},
                            net_n_trained(net), &e));
    make_samples(x, labels);
    make_weights(net);
    for (size_t step = 0; step < N_STEPS; step++) {
        size_t at = step * BATCH % N_SAMPLES;
        struct net_batch b = {.x = x + at * N_IN, .truth = {.labels = labels + at}, .n = BATCH};
        double wanted = (double)((const float *)losses->data)[step];
        struct net_score s = {0};

        net_train(net, &b, &s);
        if (!(fabs(s.loss / (double)BATCH - wanted) <= LOSS_BOUND * wanted))
            fail_msg("%s: the loss of step %zu is %.8g, PyTorch's is %.8g", name, step,
                     s.loss / (double)BATCH, wanted);
        optimizer_step(o, net_params(net), net_grads(net), lr, 1);
    }
    check_weights(name, net, weights);
    optimizer_free(o);
    net_free(net);
    free(x);
    tensor_file_close(&f);
}

TEST(the_tutorial_network_follows_pytorch_with_sgd)
{
    follow("mlp-tutorial-sgd");
}

TEST(the_tutorial_network_follows_pytorch_with_adam)
{
    follow("mlp-tutorial-adam");
}

TEST(the_ray_convnet_follows_pytorch_with_sgd)
{
    follow("convnet-ray-sgd");
}

TEST(the_ray_convnet_follows_pytorch_with_adam)
{
    follow("convnet-ray-adam");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tutorial_network_follows_pytorch_with_sgd),
        cmocka_unit_test(the_tutorial_network_follows_pytorch_with_adam),
        cmocka_unit_test(the_ray_convnet_follows_pytorch_with_sgd),
        cmocka_unit_test(the_ray_convnet_follows_pytorch_with_adam),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
