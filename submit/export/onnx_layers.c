/* Layers as ONNX nodes. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/records/weights.h"
#include "submit/export/onnx_private.h"

/* The values of a layer's tensor, which the caller frees. NULL: no memory, and the graph is marked as
 * failed. */
static float *copy_tensor(struct onnx_graph *g, char name[TENSOR_NAME], int layer, int k)
{
    const struct tensor_spec *s = &g->m->layers[layer].tensors[k];
    float *w = malloc(tensor_spec_count(s) * sizeof *w);

    snprintf(name, TENSOR_NAME, "%s", model_spec_tensor(g->m, layer, k)->name);
    if (w)
        weights_floats(w, weights_find(g->f, g->prefix, name));
    else
        g->out.failed = true;
    return w;
}

/* Adds a tensor unchanged. */
static void put_weights(struct onnx_graph *g, char name[TENSOR_NAME], int layer, int k)
{
    const struct tensor_spec *s = &g->m->layers[layer].tensors[k];
    float *w = copy_tensor(g, name, layer, k);

    if (w)
        onnx_initializer(g, name, ONNX_FLOAT, s->shape, s->n_dims, w, tensor_spec_count(s) * sizeof *w);
    free(w);
}

static void transpose(struct onnx_graph *g, const int64_t *order, int n)
{
    struct protobuf a = {0};

    onnx_attr_ints(&a, "perm", order, n);
    ONNX_OP(g, "Transpose", &a, g->at);
}

static void channels_first(struct onnx_graph *g)
{
    if (!g->is_nchw)
        transpose(g, (const int64_t[]){0, 3, 1, 2}, 4);
    g->is_nchw = true;
}

void onnx_channels_last(struct onnx_graph *g)
{
    if (g->is_nchw)
        transpose(g, (const int64_t[]){0, 2, 3, 1}, 4);
    g->is_nchw = false;
}

/* Reshapes to (N, shape); 0 stands for an unchanged dimension. */
static void reshape(struct onnx_graph *g, const struct shape *s)
{
    int64_t dims[1 + SHAPE_DIMS] = {0};
    char shape[ONNX_VALUE];

    onnx_channels_last(g);
    for (int i = 0; i < s->n_dims; i++)
        dims[1 + i] = s->dim[i];
    onnx_ints(g, shape, dims, 1 + (size_t)s->n_dims);
    ONNX_OP(g, "Reshape", NULL, g->at, shape);
}

static void to_reshape(struct onnx_graph *g, int layer)
{
    reshape(g, &g->m->layers[layer].out);
}

/* at <- at w + b over the last dimension. Tensors k and, if has_bias, k + 1 of the layer. */
static void linear_map(struct onnx_graph *g, int layer, int k, bool has_bias)
{
    char weight[TENSOR_NAME], bias[TENSOR_NAME];

    put_weights(g, weight, layer, k);
    ONNX_OP(g, "MatMul", NULL, g->at, weight);
    if (!has_bias)
        return;
    put_weights(g, bias, layer, k + 1);
    ONNX_OP(g, "Add", NULL, g->at, bias);
}

static void to_dense(struct onnx_graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    char weight[TENSOR_NAME], bias[TENSOR_NAME];

    if (l->out.n_dims > 1 || l->n_tensors == 1) {
        if (l->out.n_dims == 1 && l->in.n_dims > 1)
            reshape(g, &(struct shape){.n_dims = 1, .dim = {l->n_in}});
        linear_map(g, layer, 0, l->n_tensors > 1);
        return;
    }
    if (l->in.n_dims > 1)
        reshape(g, &(struct shape){.n_dims = 1, .dim = {l->n_in}});
    put_weights(g, weight, layer, 0);
    put_weights(g, bias, layer, 1);
    ONNX_OP(g, "Gemm", NULL, g->at, weight, bias);
}

/* The padding after one dimension: as much as the last window needs. */
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

    onnx_attr_ints(a, "kernel_shape", (const int64_t[]){w->rows, w->cols}, 2);
    onnx_attr_ints(a, "strides", (const int64_t[]){w->row_stride, w->col_stride}, 2);
    onnx_attr_ints(a, "pads", (const int64_t[]){w->top, w->left, bottom, right}, 4);
}

