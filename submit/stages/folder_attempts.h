/* folder_attempts -- the earlier attempts of a job without agents, which stay in its folder: their results
 * are collected below those of the latest one, whose records then begin with theirs, as after --retries. */
#ifndef PSGD_SUBMIT_FOLDER_ATTEMPTS_H
#define PSGD_SUBMIT_FOLDER_ATTEMPTS_H

#include "submit/job/submission.h"

/* Takes results_lock() and collects the attempts before the latest one that are not there yet, each into its
 * folder of results_of_attempt(); notes in s->facts from where the latest went on. Call before
 * stage_collect(); no effect on a job on agents. Errors as of stage_collect(). */
int folder_attempts_collect(struct submission *s, struct err *e);

#endif
