#include "shared/job/layer_spec.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"

enum { PARAMS_MAX = 1 << 30 };

static const char *const init_names[N_INIT_KINDS + 1] = {
    [INIT_ZEROS] = "zeros",
    [INIT_ONES] = "ones",
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_GLOROT_NORMAL] = "glorot_normal",
    [INIT_HE_UNIFORM] = "he_uniform",
    [INIT_HE_NORMAL] = "he_normal",
    [INIT_FAN_IN_UNIFORM] = "fan_in_uniform",
    [INIT_NORMAL] = "normal",
    [INIT_UNIFORM] = "uniform",
    [INIT_ORTHOGONAL] = "orthogonal",
};

int shape_count(const struct shape *s)
{
    int n = 1;

    for (int i = 0; i < s->n_dims; i++)
        n *= s->dim[i];
    return n;
}

const char *shape_text(char out[48], const struct shape *s)
{
    int n = snprintf(out, 48, "(");

    for (int i = 0; i < s->n_dims; i++)
        n += snprintf(out + n, (size_t)(48 - n), "%s%d", i ? ", " : "", s->dim[i]);
    snprintf(out + n, (size_t)(48 - n), ")");
    return out;
}

int shape_parse(struct shape *s, const json_t *doc, const char *at, struct err *e)
{
    json_int_t n = 1;
    const json_t *v;
    size_t i;

    if (!json_is_array(doc))
        return err_set(e, ERR_CONFIG, "%s: %s", at, doc ? "not an array" : "missing");
    if (json_array_size(doc) == 0 || json_array_size(doc) > SHAPE_DIMS)
        return err_set(e, ERR_CONFIG, "%s: %zu dimensions, expected 1 to %d", at, json_array_size(doc),
                       SHAPE_DIMS);
    s->n_dims = (int)json_array_size(doc);
    json_array_foreach(doc, i, v)
    {
        json_int_t k = json_integer_value(v);

        if (!json_is_integer(v) || k < 1 || k > LAYER_VALUES_MAX)
            return err_set(e, ERR_CONFIG, "%s/%zu: not an integer from 1 to %d", at, i, LAYER_VALUES_MAX);
        n *= k; /* at most 2^24 x 2^24 before the check */
        if (n > LAYER_VALUES_MAX)
            return err_set(e, ERR_CONFIG, "%s: %lld values, at most %d", at, (long long)n, LAYER_VALUES_MAX);
        s->dim[i] = (int)k;
    }
    return 0;
}