/* (rows, columns, in, out) -> (out, in, rows, columns) */
static void conv_weights(struct onnx_graph *g, char name[TENSOR_NAME], int layer)
{
    const size_t *s = g->m->layers[layer].tensors[0].shape;
    size_t n_places = s[0] * s[1], n_in = s[2], n_out = s[3];
    const size_t dims[4] = {n_out, n_in, s[0], s[1]};
    float *w = copy_tensor(g, name, layer, 0);
    float *t = malloc(n_places * n_in * n_out * sizeof *t);

    g->out.failed |= !t;
    for (size_t o = 0; w && t && o < n_out; o++)
        for (size_t i = 0; i < n_in; i++)
            for (size_t p = 0; p < n_places; p++)
                t[(o * n_in + i) * n_places + p] = w[(p * n_in + i) * n_out + o];
    if (w && t)
        onnx_initializer(g, name, ONNX_FLOAT, dims, 4, t, n_places * n_in * n_out * sizeof *t);
    free(w);
    free(t);
}

static void to_conv2d(struct onnx_graph *g, int layer)
{
    char weight[TENSOR_NAME], bias[TENSOR_NAME];
    struct protobuf a = {0};

    channels_first(g);
    conv_weights(g, weight, layer);
    put_weights(g, bias, layer, 1);
    window_attrs(&a, &g->m->layers[layer]);
    ONNX_OP(g, "Conv", &a, g->at, weight, bias);
}

static void to_max_pool(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};

    channels_first(g);
    window_attrs(&a, &g->m->layers[layer]);
    ONNX_OP(g, "MaxPool", &a, g->at);
}

static void to_avg_pool(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};

    channels_first(g);
    window_attrs(&a, &g->m->layers[layer]);
    onnx_attr_int(&a, "count_include_pad", 0);
    ONNX_OP(g, "AveragePool", &a, g->at);
}

/* In ONNX channels are the second dimension. */
static void to_batch_norm(struct onnx_graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    bool is_sequence = l->in.n_dims == 2;
    char gain[TENSOR_NAME], bias[TENSOR_NAME], mean[TENSOR_NAME], var[TENSOR_NAME];
    struct protobuf a = {0};

    put_weights(g, gain, layer, 0);
    put_weights(g, bias, layer, 1);
    put_weights(g, mean, layer, 2);
    put_weights(g, var, layer, 3);
    if (l->in.n_dims == 3)
        channels_first(g);
    if (is_sequence)
        transpose(g, (const int64_t[]){0, 2, 1}, 3);
    onnx_attr_float(&a, "epsilon", l->norm.epsilon);
    ONNX_OP(g, "BatchNormalization", &a, g->at, gain, bias, mean, var);
    if (is_sequence)
        transpose(g, (const int64_t[]){0, 2, 1}, 3);
}

static void mean_of_last(struct onnx_graph *g, char out[ONNX_VALUE], const char *x)
{
    struct protobuf a = {0};

    onnx_attr_ints(&a, "axes", (const int64_t[]){-1}, 1);
    onnx_op(g, out, "ReduceMean", ONNX_INPUTS(x), &a);
}

/* at <- x / sqrt(mean of x^2 + epsilon) * gain, over the last dimension */
static void divide_by_rms(struct onnx_graph *g, int layer, const char *x)
{
    char gain[TENSOR_NAME];
    char square[ONNX_VALUE], epsilon[ONNX_VALUE];

    put_weights(g, gain, layer, 0);
    onnx_number(g, epsilon, g->m->layers[layer].norm.epsilon);
    onnx_op(g, square, "Mul", ONNX_INPUTS(x, x), NULL);
    mean_of_last(g, square, square);
    onnx_op(g, square, "Add", ONNX_INPUTS(square, epsilon), NULL);
    onnx_op(g, square, "Sqrt", ONNX_INPUTS(square), NULL);
    ONNX_OP(g, "Div", NULL, x, square);
    ONNX_OP(g, "Mul", NULL, g->at, gain);
}

