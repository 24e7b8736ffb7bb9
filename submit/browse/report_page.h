/* report_page -- report.html: the page with the documents of one job, in one file that needs no network. It
 * has at most a few MB, whatever the number of nodes and rows. */
#ifndef PSGD_SUBMIT_REPORT_PAGE_H
#define PSGD_SUBMIT_REPORT_PAGE_H

#include <jansson.h>

#include "shared/base/err.h"

/* The page of a folder of results, as text that the caller frees. `run`: the contents of its run.json; NULL:
 * they are read from there. ERR_NOT_FOUND, ERR_CONFIG: it has no valid one. ERR_NOMEM. */
int report_text(char **out, size_t *len, const char *folder, json_t *run, struct err *e);

#endif
