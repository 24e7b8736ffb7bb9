/* Files that another program must read are checked by it: tests/reference/onnx_eval.py compares them with
 * python3-onnx and with outputs of the engine. */
#include "submit/export/export.h"

#include <glob.h>
#include <sys/wait.h>

#include "nn/net.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "shared/records/weights.h"
#include "submit/export/protobuf.h"
#include "tests/unit/unit.h"

enum { N_SAMPLES = 5, DOCUMENT_MAX = 1 << 18, PARAMS_MAX = 1 << 22 };

/* Every kind of layer, in difficult contexts: images before dense, sequences that end early. */
static const struct {
    const char *name, *input, *layers;
} cases[] = {
    {"dense", "[7]", "{'kind': 'dense', 'units': 3}"},
    {"dense_on_image", "[3, 4, 2]", "{'kind': 'dense', 'units': 5}"},
    {"activations", "[6]",
     "{'kind': 'dense', 'units': 6}, {'kind': 'relu'}, {'kind': 'dense', 'units': 6},"
     "{'kind': 'leaky_relu', 'slope': 0.2}, {'kind': 'dense', 'units': 6}, {'kind': 'tanh'},"
     "{'kind': 'linear'}, {'kind': 'dense', 'units': 6}, {'kind': 'sigmoid'}, {'kind': 'dense', 'units': 6},"
     "{'kind': 'gelu'}, {'kind': 'dense', 'units': 6}, {'kind': 'hard_tanh', 'slope': 0.2}"},
    {"softmax", "[6]", "{'kind': 'dense', 'units': 4}, {'kind': 'softmax'}"},
    {"reshaped", "[12]",
     "{'kind': 'dense', 'units': 24}, {'kind': 'reshape', 'shape': [2, 3, 4]}, {'kind': 'softmax'},"
     "{'kind': 'flatten'}, {'kind': 'dense', 'units': 3}"},
    {"conv_valid", "[9, 8, 3]",
     "{'kind': 'conv2d', 'filters': 4, 'kernel': [3, 2], 'stride': [2, 1]}, {'kind': 'relu'},"
     "{'kind': 'flatten'}, {'kind': 'dense', 'units': 3}"},
    {"conv_same", "[7, 6, 2]",
     "{'kind': 'conv2d', 'filters': 3, 'kernel': [4, 3], 'stride': [2, 3], 'padding': 'same'}"},
    {"conv_softmax", "[4, 4, 1]",
     "{'kind': 'conv2d', 'filters': 3, 'kernel': 3, 'padding': 'same'}, {'kind': 'softmax'}"},
    {"pools", "[9, 9, 2]",
     "{'kind': 'conv2d', 'filters': 3, 'kernel': 2}, {'kind': 'max_pool', 'size': 2},"
     "{'kind': 'avg_pool', 'size': 3, 'stride': 1, 'padding': 'same'},"
     "{'kind': 'max_pool', 'size': 3, 'stride': 2, 'padding': 'same'},"
     "{'kind': 'avg_pool', 'size': [1, 2], 'stride': 1}, {'kind': 'dense', 'units': 4}"},
    {"batch_norm", "[5, 4, 2]",
     "{'kind': 'conv2d', 'filters': 3, 'kernel': 2}, {'kind': 'batch_norm', 'epsilon': 0.01},"
     "{'kind': 'dropout'}, {'kind': 'dense', 'units': 6}, {'kind': 'batch_norm'}"},
    {"norms_of_sequences", "[4, 3]",
     "{'kind': 'batch_norm'}, {'kind': 'layer_norm', 'epsilon': 0.001}, {'kind': 'mean_over_time'}"},
    {"layer_norm_of_images", "[4, 3, 2]",
     "{'kind': 'conv2d', 'filters': 5, 'kernel': 2}, {'kind': 'layer_norm'}, {'kind': 'gelu'},"
     "{'kind': 'conv2d', 'filters': 2, 'kernel': 2}"},
    {"lstm", "[6, 3]", "{'kind': 'lstm', 'units': 4}"},
    {"lstm_sequences", "[6, 3]",
     "{'kind': 'lstm', 'units': 4, 'sequences': true}, {'kind': 'dense', 'units': 3}"},
    {"gru", "[6, 3]", "{'kind': 'gru', 'units': 4}"},
    {"gru_sequences", "[5, 2]",
     "{'kind': 'gru', 'units': 3, 'sequences': true}, {'kind': 'mean_over_time'},"
     "{'kind': 'dense', 'units': 3}"},
    {"text_lstm", "[7]",
     "{'kind': 'embedding', 'vocab': 11, 'units': 4}, {'kind': 'lstm', 'units': 5},"
     "{'kind': 'dense', 'units': 2}"},
    {"text_lstm_twice", "[7]",
     "{'kind': 'embedding', 'vocab': 11, 'units': 4}, {'kind': 'lstm', 'units': 5, 'sequences': true},"
     "{'kind': 'gru', 'units': 3}, {'kind': 'dense', 'units': 2}"},
    {"text_gru_mean", "[6]",
     "{'kind': 'embedding', 'vocab': 9, 'units': 3}, {'kind': 'gru', 'units': 4, 'sequences': true},"
     "{'kind': 'mean_over_time'}, {'kind': 'dense', 'units': 2}"},
    {"text_folded", "[8]",
     "{'kind': 'embedding', 'vocab': 11, 'units': 4}, {'kind': 'reshape', 'shape': [4, 8]},"
     "{'kind': 'gru', 'units': 3, 'sequences': true}, {'kind': 'mean_over_time'}"},
    {"residual_of_image", "[4, 4, 2]",
     "{'kind': 'conv2d', 'filters': 3, 'kernel': 2}, {'kind': 'residual', 'layers': ["
     "{'kind': 'conv2d', 'filters': 3, 'kernel': 3, 'padding': 'same'}, {'kind': 'relu'}]},"
     "{'kind': 'rms_norm'}, {'kind': 'dense', 'units': 3, 'bias': false}"},
    {"attention", "[5, 4]",
     "{'kind': 'dense', 'units': 6, 'positionwise': true}, {'kind': 'attention', 'heads': 3},"
     "{'kind': 'residual', 'layers': [{'kind': 'layer_norm', 'bias': false},"
     "{'kind': 'attention', 'heads': 2, 'bias': false}]}, {'kind': 'dense', 'units': 3}"},
    {"rotary_attention_and_swiglu", "[5, 4]",
     "{'kind': 'attention', 'heads': 2, 'rope': 100}, {'kind': 'dense', 'units': 6, 'positionwise': true},"
     "{'kind': 'swiglu'}, {'kind': 'dense', 'units': 3}"},
    {"tied_head", "[5]",
     "{'kind': 'embedding', 'vocab': 11, 'units': 4}, {'kind': 'position_embedding', 'positions': 7},"
     "{'kind': 'residual', 'layers': [{'kind': 'dense', 'units': 4, 'positionwise': true, 'bias': false}]},"
     "{'kind': 'head', 'tied': 0}"},
    {"text_mean", "[8]",
     "{'kind': 'embedding', 'vocab': 11, 'units': 4}, {'kind': 'mean_over_time'},"
     "{'kind': 'dense', 'units': 3}"},
};