/* LayerNormalization exists only since operator set 17, so it is composed of other operators. */
static void to_layer_norm(struct onnx_graph *g, int layer)
{
    char bias[TENSOR_NAME], centred[ONNX_VALUE];

    onnx_channels_last(g);
    mean_of_last(g, centred, g->at);
    onnx_op(g, centred, "Sub", ONNX_INPUTS(g->at, centred), NULL);
    divide_by_rms(g, layer, centred);
    if (g->m->layers[layer].n_tensors == 1)
        return;
    put_weights(g, bias, layer, 1);
    ONNX_OP(g, "Add", NULL, g->at, bias);
}

static void to_rms_norm(struct onnx_graph *g, int layer)
{
    char x[ONNX_VALUE];

    onnx_channels_last(g);
    memcpy(x, g->at, sizeof x);
    divide_by_rms(g, layer, x);
}

static void to_nothing(struct onnx_graph *g, int layer)
{
    (void)g, (void)layer;
}

static void to_embedding(struct onnx_graph *g, int layer)
{
    char weight[TENSOR_NAME];

    put_weights(g, weight, layer, 0);
    ONNX_OP(g, "Gather", NULL, weight, g->at);
}

/* The whole tensor is in the graph, and Slice takes the rows of the model's steps. */
static void to_position_embedding(struct onnx_graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    const int64_t zero = 0, time = l->in.dim[0];
    char weight[TENSOR_NAME], first[ONNX_VALUE], end[ONNX_VALUE], rows[ONNX_VALUE];

    put_weights(g, weight, layer, 0);
    onnx_ints(g, first, &zero, 1);
    onnx_ints(g, end, &time, 1);
    onnx_op(g, rows, "Slice", ONNX_INPUTS(weight, first, end), NULL);
    ONNX_OP(g, "Add", NULL, g->at, rows);
}

/* (time, time): 0 on the diagonal and below, above it so small that its softmax is 0. */
static void causal_mask(struct onnx_graph *g, char out[ONNX_VALUE], int time)
{
    const size_t dims[2] = {(size_t)time, (size_t)time};
    float *v = calloc(dims[0] * dims[1], sizeof *v);

    onnx_value(g, out);
    g->out.failed |= !v;
    for (size_t i = 0; v && i < dims[0]; i++)
        for (size_t j = i + 1; j < dims[1]; j++)
            v[i * dims[1] + j] = -1e30f;
    if (v)
        onnx_initializer(g, out, ONNX_FLOAT, dims, 2, v, dims[0] * dims[1] * sizeof *v);
    free(v);
}

/* out: number `which` of the queries, keys and values in at (3, N, heads, time, e). */
static void one_of_three(struct onnx_graph *g, char out[ONNX_VALUE], int64_t which)
{
    char index[ONNX_VALUE];

    onnx_value(g, index);
    onnx_initializer(g, index, ONNX_INT64, NULL, 0, &which, sizeof which);
    onnx_op(g, out, "Gather", ONNX_INPUTS(g->at, index), NULL);
}

/* out: columns from to end of the last dimension of x. */
static void last_columns(struct onnx_graph *g, char out[ONNX_VALUE], const char *x, int64_t from, int64_t end)
{
    const int64_t axis = -1;
    char first[ONNX_VALUE], last[ONNX_VALUE], axes[ONNX_VALUE];

    onnx_ints(g, first, &from, 1);
    onnx_ints(g, last, &end, 1);
    onnx_ints(g, axes, &axis, 1);
    onnx_op(g, out, "Slice", ONNX_INPUTS(x, first, last, axes), NULL);
}

/* x (N, heads, time, e), rotated: x cos + [-second half, first half] sin, both (time, e). */
static void rotate(struct onnx_graph *g, char x[ONNX_VALUE], const struct layer_spec *l, const char *cosine,
                   const char *sine)
{
    const int e = l->in.dim[1] / l->attention.heads;
    char a[ONNX_VALUE], b[ONNX_VALUE];
    struct protobuf attrs = {0};

    last_columns(g, a, x, 0, e / 2);
    last_columns(g, b, x, e / 2, e);
    onnx_op(g, b, "Neg", ONNX_INPUTS(b), NULL);
    onnx_attr_int(&attrs, "axis", -1);
    onnx_op(g, a, "Concat", ONNX_INPUTS(b, a), &attrs);
    onnx_op(g, a, "Mul", ONNX_INPUTS(a, sine), NULL);
    onnx_op(g, x, "Mul", ONNX_INPUTS(x, cosine), NULL);
    onnx_op(g, x, "Add", ONNX_INPUTS(x, a), NULL);
}

