#include "nn/net.h"

#include <math.h>

#include "nn/kernels/vecmath.h"
#include "nn/layers/layer.h"
#include "nn/metrics.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "shared/job/placement.h"
#include "tests/lib/layer_check.h"
#include "tests/unit/unit.h"

#define DENSE(n) "{\"kind\": \"dense\", \"units\": " #n "}"
#define F(kind)  "{\"kind\": \"" kind "\"}"

enum { N_IN = 7, MAX_BATCH = 8 };

/* A net on N_IN inputs with these layers, as JSON, placed for so many servers; 0: in the model's order. */
static struct net *make_placed(const char *layers, int n_servers)
{
    struct model_spec spec;
    size_t *ranges = NULL;
    char text[512];
    struct net *net;
    json_t *doc;
    struct err e;

    snprintf(text, sizeof text,
             "{\"version\": 1, \"name\": \"m\", \"input\": [%d], \"layers\": [%s], \"loss\": "
             "\"softmax_cross_entropy\"}",
             N_IN, layers);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    if (n_servers > 0)
        assert_ok(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &spec, n_servers, &e));
    assert_ok(net_new(&net, &spec, MAX_BATCH, &e));
    model_spec_clear(&spec);
    free(ranges);
    json_decref(doc);
    return net;
}

static struct net *make(const char *layers)
{
    return make_placed(layers, 0);
}

/* Inputs, labels below n_classes, and parameters that are nowhere zero. */
static void fill(struct net *net, float x[MAX_BATCH * N_IN], int32_t labels[MAX_BATCH], uint32_t n_classes)
{
    struct rng r;

    rng_init(&r, 3, 0, 0);
    for (int i = 0; i < MAX_BATCH * N_IN; i++)
        x[i] = rng_normal(&r);
    for (int i = 0; i < MAX_BATCH; i++)
        labels[i] = (int32_t)rng_below(&r, n_classes);
    for (size_t i = 0; i < net_n_params(net); i++)
        net_params(net)[i] = 0.5f * rng_normal(&r);
}

static struct net_batch batch_of(const float *x, const int32_t *labels, int n)
{
    return (struct net_batch){.x = x, .truth = {.labels = labels}, .n = n};
}

static void train(struct net *net, const float *x, const int32_t *labels, int n, struct net_score *s)
{
    struct net_batch b = batch_of(x, labels, n);

    net_train(net, &b, s);
}

static double mean_loss(struct net *net, const float *x, const int32_t *labels, int n)
{
    struct net_score s = {0};

    train(net, x, labels, n, &s);
    return s.loss / n;
}

TEST(gradients_agree_with_central_differences)
{
    static const char *const nets[] = {
        DENSE(4),
        DENSE(5) ", " DENSE(4),
        DENSE(5) ", " F("tanh") ", " DENSE(4),
        DENSE(5) ", " F("sigmoid") ", " DENSE(4),
        DENSE(9) ", " F("tanh") ", " DENSE(6) ", " F("sigmoid") ", " DENSE(4),
        F("tanh") ", " DENSE(4),                                 /* an activation on the input itself */
        DENSE(5) ", " F("tanh") ", " F("sigmoid") ", " DENSE(4), /* and one after another */
        DENSE(5) ", " F("tanh") ", " DENSE(4) ", " F("tanh"),    /* and one before the loss */
    };

    check_gradients("[7]", nets, N_OF(nets), MAX_BATCH, true);
}

/* Biases of +-4 keep each unit away from the kink at 0, where differences are meaningless. */
TEST(the_gradient_of_relu_is_right_on_both_sides_of_zero)
{
    struct check c;

    check_open(&c, "[7]", DENSE(6) ", " F("relu") ", " DENSE(4), MAX_BATCH);
    check_fill(&c);
    for (int j = 0; j < 6; j++)
        net_params(c.net)[N_IN * 6 + j] = j % 2 ? 4 : -4;
    assert_true(check_gradient(&c, MAX_BATCH) < 1e-3);
    check_close(&c);
}

