/* jobs_open -- opens the jobs of a folder: the rules for codecs and training programs, the blobs, and the
 * limits that no option gives. */
#ifndef PSGD_JOBS_OPEN_H
#define PSGD_JOBS_OPEN_H

#include "agent/jobs/jobs.h"

/* Opens jobs->opt->dir, which exists, is an absolute path and is locked. The members opt, loop and address
 * must be set, and dir_fd is -1. ERR_IO, ERR_NOMEM, ERR_CONFIG, ERR_USAGE. */
int jobs_open(struct jobs *jobs, struct err *e);
void jobs_close(struct jobs *jobs); /* also after an error of jobs_open() */

#endif
