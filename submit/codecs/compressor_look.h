/* compressor_look -- the facts that `codecs list` and `codecs show` print about the compressors of
 * --compress. */
#ifndef PSGD_SUBMIT_COMPRESSOR_LOOK_H
#define PSGD_SUBMIT_COMPRESSOR_LOOK_H

#include <jansson.h>
#include <stdbool.h>

#include "shared/base/err.h"

/* Does "NAME[:KEY=VALUE,...]" name one compressor? A codec of the same name is found by the path of its
 * file. */
bool compressor_is_named(const char *text);

/* Describes a compressor, where compressor_is_named(text). NULL: ERR_CONFIG, an unknown parameter;
 * ERR_NOMEM. */
json_t *compressor_look_json(const char *text, struct err *e);

/* All compressors, with their defaults. NULL: ERR_NOMEM. */
json_t *compressor_list_json(struct err *e);

#endif
