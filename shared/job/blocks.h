/* blocks -- the parts into which the global batch of a step is divided, and the workers that hold them:
 * n_blocks blocks of batch_size samples, each held by `redundancy` workers. The assignments are
 *   iid  one block for each subset of r = redundancy of the n workers, in lexicographic order: C(n, r) blocks
 *   dup  n / r blocks, block k held by workers k r .. k r + r - 1 (n must be a multiple of r)
 * A ratio gives each block one holder: "2,1,1" makes four blocks, of which worker 0 holds the first two.
 * If workers share the mini-batches (runner/exchange/feed.h), every worker has all samples, as of a single
 * block. A codec still sees one block per worker: the mini-batch that the worker computes. */
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
 * numbers are the same and above 1. So if is_equal and no block is redundant, worker k holds block k. */
int blocks_init_ratio(struct blocks *b, const char *ratio, int n_nodes, struct err *e);
/* Returns the number of blocks that a node holds by a ratio that blocks_init_ratio() accepts; 1 if it is
 * "". */
int blocks_in_ratio(const char *ratio, int node);
int blocks_init_shared(struct blocks *b, int n_nodes, struct err *e);
void blocks_clear(struct blocks *b);

bool blocks_holds(const struct blocks *b, int block, int node);
/* Returns the number of blocks whose batches make up a row of the partition. */
int blocks_in_row(const struct blocks *b);
/* Writes the blocks of which a node has the samples, ascending, to `out` (n_blocks). Returns their number. */
int blocks_of(const struct blocks *b, int node, int *out);
/* Returns the random stream of a block in a step, unique in the job: all workers that hold the block use
 * the same dropout, and so get the same gradient. */
uint64_t blocks_stream(const struct blocks *b, uint64_t step, int block);

#endif
