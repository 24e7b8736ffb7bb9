#include "shared/trainer/trainer_shard.h"

#include <stdlib.h>

#include "shared/job/partition.h"

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

/* The rows of one column, in the order of the first epoch. */
static int take_column(uint32_t **index, size_t *n, const struct partition *p, size_t column, uint64_t seed,
                       struct err *e)
{
    const uint32_t *rows = p->sample + p->start[column];
    uint32_t *order;

    *n = p->start[column + 1] - p->start[column];
    *index = malloc((*n + 1) * sizeof **index);
    order = malloc((*n + 1) * sizeof *order);
    if (!*index || !order) {
        free(*index);
        free(order);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu rows", *n);
    }
    partition_order(order, *n, seed, 0, column);
    for (size_t i = 0; i < *n; i++)
        (*index)[i] = rows[order[i]];
    free(order);
    return 0;
}

static int check_rows(const struct partition_rule *rule, const struct settings *set, size_t n_rows,
                      const int32_t *labels, struct err *e)
{
    if (n_rows < (size_t)set->node_count)
        return err_set(e, ERR_TRAINER, "the data has %zu row%s, and the job %d workers", n_rows,
                       n_rows == 1 ? "" : "s", set->node_count);
    if (rule->kind == PARTITION_COLUMN)
        return err_set(e, ERR_TRAINER, "--partition %s is for data sets of psgd, which have columns",
                       set->partition);
    if (!labels && rule->kind != PARTITION_IID)
        return err_set(e, ERR_TRAINER, "--partition %s divides rows by their labels, and shard() got none",
                       set->partition);
    return 0;
}

int trainer_shard_make(uint32_t **index, size_t *n, const struct settings *set, int node, size_t n_rows,
                       const int32_t *labels, struct err *e)
{
    struct partition_set rows = {.n = n_rows};
    struct partition_rule rule;
    struct partition p;
    int rc;

    if (partition_rule_parse(&rule, set->partition, e) < 0 || check_rows(&rule, set, n_rows, labels, e) < 0 ||
        take_labels(&rows, labels, e) < 0)
        return e->code;
    if (partition_init(&p, &rows, &rule, (size_t)set->node_count, 1, set->seed, e) < 0)
        return e->code = e->code == ERR_CONFIG ? ERR_TRAINER : e->code;
    rc = take_column(index, n, &p, (size_t)node, set->seed, e);
    partition_clear(&p);
    return rc;
}
