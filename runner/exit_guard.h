/* exit_guard -- reports a codec that calls exit: an exit with status 0 in the middle of a call would look
 * like the end of a job. This gives the author of such a codec a clear message. A codec that calls _exit
 * leaves no end line, and the agent reports that. monitor/monitor.h ends a codec that loops. */
#ifndef PSGD_EXIT_GUARD_H
#define PSGD_EXIT_GUARD_H

#include "runner/base/stopwatch.h"
#include "runner/lines/report.h"

/* Until exit_guard_end, an exit while the stopwatch is in the codec, or other `kind` of plug-in, `name`
 * ends the process with status 1 and is reported. One per process; `watch` and `r` are borrowed until
 * then. ERR_NOMEM. */
int exit_guard_begin(const struct stopwatch *watch, const char *kind, const char *name, struct report *r,
                     struct err *e);
void exit_guard_end(void);

#endif
