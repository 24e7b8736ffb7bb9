/* job_id -- the id of a job: "j-", then digits and small letters. Ids sort by the time of their jobs. */
#ifndef PSGD_SUBMIT_JOB_ID_H
#define PSGD_SUBMIT_JOB_ID_H

#include <stdbool.h>

enum { JOB_ID_MAX = 48 };

void job_id_new(char out[JOB_ID_MAX]);
/* Does an untrusted text have the form of an id, so that it is safe as the name of a file? NULL: no. */
bool job_id_is_valid(const char *text);

#endif
