/* preprocessing_file -- the preprocessing record of a model (submit/data/preprocessing.h) as job_submit ships
 * it and as runners and the simulator put it, unread, into the metadata of the files that they write. */
#ifndef PSGD_PREPROCESSING_FILE_H
#define PSGD_PREPROCESSING_FILE_H

#include "shared/base/err.h"

#define PREPROCESSING_FILE "preprocessing.json" /* in the model package */
#define PREPROCESSING_META "preprocessing"      /* in the metadata of a file of weights */

/* Bytes of the record: with the quotation marks of its texts escaped it fits the header of a safetensors
 * file, which has at most 16 MiB. */
enum { PREPROCESSING_MAX = 6 << 20 };

/* *out: the record's text, or NULL if the folder has none; the caller frees it. ERR_CONFIG: not UTF-8, or
 * longer than PREPROCESSING_MAX. */
int preprocessing_file_read(char **out, const char *folder, struct err *e);

#endif
