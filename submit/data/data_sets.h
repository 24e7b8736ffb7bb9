/* data_sets -- opens a data set by its name, and parses its options. Each format is a file, data_NAME.c, and
 * each set a line in DATA_SETS. The parser of a format takes bytes in memory (data_formats.h), and checks
 * every number of a file against the file's length before use. */
#ifndef PSGD_DATA_SETS_H
#define PSGD_DATA_SETS_H

#include <stdbool.h>

#include "shared/base/json.h"
#include "submit/data/dataset.h"

struct preprocessing;

/* How a set is opened. */
struct data_use {
    /* The record of a model (preprocessing.h): words, classes and columns are the record's instead of being
     * learned from the training half; options that the set's name lacks are those of the record's set. */
    const struct preprocessing *known;
    /* With a record: a single file, or a folder of one half, becomes the test half, in its order, and the
     * training half is empty. Labels or targets may be missing. A set of two halves keeps both. */
    bool is_whole;
    /* Tokens of a window, the input of a model whose loss is token_cross_entropy; 0: the model has another
     * loss. */
    size_t window;
    bool is_uncut; /* a set of text is not cut into windows */
};

/* `name` is "NAME" or "NAME:KEY=VALUE,...", `path` the file or folder of the set; docs/data.md has the sets
 * and their options. ERR_CONFIG: no such set or option, or a malformed file (with place, expected and
 * found). ERR_NOT_FOUND: a file is missing; the message names it and how to get it. */
int dataset_open(struct dataset *d, const char *name, const char *path, struct err *e);
/* ERR_CONFIG also: the set's options or samples contradict the record. */
int dataset_open_as(struct dataset *d, const char *name, const char *path, const struct data_use *use,
                    struct err *e);
int dataset_check_name(const char *name, struct err *e); /* opens no file. ERR_CONFIG: no such set */
const char *dataset_name(size_t i);                      /* the name of set i; NULL: there are fewer */

/* Is this the name of a set that needs no file, because it is drawn from a seed? */
bool dataset_is_drawn(const char *name);
/* Adds the option group=COLUMN to the set's name, of `size` bytes, if it is not there. ERR_CONFIG: the
 * set has no columns, another group, or the name would be too long. */
int dataset_group_by(char *name, size_t size, const char *column, struct err *e);
/* Replaces a name that Parallel-SGD has for a set: cifar is cifar10. */
void dataset_take_alias(char *name, size_t size);

/* SET(NAME, is_drawn, has_groups): NAME_open() opens it; is_drawn: it is computed, and needs no file;
 * has_groups: its option `group` names what samples are grouped by. */
#define DATA_SETS(SET)                                                                                       \
    SET(digits, true, false)                                                                                 \
    SET(mnist, false, false)                                                                                 \
    SET(idx, false, false)                                                                                   \
    SET(cifar10, false, false)                                                                               \
    SET(cifar100, false, false)                                                                              \
    SET(csv, false, true)                                                                                    \
    SET(libsvm, false, true)                                                                                 \
    SET(npz, false, true)                                                                                    \
    SET(npy, false, true)                                                                                    \
    SET(text, false, false)                                                                                  \
    SET(tokens, false, false)                                                                                \
    SET(grammar, true, false)                                                                                \
    SET(simlin, true, false)                                                                                 \
    SET(simsin, true, false)

/* " digits mnist ...", for a help text. */
#define DATA_SET_NAME(name, is_drawn, has_groups) " " #name
#define DATA_SET_NAMES                            DATA_SETS(DATA_SET_NAME)

/* `arg` is the text after the colon of "NAME:ARG", or NULL; `path` the file or folder of the set; `use` as in
 * dataset_open_as(). Of the record NAME_open() applies only what *d does not show, the words of texts and the
 * columns of tables; dataset_open_as() then applies the rest by preprocessing_apply(). On failure *d is
 * empty. */
#define SET(name, is_drawn, has_groups)                                                                      \
    int name##_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,        \
                    struct err *e);
DATA_SETS(SET)
#undef SET

/* Parses "KEY=VALUE,..." into a struct, by a table as for a JSON object; a VALUE without KEY= is that of
 * key `bare`, if not NULL. ERR_CONFIG. */
int data_options(void *out, const struct json_field *fields, const char *bare, const char *arg,
                 struct err *e);
/* The same, but if the record's set has the name `name`, the options that samples depend on (not
 * `may_change`) have the values of the record. ERR_CONFIG also: `arg` has another value of such an option. */
int data_options_as(void *out, const struct json_field *fields, const char *bare, const char *name,
                    const char *arg, const struct data_use *use, struct err *e);

#endif