size_t tensor_spec_count(const struct tensor_spec *t)
{
    size_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

/* Every dimension is at most 2^24; a tensor too large for a model is refused. */
static int add_tensor(struct layer_spec *l, const struct tensor_spec *t, const char *at, struct err *e)
{
    size_t n = 1;

    for (int i = 0; i < t->n_dims; i++) {
        n *= t->shape[i];
        if (n > PARAMS_MAX)
            return err_set(e, ERR_CONFIG, "%s: \"%s\" has more than %d values", at, t->name, PARAMS_MAX);
    }
    l->tensors[l->n_tensors++] = *t;
    return 0;
}

static int add_vector(struct layer_spec *l, const char *name, size_t n, enum init_kind init, bool is_state,
                      const char *at, struct err *e)
{
    return add_tensor(
        l, &(struct tensor_spec){.name = name, .n_dims = 1, .shape = {n}, .init = init, .is_state = is_state},
        at, e);
}

/* Sets *out to the number at `key`, or leaves it unchanged if there is none. */
static int get_float(float *out, const json_t *doc, const char *key, double min, double max, const char *at,
                     struct err *e)
{
    const json_t *v = json_object_get(doc, key);
    double x = json_number_value(v);

    if (!v)
        return 0;
    if (!json_is_number(v) || !(x >= min && x <= max))
        return err_set(e, ERR_CONFIG, "%s/%s: not a number from %g to %g", at, key, min, max);
    *out = (float)x;
    return 0;
}

/* Sets *out to the truth value at `key`, or leaves it unchanged if there is none. */
static int get_flag(bool *out, const json_t *doc, const char *key, const char *at, struct err *e)
{
    const json_t *v = json_object_get(doc, key);

    if (v && !json_is_boolean(v))
        return err_set(e, ERR_CONFIG, "%s/%s: neither true nor false", at, key);
    *out = v ? json_is_true(v) : *out;
    return 0;
}

/* Sets the initialization in `t` from the document, or keeps its default. */
static int parse_init(struct tensor_spec *t, const json_t *doc, const char *at, struct err *e)
{
    int init = (int)t->init;

    if (json_object_get(doc, "init") && json_get_choice(&init, doc, "init", init_names, at, e) < 0)
        return e->code;
    t->init = (enum init_kind)init;
    if (json_object_get(doc, "init_scale") && t->init != INIT_NORMAL && t->init != INIT_UNIFORM)
        return err_set(e, ERR_CONFIG, "%s/init_scale: \"%s\" has no scale, only normal and uniform do", at,
                       init_names[t->init]);
    return get_float(&t->scale, doc, "init_scale", 1e-9, 1e3, at, e);
}

/* A number, or [rows, columns]. */
static int get_pair(int *rows, int *cols, const json_t *doc, const char *key, const char *at, struct err *e)
{
    const json_t *v = json_object_get(doc, key);
    const json_t *pair[2] = {json_is_array(v) ? json_array_get(v, 0) : v,
                             json_is_array(v) ? json_array_get(v, 1) : v};

    if (!v && *rows > 0)
        return 0;
    if (!v)
        return err_set(e, ERR_CONFIG, "%s/%s: missing", at, key);
    if (json_is_array(v) && json_array_size(v) != 2)
        return err_set(e, ERR_CONFIG, "%s/%s: neither a number nor [rows, columns]", at, key);
    for (int i = 0; i < 2; i++)
        if (!json_is_integer(pair[i]) || json_integer_value(pair[i]) < 1 ||
            json_integer_value(pair[i]) > 4096)
            return err_set(e, ERR_CONFIG, "%s/%s: not an integer from 1 to 4096", at, key);
    *rows = (int)json_integer_value(pair[0]);
    *cols = (int)json_integer_value(pair[1]);
    return 0;
}

static int wants_dims(const struct layer_spec *l, int n_dims, const char *what, const char *at, struct err *e)
{
    char text[48];

    if (l->in.n_dims == n_dims)
        return 0;
    return err_set(e, ERR_CONFIG, "%s: %s takes %s, its input is %s", at, layer_kind_name(l->kind), what,
                   shape_text(text, &l->in));
}

static int parse_dense(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    struct tensor_spec w = {.name = "weight", .n_dims = 2, .init = INIT_GLOROT_UNIFORM, .scale = 0.01f};
    bool has_bias = true, positionwise = false;
    int units;

    if (json_get_int(&units, doc, "units", 1, LAYER_VALUES_MAX, at, e) < 0 ||
        parse_init(&w, doc, at, e) < 0 || get_flag(&has_bias, doc, "bias", at, e) < 0 ||
        get_flag(&positionwise, doc, "positionwise", at, e) < 0 ||
        (positionwise && wants_dims(l, 2, "sequences (time, values) if positionwise", at, e) < 0))
        return e->code;
    l->out = positionwise ? (struct shape){.n_dims = 2, .dim = {l->in.dim[0], units}}
                          : (struct shape){.n_dims = 1, .dim = {units}};
    w.shape[0] = w.fan_in = (size_t)(positionwise ? l->in.dim[1] : l->n_in);
    w.shape[1] = w.fan_out = (size_t)units;
    if (add_tensor(l, &w, at, e) < 0)
        return e->code;
    return has_bias ? add_vector(l, "bias", (size_t)units, INIT_ZEROS, false, at, e) : 0;
}

/* Computes one dimension of the output, and the padding before it. */
static int slide(int *out, int *before, int in, int size, int stride, bool same, const char *key,
                 const char *at, struct err *e)
{
    int missing;

    if (same) {
        *out = (in + stride - 1) / stride;
        missing = (*out - 1) * stride + size - in;
        *before = missing > 0 ? missing / 2 : 0;
        return 0;
    }
    if (size > in)
        return err_set(e, ERR_CONFIG,
                       "%s/%s: %d is larger than the input's %d; set \"padding\": \"same\" to pad", at, key,
                       size, in);
    *out = (in - size) / stride + 1;
    *before = 0;
    return 0;
}

/* `size`: the key of the window's size. The caller sets the number of channels of the output. */
static int parse_window(struct layer_spec *l, const json_t *doc, const char *size, const char *at,
                        struct err *e)
{
    struct window_spec *w = &l->window;
    char padding[8] = "valid";
    const json_t *p = json_object_get(doc, "padding");
    bool same;

    if (wants_dims(l, 3, "images (rows, columns, channels)", at, e) < 0 ||
        get_pair(&w->rows, &w->cols, doc, size, at, e) < 0)
        return e->code;
    w->row_stride = l->kind == LAYER_CONV2D ? 1 : w->rows;
    w->col_stride = l->kind == LAYER_CONV2D ? 1 : w->cols;
    if (get_pair(&w->row_stride, &w->col_stride, doc, "stride", at, e) < 0)
        return e->code;
    if (p && json_get_text(padding, sizeof padding, doc, "padding", at, e) < 0)
        return e->code;
    same = strcmp(padding, "same") == 0;
    if (!same && strcmp(padding, "valid") != 0)
        return err_set(e, ERR_CONFIG, "%s/padding: \"%s\" is not one of valid, same", at, padding);
    l->out.n_dims = 3;
    if (slide(&l->out.dim[0], &w->top, l->in.dim[0], w->rows, w->row_stride, same, size, at, e) < 0 ||
        slide(&l->out.dim[1], &w->left, l->in.dim[1], w->cols, w->col_stride, same, size, at, e) < 0)
        return e->code;
    return 0;
}

static int parse_conv2d(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    struct tensor_spec w = {.name = "weight", .n_dims = 4, .init = INIT_GLOROT_UNIFORM, .scale = 0.01f};
    int filters;

    if (json_get_int(&filters, doc, "filters", 1, 65536, at, e) < 0 ||
        parse_window(l, doc, "kernel", at, e) < 0 || parse_init(&w, doc, at, e) < 0)
        return e->code;
    l->out.dim[2] = filters;
    w.shape[0] = (size_t)l->window.rows;
    w.shape[1] = (size_t)l->window.cols;
    w.shape[2] = (size_t)l->in.dim[2];
    w.shape[3] = (size_t)filters;
    w.fan_in = w.shape[0] * w.shape[1] * w.shape[2];
    w.fan_out = w.shape[0] * w.shape[1] * w.shape[3];
    if (add_tensor(l, &w, at, e) < 0)
        return e->code;
    return add_vector(l, "bias", (size_t)filters, INIT_ZEROS, false, at, e);
}

static int parse_pool(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    if (parse_window(l, doc, "size", at, e) < 0)
        return e->code;
    l->out.dim[2] = l->in.dim[2];
    return 0;
}

/* Sets the epsilon, and adds the gain. */
static int parse_gain(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    l->norm.epsilon = 1e-5f;
    l->out = l->in;
    if (get_float(&l->norm.epsilon, doc, "epsilon", 1e-12, 1, at, e) < 0)
        return e->code;
    return add_vector(l, "gain", (size_t)l->in.dim[l->in.n_dims - 1], INIT_ONES, false, at, e);
}

static int parse_batch_norm(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    size_t n = (size_t)l->in.dim[l->in.n_dims - 1];

    l->norm.momentum = 0.1f;
    if (get_float(&l->norm.momentum, doc, "momentum", 0, 1, at, e) < 0 || parse_gain(l, doc, at, e) < 0 ||
        add_vector(l, "bias", n, INIT_ZEROS, false, at, e) < 0 ||
        add_vector(l, "running_mean", n, INIT_ZEROS, true, at, e) < 0)
        return e->code;
    return add_vector(l, "running_var", n, INIT_ONES, true, at, e);
}

static int parse_layer_norm(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    bool has_bias = true;

    if (get_flag(&has_bias, doc, "bias", at, e) < 0 || parse_gain(l, doc, at, e) < 0)
        return e->code;
    return has_bias ? add_vector(l, "bias", l->tensors[0].shape[0], INIT_ZEROS, false, at, e) : 0;
}

static int parse_rms_norm(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    return parse_gain(l, doc, at, e);
}

static int parse_dropout(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    l->dropout.rate = 0.5f;
    l->out = l->in;
    return get_float(&l->dropout.rate, doc, "rate", 0, 0.99, at, e);
}

static int parse_flatten(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    (void)doc, (void)at, (void)e;
    l->out = (struct shape){.n_dims = 1, .dim = {l->n_in}};
    return 0;
}

static int parse_reshape(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    char path[80], text[48];

    snprintf(path, sizeof path, "%s/shape", at);
    if (shape_parse(&l->out, json_object_get(doc, "shape"), path, e) < 0)
        return e->code;
    if (shape_count(&l->out) != l->n_in)
        return err_set(e, ERR_CONFIG, "%s: %d values, its input is %s", path, shape_count(&l->out),
                       shape_text(text, &l->in));
    return 0;
}

static int parse_embedding(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    struct tensor_spec w = {.name = "weight", .n_dims = 2, .init = INIT_NORMAL, .scale = 0.01f};
    int units;

    if (wants_dims(l, 1, "tokens (time)", at, e) < 0 ||
        json_get_int(&l->embedding.vocab, doc, "vocab", 2, LAYER_VALUES_MAX, at, e) < 0 ||
        json_get_int(&units, doc, "units", 1, 65536, at, e) < 0 || parse_init(&w, doc, at, e) < 0)
        return e->code;
    l->out = (struct shape){.n_dims = 2, .dim = {l->n_in, units}};
    w.shape[0] = w.fan_in = (size_t)l->embedding.vocab;
    w.shape[1] = w.fan_out = (size_t)units;
    return add_tensor(l, &w, at, e);
}

static int parse_position_embedding(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    struct tensor_spec w = {.name = "weight", .n_dims = 2, .init = INIT_NORMAL, .scale = 0.01f};
    int positions = l->in.dim[0];

    l->out = l->in;
    if (wants_dims(l, 2, "sequences (time, values)", at, e) < 0 ||
        (json_object_get(doc, "positions") &&
         json_get_int(&positions, doc, "positions", l->in.dim[0], LAYER_VALUES_MAX, at, e) < 0) ||
        parse_init(&w, doc, at, e) < 0)
        return e->code;
    w.shape[0] = w.fan_in = (size_t)positions;
    w.shape[1] = w.fan_out = (size_t)l->in.dim[1];
    return add_tensor(l, &w, at, e);
}

/* The columns of weight are the queries, the keys and the values of all heads. */
static int parse_attention(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    size_t n = (size_t)l->in.dim[1];
    struct tensor_spec w = {.name = "weight",
                            .n_dims = 2,
                            .shape = {n, 3 * n},
                            .init = INIT_NORMAL,
                            .scale = 0.02f,
                            .fan_in = n,
                            .fan_out = n};
    struct tensor_spec u;
    bool has_bias = true;

    l->out = l->in;
    if (wants_dims(l, 2, "sequences (time, values)", at, e) < 0 ||
        json_get_int(&l->attention.heads, doc, "heads", 1, 65536, at, e) < 0 ||
        parse_init(&w, doc, at, e) < 0 || get_flag(&has_bias, doc, "bias", at, e) < 0)
        return e->code;
    if (n % (size_t)l->attention.heads != 0)
        return err_set(e, ERR_CONFIG, "%s/heads: %d heads do not divide the input's %zu values", at,
                       l->attention.heads, n);
    if (get_float(&l->attention.rope, doc, "rope", 1, 1e9, at, e) < 0 ||
        get_float(&l->attention.dropout, doc, "dropout", 0, 0.99, at, e) < 0)
        return e->code;
    if (l->attention.rope > 0 && n / (size_t)l->attention.heads % 2 != 0)
        return err_set(e, ERR_CONFIG, "%s/rope: a head has an odd number of values, %zu", at,
                       n / (size_t)l->attention.heads);
    u = w;
    u.name = "output_weight";
    u.shape[1] = n;
    if (get_float(&u.scale, doc, "output_scale", 1e-9, 1e3, at, e) < 0 || add_tensor(l, &w, at, e) < 0 ||
        (has_bias && add_vector(l, "bias", 3 * n, INIT_ZEROS, false, at, e) < 0) ||
        add_tensor(l, &u, at, e) < 0)
        return e->code;
    return has_bias ? add_vector(l, "output_bias", n, INIT_ZEROS, false, at, e) : 0;
}

static int parse_head(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    l->out = l->in;
    if (wants_dims(l, 2, "sequences (time, values)", at, e) < 0)
        return e->code;
    return json_get_int(&l->head.tied, doc, "tied", 0, LAYER_VALUES_MAX, at, e);
}

static int parse_swiglu(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    int *last = &l->out.dim[l->in.n_dims - 1];

    (void)doc;
    l->out = l->in;
    if (*last % 2 != 0)
        return err_set(e, ERR_CONFIG, "%s: swiglu has two halves, its input's last dimension is %d", at,
                       *last);
    *last /= 2;
    return 0;
}

static int parse_residual(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    (void)doc, (void)at, (void)e;
    l->out = l->in;
    return 0;
}

/* n_gates x units columns: lstm i, f, g, o; gru r, z, n. The gru's second bias is inside the reset gate
 * (PyTorch's b_hn), so each gate has one bias for the input and one for the state. */
static int parse_recurrent(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    struct tensor_spec w = {.name = "weight", .n_dims = 2, .init = INIT_GLOROT_UNIFORM, .scale = 0.01f};
    struct tensor_spec u = {.name = "recurrent", .n_dims = 2, .init = INIT_ORTHOGONAL};
    int n_gates = l->kind == LAYER_LSTM ? 4 : 3;
    int units;

    if (wants_dims(l, 2, "sequences (time, values)", at, e) < 0 ||
        json_get_int(&units, doc, "units", 1, 65536, at, e) < 0 || parse_init(&w, doc, at, e) < 0 ||
        get_flag(&l->recurrent.sequences, doc, "sequences", at, e) < 0)
        return e->code;
    l->out = l->recurrent.sequences ? (struct shape){.n_dims = 2, .dim = {l->in.dim[0], units}}
                                    : (struct shape){.n_dims = 1, .dim = {units}};
    w.shape[0] = w.fan_in = (size_t)l->in.dim[1];
    u.shape[0] = u.fan_in = u.fan_out = w.fan_out = (size_t)units;
    w.shape[1] = u.shape[1] = (size_t)(n_gates * units);
    if (add_tensor(l, &w, at, e) < 0 || add_tensor(l, &u, at, e) < 0 ||
        add_vector(l, "bias", w.shape[1], INIT_ZEROS, false, at, e) < 0)
        return e->code;
    return l->kind == LAYER_LSTM ? 0 : add_vector(l, "recurrent_bias", w.shape[1], INIT_ZEROS, false, at, e);
}

static int parse_mean_over_time(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    (void)doc;
    l->out = (struct shape){.n_dims = 1, .dim = {l->in.dim[1]}};
    return wants_dims(l, 2, "sequences (time, values)", at, e);
}

static int parse_activation(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    (void)doc, (void)at, (void)e;
    l->out = l->in;
    return 0;
}

static int parse_sloped(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    l->out = l->in;
    l->sloped.slope = l->kind == LAYER_LEAKY_RELU ? 0.01f : 0;
    return get_float(&l->sloped.slope, doc, "slope", 0, 1, at, e);
}

static const struct {
    const char *name;
    const char *keys[10]; /* ends with NULL */
    int (*parse)(struct layer_spec *l, const json_t *doc, const char *at, struct err *e);
} kinds[N_LAYER_KINDS] = {
#define KEYS(...)                                     __VA_ARGS__
#define LAYER(kind, NAME, parser, ops, convert, keys) {#kind, {"kind", KEYS keys}, parse_##parser},
    LAYER_KINDS(LAYER)
#undef LAYER
};

const char *layer_kind_name(enum layer_kind kind)
{
    return kinds[kind].name;
}

const char *layer_spec_place(char out[24], const struct layer_spec *l)
{
    if (l->part < 0)
        snprintf(out, 24, "%d", l->place);
    else
        snprintf(out, 24, "%d.%d", l->place, l->part);
    return out;
}

int layer_spec_parse(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    const char *names[N_LAYER_KINDS + 1] = {0};
    struct layer_spec t = {.in = l->in, .n_in = shape_count(&l->in), .place = l->place, .part = l->part};
    int kind = 0;

    if (!json_is_object(doc))
        return err_set(e, ERR_CONFIG, "%s: not an object", at);
    for (int i = 0; i < LAYER_SUM; i++)
        names[i] = kinds[i].name;
    if (json_get_choice(&kind, doc, "kind", names, at, e) < 0 ||
        json_only_keys(doc, kinds[kind].keys, at, e) < 0)
        return e->code;
    t.kind = (enum layer_kind)kind;
    if (kinds[kind].parse(&t, doc, at, e) < 0)
        return e->code;
    if ((double)t.out.dim[0] * (t.out.n_dims > 1 ? t.out.dim[1] : 1) * (t.out.n_dims > 2 ? t.out.dim[2] : 1) >
        (double)LAYER_VALUES_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d values a sample", at, LAYER_VALUES_MAX);
    t.n_out = shape_count(&t.out);
    *l = t;
    return 0;
}
