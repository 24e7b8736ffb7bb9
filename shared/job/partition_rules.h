/* partition_rules -- the rules that assign samples to blocks, one function each (partition.h has their
 * sources). Each rearranges `items`, all samples in shuffled order, so that block k's are
 * items[begin[k]] .. items[begin[k + 1] - 1]; items after the last block are left out. */
#ifndef PSGD_PARTITION_RULES_H
#define PSGD_PARTITION_RULES_H

#include <stdbool.h>

#include "shared/base/rng.h"
#include "shared/job/partition.h"

struct deal {
    const struct partition_set *set;
    uint32_t *items; /* (set->n) */
    size_t n_blocks, batch;
    size_t *begin; /* (n_blocks + 1): as equal as columns are, up to set->n, or set by the rule */
    struct rng rng;
};

/* Sorted by label or by the first target. */
int deal_sorted(struct deal *d, struct err *e);
/* ERR_CONFIG: more shards than a block has samples. */
int deal_shards(struct deal *d, size_t n_shards, struct err *e);
int deal_dirichlet(struct deal *d, double alpha, struct err *e);
/* Sets `begin`: blocks have what their labels have. ERR_CONFIG: more labels than exist, or a block shorter
 * than a batch. */
int deal_labels(struct deal *d, size_t n_labels, struct err *e);
/* Sets `begin`: blocks have whole groups. ERR_CONFIG: fewer groups than blocks, or a block shorter than a
 * batch. */
int deal_groups(struct deal *d, struct err *e);

#endif
