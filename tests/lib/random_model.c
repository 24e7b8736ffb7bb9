#include "tests/lib/random_model.h"

#include <stdio.h>
#include <string.h>

#include "shared/job/model_spec.h"

/* A layer as text and its input shape. */
struct config {
    char layer[160];
    struct shape in;
};

static int from_to(struct rng *r, int low, int high)
{
    return low + (int)rng_below(r, (uint32_t)(high - low + 1));
}

static bool coin(struct rng *r)
{
    return rng_below(r, 2);
}

static struct shape image(struct rng *r)
{
    return (struct shape){.n_dims = 3, .dim = {from_to(r, 1, 6), from_to(r, 1, 6), from_to(r, 1, 4)}};
}

static struct shape sequence(struct rng *r)
{
    return (struct shape){.n_dims = 2, .dim = {from_to(r, 1, 5), from_to(r, 1, 4)}};
}

/* Any number of dimensions; the last one is at least 3: fewer values have too little spread. */
static struct shape any(struct rng *r)
{
    struct shape s = {.n_dims = from_to(r, 1, 3), .dim = {from_to(r, 1, 4), from_to(r, 1, 4), 0}};

    s.dim[s.n_dims - 1] = from_to(r, 3, 7);
    return s;
}

static void any_dense(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"dense\",\"units\":%d,\"bias\":%s,\"positionwise\":%s}",
             from_to(r, 1, 20), coin(r) ? "true" : "false", c->in.n_dims == 2 && coin(r) ? "true" : "false");
}

/* A window that fits, or one of any size with "same". */
static void any_window(struct config *c, const char *kind, const char *size, struct rng *r)
{
    bool same = coin(r);
    int rows, cols;

    c->in = image(r);
    rows = from_to(r, 1, same ? 5 : c->in.dim[0]);
    cols = from_to(r, 1, same ? 5 : c->in.dim[1]);
    snprintf(c->layer, sizeof c->layer, "{%s,\"%s\":[%d,%d],\"stride\":[%d,%d],\"padding\":\"%s\"}", kind,
             size, rows, cols, from_to(r, 1, 3), from_to(r, 1, 3), same ? "same" : "valid");
}

static void any_conv2d(struct config *c, struct rng *r)
{
    char kind[64];

    snprintf(kind, sizeof kind, "\"kind\":\"conv2d\",\"filters\":%d", from_to(r, 1, 5));
    any_window(c, kind, "kernel", r);
}

static void any_max_pool(struct config *c, struct rng *r)
{
    any_window(c, "\"kind\":\"max_pool\"", "size", r);
}

static void any_avg_pool(struct config *c, struct rng *r)
{
    any_window(c, "\"kind\":\"avg_pool\"", "size", r);
}

static void any_batch_norm(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"batch_norm\",\"momentum\":0.%d,\"epsilon\":%g}",
             from_to(r, 0, 9), coin(r) ? 1e-5 : 1e-2);
}

static void any_layer_norm(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"layer_norm\",\"epsilon\":%g,\"bias\":%s}",
             coin(r) ? 1e-5 : 1e-2, coin(r) ? "true" : "false");
}

static void any_rms_norm(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"rms_norm\",\"epsilon\":%g}", coin(r) ? 1e-5 : 1e-2);
}

static void any_position_embedding(struct config *c, struct rng *r)
{
    c->in = sequence(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"position_embedding\",\"positions\":%d}",
             c->in.dim[0] + from_to(r, 0, 3));
}

/* Up to 20 steps: more than a strip and a tile of the products of a head (nn/kernels/strip.h). */
static void any_attention(struct config *c, struct rng *r)
{
    const int heads = from_to(r, 1, 3);

    const int half = from_to(r, 1, 3);
    const bool turns = coin(r);

    c->in = (struct shape){.n_dims = 2, .dim = {from_to(r, 1, 20), heads * (turns ? 2 * half : half)}};
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"attention\",\"heads\":%d,\"bias\":%s%s%s}", heads,
             coin(r) ? "true" : "false", turns ? ",\"rope\":100" : "", coin(r) ? ",\"dropout\":0.3" : "");
}

static void any_swiglu(struct config *c, struct rng *r)
{
    c->in = any(r);
    c->in.dim[c->in.n_dims - 1] *= 2;
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"swiglu\"}");
}

static void any_residual(struct config *c, struct rng *r)
{
    c->in = sequence(r);
    snprintf(c->layer, sizeof c->layer,
             "{\"kind\":\"residual\",\"layers\":[{\"kind\":\"%s\"},{\"kind\":\"dense\",\"units\":%d,"
             "\"positionwise\":true}]}",
             coin(r) ? "tanh" : "gelu", c->in.dim[1]);
}

/* Behind an embedding, and another layer. */
static void any_head(struct config *c, struct rng *r)
{
    c->in = sequence(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"tanh\"},{\"kind\":\"head\",\"tied\":0}");
}

static void any_dropout(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"dropout\",\"rate\":0.%d}", from_to(r, 0, 8));
}

static void any_reshape(struct config *c, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"reshape\",\"shape\":[%d]}", shape_count(&c->in));
}

