#include "nn/net.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/init.h"
#include "nn/kernels/blas.h"
#include "nn/kernels/zeros.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"
#include "shared/base/memory.h"
#include "shared/base/rng.h"
#include "shared/records/weights.h"

static const struct layer_ops *const kinds[N_LAYER_KINDS] = {
#define LAYER(kind, NAME, parser, ops, convert, keys) &layer_##ops,
    LAYER_KINDS(LAYER)
#undef LAYER
};

enum { TEST_BATCH = 256, TEST_BYTES = 1 << 28 /* memory of a network with that batch */ };

/* "init": separates the weights' random streams from others with the same seed. */
static const uint64_t stream_init = 0x74696e69;

struct net {
    struct model_spec spec; /* without its tensors, of which `tensors` are the views */
    int max_batch;
    int n_layers;      /* without views, which compute nothing */
    int first_trained; /* no layer below has parameters, so backward stops here */
    float *params, *grads;
    float *own_params, *own_grads; /* NULL: the caller's */
    float *activations;            /* y of every layer that is not in place */
    float *work;                   /* of all layers */
    float *d[2];                   /* dy and dx, swapped at each layer that is not in place */
    int *lengths;                  /* (max_batch) of the samples in the batch; NULL: all have all steps */
    float *momentum;               /* (n_params - n_trained) */
    struct layer layers[MODEL_LAYERS_MAX];
    struct tensor_view *tensors;
    size_t n_tensors;
};

/* Whether layer i may overwrite its input: it supports that, and the layer below does not read its own
 * output in backward. */
static bool works_in_place(const struct net *net, int i)
{
    return i > 0 && net->layers[i].ops->in_place && !net->layers[i - 1].ops->reads_y;
}

/* Whether dx is computed in place of dy. */
static bool goes_back_in_place(const struct layer *l)
{
    return l->ops->in_place || l->ops->back_in_place;
}

static int new_tensors(struct net *net, const struct model_spec *spec)
{
    net->n_tensors = (size_t)spec->n_tensors;
    net->tensors = calloc(net->n_tensors, sizeof *net->tensors);
    if (!net->tensors)
        return -1;
    for (int i = 0; i < spec->n_tensors; i++)
        weights_view(&net->tensors[i], &spec->tensors[i], net->params + spec->tensors[i].offset);
    for (int i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layers[i];

        for (int k = 0; k < l->spec->n_tensors; k++) {
            size_t offset = spec->tensors[l->spec->first_tensor + k].offset;

            l->params[k] = net->params + offset;
            l->grads[k] = net->grads + offset;
        }
    }
    return 0;
}

static int new_momentum(struct net *net)
{
    const struct model_spec *m = &net->spec;

    net->momentum = malloc((m->n_params - m->n_trained + 1) * sizeof *net->momentum);
    if (!net->momentum)
        return -1;
    for (size_t i = 0; i < m->n_params - m->n_trained; i++)
        net->momentum[i] = 1;
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];

        for (int k = 0; k < l->spec->n_tensors; k++) {
            const struct tensor_spec *t = &l->spec->tensors[k];
            size_t at = (size_t)(l->params[k] - net->params);

            for (size_t j = 0; t->is_state && j < tensor_spec_count(t); j++)
                net->momentum[at - m->n_trained + j] = l->spec->norm.momentum;
        }
    }
    return 0;
}

static size_t work_of(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    size_t n = l->ops->work ? l->ops->work(l->spec, net->max_batch) : 0;

    return (n + ZEROS_ALIGN - 1) / ZEROS_ALIGN * ZEROS_ALIGN;
}

struct sizes { /* floats */
    size_t activations, work, d[2];
};

static struct sizes sizes_of(const struct net *net)
{
    struct sizes s = {0};

    for (int i = net->n_layers - 1, k = 0; i >= 0; i--) {
        size_t width = (size_t)net->layers[i].spec->n_out * (size_t)net->max_batch;

        s.d[k] = width > s.d[k] ? width : s.d[k];
        k = goes_back_in_place(&net->layers[i]) ? k : 1 - k;
        s.activations += works_in_place(net, i) ? 0 : width;
        s.work += work_of(net, i);
    }
    return s;
}

