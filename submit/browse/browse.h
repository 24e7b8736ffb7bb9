/* browse -- the page with all jobs: those of result folders, and those that agents have. */
#ifndef PSGD_BROWSE_BROWSE_H
#define PSGD_BROWSE_BROWSE_H

#include "submit/options/submit_options.h"

/* Serves the page until a signal; `dir`: the folder of results, or of many. */
int browse(const struct options *o, const char *dir, struct err *e);

#endif
