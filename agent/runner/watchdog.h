/* watchdog -- ends a runner whose codec does not come back, by looping or by calling exit. Nobody can
 * interrupt a codec that loops: its node would hold the machine until the job's time limit, and say nothing.
 * So a timer looks once in a while how long the codec has been at it, and where that is too long says so in
 * the node's log and to the agent, and ends the process; the other nodes hear of it as of any node that dies.
 * An exit in the middle of a codec's call would look like a job that is done: it is told as a failure.
 *
 * What is the codec's is what the stopwatch counts as encode, decode or apply. Waiting has deadlines of its
 * own, and computing takes as long as it takes. */
#ifndef PSGD_WATCHDOG_H
#define PSGD_WATCHDOG_H

#include "agent/runner/report.h"
#include "agent/runner/stopwatch.h"

/* From now on, until the process ends, or watchdog_stop. One to a process, whose thread is the one that
 * calls; `watch` is borrowed until then. `limit_s`: what a call of codec `name` may take. ERR_IO. */
int watchdog_start(const struct stopwatch *watch, double limit_s, const char *name, const struct report *r,
                   struct err *e);
void watchdog_stop(void);

#endif
