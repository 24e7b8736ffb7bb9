#include "submit/data/data_open.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "submit/data/data_file.h"
#include "submit/data/layout.h"

static int layout_fits(const struct model_spec *m, const struct dataset *d, struct err *e)
{
    char reader[96];

    snprintf(reader, sizeof reader, "model \"%s\"", m->name);
    return layout_check(reader, &m->in, &d->shape, dataset_has_tokens(d), e);
}

static int tokens_fit(const struct model_spec *m, const struct dataset *d, struct err *e)
{
    int vocab = model_spec_vocab(m);

    if ((vocab > 0) != dataset_has_tokens(d))
        return err_set(e, ERR_CONFIG,
                       vocab > 0 ? "model \"%s\" reads tokens, the data set has none"
                                 : "the data set has tokens, model \"%s\" has no embedding",
                       m->name);
    if (d->vocab > vocab)
        return err_set(e, ERR_CONFIG, "model \"%s\" knows %d tokens, the data set has %d", m->name, vocab,
                       d->vocab);
    return 0;
}

/* A model of language has an output for each token at each place. */
static int outputs_fit(const struct model_spec *m, const struct dataset *d, struct err *e)
{
    if (model_spec_labels(m) != m->n_in)
        return err_set(e, ERR_CONFIG, "model \"%s\" reads %d tokens and predicts %d", m->name, m->n_in,
                       model_spec_labels(m));
    if (model_spec_classes(m) >= d->vocab)
        return 0;
    err_set(e, ERR_CONFIG, "model \"%s\" predicts %d tokens, the data set has %d", m->name,
            model_spec_classes(m), d->vocab);
    return err_hint(e, "Models that come with psgd know as many tokens as you say: --model gpt-xs:vocab=%d.",
                    d->vocab);
}

/* For targets below 0 or above 1 the loss has no minimum, and training diverges. */
static int check_probabilities(const struct model_spec *m, const float *t, size_t n, const char *half,
                               int n_targets, struct err *e)
{
    for (size_t i = 0; t && i < n * (size_t)n_targets; i++)
        if (!(t[i] >= 0 && t[i] <= 1)) {
            err_set(e, ERR_CONFIG,
                    "model \"%s\" has the loss sigmoid_cross_entropy, whose targets are from 0 to 1, and a "
                    "target "
                    "of %s sample %zu is %g",
                    m->name, half, i / (size_t)n_targets + 1, (double)t[i]);
            return err_hint(e, "Classes -1 and 1 become 0 and 1 by (y > 0); values to regress need the loss "
                               "\"mse\".");
        }
    return 0;
}

/* The hint is about numbers to regress, which the source has taken for labels. */
static int too_many_outputs(const struct model_spec *m, const struct dataset *d, int n_out, struct err *e)
{
    bool is_regression = d->n_classes > 2 && m->n_out == 1 && m->loss != LOSS_SOFTMAX_CROSS_ENTROPY;

    err_set(e, ERR_CONFIG, "model \"%s\" ends with %d output%s, the data set has %d %s", m->name, m->n_out,
            m->n_out == 1 ? "" : "s", n_out, d->n_classes > 0 ? "classes" : "targets");
    return is_regression ? err_hint(e, "To regress numbers instead of classes, name a table's column with "
                                       "target= for label=, and "
                                       "convert a NumPy array with y.astype(\"f4\").")
                         : e->code;
}

/* A set of windows of text refuses other models when it is opened. */
static int check_loss(const struct model_spec *m, const struct dataset *d, struct err *e)
{
    if (m->loss != LOSS_TOKEN_CROSS_ENTROPY || dataset_is_stream(d))
        return 0;
    err_set(e, ERR_CONFIG, "model \"%s\" is a model of language, and the data set is no text", m->name);
    return err_hint(e, "--dataset tokens reads text from files, --dataset grammar generates text.");
}

