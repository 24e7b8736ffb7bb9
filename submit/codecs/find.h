/* find -- from a word on the command line to a file: a path, or a name that is looked for. */
#ifndef PSGD_SUBMIT_FIND_H
#define PSGD_SUBMIT_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "shared/err.h"

enum { FIND_NAMES_MAX = 256, FIND_NAME_LEN = 64 };

struct codec_file {
    char path[PATH_MAX];
    bool is_source; /* to be compiled first */
    /* What the object is, or will be, made from; "": not known. It lies beside a built-in codec; a file of
     * that name beside another object may have changed since. */
    char source[PATH_MAX];
};

/* Is the word of an option that takes a name or a file a file's path: with a slash, or ending in .c, .so or
 * .json? */
bool find_is_path(const char *text);

/* A name is looked for as NAME.so beside this program, then in the folders of $PSGD_CODEC_PATH (.so or .c),
 * then as ./codecs/NAME.c. ERR_CODEC: not found, with the nearest match. */
int find_codec(struct codec_file *out, const char *text, const char *exe_dir, struct err *e);

/* All names that find_codec finds, sorted; returns how many. */
int find_codecs(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir);

/* A name is NAME.json beside this program. ERR_CONFIG. */
int find_model(char out[PATH_MAX], const char *text, const char *exe_dir, struct err *e);

#endif
