/* success -- whether a node that reports success has done its job. The codec's code runs in the process that
 * reports, and could write the report itself, so the agent, in which no codec runs, compares it with what
 * the job's settings and model ask for, with the files that the node has left, and with the progress that it
 * has seen. A codec that writes all of these so that they agree has left a complete result; only a test
 * shows how good its model is. Of an executor, whose result is what it has written, the agent has only the
 * progress: the host reports the last percent when the function has returned. */
#ifndef PSGD_SUCCESS_H
#define PSGD_SUCCESS_H

#include "agent/jobs/jobs.h"

/* Call when the runner has ended and its lines are read. `message`: what the node has done. ERR_REFUSED: the
 * report is wrong, and *e has why. ERR_NOMEM, ERR_IO: this agent cannot tell. */
int success_check(const struct task *t, char message[MESSAGE_MAX], struct err *e);

#endif
