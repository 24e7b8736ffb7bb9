/* partition -- which sample is seen when and by whom.
 *
 * The training set, shuffled by the job's seed, is laid out as a matrix of n_rows x n_cols samples: a row is
 * a global batch, and block k owns columns k batch_size .. (k + 1) batch_size - 1. What does not fill a row
 * is left out. Each epoch permutes every column by itself (seed, epoch, column), so that batches mix anew
 * while a node keeps the columns of its blocks and needs nobody else's samples. The global batch of a step is
 * therefore the same whether one node holds 128 columns or two hold 64 each.
 *
 * Non-iid: the set is sorted by label and fills the matrix column by column, so that a block sees few labels
 * and always the same ones. */
#ifndef PSGD_PARTITION_H
#define PSGD_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/blocks.h"
#include "shared/err.h"

struct partition {
    size_t n_rows, n_cols; /* steps per epoch, global batch */
    uint32_t *sample;      /* (n_rows, n_cols): index into the training set */
};

/* ERR_CONFIG: fewer samples than one global batch. */
int partition_init(struct partition *p, const int32_t *labels, size_t n, size_t n_cols, uint64_t seed,
                   bool non_iid, struct err *e);
void partition_clear(struct partition *p);

/* order[t] = the row from which `col` takes its sample in step t of the epoch. */
void partition_order(uint32_t *order, size_t n_rows, uint64_t seed, uint64_t epoch, uint64_t col);

#endif
