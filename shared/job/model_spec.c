#include "shared/job/model_spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"

enum { PATH_LEN = 64 };

static const char *const loss_names[N_LOSS_KINDS + 1] = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy",
    [LOSS_SIGMOID_CROSS_ENTROPY] = "sigmoid_cross_entropy",
    [LOSS_MSE] = "mse",
    [LOSS_TANH_SQUARED] = "tanh_squared",
    [LOSS_TOKEN_CROSS_ENTROPY] = "token_cross_entropy",
};

static const char *const metric_names[N_METRIC_KINDS + 1] = {
    [METRIC_ACCURACY] = "accuracy",
    [METRIC_TOP2] = "top2",
    "top3",
    "top4",
    "top5",
    "top6",
    "top7",
    "top8",
    "top9",
    "top10",
    [METRIC_MSE] = "mse",
    [METRIC_RMSE] = "rmse",
    [METRIC_AUC] = "auc",
    [METRIC_EER] = "eer",
    [METRIC_CONFUSION] = "confusion",
};

const char *loss_kind_name(enum loss_kind kind)
{
    return loss_names[kind];
}

const char *metric_kind_name(enum metric_kind kind)
{
    return metric_names[kind];
}

int metric_kind_top(enum metric_kind kind)
{
    return kind >= METRIC_TOP2 && kind <= METRIC_TOP_LAST ? (int)kind - METRIC_TOP2 + 2 : 0;
}

static void count_values(struct model_spec *m, bool is_statistic, size_t n)
{
    m->n_trained += is_statistic ? 0 : n;
    m->n_params += n;
}

static int check_n_params(const struct model_spec *m, const char *at, struct err *e)
{
    return m->n_params <= MODEL_PARAMS_MAX
               ? 0
               : err_set(e, ERR_CONFIG, "%s: %zu parameters up to here, at most %d", at, m->n_params,
                         MODEL_PARAMS_MAX);
}

static int new_tensors(struct model_spec *m, int n, struct err *e)
{
    m->tensors = calloc((size_t)n, sizeof *m->tensors);
    return m->tensors ? 0 : err_set(e, ERR_NOMEM, "no memory for a model's %d tensors", n);
}

/* A layer's tensors are called "layer0.dense.weight", in a residual block "layer3.1.dense.weight". */
static int list_layer_tensors(struct model_spec *m, struct err *e)
{
    struct model_tensor *t;

    if (new_tensors(m, m->n_tensors, e) < 0)
        return e->code;
    t = m->tensors;
    for (int i = 0; i < m->n_layers; i++)
        for (int k = 0; k < m->layers[i].n_tensors; k++, t++) {
            const struct tensor_spec *s = &m->layers[i].tensors[k];
            char place[24];

            snprintf(t->name, sizeof t->name, "layer%s.%s.%s", layer_spec_place(place, &m->layers[i]),
                     layer_kind_name(m->layers[i].kind), s->name);
            t->n_dims = s->n_dims;
            memcpy(t->shape, s->shape, sizeof s->shape);
            t->is_statistic = s->is_state;
            t->n = tensor_spec_count(s);
        }
    return 0;
}

