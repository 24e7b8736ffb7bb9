/* predictions -- the table of job_submit predict: a CSV (RFC 4180, LF) with one row per sample, in the order
 * of the data set's half.
 *
 *   labels    index,label,predicted,probability[,label_name,predicted_name]
 *             label and predicted are the numbers of classes; probability, of the predicted one, is empty for
 *             a model with the loss mse; names, where the classes have them
 *   targets   index,target,predicted, with several index,target_0,...,predicted_0,...
 * Without labels or targets the columns label, label_name and target are missing. */
#ifndef PSGD_SUBMIT_PREDICTIONS_H
#define PSGD_SUBMIT_PREDICTIONS_H

#include "shared/records/tensor_file.h"
#include "submit/data/dataset.h"

/* Checks, before predictions are made, that `path` can be written: it is no file yet, or such a table, or
 * empty. ERR_CONFLICT: another file; ERR_IO: a folder, a device or a pipe. */
int predictions_check_path(const char *path, struct err *e);
/* Writes the table of predictions.safetensors (runner/predictor.c), `f`, of a half, "train" or "test". Warns
 * of samples whose outputs are not finite: their rows have "nan" or "inf". ERR_PROTOCOL: `f` has no
 * predictions of these samples. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int predictions_write(const char *path, const struct dataset *d, const char *half,
                      const struct tensor_file *f, struct dataset_warnings *w, struct err *e);

#endif
