/* trainer_job -- the part of a job that comes from its training program (--trainer): its package, and the
 * model and the initial values, for which the program is asked on this machine (trainer_describe.h). */
#ifndef PSGD_SUBMIT_TRAINER_JOB_H
#define PSGD_SUBMIT_TRAINER_JOB_H

#include "submit/job/submission.h"

/* Reads and prints the program's files, starts it, and sets s->trainer, s->model, s->model_spec, s->weights,
 * s->n_batches, settings and facts "trainer", "model" and "start". The rule, the arguments and the local
 * steps are known. Errors as those of trainer_files_read() and trainer_describe(); ERR_CONFIG: the number of
 * steps is not known. */
int trainer_job_read(struct submission *s, struct err *e);

#endif