/* Gives a head the size of its embedding, which is the model's first layer. */
static int tie_head(struct model_spec *m, struct layer_spec *l, const char *at, struct err *e)
{
    struct layer_spec *embedding = &m->layers[0];

    if (l->head.tied != 0 || embedding->kind != LAYER_EMBEDDING)
        return err_set(e, ERR_CONFIG, "%s/tied: layer %d is no embedding", at, l->head.tied);
    if (embedding->partner != 0)
        return err_set(e, ERR_CONFIG, "%s/tied: an earlier head is tied to layer %d", at, l->head.tied);
    if (embedding->out.dim[1] != l->in.dim[1])
        return err_set(e, ERR_CONFIG, "%s: its input has %d values a step, the embedding %d", at,
                       l->in.dim[1], embedding->out.dim[1]);
    if ((double)l->in.dim[0] * embedding->embedding.vocab > HEAD_VALUES_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d values a sample", at, HEAD_VALUES_MAX);
    l->out.dim[1] = embedding->embedding.vocab;
    l->n_out = shape_count(&l->out);
    l->partner = (int)(embedding - l);
    embedding->partner = -l->partner;
    return 0;
}

/* Adds the layer `doc` behind the others, whose outputs have the shape *width. */
static int add_layer(struct model_spec *m, struct shape *width, const json_t *doc, int place, int part,
                     const char *at, struct err *e)
{
    struct layer_spec *l = &m->layers[m->n_layers];

    if (m->n_layers >= MODEL_LAYERS_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d layers, with those of residual blocks", at,
                       MODEL_LAYERS_MAX);
    *l = (struct layer_spec){.in = *width, .place = place, .part = part};
    if (layer_spec_parse(l, doc, at, e) < 0 || (l->kind == LAYER_HEAD && tie_head(m, l, at, e) < 0))
        return e->code;
    if (l->kind == LAYER_EMBEDDING && m->n_layers > 0)
        return err_set(e, ERR_CONFIG, "%s: an embedding reads tokens: it can only be the first layer", at);
    if (l->kind == LAYER_RESIDUAL && part >= 0)
        return err_set(e, ERR_CONFIG, "%s: a residual block in a residual block", at);
    for (int k = 0; k < l->n_tensors; k++)
        count_values(m, l->tensors[k].is_state, tensor_spec_count(&l->tensors[k]));
    if (check_n_params(m, at, e) < 0)
        return e->code;
    l->first_tensor = m->n_tensors;
    m->n_tensors += l->n_tensors;
    m->n_layers++;
    *width = l->out;
    return 0;
}

/* Adds the layers of the residual block that was added last, and their sum with its input. */
static int add_block(struct model_spec *m, struct shape *width, const json_t *layers, const char *at,
                     struct err *e)
{
    const int first = m->n_layers - 1;
    const struct layer_spec residual = m->layers[first];
    const json_t *v;
    size_t i;

    if (json_array_size(layers) == 0)
        return err_set(e, ERR_CONFIG, "%s/layers: %s", at,
                       json_is_array(layers) ? "no layers"
                       : layers              ? "not an array"
                                             : "missing");
    json_array_foreach(layers, i, v)
    {
        char inner[2 * PATH_LEN];

        snprintf(inner, sizeof inner, "%s/layers/%zu", at, i);
        if (add_layer(m, width, v, residual.place, (int)i, inner, e) < 0)
            return e->code;
    }
    if (width->n_dims != residual.in.n_dims ||
        memcmp(width->dim, residual.in.dim, (size_t)width->n_dims * sizeof *width->dim) != 0) {
        char in[48], out[48];

        return err_set(e, ERR_CONFIG, "%s: its layers turn %s into %s, which cannot be added", at,
                       shape_text(in, &residual.in), shape_text(out, width));
    }
    if (m->n_layers >= MODEL_LAYERS_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d layers, with those of residual blocks", at,
                       MODEL_LAYERS_MAX);
    m->layers[m->n_layers] = residual;
    m->layers[m->n_layers].kind = LAYER_SUM;
    m->layers[m->n_layers].first_tensor = m->n_tensors;
    m->layers[m->n_layers].partner = first - m->n_layers;
    m->layers[first].partner = m->n_layers - first;
    m->n_layers++;
    return 0;
}

static int parse_layers(struct model_spec *m, const json_t *layers, struct err *e)
{
    struct shape width = m->in;
    const json_t *v;
    size_t i;

    if (!json_is_array(layers))
        return err_set(e, ERR_CONFIG, "/layers: %s", layers ? "not an array" : "missing");
    if (json_array_size(layers) == 0 || json_array_size(layers) > MODEL_LAYERS_MAX)
        return err_set(e, ERR_CONFIG, "/layers: %zu layers, expected 1 to %d", json_array_size(layers),
                       MODEL_LAYERS_MAX);
    json_array_foreach(layers, i, v)
    {
        char at[PATH_LEN];

        snprintf(at, sizeof at, "/layers/%zu", i);
        if (add_layer(m, &width, v, (int)i, -1, at, e) < 0 ||
            (m->layers[m->n_layers - 1].kind == LAYER_RESIDUAL &&
             add_block(m, &width, json_object_get(v, "layers"), at, e) < 0))
            return e->code;
    }
    m->n_out = shape_count(&width);
    if (m->n_trained == 0)
        return err_set(e, ERR_CONFIG, "/layers: no layer has parameters, so there is nothing to train");
    return list_layer_tensors(m, e);
}

/* Sets t->shape and t->n. */
static int parse_tensor_shape(struct model_tensor *t, const json_t *shape, const char *at, struct err *e)
{
    const json_t *v;
    size_t i;

    if (!json_is_array(shape))
        return err_set(e, ERR_CONFIG, "%s/shape: %s", at, shape ? "not an array" : "missing");
    if (json_array_size(shape) > MODEL_TENSOR_DIMS)
        return err_set(e, ERR_CONFIG, "%s/shape: %zu dimensions, at most %d", at, json_array_size(shape),
                       MODEL_TENSOR_DIMS);
    t->n_dims = (int)json_array_size(shape);
    t->n = 1;
    json_array_foreach(shape, i, v)
    {
        json_int_t k = json_integer_value(v);

        if (!json_is_integer(v) || k < 1 || k > MODEL_PARAMS_MAX)
            return err_set(e, ERR_CONFIG, "%s/shape/%zu: not an integer from 1 to %d", at, i,
                           MODEL_PARAMS_MAX);
        t->shape[i] = (size_t)k;
        t->n *= (size_t)k; /* at most 2^30 x 2^30 before the check */
        if (t->n > MODEL_PARAMS_MAX)
            return err_set(e, ERR_CONFIG, "%s: \"%s\" has more than %d values", at, t->name,
                           MODEL_PARAMS_MAX);
    }
    return 0;
}

/* The name is printed on terminals, and is a key in safetensors files. */
static int check_tensor_name(const char *name, const char *at, struct err *e)
{
    if (!name[0])
        return err_set(e, ERR_CONFIG, "%s/name: empty", at);
    if (!utf8_is_clean(name))
        return err_set(e, ERR_CONFIG, "%s/name: contains a control character", at);
    if (strcmp(name, "__metadata__") == 0)
        return err_set(e, ERR_CONFIG, "%s/name: \"%s\" is no tensor's name in a safetensors file", at, name);
    return 0;
}

static int parse_tensor(struct model_tensor *t, const json_t *doc, const char *at, struct err *e)
{
    static const char *const keys[] = {"name", "shape", "statistic", NULL};
    const json_t *statistic = json_object_get(doc, "statistic");

    if (json_only_keys(doc, keys, at, e) < 0 ||
        json_get_text(t->name, sizeof t->name, doc, "name", at, e) < 0 ||
        check_tensor_name(t->name, at, e) < 0)
        return e->code;
    if (statistic && !json_is_boolean(statistic))
        return err_set(e, ERR_CONFIG, "%s/statistic: neither true nor false", at);
    t->is_statistic = json_is_true(statistic);
    return parse_tensor_shape(t, json_object_get(doc, "shape"), at, e);
}

/* `names` has a key for each tensor before this one. */
static int add_tensor(struct model_spec *m, const json_t *doc, json_t *names, struct err *e)
{
    struct model_tensor *t = &m->tensors[m->n_tensors];
    char at[PATH_LEN];

    snprintf(at, sizeof at, "/tensors/%d", m->n_tensors);
    if (parse_tensor(t, doc, at, e) < 0)
        return e->code;
    if (json_object_get(names, t->name))
        return err_set(e, ERR_CONFIG, "%s/name: \"%s\" is the name of an earlier tensor, too", at, t->name);
    if (json_object_set_new(names, t->name, json_true()) < 0)
        return err_set(e, ERR_NOMEM, "no memory for the names of a model's tensors");
    m->n_tensors++;
    count_values(m, t->is_statistic, t->n);
    return check_n_params(m, at, e);
}

static int parse_tensors(struct model_spec *m, const json_t *tensors, struct err *e)
{
    size_t n = json_array_size(tensors), i;
    json_t *names;
    const json_t *v;
    int rc;

    if (!json_is_array(tensors))
        return err_set(e, ERR_CONFIG, "/tensors: %s", tensors ? "not an array" : "missing");
    if (n == 0 || n > MODEL_TENSORS_MAX)
        return err_set(e, ERR_CONFIG, "/tensors: %zu tensors, expected 1 to %d", n, MODEL_TENSORS_MAX);
    if (new_tensors(m, (int)n, e) < 0)
        return e->code;
    names = json_object();
    rc = names ? 0 : err_set(e, ERR_NOMEM, "no memory for the names of a model's tensors");
    json_array_foreach(tensors, i, v)
    {
        if (rc == 0)
            rc = add_tensor(m, v, names, e);
    }
    json_decref(names);
    if (rc == 0 && m->n_trained == 0)
        return err_set(e, ERR_CONFIG, "/tensors: all are statistics, so there is nothing to train");
    return rc;
}

static void lay_out(struct model_spec *m)
{
    size_t trained = 0, statistics = m->n_trained;

    for (int i = 0; i < m->n_tensors; i++) {
        struct model_tensor *t = &m->tensors[i];
        size_t *at = t->is_statistic ? &statistics : &trained;

        t->offset = *at;
        *at += t->n;
    }
}

static int parse_metrics(struct model_spec *m, const json_t *metrics, struct err *e)
{
    const json_t *v;
    size_t i;

    if (metrics && !json_is_array(metrics))
        return err_set(e, ERR_CONFIG, "/metrics: not an array");
    json_array_foreach(metrics, i, v)
    {
        int kind = 0;
        char key[24];
        json_t *one;
        int rc;

        snprintf(key, sizeof key, "%zu", i);
        one = json_pack("{s:O}", key, v);
        rc = one ? json_get_choice(&kind, one, key, metric_names, "/metrics", e)
                 : err_set(e, ERR_NOMEM, "no memory");
        json_decref(one);
        if (rc < 0)
            return rc;
        if ((kind == METRIC_AUC || kind == METRIC_EER) && model_spec_classes(m) > 2)
            return err_set(e, ERR_CONFIG, "/metrics/%zu: %s is for two classes, the model has %d outputs", i,
                           metric_names[kind], model_spec_classes(m));
        m->metrics[kind] = true;
    }
    return 0;
}

/* The name is printed on terminals. */
static int check_model_name(const char *name, struct err *e)
{
    return utf8_is_clean(name) ? 0 : err_set(e, ERR_CONFIG, "/name: contains a control character");
}

static int parse_head(struct model_spec *m, const json_t *doc, const char *const *keys, struct err *e)
{
    int version;

    if (json_only_keys(doc, keys, "", e) < 0 || json_get_int(&version, doc, "version", 1, 1, "", e) < 0 ||
        json_get_text(m->name, sizeof m->name, doc, "name", "", e) < 0)
        return e->code;
    return check_model_name(m->name, e);
}

static int parse_network(struct model_spec *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "name", "input", "layers", "loss", "metrics", NULL};
    char text[48];
    int loss;

    if (parse_head(m, doc, keys, e) < 0 ||
        shape_parse(&m->in, json_object_get(doc, "input"), "/input", e) < 0)
        return e->code;
    m->n_in = shape_count(&m->in);
    if (parse_layers(m, json_object_get(doc, "layers"), e) < 0 ||
        json_get_choice(&loss, doc, "loss", loss_names, "", e) < 0)
        return e->code;
    m->loss = (enum loss_kind)loss;
    if (m->loss == LOSS_TOKEN_CROSS_ENTROPY && m->layers[m->n_layers - 1].out.n_dims != 2)
        return err_set(e, ERR_CONFIG,
                       "/loss: token_cross_entropy needs outputs (time, classes), the last layer has %s",
                       shape_text(text, &m->layers[m->n_layers - 1].out));
    if (m->loss == LOSS_TOKEN_CROSS_ENTROPY && model_spec_classes(m) < 2)
        return err_set(e, ERR_CONFIG, "/loss: token_cross_entropy needs two or more outputs a step");
    if (m->loss == LOSS_SOFTMAX_CROSS_ENTROPY && m->n_out < 2)
        return err_set(e, ERR_CONFIG,
                       "/loss: softmax_cross_entropy needs two or more outputs, the last layer has one; "
                       "use sigmoid_cross_entropy");
    return parse_metrics(m, json_object_get(doc, "metrics"), e);
}

