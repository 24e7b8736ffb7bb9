/* data_sets -- the openers behind dataset_open(), one file each: data_NAME.c. A new data set is such a file,
 * a line here and one in the table of dataset.c. */
#ifndef PSGD_DATA_SETS_H
#define PSGD_DATA_SETS_H

#include "shared/dataset.h"

/* `arg` is what stands behind the colon of "NAME:ARG", or NULL. On failure *d holds nothing. */
int digits_open(struct dataset *d, const char *arg, const char *dir, struct err *e);
int mnist_open(struct dataset *d, const char *arg, const char *dir, struct err *e);

#endif
