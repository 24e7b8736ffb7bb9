/* stopped -- why a job's training has ended before its last epoch was done, in a sentence for the user. */
#ifndef PSGD_SUBMIT_STOPPED_H
#define PSGD_SUBMIT_STOPPED_H

#include "shared/job/stop.h"
#include "submit/job/submission.h"

enum { STOP_TEXT = 256 };

/* `why` is not STOP_NONE. Returns `out`. */
const char *stopped_text(char out[STOP_TEXT], const struct stop *why, const struct submission *s);

#endif
