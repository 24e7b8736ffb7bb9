/* data_folders -- the folders below which jobs may read data sets where they are (agent --data-folder). */
#ifndef PSGD_DATA_FOLDERS_H
#define PSGD_DATA_FOLDERS_H

#include "shared/base/err.h"
#include "shared/job/data_place.h"

/* *out: the folders as data_place_open() has them. `named` ends with NULL. ERR_USAGE: one of them is no
 * folder, or its path has ':' or cannot be sent as JSON, or they are too long together. */
int data_folders_set(char out[DATA_FOLDERS_MAX], const char *const *named, struct err *e);

#endif
