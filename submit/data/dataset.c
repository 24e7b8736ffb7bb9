#include "submit/data/dataset.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/rng.h"
#include "shared/base/utf8.h"
#include "submit/terminal/console.h"

enum { CLASSES_SHOWN = 5 };

static const uint64_t stream_test = 0x74736574; /* "test" */

void dataset_warn(struct dataset_warnings *w, const char *fmt, ...)
{
    char sentence[DATASET_WARNING_LEN] = "further warnings about this file are left out";
    size_t len;
    va_list args;
    char *more;

    if (w->n > DATASET_WARNINGS_MAX)
        return;
    va_start(args, fmt);
    if (w->n < DATASET_WARNINGS_MAX)
        vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    len = strlen(sentence);
    utf8_clean(sentence, len, false);
    more = realloc(w->text, w->len + len + 1);
    if (!more)
        return;
    w->text = more;
    memcpy(more + w->len, sentence, len + 1);
    w->len += len + 1;
    w->n++;
}

const char *dataset_warning(const struct dataset_warnings *w, const char *last)
{
    const char *next = last ? last + strlen(last) + 1 : w->text;

    return next && next < w->text + w->len ? next : NULL;
}

void dataset_warnings_print(const struct dataset_warnings *w)
{
    for (const char *one = NULL; (one = dataset_warning(w, one)) != NULL;)
        console_info("Warning: %s.", one);
}

void dataset_warnings_clear(struct dataset_warnings *w)
{
    free(w->text);
    *w = (struct dataset_warnings){0};
}

bool dataset_has_tokens(const struct dataset *d)
{
    return d->vocab > 0;
}

bool dataset_is_stream(const struct dataset *d)
{
    return d->stream.n_train + d->stream.n_test > 0;
}

int dataset_cut_stream(struct dataset *d, size_t time, struct err *e)
{
    if (time == 0)
        return err_set(e, ERR_CONFIG,
                       "its samples are windows of text, for models with the loss token_cross_entropy");
    if (token_stream_cut(&d->stream, time, e) < 0)
        return e->code;
    d->shape = (struct shape){.n_dims = 1, .dim = {(int)time}};
    d->n_train = d->stream.n_pieces * d->stream.per_piece;
    d->n_test = token_stream_tests(&d->stream);
    return 0;
}

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

/* Writes the labels of n samples; *max: the largest label so far. */
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
    for (int k = 0; has_sample && d->train_y && k < d->n_classes; k++) {
        const char *name;

        if (has_sample[k] || n++ >= CLASSES_SHOWN)
            continue;
        name = name_of(d, k);
        len += (size_t)(name ? snprintf(list + len, sizeof list - len, "%s\"%.63s\"", n > 1 ? ", " : "", name)
                             : snprintf(list + len, sizeof list - len, "%s%d", n > 1 ? ", " : "", k));
    }
    if (n > 0)
        dataset_warn(&d->warnings, "no training sample has the class %s%s", list,
                     n > CLASSES_SHOWN ? ", ..." : "");
    free(has_sample);
}

int dataset_choose_test(bool *is_test, size_t *n_test, size_t n, double share, uint64_t seed, struct err *e)
{
    size_t k = (size_t)(share * (double)n + 0.5);
    uint32_t *order;
    struct rng r;

    if (n < 2 || n > UINT32_MAX)
        return err_set(e, ERR_CONFIG, "%zu sample%s cannot be divided into a training and a test half", n,
                       n == 1 ? "" : "s");
    order = malloc(n * sizeof *order);
    if (!order)
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", n);
    k = k < 1 ? 1 : k > n - 1 ? n - 1 : k;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    rng_init(&r, seed, stream_test, 0);
    rng_shuffle(&r, order, n);
    for (size_t i = 0; i < n; i++)
        is_test[order[i]] = i < k;
    *n_test = k;
    free(order);
    return 0;
}

