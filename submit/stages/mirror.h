/* mirror -- copies of the nodes' checkpoints in the result folder while a job with --retries runs: a lost
 * machine takes its checkpoint with it, and each node of the next attempt needs its own. */
#ifndef PSGD_SUBMIT_MIRROR_H
#define PSGD_SUBMIT_MIRROR_H

#include "submit/job/submission.h"

#define MIRROR_FOLDER "mirror"

/* {0} begins. */
struct mirror {
    int epoch;         /* of the copies */
    int *fds;          /* (s->n_nodes) of the downloads; NULL: none run. Owned */
    double not_before; /* clock_now: of the next try */
};

/* Call often; does not block. Downloads the checkpoints once all workers are beyond the epoch of one, and
 * keeps them if they are of the same point of the job. What fails is tried again. */
void mirror_look(struct mirror *m, struct submission *s);
/* Ends the downloads. */
void mirror_close(struct mirror *m, struct submission *s);
/* After a success: the copies are of no use. */
void mirror_remove(const struct submission *s);

#endif
