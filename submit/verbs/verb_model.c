/* model list: prints the models that come with psgd. model inspect: prints the contents of a model file, or
 * the layers of a model's document. model convert: writes the weights in the formats of other programs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/weights.h"
#include "submit/codecs/codec_find.h"
#include "submit/data/layout.h"
#include "submit/data/preprocessing.h"
#include "submit/export/export.h"
#include "submit/stages/model_document.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

/* Parses a model's document. `what` names it in messages. ERR_CONFIG. */
static int parse_model(struct model_spec **out, const char *text, size_t len, const char *what, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, len, what, e) < 0)
        return e->code;
    rc = model_spec_new(out, doc, e);
    json_decref(doc);
    return rc < 0 ? err_at(e, "%s", what) : 0;
}

int verb_model_of_weights(struct model_spec **out, const struct tensor_file *f, struct err *e)
{
    const char *arch = tensor_file_meta(f, "arch");

    if (!arch)
        return err_set(e, ERR_CONFIG, "its metadata has no \"arch\", the document of a model");
    if (parse_model(out, arch, strlen(arch), "arch", e) < 0)
        return e->code;
    if (weights_check(f, weights_prefix(f), *out, e) == 0)
        return 0;
    model_spec_free(*out);
    *out = NULL;
    return e->code;
}

static size_t count_params(const struct layer_spec *l)
{
    size_t n = 0;

    for (int k = 0; k < l->n_tensors; k++)
        n += tensor_spec_count(&l->tensors[k]);
    return n;
}

static void print_layers(const struct model_spec *m)
{
    char in[48], out[48];

    printf("Model %s: input %s, loss %s\n\n", m->name, shape_text(in, &m->in), loss_kind_name(m->loss));
    printf("%5s  %-18s  %-18s  %-18s  %12s\n", "layer", "kind", "in", "out", "parameters");
    for (int i = 0; i < m->n_layers; i++) {
        const struct layer_spec *l = &m->layers[i];
        char place[24];

        printf("%5s  %-18s  %-18s  %-18s  %12zu\n", layer_spec_place(place, l), layer_kind_name(l->kind),
               shape_text(in, &l->in), shape_text(out, &l->out), count_params(l));
    }
}

static void print_model_tensors(const struct model_spec *m)
{
    printf("Model %s, of a training program\n\n", m->name);
    printf("%-40s  %-18s  %12s\n", "tensor", "shape", "values");
    for (int i = 0; i < m->n_tensors; i++) {
        const struct model_tensor *t = &m->tensors[i];
        struct tensor_view v;
        char shape[TENSOR_SHAPE_TEXT];

        weights_view(&v, t, NULL);
        printf("%-40s  %-18s  %12zu%s\n", t->name, tensor_shape_text(shape, &v), t->n,
               t->is_statistic ? "  statistic" : "");
    }
}

void verb_model_print(const struct model_spec *m)
{
    (m->has_trainer ? print_model_tensors : print_layers)(m);
    printf("\n%zu parameter%s", m->n_params, m->n_params == 1 ? "" : "s");
    if (m->n_trained != m->n_params)
        printf(", %zu of them trained, the rest running statistics", m->n_trained);
    printf("\n");
}

/* Tensors first, first + 1, ..., first + n - 1. */
static json_t *model_tensors_json(const struct model_spec *m, int first, int n)
{
    json_t *tensors = json_array();

    for (const struct model_tensor *t = m->tensors + first; t < m->tensors + first + n; t++)
        json_array_append_new(tensors, json_pack("{s:s, s:o, s:b}", "name", t->name, "shape",
                                                 json_sizes(t->shape, (size_t)t->n_dims), "is_state",
                                                 (int)t->is_statistic));
    return tensors;
}

static json_t *layer_json(const struct model_spec *m, int i)
{
    const struct layer_spec *l = &m->layers[i];
    char in[48], out[48];

    return json_pack("{s:i, s:o, s:s, s:s, s:s, s:I, s:o}", "layer", l->place, "part",
                     l->part < 0 ? json_null() : json_integer(l->part), "kind", layer_kind_name(l->kind),
                     "in", shape_text(in, &l->in), "out", shape_text(out, &l->out), "n_params",
                     (json_int_t)count_params(l), "tensors",
                     model_tensors_json(m, l->first_tensor, l->n_tensors));
}

