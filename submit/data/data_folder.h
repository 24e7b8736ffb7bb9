/* data_folder -- where downloaded data sets lie: $XDG_CACHE_HOME/psgd/SET, else ~/.cache/psgd/SET. */
#ifndef PSGD_SUBMIT_DATA_FOLDER_H
#define PSGD_SUBMIT_DATA_FOLDER_H

#include <stddef.h>

#include "shared/err.h"

/* `chosen` when it is not empty. `set`: the data set's name; options behind ":" do not count. */
int data_folder(char *out, size_t size, const char *set, const char *chosen, struct err *e);

#endif
