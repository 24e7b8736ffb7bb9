/* feed -- a worker's share of the data set, cut into the batches of its blocks in the order that the job's
 * seed gives (shared/partition.h). Samples stay as they are in the file, mapped or copied; a batch becomes
 * floats as it is gathered, scaled and, for training, cropped and flipped as the share says
 * (submit/data/transform.h): tensors "scale" and "shift" F32, of all values, or by channel or column, and
 * "augment" I32: rows, columns, channels, crop, flip. */
#ifndef PSGD_LOADER_H
#define PSGD_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/loss.h"
#include "shared/blocks.h"
#include "shared/err.h"
#include "shared/tensor_file.h"

struct loader_part { /* the train or the test half; views into its file */
    struct tensor_file file;
    struct tensor_view x;  /* (..., n_in) U8, F32 or I32 */
    const int32_t *labels; /* (...); NULL: targets */
    const float *targets;  /* (..., n_targets); NULL: labels */
};

struct loader_image { /* rows 0: samples are shown as they are */
    size_t rows, cols, channels, crop;
    bool flip;
};

struct loader {
    struct loader_part train, test; /* (n_rows, n_cols), (n_test) */
    size_t n_rows, n_cols, n_test;  /* n_cols: of my blocks together */
    size_t n_in, n_targets;
    size_t batch; /* columns of one block */
    int n_blocks; /* mine */
    int *blocks;  /* (n_blocks): which they are */
    uint64_t seed;
    uint64_t epoch;
    uint32_t *order;  /* (n_rows, n_cols): from which row a column takes its sample in a step of this epoch */
    uint32_t *column; /* (n_rows): order, of one column */
    bool is_scaled;   /* else floats are taken as they are */
    float scale, shift;     /* of all values, unless there are: */
    float *scales, *shifts; /* (n_in), or NULL */
    struct loader_image image;
    float *whole; /* (n_in), where there is an image: a sample before it is cropped */
    void *copy;   /* of all training samples, or NULL: they are read where the file is mapped */
};

/* ERR_CONFIG: the files are not shares of this job (expected and found), or labels, targets, tokens or what
 * is to be done to them do not suit the model. */
int loader_open(struct loader *f, const char *train, const char *test, const struct blocks *b, int node,
                size_t batch, const struct model_spec *m, uint64_t seed, struct err *e);
void loader_close(struct loader *f);

void loader_epoch(struct loader *f, uint64_t epoch); /* from 0 */
/* Room for a batch of up to n samples; its truth points at what the files hold of it. */
struct loader_batch {
    float *x; /* (n, n_in), scaled */
    int32_t *labels;
    float *targets; /* (n, n_targets) */
};
int loader_batch_init(struct loader_batch *b, const struct loader *f, size_t n, struct err *e);
void loader_batch_clear(struct loader_batch *b);
struct truth loader_truth(const struct loader_batch *b);

/* Batch `row` (the step in the epoch) of my i-th block. */
void loader_block(const struct loader *f, size_t row, int i, struct loader_batch *b);
/* Test samples start .. start + n - 1. */
void loader_test(const struct loader *f, size_t start, size_t n, struct loader_batch *b);

#endif
