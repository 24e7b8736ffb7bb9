/* predict: applies a trained model to data: writes a table with a row per sample, and prints the metrics of
 * an evaluation. The program `predictor` computes, as a node does; this verb prepares its files and writes
 * the table. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/data/data_open.h"
#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"
#include "submit/files/temp.h"
#include "submit/options/options_table.h"
#include "submit/results/predictions.h"
#include "submit/stages/shard.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/helper_program.h"
#include "submit/verbs/trained_model.h"
#include "submit/verbs/verbs.h"

#define DEFAULT_TABLE "predictions.csv"

struct predict {
    struct options opt; /* the options given, and those of the job that made the model */
    struct trained_model model;
    struct dataset data;
    bool is_whole; /* all samples of --data, not a half of a data set */
    const char *half;
    struct temp folder; /* of the predictor */
    json_t *summary;
};

/* Takes the options that are not given from the job that made the model, whose run.json is `run`; NULL: it is
 * not known. */
static int take_options(struct predict *p, const json_t *run, struct err *e)
{
    if (!run)
        return 0;
    return options_take_of_job(&p->opt, FOR_PREDICT,
                               json_object_get(json_object_get(run, "facts"), "options"), e) < 0
               ? err_at(e, "%s/run.json", p->model.job)
               : 0;
}

/* Data set and transform are those of the record; options may only repeat them. */
static int take_record(struct predict *p, struct err *e)
{
    struct settings *set = &p->opt.settings;
    struct transform asked, known;

    if (!p->model.has_record) {
        console_info(
            "%s has no preprocessing record, like files of older versions and of other programs: words, "
            "classes, columns and means are learned from the data set of this command, and cannot be "
            "compared "
            "with the model's.",
            p->model.path);
        return 0;
    }
    if (!p->model.job[0] && !options_is_given(&p->opt, offsetof(struct options, settings.dataset)))
        snprintf(set->dataset, sizeof set->dataset, "%s", p->model.record.dataset);
    if (!options_is_given(&p->opt, offsetof(struct options, settings.transform)))
        return 0;
    if (transform_parse(&asked, set->transform, e) < 0 ||
        transform_parse(&known, p->model.record.transform, e) < 0)
        return err_at(e, "transform");
    if (asked.kind == known.kind)
        return 0;
    err_set(e, ERR_CONFIG, "--transform %s: the model was trained with %s", set->transform,
            p->model.record.transform);
    return err_hint(e, "Leave --transform out: it is the model's, with its mean and deviation.");
}

static size_t count_samples(const struct predict *p)
{
    return strcmp(p->half, "test") == 0 ? p->data.n_test : p->data.n_train;
}

static int open_data(struct predict *p, struct err *e)
{
    const struct settings *set = &p->opt.settings;
    const struct data_use use = {.known = p->model.has_record ? &p->model.record : NULL,
                                 .is_whole = p->is_whole};
    int rc = data_open(&p->data, set->dataset, p->opt.data, p->model.spec, &use, true, e);

    dataset_warnings_print(&p->data.warnings);
    if (rc < 0)
        return rc;
    if (p->data.n_train > 0) /* a tokenized text keeps its halves */
        p->is_whole = false;
    if (count_samples(p) == 0)
        return err_set(e, ERR_CONFIG, "data set %s has no samples in its half %s", set->dataset, p->half);
    return p->model.has_record
               ? 0
               : preprocessing_learn(&p->model.record, &p->data, set->dataset, set->transform, e);
}

/* All samples of --data are predicted, unless --split chooses a half. */
static void choose_samples(struct predict *p)
{
    p->is_whole = p->model.has_record && options_is_given(&p->opt, offsetof(struct options, data)) &&
                  !options_is_given(&p->opt, offsetof(struct options, split));
    p->half = p->is_whole ? "test" : p->opt.split;
}

/* The predictor's files. */
static int put_files(struct predict *p, struct err *e)
{
    char path[PATH_MAX];

    if (trained_model_put(&p->model, p->folder.path, e) < 0 ||
        file_join(path, sizeof path, p->folder.path, "samples.safetensors", e) < 0)
        return e->code;
    return shard_write_half(path, &p->data, &p->model.record, p->half, e);
}

