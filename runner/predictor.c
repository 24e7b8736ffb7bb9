/* predictor -- computes the outputs and metrics of a trained model on samples, as a node's evaluation does,
 * or goes on with a text. job_submit predict and job_submit generate start it:
 *
 *     predictor FOLDER BATCH THREADS auto|openblas
 *     predictor FOLDER text THREADS auto|openblas      runner/continuation.h
 *
 * FOLDER has model.json, weights.safetensors (a model or a checkpoint) and samples.safetensors (a test set
 * with its scale, loader.h; its metadata "predicts" is "classes" or "values"). The predictor writes two files
 * there: summary.json (shared/base/helper.h), without metrics if the samples have neither labels nor
 * targets; and predictions.safetensors, for classes with "class" I32 (n) and, unless the model has no
 * probabilities (mse, tanh_squared), "probability" F32 (n) of that class, otherwise with "values" F32 (n,
 * n_out), loss_prediction() of each sample. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/blas.h"
#include "nn/metrics.h"
#include "nn/net.h"
#include "runner/continuation.h"
#include "runner/loader.h"
#include "shared/base/file.h"
#include "shared/base/helper.h"
#include "shared/base/json.h"
#include "shared/job/settings.h"
#include "shared/records/weights.h"

struct predictor {
    const char *folder;
    bool continues_text;
    int batch_size;
    struct model_spec spec;
    struct net *net;
    struct loader loader;
    struct loader_batch batch;
    struct metrics *metrics; /* NULL: neither labels nor targets */
    int32_t *classes;        /* (n); NULL: values */
    float *probability;      /* (n); NULL: there is none */
    float *values;           /* (n, n_out); NULL: classes */
    float *p;                /* (n_out) of one sample */
};

static int load_model(struct predictor *w, struct err *e)
{
    if (model_spec_read(&w->spec, NULL, w->folder, e) < 0)
        return e->code;
    if (w->spec.has_trainer)
        return err_set(e, ERR_CONFIG, "model \"%s\" is computed by a training program, and not by psgd",
                       w->spec.name);
    w->batch_size = w->continues_text ? 1 : net_test_batch(&w->spec, w->batch_size);
    return net_new(&w->net, &w->spec, w->batch_size, e);
}

static int load_weights(struct predictor *w, struct err *e)
{
    char path[PATH_MAX];
    struct tensor_file f;
    const char *prefix;
    int rc;

    if (file_join(path, sizeof path, w->folder, "weights.safetensors", e) < 0 ||
        tensor_file_open(&f, path, e) < 0)
        return e->code;
    prefix = weights_prefix(&f);
    rc = weights_check(&f, prefix, &w->spec, e);
    if (rc == 0)
        net_load(w->net, &f, prefix);
    tensor_file_close(&f);
    return rc;
}

/* Are the outputs scores of classes, as in a model with labels? */
static bool has_probability(const struct predictor *w)
{
    return w->spec.loss != LOSS_MSE && w->spec.loss != LOSS_TANH_SQUARED;
}

static int load_samples(struct predictor *w, struct err *e)
{
    size_t n, k = (size_t)w->spec.n_out;
    char path[PATH_MAX];
    const char *predicts;
    bool has_classes, has_truth;

    if (file_join(path, sizeof path, w->folder, "samples.safetensors", e) < 0 ||
        loader_open_test(&w->loader, path, &w->spec, e) < 0)
        return e->code;
    n = w->loader.n_test;
    predicts = tensor_file_meta(&w->loader.test.file, "predicts");
    has_classes = predicts && strcmp(predicts, "classes") == 0;
    has_truth = w->loader.test.labels || w->loader.test.targets;
    if (has_truth && has_classes != (w->loader.test.labels != NULL))
        return err_set(e, ERR_CONFIG,
                       "%s: the samples have labels or targets that do not fit the prediction of %s", path,
                       has_classes ? "classes" : "values");
    w->p = malloc(k * sizeof *w->p);
    if (!has_classes)
        w->values = calloc(n, k * sizeof *w->values);
    else if ((w->classes = calloc(n, sizeof *w->classes)) && has_probability(w))
        w->probability = calloc(n, sizeof *w->probability);
    if (!w->p ||
        !(has_classes ? w->classes && (w->probability || !has_probability(w)) : (void *)w->values != NULL))
        return err_set(e, ERR_NOMEM, "no memory for the predictions of %zu samples", n);
    if (loader_batch_init(&w->batch, &w->loader, (size_t)w->batch_size, e) < 0)
        return e->code;
    return has_truth ? metrics_new(&w->metrics, &w->spec, has_classes, n, e) : 0;
}

