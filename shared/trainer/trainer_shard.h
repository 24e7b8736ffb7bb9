/* trainer_shard -- a worker's part of the rows of a training program's data, by the job's --partition: the
 * same rules, the same seed and the same order in each epoch as for psgd's own data sets
 * (shared/job/partition.h), with a block for each worker. */
#ifndef PSGD_TRAINER_SHARD_H
#define PSGD_TRAINER_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/partition.h"
#include "shared/job/settings.h"

struct shard_request {
    size_t n_rows;
    const int32_t *labels; /* (n_rows): the classes of the rows, from 0; NULL: none */
    size_t batch;          /* samples of a batch of one worker; 0: the worker gets all rows of its part */
    uint64_t epoch;        /* whose order is wanted, from 0 */
};

/* *index: the row numbers of worker `node`, *n of them, in the order of the epoch; the caller frees it. With
 * a batch each `batch` of them are a mini-batch of psgd's own loader, and *n is the same on all workers. The
 * request is not trusted. ERR_TRAINER: fewer rows than workers, or than one batch of each; a label out of
 * range; or a rule that needs labels, more of them, or a column. */
int trainer_shard_make(uint32_t **index, size_t *n, const struct settings *set, int node,
                       const struct shard_request *request, struct err *e);
/* The rows of all workers, as n_blocks blocks; the epoch is not used. Errors as above; the caller clears *out
 * after a success. */
int trainer_shard_divide(struct partition *out, const struct settings *set, size_t n_blocks,
                         const struct shard_request *request, struct err *e);

#endif
