/* report_file -- report.html in a folder of results, with its line in run.json. */
#ifndef PSGD_SUBMIT_REPORT_FILE_H
#define PSGD_SUBMIT_REPORT_FILE_H

#include <jansson.h>

#include "submit/job/submission.h"

/* Replaces report.html by the page of `run`, the folder's run.json, and then that file by `run` with the
 * page's length and SHA-256, which are set. Each is replaced as a whole. ERR_IO, ERR_NOMEM. */
int report_file_write(const char *folder, json_t *run, struct err *e);

/* Writes report.html into the folder of a job that has all other results but README.txt and run.json. ERR_IO,
 * ERR_NOMEM. */
int report_file_add(struct submission *s, struct err *e);

#endif
