/* job_id -- the ids of jobs: "j-", then digits and small letters. They sort by time. */
#ifndef PSGD_SUBMIT_JOB_ID_H
#define PSGD_SUBMIT_JOB_ID_H

#include <stdbool.h>

enum { JOB_ID_MAX = 48 };

void job_id_new(char out[JOB_ID_MAX]);
/* Has the text, which may come from anywhere, the form of an id? So it may be a file's name. NULL: no. */
bool job_id_is_valid(const char *text);

#endif