static double bytes_of(const struct net *net)
{
    struct sizes s = sizes_of(net);

    return sizeof(float) * (2 * (double)net->spec.n_params + (double)s.activations + (double)s.work +
                            (double)s.d[0] + (double)s.d[1]);
}

static int new_activations(struct net *net)
{
    struct sizes s = sizes_of(net);
    float *at, *own;

    net->activations = zeros_new(s.activations);
    net->work = zeros_new(s.work);
    net->d[0] = zeros_new(s.d[0]);
    net->d[1] = zeros_new(s.d[1]);
    if (!net->activations || !net->work || !net->d[0] || !net->d[1])
        return -1;
    if (model_spec_is_padded(&net->spec) &&
        !(net->lengths = calloc((size_t)net->max_batch, sizeof *net->lengths)))
        return -1;
    at = net->activations;
    own = net->work;
    for (int i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layers[i];

        l->y = works_in_place(net, i) ? l[-1].y : at;
        at += works_in_place(net, i) ? 0 : (size_t)net->max_batch * (size_t)l->spec->n_out;
        l->work = own;
        own += work_of(net, i);
    }
    return 0;
}

/* Moves relu behind max_pool: max(relu(x)) = relu(max(x)), with the same gradients, and relu then processes
 * fewer values. */
static void pool_before_relu(struct model_spec *m)
{
    for (int i = 0; i + 1 < m->n_layers; i++) {
        struct layer_spec *relu = &m->layers[i], pool = relu[1];

        if (relu->kind != LAYER_RELU || pool.kind != LAYER_MAX_POOL || pool.n_out >= pool.n_in)
            continue;
        relu[1] = (struct layer_spec){
            .kind = LAYER_RELU, .in = pool.out, .out = pool.out, .n_in = pool.n_out, .n_out = pool.n_out};
        relu[0] = pool;
    }
}

static void choose_layers(struct net *net)
{
    pool_before_relu(&net->spec);
    net->first_trained = net->spec.n_layers;
    for (int i = 0; i < net->spec.n_layers; i++) {
        const struct layer_spec *s = &net->spec.layers[i];

        if (kinds[s->kind]->is_view)
            continue;
        if (s->n_tensors > 0 && net->n_layers < net->first_trained)
            net->first_trained = net->n_layers;
        net->layers[net->n_layers++] = (struct layer){.ops = kinds[s->kind], .spec = s, .index = i};
    }
}

static void find_partners(struct net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; net->layers[i].spec->partner && k < net->n_layers; k++)
            if (net->layers[k].spec == net->layers[i].spec + net->layers[i].spec->partner)
                net->layers[i].partner = &net->layers[k];
}

static void take_spec(struct net *net, const struct model_spec *spec, int max_batch)
{
    net->spec = *spec;
    net->spec.tensors = NULL; /* the caller's */
    net->spec.frozen = NULL;
    net->spec.n_tensors = net->spec.n_frozen = 0;
    net->max_batch = max_batch;
    choose_layers(net);
    find_partners(net);
}

static int open_layers(struct net *net, struct err *e)
{
    for (int i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layers[i];
        char place[24];

        if (l->ops->open && l->ops->open(l, net->max_batch, e) < 0)
            return err_at(e, "layer %s, %s", layer_spec_place(place, l->spec),
                          layer_kind_name(l->spec->kind));
    }
    return 0;
}

/* The rows of a sample in the matrices of a layer, or its labels, if that is more. */
static int most_positions(const struct model_spec *m)
{
    int most = 1;

    for (int i = 0; i < m->n_layers; i++) {
        const struct shape *in = &m->layers[i].in, *out = &m->layers[i].out;
        int n_in = shape_count(in) / in->dim[in->n_dims - 1];
        int n_out = shape_count(out) / out->dim[out->n_dims - 1];

        most = n_in > most ? n_in : most;
        most = n_out > most ? n_out : most;
    }
    return most;
}