static int parse_frozen(struct model_spec *m, const json_t *frozen, struct err *e)
{
    size_t n = json_object_size(frozen);
    const char *name;
    const json_t *v;

    if (frozen && !json_is_object(frozen))
        return err_set(e, ERR_CONFIG, "/frozen: not an object");
    if (n > (size_t)(MODEL_TENSORS_MAX - m->n_tensors))
        return err_set(e, ERR_CONFIG, "/frozen: %zu tensors, with the %d others at most %d", n, m->n_tensors,
                       MODEL_TENSORS_MAX);
    m->frozen = calloc(n + 1, sizeof *m->frozen);
    if (!m->frozen)
        return err_set(e, ERR_NOMEM, "no memory for the names of a model's tensors");
    json_object_foreach((json_t *)(uintptr_t)frozen, name, v)
    {
        struct model_frozen *f = &m->frozen[m->n_frozen++];

        if (strlen(name) >= sizeof f->name || check_tensor_name(name, "/frozen", e) < 0)
            return err_set(e, ERR_CONFIG, "/frozen: a name is empty, longer than %zu bytes, or not printable",
                           sizeof f->name - 1);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
            return err_set(e, ERR_CONFIG, "/frozen/%s: not an integer from 0 to 2^32 - 1", name);
        memcpy(f->name, name, strlen(name) + 1);
        f->checksum = (uint32_t)json_integer_value(v);
    }
    return 0;
}

