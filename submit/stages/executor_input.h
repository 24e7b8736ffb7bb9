/* executor_input -- the data package of an executor: each node's shard of the bytes of --data, as an unlinked
 * file. A shard has the tensor "input" (bytes + 1; U8): its bytes and a 0. */
#ifndef PSGD_SUBMIT_EXECUTOR_INPUT_H
#define PSGD_SUBMIT_EXECUTOR_INPUT_H

#include "submit/job/submission.h"

/* Where each of n_nodes shards of the bytes begins, (n_nodes + 1): consecutive, as equal as possible.
 * Text, which has no zero byte, is cut behind a line feed; other bytes at multiples of 8. */
void input_cut(size_t *starts, int n_nodes, const char *bytes, size_t n);

/* Fills s->shards and facts "input". Without --data all shards are empty. ERR_NOT_FOUND, ERR_CONFIG: a
 * folder without files, or with another folder; more than 4 GiB. */
int input_make(struct submission *s, struct err *e);

#endif
