#include "submit/onnx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file.h"
#include "shared/weights.h"
#include "submit/protobuf.h"

/* Numbers of fields and types in onnx.proto. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAMED = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEM = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
enum { FLOAT = 1, INT32 = 6, INT64 = 7, BOOL = 9 };
enum { IR_VERSION = 7, OPSET = 13, VALUE_MAX = 24 };

static const size_t bytes_max = 2000u << 20; /* a protocol buffer ends at 2 GiB */

struct graph {
    const struct model_spec *m;
    const struct tensor_file *f;
    const char *prefix;
    struct protobuf out;
    char at[VALUE_MAX];      /* what the last layer made */
    char lengths[VALUE_MAX]; /* of the texts, (N) floats; "": not needed */
    bool is_nchw;            /* `at` is an image with its channels first */
    int n_values, n_nodes;
};

/* Attributes of the next node; its fields in NodeProto. */
static void attr_end(struct protobuf *attrs, struct protobuf *a, const char *name, int type)
{
    protobuf_text(a, ATTR_NAME, name);
    protobuf_int(a, ATTR_TYPE, type);
    protobuf_message(attrs, NODE_ATTRIBUTE, a);
}

static void attr_int(struct protobuf *attrs, const char *name, int64_t v)
{
    struct protobuf a = {0};

    protobuf_int(&a, ATTR_I, v);
    attr_end(attrs, &a, name, ATTR_IS_INT);
}

static void attr_float(struct protobuf *attrs, const char *name, float v)
{
    struct protobuf a = {0};

    protobuf_float(&a, ATTR_F, v);
    attr_end(attrs, &a, name, ATTR_IS_FLOAT);
}

static void attr_ints(struct protobuf *attrs, const char *name, const int64_t *v, int n)
{
    struct protobuf a = {0};

    for (int i = 0; i < n; i++)
        protobuf_int(&a, ATTR_INTS, v[i]);
    attr_end(attrs, &a, name, ATTR_IS_INTS);
}

/* A node with the given inputs ("" is one left out) and one named output, in the place that ONNX gives it. */
static void node(struct graph *g, const char *op, const char *const *in, int n_in, const char *out, int place,
                 struct protobuf *attrs)
{
    struct protobuf n = {0};
    char name[VALUE_MAX];

    for (int i = 0; i < n_in; i++)
        protobuf_text(&n, NODE_INPUT, in[i]);
    for (int i = 0; i < place; i++)
        protobuf_text(&n, NODE_OUTPUT, "");
    protobuf_text(&n, NODE_OUTPUT, out);
    snprintf(name, sizeof name, "n%d", g->n_nodes++);
    protobuf_text(&n, NODE_NAME, name);
    protobuf_text(&n, NODE_OP, op);
    if (attrs)
        protobuf_append(&n, attrs);
    protobuf_message(&g->out, GRAPH_NODE, &n);
}

static void new_value(struct graph *g, char out[VALUE_MAX])
{
    snprintf(out, VALUE_MAX, "v%d", g->n_values++);
}

/* `in` ends with NULL. The result's name goes to `out`, which may be one of them. */
static void op_to(struct graph *g, char out[VALUE_MAX], const char *op, const char *const *in,
                  struct protobuf *attrs)
{
    char made[VALUE_MAX];
    int n = 0;

    while (in[n])
        n++;
    new_value(g, made);
    node(g, op, in, n, made, 0, attrs);
    memcpy(out, made, VALUE_MAX);
}

#define INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* The commonest case: `at` becomes the result. */
#define OP(g, op, attrs, ...) op_to(g, (g)->at, op, INPUTS(__VA_ARGS__), attrs)

static void initializer(struct graph *g, const char *name, int type, const size_t *dims, int n_dims,
                        const void *bytes, size_t len)
{
    struct protobuf t = {0};

    for (int i = 0; i < n_dims; i++)
        protobuf_int(&t, TENSOR_DIM, (int64_t)dims[i]);
    protobuf_int(&t, TENSOR_TYPE, type);
    protobuf_text(&t, TENSOR_NAMED, name);
    protobuf_bytes(&t, TENSOR_RAW, bytes, len);
    protobuf_message(&g->out, GRAPH_INITIALIZER, &t);
}

static void ints(struct graph *g, char out[VALUE_MAX], const int64_t *v, size_t n)
{
    new_value(g, out);
    initializer(g, out, INT64, &n, 1, v, n * sizeof *v);
}