int data_fits_model(const struct model_spec *m, const struct dataset *d, struct err *e)
{
    int n_in = shape_count(&d->shape);
    bool has_classes = d->n_classes > 0;
    int n_out = has_classes ? d->n_classes : d->n_targets;

    if (check_loss(m, d, e) < 0)
        return e->code;
    if (m->n_in != n_in)
        return err_set(e, ERR_CONFIG, "model \"%s\" takes %d values per sample, the data set has %d", m->name,
                       m->n_in, n_in);
    if (layout_fits(m, d, e) < 0)
        return e->code;
    if (dataset_is_stream(d))
        return model_spec_measures(m, true, e) < 0 || outputs_fit(m, d, e) < 0 ? e->code
                                                                               : tokens_fit(m, d, e);
    if (!has_classes && m->loss == LOSS_SOFTMAX_CROSS_ENTROPY)
        return err_set(e, ERR_CONFIG,
                       "model \"%s\" has a loss for classes, the data set has targets: use the loss \"mse\"",
                       m->name);
    if (m->n_out != n_out &&
        !(has_classes && n_out == 2 && m->n_out == 1 && m->loss != LOSS_SOFTMAX_CROSS_ENTROPY))
        return too_many_outputs(m, d, n_out, e);
    if (!has_classes && m->loss == LOSS_SIGMOID_CROSS_ENTROPY &&
        (check_probabilities(m, d->train_t, d->n_train, "training", n_out, e) < 0 ||
         check_probabilities(m, d->test_t, d->n_test, "test", n_out, e) < 0))
        return e->code;
    if (model_spec_measures(m, has_classes, e) < 0)
        return e->code;
    return tokens_fit(m, d, e);
}

int data_hint_model(const struct dataset *d, struct err *e)
{
    const char *loss = d->n_classes ? "softmax_cross_entropy" : "mse";
    int n_out = d->n_classes ? d->n_classes : d->n_targets;
    char layers[160];

    if (dataset_has_tokens(d))
        snprintf(layers, sizeof layers,
                 "{\"kind\":\"embedding\",\"vocab\":%d,\"units\":32},{\"kind\":\"lstm\",\"units\":64}",
                 d->vocab);
    else
        snprintf(layers, sizeof layers, "{\"kind\":\"dense\",\"units\":128},{\"kind\":\"relu\"}");
    return err_hint(
        e,
        "A model that fits: echo '{\"version\":1,\"name\":\"fits\",\"input\":[%d],\"layers\":"
        "[%s,{\"kind\":\"dense\",\"units\":%d}],\"loss\":\"%s\"}' >model.json, then --model model.json",
        shape_count(&d->shape), layers, n_out, loss);
}

static bool are_0_or_1(const float *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t[i] != 0 && t[i] != 1)
            return false;
    return true;
}

/* Floats of unknown meaning are labels if the model's loss is for classes: always with softmax, and with a
 * single logistic output if all are 0 or 1. (As targets they would have the same loss, but no accuracy.) */
static bool has_labels(const struct dataset *d, const struct model_spec *m)
{
    return d->may_be_labels &&
           (m->loss == LOSS_SOFTMAX_CROSS_ENTROPY ||
            (m->loss == LOSS_SIGMOID_CROSS_ENTROPY && m->n_out == 1 && d->n_targets == 1 &&
             are_0_or_1(d->train_t, d->n_train) && are_0_or_1(d->test_t, d->n_test)));
}

int data_open(struct dataset *d, const char *name, const char *chosen, const struct model_spec *m,
              const struct data_use *use, bool is_trained, struct err *e)
{
    const struct data_use own = {.known = use->known,
                                 .is_whole = use->is_whole,
                                 .window = m->loss == LOSS_TOKEN_CROSS_ENTROPY ? (size_t)m->n_in : 0};
    char folder[PATH_MAX];

    if (chosen[0] && dataset_is_drawn(name)) {
        err_set(e, ERR_USAGE, "--data %s: data set %s is generated and reads no file", chosen, name);
        return err_hint(
            e, "Leave --data out, or name the type of the data with --dataset: mnist, csv, npz, ...");
    }
    if (data_folder(folder, sizeof folder, name, chosen, e) < 0)
        return e->code;
    if (dataset_open_as(d, name, folder, &own, e) < 0) {
        if (e->code == ERR_NOT_FOUND && !chosen[0] && strcmp(name, "mnist") == 0)
            err_hint(e, "job_submit data fetch mnist downloads it; --data DIR names another folder.");
        return e->code;
    }
    if (!use->known && has_labels(d, m) && dataset_take_labels(d, e) < 0) {
        err_hint(e,
                 "The model's loss is for classes. Targets to regress need a model with the loss \"mse\".");
        dataset_clear(d);
        return err_at(e, "model %s and data set %s", m->name, name);
    }
    if (!dataset_is_drawn(name) && !use->is_whole)
        dataset_check_classes(d);
    if (data_fits_model(m, d, e) == 0)
        return 0;
    if (!e->hint[0] && is_trained)
        err_hint(e, "The model predicts samples of the form that it was trained on.");
    else if (!e->hint[0])
        data_hint_model(d, e);
    return err_at(e, "model %s and data set %s", m->name, name);
}
