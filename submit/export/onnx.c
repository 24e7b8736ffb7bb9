#include "submit/export/onnx.h"

#include <string.h>

#include "shared/base/file.h"
#include "shared/records/preprocessing_file.h"
#include "submit/export/onnx_layers.h"

enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEM = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
enum { IR_VERSION = 7, OPSET = 13 };

static const size_t bytes_max = 2000u << 20; /* the maximum of a protocol buffer is 2 GiB */

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
            return model_spec_vocab(m) > 0;
    return false;
}

static void build(struct onnx_graph *g)
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

/* An entry of metadata_props: the record without which the input cannot be made. */
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

    if (m->n_params * sizeof(float) > bytes_max)
        return err_set(e, ERR_CONFIG, "%zu parameters: an ONNX file has at most 2 GiB", m->n_params);
    build(&g);
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