static void number(struct graph *g, char out[VALUE_MAX], float v)
{
    new_value(g, out);
    initializer(g, out, FLOAT, NULL, 0, &v, sizeof v);
}

static void cast(struct graph *g, char out[VALUE_MAX], const char *x, int type)
{
    struct protobuf a = {0};

    attr_int(&a, "to", type);
    op_to(g, out, "Cast", INPUTS(x), &a);
}

/* The values of a layer's tensor, which the caller frees; NULL marks the graph as failed. */
static float *take(struct graph *g, char name[TENSOR_NAME], int layer, int k)
{
    const struct tensor_spec *s = &g->m->layers[layer].tensors[k];
    float *w = malloc(tensor_spec_count(s) * sizeof *w);

    weights_name(name, g->m, layer, k);
    if (w)
        weights_floats(w, weights_find(g->f, g->prefix, name));
    else
        g->out.failed = true;
    return w;
}

/* As it is. */
static void weights(struct graph *g, char name[TENSOR_NAME], int layer, int k)
{
    const struct tensor_spec *s = &g->m->layers[layer].tensors[k];
    float *w = take(g, name, layer, k);

    if (w)
        initializer(g, name, FLOAT, s->shape, s->n_dims, w, tensor_spec_count(s) * sizeof *w);
    free(w);
}

static void transpose(struct graph *g, const int64_t *order, int n)
{
    struct protobuf a = {0};

    attr_ints(&a, "perm", order, n);
    OP(g, "Transpose", &a, g->at);
}

static void channels_first(struct graph *g)
{
    if (!g->is_nchw)
        transpose(g, (const int64_t[]){0, 3, 1, 2}, 4);
    g->is_nchw = true;
}

static void channels_last(struct graph *g)
{
    if (g->is_nchw)
        transpose(g, (const int64_t[]){0, 2, 3, 1}, 4);
    g->is_nchw = false;
}

/* To (N, shape); 0 stands for what is there. */
static void reshape(struct graph *g, const struct shape *s)
{
    int64_t dims[1 + SHAPE_DIMS] = {0};
    char shape[VALUE_MAX];

    channels_last(g);
    for (int i = 0; i < s->n_dims; i++)
        dims[1 + i] = s->dim[i];
    ints(g, shape, dims, 1 + (size_t)s->n_dims);
    OP(g, "Reshape", NULL, g->at, shape);
}

static void to_reshape(struct graph *g, int layer)
{
    reshape(g, &g->m->layers[layer].out);
}

static void to_dense(struct graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    char weight[TENSOR_NAME], bias[TENSOR_NAME];

    if (l->in.n_dims > 1)
        reshape(g, &(struct shape){.n_dims = 1, .dim = {l->n_in}});
    weights(g, weight, layer, 0);
    weights(g, bias, layer, 1);
    OP(g, "Gemm", NULL, g->at, weight, bias);
}

/* What is missing behind, of one dimension: as much as the last window needs. */
static int64_t padding_behind(int in, int out, int size, int stride, int before)
{
    int missing = (out - 1) * stride + size - in - before;

    return missing > 0 ? missing : 0;
}

static void window_attrs(struct protobuf *a, const struct layer_spec *l)
{
    const struct window_spec *w = &l->window;
    int64_t bottom = padding_behind(l->in.dim[0], l->out.dim[0], w->rows, w->row_stride, w->top);
    int64_t right = padding_behind(l->in.dim[1], l->out.dim[1], w->cols, w->col_stride, w->left);

    attr_ints(a, "kernel_shape", (const int64_t[]){w->rows, w->cols}, 2);
    attr_ints(a, "strides", (const int64_t[]){w->row_stride, w->col_stride}, 2);
    attr_ints(a, "pads", (const int64_t[]){w->top, w->left, bottom, right}, 4);
}

/* (rows, columns, in, out) -> (out, in, rows, columns) */
static void conv_weights(struct graph *g, char name[TENSOR_NAME], int layer)
{
    const size_t *s = g->m->layers[layer].tensors[0].shape;
    size_t n_places = s[0] * s[1], n_in = s[2], n_out = s[3];
    const size_t dims[4] = {n_out, n_in, s[0], s[1]};
    float *w = take(g, name, layer, 0);
    float *t = malloc(n_places * n_in * n_out * sizeof *t);

    g->out.failed |= !t;
    for (size_t o = 0; w && t && o < n_out; o++)
        for (size_t i = 0; i < n_in; i++)
            for (size_t p = 0; p < n_places; p++)
                t[(o * n_in + i) * n_places + p] = w[(p * n_in + i) * n_out + o];
    if (w && t)
        initializer(g, name, FLOAT, dims, 4, t, n_places * n_in * n_out * sizeof *t);
    free(w);
    free(t);
}