TEST(parameters_and_gradients_may_be_the_callers)
{
    enum { ROOM = 1000 };
    float params[ROOM], grads[ROOM], x[MAX_BATCH * N_IN];
    int32_t labels[MAX_BATCH];
    const struct tensor_view *tensors;
    struct net *net = make(DENSE(5) ", " F("batch_norm") ", " F("tanh") ", " DENSE(4));
    struct net *same = make(DENSE(5) ", " F("batch_norm") ", " F("tanh") ", " DENSE(4));
    size_t n = net_n_params(net);

    assert_true(n < ROOM);
    fill(net, x, labels, 4);
    fill(same, x, labels, 4);
    net_use_params(net, params);
    net_use_grads(net, grads);
    assert_ptr_equal(net_params(net), params);
    assert_memory_equal(params, net_params(same), n * sizeof *params);
    for (int step = 0; step < 2; step++) {
        assert_true(mean_loss(net, x, labels, MAX_BATCH) == mean_loss(same, x, labels, MAX_BATCH));
        assert_memory_equal(grads, net_grads(same), n * sizeof *grads);
        for (size_t i = 0; i < n; i++) {
            params[i] -= 0.1f * grads[i];
            net_params(same)[i] -= 0.1f * net_grads(same)[i];
        }
    }
    assert_true(net_tensors(net, &tensors) > 0);
    assert_ptr_equal(tensors[0].data, params);
    net_free(net);
    net_free(same);
}

TEST(a_network_too_large_for_the_machine_is_refused_with_its_size)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"wide\", \"input\": [28, 28, 1], \"layers\": [{\"kind\": \"conv2d\", "
        "\"filters\": 20000, \"kernel\": 1}], \"loss\": \"softmax_cross_entropy\"}";
    struct model_spec *spec;
    struct net *net;
    json_t *doc;
    struct err e;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_new(&spec, doc, &e));
    assert_true(net_bytes(spec, 1) < 1e9 && net_bytes(spec, 1000000) > 1e14);
    assert_int_equal(net_new(&net, spec, 1000000, &e), ERR_NOMEM);
    assert_error_has("model \"wide\" takes 1.25e+05 GB for batches of 1000000, there are");
    json_decref(doc);
    model_spec_free(spec);
}

TEST(the_input_is_not_modified)
{
    struct net *net = make(F("tanh") ", " DENSE(4));
    float x[MAX_BATCH * N_IN], before[MAX_BATCH * N_IN];
    struct net_score s = {0};
    int32_t labels[MAX_BATCH];

    fill(net, x, labels, 4);
    memcpy(before, x, sizeof x);
    train(net, x, labels, MAX_BATCH, &s);
    assert_memory_equal(x, before, sizeof x);
    net_free(net);
}

/* z = x W + b and the loss, in double, by definition. */
static double naive_loss(const float *w, const float *x, int32_t label, size_t k)
{
    const float *b = w + N_IN * k;
    double z[8], sum = 0;

    for (size_t j = 0; j < k; j++) {
        z[j] = (double)b[j];
        for (size_t i = 0; i < N_IN; i++)
            z[j] += (double)x[i] * (double)w[i * k + j];
        sum += exp(z[j]);
    }
    return log(sum) - z[label];
}

TEST(a_dense_layer_matches_the_naive_loop)
{
    struct net *net = make(DENSE(4));
    float x[MAX_BATCH * N_IN];
    int32_t labels[MAX_BATCH];
    double expected = 0;

    fill(net, x, labels, 4);
    for (int i = 0; i < MAX_BATCH; i++)
        expected += naive_loss(net_params(net), x + i * N_IN, labels[i], 4) / (double)MAX_BATCH;
    assert_true(fabs(mean_loss(net, x, labels, MAX_BATCH) - expected) < 1e-6);
    net_free(net);
}

