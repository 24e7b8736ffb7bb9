/* warnings -- sentences on why a job's result may be wrong, for run.json, the table on stdout and the
 * page. */
#ifndef PSGD_SUBMIT_WARNINGS_H
#define PSGD_SUBMIT_WARNINGS_H

#include <jansson.h>

#include "submit/job/submission.h"

/* ["The workers end different ...", ...]: the warnings about the data set (facts.data.warnings,
 * submit/data/dataset.h), and those that follow from the nodes' ends, for each of which warnings.c has
 * a function. NULL: no memory. */
json_t *warnings_json(const struct submission *s);

#endif
