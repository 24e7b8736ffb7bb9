#include "submit/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/blocks.h"
#include "shared/file.h"
#include "shared/partition.h"
#include "shared/tensor_file.h"
#include "submit/interrupt.h"
#include "submit/temp.h"

char *share_columns(const int *blocks, int n, int batch_size)
{
    char *text = calloc((size_t)n + 1, 48);
    size_t len = 0;

    for (int i = 0; text && i < n;) {
        int first = blocks[i];
        int last = first;

        while (++i < n && blocks[i] == last + 1)
            last++;
        len += (size_t)sprintf(text + len, "%s%lld-%lld", len ? "," : "", (long long)first * batch_size,
                               ((long long)last + 1) * batch_size - 1);
    }
    return text;
}

struct cut {
    const struct dataset *data;
    const struct partition *part;
    size_t pixels, batch;
    const int *blocks;
    size_t n_own; /* columns */
};

/* images (n_rows, n_own, pixels) and labels (n_rows, n_own) */
static void copy_samples(uint8_t *images, uint8_t *labels, const struct cut *c)
{
    for (size_t row = 0; row < c->part->n_rows; row++)
        for (size_t k = 0; k < c->n_own; k++) {
            size_t col = (size_t)c->blocks[k / c->batch] * c->batch + k % c->batch;
            size_t sample = c->part->sample[row * c->part->n_cols + col];

            memcpy(images, c->data->train_x + sample * c->pixels, c->pixels);
            *labels++ = c->data->train_y[sample];
            images += c->pixels;
        }
}

static int write_share(const char *path, const struct cut *c, const struct settings *s, const char *columns,
                       struct err *e)
{
    size_t n_rows = c->part->n_rows;
    uint8_t *images = malloc(n_rows * c->n_own * c->pixels);
    uint8_t *labels = malloc(n_rows * c->n_own);
    struct tensor_view tensors[2] = {
        {.name = "images",
         .type = TENSOR_U8,
         .n_dims = 3,
         .shape = {n_rows, c->n_own, c->pixels},
         .data = images},
        {.name = "labels", .type = TENSOR_U8, .n_dims = 2, .shape = {n_rows, c->n_own}, .data = labels}};
    char seed[24], rows[24], cols[24];
    const struct tensor_meta meta[] = {{"dataset", s->dataset}, {"seed", seed},       {"n_rows", rows},
                                       {"n_cols", cols},        {"columns", columns}, {0}};
    int rc;

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(rows, sizeof rows, "%zu", n_rows);
    snprintf(cols, sizeof cols, "%zu", c->part->n_cols);
    if (images && labels) {
        copy_samples(images, labels, c);
        rc = tensor_file_write(path, tensors, 2, meta, e);
    } else {
        rc = err_set(e, ERR_NOMEM, "no memory for a share of %zu samples", n_rows * c->n_own);
    }
    free(images);
    free(labels);
    return rc;
}

static int make_share(struct submission *s, int worker, const struct blocks *b, struct cut *c,
                      const struct temp *t, struct err *e)
{
    int *own = malloc((size_t)b->n_blocks * sizeof *own);
    char *columns = NULL;
    char path[PATH_MAX];
    int n;

    if (!own)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    n = blocks_of(b, worker, own);
    c->blocks = own;
    c->n_own = (size_t)n * c->batch;
    columns = share_columns(own, n, s->settings.batch_size);
    if (!columns)
        err_set(e, ERR_NOMEM, "no memory for %d blocks", n);
    else if (file_join(path, sizeof path, t->path, "train.safetensors", e) == 0 &&
             write_share(path, c, &s->settings, columns, e) == 0)
        e->code = blob_take_file(&s->shares[worker], path, e);
    free(columns);
    free(own);
    return e->code;
}

static int make_test(struct submission *s, const struct dataset *d, const struct temp *t, struct err *e)
{
    size_t pixels = (size_t)d->rows * (size_t)d->cols;
    struct tensor_view tensors[2] = {
        {.name = "images", .type = TENSOR_U8, .n_dims = 2, .shape = {d->n_test, pixels}, .data = d->test_x},
        {.name = "labels", .type = TENSOR_U8, .n_dims = 1, .shape = {d->n_test}, .data = d->test_y}};
    const struct tensor_meta meta[] = {{"dataset", s->settings.dataset}, {0}};
    char path[PATH_MAX];

    if (file_join(path, sizeof path, t->path, "test.safetensors", e) < 0 ||
        tensor_file_write(path, tensors, 2, meta, e) < 0)
        return e->code;
    return blob_take_file(&s->test, path, e);
}

static int make_all(struct submission *s, const struct blocks *b, struct cut *c, struct err *e)
{
    struct temp t;
    int rc;

    s->shares = calloc((size_t)s->settings.node_count, sizeof *s->shares);
    if (!s->shares)
        return err_set(e, ERR_NOMEM, "no memory for %d shares", s->settings.node_count);
    if (temp_open(&t, e) < 0)
        return e->code;
    rc = make_test(s, c->data, &t, e);
    for (int w = 0; w < s->settings.node_count && rc == 0; w++) {
        e->code = 0;
        rc = interrupt_check(e) < 0 ? e->code : make_share(s, w, b, c, &t, e);
    }
    temp_close(&t);
    return rc;
}

int share_make(struct submission *s, const struct dataset *d, struct err *e)
{
    struct settings *set = &s->settings;
    struct partition p = {0};
    struct blocks b = {0};
    struct cut c = {
        .data = d, .part = &p, .pixels = (size_t)d->rows * (size_t)d->cols, .batch = (size_t)set->batch_size};
    int rc;

    if (blocks_init(&b, set->block_assignment, set->node_count, set->redundancy, e) < 0)
        return e->code;
    rc = partition_init(&p, d->train_y, d->n_train, (size_t)b.n_blocks * c.batch, set->seed, set->non_iid, e);
    set->steps_per_epoch = (int)p.n_rows;
    if (rc == 0)
        rc = make_all(s, &b, &c, e);
    if (rc == 0)
        json_object_set_new(s->facts, "data",
                            json_pack("{s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:i, s:s}", "name",
                                      set->dataset, "n_train", (json_int_t)d->n_train, "n_test",
                                      (json_int_t)d->n_test, "rows", d->rows, "cols", d->cols, "n_classes",
                                      d->n_classes, "steps_per_epoch", (json_int_t)p.n_rows, "global_batch",
                                      (json_int_t)p.n_cols, "n_blocks", b.n_blocks, "test_sha256",
                                      s->test.hex));
    partition_clear(&p);
    blocks_clear(&b);
    return rc;
}