static void to_conv2d(struct graph *g, int layer)
{
    char weight[TENSOR_NAME], bias[TENSOR_NAME];
    struct protobuf a = {0};

    channels_first(g);
    conv_weights(g, weight, layer);
    weights(g, bias, layer, 1);
    window_attrs(&a, &g->m->layers[layer]);
    OP(g, "Conv", &a, g->at, weight, bias);
}

static void to_max_pool(struct graph *g, int layer)
{
    struct protobuf a = {0};

    channels_first(g);
    window_attrs(&a, &g->m->layers[layer]);
    OP(g, "MaxPool", &a, g->at);
}

static void to_avg_pool(struct graph *g, int layer)
{
    struct protobuf a = {0};

    channels_first(g);
    window_attrs(&a, &g->m->layers[layer]);
    attr_int(&a, "count_include_pad", 0);
    OP(g, "AveragePool", &a, g->at);
}

/* ONNX wants the channels second. */
static void to_batch_norm(struct graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    bool is_sequence = l->in.n_dims == 2;
    char gain[TENSOR_NAME], bias[TENSOR_NAME], mean[TENSOR_NAME], var[TENSOR_NAME];
    struct protobuf a = {0};

    weights(g, gain, layer, 0);
    weights(g, bias, layer, 1);
    weights(g, mean, layer, 2);
    weights(g, var, layer, 3);
    if (l->in.n_dims == 3)
        channels_first(g);
    if (is_sequence)
        transpose(g, (const int64_t[]){0, 2, 1}, 3);
    attr_float(&a, "epsilon", l->norm.epsilon);
    OP(g, "BatchNormalization", &a, g->at, gain, bias, mean, var);
    if (is_sequence)
        transpose(g, (const int64_t[]){0, 2, 1}, 3);
}

static void mean_of_last(struct graph *g, char out[VALUE_MAX], const char *x)
{
    struct protobuf a = {0};

    attr_ints(&a, "axes", (const int64_t[]){-1}, 1);
    op_to(g, out, "ReduceMean", INPUTS(x), &a);
}

/* Operator set 17 has LayerNormalization; this one composes it. */
static void to_layer_norm(struct graph *g, int layer)
{
    char gain[TENSOR_NAME], bias[TENSOR_NAME];
    char mean[VALUE_MAX], centred[VALUE_MAX], var[VALUE_MAX], epsilon[VALUE_MAX];

    channels_last(g);
    weights(g, gain, layer, 0);
    weights(g, bias, layer, 1);
    number(g, epsilon, g->m->layers[layer].norm.epsilon);
    mean_of_last(g, mean, g->at);
    op_to(g, centred, "Sub", INPUTS(g->at, mean), NULL);
    op_to(g, var, "Mul", INPUTS(centred, centred), NULL);
    mean_of_last(g, var, var);
    op_to(g, var, "Add", INPUTS(var, epsilon), NULL);
    op_to(g, var, "Sqrt", INPUTS(var), NULL);
    OP(g, "Div", NULL, centred, var);
    OP(g, "Mul", NULL, g->at, gain);
    OP(g, "Add", NULL, g->at, bias);
}

static void to_nothing(struct graph *g, int layer)
{
    (void)g, (void)layer;
}

static void to_embedding(struct graph *g, int layer)
{
    char weight[TENSOR_NAME];

    weights(g, weight, layer, 0);
    OP(g, "Gather", NULL, weight, g->at);
}

/* ONNX's gates in its order, by number of the gate here. */
static const int lstm_gates[] = {0, 3, 1, 2}; /* i o f c of i f g o */
static const int gru_gates[] = {1, 0, 2};     /* z r h of r z n */

struct recurrence {
    int layer, n_gates, units;
    const int *gates;
};

