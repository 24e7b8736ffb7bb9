/* trainer_shard -- a worker's part of the rows of a training program's data, by the job's --partition: the
 * same rules and the same seed as for psgd's own data sets (shared/job/partition.h), with a block of one
 * column for each worker. */
#ifndef PSGD_TRAINER_SHARD_H
#define PSGD_TRAINER_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/settings.h"

/* *index: the row numbers of worker `node`, *n of them, in the order of the first epoch; the caller frees it.
 * labels (n_rows): the classes of the rows, from 0; NULL: none. They are not trusted. ERR_TRAINER: fewer rows
 * than workers, a label out of range, or a rule that needs labels, more of them, or a column. */
int trainer_shard_make(uint32_t **index, size_t *n, const struct settings *set, int node, size_t n_rows,
                       const int32_t *labels, struct err *e);

#endif
