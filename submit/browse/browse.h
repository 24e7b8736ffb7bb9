/* browse -- `job_submit browse`: serves the page with the jobs in result folders and on agents. */
#ifndef PSGD_BROWSE_BROWSE_H
#define PSGD_BROWSE_BROWSE_H

#include "submit/options/submit_options.h"

/* Serves the page until a signal. `dirs`: n folders of results, or folders with such folders. */
int browse(const struct options *o, const char *const *dirs, size_t n, struct err *e);

#endif