/* (n, gates x units) -> (1, gates x units, n) */
static void gate_weights(struct graph *g, char name[TENSOR_NAME], const struct recurrence *r, int k)
{
    const struct tensor_spec *s = &g->m->layers[r->layer].tensors[k];
    size_t n = s->shape[0], units = (size_t)r->units, width = s->shape[1];
    const size_t dims[3] = {1, width, n};
    float *w = take(g, name, r->layer, k);
    float *t = malloc(n * width * sizeof *t);

    g->out.failed |= !t;
    for (size_t to = 0; w && t && to < width; to++) {
        size_t from = (size_t)r->gates[to / units] * units + to % units;

        for (size_t i = 0; i < n; i++)
            t[to * n + i] = w[i * width + from];
    }
    if (w && t)
        initializer(g, name, FLOAT, dims, 3, t, n * width * sizeof *t);
    free(w);
    free(t);
}

/* The input's and the state's bias behind each other: (1, 2 x gates x units). An lstm has one here, for their
 * sum counts. */
static void gate_bias(struct graph *g, char name[TENSOR_NAME], const struct recurrence *r)
{
    const struct layer_spec *l = &g->m->layers[r->layer];
    size_t width = (size_t)(r->n_gates * r->units);
    const size_t dims[2] = {1, 2 * width};
    float *b = calloc(2 * width, sizeof *b);

    g->out.failed |= !b;
    for (int k = 2; k < l->n_tensors; k++) {
        char own[TENSOR_NAME];
        float *w = take(g, own, r->layer, k);

        for (size_t to = 0; w && b && to < width; to++)
            b[(size_t)(k - 2) * width + to] =
                w[(size_t)(r->gates[to / (size_t)r->units] * r->units) + to % (size_t)r->units];
        free(w);
    }
    weights_name(name, g->m, r->layer, 2);
    if (b)
        initializer(g, name, FLOAT, dims, 2, b, 2 * width * sizeof *b);
    free(b);
}

static void squeeze(struct graph *g, int64_t axis)
{
    char axes[VALUE_MAX];

    ints(g, axes, &axis, 1);
    OP(g, "Squeeze", NULL, g->at, axes);
}

/* As many steps as a text has, of those the layer sees: (N) floats, "" where there are no texts. */
static void lengths_of(struct graph *g, char out[VALUE_MAX], const struct layer_spec *l)
{
    char time[VALUE_MAX];

    memcpy(out, g->lengths, VALUE_MAX);
    if (!out[0] || l->in.dim[0] >= g->m->n_in)
        return;
    number(g, time, (float)l->in.dim[0]);
    op_to(g, out, "Min", INPUTS(out, time), NULL);
}

/* ONNX has time first, and beside it a dimension of directions, one here: Y (time, 1, N, units) and the last
 * state Y_h (1, N, units). */
static void recurrent(struct graph *g, const char *op, const struct recurrence *r, struct protobuf *a)
{
    bool sequences = g->m->layers[r->layer].recurrent.sequences;
    char weight[TENSOR_NAME], own[TENSOR_NAME], bias[TENSOR_NAME];
    char made[VALUE_MAX], lengths[VALUE_MAX];
    const char *in[] = {g->at, weight, own, bias, lengths};

    gate_weights(g, weight, r, 0);
    gate_weights(g, own, r, 1);
    gate_bias(g, bias, r);
    lengths_of(g, lengths, &g->m->layers[r->layer]);
    if (lengths[0])
        cast(g, lengths, lengths, INT32);
    attr_int(a, "hidden_size", r->units);
    transpose(g, (const int64_t[]){1, 0, 2}, 3);
    new_value(g, made);
    node(g, op, in, lengths[0] ? 5 : 4, made, sequences ? 0 : 1, a);
    memcpy(g->at, made, sizeof made);
    squeeze(g, sequences ? 1 : 0);
    if (sequences)
        transpose(g, (const int64_t[]){1, 0, 2}, 3);
}

static void to_lstm(struct graph *g, int layer)
{
    struct protobuf a = {0};
    int units = (int)g->m->layers[layer].tensors[1].shape[0];

    recurrent(g, "LSTM", &(struct recurrence){layer, 4, units, lstm_gates}, &a);
}

static void to_gru(struct graph *g, int layer)
{
    struct protobuf a = {0};
    int units = (int)g->m->layers[layer].tensors[1].shape[0];

    attr_int(&a, "linear_before_reset", 1); /* the state's bias of gate n stands inside the reset gate */
    recurrent(g, "GRU", &(struct recurrence){layer, 3, units, gru_gates}, &a);
}

/* 0, 1, ... time-1 as floats. */
static void positions(struct graph *g, char out[VALUE_MAX], int time, float first)
{
    size_t n = (size_t)time;
    float *v = malloc(n * sizeof *v);

    new_value(g, out);
    g->out.failed |= !v;
    for (size_t i = 0; v && i < n; i++)
        v[i] = first + (float)i;
    if (v)
        initializer(g, out, FLOAT, &n, 1, v, n * sizeof *v);
    free(v);
}

