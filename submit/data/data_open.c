#include "submit/data/data_open.h"

#include <limits.h>
#include <string.h>

#include "submit/data/data_folder.h"
#include "submit/data/data_sets.h"
#include "submit/data/model_fit.h"

static bool are_0_or_1(const float *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t[i] != 0 && t[i] != 1)
            return false;
    return true;
}

/* Floats of which the source says no more are labels for a loss that is for classes: always for softmax, and
 * for one logistic output where all are 0 or 1, which have the same loss as targets, but no accuracy. */
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
    char folder[PATH_MAX];

    if (chosen[0] && dataset_is_drawn(name)) {
        err_set(e, ERR_USAGE, "--data %s: data set %s is generated and reads no file", chosen, name);
        return err_hint(
            e, "Leave --data out, or name the type of the data with --dataset: mnist, csv, npz, ...");
    }
    if (data_folder(folder, sizeof folder, name, chosen, e) < 0)
        return e->code;
    if (dataset_open_as(d, name, folder, use, e) < 0) {
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
    if (model_fit(m, d, e) == 0)
        return 0;
    if (!e->hint[0] && is_trained)
        err_hint(e, "The model predicts samples of the form that it was trained on.");
    else if (!e->hint[0])
        model_fit_hint(d, e);
    return err_at(e, "model %s and data set %s", m->name, name);
}