static int parse_of_trainer(struct model_spec *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "name", "trainer", "tensors", "frozen", NULL};

    m->has_trainer = true;
    if (parse_head(m, doc, keys, e) < 0)
        return e->code;
    if (!json_is_true(json_object_get(doc, "trainer")))
        return err_set(e, ERR_CONFIG, "/trainer: not true; a network of layers has no such key");
    return parse_tensors(m, json_object_get(doc, "tensors"), e) < 0
               ? e->code
               : parse_frozen(m, json_object_get(doc, "frozen"), e);
}

int model_spec_parse(struct model_spec *m, const json_t *doc, struct err *e)
{
    *m = (struct model_spec){0};
    if ((json_object_get(doc, "trainer") ? parse_of_trainer : parse_network)(m, doc, e) < 0) {
        model_spec_clear(m);
        return e->code;
    }
    lay_out(m);
    return 0;
}

int model_spec_read(struct model_spec *m, char **text, const char *folder, struct err *e)
{
    char path[PATH_MAX], *all = NULL;
    json_t *doc = NULL;
    size_t len;
    int rc;

    if (file_join(path, sizeof path, folder, "model.json", e) < 0 ||
        file_read(&all, &len, path, MODEL_DOCUMENT_MAX, e) < 0)
        return e->code;
    rc = json_parse(&doc, all, len, "model", e);
    if (rc == 0 && model_spec_parse(m, doc, e) < 0)
        rc = err_at(e, "model");
    json_decref(doc);
    if (rc == 0 && text)
        *text = all;
    else
        free(all);
    return rc;
}

