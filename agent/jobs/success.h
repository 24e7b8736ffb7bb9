/* success -- whether a node that reports success has done its job. The codec's code runs in the process that
 * reports, and could write the report itself. So the agent, in which no codec runs, compares the report with
 * the job's settings and model, with the files that the node has left, and with the progress that the agent
 * has seen. A codec that writes all of these so that they agree has left a complete result; how good the
 * model is, only a test shows. For an executor, whose result is the files that it writes, the agent has only
 * the progress: the host reports the last percent when the executor's function has returned. */
#ifndef PSGD_SUCCESS_H
#define PSGD_SUCCESS_H

#include "agent/jobs/jobs.h"

/* Call when the runner has ended and its lines are read. `message`: what the node has done. ERR_REFUSED: the
 * report is wrong, and *e has the reason. ERR_NOMEM, ERR_IO: the agent cannot check it. */
int success_check(const struct task *t, char message[MESSAGE_MAX], struct err *e);

#endif
