/* codec_options -- the parameters of a codec or a compressor: from the user's "alpha=0.5,graph=ring" into the
 * fields of a struct, by the table of struct codec_option (codecs/codec.h) that says which there are. */
#ifndef PSGD_CODEC_OPTIONS_H
#define PSGD_CODEC_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "codecs/codec.h"
#include "shared/err.h"

enum {
    CODEC_OPTIONS_TEXT = 512, /* of all parameters of one codec, with its NUL */
    CODEC_OPTIONS_MAX = 32,   /* in one table */
    CODEC_NAME_MAX = 32       /* characters */
};

/* Of a codec, of a parameter, of what a codec records: 1 to CODEC_NAME_MAX of a-z, 0-9 and _? */
bool codec_is_name(const char *name);

/* A table, and the struct that its offsets are in. A table ends with {0}; NULL is an empty one. */
struct codec_options {
    const struct codec_option *table;
    void *at;
};

/* What every rule that exchanges parameters takes beside its own: it is the job's local_steps. */
struct codec_common {
    int every; /* 0: once per epoch */
};
extern const struct codec_option codec_common_options[];
/* codec_common_options for such a rule, NULL for another. */
const struct codec_option *codec_common_of(const struct codec_plugin *p);

/* How much of "NAME:KEY=VALUE,..." or "FILE:KEY=VALUE,..." is the name; word[that] is ':' where parameters
 * follow. A file ends in .c or .so, and a path may have a ':' of its own; a name has none. */
size_t codec_options_at(const char *text);

/* Gives every field of the sets its default, then those that `text` names ("" or NULL: none) their values.
 * ERR_CONFIG: no such name, one said twice, a value of another type or outside its range; the sentence lists
 * what there is. */
int codec_options_set(const struct codec_options *sets, size_t n_sets, const char *text, struct err *e);
/* The one text for these values, all of them, as codec_options_set reads them back to the same bits.
 * ERR_CONFIG: it does not fit. */
int codec_options_text(char *out, size_t size, const struct codec_options *set, struct err *e);
/* {"alpha": 0.5, ...}; null: the codec chooses. NULL: no memory. */
json_t *codec_options_values(const struct codec_options *set);
/* [{"name", "type", "default", "min", "max", "choices", "help"}, ...]. NULL: no memory. */
json_t *codec_options_list(const struct codec_option *table);
/* Is the table sound, for a struct of `size` bytes? ERR_CODEC. */
int codec_options_check(const struct codec_option *table, size_t size, struct err *e);

#endif
