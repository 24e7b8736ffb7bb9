#include "shared/model_spec.h"

#include <stdio.h>
#include <string.h>

#include "shared/json.h"
#include "shared/suggest.h"

enum { PATH_LEN = 64, INPUT_DIMS_MAX = 8, WORD_LEN = 64 };

static const char *const init_names[N_INIT_KINDS + 1] = {
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_ZEROS] = "zeros",
};

/* Sets *out to the index of the word at `key`. ERR_CONFIG: not one of `words` (ends with NULL). */
static int get_word(int *out, const json_t *object, const char *key, const char *const *words, const char *at,
                    struct err *e)
{
    char word[WORD_LEN];
    char list[512] = "";
    const char *near;

    if (json_get_text(word, sizeof word, object, key, at, e) < 0)
        return e->code;
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(list);

        if (strcmp(words[i], word) == 0) {
            *out = i;
            return 0;
        }
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    near = suggest(word, words);
    if (near)
        return err_set(e, ERR_CONFIG, "%s/%s: \"%s\" is unknown; did you mean \"%s\"?", at, key, word, near);
    return err_set(e, ERR_CONFIG, "%s/%s: \"%s\" is not one of %s", at, key, word, list);
}

static int parse_dense(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    int init = INIT_GLOROT_UNIFORM;

    if (json_get_int(&l->n_out, doc, "units", 1, MODEL_WIDTH_MAX, at, e) < 0)
        return e->code;
    if (json_object_get(doc, "init") && get_word(&init, doc, "init", init_names, at, e) < 0)
        return e->code;
    l->init = (enum init_kind)init;
    return 0;
}

/* An activation takes no settings and keeps the shape. */
static int parse_activation(struct layer_spec *l, const json_t *doc, const char *at, struct err *e)
{
    (void)doc, (void)at, (void)e;
    l->n_out = l->n_in;
    return 0;
}

static size_t dense_params(const struct layer_spec *l)
{
    return (size_t)l->n_in * (size_t)l->n_out + (size_t)l->n_out;
}

static const struct {
    const char *name;
    const char *keys[4]; /* ends with NULL */
    int (*parse)(struct layer_spec *l, const json_t *doc, const char *at, struct err *e);
    size_t (*n_params)(const struct layer_spec *l); /* NULL: none */
} kinds[N_LAYER_KINDS] = {
    [LAYER_DENSE] = {"dense", {"kind", "units", "init"}, parse_dense, dense_params},
    [LAYER_TANH] = {"tanh", {"kind"}, parse_activation, NULL},
    [LAYER_RELU] = {"relu", {"kind"}, parse_activation, NULL},
    [LAYER_SIGMOID] = {"sigmoid", {"kind"}, parse_activation, NULL},
};

const char *layer_kind_name(enum layer_kind kind)
{
    return kinds[kind].name;
}

static int parse_layer(struct layer_spec *l, size_t *n_params, const json_t *doc, const char *at,
                       struct err *e)
{
    const char *names[N_LAYER_KINDS + 1] = {0};
    int kind = 0;

    if (!json_is_object(doc))
        return err_set(e, ERR_CONFIG, "%s: not an object", at);
    for (int i = 0; i < N_LAYER_KINDS; i++)
        names[i] = kinds[i].name;
    if (get_word(&kind, doc, "kind", names, at, e) < 0 || json_only_keys(doc, kinds[kind].keys, at, e) < 0)
        return e->code;
    l->kind = (enum layer_kind)kind;
    if (kinds[kind].parse(l, doc, at, e) < 0)
        return e->code;
    if (kinds[kind].n_params)
        *n_params += kinds[kind].n_params(l); /* widths are at most 2^20 each: 256 layers cannot overflow */
    if (*n_params > MODEL_PARAMS_MAX)
        return err_set(e, ERR_CONFIG, "%s: %zu parameters up to here, at most %d", at, *n_params,
                       MODEL_PARAMS_MAX);
    return 0;
}

static int parse_layers(struct model_spec *m, const json_t *layers, struct err *e)
{
    int width = m->n_in;

    if (!json_is_array(layers))
        return err_set(e, ERR_CONFIG, "/layers: %s", layers ? "not an array" : "missing");
    if (json_array_size(layers) == 0 || json_array_size(layers) > MODEL_LAYERS_MAX)
        return err_set(e, ERR_CONFIG, "/layers: %zu layers, expected 1 to %d", json_array_size(layers),
                       MODEL_LAYERS_MAX);
    m->n_layers = (int)json_array_size(layers);
    for (int i = 0; i < m->n_layers; i++) {
        char at[PATH_LEN];

        snprintf(at, sizeof at, "/layers/%d", i);
        m->layers[i].n_in = width;
        if (parse_layer(&m->layers[i], &m->n_params, json_array_get(layers, (size_t)i), at, e) < 0)
            return e->code;
        width = m->layers[i].n_out;
    }
    m->n_out = width;
    if (m->n_params == 0)
        return err_set(e, ERR_CONFIG, "/layers: no layer has parameters, so there is nothing to train");
    return 0;
}

static int parse_input(struct model_spec *m, const json_t *input, struct err *e)
{
    json_int_t n = 1;
    const json_t *v;
    size_t i;

    if (!json_is_array(input))
        return err_set(e, ERR_CONFIG, "/input: %s", input ? "not an array" : "missing");
    if (json_array_size(input) == 0 || json_array_size(input) > INPUT_DIMS_MAX)
        return err_set(e, ERR_CONFIG, "/input: %zu dimensions, expected 1 to %d", json_array_size(input),
                       INPUT_DIMS_MAX);
    json_array_foreach(input, i, v)
    {
        json_int_t k = json_integer_value(v);

        if (!json_is_integer(v) || k < 1 || k > MODEL_WIDTH_MAX)
            return err_set(e, ERR_CONFIG, "/input/%zu: not an integer from 1 to %d", i, MODEL_WIDTH_MAX);
        n *= k;
        if (n > MODEL_WIDTH_MAX)
            return err_set(e, ERR_CONFIG, "/input: %lld values, at most %d", (long long)n, MODEL_WIDTH_MAX);
    }
    m->n_in = (int)n;
    return 0;
}

int model_spec_parse(struct model_spec *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "name", "input", "layers", "loss", NULL};
    static const char *const losses[] = {"softmax_cross_entropy", NULL};
    struct model_spec t = {0};
    int version, loss;

    if (json_only_keys(doc, keys, "", e) < 0 || json_get_int(&version, doc, "version", 1, 1, "", e) < 0 ||
        json_get_text(t.name, sizeof t.name, doc, "name", "", e) < 0 ||
        parse_input(&t, json_object_get(doc, "input"), e) < 0 ||
        parse_layers(&t, json_object_get(doc, "layers"), e) < 0 ||
        get_word(&loss, doc, "loss", losses, "", e) < 0)
        return e->code;
    *m = t;
    return 0;
}

int model_spec_fits(const struct model_spec *m, int n_in, int n_classes, struct err *e)
{
    if (m->n_in != n_in)
        return err_set(e, ERR_CONFIG, "model \"%s\" takes %d values per sample, the data set has %d", m->name,
                       m->n_in, n_in);
    if (m->n_out != n_classes)
        return err_set(e, ERR_CONFIG, "model \"%s\" ends with %d outputs, the data set has %d classes",
                       m->name, m->n_out, n_classes);
    return 0;
}
