/* codec_find -- from an argument of the command line to a file: a path, or a name to search for. */
#ifndef PSGD_SUBMIT_CODEC_FIND_H
#define PSGD_SUBMIT_CODEC_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "shared/base/err.h"

enum { FIND_NAMES_MAX = 256, FIND_NAME_LEN = 64 };

struct codec_file {
    char path[PATH_MAX];
    bool is_source;   /* must be compiled first */
    bool is_built_in; /* lies beside this program: its code is psgd's own */
    /* The source that the object is, or will be, compiled from; "": unknown. It lies beside a built-in
     * codec; a file of that name beside another object may have changed since. */
    char source[PATH_MAX];
};

/* Is the value of an option that takes a name or a file the path of a file: with a slash, or ending in .c,
 * .so or .json? */
bool find_is_path(const char *text);

/* A name is searched for as NAME.so beside this program, then in the folders of $PSGD_CODEC_PATH (.so or
 * .c), then as ./codecs/NAME.c; MODULE.CLASS, as in Parallel-SGD, then also as ./codec/MODULE.c and
 * ./MODULE.c. ERR_CODEC: not found, with the nearest match, which may be one of `also`: other names that the
 * option takes, ending with NULL; NULL: none. */
int find_codec(struct codec_file *out, const char *text, const char *exe_dir, const char *const *also,
               struct err *e);

/* An executor is named by its file only. ERR_CODEC. */
int find_executor(struct codec_file *out, const char *text, struct err *e);

/* Lists all names that find_codec finds, sorted; returns their number. */
int find_codecs(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir);

/* The same for find_model. */
int find_models(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir);

/* A name means NAME.json beside this program. ERR_CONFIG. */
int find_model(char out[PATH_MAX], const char *text, const char *exe_dir, struct err *e);

#endif