json_t *verb_model_layers(const struct model_spec *m)
{
    json_t *layers = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(layers, layer_json(m, i));
    return layers;
}

/* A name or a .json is a model's document, anything else a file of tensors. */
static bool is_document(const char *text)
{
    return file_has_ending(text, ".json") || (!strchr(text, '/') && !file_has_ending(text, ".safetensors"));
}

/* Statistics of the finite values, and the number of the others. */
static json_t *tensor_json(const struct tensor_view *t)
{
    size_t n = tensor_count(t), n_finite = 0;
    double sum = 0, squares = 0, min = INFINITY, max = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        double v = tensor_value(t, i);

        if (!isfinite(v))
            continue;
        n_finite++;
        sum += v;
        squares += v * v;
        min = fmin(min, v);
        max = fmax(max, v);
    }
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:I}", "name", t->name, "type",
                     tensor_type_name(t->type), "shape", json_sizes(t->shape, (size_t)t->n_dims), "values",
                     (json_int_t)n, "bytes", (json_int_t)tensor_bytes(t), "mean",
                     json_real_or_null(sum / (double)n_finite), "min", json_real_or_null(min), "max",
                     json_real_or_null(max), "rms", json_real_or_null(sqrt(squares / (double)n_finite)),
                     "n_not_finite", (json_int_t)(n - n_finite));
}

static json_t *tensors_json(const struct tensor_file *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->n; i++)
        json_array_append_new(list, tensor_json(&f->tensors[i]));
    return list;
}

static json_t *model_json(const struct model_spec *m)
{
    char in[48];

    if (m->has_trainer)
        return json_pack("{s:s, s:b, s:I, s:I, s:o}", "name", m->name, "trainer", 1, "n_params",
                         (json_int_t)m->n_params, "n_trained", (json_int_t)m->n_trained, "tensors",
                         model_tensors_json(m, 0, m->n_tensors));
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "name", m->name, "input", shape_text(in, &m->in),
                     "loss", loss_kind_name(m->loss), "n_params", (json_int_t)m->n_params, "n_trained",
                     (json_int_t)m->n_trained, "layers", verb_model_layers(m));
}

/* Reads a model's document, by its name or path. */
static int read_document(struct model_spec **m, const char *name, struct err *e)
{
    char path[PATH_MAX];
    char *text;
    size_t len;
    int rc;

    if (model_document_read(&text, &len, path, name, e) < 0)
        return e->code;
    rc = parse_model(m, text, len, path, e);
    free(text);
    return rc;
}

static int list_one(const struct options *o, const char *name, json_t *list, struct text_table *t,
                    struct err *e)
{
    struct model_spec *m;
    const char *input, *loss;
    char in[48];

    if (read_document(&m, name, e) < 0)
        return e->code;
    input = m->has_trainer ? NULL : shape_text(in, &m->in);
    loss = m->has_trainer ? NULL : loss_kind_name(m->loss);
    if (o->json)
        json_array_append_new(list,
                              json_pack("{s:s, s:s?, s:s?, s:i, s:I}", "name", name, "input", input, "loss",
                                        loss, "n_layers", m->n_layers, "n_params", (json_int_t)m->n_params));
    text_table_cell(t, "%s", name);
    text_table_cell(t, "%s", input ? input : "-");
    text_table_cell(t, "%s", loss ? loss : "-");
    text_table_cell(t, "%d", m->n_layers);
    text_table_cell(t, "%zu", m->n_params);
    model_spec_free(m);
    return 0;
}