/* Moves the rows of `from` (n, width) that belong to the test half to `test`; the others move up in
 * `from`. */
static void divide_rows(void *from, void *test, const bool *is_test, size_t n, size_t width)
{
    unsigned char *keep = from;
    unsigned char *out = test;

    for (size_t i = 0; i < n; i++) {
        unsigned char **to = is_test[i] ? &out : &keep;

        memmove(*to, (unsigned char *)from + i * width, width);
        *to += width;
    }
}

int dataset_number_groups(struct dataset *d, int (*compare)(const void *a, const void *b, void *arg),
                          void *arg, struct err *e)
{
    size_t n = d->n_train;
    uint32_t *order = malloc(n * sizeof *order);

    d->train_groups = malloc(n * sizeof *d->train_groups);
    if (!order || !d->train_groups || n > UINT32_MAX) {
        free(order);
        return err_set(e, ERR_NOMEM, "no memory for the groups of %zu samples", n);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, compare, arg);
    d->n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        d->n_groups += i == 0 || compare(&order[i - 1], &order[i], arg) != 0;
        d->train_groups[order[i]] = (uint32_t)(d->n_groups - 1);
    }
    free(order);
    return 0;
}

/* Keeps the groups of the samples that stay in the training half, and numbers those that still have
 * samples. */
static int keep_groups(struct dataset *d, const bool *is_test, size_t n, struct err *e)
{
    uint32_t *number = calloc(d->n_groups + 1, sizeof *number); /* from 1 */
    size_t kept = 0, n_groups = 0;

    if (!number)
        return err_set(e, ERR_NOMEM, "no memory for %zu groups", d->n_groups);
    for (size_t i = 0; i < n; i++) {
        uint32_t *of = &number[d->train_groups[i]];

        if (is_test[i])
            continue;
        if (*of == 0)
            *of = (uint32_t)++n_groups;
        d->train_groups[kept++] = *of - 1;
    }
    d->n_groups = n_groups;
    free(number);
    return 0;
}

int dataset_split(struct dataset *d, double share, uint64_t seed, struct err *e)
{
    size_t n = d->n_train;
    size_t x_width = (size_t)shape_count(&d->shape) * tensor_type_size(d->x_type);
    size_t y_width = d->train_y ? sizeof *d->train_y : (size_t)d->n_targets * sizeof *d->train_t;
    void *truth = d->train_y ? (void *)d->train_y : (void *)d->train_t;
    bool *is_test = calloc(n + 1, sizeof *is_test);
    void *test_truth = NULL;

    if (!is_test)
        return err_set(e, ERR_NOMEM, "no memory for the halves of %zu samples", n);
    if (dataset_choose_test(is_test, &d->n_test, n, share, seed, e) < 0) {
        free(is_test);
        return e->code;
    }
    d->test_x = malloc(d->n_test * x_width);
    test_truth = malloc(d->n_test * y_width);
    *(d->train_y ? (void **)&d->test_y : (void **)&d->test_t) = test_truth;
    if (d->test_x && test_truth) {
        divide_rows(d->train_x, d->test_x, is_test, n, x_width);
        divide_rows(truth, test_truth, is_test, n, y_width);
        d->n_train -= d->n_test;
    }
    if (d->train_groups && keep_groups(d, is_test, n, e) < 0) {
        free(is_test);
        return e->code;
    }
    free(is_test);
    return d->test_x && test_truth ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu test samples", d->n_test);
}

void dataset_clear(struct dataset *d)
{
    if (!d->stream.maps[0].at && !d->stream.maps[1].at) {
        free(d->train_x);
        free(d->test_x);
    }
    token_stream_clear(&d->stream);
    free(d->train_y);
    free(d->test_y);
    free(d->train_t);
    free(d->train_groups);
    free(d->test_t);
    free(d->class_names);
    free(d->words);
    free(d->columns);
    dataset_warnings_clear(&d->warnings);
    *d = (struct dataset){0};
}
