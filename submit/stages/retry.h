/* retry -- further attempts of a job: --retries N --retry-on REASON,... An attempt that fails for one of
 * these reasons is followed by another one, with the same id, on the agents that answer and on spares, from
 * the last checkpoint that exists for all nodes. Agents refuse requests of an earlier attempt
 * (docs/protocol.md 1.4).
 *
 * While the job runs, the nodes' checkpoints are copied to FOLDER/mirror: a lost machine takes its checkpoint
 * with it, and each node of the next attempt needs its own.
 *
 * The result folder is that of the latest attempt. FOLDER/attempts/K has the results of attempt K; records/
 * begin with its rows up to that checkpoint. facts.attempts in run.json lists the attempts. */
#ifndef PSGD_SUBMIT_RETRY_H
#define PSGD_SUBMIT_RETRY_H

#include "submit/job/submission.h"

/* True if the attempt, which has ended, is to be followed by another one. */
bool retry_is_due(const struct submission *s);
/* Makes `s` the next attempt, whose results are not written yet. */
int retry_begin(struct submission *s, struct err *e);
/* Before the first result of a later attempt is written: moves those of the attempt before to
 * FOLDER/attempts. */
int retry_set_aside(const struct submission *s, struct err *e);

/* Copies of the checkpoints of a running job; {0}: none yet. */
struct checkpoint_copies {
    uint64_t step;     /* of the copies */
    int *fds;          /* (s->n_nodes) of the downloads; NULL: none run. Owned */
    double not_before; /* clock_now: of the next downloads */
};

/* Call often; does not block, and does nothing without --retries. Downloads the checkpoints of a step once
 * all workers have completed it, and keeps them if they are of the same point of the job. A failed copy is
 * repeated. */
void retry_copy_checkpoints(struct checkpoint_copies *c, struct submission *s);
/* Ends the downloads, without waiting for them. */
void retry_stop_copying(struct checkpoint_copies *c, struct submission *s);
/* After a success, when the copies are of no use. */
void retry_remove_copies(const struct submission *s);

#endif
