#include "nn/net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/layer.h"
#include "nn/loss.h"

enum { ALIGN = 64 };

/* OpenBLAS splits products by its number of threads, and other sums round to other bits. Weak: another BLAS
 * links too. */
extern void openblas_set_num_threads(int n) __attribute__((weak));

static const struct layer_ops *const kinds[N_LAYER_KINDS] = {
    [LAYER_DENSE] = &layer_dense,
    [LAYER_TANH] = &layer_tanh,
    [LAYER_RELU] = &layer_relu,
    [LAYER_SIGMOID] = &layer_sigmoid,
};

static const uint64_t stream_init =
    0x74696e69; /* "init": keeps the weights' generators apart from the seed's others */

struct net {
    struct model_spec spec;
    int max_batch;
    int first_trained; /* below this layer nothing has parameters, so no gradient is sent there */
    float *params, *grads;
    float *activations; /* every layer's y that is not in place */
    float *d[2];        /* (max_batch, widest layer): gradients on their way down, taking turns */
    struct layer layers[MODEL_LAYERS_MAX];
    struct tensor_view *tensors;
    size_t n_tensors;
};

/* n x width floats, both within their limits, fit 63 bits. NULL: no memory. */
static float *floats(size_t n, size_t width)
{
    size_t bytes = (n * width * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    float *p = aligned_alloc(ALIGN, bytes ? bytes : ALIGN);

    if (p)
        memset(p, 0, bytes);
    return p;
}

static bool works_in_place(const struct net *net, int i)
{
    return i > 0 && net->layers[i].ops->in_place && !net->layers[i - 1].ops->reads_y;
}

static int new_tensors(struct net *net)
{
    float *at = net->params;

    net->first_trained = net->spec.n_layers;
    net->tensors = calloc((size_t)net->spec.n_layers * LAYER_TENSORS_MAX, sizeof *net->tensors);
    if (!net->tensors)
        return -1;
    for (int i = 0; i < net->spec.n_layers; i++) {
        struct layer *l = &net->layers[i];
        struct tensor_view own[LAYER_TENSORS_MAX];
        int n = l->ops->tensors ? l->ops->tensors(own, &l->spec) : 0;

        l->params = at;
        l->grads = net->grads + (at - net->params);
        if (n > 0 && i < net->first_trained)
            net->first_trained = i;
        for (int k = 0; k < n; k++) {
            struct tensor_view *t = &net->tensors[net->n_tensors++];

            *t = own[k];
            snprintf(t->name, sizeof t->name, "layer%d.%s.%.32s", i, layer_kind_name(l->spec.kind),
                     own[k].name);
            t->type = TENSOR_F32;
            t->data = at;
            at += tensor_count(t);
        }
    }
    assert((size_t)(at - net->params) == net->spec.n_params);
    return 0;
}

static int new_activations(struct net *net)
{
    size_t n = (size_t)net->max_batch;
    size_t widest = 0;
    size_t total = 0;
    float *at;

    for (int i = 0; i < net->spec.n_layers; i++) {
        size_t width = (size_t)net->layers[i].spec.n_out;

        widest = width > widest ? width : widest;
        total += works_in_place(net, i) ? 0 : width;
    }
    net->activations = floats(n, total);
    net->d[0] = floats(n, widest);
    net->d[1] = floats(n, widest);
    if (!net->activations || !net->d[0] || !net->d[1])
        return -1;
    at = net->activations;
    for (int i = 0; i < net->spec.n_layers; i++) {
        struct layer *l = &net->layers[i];

        l->y = works_in_place(net, i) ? l[-1].y : at;
        at += works_in_place(net, i) ? 0 : n * (size_t)l->spec.n_out;
    }
    return 0;
}

int net_new(struct net **out, const struct model_spec *spec, int max_batch, struct err *e)
{
    struct net *net = calloc(1, sizeof *net);

    assert(max_batch > 0 && spec->n_layers > 0);
    if (!net)
        goto fail;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    net->spec = *spec;
    net->max_batch = max_batch;
    for (int i = 0; i < spec->n_layers; i++) {
        net->layers[i].spec = spec->layers[i];
        net->layers[i].ops = kinds[spec->layers[i].kind];
    }
    net->params = floats(1, spec->n_params);
    net->grads = floats(1, spec->n_params);
    if (!net->params || !net->grads || new_tensors(net) < 0 || new_activations(net) < 0)
        goto fail;
    *out = net;
    return 0;
fail:
    net_free(net);
    return err_set(e, ERR_NOMEM, "no memory for model \"%s\": %zu parameters, batches of %d", spec->name,
                   spec->n_params, max_batch);
}

void net_free(struct net *net)
{
    if (!net)
        return;
    free(net->params);
    free(net->grads);
    free(net->activations);
    free(net->d[0]);
    free(net->d[1]);
    free(net->tensors);
    free(net);
}

size_t net_n_params(const struct net *net)
{
    return net->spec.n_params;
}

float *net_params(struct net *net)
{
    return net->params;
}

float *net_grads(struct net *net)
{
    return net->grads;
}

size_t net_tensors(struct net *net, const struct tensor_view **out)
{
    *out = net->tensors;
    return net->n_tensors;
}

void net_init(struct net *net, uint64_t seed)
{
    const struct tensor_view *t = net->tensors;
    float *at = net->params;

    for (int i = 0; i < net->spec.n_layers; i++) {
        struct layer *l = &net->layers[i];
        struct tensor_view own[LAYER_TENSORS_MAX];
        int n = l->ops->tensors ? l->ops->tensors(own, &l->spec) : 0;

        for (int k = 0; k < n; k++, t++) {
            struct rng r;

            rng_init(&r, seed, stream_init, (uint64_t)(t - net->tensors));
            l->ops->init(&l->spec, k, at, tensor_count(t), &r);
            at += tensor_count(t);
        }
    }
}

/* Returns the logits (n, n_out). */
static const float *forward(struct net *net, const float *x, int n)
{
    assert(n > 0 && n <= net->max_batch);
    for (int i = 0; i < net->spec.n_layers; i++) {
        net->layers[i].ops->forward(&net->layers[i], x, n);
        x = net->layers[i].y;
    }
    return x;
}

void net_train(struct net *net, const float *x, const uint8_t *labels, int n, struct net_score *score)
{
    const float *z = forward(net, x, n);
    float *dy = net->d[0];
    float *spare = net->d[1];

    score->loss += loss_backward(dy, z, labels, n, net->spec.n_out, &score->n_right);
    score->n += (size_t)n;
    for (int i = net->spec.n_layers - 1; i >= net->first_trained; i--) {
        const struct layer *l = &net->layers[i];
        float *dx = i == net->first_trained ? NULL : l->ops->in_place ? dy : spare;

        l->ops->backward(l, i > 0 ? l[-1].y : x, dy, dx, n);
        if (dx == spare) {
            spare = dy;
            dy = dx;
        }
    }
}

void net_evaluate(struct net *net, const float *x, const uint8_t *labels, int n, struct net_score *score)
{
    const float *z = forward(net, x, n);

    score->loss += loss_forward(z, labels, n, net->spec.n_out, &score->n_right);
    score->n += (size_t)n;
}