static int run_predictor(struct predict *p, struct err *e)
{
    const struct settings *set = &p->opt.settings;
    char batch[16], threads[16], math[16];
    const struct helper how = {
        .program = "predictor", .folder = p->folder.path, .args = {batch, threads, math}};
    const char *name;
    int n;

    name = choice_at(MATH_CHOICES, (int)set->math, &n);
    snprintf(batch, sizeof batch, "%d", set->batch_size);
    snprintf(threads, sizeof threads, "%d", set->threads);
    snprintf(math, sizeof math, "%.*s", n, name);
    return helper_run(&p->summary, &how, e);
}

static int write_table(const struct predict *p, struct err *e)
{
    struct dataset_warnings warnings = {0};
    char path[PATH_MAX];
    struct tensor_file f;
    int rc;

    if (file_join(path, sizeof path, p->folder.path, "predictions.safetensors", e) < 0 ||
        tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = predictions_write(p->opt.output, &p->data, p->half, &f, &warnings, e);
    dataset_warnings_print(&warnings);
    dataset_warnings_clear(&warnings);
    tensor_file_close(&f);
    return rc;
}

static void print_confusion(const json_t *rows)
{
    const json_t *row, *count;
    size_t label, k;

    puts("confusion, a row for each label, a column for each class predicted:");
    json_array_foreach(rows, label, row)
    {
        json_array_foreach(row, k, count) printf(" %7lld", (long long)json_integer_value(count));
        putchar('\n');
    }
}

static void show_predictions(const struct predict *p)
{
    const struct options *o = &p->opt;
    json_t *metrics = json_object_get(p->summary, "metrics"), *v;
    const char *key;

    if (o->json) {
        json_object_del(p->summary, "ok");
        json_object_set_new(p->summary, "model", json_text(p->model.path, SIZE_MAX));
        json_object_set_new(p->summary, "dataset", json_text(o->settings.dataset, SIZE_MAX));
        json_object_set_new(p->summary, "split", json_string(p->is_whole ? "all" : p->half));
        json_object_set_new(p->summary, "file", json_text(o->output, SIZE_MAX));
        stdout_json(true, json_incref(p->summary), NULL, NULL);
        return;
    }
    text_print("model      %s, of %s\ndata       %s, %s: %zu samples\n", p->model.spec->name, p->model.path,
               o->settings.dataset, p->is_whole ? o->data : p->half, count_samples(p));
    json_object_foreach(metrics, key, v)
    {
        if (json_is_number(v))
            printf("%-10s %.9g\n", key, json_number_value(v));
        else if (json_is_null(v))
            printf("%-10s nan\n", key);
    }
    if (json_object_get(metrics, "confusion"))
        print_confusion(json_object_get(metrics, "confusion"));
    text_print("table      %s\n", options_output(o));
}

/* A sample of a model of language has as many predictions as tokens. */
static int check_rows(const struct model_spec *m, struct err *e)
{
    if (model_spec_labels(m) == 1)
        return 0;
    err_set(e, ERR_CONFIG,
            "model \"%s\" predicts a token behind each of %d tokens, and a table has one "
            "prediction a row",
            m->name, model_spec_labels(m));
    return err_hint(e,
                    "job_submit generate goes on with a text; the evaluations of a job have the loss on its "
                    "test text.");
}

static int predict_data(struct predict *p, const char *operand, struct err *e)
{
    json_t *run;
    int rc;

    if (predictions_check_path(p->opt.output, e) < 0 || trained_model_find(&p->model, operand, e) < 0 ||
        trained_model_run(&run, &p->model, e) < 0)
        return e->code;
    rc = take_options(p, run, e) < 0 ? e->code : trained_model_open(&p->model, run, e);
    json_decref(run);
    if (rc < 0 || check_rows(p->model.spec, e) < 0 || take_record(p, e) < 0)
        return e->code;
    choose_samples(p);
    if (open_data(p, e) < 0 || temp_open(&p->folder, e) < 0 || put_files(p, e) < 0 ||
        run_predictor(p, e) < 0 || write_table(p, e) < 0)
        return e->code;
    show_predictions(p);
    return 0;
}

int verb_predict(const struct options *o, struct err *e)
{
    struct predict *p;
    int rc;

    if (o->args.n_operands != 1)
        return err_set(e, ERR_USAGE, "predict takes the file of a model, or a folder of results");
    p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "no memory");
    p->opt = *o;
    if (!o->output[0])
        strcpy(p->opt.output, DEFAULT_TABLE);
    rc = predict_data(p, o->args.operands[0], e);
    json_decref(p->summary);
    if (p->folder.path[0])
        temp_close(&p->folder);
    dataset_clear(&p->data);
    trained_model_clear(&p->model);
    free(p);
    return rc;
}
