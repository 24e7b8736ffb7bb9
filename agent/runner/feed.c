#include "agent/runner/feed.h"

#include <stdlib.h>
#include <string.h>

#include "shared/partition.h"

/* The tensors of one file: images (..., n_in) and labels (...), bytes, as many of the one as of the other. */
static int open_pair(struct tensor_file *f, const char *path, int n_in, int n_classes, const uint8_t **images,
                     const uint8_t **labels, const struct tensor_view **shape, struct err *e)
{
    const struct tensor_view *x, *y;
    size_t n;

    if (tensor_file_open(f, path, e) < 0)
        return e->code;
    x = tensor_file_find(f, "images");
    y = tensor_file_find(f, "labels");
    if (!x || !y || x->type != TENSOR_U8 || y->type != TENSOR_U8 || x->n_dims != y->n_dims + 1)
        return err_set(e, ERR_CONFIG, "%s: no byte tensors images and labels", path);
    if (memcmp(x->shape, y->shape, (size_t)y->n_dims * sizeof *y->shape) != 0)
        return err_set(e, ERR_CONFIG, "%s: images and labels are not equally many", path);
    if (x->shape[x->n_dims - 1] != (size_t)n_in)
        return err_set(e, ERR_CONFIG, "%s: %zu values a sample, the model takes %d", path,
                       x->shape[x->n_dims - 1], n_in);
    *images = x->data;
    *labels = y->data;
    *shape = y;
    n = tensor_count(y);
    for (size_t i = 0; i < n; i++)
        if ((*labels)[i] >= n_classes)
            return err_set(e, ERR_CONFIG, "%s: label %u of sample %zu, the model knows 0 to %d", path,
                           (*labels)[i], i, n_classes - 1);
    return 0;
}

int feed_open(struct feed *f, const char *train, const char *test, const struct blocks *b, int node,
              size_t batch, int n_in, int n_classes, uint64_t seed, struct err *e)
{
    const struct tensor_view *shape;

    *f = (struct feed){.n_in = (size_t)n_in, .batch = batch, .seed = seed};
    f->blocks = malloc((size_t)b->n_blocks * sizeof *f->blocks);
    if (!f->blocks)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    f->n_blocks = blocks_of(b, node, f->blocks);
    if (open_pair(&f->train_file, train, n_in, n_classes, &f->images, &f->labels, &shape, e) < 0)
        goto fail;
    f->n_rows = shape->shape[0];
    f->n_cols = (size_t)f->n_blocks * batch;
    if (shape->n_dims != 2 || shape->shape[1] != f->n_cols || f->n_rows == 0) {
        err_set(e, ERR_CONFIG, "%s: not the share of node %d: %zu columns expected", train, node, f->n_cols);
        goto fail;
    }
    if (open_pair(&f->test_file, test, n_in, n_classes, &f->test_images, &f->test_labels, &shape, e) < 0)
        goto fail;
    f->n_test = tensor_count(shape);
    f->order = malloc(f->n_cols * f->n_rows * sizeof *f->order);
    if (!f->order) {
        err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", f->n_cols * f->n_rows);
        goto fail;
    }
    return 0;
fail:
    feed_close(f);
    return e->code;
}

void feed_close(struct feed *f)
{
    tensor_file_close(&f->train_file);
    tensor_file_close(&f->test_file);
    free(f->blocks);
    free(f->order);
    *f = (struct feed){0};
}

void feed_epoch(struct feed *f, uint64_t epoch)
{
    for (size_t c = 0; c < f->n_cols; c++)
        partition_order(f->order + c * f->n_rows, f->n_rows, f->seed, epoch,
                        (uint64_t)f->blocks[c / f->batch] * f->batch + c % f->batch);
}

static void to_floats(float *restrict x, const uint8_t *restrict bytes, size_t n)
{
    const float scale = 1.0f / 255.0f;

    for (size_t i = 0; i < n; i++)
        x[i] = (float)bytes[i] * scale;
}

void feed_block(const struct feed *f, size_t row, int i, float *x, uint8_t *labels)
{
    for (size_t j = 0; j < f->batch; j++) {
        size_t col = (size_t)i * f->batch + j;
        size_t at = f->order[col * f->n_rows + row] * f->n_cols + col;

        to_floats(x + j * f->n_in, f->images + at * f->n_in, f->n_in);
        labels[j] = f->labels[at];
    }
}

void feed_test(const struct feed *f, size_t start, size_t n, float *x, uint8_t *labels)
{
    to_floats(x, f->test_images + start * f->n_in, n * f->n_in);
    memcpy(labels, f->test_labels + start, n);
}
