/* data_folder -- where downloaded data sets lie: $XDG_CACHE_HOME/psgd/mnist, else ~/.cache/psgd/mnist. */
#ifndef PSGD_SUBMIT_DATA_FOLDER_H
#define PSGD_SUBMIT_DATA_FOLDER_H

#include <stddef.h>

#include "shared/err.h"

/* `chosen` when it is not empty. */
int data_folder(char *out, size_t size, const char *chosen, struct err *e);

#endif