/* Stores the prediction of sample i, whose outputs are z (n_out). */
static void take_outputs(struct predictor *w, size_t i, const float *z)
{
    int k = w->spec.n_out;
    int c;

    loss_prediction(w->spec.loss, w->p, z, k);
    if (w->values)
        memcpy(w->values + i * (size_t)k, w->p, (size_t)k * sizeof *w->p);
    if (!w->classes)
        return;
    c = w->classes[i] = loss_class(w->spec.loss, z, k);
    if (w->probability)
        w->probability[i] = k > 1 ? w->p[c] : c == 1 ? w->p[0] : 1 - w->p[0];
}

static void predict_samples(struct predictor *w)
{
    size_t n = w->loader.n_test, batch = (size_t)w->batch_size;
    struct truth truth = loader_truth(&w->batch);

    if (w->metrics)
        metrics_begin(w->metrics);
    for (size_t i = 0; i < n; i += batch) {
        size_t m = n - i < batch ? n - i : batch;
        const float *z;

        loader_test(&w->loader, i, m, &w->batch);
        z = net_forward(w->net, w->batch.x, (int)m);
        if (w->metrics)
            metrics_add(w->metrics, z, &truth, (int)m);
        for (size_t j = 0; j < m; j++)
            take_outputs(w, i + j, z + j * (size_t)w->spec.n_out);
    }
}

static int write_predictions(const struct predictor *w, struct err *e)
{
    const size_t n = w->loader.n_test;
    struct tensor_view t[2];
    char path[PATH_MAX];
    size_t n_tensors = 0;

    if (w->values)
        t[n_tensors++] = (struct tensor_view){
            .name = "values", .n_dims = 2, .shape = {n, (size_t)w->spec.n_out}, .data = w->values};
    if (w->classes)
        t[n_tensors++] = (struct tensor_view){
            .name = "class", .type = TENSOR_I32, .n_dims = 1, .shape = {n}, .data = w->classes};
    if (w->probability)
        t[n_tensors++] = (struct tensor_view){
            .name = "probability", .n_dims = 1, .shape = {n}, .data = w->probability};
    if (file_join(path, sizeof path, w->folder, "predictions.safetensors", e) < 0)
        return e->code;
    return tensor_file_write_unsynced(path, t, n_tensors, NULL, e);
}

static json_t *confusion_json(const struct metrics *m)
{
    json_t *rows = json_array();
    const uint64_t *counts;
    int k;

    counts = metrics_confusion(m, &k);
    for (int label = 0; counts && label < k; label++) {
        json_t *row = json_array();

        for (int c = 0; c < k; c++)
            json_array_append_new(row, json_integer((json_int_t)counts[label * k + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* The metrics of an evaluation, as in eval.csv, metrics.csv and confusion.csv of a job. */
static json_t *summary(const struct predictor *w)
{
    json_t *metrics = json_object();
    double value;

    if (w->metrics)
        json_object_set_new(metrics, "loss", json_real_or_null(metrics_loss(w->metrics)));
    for (int k = 0; w->metrics && k < N_METRIC_KINDS; k++) {
        if (k == METRIC_CONFUSION && metrics_asked(w->metrics, METRIC_CONFUSION))
            json_object_set_new(metrics, "confusion", confusion_json(w->metrics));
        else if (metrics_value(w->metrics, (enum metric_kind)k, &value))
            json_object_set_new(metrics, metric_kind_name((enum metric_kind)k), json_real_or_null(value));
    }
    return json_pack("{s:b, s:I, s:o}", "ok", 1, "samples", (json_int_t)w->loader.n_test, "metrics", metrics);
}

static int run_predictor(struct predictor *w, json_t **out, struct err *e)
{
    if (load_model(w, e) < 0 || load_weights(w, e) < 0)
        return e->code;
    if (w->continues_text)
        return continuation_run(out, w->net, &w->spec, w->folder, e);
    if (load_samples(w, e) < 0)
        return e->code;
    predict_samples(w);
    if (write_predictions(w, e) < 0)
        return e->code;
    *out = summary(w);
    return 0;
}

static void clear(struct predictor *w)
{
    metrics_free(w->metrics);
    loader_batch_clear(&w->batch);
    loader_close(&w->loader);
    net_free(w->net);
    free(w->classes);
    free(w->probability);
    free(w->values);
    free(w->p);
    model_spec_clear(&w->spec);
}

int main(int argc, char **argv)
{
    static struct predictor w;
    json_t *result = NULL;
    struct err e = {0};
    int rc;

    if (argc != 5)
        return helper_main(argc, argv, "predictor", "job_submit predict or generate");
    blas_choose_core();
    w.folder = argv[1];
    w.continues_text = strcmp(argv[2], "text") == 0;
    w.batch_size = atoi(argv[2]);
    blas_set_threads(atoi(argv[3]), 1);
    blas_allow_onednn(strcmp(argv[4], "auto") == 0);
    rc = run_predictor(&w, &result, &e);
    if (helper_summary_write(rc < 0 ? helper_summary_failure(&e) : result, w.folder, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        rc = e.code;
    }
    clear(&w);
    return rc < 0;
}
