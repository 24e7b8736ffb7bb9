/* codec_new -- writes the template of a codec. */
#ifndef PSGD_SUBMIT_CODEC_NEW_H
#define PSGD_SUBMIT_CODEC_NEW_H

#include "submit/options.h"

/* Writes NAME.c into the working directory and prints the next steps. ERR_USAGE: not a valid name;
 * ERR_CONFLICT: the file exists; ERR_IO. */
int codec_new(const struct options *o, const char *name, struct err *e);

#endif