/* out: the cosines, or sines, of the angles of each step and value of a head, (time, e). */
static void angles(struct onnx_graph *g, char out[ONNX_VALUE], const struct layer_spec *l,
                   double (*function)(double))
{
    const size_t time = (size_t)l->in.dim[0], e = (size_t)(l->in.dim[1] / l->attention.heads);
    const size_t dims[2] = {time, e};
    float *v = malloc(time * e * sizeof *v);

    onnx_value(g, out);
    g->out.failed |= !v;
    for (size_t t = 0; v && t < time; t++)
        for (size_t k = 0; k < e; k++)
            v[t * e + k] = (float)function(
                (double)t * pow((double)l->attention.rope, -2.0 * (double)(k % (e / 2)) / (double)e));
    if (v)
        onnx_initializer(g, out, ONNX_FLOAT, dims, 2, v, time * e * sizeof *v);
    free(v);
}

static void to_attention(struct onnx_graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    const int time = l->in.dim[0], heads = l->attention.heads, e = l->in.dim[1] / heads;
    const bool has_bias = l->n_tensors == 4;
    char q[ONNX_VALUE], k[ONNX_VALUE], v[ONNX_VALUE], other[ONNX_VALUE];
    struct protobuf a = {0};

    linear_map(g, layer, 0, has_bias);
    onnx_ints(g, other, (const int64_t[]){0, time, 3, heads, e}, 5);
    ONNX_OP(g, "Reshape", NULL, g->at, other);
    transpose(g, (const int64_t[]){2, 0, 3, 1, 4}, 5);
    one_of_three(g, q, 0);
    one_of_three(g, k, 1);
    one_of_three(g, v, 2);
    if (l->attention.rope > 0) {
        char cosine[ONNX_VALUE], sine[ONNX_VALUE];

        angles(g, cosine, l, cos);
        angles(g, sine, l, sin);
        rotate(g, q, l, cosine, sine);
        rotate(g, k, l, cosine, sine);
    }
    onnx_attr_ints(&a, "perm", (const int64_t[]){0, 1, 3, 2}, 4);
    onnx_op(g, k, "Transpose", ONNX_INPUTS(k), &a);
    ONNX_OP(g, "MatMul", NULL, q, k);
    onnx_number(g, other, 1 / sqrtf((float)e));
    ONNX_OP(g, "Mul", NULL, g->at, other);
    causal_mask(g, other, time);
    ONNX_OP(g, "Add", NULL, g->at, other);
    onnx_attr_int(&a, "axis", -1);
    ONNX_OP(g, "Softmax", &a, g->at);
    ONNX_OP(g, "MatMul", NULL, g->at, v);
    transpose(g, (const int64_t[]){0, 2, 1, 3}, 4);
    reshape(g, &l->out);
    linear_map(g, layer, has_bias ? 2 : 1, has_bias);
}

/* The embedding has put its weight into the graph. */
static void to_head(struct onnx_graph *g, int layer)
{
    const char *weight = model_spec_tensor(g->m, layer + g->m->layers[layer].partner, 0)->name;
    char turned[ONNX_VALUE];
    struct protobuf a = {0};

    onnx_attr_ints(&a, "perm", (const int64_t[]){1, 0}, 2);
    onnx_op(g, turned, "Transpose", ONNX_INPUTS(weight), &a);
    ONNX_OP(g, "MatMul", NULL, g->at, turned);
}