static json_t *document(size_t i)
{
    char text[2048];
    json_t *doc;
    struct err e;

    snprintf(text, sizeof text, "{'version': 1, 'name': '%s', 'input': %s, 'layers': [%s], 'loss': 'mse'}",
             cases[i].name, cases[i].input, cases[i].layers);
    for (char *p = text; (p = strchr(p, '\'')) != NULL;)
        *p = '"';
    assert_ok(json_parse(&doc, text, strlen(text), cases[i].name, &e));
    return doc;
}

/* Weights of a usual size, where rounding errors stay small; vectors, which are initialized to zeros and
 * ones, get generic values. Running variances are positive. */
static void fill_weights(struct net *net, struct rng *r)
{
    const struct tensor_view *t;
    size_t n = net_tensors(net, &t);

    net_init(net, 5);
    for (size_t i = 0; i < n; i++) {
        float *w = net_params(net) + ((const float *)t[i].data - net_params(net));

        for (size_t k = 0; t[i].n_dims == 1 && k < tensor_count(&t[i]); k++)
            w[k] = strstr(t[i].name, "running_var") ? 0.5f + rng_uniform(r) : 0.4f * rng_normal(r);
    }
}

/* Texts of every length, one with a 0 inside and one that is all zeros. */
static void fill_inputs(float *x, const struct model_spec *m, struct rng *r)
{
    int vocab = model_spec_vocab(m);

    for (int i = 0; i < N_SAMPLES; i++)
        for (int k = 0; k < m->n_in; k++) {
            bool is_inside = k < (i + 1) * m->n_in / N_SAMPLES && i > 0;

            x[i * m->n_in + k] = vocab == 0                ? rng_normal(r)
                                 : is_inside && k % 3 != 1 ? (float)(1 + rng_below(r, (uint32_t)vocab - 1))
                                                           : 0;
        }
}

static void view(struct tensor_view *v, const char *name, enum tensor_type type, const struct shape *s,
                 const void *data)
{
    *v = (struct tensor_view){.type = type, .n_dims = 1 + s->n_dims, .shape = {N_SAMPLES}, .data = data};
    snprintf(v->name, sizeof v->name, "%s", name);
    for (int i = 0; i < s->n_dims; i++)
        v->shape[1 + i] = (size_t)s->dim[i];
}

