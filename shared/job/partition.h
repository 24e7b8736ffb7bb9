/* partition -- assignment of samples to nodes and steps.
 *
 * The training set is divided into n_cols columns, `batch` of them for each block: block k has columns k
 * batch .. (k + 1) batch - 1. An epoch has n_rows steps, a step takes one sample of each column: the global
 * batch. Each epoch permutes every column separately (seed, epoch, column) and uses its first n_rows samples.
 * So batches differ from epoch to epoch. Of a column with more than n_rows samples, other samples are left
 * out in each epoch, as by a shuffling loader that drops the last batch: a sample of a column of L is used in
 * n_rows of L epochs. A node keeps the columns of its blocks and needs no samples of other nodes. The global
 * batch of a step is therefore the same whether one node holds 128 columns or two hold 64 each.
 *
 * Rules that assign samples to blocks, a function of the job's seed. Columns differ by at most one sample,
 * except with labels:K and column:NAME:
 *   iid              shuffled
 *   label_sorted     sorted by label (or first target), block after block: few labels each, the same
 *                    ones in every epoch. Make_Non_IID of Parallel-SGD
 *   true_non_iid:D   label_sorted, then the first fraction D (0 .. 1) of the global batches shuffled among
 *                    themselves. True_Non_IID of Parallel-SGD
 *   shards:N         sorted by label and cut; each block gets N chunks. McMahan et al.,
 *                    "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
 *                    2017, section 3 (there N = 2)
 *   dirichlet:A      each block draws its labels by q ~ Dir(A p), p the labels of the set; A = 0.1 is far
 *                    from iid, 100 near. Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data
 *                    Distribution for Federated Visual Classification", 2019
 *   labels:K         each block has K labels; blocks with the same label divide its samples. Li, Diao, Chen
 *                    and He, "Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022,
 *                    "#C = K"; there labels are drawn, here they are assigned in turn, in a shuffled
 *                    order, so that all are used equally often. An epoch is as long as the block with the
 *                    fewest samples allows. If blocks x K is less than the number of labels, the job
 *                    leaves out the labels that no block has.
 *   column:NAME      a block has whole groups: the samples with the same value in that column, as a user's or
 *                    a writer's. Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018, where a
 *                    device is a group; if there are fewer blocks than groups, these are assigned from
 *                    the largest to the smallest, each to the block with the fewest samples so far. An
 *                    epoch is as long as with labels:K */
#ifndef PSGD_PARTITION_H
#define PSGD_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum partition_kind {
    PARTITION_IID,
    PARTITION_LABEL_SORTED,
    PARTITION_TRUE_NON_IID,
    PARTITION_SHARDS,
    PARTITION_DIRICHLET,
    PARTITION_LABELS,
    PARTITION_COLUMN,
    N_PARTITION_KINDS
};

struct partition_rule {
    enum partition_kind kind;
    double amount;    /* number after the colon */
    const char *name; /* of the column; it points into the text */
};

/* ERR_CONFIG: unknown rule, or its number is missing, invalid, or out of range. */
int partition_rule_parse(struct partition_rule *r, const char *text, struct err *e);

struct partition_set { /* the data to divide; owned by the caller */
    size_t n;
    const int32_t *labels; /* (n), each 0 .. n_classes - 1; NULL: targets */
    int n_classes;
    const float *targets; /* (n, n_targets) */
    int n_targets;
    const uint32_t *groups; /* (n), each 0 .. n_groups - 1; NULL: none */
    size_t n_groups;
};

struct partition {
    size_t n_rows, n_cols; /* steps per epoch, global batch */
    size_t *start;         /* (n_cols + 1): column c has sample[start[c]] .. sample[start[c + 1] - 1] */
    uint32_t *sample;      /* (start[n_cols]): index into the training set; other samples are not used */
};

/* `n_blocks` blocks of `batch` columns. ERR_CONFIG: fewer samples than one global batch, or the rule needs
 * labels, more labels, groups, more groups, or longer blocks. */
int partition_init(struct partition *p, const struct partition_set *set, const struct partition_rule *rule,
                   size_t n_blocks, size_t batch, uint64_t seed, struct err *e);
void partition_clear(struct partition *p);

/* Samples of the longest of the columns first .. first + n_cols - 1. */
size_t partition_longest(const struct partition *p, size_t first, size_t n_cols);

/* order[t]: which of the n samples of column `col` step t of the epoch uses; those after the last step are
 * not used in this epoch. */
void partition_order(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch, uint64_t col);

#endif