static void to_swiglu(struct onnx_graph *g, int layer)
{
    const struct layer_spec *l = &g->m->layers[layer];
    const int n = l->out.dim[l->out.n_dims - 1];
    char a[ONNX_VALUE], b[ONNX_VALUE];

    onnx_channels_last(g);
    last_columns(g, a, g->at, 0, n);
    last_columns(g, b, g->at, n, 2 * n);
    ONNX_OP(g, "Sigmoid", NULL, a);
    ONNX_OP(g, "Mul", NULL, g->at, a);
    ONNX_OP(g, "Mul", NULL, g->at, b);
}

static void to_residual(struct onnx_graph *g, int layer)
{
    (void)layer;
    onnx_channels_last(g);
    memcpy(g->around, g->at, sizeof g->around);
}

static void to_sum(struct onnx_graph *g, int layer)
{
    (void)layer;
    onnx_channels_last(g);
    ONNX_OP(g, "Add", NULL, g->at, g->around);
}

/* The numbers of psgd's gates in the order of ONNX. */
static const int lstm_gates[] = {0, 3, 1, 2}; /* i o f c of i f g o */
static const int gru_gates[] = {1, 0, 2};     /* z r h of r z n */

struct recurrence {
    int layer, n_gates, units;
    const int *gates;
};

/* (n, gates x units) -> (1, gates x units, n) */
static void gate_weights(struct onnx_graph *g, char name[TENSOR_NAME], const struct recurrence *r, int k)
{
    const struct tensor_spec *s = &g->m->layers[r->layer].tensors[k];
    size_t n = s->shape[0], units = (size_t)r->units, width = s->shape[1];
    const size_t dims[3] = {1, width, n};
    float *w = copy_tensor(g, name, r->layer, k);
    float *t = malloc(n * width * sizeof *t);

    g->out.failed |= !t;
    for (size_t to = 0; w && t && to < width; to++) {
        size_t from = (size_t)r->gates[to / units] * units + to % units;

        for (size_t i = 0; i < n; i++)
            t[to * n + i] = w[i * width + from];
    }
    if (w && t)
        onnx_initializer(g, name, ONNX_FLOAT, dims, 3, t, n * width * sizeof *t);
    free(w);
    free(t);
}

/* The biases of the input and of the state, concatenated: (1, 2 x gates x units). An lstm of psgd has only
 * the first, because only their sum matters. */
static void gate_bias(struct onnx_graph *g, char name[TENSOR_NAME], const struct recurrence *r)
{
    const struct layer_spec *l = &g->m->layers[r->layer];
    size_t width = (size_t)(r->n_gates * r->units);
    const size_t dims[2] = {1, 2 * width};
    float *b = calloc(2 * width, sizeof *b);

    g->out.failed |= !b;
    for (int k = 2; k < l->n_tensors; k++) {
        char own[TENSOR_NAME];
        float *w = copy_tensor(g, own, r->layer, k);

        for (size_t to = 0; w && b && to < width; to++)
            b[(size_t)(k - 2) * width + to] =
                w[(size_t)(r->gates[to / (size_t)r->units] * r->units) + to % (size_t)r->units];
        free(w);
    }
    snprintf(name, TENSOR_NAME, "%s", model_spec_tensor(g->m, r->layer, 2)->name);
    if (b)
        onnx_initializer(g, name, ONNX_FLOAT, dims, 2, b, 2 * width * sizeof *b);
    free(b);
}

static void squeeze(struct onnx_graph *g, int64_t axis)
{
    char axes[ONNX_VALUE];

    onnx_ints(g, axes, &axis, 1);
    ONNX_OP(g, "Squeeze", NULL, g->at, axes);
}

/* out: the length of each text, at most the layer's number of steps, as (N) floats; "" without texts. */
static void lengths_of(struct onnx_graph *g, char out[ONNX_VALUE], const struct layer_spec *l)
{
    char time[ONNX_VALUE];

    memcpy(out, g->lengths, ONNX_VALUE);
    if (!out[0] || l->in.dim[0] >= g->m->n_in)
        return;
    onnx_number(g, time, (float)l->in.dim[0]);
    onnx_op(g, out, "Min", ONNX_INPUTS(out, time), NULL);
}

/* In ONNX time is the first dimension and the second is of directions, of which there is one:
 * Y (time, 1, N, units) and the last state Y_h (1, N, units). */