void model_spec_clear(struct model_spec *m)
{
    free(m->tensors);
    free(m->frozen);
    *m = (struct model_spec){0};
}

int model_spec_new(struct model_spec **out, const json_t *doc, struct err *e)
{
    struct model_spec *m = malloc(sizeof *m);

    if (!m)
        return err_set(e, ERR_NOMEM, "no memory for a model");
    if (model_spec_parse(m, doc, e) < 0) {
        free(m);
        return e->code;
    }
    *out = m;
    return 0;
}

void model_spec_free(struct model_spec *m)
{
    if (m)
        model_spec_clear(m);
    free(m);
}

const struct model_tensor *model_spec_tensor(const struct model_spec *m, int layer, int k)
{
    return &m->tensors[m->layers[layer].first_tensor + k];
}

int model_spec_vocab(const struct model_spec *m)
{
    return m->n_layers > 0 && m->layers[0].kind == LAYER_EMBEDDING ? m->layers[0].embedding.vocab : 0;
}

int model_spec_classes(const struct model_spec *m)
{
    return m->loss == LOSS_TOKEN_CROSS_ENTROPY ? m->layers[m->n_layers - 1].out.dim[1] : m->n_out;
}

bool model_spec_is_padded(const struct model_spec *m)
{
    return model_spec_vocab(m) > 0 && m->loss != LOSS_TOKEN_CROSS_ENTROPY;
}

