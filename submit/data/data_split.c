/* Divides a data set without a test half. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/rng.h"
#include "submit/data/data_sets.h"

static const uint64_t stream_test = 0x74736574; /* "test" */

int data_choose_test(bool *is_test, size_t *n_test, size_t n, double share, uint64_t seed, struct err *e)
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

/* Moves the rows of `from` (n, width) that belong to the test half to `test`; the others close up. */
static void part(void *from, void *test, const bool *is_test, size_t n, size_t width)
{
    unsigned char *keep = from;
    unsigned char *out = test;

    for (size_t i = 0; i < n; i++) {
        unsigned char **to = is_test[i] ? &out : &keep;

        memmove(*to, (unsigned char *)from + i * width, width);
        *to += width;
    }
}

int data_number_groups(struct dataset *d, int (*compare)(const void *a, const void *b, void *arg), void *arg,
                       struct err *e)
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

/* Groups of the samples that stay in the training half; one without any is none. */
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

int data_split(struct dataset *d, double share, uint64_t seed, struct err *e)
{
    size_t n = d->n_train;
    size_t x_width = (size_t)shape_count(&d->shape) * tensor_type_size(d->x_type);
    size_t y_width = d->train_y ? sizeof *d->train_y : (size_t)d->n_targets * sizeof *d->train_t;
    void *truth = d->train_y ? (void *)d->train_y : (void *)d->train_t;
    bool *is_test = calloc(n + 1, sizeof *is_test);
    void *test_truth = NULL;

    if (!is_test)
        return err_set(e, ERR_NOMEM, "no memory for the halves of %zu samples", n);
    if (data_choose_test(is_test, &d->n_test, n, share, seed, e) < 0) {
        free(is_test);
        return e->code;
    }
    d->test_x = malloc(d->n_test * x_width);
    test_truth = malloc(d->n_test * y_width);
    *(d->train_y ? (void **)&d->test_y : (void **)&d->test_t) = test_truth;
    if (d->test_x && test_truth) {
        part(d->train_x, d->test_x, is_test, n, x_width);
        part(truth, test_truth, is_test, n, y_width);
        d->n_train -= d->n_test;
    }
    if (d->train_groups && keep_groups(d, is_test, n, e) < 0) {
        free(is_test);
        return e->code;
    }
    free(is_test);
    return d->test_x && test_truth ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu test samples", d->n_test);
}
