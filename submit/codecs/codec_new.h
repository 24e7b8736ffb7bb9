/* codec_new -- a codec to begin with. */
#ifndef PSGD_SUBMIT_CODEC_NEW_H
#define PSGD_SUBMIT_CODEC_NEW_H

#include "submit/options.h"

/* Writes NAME.c into the present folder and says what comes next. ERR_USAGE: no name of a codec;
 * ERR_CONFLICT: the file is there; ERR_IO. */
int codec_new(const struct options *o, const char *name, struct err *e);

#endif
