/* partition -- which sample is seen when and by whom.
 *
 * The training set is laid out as a matrix of n_rows x n_cols samples: a row is a global batch, and block k
 * owns columns k batch .. (k + 1) batch - 1. What does not fill a row is left out. Each epoch permutes every
 * column by itself (seed, epoch, column), so that batches mix anew while a node keeps the columns of its
 * blocks and needs nobody else's samples. The global batch of a step is therefore the same whether one node
 * holds 128 columns or two hold 64 each.
 *
 * How samples come to blocks, all of it decided by the one seed of the job; all blocks are equally long:
 *   iid              shuffled
 *   label_sorted     sorted by label (or first target), block after block: few labels each, always the same
 *                    ones. The ancestor's Make_Non_IID
 *   true_non_iid:D   label_sorted, then the first share D (0 .. 1) of the global batches shuffled among
 *                    themselves. The ancestor's True_Non_IID
 *   shards:N         sorted by label and cut; each block gets N pieces. McMahan et al.,
 *                    "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
 *                    2017, section 3 (there N = 2)
 *   dirichlet:A      each block draws its labels by q ~ Dir(A p), p the labels of the set; A = 0.1 is far
 *                    from iid, 100 near. Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data
 *                    Distribution for Federated Visual Classification", 2019
 *   labels:K         each block sees K labels, and those who share a label divide its samples. Li, Diao, Chen
 *                    and He, "Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022,
 *                    "#C = K"; there labels are drawn, here dealt round in a shuffled order, so that all
 *                    serve equally often. What cannot be divided equally is left out. */
#ifndef PSGD_PARTITION_H
#define PSGD_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

enum partition_kind {
    PARTITION_IID,
    PARTITION_LABEL_SORTED,
    PARTITION_TRUE_NON_IID,
    PARTITION_SHARDS,
    PARTITION_DIRICHLET,
    PARTITION_LABELS,
    N_PARTITION_KINDS
};

struct partition_rule {
    enum partition_kind kind;
    double amount; /* what stands behind the colon */
};

/* ERR_CONFIG: no such rule, or its number is missing, not one, or out of range. */
int partition_rule_parse(struct partition_rule *r, const char *text, struct err *e);

struct partition_set { /* what is divided, borrowed */
    size_t n;
    const int32_t *labels; /* (n), each 0 .. n_classes - 1; NULL: targets */
    int n_classes;
    const float *targets; /* (n, n_targets) */
    int n_targets;
};

struct partition {
    size_t n_rows, n_cols; /* steps per epoch, global batch */
    uint32_t *sample;      /* (n_rows, n_cols): index into the training set */
};

/* `n_blocks` blocks of `batch` columns. ERR_CONFIG: fewer samples than one global batch, or the rule needs
 * labels, more of them, or longer blocks. */
int partition_init(struct partition *p, const struct partition_set *set, const struct partition_rule *rule,
                   size_t n_blocks, size_t batch, uint64_t seed, struct err *e);
void partition_clear(struct partition *p);

/* order[t] = the row from which `col` takes its sample in step t of the epoch. */
void partition_order(uint32_t *order, size_t n_rows, uint64_t seed, uint64_t epoch, uint64_t col);

#endif