TEST(gradients_are_means_so_doubling_the_batch_does_not_change_them)
{
    struct net *net = make(DENSE(5) ", " F("tanh") ", " DENSE(4));
    float x[MAX_BATCH * N_IN], once[128];
    struct net_score s = {0};
    int32_t labels[MAX_BATCH];
    size_t n = net_n_params(net);

    assert_true(n <= N_OF(once));
    fill(net, x, labels, 4);
    memcpy(x + 4 * N_IN, x, 4 * N_IN * sizeof *x);
    memcpy(labels + 4, labels, 4 * sizeof *labels);
    train(net, x, labels, 4, &s);
    memcpy(once, net_grads(net), n * sizeof *once);
    train(net, x, labels, 8, &s);
    for (size_t i = 0; i < n; i++)
        assert_true(fabsf(net_grads(net)[i] - once[i]) < 1e-6f);
    assert_int_equal(s.n, 12);
    net_free(net);
}

TEST(training_and_evaluation_give_the_same_scores_and_they_add_up)
{
    struct net_score trained = {0};
    struct metrics *tested;
    double accuracy;
    struct net_batch b;
    struct check c;
    struct err e;

    check_open(&c, "[7]", DENSE(5) ", " F("relu") ", " DENSE(4), MAX_BATCH);
    check_fill(&c);
    b = check_batch(&c, MAX_BATCH);
    net_train(c.net, &b, &trained);
    assert_ok(metrics_new(&tested, &c.spec, true, MAX_BATCH, &e));
    metrics_add(tested, net_forward(c.net, c.x, 3), &(struct truth){.labels = c.labels}, 3);
    metrics_add(tested, net_forward(c.net, c.x + 3 * N_IN, MAX_BATCH - 3),
                &(struct truth){.labels = c.labels + 3}, MAX_BATCH - 3);
    assert_true(fabs(trained.loss / (double)MAX_BATCH - metrics_loss(tested)) < 1e-6);
    assert_true(metrics_value(tested, METRIC_ACCURACY, &accuracy));
    assert_true(accuracy == (double)trained.n_right / (double)MAX_BATCH);
    assert_int_equal(trained.n, MAX_BATCH);
    metrics_free(tested);
    check_close(&c);
}

TEST(a_zero_net_gives_a_uniform_prediction)
{
    struct net *net = make("{\"kind\": \"dense\", \"units\": 4, \"init\": \"zeros\"}");
    float x[MAX_BATCH * N_IN];
    int32_t labels[MAX_BATCH];

    fill(net, x, labels, 4);
    net_init(net, 1);
    assert_true(fabs(mean_loss(net, x, labels, MAX_BATCH) - log(4)) < 1e-6);
    net_free(net);
}

TEST(huge_logits_do_not_overflow_or_count_as_right_by_accident)
{
    struct net *net = make(DENSE(4));
    struct net_score s = {0};
    float x[N_IN] = {0};
    const int32_t right = 2, wrong = 0;
    float *b = net_params(net) + N_IN * 4;

    b[2] = 30000;
    train(net, x, &right, 1, &s);
    assert_true(s.loss == 0 && s.n_right == 1);
    train(net, x, &wrong, 1, &s);
    assert_true(fabs(s.loss - 30000) < 0.01 && s.n_right == 1);
    for (int j = 0; j < 4; j++)
        assert_true(isfinite(net_grads(net)[N_IN * 4 + j]));
    net_free(net);
}

TEST(a_nan_is_visible_in_the_loss)
{
    static const char *const kinds[] = {"tanh", "relu", "sigmoid"};

    for (size_t k = 0; k < N_OF(kinds); k++) {
        float x[MAX_BATCH * N_IN];
        int32_t labels[MAX_BATCH];
        char layers[128];
        struct net *net;

        snprintf(layers, sizeof layers, DENSE(5) ", {\"kind\": \"%s\"}, " DENSE(4), kinds[k]);
        net = make(layers);
        fill(net, x, labels, 4);
        x[3] = NAN;
        assert_true(isnan(mean_loss(net, x, labels, MAX_BATCH)));
        net_free(net);
    }
}

TEST(gelu_is_linear_far_from_0)
{
    const float x[] = {9, 20, 1e15f, 1e19f, 1e38f, -9, -20, -1e15f, -1e19f, -1e38f};
    enum { N = N_OF(x) };
    const struct layer_spec spec = {.n_out = N};
    float y[N], dy[N], dx[N];
    const struct layer l = {.spec = &spec, .y = y};

    for (int i = 0; i < N; i++)
        dy[i] = 3;
    layer_gelu.forward(&l, x, &(struct pass){.n = 1});
    layer_gelu.backward(&l, x, dy, dx, &(struct pass){.n = 1});
    for (int i = 0; i < N; i++) {
        assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
        assert_true(dx[i] == (x[i] > 0 ? 3 : 0));
    }
}

