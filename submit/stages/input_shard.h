/* input_shard -- the shards of executors, each a part of the bytes of --data, as unlinked files. A shard has
 * one tensor, "input" (bytes + 1; U8): the bytes and a 0. */
#ifndef PSGD_SUBMIT_INPUT_SHARD_H
#define PSGD_SUBMIT_INPUT_SHARD_H

#include "submit/job/submission.h"

/* Divides n bytes among n_nodes: starts (n_nodes + 1) are where the shards begin, which are consecutive and
 * as equal as possible. Text, which has no zero byte, is cut behind a line feed; other bytes at multiples of
 * 8. */
void input_shard_cut(size_t *starts, int n_nodes, const char *bytes, size_t n);

/* The shards of an executor: fills s->shards and facts "input". Without --data all shards are empty.
 * ERR_NOT_FOUND; ERR_CONFIG: a folder without files, neither a file nor a folder, more than 4 GiB. */
int input_shard_make(struct submission *s, struct err *e);

#endif
