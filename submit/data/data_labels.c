/* Labels of a data set, whatever its source. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/dataset.h"

enum { CLASSES_SHOWN = 5 };

/* The label that the targets of a sample are; -1: none. */
static int label_of(const float *t, int n)
{
    int place = -1;

    if (n == 1)
        return *t >= 0 && *t < CLASSES_MAX && *t == floorf(*t) ? (int)*t : -1;
    for (int k = 0; k < n; k++) {
        if (t[k] != 0 && (t[k] != 1 || place >= 0))
            return -1;
        place = t[k] == 1 ? k : place;
    }
    return place;
}

/* *max: the largest label so far. */
static int labels_of(int32_t *out, int *max, const float *t, size_t n, int n_targets, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = label_of(t + i * (size_t)n_targets, n_targets);
        *max = out[i] > *max ? out[i] : *max;
        if (out[i] >= 0)
            continue;
        if (n_targets == 1)
            return err_set(e, ERR_CONFIG, "the target of sample %zu, %g, is no class: 0, 1, 2, ...", i + 1,
                           (double)t[i]);
        return err_set(e, ERR_CONFIG, "the %d targets of sample %zu are no class: a single 1 among zeros",
                       n_targets, i + 1);
    }
    return 0;
}

int dataset_take_labels(struct dataset *d, struct err *e)
{
    int32_t *train = malloc((d->n_train + 1) * sizeof *train), *test = malloc((d->n_test + 1) * sizeof *test);
    int max = d->n_targets > 2 ? d->n_targets - 1 : 1, test_max = 0;
    int rc = train && test ? labels_of(train, &max, d->train_t, d->n_train, d->n_targets, e)
                           : err_set(e, ERR_NOMEM, "no memory for %zu labels", d->n_train + d->n_test);

    if (rc == 0)
        rc = labels_of(test, &test_max, d->test_t, d->n_test, d->n_targets, e);
    if (rc == 0 && d->n_train == 0)
        max = test_max > max ? test_max : max;
    else if (rc == 0 && test_max > max)
        rc = err_set(e, ERR_CONFIG, "label %d in the test half, the training labels end at %d", test_max,
                     max);
    if (rc < 0) {
        free(train);
        free(test);
        return rc;
    }
    free(d->train_t);
    free(d->test_t);
    d->train_t = d->test_t = NULL;
    d->train_y = train;
    d->test_y = test;
    d->n_targets = 0;
    d->may_be_labels = false;
    d->n_classes = max + 1;
    return 0;
}

static const char *name_of(const struct dataset *d, int class)
{
    const char *name = d->class_names;

    for (int k = 0; name && k < class; k++)
        name += strlen(name) + 1;
    return name;
}

void dataset_check_classes(struct dataset *d)
{
    bool *has_sample = calloc((size_t)d->n_classes + 1, sizeof *has_sample);
    char list[CLASSES_SHOWN * 80] = "";
    size_t len = 0;
    int n = 0;

    for (size_t i = 0; has_sample && d->train_y && i < d->n_train; i++)
        has_sample[d->train_y[i]] = true;
    for (int k = 0; has_sample && k < d->n_classes; k++) {
        const char *name;

        if (has_sample[k] || n++ >= CLASSES_SHOWN)
            continue;
        name = name_of(d, k);
        len += (size_t)(name ? snprintf(list + len, sizeof list - len, "%s\"%.63s\"", n > 1 ? ", " : "", name)
                             : snprintf(list + len, sizeof list - len, "%s%d", n > 1 ? ", " : "", k));
    }
    if (n > 0)
        data_warn(&d->warnings, "no training sample has the class %s%s", list,
                  n > CLASSES_SHOWN ? ", ..." : "");
    free(has_sample);
}
