/* report_page -- report.html in a folder of results: the page with the documents of one job, in one file that
 * needs no network, of bounded size: so many points, nodes and lines of the log. It has at most a few MB. */
#ifndef PSGD_SUBMIT_REPORT_PAGE_H
#define PSGD_SUBMIT_REPORT_PAGE_H

#include <jansson.h>

#include "submit/job/submission.h"

/* The page of a folder of results, as text that the caller frees. `run`: the contents of its run.json; NULL:
 * they are read from there. ERR_NOT_FOUND, ERR_CONFIG: the folder has no valid run.json. ERR_NOMEM. */
int report_page_text(char **out, size_t *len, const char *folder, json_t *run, struct err *e);

/* Replaces report.html by the page of `run`, the folder's run.json; then sets the page's length and SHA-256
 * in `run` and replaces run.json. Each file is replaced as a whole. ERR_IO, ERR_NOMEM. */
int report_page_save(const char *folder, json_t *run, struct err *e);

/* Writes report.html into the folder of a job that has all other results but README.txt and run.json. ERR_IO,
 * ERR_NOMEM. */
int report_page_add(struct submission *s, struct err *e);

#endif
