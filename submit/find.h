/* find -- from a word on the command line to a file: a path, or a name that is looked for. */
#ifndef PSGD_SUBMIT_FIND_H
#define PSGD_SUBMIT_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "shared/err.h"

struct codec_file {
    char path[PATH_MAX];
    bool is_source; /* to be compiled first */
};

/* A word with a slash, or ending in .c or .so, is a path. Another one is a name: NAME.so beside this program,
 * then in the folders of $PSGD_CODEC_PATH (.so or .c), then ./codecs/NAME.c. ERR_CODEC: not found, with the
 * nearest match. */
int find_codec(struct codec_file *out, const char *word, const char *exe_dir, struct err *e);

/* A word with a slash or ending in .json is a path; another one is NAME.json beside this program.
 ERR_CONFIG. */
int find_model(char out[PATH_MAX], const char *word, const char *exe_dir, struct err *e);

#endif