/* Texts end behind their last token that is not 0, and have at least one. */
static void find_lengths(struct graph *g)
{
    char t[VALUE_MAX], place[VALUE_MAX], one[VALUE_MAX];
    struct protobuf a = {0};

    positions(g, place, g->m->n_in, 1);
    number(g, one, 1);
    cast(g, t, g->at, BOOL);
    cast(g, t, t, FLOAT);
    op_to(g, t, "Mul", INPUTS(t, place), NULL);
    attr_ints(&a, "axes", (const int64_t[]){1}, 1);
    attr_int(&a, "keepdims", 0);
    op_to(g, t, "ReduceMax", INPUTS(t), &a);
    op_to(g, g->lengths, "Max", INPUTS(t, one), NULL);
}

/* Over all of the time, or over as much of it as the text is long: sum(x mask) / length. */
static void to_mean_over_time(struct graph *g, int layer)
{
    const int64_t last = -1, time = 1;
    char axis[VALUE_MAX], length[VALUE_MAX], mask[VALUE_MAX], place[VALUE_MAX];
    struct protobuf a = {0};

    if (!g->lengths[0]) {
        attr_ints(&a, "axes", &time, 1);
        attr_int(&a, "keepdims", 0);
        OP(g, "ReduceMean", &a, g->at);
        return;
    }
    positions(g, place, g->m->layers[layer].in.dim[0], 0);
    ints(g, axis, &last, 1);
    lengths_of(g, length, &g->m->layers[layer]);
    op_to(g, length, "Unsqueeze", INPUTS(length, axis), NULL); /* (N, 1) */
    op_to(g, mask, "Less", INPUTS(place, length), NULL);       /* (N, time) */
    cast(g, mask, mask, FLOAT);
    op_to(g, mask, "Unsqueeze", INPUTS(mask, axis), NULL);
    OP(g, "Mul", NULL, g->at, mask);
    ints(g, axis, &time, 1);
    attr_int(&a, "keepdims", 0);
    OP(g, "ReduceSum", &a, g->at, axis);
    OP(g, "Div", NULL, g->at, length);
}

static void to_relu(struct graph *g, int layer)
{
    (void)layer;
    OP(g, "Relu", NULL, g->at);
}

static void to_leaky_relu(struct graph *g, int layer)
{
    struct protobuf a = {0};

    attr_float(&a, "alpha", g->m->layers[layer].leaky_relu.slope);
    OP(g, "LeakyRelu", &a, g->at);
}

static void to_tanh(struct graph *g, int layer)
{
    (void)layer;
    OP(g, "Tanh", NULL, g->at);
}

static void to_sigmoid(struct graph *g, int layer)
{
    (void)layer;
    OP(g, "Sigmoid", NULL, g->at);
}

