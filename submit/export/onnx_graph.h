/* onnx_graph -- the elements of an ONNX file: nodes with attributes, values between them, initializers.
 * Numbers of fields and types are those of onnx.proto. A lack of memory is noted in the graph's protocol
 * buffer. */
#ifndef PSGD_SUBMIT_ONNX_GRAPH_H
#define PSGD_SUBMIT_ONNX_GRAPH_H

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"
#include "submit/export/protobuf.h"

enum { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BOOL = 9 };
enum { ONNX_VALUE = 24 /* bytes of a value's name */ };

struct onnx_graph {
    const struct model_spec *m;
    const struct tensor_file *f;
    const char *prefix;
    struct protobuf out;
    char at[ONNX_VALUE];      /* the output of the last converted layer */
    char lengths[ONNX_VALUE]; /* lengths of the texts, (N) floats; "": not needed */
    bool is_nchw;             /* `at` is an image with its channels first */
    int n_values, n_nodes;
};

/* Attributes of the next node, as fields of NodeProto. */
void onnx_attr_int(struct protobuf *attrs, const char *name, int64_t v);
void onnx_attr_float(struct protobuf *attrs, const char *name, float v);
void onnx_attr_ints(struct protobuf *attrs, const char *name, const int64_t *v, int n);

/* Makes a new value name. */
void onnx_value(struct onnx_graph *g, char out[ONNX_VALUE]);

/* Adds a node with the given inputs ("": omitted) and one named output, the output number `place` of the
 * operator. */
void onnx_node(struct onnx_graph *g, const char *op, const char *const *in, int n_in, const char *out,
               int place, struct protobuf *attrs);

/* Adds a node; `in` ends with NULL. The name of its result goes to `out`, which may be one of `in`. */
void onnx_op(struct onnx_graph *g, char out[ONNX_VALUE], const char *op, const char *const *in,
             struct protobuf *attrs);
#define ONNX_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* The most common case: `at` becomes the result. */
#define ONNX_OP(g, op, attrs, ...) onnx_op(g, (g)->at, op, ONNX_INPUTS(__VA_ARGS__), attrs)

/* Adds a constant to the file. */
void onnx_initializer(struct onnx_graph *g, const char *name, int type, const size_t *dims, int n_dims,
                      const void *bytes, size_t len);
/* The same with a new name, which goes to `out`. */
void onnx_ints(struct onnx_graph *g, char out[ONNX_VALUE], const int64_t *v, size_t n);
void onnx_number(struct onnx_graph *g, char out[ONNX_VALUE], float v);

void onnx_cast(struct onnx_graph *g, char out[ONNX_VALUE], const char *x, int type);

#endif
