/* client_rows -- which rows of a training program's data the simulated workers have, by the job's --partition
 * (shared/trainer/trainer_shard.h). A function that trains for a round gets all rows of its worker, in the
 * order that shard() gives on an agent; one that gives gradients gets the mini-batch of the step, as a worker
 * of psgd's does of its data set (shared/job/partition.h). */
#ifndef PSGD_SIM_CLIENT_ROWS_H
#define PSGD_SIM_CLIENT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/partition.h"
#include "shared/job/settings.h"
#include "shared/trainer/trainer_shard.h"

struct client_rows {
    struct partition p; /* n_cols 0: there are no rows */
    size_t n_rows;      /* of the data */
    bool is_batched;
    size_t n_steps, batch; /* of an epoch; columns of a block. Not batched: 1 each */
    uint64_t seed;
    uint32_t *order;  /* as p.sample: the order of each column, in its block's present epoch */
    uint64_t *epochs; /* (blocks) */
    size_t most;      /* rows of a step */
};

/* is_batched: for gradients. Of `rows` only their number and labels count. ERR_TRAINER: as
 * trainer_shard_divide; or they give fewer steps than an epoch of the job has. After an error *r is empty. */
int client_rows_init(struct client_rows *r, const struct settings *set, const struct blocks *b,
                     bool is_batched, const struct shard_request *rows, struct err *e);
void client_rows_clear(struct client_rows *r);

/* Writes the rows of a block in a step to `out` (most). Returns their number. */
size_t client_rows_of(struct client_rows *r, int block, uint64_t step, uint32_t *out);

#endif