static int list_models(const struct options *o, const char *operand, struct err *e)
{
    static char names[FIND_NAMES_MAX][FIND_NAME_LEN];
    char exe_dir[PATH_MAX];
    json_t *models = json_array();
    struct text_table t = {0};
    int n, rc = 0;

    (void)operand;
    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0) {
        json_decref(models);
        return e->code;
    }
    text_table_column(&t, false, "model");
    text_table_column(&t, false, "input");
    text_table_column(&t, false, "loss");
    text_table_column(&t, true, "layers");
    text_table_column(&t, true, "parameters");
    n = find_models(names, exe_dir);
    for (int i = 0; i < n && rc == 0; i++)
        rc = list_one(o, names[i], models, &t, e);
    for (int i = 0; i < n && rc == 0 && o->quiet && !o->json; i++)
        puts(names[i]);
    if (rc == 0 && o->json)
        stdout_json(true, json_pack("{s:O}", "models", models), NULL, NULL);
    else if (rc == 0 && !o->quiet)
        rc = text_table_print(&t, e);
    text_table_clear(&t);
    json_decref(models);
    return rc;
}

static int inspect_document(const struct options *o, const char *name, struct err *e)
{
    struct model_spec *m;

    if (read_document(&m, name, e) < 0)
        return e->code;
    if (o->json)
        stdout_json(true, model_json(m), NULL, NULL);
    else
        verb_model_print(m);
    model_spec_free(m);
    return 0;
}

static void print_figure(const json_t *t, const char *key)
{
    const json_t *v = json_object_get(t, key);

    if (json_is_null(v))
        printf("  %11s", "-");
    else
        printf("  %11.4g", json_number_value(v));
}

static void print_tensors(const struct tensor_file *f, const json_t *o)
{
    const json_t *t;
    size_t i;

    printf("%-32s  %-4s  %-18s  %11s  %11s  %11s  %11s  %11s  %10s\n", "tensor", "type", "shape", "bytes",
           "mean", "min", "max", "rms", "not finite");
    json_array_foreach(json_object_get(o, "tensors"), i, t)
    {
        char shape[TENSOR_SHAPE_TEXT];

        printf("%-32s  %-4s  %-18s  %11lld", f->tensors[i].name, tensor_type_name(f->tensors[i].type),
               tensor_shape_text(shape, &f->tensors[i]),
               (long long)json_integer_value(json_object_get(t, "bytes")));
        print_figure(t, "mean");
        print_figure(t, "min");
        print_figure(t, "max");
        print_figure(t, "rms");
        printf("  %10lld\n", (long long)json_integer_value(json_object_get(t, "n_not_finite")));
    }
}

/* Metadata is untrusted and must not move the cursor. */
static void print_meta(const char *key, const char *value)
{
    char *line;

    if (asprintf(&line, "  %-16s %s", key, value) < 0)
        return;
    utf8_clean(line, strlen(line), false);
    puts(line);
    free(line);
}

static void print_names(const char *key, const struct names *s, const char *rest)
{
    char list[480], line[512];

    if (!s->n)
        return;
    snprintf(line, sizeof line, "%s%s", names_text(list, sizeof list, s), rest);
    print_meta(key, line);
}

/* Prints in a few lines what new data must be like: the whole record may have thousands of words. */
static void print_record(const struct tensor_file *f)
{
    struct preprocessing p;
    char text[512], layout[LAYOUT_TEXT];
    struct err why;
    int rc = preprocessing_of_file(&p, f, &why);

    if (rc <= 0) {
        print_meta(PREPROCESSING_META, rc < 0 ? why.text : "none: data to predict cannot be checked");
        return;
    }
    snprintf(text, sizeof text, "samples of %s of data set %s; transform %s",
             layout_text(layout, &p.shape, p.type == TENSOR_I32), p.dataset, p.transform);
    print_meta(PREPROCESSING_META, text);
    snprintf(text, sizeof text, "; column %d has the labels or targets", p.learned_at);
    print_names("  columns", &p.columns, text);
    print_names("  classes", &p.classes, "");
    print_names("  words", &p.words, "");
    preprocessing_clear(&p);
}