static void write_io(const char *base, const struct model_spec *m, struct net *net, struct rng *r)
{
    size_t n = (size_t)(N_SAMPLES * m->n_in);
    float *x = malloc(n * sizeof *x);
    int32_t *tokens = malloc(n * sizeof *tokens);
    bool reads_tokens = model_spec_vocab(m) > 0;
    struct tensor_view io[2];
    char path[300];
    struct err e;

    fill_inputs(x, m, r);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)x[i];
    view(&io[0], "input", reads_tokens ? TENSOR_I32 : TENSOR_F32, &m->in,
         reads_tokens ? (void *)tokens : (void *)x);
    view(&io[1], "output", TENSOR_F32, &m->layers[m->n_layers - 1].out, net_forward(net, x, N_SAMPLES));
    snprintf(path, sizeof path, "%s.io.safetensors", base);
    assert_ok(tensor_file_write(path, io, 2, NULL, &e));
    free(x);
    free(tokens);
}

static void write_case(const char *dir, const json_t *doc)
{
    struct model_spec *m;
    const struct tensor_view *tensors;
    struct tensor_file f;
    size_t n_tensors;
    struct net *net;
    struct rng r;
    char base[256], path[300];
    struct err e;

    assert_ok(model_spec_new(&m, doc, &e));
    assert_ok(net_new(&net, m, N_SAMPLES, &e));
    rng_init(&r, 5, 1, (uint64_t)m->n_params);
    fill_weights(net, &r);
    snprintf(base, sizeof base, "%s/%s", dir, m->name);
    snprintf(path, sizeof path, "%s.safetensors", base);
    n_tensors = net_tensors(net, &tensors);
    assert_ok(tensor_file_write(path, tensors, n_tensors, NULL, &e));
    write_io(base, m, net, &r);
    assert_ok(tensor_file_open(&f, path, &e));
    assert_ok(weights_check(&f, "", m, &e));
    snprintf(path, sizeof path, "%s.onnx", base);
    assert_ok(onnx_write(path, m, &f, "", &e));
    tensor_file_close(&f);
    net_free(net);
    model_spec_free(m);
}

/* Runs the reference; its output goes to ours. Skips where its libraries are missing. */
static void hold_against_reference(const char *dir)
{
    char command[400];
    int status;

    snprintf(command, sizeof command,
             "p=/usr/bin/python3; knows='import numpy, onnx; assert onnx.defs.onnx_opset_version() >= 13'; "
             "$p -c \"$knows\" 2>/dev/null || exit 77; $p tests/reference/onnx_eval.py %s 1>&2",
             dir);
    status = system(command);
    unit_remove(dir);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("python3-onnx is not installed, or does not know opset 13\n");
        skip();
    }
    assert_int_equal(status, 0);
}

TEST(a_small_net_of_every_kind_matches_onnx)
{
    const char *dir = unit_folder();

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *doc = document(i);

        write_case(dir, doc);
        json_decref(doc);
    }
    hold_against_reference(dir);
}

/* Larger ones take minutes, and have the same layers. */
TEST(every_bundled_model_of_up_to_4_million_parameters_matches_onnx)
{
    const char *dir = unit_folder();
    struct model_spec m;
    glob_t models;

    assert_int_equal(glob("nn/models/*.json", 0, NULL, &models), 0);
    for (size_t i = 0; i < models.gl_pathc; i++) {
        json_t *doc;
        struct err e;

        assert_ok(json_read(&doc, models.gl_pathv[i], DOCUMENT_MAX, &e));
        assert_ok(model_spec_parse(&m, doc, &e));
        if (m.n_params <= PARAMS_MAX)
            write_case(dir, doc);
        model_spec_clear(&m);
        json_decref(doc);
    }
    globfree(&models);
    hold_against_reference(dir);
}

TEST(the_encoder_writes_the_bytes_of_the_format)
{
    static const unsigned char expected[] = {
        0x08, 0x96, 0x01,                                                 /* the format's own example */
        0x12, 0x07, 't',  'e',  's',  't',  'i',  'n',  'g',              /* another */
        0x1a, 0x02, 0x08, 0x7f,                                           /* a message of one field */
        0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, /* -1 */
        0xa5, 0x01, 0x00, 0x00, 0x80, 0x3f,                               /* field 20: 1.0f */
        0x28, 0x80, 0x01,                                                 /* 128 */
        0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0xbf,             /* field 1: -1.5 */
    };
    struct protobuf p = {0}, inner = {0}, more = {0};

    protobuf_int(&p, 1, 150);
    protobuf_text(&p, 2, "testing");
    protobuf_int(&inner, 1, 127);
    protobuf_message(&p, 3, &inner);
    protobuf_int(&p, 4, -1);
    protobuf_float(&p, 20, 1);
    protobuf_int(&more, 5, 128);
    protobuf_append(&p, &more);
    protobuf_double(&p, 1, -1.5);
    assert_false(p.failed);
    assert_int_equal(p.len, sizeof expected);
    assert_memory_equal(p.bytes, expected, sizeof expected);
    assert_null(inner.bytes);
    protobuf_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_net_of_every_kind_matches_onnx),
        cmocka_unit_test(every_bundled_model_of_up_to_4_million_parameters_matches_onnx),
        cmocka_unit_test(the_encoder_writes_the_bytes_of_the_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
