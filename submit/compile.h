/* compile -- a codec that comes as a .c file. */
#ifndef PSGD_SUBMIT_COMPILE_H
#define PSGD_SUBMIT_COMPILE_H

#include "shared/err.h"

/* Compiles `source` into `object` with $CC or cc; the compiler's words go to stderr as they are.
 ERR_CODEC. */
int compile_codec(const char *source, const char *object, const char *exe_dir, struct err *e);

#endif