TEST(tensors_have_names_and_shapes_and_cover_the_parameters)
{
    struct net *net = make(DENSE(5) ", " F("tanh") ", " DENSE(4));
    const struct tensor_view *t;
    const float *at = net_params(net);

    assert_int_equal(net_tensors(net, &t), 4);
    assert_string_equal(t[0].name, "layer0.dense.weight");
    assert_string_equal(t[1].name, "layer0.dense.bias");
    assert_string_equal(t[2].name, "layer2.dense.weight");
    assert_string_equal(t[3].name, "layer2.dense.bias");
    assert_int_equal(t[2].shape[0], 5);
    assert_int_equal(t[2].shape[1], 4);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(t[i].data, at);
        at += tensor_count(&t[i]);
    }
    assert_int_equal(at - net_params(net), net_n_params(net));
    net_free(net);
}

/* Tensor by tensor as the spec places them: W, scale and V are trained, bn.mean and n are statistics. */
TEST(a_training_programs_model_has_vectors_and_views_but_no_layers)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": ["
        "{\"name\": \"W\", \"shape\": [2, 3]}, {\"name\": \"bn.mean\", \"shape\": [3], \"statistic\": true}, "
        "{\"name\": \"scale\", \"shape\": []}, {\"name\": \"V\", \"shape\": [4]}, "
        "{\"name\": \"n\", \"shape\": [], \"statistic\": true}]}";
    static const size_t offsets[2][5] = {{0, 11, 6, 7, 14}, {0, 11, 10, 6, 14}};
    static const char *const names[] = {"W", "bn.mean", "scale", "V", "n"};
    const struct tensor_view *t;
    struct model_spec spec;
    size_t *ranges = NULL;
    json_t *doc;
    struct err e;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    json_decref(doc);
    for (int placed = 0; placed < 2; placed++) {
        float grads[15] = {0}, params[15];
        struct net *net;

        if (placed)
            assert_ok(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &spec, 2, &e));
        assert_ok(net_new(&net, &spec, 1, &e));
        net_init(net, 1);
        assert_int_equal(net_n_params(net), 15);
        assert_int_equal(net_n_trained(net), 11);
        for (int i = 0; i < 15; i++)
            assert_true(net_params(net)[i] == 0 && net_grads(net)[i] == 0);
        for (int i = 0; i < 4; i++)
            assert_true(net_momentum(net)[i] == 1);
        net_use_grads(net, grads);
        net_use_params(net, params);
        assert_ptr_equal(net_grads(net), grads);
        assert_int_equal(net_tensors(net, &t), 5);
        for (size_t i = 0; i < 5; i++) {
            assert_string_equal(t[i].name, names[i]);
            assert_ptr_equal(t[i].data, params + offsets[placed][i]);
            assert_int_equal(net_tensor_offset(net, i), offsets[placed][i]);
        }
        assert_int_equal(t[2].n_dims, 0);
        assert_int_equal(t[0].shape[1], 3);
        net_free(net);
    }
    free(ranges);
    model_spec_clear(&spec);
}

static void ready_is_trained(void *owner, size_t ready)
{
    const struct net *net = owner;

    assert_true(ready >= net_n_trained(net));
}