static void recurrent(struct onnx_graph *g, const char *op, const struct recurrence *r, struct protobuf *a)
{
    bool sequences = g->m->layers[r->layer].recurrent.sequences;
    char weight[TENSOR_NAME], own[TENSOR_NAME], bias[TENSOR_NAME];
    char made[ONNX_VALUE], lengths[ONNX_VALUE];
    const char *in[] = {g->at, weight, own, bias, lengths};

    gate_weights(g, weight, r, 0);
    gate_weights(g, own, r, 1);
    gate_bias(g, bias, r);
    lengths_of(g, lengths, &g->m->layers[r->layer]);
    if (lengths[0])
        onnx_cast(g, lengths, lengths, ONNX_INT32);
    onnx_attr_int(a, "hidden_size", r->units);
    transpose(g, (const int64_t[]){1, 0, 2}, 3);
    onnx_value(g, made);
    onnx_node(g, op, in, lengths[0] ? 5 : 4, made, sequences ? 0 : 1, a);
    memcpy(g->at, made, sizeof made);
    squeeze(g, sequences ? 1 : 0);
    if (sequences)
        transpose(g, (const int64_t[]){1, 0, 2}, 3);
}

static void to_lstm(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};
    int units = (int)g->m->layers[layer].tensors[1].shape[0];

    recurrent(g, "LSTM", &(struct recurrence){layer, 4, units, lstm_gates}, &a);
}

static void to_gru(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};
    int units = (int)g->m->layers[layer].tensors[1].shape[0];

    onnx_attr_int(&a, "linear_before_reset", 1); /* the state's bias of gate n is inside the reset gate */
    recurrent(g, "GRU", &(struct recurrence){layer, 3, units, gru_gates}, &a);
}

/* 0, 1, ... time-1 as floats. */
static void positions(struct onnx_graph *g, char out[ONNX_VALUE], int time, float first)
{
    size_t n = (size_t)time;
    float *v = malloc(n * sizeof *v);

    onnx_value(g, out);
    g->out.failed |= !v;
    for (size_t i = 0; v && i < n; i++)
        v[i] = first + (float)i;
    if (v)
        onnx_initializer(g, out, ONNX_FLOAT, &n, 1, v, n * sizeof *v);
    free(v);
}

/* The last token other than 0 ends a text, which has at least one token. */
void onnx_find_lengths(struct onnx_graph *g)
{
    char t[ONNX_VALUE], place[ONNX_VALUE], one[ONNX_VALUE];
    struct protobuf a = {0};

    positions(g, place, g->m->n_in, 1);
    onnx_number(g, one, 1);
    onnx_cast(g, t, g->at, ONNX_BOOL);
    onnx_cast(g, t, t, ONNX_FLOAT);
    onnx_op(g, t, "Mul", ONNX_INPUTS(t, place), NULL);
    onnx_attr_ints(&a, "axes", (const int64_t[]){1}, 1);
    onnx_attr_int(&a, "keepdims", 0);
    onnx_op(g, t, "ReduceMax", ONNX_INPUTS(t), &a);
    onnx_op(g, g->lengths, "Max", ONNX_INPUTS(t, one), NULL);
}

/* The mean over time, up to the length of the text: sum(x mask) / length. */
static void to_mean_over_time(struct onnx_graph *g, int layer)
{
    const int64_t last = -1, time = 1;
    char axis[ONNX_VALUE], length[ONNX_VALUE], mask[ONNX_VALUE], place[ONNX_VALUE];
    struct protobuf a = {0};

    if (!g->lengths[0]) {
        onnx_attr_ints(&a, "axes", &time, 1);
        onnx_attr_int(&a, "keepdims", 0);
        ONNX_OP(g, "ReduceMean", &a, g->at);
        return;
    }
    positions(g, place, g->m->layers[layer].in.dim[0], 0);
    onnx_ints(g, axis, &last, 1);
    lengths_of(g, length, &g->m->layers[layer]);
    onnx_op(g, length, "Unsqueeze", ONNX_INPUTS(length, axis), NULL); /* (N, 1) */
    onnx_op(g, mask, "Less", ONNX_INPUTS(place, length), NULL);       /* (N, time) */
    onnx_cast(g, mask, mask, ONNX_FLOAT);
    onnx_op(g, mask, "Unsqueeze", ONNX_INPUTS(mask, axis), NULL);
    ONNX_OP(g, "Mul", NULL, g->at, mask);
    onnx_ints(g, axis, &time, 1);
    onnx_attr_int(&a, "keepdims", 0);
    ONNX_OP(g, "ReduceSum", &a, g->at, axis);
    ONNX_OP(g, "Div", NULL, g->at, length);
}

