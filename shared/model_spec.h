/* model_spec -- a network as a JSON document says it, checked, before any memory is laid out for it.
 *
 *     {"version": 1, "name": "mlp-tutorial", "input": [784],
 *      "layers": [{"kind": "dense", "units": 128, "init": "glorot_uniform"}, {"kind": "tanh"},
 *                 {"kind": "dense", "units": 10}],
 *      "loss": "softmax_cross_entropy"}
 *
 * Kinds: dense (units; init glorot_uniform, the default, or zeros), tanh, relu, sigmoid. The shape of "input"
 * counts only through its product. A model must have parameters: at least one dense layer. */
#ifndef PSGD_MODEL_SPEC_H
#define PSGD_MODEL_SPEC_H

#include <jansson.h>
#include <stddef.h>

#include "shared/err.h"

enum { MODEL_LAYERS_MAX = 256, MODEL_WIDTH_MAX = 1 << 20, MODEL_PARAMS_MAX = 1 << 30 };
enum layer_kind { LAYER_DENSE, LAYER_TANH, LAYER_RELU, LAYER_SIGMOID, N_LAYER_KINDS };
enum init_kind { INIT_GLOROT_UNIFORM, INIT_ZEROS, N_INIT_KINDS };

struct layer_spec {
    enum layer_kind kind;
    enum init_kind init;
    int n_in, n_out; /* values per sample */
};

struct model_spec {
    char name[64];
    int n_in, n_out; /* values per sample; n_out = number of classes */
    int n_layers;
    struct layer_spec layers[MODEL_LAYERS_MAX];
    size_t n_params;
};

const char *layer_kind_name(enum layer_kind kind); /* as in the document */

/* ERR_CONFIG, with the path: "/layers/2/units: missing". */
int model_spec_parse(struct model_spec *m, const json_t *doc, struct err *e);
/* ERR_CONFIG: the model does not fit samples of n_in values and n_classes labels. */
int model_spec_fits(const struct model_spec *m, int n_in, int n_classes, struct err *e);

#endif