/* Hendrycks and Gimpel 2016: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static void to_gelu(struct graph *g, int layer)
{
    char x[VALUE_MAX], cube[VALUE_MAX], half[VALUE_MAX], one[VALUE_MAX], share[VALUE_MAX], root[VALUE_MAX];

    (void)layer;
    memcpy(x, g->at, sizeof x);
    number(g, half, 0.5f);
    number(g, one, 1);
    number(g, share, 0.044715f);
    number(g, root, (float)sqrt(2 / M_PI));
    op_to(g, cube, "Mul", INPUTS(x, x), NULL);
    op_to(g, cube, "Mul", INPUTS(cube, x), NULL);
    op_to(g, cube, "Mul", INPUTS(cube, share), NULL);
    op_to(g, cube, "Add", INPUTS(x, cube), NULL);
    op_to(g, cube, "Mul", INPUTS(cube, root), NULL);
    op_to(g, cube, "Tanh", INPUTS(cube), NULL);
    op_to(g, cube, "Add", INPUTS(cube, one), NULL);
    op_to(g, half, "Mul", INPUTS(x, half), NULL);
    OP(g, "Mul", NULL, half, cube);
}

static void to_softmax(struct graph *g, int layer)
{
    struct protobuf a = {0};

    (void)layer;
    channels_last(g);
    attr_int(&a, "axis", -1);
    OP(g, "Softmax", &a, g->at);
}

static void (*const convert[N_LAYER_KINDS])(struct graph *g, int layer) = {
    [LAYER_DENSE] = to_dense,
    [LAYER_CONV2D] = to_conv2d,
    [LAYER_MAX_POOL] = to_max_pool,
    [LAYER_AVG_POOL] = to_avg_pool,
    [LAYER_BATCH_NORM] = to_batch_norm,
    [LAYER_LAYER_NORM] = to_layer_norm,
    [LAYER_DROPOUT] = to_nothing,
    [LAYER_FLATTEN] = to_reshape,
    [LAYER_RESHAPE] = to_reshape,
    [LAYER_EMBEDDING] = to_embedding,
    [LAYER_LSTM] = to_lstm,
    [LAYER_GRU] = to_gru,
    [LAYER_LINEAR] = to_nothing,
    [LAYER_MEAN_OVER_TIME] = to_mean_over_time,
    [LAYER_RELU] = to_relu,
    [LAYER_LEAKY_RELU] = to_leaky_relu,
    [LAYER_TANH] = to_tanh,
    [LAYER_SIGMOID] = to_sigmoid,
    [LAYER_GELU] = to_gelu,
    [LAYER_SOFTMAX] = to_softmax,
};

/* An input or output of the graph: (N, shape). */
static void describe(struct graph *g, int field, const char *name, int type, const struct shape *s)
{
    struct protobuf value = {0}, of_type = {0}, tensor = {0}, shape = {0}, dim = {0};

    protobuf_text(&dim, DIM_PARAM, "N");
    protobuf_message(&shape, SHAPE_DIM, &dim);
    for (int i = 0; i < s->n_dims; i++) {
        protobuf_int(&dim, DIM_VALUE, s->dim[i]);
        protobuf_message(&shape, SHAPE_DIM, &dim);
    }
    protobuf_int(&tensor, TENSOR_ELEM, type);
    protobuf_message(&tensor, TENSOR_SHAPE, &shape);
    protobuf_message(&of_type, TYPE_TENSOR, &tensor);
    protobuf_text(&value, VALUE_NAME, name);
    protobuf_message(&value, VALUE_TYPE, &of_type);
    protobuf_message(&g->out, field, &value);
}

static bool needs_lengths(const struct model_spec *m)
{
    for (int i = 0; i < m->n_layers; i++)
        if (m->layers[i].kind == LAYER_LSTM || m->layers[i].kind == LAYER_GRU ||
            m->layers[i].kind == LAYER_MEAN_OVER_TIME)
            return model_spec_vocab(m) > 0;
    return false;
}

static void build(struct graph *g)
{
    const struct model_spec *m = g->m;

    protobuf_text(&g->out, GRAPH_NAME, m->name);
    describe(g, GRAPH_INPUT, "input", model_spec_vocab(m) > 0 ? INT32 : FLOAT, &m->in);
    strcpy(g->at, "input");
    if (needs_lengths(m))
        find_lengths(g);
    for (int i = 0; i < m->n_layers; i++)
        convert[m->layers[i].kind](g, i);
    channels_last(g);
    node(g, "Identity", INPUTS(g->at), 1, "output", 0, NULL);
    describe(g, GRAPH_OUTPUT, "output", FLOAT, &m->layers[m->n_layers - 1].out);
}

int onnx_write(const char *path, const struct model_spec *m, const struct tensor_file *f, const char *prefix,
               struct err *e)
{
    struct graph g = {.m = m, .f = f, .prefix = prefix};
    struct protobuf model = {0}, opset = {0};
    int rc;

    if (m->n_params * sizeof(float) > bytes_max)
        return err_set(e, ERR_CONFIG, "%zu parameters: an ONNX file has at most 2 GiB", m->n_params);
    build(&g);
    protobuf_int(&model, MODEL_IR, IR_VERSION);
    protobuf_text(&model, MODEL_PRODUCER, "psgd");
    protobuf_text(&model, MODEL_PRODUCER_VERSION, PSGD_VERSION);
    protobuf_message(&model, MODEL_GRAPH, &g.out);
    protobuf_text(&opset, OPSET_DOMAIN, "");
    protobuf_int(&opset, OPSET_VERSION, OPSET);
    protobuf_message(&model, MODEL_OPSET, &opset);
    rc = model.failed ? err_set(e, ERR_NOMEM, "no memory for the model's %zu parameters", m->n_params)
                      : file_write(path, model.bytes, model.len, 0644, e);
    protobuf_clear(&model);
    return rc;
}