/* The operator has the name of the kind and no attributes: relu is Relu, hard_swish HardSwish. */
static void to_same_name(struct onnx_graph *g, int layer)
{
    char op[64];
    size_t n = 0;
    bool begins = true;

    for (const char *k = layer_kind_name(g->m->layers[layer].kind); *k && n + 1 < sizeof op; k++) {
        if (*k != '_')
            op[n++] = begins ? (char)toupper((unsigned char)*k) : *k;
        begins = *k == '_';
    }
    op[n] = '\0';
    ONNX_OP(g, op, NULL, g->at);
}

static void to_leaky_relu(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};

    onnx_attr_float(&a, "alpha", g->m->layers[layer].sloped.slope);
    ONNX_OP(g, "LeakyRelu", &a, g->at);
}

/* c + slope (x - c), c = max(-1, min(x, 1)) */
static void to_hard_tanh(struct onnx_graph *g, int layer)
{
    char low[ONNX_VALUE], high[ONNX_VALUE], slope[ONNX_VALUE], c[ONNX_VALUE], rest[ONNX_VALUE];

    onnx_number(g, low, -1);
    onnx_number(g, high, 1);
    onnx_number(g, slope, g->m->layers[layer].sloped.slope);
    onnx_op(g, c, "Clip", ONNX_INPUTS(g->at, low, high), NULL);
    onnx_op(g, rest, "Sub", ONNX_INPUTS(g->at, c), NULL);
    onnx_op(g, rest, "Mul", ONNX_INPUTS(rest, slope), NULL);
    ONNX_OP(g, "Add", NULL, c, rest);
}

/* Hendrycks and Gimpel 2016: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static void to_gelu(struct onnx_graph *g, int layer)
{
    char x[ONNX_VALUE], cube[ONNX_VALUE], half[ONNX_VALUE], one[ONNX_VALUE], share[ONNX_VALUE],
        root[ONNX_VALUE];

    (void)layer;
    memcpy(x, g->at, sizeof x);
    onnx_number(g, half, 0.5f);
    onnx_number(g, one, 1);
    onnx_number(g, share, 0.044715f);
    onnx_number(g, root, (float)sqrt(2 / M_PI));
    onnx_op(g, cube, "Mul", ONNX_INPUTS(x, x), NULL);
    onnx_op(g, cube, "Mul", ONNX_INPUTS(cube, x), NULL);
    onnx_op(g, cube, "Mul", ONNX_INPUTS(cube, share), NULL);
    onnx_op(g, cube, "Add", ONNX_INPUTS(x, cube), NULL);
    onnx_op(g, cube, "Mul", ONNX_INPUTS(cube, root), NULL);
    onnx_op(g, cube, "Tanh", ONNX_INPUTS(cube), NULL);
    onnx_op(g, cube, "Add", ONNX_INPUTS(cube, one), NULL);
    onnx_op(g, half, "Mul", ONNX_INPUTS(x, half), NULL);
    ONNX_OP(g, "Mul", NULL, half, cube);
}

static void to_softmax(struct onnx_graph *g, int layer)
{
    struct protobuf a = {0};

    (void)layer;
    onnx_channels_last(g);
    onnx_attr_int(&a, "axis", -1);
    ONNX_OP(g, "Softmax", &a, g->at);
}

void (*const onnx_convert[N_LAYER_KINDS])(struct onnx_graph *g, int layer) = {
#define LAYER(kind, NAME, parser, ops, convert, keys) to_##convert,
    LAYER_KINDS(LAYER)
#undef LAYER
};
