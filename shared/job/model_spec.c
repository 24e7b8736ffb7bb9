#include "shared/job/model_spec.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"

enum { PATH_LEN = 64 };

static const char *const loss_names[N_LOSS_KINDS + 1] = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy",
    [LOSS_SIGMOID_CROSS_ENTROPY] = "sigmoid_cross_entropy",
    [LOSS_MSE] = "mse",
    [LOSS_TANH_SQUARED] = "tanh_squared",
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

static int parse_layers(struct model_spec *m, const json_t *layers, struct err *e)
{
    struct shape width = m->in;

    if (!json_is_array(layers))
        return err_set(e, ERR_CONFIG, "/layers: %s", layers ? "not an array" : "missing");
    if (json_array_size(layers) == 0 || json_array_size(layers) > MODEL_LAYERS_MAX)
        return err_set(e, ERR_CONFIG, "/layers: %zu layers, expected 1 to %d", json_array_size(layers),
                       MODEL_LAYERS_MAX);
    m->n_layers = (int)json_array_size(layers);
    for (int i = 0; i < m->n_layers; i++) {
        struct layer_spec *l = &m->layers[i];
        char at[PATH_LEN];

        snprintf(at, sizeof at, "/layers/%d", i);
        l->in = width;
        if (layer_spec_parse(l, json_array_get(layers, (size_t)i), at, e) < 0)
            return e->code;
        if (l->kind == LAYER_EMBEDDING && i > 0)
            return err_set(e, ERR_CONFIG, "%s: an embedding reads tokens: it can only be the first layer",
                           at);
        for (int k = 0; k < l->n_tensors; k++)
            *(l->tensors[k].is_state ? &m->n_state : &m->n_trained) += tensor_spec_count(&l->tensors[k]);
        m->n_params = m->n_trained + m->n_state;
        if (m->n_params > MODEL_PARAMS_MAX)
            return err_set(e, ERR_CONFIG, "%s: %zu parameters up to here, at most %d", at, m->n_params,
                           MODEL_PARAMS_MAX);
        width = l->out;
    }
    m->n_out = shape_count(&width);
    if (m->n_trained == 0)
        return err_set(e, ERR_CONFIG, "/layers: no layer has parameters, so there is nothing to train");
    return 0;
}

static void lay_out(struct model_spec *m)
{
    size_t trained = 0, state = m->n_trained;

    for (int i = 0; i < m->n_layers; i++)
        for (int k = 0; k < m->layers[i].n_tensors; k++) {
            struct tensor_spec *t = &m->layers[i].tensors[k];
            size_t *at = t->is_state ? &state : &trained;

            t->offset = *at;
            *at += tensor_spec_count(t);
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
        if ((kind == METRIC_AUC || kind == METRIC_EER) && m->n_out > 2)
            return err_set(e, ERR_CONFIG, "/metrics/%zu: %s is for two classes, the model has %d outputs", i,
                           metric_names[kind], m->n_out);
        m->metrics[kind] = true;
    }
    return 0;
}

/* The name is printed on terminals. */
static int check_model_name(const char *name, struct err *e)
{
    return utf8_is_clean(name) ? 0 : err_set(e, ERR_CONFIG, "/name: contains a control character");
}

int model_spec_parse(struct model_spec *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "name", "input", "layers", "loss", "metrics", NULL};
    struct model_spec *t = m;
    int version, loss;

    *t = (struct model_spec){0};
    if (json_only_keys(doc, keys, "", e) < 0 || json_get_int(&version, doc, "version", 1, 1, "", e) < 0 ||
        json_get_text(t->name, sizeof t->name, doc, "name", "", e) < 0 || check_model_name(t->name, e) < 0 ||
        shape_parse(&t->in, json_object_get(doc, "input"), "/input", e) < 0)
        return e->code;
    t->n_in = shape_count(&t->in);
    if (parse_layers(t, json_object_get(doc, "layers"), e) < 0 ||
        json_get_choice(&loss, doc, "loss", loss_names, "", e) < 0)
        return e->code;
    lay_out(t);
    t->loss = (enum loss_kind)loss;
    if (t->loss == LOSS_SOFTMAX_CROSS_ENTROPY && t->n_out < 2)
        return err_set(e, ERR_CONFIG,
                       "/loss: softmax_cross_entropy needs two or more outputs, the last layer has one; "
                       "use sigmoid_cross_entropy");
    return parse_metrics(t, json_object_get(doc, "metrics"), e);
}

int model_spec_vocab(const struct model_spec *m)
{
    return m->layers[0].kind == LAYER_EMBEDDING ? m->layers[0].embedding.vocab : 0;
}

int model_spec_measures(const struct model_spec *m, bool has_labels, struct err *e)
{
    for (int kind = 0; !has_labels && kind < N_METRIC_KINDS; kind++)
        if (m->metrics[kind] && kind != METRIC_MSE && kind != METRIC_RMSE)
            return err_set(e, ERR_CONFIG,
                           "model \"%s\" has the metric %s, which needs labels; the data set has targets",
                           m->name, metric_names[kind]);
    if (m->metrics[METRIC_CONFUSION] && m->n_out > MODEL_CONFUSION_MAX)
        return err_set(e, ERR_CONFIG,
                       "model \"%s\" has the metric confusion for %d classes; at most %d are supported",
                       m->name, m->n_out, MODEL_CONFUSION_MAX);
    return 0;
}
