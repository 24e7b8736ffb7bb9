/* codec_options -- parses the parameters of a codec or a compressor, as "alpha=0.5,graph=ring", into the
 * fields of a struct described by a table of struct codec_option (codecs/codec.h). */
#ifndef PSGD_CODEC_OPTIONS_H
#define PSGD_CODEC_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "codecs/codec_events.h"
#include "shared/base/err.h"

enum {
    CODEC_OPTIONS_TEXT = 512, /* all parameters of one codec, with the NUL */
    CODEC_OPTIONS_MAX = 32,   /* in one table */
    CODEC_NAME_MAX = 32       /* characters */
};

/* Whether this is a valid name of a codec, a parameter or a codec's record: 1 to CODEC_NAME_MAX of a-z, 0-9
 * and _. */
bool codec_is_name(const char *name);

/* A table, and the struct of its offsets. A table ends with {0}; NULL is an empty one. */
struct codec_options {
    const struct codec_option *table;
    void *at;
};

/* The parameter that every rule that exchanges parameters has in addition to its own: the job's
 * local_steps. */
struct codec_common {
    int every; /* 0: once per epoch */
};
extern const struct codec_option codec_common_options[];
/* Returns codec_common_options for such a rule, NULL for another. */
const struct codec_option *codec_common_of(const struct codec_plugin *p);

/* Returns the length of the name in "NAME:KEY=VALUE,..." or "FILE:KEY=VALUE,..."; a ':' follows it if there
 * are parameters. A file ends in .c or .so, and its path may contain ':'; a name does not. */
size_t codec_options_at(const char *text);

/* Sets every field of the sets to its default, then those in `text` ("" or NULL: none) to their values.
 * ERR_CONFIG: unknown name, name given twice, value of another type or out of range; the message lists the
 * parameters. */
int codec_options_set(const struct codec_options *sets, size_t n_sets, const char *text, struct err *e);
/* Writes all values as the text that codec_options_set() reads back to the same bits. ERR_CONFIG: it does
 * not fit. */
int codec_options_text(char *out, size_t size, const struct codec_options *set, struct err *e);
/* {"alpha": 0.5, ...}; null: the codec chooses. NULL: no memory. */
json_t *codec_options_values(const struct codec_options *set);
/* [{"name", "type", "default", "min", "max", "choices", "help"}, ...]. NULL: no memory. */
json_t *codec_options_list(const struct codec_option *table);
/* Checks a table for a struct of `size` bytes. ERR_CODEC. */
int codec_options_check(const struct codec_option *table, size_t size, struct err *e);

#endif
