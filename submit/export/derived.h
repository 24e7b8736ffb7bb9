/* derived -- what else is made of a job's results on request, once they are in their folder: files of
 * other programs. The request is an option of the command that collects them, or of the job's. */
#ifndef PSGD_SUBMIT_DERIVED_H
#define PSGD_SUBMIT_DERIVED_H

#include <jansson.h>

#include "submit/job/submission.h"

#define TENSORBOARD_FOLDER "tensorboard" /* in the results */

/* Makes the folder of results, and checks that the files of --csv-style can be written. Errors as of
 * results_prepare(); then nothing of it is left. */
int derived_prepare(struct submission *s, struct err *e);

/* Writes the files of --csv-style, --tensorboard and --mlflow. On failure prints why, and the results
 * count as incomplete. run: run.json. */
void derived_write(struct submission *s, const json_t *run);

#endif