/* Both nets have the same tensors by name, at other offsets. */
TEST(a_net_placed_by_tensors_has_the_same_weights_loss_and_gradient)
{
    static const char layers[] = DENSE(5) ", " F("batch_norm") ", " F("tanh") ", " DENSE(4);
    struct net *a = make(layers), *b = make_placed(layers, 3);
    float x[MAX_BATCH * N_IN];
    int32_t labels[MAX_BATCH];
    const struct tensor_view *t, *u;
    struct net_score sa = {0}, sb = {0};
    struct net_batch batch;
    size_t n;

    fill(a, x, labels, 4);
    net_init(a, 5);
    net_init(b, 5);
    train(a, x, labels, MAX_BATCH, &sa);
    batch = batch_of(x, labels, MAX_BATCH);
    batch.between = ready_is_trained;
    batch.owner = b;
    net_train(b, &batch, &sb);
    assert_true(sa.loss == sb.loss);
    n = net_tensors(a, &t);
    assert_int_equal(net_tensors(b, &u), n);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = tensor_count(&t[i]) * sizeof(float);

        assert_string_equal(t[i].name, u[i].name);
        assert_memory_equal(t[i].data, u[i].data, bytes);
        assert_memory_equal(net_grads(a) + net_tensor_offset(a, i), net_grads(b) + net_tensor_offset(b, i),
                            bytes);
    }
    assert_true(net_tensor_offset(b, 1) > net_tensor_offset(b, 3)); /* bias of layer 0, bias of batch_norm */
    net_free(a);
    net_free(b);
}

TEST(initial_weights_are_glorot_and_depend_on_the_seed_only)
{
    struct net *a = make(DENSE(50) ", " F("tanh") ", " DENSE(4));
    struct net *b = make(DENSE(50) ", " F("tanh") ", " DENSE(4));
    size_t bytes = net_n_params(a) * sizeof(float);
    const float limit = sqrtf(6.f / (N_IN + 50));
    float largest = 0;

    net_init(a, 5);
    memset(net_params(b), 0xff, bytes);
    net_init(b, 5);
    assert_memory_equal(net_params(a), net_params(b), bytes);
    net_init(b, 6);
    assert_memory_not_equal(net_params(a), net_params(b), bytes);
    for (int i = 0; i < N_IN * 50; i++) {
        assert_true(fabsf(net_params(a)[i]) <= limit);
        largest = fmaxf(largest, fabsf(net_params(a)[i]));
    }
    assert_true(largest > 0.95f * limit);
    for (int i = 0; i < 50; i++)
        assert_true(net_params(a)[N_IN * 50 + i] == 0);
    net_free(a);
    net_free(b);
}

struct watcher {
    struct net *net;
    size_t n_calls, ready, n_backward;
    float *seen; /* (n_params): the gradients that were reported as complete, at the time of the report */
};

static void watch(void *owner, size_t ready)
{
    struct watcher *w = owner;

    assert_true(ready <= w->ready);
    memcpy(w->seen + ready, net_grads(w->net) + ready, (w->ready - ready) * sizeof(float));
    w->n_backward += ready < net_n_params(w->net);
    w->ready = ready;
    w->n_calls++;
}

TEST(the_layer_callback_gets_the_offset_from_which_the_gradient_is_complete)
{
    static const struct {
        const char *layers;
        size_t n_calls, n_backward,
            ready; /* the reports of the backward pass from the first with new gradients; at the end */
    } cases[] = {
        {DENSE(5) ", " F("tanh") ", " DENSE(4), 5, 2, N_IN * 5 + 5},
        {DENSE(5) ", " F("batch_norm") ", " DENSE(4), 5, 3, N_IN * 5 + 5},
        {"{\"kind\": \"reshape\", \"shape\": [7, 1, 1]}, {\"kind\": \"conv2d\", \"filters\": 1, \"kernel\": "
         "[3, 1]}, "
         "{\"kind\": \"conv2d\", \"filters\": 4, \"kernel\": [3, 1]}, {\"kind\": \"flatten\"}, " DENSE(4),
         6, 3, 4},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct net *net = make(cases[k].layers);
        size_t n = net_n_params(net);
        struct watcher w = {.net = net, .ready = n, .seen = calloc(n, sizeof(float))};
        float x[MAX_BATCH * N_IN];
        int32_t labels[MAX_BATCH];
        struct net_score s = {0};
        struct net_batch b;

        fill(net, x, labels, 4);
        memset(net_grads(net), 0xff, n * sizeof(float)); /* NaN */
        b = batch_of(x, labels, MAX_BATCH);
        b.between = watch;
        b.owner = &w;
        net_train(net, &b, &s);
        assert_int_equal(w.n_calls, cases[k].n_calls);
        assert_int_equal(w.n_backward, cases[k].n_backward);
        assert_int_equal(w.ready, cases[k].ready);
        assert_memory_equal(w.seen + w.ready, net_grads(net) + w.ready, (n - w.ready) * sizeof(float));
        free(w.seen);
        net_free(net);
    }
}

