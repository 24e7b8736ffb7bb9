/* executor_load -- loads an executor's shared object and checks it against codecs/executor.h. */
#ifndef PSGD_EXECUTOR_LOAD_H
#define PSGD_EXECUTOR_LOAD_H

#include "codecs/executor.h"
#include "shared/plugin/codec_load.h"

/* As codec_library_load and codec_library_open, which the errors are as of; sets l->executor. */
int executor_library_load(struct codec_library *l, const char *path, struct err *e);
int executor_library_open(struct codec_library *l, const char *path, struct err *e);

#endif
