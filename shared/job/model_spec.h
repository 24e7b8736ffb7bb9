/* model_spec -- a model's JSON document, parsed and checked before memory is allocated for the model.
 *
 *     {"version": 1, "name": "mlp-tutorial", "input": [784],
 *      "layers": [{"kind": "dense", "units": 128, "init": "glorot_uniform"}, {"kind": "tanh"},
 *                 {"kind": "dense", "units": 10}],
 *      "loss": "softmax_cross_entropy", "metrics": ["top5"]}
 *
 * Input: [values], [time, values], [time] tokens if an embedding is the first layer, or [rows, columns,
 * channels]. Layers: shared/job/layer_kinds.h. Losses, on the last layer's outputs z (n, k):
 *   softmax_cross_entropy   -log softmax(z)[label]
 *   token_cross_entropy     the same at each step of (time, k) outputs: a sample has a label for each step,
 *                           as the next token of a language model; the mean is over the steps of all samples
 *   sigmoid_cross_entropy   sum over the k outputs of -y log s(z) - (1 - y) log(1 - s(z)), s(z) the logistic
 *                           function: k times PyTorch's BCEWithLogitsLoss, which takes their mean. A label's
 *                           y is its one-hot, for k = 1 the label itself, 0 or 1; targets are from 0 to 1
 *   mse                     mean over the k outputs of (z - target)^2; a label's target is as y above
 *   tanh_squared            mean over the k outputs of tanh(z - target)^2: mse where an output is near, and
 *                           at most 1 where it is far off, which bounds the influence of outliers. TanhLoss
 *                           of Parallel-SGD, whose gradient for the target had 1 + tanh^2 for 1 - tanh^2
 * Metrics in addition to loss and accuracy, which always exist: top2, top3, ..., top10, mse, rmse,
 * confusion; auc and eer for two classes. A model must have parameters.
 *
 * The model of a training program (shared/trainer/) is known by its tensors alone, because the program
 * computes it; the document has them with the names and in the order of the program:
 *
 *     {"version": 1, "name": "train.py", "trainer": true,
 *      "tensors": [{"name": "head.weight", "shape": [10, 512]}, {"name": "scale", "shape": []},
 *                  {"name": "bn.running_mean", "shape": [6], "statistic": true}],
 *      "frozen": {"backbone.weight": 2774361713}}
 *
 * A statistic, as of batch norm, is averaged over the workers, and has no gradient. Frozen tensors, if there
 * are any, are no part of the model: all workers have their values, of which the document has checksums. */
#ifndef PSGD_MODEL_SPEC_H
#define PSGD_MODEL_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/layer_spec.h"

enum {
    /* Bytes. A compact document of MODEL_TENSORS_MAX tensors has at most 1.6 MB: each name 254 bytes, all of
     * its characters escaped, each shape 8 numbers, and 60 bytes of keys. */
    MODEL_DOCUMENT_MAX = 1 << 21,
    MODEL_LAYERS_MAX = 256,
    MODEL_TENSORS_MAX = 4096,
    MODEL_TENSOR_NAME = 128,
    MODEL_TENSOR_DIMS = 8,
    MODEL_PARAMS_MAX = 1 << 30,
    MODEL_CONFUSION_MAX = 1024,
    METRIC_TOP_MAX = 10 /* k of top-k */
};
enum loss_kind {
    LOSS_SOFTMAX_CROSS_ENTROPY,
    LOSS_SIGMOID_CROSS_ENTROPY,
    LOSS_MSE,
    LOSS_TANH_SQUARED,
    LOSS_TOKEN_CROSS_ENTROPY,
    N_LOSS_KINDS
};
enum metric_kind {
    METRIC_ACCURACY,
    METRIC_TOP2,                                        /* top3, top4, ... */
    METRIC_TOP_LAST = METRIC_TOP2 + METRIC_TOP_MAX - 2, /* top10 */
    METRIC_MSE,
    METRIC_RMSE,
    METRIC_AUC,
    METRIC_EER,
    METRIC_CONFUSION,
    N_METRIC_KINDS
};

