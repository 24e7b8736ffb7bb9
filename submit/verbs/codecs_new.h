/* codecs_new -- writes the template of a codec: one for each kind of rule. */
#ifndef PSGD_SUBMIT_CODECS_NEW_H
#define PSGD_SUBMIT_CODECS_NEW_H

#include "submit/options/submit_options.h"

struct codec_template {
    const char *kind, *what;
    const char *const *lines; /* ends with NULL */
};
extern const struct codec_template codec_templates[]; /* ends with {0}; the first is the default */

/* Writes NAME.c into the working directory and prints the next steps; the kind is the third operand, or asked
 * for. ERR_USAGE: not a valid name or kind; ERR_CONFLICT: the file exists; ERR_IO. */
int codec_new(const struct options *o, const char *name, struct err *e);

#endif