TEST(the_same_batch_gives_the_same_bits)
{
    struct net *net = make(DENSE(50) ", " F("tanh") ", " DENSE(4));
    size_t bytes = net_n_params(net) * sizeof(float);
    struct net_score first = {0};
    float x[MAX_BATCH * N_IN];
    int32_t labels[MAX_BATCH];
    float *grads = malloc(bytes);

    fill(net, x, labels, 4);
    train(net, x, labels, MAX_BATCH, &first);
    memcpy(grads, net_grads(net), bytes);
    for (int i = 0; i < 20; i++) {
        struct net_score s = {0};

        train(net, x, labels, MAX_BATCH, &s);
        assert_true(s.loss == first.loss);
        assert_memory_equal(grads, net_grads(net), bytes);
    }
    free(grads);
    net_free(net);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

TEST(exp_tanh_and_logistic_have_their_documented_accuracy)
{
    static const struct {
        float (*f)(float);
        double (*exact)(double);
        double bound;
    } cases[] = {{exp_f32, exp, 1.0e-7}, {tanh_f32, tanh, 4e-7}, {logistic_f32, logistic, 1.6e-7}};

    for (size_t k = 0; k < N_OF(cases); k++)
        for (int i = -86000; i <= 86000; i++) {
            float x = (float)i * (i % 2 ? 1e-3f : 1e-6f);
            double exact = cases[k].exact((double)x);

            assert_true(fabs((double)cases[k].f(x) - exact) <= cases[k].bound * fabs(exact));
        }
}

TEST(exp_tanh_and_logistic_are_right_at_their_limits)
{
    assert_true(tanh_f32(INFINITY) == 1 && tanh_f32(-INFINITY) == -1);
    assert_true(tanh_f32(0) == 0 && tanh_f32(1e-30f) == 1e-30f);
    assert_true(logistic_f32(INFINITY) == 1 && logistic_f32(-INFINITY) < 1e-37f);
    assert_true(isfinite(exp_f32(INFINITY)) && exp_f32(-INFINITY) > 0);
    assert_true(isnan(exp_f32(NAN)) && isnan(tanh_f32(NAN)) && isnan(logistic_f32(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(the_gradient_of_relu_is_right_on_both_sides_of_zero),
        cmocka_unit_test(parameters_and_gradients_may_be_the_callers),
        cmocka_unit_test(a_network_too_large_for_the_machine_is_refused_with_its_size),
        cmocka_unit_test(the_input_is_not_modified),
        cmocka_unit_test(a_dense_layer_matches_the_naive_loop),
        cmocka_unit_test(gradients_are_means_so_doubling_the_batch_does_not_change_them),
        cmocka_unit_test(training_and_evaluation_give_the_same_scores_and_they_add_up),
        cmocka_unit_test(a_zero_net_gives_a_uniform_prediction),
        cmocka_unit_test(huge_logits_do_not_overflow_or_count_as_right_by_accident),
        cmocka_unit_test(a_nan_is_visible_in_the_loss),
        cmocka_unit_test(tensors_have_names_and_shapes_and_cover_the_parameters),
        cmocka_unit_test(a_training_programs_model_has_vectors_and_views_but_no_layers),
        cmocka_unit_test(a_net_placed_by_tensors_has_the_same_weights_loss_and_gradient),
        cmocka_unit_test(initial_weights_are_glorot_and_depend_on_the_seed_only),
        cmocka_unit_test(the_layer_callback_gets_the_offset_from_which_the_gradient_is_complete),
        cmocka_unit_test(the_same_batch_gives_the_same_bits),
        cmocka_unit_test(exp_tanh_and_logistic_have_their_documented_accuracy),
        cmocka_unit_test(exp_tanh_and_logistic_are_right_at_their_limits),
        cmocka_unit_test(gelu_is_linear_far_from_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
