/* compressor_look -- what `codecs list` and `codecs show` say of the compressors that --compress takes. */
#ifndef PSGD_SUBMIT_COMPRESSOR_LOOK_H
#define PSGD_SUBMIT_COMPRESSOR_LOOK_H

#include <jansson.h>
#include <stdbool.h>

#include "shared/err.h"

/* Is "NAME[:KEY=VALUE,...]" one compressor's? A codec of such a name is shown by its file. */
bool compressor_is_named(const char *text);

/* Of a word that compressor_is_named. NULL: ERR_CONFIG, a parameter that it does not take; ERR_NOMEM. */
json_t *compressor_look_json(const char *text, struct err *e);

/* All of them, with their defaults. NULL: ERR_NOMEM. */
json_t *compressor_list_json(struct err *e);

#endif