static void any_recurrent(struct config *c, const char *kind, struct rng *r)
{
    c->in = sequence(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"%s\",\"units\":%d,\"sequences\":%s}", kind,
             from_to(r, 1, 5), coin(r) ? "true" : "false");
}

static void any_lstm(struct config *c, struct rng *r)
{
    any_recurrent(c, "lstm", r);
}

static void any_gru(struct config *c, struct rng *r)
{
    any_recurrent(c, "gru", r);
}

static void any_mean_over_time(struct config *c, struct rng *r)
{
    c->in = sequence(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"mean_over_time\"}");
}

/* Half of the sequences are preceded by an embedding, too (random_model); here it feeds a mean. */
static void any_embedding(struct config *c, struct rng *r)
{
    any_mean_over_time(c, r);
}

static void any_sloped(struct config *c, const char *kind, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"%s\",\"slope\":0.%d}", kind, from_to(r, 0, 9));
}

static void any_leaky_relu(struct config *c, struct rng *r)
{
    any_sloped(c, "leaky_relu", r);
}

static void any_hard_tanh(struct config *c, struct rng *r)
{
    any_sloped(c, "hard_tanh", r);
}

/* Kinds without keys that take any shape need no line. */
static void (*const any_layer[N_LAYER_KINDS])(struct config *c, struct rng *r) = {
    [LAYER_DENSE] = any_dense,
    [LAYER_CONV2D] = any_conv2d,
    [LAYER_MAX_POOL] = any_max_pool,
    [LAYER_AVG_POOL] = any_avg_pool,
    [LAYER_BATCH_NORM] = any_batch_norm,
    [LAYER_LAYER_NORM] = any_layer_norm,
    [LAYER_RMS_NORM] = any_rms_norm,
    [LAYER_POSITION_EMBEDDING] = any_position_embedding,
    [LAYER_ATTENTION] = any_attention,
    [LAYER_HEAD] = any_head,
    [LAYER_SWIGLU] = any_swiglu,
    [LAYER_RESIDUAL] = any_residual,
    [LAYER_SUM] = any_residual,
    [LAYER_DROPOUT] = any_dropout,
    [LAYER_RESHAPE] = any_reshape,
    [LAYER_EMBEDDING] = any_embedding,
    [LAYER_LSTM] = any_lstm,
    [LAYER_GRU] = any_gru,
    [LAYER_MEAN_OVER_TIME] = any_mean_over_time,
    [LAYER_LEAKY_RELU] = any_leaky_relu,
    [LAYER_HARD_TANH] = any_hard_tanh,
};

/* Of each kind, as text: "" for none. */
static const char *const keys_of[N_LAYER_KINDS] = {
#define KEYS(...)                                     #__VA_ARGS__
#define LAYER(kind, NAME, parser, ops, convert, keys) KEYS keys,
    LAYER_KINDS(LAYER)
#undef LAYER
#undef KEYS
};

bool random_model_knows(enum layer_kind kind)
{
    return any_layer[kind] || !keys_of[kind][0];
}

static void any_without_keys(struct config *c, enum layer_kind kind, struct rng *r)
{
    c->in = any(r);
    snprintf(c->layer, sizeof c->layer, "{\"kind\":\"%s\"}", layer_kind_name(kind));
}

void random_model(char *out, size_t size, enum layer_kind kind, struct rng *r)
{
    struct config c;
    char shape[64], below[192];
    enum loss_kind loss;
    const char *end = "";
    bool reads_tokens;

    if (any_layer[kind])
        any_layer[kind](&c, r);
    else
        any_without_keys(&c, kind, r);
    snprintf(shape, sizeof shape,
             c.in.n_dims == 1   ? "[%d]"
             : c.in.n_dims == 2 ? "[%d,%d]"
                                : "[%d,%d,%d]",
             c.in.dim[0], c.in.dim[1], c.in.dim[2]);
    reads_tokens = kind == LAYER_EMBEDDING || kind == LAYER_HEAD ||
                   (strstr("lstm gru mean_over_time", layer_kind_name(kind)) && coin(r));
    if (reads_tokens)
        snprintf(below, sizeof below,
                 "\"input\":[%d],\"layers\":[{\"kind\":\"embedding\",\"vocab\":%d,\"units\":%d}", c.in.dim[0],
                 from_to(r, 2, 6), c.in.dim[1]);
    else
        snprintf(below, sizeof below,
                 "\"input\":[%d],\"layers\":[{\"kind\":\"dense\",\"units\":%d},{\"kind\":\"reshape\","
                 "\"shape\":%s}",
                 from_to(r, 1, 3), shape_count(&c.in), shape);
    loss = (enum loss_kind)rng_below(r, N_LOSS_KINDS);
    if (loss == LOSS_TOKEN_CROSS_ENTROPY)
        end = ",{\"kind\":\"dense\",\"units\":6},{\"kind\":\"reshape\",\"shape\":[2,3]}";
    /* The layer may have one output, and then there are no classes to distinguish. */
    else if (coin(r) || loss == LOSS_SOFTMAX_CROSS_ENTROPY)
        end = ",{\"kind\":\"dense\",\"units\":3}";
    snprintf(out, size, "{\"version\":1,\"name\":\"m\",%s,%s%s],\"loss\":\"%s\"}", below, c.layer, end,
             loss_kind_name(loss));
}
