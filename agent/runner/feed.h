/* feed -- a worker's share of the data set, cut into the batches of its blocks in the order that the job's
 * seed gives (shared/partition.h). Samples stay bytes in the mapped file; a batch becomes floats as it is
 * gathered. */
#ifndef PSGD_FEED_H
#define PSGD_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "shared/blocks.h"
#include "shared/err.h"
#include "shared/tensor_file.h"

struct feed {
    struct tensor_file train_file, test_file;
    const uint8_t *images, *labels; /* (n_rows, n_cols, n_in), (n_rows, n_cols) */
    const uint8_t *test_images, *test_labels;
    size_t n_rows, n_cols, n_in, n_test; /* n_cols: of my blocks together */
    size_t batch;                        /* columns of one block */
    int n_blocks;                        /* mine */
    int *blocks;                         /* (n_blocks): which they are */
    uint64_t seed;
    uint32_t *order; /* (n_cols, n_rows): from which row a column takes its sample in a step of this epoch */
};

/* ERR_CONFIG: the files are not shares of this job (expected and found), or labels are outside the model's
 * classes. */
int feed_open(struct feed *f, const char *train, const char *test, const struct blocks *b, int node,
              size_t batch, int n_in, int n_classes, uint64_t seed, struct err *e);
void feed_close(struct feed *f);

void feed_epoch(struct feed *f, uint64_t epoch); /* from 0 */
/* Batch `row` (the step in the epoch) of my i-th block: x (batch, n_in) in 0 .. 1, labels (batch). */
void feed_block(const struct feed *f, size_t row, int i, float *x, uint8_t *labels);
/* Test samples start .. start + n - 1. */
void feed_test(const struct feed *f, size_t start, size_t n, float *x, uint8_t *labels);

#endif
