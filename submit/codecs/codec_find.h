/* codec_find -- finds the file of a codec, an executor or a model that an argument of the command line names,
 * by its path or by a name, and compares a codec's file with that of an earlier run. */
#ifndef PSGD_SUBMIT_CODEC_FIND_H
#define PSGD_SUBMIT_CODEC_FIND_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "shared/base/err.h"

enum { FIND_NAMES_MAX = 256, FIND_NAME_LEN = 64 };

struct codec_file {
    char path[PATH_MAX];
    bool is_source;   /* must be compiled first */
    bool is_built_in; /* in the folder of this program: its code is psgd's own */
    /* The source that the object is, or will be, compiled from; "": unknown. It is in the folder of a
     * built-in codec; a source beside another object may have changed since. */
    char source[PATH_MAX];
};

/* Of an option that takes a name or a file: is its value the path of a file, with a slash, or ending in .c,
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

/* A name means NAME.json beside this program. ERR_CONFIG. */
int find_model(char out[PATH_MAX], const char *text, const char *exe_dir, struct err *e);
/* Lists all names that find_model finds, as find_codecs() does. */
int find_models(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir);

/* Is this, in hexadecimal digits, the SHA-256 of the file? false also if the file cannot be read. */
bool codec_file_has_sum(const char *path, const char *sha256);
/* Does find_codec() find `name` with the content that it had in the run whose run.json has the codec's facts
 * `facts`? Compares the SHA-256 of the source, or, where the source is unknown, of the object. */
bool codec_file_is_same(const char *name, const json_t *facts);

#endif
