#include "shared/partition.h"

#include <stdlib.h>
#include <string.h>

#include "shared/dataset.h"
#include "shared/rng.h"

/* Keep these streams apart from each other and from all others that the job's seed feeds. */
static const uint64_t stream_shuffle = 0x656c6666756873; /* "shuffle" */
static const uint64_t stream_order = 0x726564726f;       /* "order" */

/* Stable counting sort by label. */
static void sort_by_label(uint32_t *sorted, const uint32_t *items, size_t n, const int32_t *labels)
{
    size_t at[CLASSES_MAX + 2] = {0};

    for (size_t i = 0; i < n; i++)
        at[labels[items[i]] + 1]++;
    for (size_t k = 1; k <= CLASSES_MAX; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        sorted[at[labels[items[i]]]++] = items[i];
}

/* items (n_cols, n_rows) -> p->sample (n_rows, n_cols) */
static void fill_by_column(struct partition *p, const uint32_t *items)
{
    for (size_t c = 0; c < p->n_cols; c++)
        for (size_t r = 0; r < p->n_rows; r++)
            p->sample[r * p->n_cols + c] = items[c * p->n_rows + r];
}

int partition_init(struct partition *p, const int32_t *labels, size_t n, size_t n_cols, uint64_t seed,
                   bool non_iid, struct err *e)
{
    uint32_t *items = NULL;
    size_t used;
    struct rng r;

    if (n_cols == 0 || n < n_cols)
        return err_set(e, ERR_CONFIG, "%zu samples are fewer than one global batch of %zu", n, n_cols);
    if (n > UINT32_MAX)
        return err_set(e, ERR_CONFIG, "%zu samples, at most %u", n, UINT32_MAX);
    *p = (struct partition){.n_rows = n / n_cols, .n_cols = n_cols};
    used = p->n_rows * p->n_cols;
    items = malloc(n * sizeof *items);
    p->sample = malloc(n * sizeof *p->sample);
    if (!items || !p->sample) {
        free(items);
        partition_clear(p);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", n);
    }
    for (size_t i = 0; i < n; i++)
        items[i] = (uint32_t)i;
    rng_init(&r, seed, stream_shuffle, 0);
    rng_shuffle(&r, items, n);
    if (non_iid) {
        /* What is left out is chosen before sorting, so that it is not all of the last label. */
        sort_by_label(p->sample, items, used, labels);
        memcpy(items, p->sample, used * sizeof *items);
        fill_by_column(p, items);
    } else {
        memcpy(p->sample, items, used * sizeof *items);
    }
    free(items);
    return 0;
}

void partition_clear(struct partition *p)
{
    free(p->sample);
    *p = (struct partition){0};
}

void partition_order(uint32_t *order, size_t n_rows, uint64_t seed, uint64_t epoch, uint64_t col)
{
    struct rng r;

    for (size_t i = 0; i < n_rows; i++)
        order[i] = (uint32_t)i;
    rng_init(&r, seed ^ stream_order, epoch, col);
    rng_shuffle(&r, order, n_rows);
}