static void print_file(const char *path, const struct tensor_file *f, const json_t *o)
{
    const json_t *why = json_object_get(o, "not_of_arch");
    const json_t *v;
    const char *key;

    printf("%s: %zu tensors\n", path, f->n);
    json_object_foreach((json_t *)(uintptr_t)json_object_get(o, "metadata"), key, v)
    {
        if (strcmp(key, "arch") != 0 && strcmp(key, "settings") != 0 && strcmp(key, PREPROCESSING_META) != 0)
            print_meta(key, json_string_value(v));
    }
    print_record(f);
    printf("\n");
    print_tensors(f, o);
    printf("\n%lld values", (long long)json_integer_value(json_object_get(o, "n_values")));
    if (json_is_null(why))
        printf("; exactly the parameters of model \"%s\", its arch\n",
               json_string_value(json_object_get(o, "model")));
    else
        text_print("; not the parameters of a model: %s\n", json_string_value(why));
}

static json_t *file_json(const struct tensor_file *f)
{
    struct model_spec *m = NULL;
    json_t *o;
    size_t n = 0;
    struct err why;
    bool is_of_arch = verb_model_of_weights(&m, f, &why) == 0;

    for (size_t i = 0; i < f->n; i++)
        n += tensor_count(&f->tensors[i]);
    o = json_pack("{s:O?, s:o, s:I, s:b, s:s?, s:s?}", "metadata",
                  json_object_get((const json_t *)f->header, "__metadata__"), "tensors", tensors_json(f),
                  "n_values", (json_int_t)n, "is_of_arch", (int)is_of_arch, "not_of_arch",
                  is_of_arch ? NULL : why.text, "model", is_of_arch ? m->name : NULL);
    model_spec_free(m);
    return o;
}

static int inspect_file(const struct options *o, const char *path, struct err *e)
{
    struct tensor_file f;
    json_t *doc;

    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    doc = file_json(&f);
    if (doc && o->json) {
        stdout_json(true, doc, NULL, NULL);
    } else if (doc) {
        print_file(path, &f, doc);
        json_decref(doc);
    }
    tensor_file_close(&f);
    return doc ? 0 : err_set(e, ERR_NOMEM, "no memory to describe %s", path);
}

static int inspect_model(const struct options *o, const char *text, struct err *e)
{
    return is_document(text) ? inspect_document(o, text, e) : inspect_file(o, text, e);
}

static int convert_file(const struct options *o, const char *path, const struct tensor_file *f, struct err *e)
{
    struct model_spec *m;
    int rc;

    if (strcmp(o->format, "npz") == 0)
        return npz_write(o->output, f->tensors, f->n, e);
    if (verb_model_of_weights(&m, f, e) < 0)
        return err_at(e, "%s", path);
    rc = onnx_write(o->output, m, f, weights_prefix(f), e);
    model_spec_free(m);
    return rc;
}

static int convert_model(const struct options *o, const char *path, struct err *e)
{
    struct tensor_file f;
    int rc;

    if (!o->format[0])
        return err_set(e, ERR_USAGE, "model convert needs --to npz or --to onnx");
    if (!o->output[0])
        return err_set(e, ERR_USAGE, "model convert needs -o FILE");
    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = convert_file(o, path, &f, e);
    tensor_file_close(&f);
    if (rc < 0)
        return rc;
    if (o->json)
        stdout_json(true,
                    json_pack("{s:o, s:s}", "file", json_text(o->output, SIZE_MAX), "format", o->format),
                    NULL, NULL);
    else
        printf("%s\n", options_output(o));
    return 0;
}

int verb_model(const struct options *o, struct err *e)
{
    static const struct {
        const char *text;
        int n_operands; /* with the name of the action */
        int (*run)(const struct options *o, const char *operand, struct err *e);
    } actions[] = {{"list", 1, list_models}, {"inspect", 2, inspect_model}, {"convert", 2, convert_model}};

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (o->args.n_operands == actions[i].n_operands && strcmp(o->args.operands[0], actions[i].text) == 0)
            return actions[i].run(o, o->args.operands[1], e);
    return err_set(e, ERR_USAGE, "model takes \"list\", \"inspect FILE|NAME\" or \"convert FILE\"");
}
