/* blocks -- assignment of blocks of the global batch to workers. A global batch is n_blocks blocks of
 * batch_size samples; each block is held by `redundancy` workers.
 *   iid  all redundancy-subsets of the workers, in lexicographic order: C(n, r) blocks
 *   dup  n / r blocks, block k held by workers k r .. k r + r - 1 (n must be a multiple of r)
 * or, with one holder each, in a ratio: "2,1,1" makes four blocks, of which worker 0 holds the first two;
 * or, where workers share the mini-batches (runner/exchange/feed.h), all samples as if they were one
 * block, which every worker has. For the rule there is a block for each worker, the mini-batch that it
 * computes. */
#ifndef PSGD_BLOCKS_H
#define PSGD_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

#define BLOCK_ASSIGNMENT_CHOICES "iid|dup"
enum block_assignment { BLOCKS_IID, BLOCKS_DUP };

enum { BLOCKS_MAX = 65536 };

struct blocks {
    int n_nodes, n_blocks, redundancy;
    int *holders;   /* (n_blocks, redundancy), ascending in each row */
    bool is_equal;  /* do all workers hold the same number of blocks? */
    bool is_shared; /* do workers share the mini-batches? */
};

/* ERR_CONFIG: n and r do not fit the assignment, or there would be more than BLOCKS_MAX blocks. */
int blocks_init(struct blocks *b, enum block_assignment assignment, int n_nodes, int redundancy,
                struct err *e);
/* ERR_CONFIG: `ratio` is not n_nodes whole numbers, each at least 1, with a sum of at most BLOCKS_MAX; or all
 * are the same, but not 1. So is_equal without redundancy means that block k is worker k's. */
int blocks_init_ratio(struct blocks *b, const char *ratio, int n_nodes, struct err *e);
/* The number of a node's blocks by a ratio that blocks_init_ratio() takes; "": 1. */
int blocks_in_ratio(const char *ratio, int node);
int blocks_init_shared(struct blocks *b, int n_nodes, struct err *e);
void blocks_clear(struct blocks *b);

bool blocks_holds(const struct blocks *b, int block, int node);
/* Returns the number of blocks whose batches make up a row of the partition. */
int blocks_in_row(const struct blocks *b);
/* Writes the blocks whose samples a node has, ascending, to `out` (n_blocks). Returns their number. */
int blocks_of(const struct blocks *b, int node, int *out);
/* Returns the random stream of a block in a step, unique in the job: all workers that hold the block use
 * the same dropout, and so get the same gradient. */
uint64_t blocks_stream(const struct blocks *b, uint64_t step, int block);

#endif
