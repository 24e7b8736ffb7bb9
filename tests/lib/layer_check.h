/* layer_check -- for the tests of one kind of layer: a small net given as JSON, filled with generic
 * numbers, whose gradient is compared with central differences. */
#ifndef PSGD_LAYER_CHECK_H
#define PSGD_LAYER_CHECK_H

#include <math.h>

#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/unit/unit.h"

struct check {
    struct model_spec spec;
    struct net *net;
    float *x;        /* (max_batch, n_in) */
    int32_t *labels; /* (max_batch) */
    int max_batch;
};

static inline void check_open(struct check *c, const char *input, const char *layers, int max_batch)
{
    char text[1024];
    json_t *doc;
    struct err e;

    memset(c, 0, sizeof *c);
    c->max_batch = max_batch;
    assert_in_range(snprintf(text, sizeof text,
                             "{\"version\": 1, \"name\": \"m\", \"input\": %s, \"layers\": [%s], \"loss\": "
                             "\"softmax_cross_entropy\"}",
                             input, layers),
                    1, sizeof text - 1);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&c->spec, doc, &e));
    json_decref(doc);
    assert_ok(net_new(&c->net, &c->spec, max_batch, &e));
    c->x = calloc((size_t)max_batch * (size_t)c->spec.n_in, sizeof *c->x);
    c->labels = calloc((size_t)max_batch, sizeof *c->labels);
    assert_true(c->x && c->labels);
}

static inline void check_close(struct check *c)
{
    net_free(c->net);
    model_spec_clear(&c->spec);
    free(c->x);
    free(c->labels);
}

/* Fills parameters, inputs and labels. Tokens: texts of length 1, 2, ..., the maximum, then again from 1
 * on. */
static inline void check_fill(struct check *c)
{
    const int vocab = model_spec_vocab(&c->spec), width = c->spec.n_in;
    struct rng r;

    rng_init(&r, 3, 0, 0);
    for (size_t i = 0; i < net_n_params(c->net); i++)
        net_params(c->net)[i] = i < net_n_trained(c->net) ? 0.5f * rng_normal(&r) : 0.5f + rng_uniform(&r);
    for (int i = 0; i < c->max_batch; i++) {
        c->labels[i] = (int32_t)rng_below(&r, (uint32_t)c->spec.n_out);
        for (int t = 0; t < width; t++) {
            float *x = &c->x[i * width + t];

            if (vocab == 0)
                *x = rng_normal(&r);
            else
                *x = t <= i % width ? (float)(1 + rng_below(&r, (uint32_t)vocab - 1)) : 0;
        }
    }
}

/* A fixed sequence, with which PyTorch's references were made too: parameters start at 0, inputs at 1000. */
static inline float check_number(size_t i)
{
    return (float)(0.5 * sin(0.7 * (double)i + 1));
}

static inline void check_numbers(struct check *c)
{
    for (size_t i = 0; i < net_n_params(c->net); i++)
        net_params(c->net)[i] = check_number(i);
    for (size_t i = 0; i < (size_t)c->max_batch * (size_t)c->spec.n_in; i++)
        c->x[i] = check_number(1000 + i);
}

/* The gradient's dot products with check_number(0 ...) and with itself. */
static inline void check_dots(const struct check *c, double *dot, double *square)
{
    *dot = *square = 0;
    for (size_t i = 0; i < net_n_trained(c->net); i++) {
        double g = (double)net_grads(c->net)[i];

        *dot += g * (double)check_number(i);
        *square += g * g;
    }
}

static inline struct net_batch check_batch(const struct check *c, int n)
{
    return (struct net_batch){.x = c->x, .truth = {.labels = c->labels}, .n = n, .seed = 5, .stream = 6};
}

/* Training mode, so that batch_norm and dropout are active. */
static inline double check_train(struct check *c, int n)
{
    struct net_batch b = check_batch(c, n);
    struct net_score s = {0};

    net_train(c->net, &b, &s);
    return s.loss / n;
}

/* |numeric - exact| / |exact|, as vectors, over all trained parameters. Differences are of fourth order:
 * normalizations have too much curvature for second order in float. */
static inline double check_gradient(struct check *c, int n)
{
    static const float step[] = {-0x1p-6f, -0x1p-7f, 0x1p-7f, 0x1p-6f};
    const size_t n_trained = net_n_trained(c->net);
    float *exact = calloc(n_trained, sizeof *exact);
    double off = 0, size = 0;

    assert_non_null(exact);
    memset(net_grads(c->net), 0xff, n_trained * sizeof *exact); /* NaN, visible where it is not overwritten */
    check_train(c, n);
    memcpy(exact, net_grads(c->net), n_trained * sizeof *exact);
    for (size_t i = 0; i < n_trained; i++) {
        float *w = &net_params(c->net)[i];
        float old = *w;
        double loss[4], numeric;

        for (int k = 0; k < 4; k++) {
            *w = old + step[k];
            loss[k] = check_train(c, n);
        }
        *w = old;
        numeric = (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * (double)step[2]);
        off += (numeric - (double)exact[i]) * (numeric - (double)exact[i]);
        size += (double)exact[i] * (double)exact[i];
    }
    free(exact);
    assert_true(size > 1e-6);
    return sqrt(off / size);
}

/* Checks the gradients of each net, for a batch of one (if `one` is set) and of max_batch. */
static inline void check_gradients(const char *input, const char *const *nets, size_t n_nets, int max_batch,
                                   bool one)
{
    for (size_t i = 0; i < n_nets; i++)
        for (int n = one ? 1 : max_batch; n <= max_batch; n += max_batch > 1 ? max_batch - 1 : 1) {
            struct check c;
            double off;

            check_open(&c, input, nets[i], max_batch);
            check_fill(&c);
            off = check_gradient(&c, n);
            if (!(off < 1e-3))
                fail_msg("%s, input %s, batch of %d: off by %g", nets[i], input, n, off);
            check_close(&c);
        }
}

static inline void assert_near(const float *got, const double *expected, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
            fail_msg("value %zu: %.9g, expected %.9g", i, (double)got[i], expected[i]);
}

static inline void check_step_statistics(struct check *c)
{
    size_t n_trained = net_n_trained(c->net);

    statistics_step(net_params(c->net) + n_trained, net_grads(c->net) + n_trained, net_momentum(c->net),
                    net_n_params(c->net) - n_trained);
}

#endif
