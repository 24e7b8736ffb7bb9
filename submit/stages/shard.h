/* shard -- the data package: the shard of each worker and the test set, as unlinked files, and the warning of
 * samples that are left out. The tensors of a shard, a part of the data set:
 *
 *   "x" (n, values of a sample; U8, F32 or I32 tokens) and "y" (n; I32 labels) or (n, targets; F32): the
 *       samples of its columns of shared/job/partition.h, column after column; the metadata "columns" lists
 *       these: "0-63,128-191"
 *   "lengths" (columns; I32): the number of samples of each column
 *   "scale", "shift", "augment": transforms for the loader (runner/loader.h)
 *
 * of text for a model of language (submit/data/token_stream.h), in place of "x" and "y":
 *   "tokens" (pieces, windows of a piece x time + 1; U8 or U16): the pieces of its columns, which "lengths"
 *       counts; the test set is one piece
 *   "topics" (pieces; I32): of each piece, if the text has topics
 *
 * and, if agents read the data set where it is (shared/job/data_place.h), in place of "tokens"
 *   "pieces" (pieces; I32): the numbers of the pieces in the set; the metadata "per_piece": the windows of
 *       one */
#ifndef PSGD_SUBMIT_SHARD_H
#define PSGD_SUBMIT_SHARD_H

#include "submit/data/preprocessing.h"
#include "submit/job/submission.h"

/* Facts "data", for run.json and validate: samples, classes or targets. */
void shard_note_data(struct submission *s, const struct dataset *d);

/* Fills s->shards, s->test, s->preprocessing and facts "preprocessing", and adds to facts "data", which
 * shard_note_data() has made, how the set is divided. `p`: the record of the data, learned from it or from
 * the weights that the job starts from; crop and flip are those of the settings. ERR_CONFIG: fewer samples
 * than one global batch, ... */
int shard_make(struct submission *s, const struct dataset *d, const struct preprocessing *p, struct err *e);

/* Writes a half of the data set, "train" or "test", for an evaluation: "x" (n, values of a sample) and "y",
 * if the labels or targets are known, in the order of the set, with the "scale" and "shift" of the record. */
int shard_write_half(const char *path, const struct dataset *d, const struct preprocessing *p,
                     const char *half, struct err *e);

/* "0-63,128-191" for ascending block numbers; adjacent blocks become one range. The caller frees it; NULL:
 * no memory. */
char *shard_columns(const int *blocks, int n, size_t samples);

#endif
