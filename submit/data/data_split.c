/* Divides a data set without a test half. */
#include <stdlib.h>
#include <string.h>

#include "shared/rng.h"
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
    free(is_test);
    return d->test_x && test_truth ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu test samples", d->n_test);
}
