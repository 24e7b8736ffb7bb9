/* export -- a job's results as files of other programs. Each format has a file here, NAME.c, whose comment
 * describes it; a new format is such a file and a function below. */
#ifndef PSGD_SUBMIT_EXPORT_H
#define PSGD_SUBMIT_EXPORT_H

#include <jansson.h>
#include <limits.h>

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"
#include "submit/job/submission.h"

#define TENSORBOARD_FOLDER "tensorboard" /* in the results */

/* Makes the folder of results, and checks that the files of --csv-style can be written. Errors as of
 * results_prepare(); then the folders that were made are removed. */
int export_prepare(struct submission *s, struct err *e);
/* Writes the files of --csv-style, --tensorboard and --mlflow: options of the command that collects the
 * results, or of the one that submitted the job. `run`: run.json. A failure is printed, and the results are
 * incomplete. */
void export_write(struct submission *s, const json_t *run);

/* Each replaces `path`. ERR_IO, ERR_NOSPACE, ERR_NOMEM; ERR_CONFIG: more than the maximum of the format.
 *
 * onnx.c: the model with its weights. `f` has passed weights_check(f, prefix, m). */
int onnx_write(const char *path, const struct model_spec *m, const struct tensor_file *f, const char *prefix,
               struct err *e);
/* npz.c: n tensors. ERR_CONFIG also: numpy lacks the type of a tensor (BF16). */
int npz_write(const char *path, const struct tensor_view *t, size_t n, struct err *e);

/* Each takes a folder of results and `run`, its run.json. ERR_IO, ERR_NOSPACE, ERR_NOMEM; ERR_PROTOCOL:
 * invalid records.
 *
 * mlflow.c: adds the job to the file store `dir`, which is made if it is missing. *out: the run's folder.
 * ERR_CONFIG: `run` has no id. */
int mlflow_write(char out[PATH_MAX], const char *folder, const json_t *run, const char *dir, struct err *e);
/* tensorboard.c: writes TO/NODE/events.out.tfevents.SECONDS.psgd for each node in the records; replaces files
 * of these names. */
int tensorboard_write(const char *folder, const json_t *run, const char *to, struct err *e);

#endif