static int check_batch(const struct model_spec *m, int max_batch, struct err *e)
{
    int n = most_positions(m);

    if (max_batch <= INT_MAX / n) /* the numbers of rows and of labels are int */
        return 0;
    err_set(e, ERR_CONFIG,
            "model \"%s\" has %d steps or pixels a sample, and a batch of %d samples more than %d", m->name,
            n, max_batch, INT_MAX);
    return err_hint(e, "Choose a smaller --batch_size.");
}

int net_new(struct net **out, const struct model_spec *spec, int max_batch, struct err *e)
{
    struct net *net;

    assert(max_batch > 0 && (spec->n_layers == 0) == spec->has_trainer);
    if (check_batch(spec, max_batch, e) < 0)
        return e->code;
    net = calloc(1, sizeof *net);
    if (!net)
        goto no_memory;
    blas_keep_threads();
    take_spec(net, spec, max_batch);
    if (bytes_of(net) > memory_available())
        goto no_memory;
    net->params = net->own_params = zeros_new(spec->n_params);
    net->grads = net->own_grads = zeros_new(spec->n_params);
    if (!net->params || !net->grads || new_tensors(net, spec) < 0 || new_momentum(net) < 0 ||
        new_activations(net) < 0)
        goto no_memory;
    if (open_layers(net, e) < 0) {
        net_free(net);
        return e->code;
    }
    *out = net;
    return 0;
no_memory:
    net_free(net);
    if (spec->has_trainer)
        return err_set(e, ERR_NOMEM, "the vectors of model \"%s\" take %.3g GB, there are %.3g GB",
                       spec->name, net_bytes(spec, 1) / 1e9, memory_available() / 1e9);
    err_set(e, ERR_NOMEM, "model \"%s\" takes %.3g GB for batches of %d, there are %.3g GB", spec->name,
            net_bytes(spec, max_batch) / 1e9, max_batch, memory_available() / 1e9);
    return err_hint(e, "A smaller --batch_size takes less.");
}

double net_bytes(const struct model_spec *spec, int max_batch)
{
    struct net *net = calloc(1, sizeof *net);
    double bytes;

    if (!net)
        return HUGE_VAL;
    take_spec(net, spec, max_batch);
    bytes = bytes_of(net);
    free(net);
    return bytes;
}

int net_test_batch(const struct model_spec *spec, int batch_size)
{
    int batch = TEST_BATCH;

    while (batch > batch_size && net_bytes(spec, batch) > (double)TEST_BYTES)
        batch /= 2;
    return batch > batch_size ? batch : batch_size;
}

void net_free(struct net *net)
{
    if (!net)
        return;
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].ops->close)
            net->layers[i].ops->close(&net->layers[i]);
    free(net->own_params);
    free(net->own_grads);
    free(net->activations);
    free(net->work);
    free(net->d[0]);
    free(net->d[1]);
    free(net->lengths);
    free(net->momentum);
    free(net->tensors);
    free(net);
}

size_t net_n_params(const struct net *net)
{
    return net->spec.n_params;
}

size_t net_n_trained(const struct net *net)
{
    return net->spec.n_trained;
}

const float *net_momentum(const struct net *net)
{
    return net->momentum;
}

float *net_params(struct net *net)
{
    return net->params;
}

float *net_grads(struct net *net)
{
    return net->grads;
}

void net_use_grads(struct net *net, float *grads)
{
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].spec->n_tensors; k++)
            net->layers[i].grads[k] = grads + (net->layers[i].grads[k] - net->grads);
    free(net->own_grads);
    net->own_grads = NULL;
    net->grads = grads;
}

void net_use_params(struct net *net, float *params)
{
    memcpy(params, net->params, net->spec.n_params * sizeof *params);
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].spec->n_tensors; k++)
            net->layers[i].params[k] = params + (net->layers[i].params[k] - net->params);
    for (size_t i = 0; i < net->n_tensors; i++)
        net->tensors[i].data = params + ((const float *)net->tensors[i].data - net->params);
    free(net->own_params);
    net->own_params = NULL;
    net->params = params;
}

