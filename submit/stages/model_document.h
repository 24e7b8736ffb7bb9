/* model_document -- the document of a model (shared/job/model_spec.h), by the name or file that --model has.
 *
 * A model of language may have options behind its name, "gpt-s:vocab=1024,context=128": the tokens that it
 * knows, and those that it reads. The document then has these numbers, and the whole text as its name. */
#ifndef PSGD_SUBMIT_MODEL_DOCUMENT_H
#define PSGD_SUBMIT_MODEL_DOCUMENT_H

#include <limits.h>
#include <stddef.h>

#include "shared/base/err.h"

/* *text (*len): the document, for the caller to free; path: its file. ERR_CONFIG: there is no such model, or
 * its options are invalid. Otherwise the errors of file_read(). */
int model_document_read(char **text, size_t *len, char path[PATH_MAX], const char *model, struct err *e);

#endif
