/* mlflow -- a job as a run of MLflow, in the folders of its file store (mlflow/store/tracking/file_store.py):
 *
 *     DIR/EXPERIMENT/meta.yaml                 an experiment: the jobs of one data set and model
 *     DIR/EXPERIMENT/RUN/meta.yaml             a run: names, times, status
 *     DIR/EXPERIMENT/RUN/params/OPTION         an option of the job
 *     DIR/EXPERIMENT/RUN/metrics/TAG/NODE      lines of "milliseconds value step", of a curve (run_scalars)
 *     DIR/EXPERIMENT/RUN/metrics/NAME          its last values, one line
 *     DIR/EXPERIMENT/RUN/tags/NAME
 *     DIR/EXPERIMENT/RUN/artifacts/            run.json, the model, the records
 *
 * EXPERIMENT and RUN are digits of the SHA-256 of the experiment's name and of the job's id, so that
 * exporting a job again replaces its run; an experiment of that name which is in DIR already is taken
 * instead. */
#ifndef PSGD_SUBMIT_MLFLOW_H
#define PSGD_SUBMIT_MLFLOW_H

#include <jansson.h>
#include <limits.h>

#include "shared/base/err.h"

/* Adds the job in a folder of results, whose run.json is `run`, to the file store DIR, which is made if
 * it is not there. *out: the run's folder. ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_PROTOCOL; ERR_CONFIG:
 * `run` has no id. */
int mlflow_write(char out[PATH_MAX], const char *folder, const json_t *run, const char *dir, struct err *e);

#endif