struct model_tensor {
    char name[MODEL_TENSOR_NAME]; /* "layer0.dense.weight", or the name in the training program */
    int n_dims;                   /* 0: a number */
    size_t shape[MODEL_TENSOR_DIMS];
    bool is_statistic;
    size_t n, offset; /* values, and where they begin in the vector of all parameters */
};

struct model_frozen { /* a tensor that a training program has, and does not train */
    char name[MODEL_TENSOR_NAME];
    uint32_t checksum;
};

struct model_spec {
    char name[64];
    bool has_trainer; /* a training program computes it: there are tensors, no input, layers, loss, metrics */
    struct shape in;
    int n_in,
        n_out; /* values per sample; n_out = number of classes, or of values to regress, of each label */
    int n_layers;
    struct layer_spec layers[MODEL_LAYERS_MAX];
    enum loss_kind loss;
    bool metrics[N_METRIC_KINDS]; /* requested */
    /* (n_tensors), owned, in the model's order: layer by layer, or that of the program. Their offsets are in
     * this order, those of the running statistics behind all others, unless placement_lay_out() changes
     * it. */
    struct model_tensor *tensors;
    int n_tensors;
    struct model_frozen *frozen; /* (n_frozen), owned */
    int n_frozen;                /* with n_tensors at most MODEL_TENSORS_MAX */
    size_t n_trained, n_params;  /* values that the optimizer trains; these and the running statistics */
    bool is_reordered;           /* trained tensors do not lie in the model's order: shared/job/placement.h */
};

const char *loss_kind_name(enum loss_kind kind);
const char *metric_kind_name(enum metric_kind kind);
/* Returns k of a top-k metric, 0 for others. */
int metric_kind_top(enum metric_kind kind);

/* ERR_CONFIG, with the path: "/layers/2/units: missing"; ERR_NOMEM. *m is empty then. */
int model_spec_parse(struct model_spec *m, const json_t *doc, struct err *e);
/* Of model.json in a folder of packages. *text: the document, for the caller to free; text NULL: not wanted.
 * Besides: as file_read. */
int model_spec_read(struct model_spec *m, char **text, const char *folder, struct err *e);
void model_spec_clear(struct model_spec *m);
/* The same, allocated: a spec has 150 kB. */
int model_spec_new(struct model_spec **out, const json_t *doc, struct err *e);
void model_spec_free(struct model_spec *m); /* NULL is allowed */
/* Returns tensor k of that layer. */
const struct model_tensor *model_spec_tensor(const struct model_spec *m, int layer, int k);
/* Returns the size of the model's vocabulary, tokens 0 .. vocab - 1; 0: its input is not tokens. */
int model_spec_vocab(const struct model_spec *m);
/* Whether the input is texts of different lengths, with zeros behind the end of each. Under
 * token_cross_entropy it is windows of a stream, in which token 0 is the end of a document. */
bool model_spec_is_padded(const struct model_spec *m);
/* ERR_CONFIG: it is no model of language, which reads tokens and predicts the next one of each, from that
 * token and those before it; the message says why. */
int model_spec_language(const struct model_spec *m, struct err *e);
/* Returns the labels of a sample: 1, under token_cross_entropy one for each step. */
int model_spec_labels(const struct model_spec *m);
/* Returns the outputs for one label: all, under token_cross_entropy those of a step. */
int model_spec_classes(const struct model_spec *m);
/* Whether the loss is for classes, so that targets have no meaning. */
bool loss_kind_needs_labels(enum loss_kind kind);
/* ERR_CONFIG: a metric of labels with targets, or a confusion matrix of more than MODEL_CONFUSION_MAX
 * classes. */
int model_spec_measures(const struct model_spec *m, bool has_labels, struct err *e);

#endif
