#include "sim/client_rows.h"

#include <stdlib.h>

static void order_block(struct client_rows *r, size_t block, uint64_t epoch)
{
    for (size_t c = block * r->batch; c < (block + 1) * r->batch; c++)
        partition_order(r->order + r->p.start[c], r->p.start[c + 1] - r->p.start[c], r->seed, epoch, c);
    r->epochs[block] = epoch;
}

/* The program is started several times, and job_submit has counted the steps of an epoch at the first. */
static int check_steps(const struct client_rows *r, struct err *e)
{
    if (!r->is_batched || r->p.n_rows >= r->n_steps)
        return 0;
    return err_set(
        e, ERR_TRAINER,
        "the %zu rows of client() give %zu steps of an epoch, and an epoch of the job has %zu: the "
        "program is started several times, and must read the same data each time",
        r->n_rows, r->p.n_rows, r->n_steps);
}

int client_rows_init(struct client_rows *r, const struct settings *set, const struct blocks *b,
                     bool is_batched, const struct shard_request *rows, struct err *e)
{
    size_t batch = is_batched ? (size_t)set->batch_size : 1, n_blocks = (size_t)b->n_blocks;
    const struct shard_request request = {.n_rows = rows->n_rows, .labels = rows->labels, .batch = batch};

    *r = (struct client_rows){.n_rows = rows->n_rows,
                              .is_batched = is_batched,
                              .n_steps = is_batched ? (size_t)set->steps_per_epoch : 1,
                              .batch = batch,
                              .seed = set->seed};
    if (trainer_shard_divide(&r->p, set, n_blocks, &request, e) < 0)
        return e->code;
    if (check_steps(r, e) < 0) {
        client_rows_clear(r);
        return e->code;
    }
    r->most = is_batched ? batch : partition_longest(&r->p, 0, r->p.n_cols);
    r->order = malloc(r->p.start[r->p.n_cols] * sizeof *r->order);
    r->epochs = malloc(n_blocks * sizeof *r->epochs);
    if (!r->order || !r->epochs) {
        client_rows_clear(r);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu rows", rows->n_rows);
    }
    for (size_t i = 0; i < n_blocks; i++)
        order_block(r, i, 0);
    return 0;
}

void client_rows_clear(struct client_rows *r)
{
    partition_clear(&r->p);
    free(r->order);
    free(r->epochs);
    *r = (struct client_rows){0};
}

static uint32_t row_at(const struct client_rows *r, size_t column, size_t i)
{
    size_t start = r->p.start[column];

    return r->p.sample[start + r->order[start + i]];
}

size_t client_rows_of(struct client_rows *r, int block, uint64_t step, uint32_t *out)
{
    size_t first = (size_t)block * r->batch, at = (size_t)(step % r->n_steps);

    if (r->p.n_cols == 0)
        return 0;
    if (!r->is_batched) {
        size_t n = r->p.start[first + 1] - r->p.start[first];

        for (size_t i = 0; i < n; i++)
            out[i] = row_at(r, first, i);
        return n;
    }
    if (r->epochs[block] != step / r->n_steps)
        order_block(r, (size_t)block, step / r->n_steps);
    for (size_t c = 0; c < r->batch; c++)
        out[c] = row_at(r, first + c, at);
    return r->batch;
}