int model_spec_labels(const struct model_spec *m)
{
    return m->loss == LOSS_TOKEN_CROSS_ENTROPY ? m->layers[m->n_layers - 1].out.dim[0] : 1;
}

/* A layer of steps does not read later ones (attention and recurrent layers read earlier ones), a layer of
 * other shapes does. */
static bool keeps_steps(const struct model_spec *m, const struct layer_spec *l)
{
    return l->out.n_dims == 2 && l->out.dim[0] == m->n_in &&
           (l == m->layers || (l->in.n_dims == 2 && l->in.dim[0] == m->n_in));
}

int model_spec_language(const struct model_spec *m, struct err *e)
{
    char place[24];

    if (m->has_trainer)
        return err_set(e, ERR_CONFIG, "model \"%s\" is computed by a training program, and not by psgd",
                       m->name);
    if (m->loss != LOSS_TOKEN_CROSS_ENTROPY)
        return err_set(e, ERR_CONFIG, "model \"%s\" has the loss %s, a model of language token_cross_entropy",
                       m->name, loss_kind_name(m->loss));
    if (model_spec_vocab(m) == 0)
        return err_set(e, ERR_CONFIG, "model \"%s\" reads no tokens: its first layer is no embedding",
                       m->name);
    for (const struct layer_spec *l = m->layers; l < m->layers + m->n_layers; l++)
        if (!keeps_steps(m, l))
            return err_set(
                e, ERR_CONFIG,
                "model \"%s\" is no model of language: layer %s, %s, does not keep the tokens apart, "
                "so that an output may depend on later ones",
                m->name, layer_spec_place(place, l), layer_kind_name(l->kind));
    return 0;
}

bool loss_kind_needs_labels(enum loss_kind kind)
{
    return kind == LOSS_SOFTMAX_CROSS_ENTROPY || kind == LOSS_TOKEN_CROSS_ENTROPY;
}

int model_spec_measures(const struct model_spec *m, bool has_labels, struct err *e)
{
    for (int kind = 0; !has_labels && kind < N_METRIC_KINDS; kind++)
        if (m->metrics[kind] && kind != METRIC_MSE && kind != METRIC_RMSE)
            return err_set(e, ERR_CONFIG,
                           "model \"%s\" has the metric %s, which needs labels; the data set has targets",
                           m->name, metric_names[kind]);
    if (m->metrics[METRIC_CONFUSION] && model_spec_classes(m) > MODEL_CONFUSION_MAX)
        return err_set(e, ERR_CONFIG,
                       "model \"%s\" has the metric confusion for %d classes; at most %d are supported",
                       m->name, model_spec_classes(m), MODEL_CONFUSION_MAX);
    return 0;
}
