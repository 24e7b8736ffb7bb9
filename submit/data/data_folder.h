/* data_folder -- the folder of downloaded data sets: $XDG_CACHE_HOME/psgd/SET, else ~/.cache/psgd/SET. */
#ifndef PSGD_SUBMIT_DATA_FOLDER_H
#define PSGD_SUBMIT_DATA_FOLDER_H

#include <stddef.h>

#include "shared/base/err.h"

/* Returns `chosen` if it is not empty. `set`: the name of the data set; options after ":" are ignored. */
int data_folder(char *out, size_t size, const char *set, const char *chosen, struct err *e);

#endif
