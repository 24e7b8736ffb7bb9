/* A model with its weights as an ONNX file: IR version 7, operator set 13.
 *
 * Input "input" (N, ...) is the input of psgd's network: floats, images channels last, or tokens as int32,
 * with 0 after the end of a text. Output "output" (N, ...) is the output of the last layer, before the
 * loss: logits, if the loss is a cross entropy. Initializers have the names and values of the tensors;
 * the weights of conv2d, lstm and gru are transposed to the shapes of ONNX, with its order of gates (i o f
 * c; z r h). The preprocessing record of the weights is in metadata_props, under its name. Source: the
 * onnx.proto and Operators.md of ONNX 1.8. */
#include <stdio.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/records/weights.h"
#include "submit/export/export.h"
#include "submit/export/onnx_private.h"

/* Numbers of fields and types, as in onnx.proto. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3 };
enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAMED = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEM = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

enum { IR_VERSION = 7, OPSET = 13 };

static const size_t bytes_max = 2000u << 20; /* the maximum of a protocol buffer is 2 GiB */

/* An attribute of the next node is a field of NodeProto. */
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

/* Describes an input or output of the graph: (N, shape). */
static void describe_value(struct onnx_graph *g, int field, const char *name, int type, const struct shape *s)
{
    struct protobuf value = {0}, of_type = {0}, tensor = {0}, shape = {0}, dim = {0};

    protobuf_text(&dim, DIM_PARAM, "N");
    protobuf_message(&shape, SHAPE_DIM, &dim);
    for (int i = 0; i < s->n_dims; i++) {
        protobuf_int(&dim, DIM_VALUE, s->dim[i]);
        protobuf_message(&shape, SHAPE_DIM, &dim);
    }
    protobuf_int(&tensor, TENSOR_ELEM, type);
    protobuf_message(&tensor, TENSOR_SHAPE, &shape);
    protobuf_message(&of_type, TYPE_TENSOR, &tensor);
    protobuf_text(&value, VALUE_NAME, name);
    protobuf_message(&value, VALUE_TYPE, &of_type);
    protobuf_message(&g->out, field, &value);
}

static bool needs_lengths(const struct model_spec *m)
{
    for (int i = 0; i < m->n_layers; i++)
        if (m->layers[i].kind == LAYER_LSTM || m->layers[i].kind == LAYER_GRU ||
            m->layers[i].kind == LAYER_MEAN_OVER_TIME)
            return model_spec_is_padded(m);
    return false;
}

static void build_graph(struct onnx_graph *g)
{
    const struct model_spec *m = g->m;

    protobuf_text(&g->out, GRAPH_NAME, m->name);
    describe_value(g, GRAPH_INPUT, "input", model_spec_vocab(m) > 0 ? ONNX_INT32 : ONNX_FLOAT, &m->in);
    strcpy(g->at, "input");
    if (needs_lengths(m))
        onnx_find_lengths(g);
    for (int i = 0; i < m->n_layers; i++)
        onnx_convert[m->layers[i].kind](g, i);
    onnx_channels_last(g);
    onnx_node(g, "Identity", ONNX_INPUTS(g->at), 1, "output", 0, NULL);
    describe_value(g, GRAPH_OUTPUT, "output", ONNX_FLOAT, &m->layers[m->n_layers - 1].out);
}

/* An entry of metadata_props: the preprocessing record, from which a reader makes the input. */
static void put_record(struct protobuf *model, const struct tensor_file *f)
{
    const char *record = tensor_file_meta(f, PREPROCESSING_META);
    struct protobuf entry = {0};

    if (!record)
        return;
    protobuf_text(&entry, ENTRY_KEY, PREPROCESSING_META);
    protobuf_text(&entry, ENTRY_VALUE, record);
    protobuf_message(model, MODEL_METADATA, &entry);
}

int onnx_write(const char *path, const struct model_spec *m, const struct tensor_file *f, const char *prefix,
               struct err *e)
{
    struct onnx_graph g = {.m = m, .f = f, .prefix = prefix};
    struct protobuf model = {0}, opset = {0};
    int rc;

    if (m->has_trainer) {
        err_set(e, ERR_CONFIG,
                "model \"%s\" is computed by a training program, and psgd has no graph of it for ONNX",
                m->name);
        return err_hint(e, "Export it in that program, as with torch.onnx.export(), or take --to npz.");
    }
    if (m->n_params * sizeof(float) > bytes_max)
        return err_set(e, ERR_CONFIG, "the model has %zu parameters, but an ONNX file at most 2 GiB",
                       m->n_params);
    build_graph(&g);
    protobuf_int(&model, MODEL_IR, IR_VERSION);
    protobuf_text(&model, MODEL_PRODUCER, "psgd");
    protobuf_text(&model, MODEL_PRODUCER_VERSION, PSGD_VERSION);
    protobuf_message(&model, MODEL_GRAPH, &g.out);
    protobuf_text(&opset, OPSET_DOMAIN, "");
    protobuf_int(&opset, OPSET_VERSION, OPSET);
    protobuf_message(&model, MODEL_OPSET, &opset);
    put_record(&model, f);
    rc = model.failed ? err_set(e, ERR_NOMEM, "no memory for the model's %zu parameters", m->n_params)
                      : file_write(path, model.bytes, model.len, 0644, e);
    protobuf_clear(&model);
    return rc;
}
