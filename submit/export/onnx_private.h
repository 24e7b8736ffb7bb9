/* onnx_private -- the graph of an ONNX file: onnx.c writes its elements, onnx_layers.c makes layers of them.
 * An element is a node with attributes, a value between nodes, or an initializer, which is a constant. A lack
 * of memory is noted in the graph's protocol buffer. */
#ifndef PSGD_SUBMIT_ONNX_PRIVATE_H
#define PSGD_SUBMIT_ONNX_PRIVATE_H

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"
#include "submit/export/protobuf.h"

/* Types, as in onnx.proto. */
enum { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BOOL = 9 };
enum { ONNX_VALUE = 24 /* bytes of a value's name */ };

struct onnx_graph {
    const struct model_spec *m;
    const struct tensor_file *f;
    const char *prefix;
    struct protobuf out;
    char at[ONNX_VALUE];      /* the output of the last converted layer */
    char around[ONNX_VALUE];  /* the input of the residual block that is being converted */
    char lengths[ONNX_VALUE]; /* lengths of the texts, (N) floats; "": not needed */
    bool is_nchw;             /* `at` is an image with its channels first */
    int n_values, n_nodes;
};

/* Attributes of the next node, as fields of NodeProto. */
void onnx_attr_int(struct protobuf *attrs, const char *name, int64_t v);
void onnx_attr_float(struct protobuf *attrs, const char *name, float v);
void onnx_attr_ints(struct protobuf *attrs, const char *name, const int64_t *v, int n);

/* out: a new name of a value. */
void onnx_value(struct onnx_graph *g, char out[ONNX_VALUE]);

/* Adds a node with n_in inputs ("": omitted) and one named output, output number `place` of the operator. */
void onnx_node(struct onnx_graph *g, const char *op, const char *const *in, int n_in, const char *out,
               int place, struct protobuf *attrs);

/* Adds a node with one output; `in` ends with NULL. out: the output's new name; it may be one of `in`. */
void onnx_op(struct onnx_graph *g, char out[ONNX_VALUE], const char *op, const char *const *in,
             struct protobuf *attrs);
#define ONNX_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* The common case: `at` becomes the output. */
#define ONNX_OP(g, op, attrs, ...) onnx_op(g, (g)->at, op, ONNX_INPUTS(__VA_ARGS__), attrs)

/* Adds a constant. */
void onnx_initializer(struct onnx_graph *g, const char *name, int type, const size_t *dims, int n_dims,
                      const void *bytes, size_t len);
/* Adds a constant under a new name, `out`. */
void onnx_ints(struct onnx_graph *g, char out[ONNX_VALUE], const int64_t *v, size_t n);
void onnx_number(struct onnx_graph *g, char out[ONNX_VALUE], float v);

void onnx_cast(struct onnx_graph *g, char out[ONNX_VALUE], const char *x, int type);

/* onnx_layers.c. By enum layer_kind: applies layer number `layer` to g->at; the result becomes g->at. */
extern void (*const onnx_convert[N_LAYER_KINDS])(struct onnx_graph *g, int layer);
/* Transposes g->at, if it is an image with its channels first, to channels last, as in psgd. */
void onnx_channels_last(struct onnx_graph *g);
/* Computes g->lengths from g->at, the tokens of texts, for layers over time. */
void onnx_find_lengths(struct onnx_graph *g);

#endif
