/* watchdog -- ends a runner whose codec does not return, by looping or by calling exit. A codec that loops
 * cannot be interrupted: its node would hold the machine silently until the job's time limit. So a timer
 * checks regularly how long the codec's call has taken; beyond the limit it reports that in the node's log
 * and to the agent, and ends the process; the other nodes notice it like any node that dies. An exit in the
 * middle of a codec's call would look like the end of a job: it is reported as a failure.
 *
 * Time in the codec is what the stopwatch counts as encode, decode or apply. Waiting has deadlines of its
 * own, and computing has no limit. */
#ifndef PSGD_WATCHDOG_H
#define PSGD_WATCHDOG_H

#include "agent/runner/report.h"
#include "agent/runner/stopwatch.h"

/* Watches from now on, until watchdog_stop or the end of the process. One per process, on the calling
 * thread; `watch` is borrowed until then. `limit_s`: what a call of codec `name` may take. ERR_IO,
 * ERR_NOMEM. */
int watchdog_start(const struct stopwatch *watch, double limit_s, const char *name, const struct report *r,
                   struct err *e);
void watchdog_stop(void);

#endif
