#include "submit/export/onnx_graph.h"

#include <stdio.h>
#include <string.h>

enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAMED = 8, TENSOR_RAW = 9 };

static void attr_end(struct protobuf *attrs, struct protobuf *a, const char *name, int type)
{
    protobuf_text(a, ATTR_NAME, name);
    protobuf_int(a, ATTR_TYPE, type);
    protobuf_message(attrs, NODE_ATTRIBUTE, a);
}

void onnx_attr_int(struct protobuf *attrs, const char *name, int64_t v)
{
    struct protobuf a = {0};

    protobuf_int(&a, ATTR_I, v);
    attr_end(attrs, &a, name, ATTR_IS_INT);
}

void onnx_attr_float(struct protobuf *attrs, const char *name, float v)
{
    struct protobuf a = {0};

    protobuf_float(&a, ATTR_F, v);
    attr_end(attrs, &a, name, ATTR_IS_FLOAT);
}

void onnx_attr_ints(struct protobuf *attrs, const char *name, const int64_t *v, int n)
{
    struct protobuf a = {0};

    for (int i = 0; i < n; i++)
        protobuf_int(&a, ATTR_INTS, v[i]);
    attr_end(attrs, &a, name, ATTR_IS_INTS);
}

void onnx_node(struct onnx_graph *g, const char *op, const char *const *in, int n_in, const char *out,
               int place, struct protobuf *attrs)
{
    struct protobuf n = {0};
    char name[ONNX_VALUE];

    for (int i = 0; i < n_in; i++)
        protobuf_text(&n, NODE_INPUT, in[i]);
    for (int i = 0; i < place; i++)
        protobuf_text(&n, NODE_OUTPUT, "");
    protobuf_text(&n, NODE_OUTPUT, out);
    snprintf(name, sizeof name, "n%d", g->n_nodes++);
    protobuf_text(&n, NODE_NAME, name);
    protobuf_text(&n, NODE_OP, op);
    if (attrs)
        protobuf_append(&n, attrs);
    protobuf_message(&g->out, GRAPH_NODE, &n);
}

void onnx_value(struct onnx_graph *g, char out[ONNX_VALUE])
{
    snprintf(out, ONNX_VALUE, "v%d", g->n_values++);
}

void onnx_op(struct onnx_graph *g, char out[ONNX_VALUE], const char *op, const char *const *in,
             struct protobuf *attrs)
{
    char made[ONNX_VALUE];
    int n = 0;

    while (in[n])
        n++;
    onnx_value(g, made);
    onnx_node(g, op, in, n, made, 0, attrs);
    memcpy(out, made, ONNX_VALUE);
}

void onnx_initializer(struct onnx_graph *g, const char *name, int type, const size_t *dims, int n_dims,
                      const void *bytes, size_t len)
{
    struct protobuf t = {0};

    for (int i = 0; i < n_dims; i++)
        protobuf_int(&t, TENSOR_DIM, (int64_t)dims[i]);
    protobuf_int(&t, TENSOR_TYPE, type);
    protobuf_text(&t, TENSOR_NAMED, name);
    protobuf_bytes(&t, TENSOR_RAW, bytes, len);
    protobuf_message(&g->out, GRAPH_INITIALIZER, &t);
}

void onnx_ints(struct onnx_graph *g, char out[ONNX_VALUE], const int64_t *v, size_t n)
{
    onnx_value(g, out);
    onnx_initializer(g, out, ONNX_INT64, &n, 1, v, n * sizeof *v);
}

void onnx_number(struct onnx_graph *g, char out[ONNX_VALUE], float v)
{
    onnx_value(g, out);
    onnx_initializer(g, out, ONNX_FLOAT, NULL, 0, &v, sizeof v);
}

void onnx_cast(struct onnx_graph *g, char out[ONNX_VALUE], const char *x, int type)
{
    struct protobuf a = {0};

    onnx_attr_int(&a, "to", type);
    onnx_op(g, out, "Cast", ONNX_INPUTS(x), &a);
}