size_t net_tensors(struct net *net, const struct tensor_view **out)
{
    *out = net->tensors;
    return net->n_tensors;
}

void net_init(struct net *net, uint64_t seed)
{
    uint64_t number = 0;

    for (int i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layers[i];

        for (int k = 0; k < l->spec->n_tensors; k++) {
            struct rng r;

            rng_init(&r, seed, stream_init, number++);
            init_tensor(l->params[k], &l->spec->tensors[k], &r);
        }
    }
}

void net_load(struct net *net, const struct tensor_file *f, const char *prefix)
{
    for (size_t i = 0; i < net->n_tensors; i++)
        weights_floats(net->params + net_tensor_offset(net, i),
                       weights_find(f, prefix, net->tensors[i].name));
}

static void find_lengths(struct net *net, const float *x, int n)
{
    int width = net->spec.n_in;

    for (int i = 0; net->lengths && i < n; i++, x += width) {
        int len = width;

        while (len > 1 && x[len - 1] == 0)
            len--;
        net->lengths[i] = len;
    }
}

/* Returns the outputs (n, n_out). */
static const float *forward_pass(struct net *net, const float *x, const struct pass *p)
{
    assert(p->n > 0 && p->n <= net->max_batch && net->n_layers > 0);
    find_lengths(net, x, p->n);
    for (int i = 0; i < net->n_layers; i++) {
        if (i > 0)
            pass_pause(p);
        net->layers[i].ops->forward(&net->layers[i], x, p);
        x = net->layers[i].y;
    }
    return x;
}

void net_train(struct net *net, const struct net_batch *b, struct net_score *score)
{
    struct pass p = {.n = b->n,
                     .is_training = true,
                     .seed = b->seed,
                     .stream = b->stream,
                     .lengths = net->lengths,
                     .between = b->between,
                     .owner = b->owner,
                     .ready = net->spec.n_params};
    const float *z = forward_pass(net, b->x, &p);
    float *dy = net->d[0];
    float *spare = net->d[1];
    const int n_labels = b->n * model_spec_labels(&net->spec);

    score->loss += loss_of(net->spec.loss, z, &b->truth, n_labels, model_spec_classes(&net->spec), dy,
                           &score->n_right);
    score->n += (size_t)n_labels;
    p.ready = net->spec.n_trained; /* the forward pass has written the batch's statistics in the rest */
    for (int i = net->n_layers - 1; i >= net->first_trained; i--) {
        const struct layer *l = &net->layers[i];
        float *dx = i == net->first_trained ? NULL : goes_back_in_place(l) ? dy : spare;

        pass_pause(&p);
        l->ops->backward(l, i > 0 ? l[-1].y : b->x, dy, dx, &p);
        if (l->spec->n_tensors > 0 && !net->spec.is_reordered)
            p.ready = (size_t)(l->grads[0] - net->grads);
        if (dx == spare) {
            spare = dy;
            dy = dx;
        }
    }
}

const float *net_forward(struct net *net, const float *x, int n)
{
    return forward_pass(net, x, &(struct pass){.n = n, .lengths = net->lengths});
}

static bool computes_steps(const struct net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        if (!net->layers[i].ops->step)
            return false;
    return true;
}

const float *net_step(struct net *net, const float *x, int t)
{
    const int time = net->spec.n_in;

    assert(t >= 0 && t < time && net->spec.n_out % time == 0);
    if (!computes_steps(net))
        return net_forward(net, x, 1) + (size_t)t * (size_t)(net->spec.n_out / time);
    x += t;
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];

        l->ops->step(l, x, t);
        x = l->y + (size_t)t * (size_t)(l->spec->n_out / time);
    }
    return x;
}

size_t net_tensor_offset(const struct net *net, size_t i)
{
    return (size_t)((const float *)net->tensors[i].data - net->params);
}
