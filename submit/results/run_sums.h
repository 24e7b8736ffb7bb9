/* run_sums -- what is added up, or decided, over the nodes of a job, for run.json and the table. */
#ifndef PSGD_SUBMIT_RUN_SUMS_H
#define PSGD_SUBMIT_RUN_SUMS_H

#include "submit/job/submission.h"

/* Sums the bytes of all nodes and the step times of the workers; a server only waits. *least: the smallest
 * fraction of step time that any worker spends exchanging, which is the worker the others wait for; NAN: no
 * worker has reported. */
struct comm run_comm(const struct submission *s, double *least);
/* Does the codec take longer, to read and write messages, than computing, and than sending and waiting? Its
 * apply() is counted with the optimizer's update. */
bool run_is_bound_by_codec(const struct comm *c);
/* What limits the speed of the job: compute (faster workers help), the codec (a quicker rule or compressor
 * helps), communication (a faster network or fewer messages help), or the slowest worker (equally fast
 * workers help). */
const char *run_bound(const struct comm *sum, double least);
/* The mean of a double at `offset` in struct progress_view, over the workers that have the number; NAN: none
 * has. A worker that the job has lost does not count. *differ: they do not all have the same. of_batch: it
 * is of each worker's last batch, and counts with its samples (--block-ratio); else of the test set, which is
 * the same for all. */
double run_mean(const struct submission *s, size_t offset, bool of_batch, bool *differ);
/* Why training ended early: on all workers for the same reason, as their first one states it. */
const struct stop *run_stopped(const struct submission *s);

#endif
