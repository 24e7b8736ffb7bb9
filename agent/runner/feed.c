#include "agent/runner/feed.h"

#include <stdlib.h>
#include <string.h>

#include "nn/fast.h"
#include "shared/partition.h"

static int check_labels(const int32_t *labels, size_t n, int n_classes, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i] < 0 || labels[i] >= n_classes)
            return err_set(e, ERR_CONFIG, "label %d of sample %zu, the model knows 0 to %d", labels[i], i,
                           n_classes - 1);
    return 0;
}

static int check_tokens(const struct tensor_view *x, int vocab, struct err *e)
{
    const int32_t *tokens = x->data;
    size_t n = tensor_count(x);

    if ((x->type == TENSOR_I32) != (vocab > 0))
        return err_set(e, ERR_CONFIG, "the model reads %s", vocab > 0 ? "tokens" : "no tokens");
    for (size_t i = 0; vocab > 0 && i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return err_set(e, ERR_CONFIG, "token %d, the model knows 0 to %d", tokens[i], vocab - 1);
    return 0;
}

/* Samples x (..., n_in) and their labels y (...) or targets y (..., n_out), of n_dims leading dimensions. */
static int check_part(struct feed_part *p, int n_dims, const struct model_spec *m, struct err *e)
{
    const struct tensor_view *x = tensor_file_find(&p->file, "x");
    const struct tensor_view *y = tensor_file_find(&p->file, "y");
    size_t dims = (size_t)n_dims;

    if (!x || !y || x->n_dims != n_dims + 1 || x->type == TENSOR_I64 ||
        !(y->type == TENSOR_I32 ? y->n_dims == n_dims : y->type == TENSOR_F32 && y->n_dims == n_dims + 1))
        return err_set(e, ERR_CONFIG, "no tensors x and y of samples and their labels or targets");
    if (memcmp(x->shape, y->shape, dims * sizeof *y->shape) != 0)
        return err_set(e, ERR_CONFIG, "samples and labels are not equally many");
    if (x->shape[dims] != (size_t)m->n_in)
        return err_set(e, ERR_CONFIG, "%zu values a sample, the model takes %d", x->shape[dims], m->n_in);
    if (y->type == TENSOR_F32 &&
        (y->shape[dims] != (size_t)m->n_out || m->loss == LOSS_SOFTMAX_CROSS_ENTROPY))
        return err_set(e, ERR_CONFIG,
                       "%zu targets a sample, which the model's %d outputs and loss do not suit",
                       y->shape[dims], m->n_out);
    p->x = *x;
    p->labels = y->type == TENSOR_I32 ? y->data : NULL;
    p->targets = y->type == TENSOR_F32 ? y->data : NULL;
    if (p->labels && check_labels(p->labels, tensor_count(y), m->n_out == 1 ? 2 : m->n_out, e) < 0)
        return e->code;
    return check_tokens(x, model_spec_vocab(m), e);
}

static int open_part(struct feed_part *p, const char *path, int n_dims, const struct model_spec *m,
                     struct err *e)
{
    if (tensor_file_open(&p->file, path, e) < 0)
        return e->code;
    return check_part(p, n_dims, m, e) < 0 ? err_at(e, "%s", path) : 0;
}

int feed_open(struct feed *f, const char *train, const char *test, const struct blocks *b, int node,
              size_t batch, const struct model_spec *m, uint64_t seed, struct err *e)
{
    *f = (struct feed){.n_in = (size_t)m->n_in, .n_targets = (size_t)m->n_out, .batch = batch, .seed = seed};
    f->blocks = malloc((size_t)b->n_blocks * sizeof *f->blocks);
    if (!f->blocks)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    f->n_blocks = blocks_of(b, node, f->blocks);
    f->n_cols = (size_t)f->n_blocks * batch;
    if (open_part(&f->train, train, 2, m, e) < 0 || open_part(&f->test, test, 1, m, e) < 0)
        goto fail;
    f->n_rows = f->train.x.shape[0];
    f->n_test = f->test.x.shape[0];
    if (f->train.x.shape[1] != f->n_cols || f->n_rows == 0) {
        err_set(e, ERR_CONFIG, "%s: not the share of node %d: %zu columns expected", train, node, f->n_cols);
        goto fail;
    }
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
    tensor_file_close(&f->train.file);
    tensor_file_close(&f->test.file);
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

int feed_batch_init(struct feed_batch *b, const struct feed *f, size_t n, struct err *e)
{
    *b = (struct feed_batch){.x = malloc(n * f->n_in * sizeof *b->x)};
    if (f->train.labels)
        b->labels = malloc(n * sizeof *b->labels);
    else
        b->targets = malloc(n * f->n_targets * sizeof *b->targets);
    if (b->x && (b->labels || b->targets))
        return 0;
    feed_batch_clear(b);
    return err_set(e, ERR_NOMEM, "no memory for a batch of %zu", n);
}

void feed_batch_clear(struct feed_batch *b)
{
    free(b->x);
    free(b->labels);
    free(b->targets);
    *b = (struct feed_batch){0};
}

struct truth feed_truth(const struct feed_batch *b)
{
    return (struct truth){.labels = b->labels, .targets = b->targets};
}

FAST static void bytes_to_floats(float *restrict x, const uint8_t *restrict bytes, size_t n)
{
    const float scale = 1.0f / 255.0f;

    for (size_t i = 0; i < n; i++)
        x[i] = (float)bytes[i] * scale;
}

FAST static void ints_to_floats(float *restrict x, const int32_t *restrict tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tokens[i];
}

/* Sample number `at` of the file becomes sample j of the batch. */
static void take(const struct feed *f, const struct feed_part *p, size_t at, struct feed_batch *b, size_t j)
{
    float *x = b->x + j * f->n_in;

    switch (p->x.type) {
    case TENSOR_U8:
        bytes_to_floats(x, (const uint8_t *)p->x.data + at * f->n_in, f->n_in);
        break;
    case TENSOR_I32:
        ints_to_floats(x, (const int32_t *)p->x.data + at * f->n_in, f->n_in);
        break;
    default:
        memcpy(x, (const float *)p->x.data + at * f->n_in, f->n_in * sizeof *x);
        break;
    }
    if (p->labels)
        b->labels[j] = p->labels[at];
    else
        memcpy(b->targets + j * f->n_targets, p->targets + at * f->n_targets,
               f->n_targets * sizeof *b->targets);
}

void feed_block(const struct feed *f, size_t row, int i, struct feed_batch *b)
{
    for (size_t j = 0; j < f->batch; j++) {
        size_t col = (size_t)i * f->batch + j;

        take(f, &f->train, f->order[col * f->n_rows + row] * f->n_cols + col, b, j);
    }
}

void feed_test(const struct feed *f, size_t start, size_t n, struct feed_batch *b)
{
    for (size_t j = 0; j < n; j++)
        take(f, &f->test, start + j, b, j);
}
