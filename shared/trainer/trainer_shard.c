#include "shared/trainer/trainer_shard.h"

#include <stdlib.h>

enum { CLASSES_MAX = 1 << 24 };

/* The classes of the rows are 0 to the largest label. */
static int take_labels(struct partition_set *rows, const int32_t *labels, struct err *e)
{
    rows->labels = labels;
    for (size_t i = 0; labels && i < rows->n; i++) {
        if (labels[i] < 0 || labels[i] >= CLASSES_MAX)
            return err_set(e, ERR_TRAINER, "the label of row %zu is %d, expected 0 to %d", i, labels[i],
                           CLASSES_MAX - 1);
        rows->n_classes = labels[i] >= rows->n_classes ? labels[i] + 1 : rows->n_classes;
    }
    return 0;
}

/* The rows of the columns first .. first + n_cols - 1, in steps of one row of each; at most `n_steps`. */
static int take_columns(uint32_t **index, size_t *n, const struct partition *p, size_t first, size_t n_cols,
                        size_t n_steps, uint64_t seed, uint64_t epoch, struct err *e)
{
    uint32_t *order;

    *n = n_steps * n_cols;
    *index = malloc((*n + 1) * sizeof **index);
    order = malloc((partition_longest(p, first, n_cols) + 1) * sizeof *order);
    if (!*index || !order) {
        free(*index);
        free(order);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu rows", *n);
    }
    for (size_t c = 0; c < n_cols; c++) {
        const uint32_t *rows = p->sample + p->start[first + c];

        partition_order(order, partition_longest(p, first + c, 1), seed, epoch, first + c);
        for (size_t step = 0; step < n_steps; step++)
            (*index)[step * n_cols + c] = rows[order[step]];
    }
    free(order);
    return 0;
}

static int check_rows(const struct partition_rule *rule, const struct settings *set,
                      const struct shard_request *q, struct err *e)
{
    size_t n_each = q->n_rows / (size_t)set->node_count;

    if (n_each == 0)
        return err_set(e, ERR_TRAINER, "the data has %zu row%s, and the job %d workers", q->n_rows,
                       q->n_rows == 1 ? "" : "s", set->node_count);
    if (q->batch > n_each)
        return err_set(e, ERR_TRAINER,
                       "the data has %zu rows for each of %d workers, less than a batch of %zu", n_each,
                       set->node_count, q->batch);
    if (rule->kind == PARTITION_COLUMN)
        return err_set(e, ERR_TRAINER, "--partition %s is for data sets of psgd, which have columns",
                       set->partition);
    if (!q->labels && rule->kind != PARTITION_IID)
        return err_set(e, ERR_TRAINER, "--partition %s divides rows by their labels, and shard() got none",
                       set->partition);
    return 0;
}

static size_t columns_of(const struct shard_request *q)
{
    return q->batch > 0 ? q->batch : 1;
}

int trainer_shard_divide(struct partition *out, const struct settings *set, size_t n_blocks,
                         const struct shard_request *q, struct err *e)
{
    struct partition_set rows = {.n = q->n_rows};
    struct partition_rule rule;

    if (partition_rule_parse(&rule, set->partition, e) < 0 || check_rows(&rule, set, q, e) < 0 ||
        take_labels(&rows, q->labels, e) < 0)
        return e->code;
    if (partition_init(out, &rows, &rule, n_blocks, columns_of(q), set->seed, e) < 0)
        return e->code = e->code == ERR_CONFIG ? ERR_TRAINER : e->code;
    return 0;
}

int trainer_shard_make(uint32_t **index, size_t *n, const struct settings *set, int node,
                       const struct shard_request *q, struct err *e)
{
    size_t n_cols = columns_of(q), first = (size_t)node * n_cols;
    struct partition p;
    int rc;

    if (trainer_shard_divide(&p, set, (size_t)set->node_count, q, e) < 0)
        return e->code;
    rc = take_columns(index, n, &p, first, n_cols, q->batch > 0 ? p.n_rows : partition_longest(&p, first, 1),
                      set->seed, q->epoch, e);
    partition_clear(&p);
    return rc;
}
