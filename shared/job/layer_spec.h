/* layer_spec -- one layer of the model's document: its keys, shapes and tensors. Code that runs, lists or
 * converts a model uses it. The kinds and their keys: shared/job/layer_kinds.h; the arithmetic of a kind:
 * nn/layers/layer_KIND.c. */
#ifndef PSGD_LAYER_SPEC_H
#define PSGD_LAYER_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/job/layer_kinds.h"

#define LAYER(kind, NAME, parser, ops, convert, keys) LAYER_##NAME,
enum layer_kind { LAYER_KINDS(LAYER) N_LAYER_KINDS };
#undef LAYER

enum init_kind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_GLOROT_UNIFORM,
    INIT_GLOROT_NORMAL,
    INIT_HE_UNIFORM,
    INIT_HE_NORMAL,
    INIT_FAN_IN_UNIFORM,
    INIT_NORMAL,
    INIT_UNIFORM,
    INIT_ORTHOGONAL,
    N_INIT_KINDS
};

enum { SHAPE_DIMS = 3, LAYER_TENSORS = 4, LAYER_VALUES_MAX = 1 << 24, HEAD_VALUES_MAX = 1 << 26 };

struct shape { /* of a sample: (n), (time, n) or (rows, columns, channels) */
    int n_dims, dim[SHAPE_DIMS];
};

struct tensor_spec {
    const char *name; /* "weight" */
    int n_dims;
    size_t shape[4];
    enum init_kind init;
    float scale;            /* of INIT_NORMAL, INIT_UNIFORM */
    size_t fan_in, fan_out; /* inputs of one output, outputs of one input: for INIT_GLOROT_* etc. */
    bool is_state;          /* running statistics: updated by the layer, not by the optimizer */
};

/* A window that slides over an image: conv2d and the pools. */
struct window_spec {
    int rows, cols, row_stride, col_stride;
    int top, left; /* padding; that at the bottom and right follows from the shapes */
};

struct layer_spec {
    enum layer_kind kind;
    /* In the document: number `place` of its layers, or number `part` of those of the residual block that is
     * number `place`. part is -1 outside of blocks. A block's sum has the place of its residual. */
    int place, part;
    /* The layer that this one works with, that many behind this one in model_spec.layers: of a residual its
     * sum and the reverse, of a head its embedding and the reverse. 0: none. */
    int partner;
    struct shape in, out;
    int n_in, n_out; /* values per sample: products of the shapes */
    union {
        struct window_spec window; /* conv2d, max_pool, avg_pool */
        struct {
            float momentum, epsilon;
        } norm; /* batch_norm, layer_norm, rms_norm */
        struct {
            float rate;
        } dropout;
        struct {
            int vocab;
        } embedding;
        struct {
            int heads;
            float rope;    /* base of the rotary embedding; 0: none */
            float dropout; /* rate */
        } attention;
        struct {
            int tied; /* the embedding's place */
        } head;
        struct {
            bool sequences;
        } recurrent; /* lstm, gru */
        struct {
            float slope; /* of the part that the activation flattens */
        } sloped;        /* leaky_relu, hard_tanh */
    };
    struct tensor_spec tensors[LAYER_TENSORS];
    int n_tensors, first_tensor; /* first_tensor: of the model's (model_spec.tensors) */
};

const char *layer_kind_name(enum layer_kind kind);

/* Writes "3", or "3.1" for part 1 of the block that is layer 3. */
const char *layer_spec_place(char out[24], const struct layer_spec *l);

/* Fills *l, of which `in`, `place` and `part` are set. `at` is the object's path. model_spec.c reads what
 * depends on other layers: a block's layers, and the size of a head. ERR_CONFIG with the path inside the
 * document. */
int layer_spec_parse(struct layer_spec *l, const json_t *doc, const char *at, struct err *e);

int shape_count(const struct shape *s);
/* "(28, 28, 1)" */
const char *shape_text(char out[48], const struct shape *s);
/* Parses an array of 1 to 3 positive integers, with a product of at most LAYER_VALUES_MAX. */
int shape_parse(struct shape *s, const json_t *doc, const char *at, struct err *e);
size_t tensor_spec_count(const struct tensor_spec *t);

#endif
