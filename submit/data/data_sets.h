/* data_sets -- opens a data set by its name. Each set is a file, data_NAME.c, and a line in DATA_SETS. The
 * reader of a format takes bytes in memory, so that tests and fuzzers can call it; it checks every number of
 * a file against the file's length before use. */
#ifndef PSGD_DATA_SETS_H
#define PSGD_DATA_SETS_H

#include <limits.h>
#include <stdbool.h>

#include "shared/base/json.h"
#include "submit/data/dataset.h"

struct preprocessing;

/* How a set is opened. */
struct data_use {
    /* The record of a model (preprocessing.h): words, classes and columns are the record's instead of being
     * learned from the training half; options that the set's name lacks are those of the record's set. */
    const struct preprocessing *known;
    /* With a record: a single file, or folder of one half, is the test half as a whole, in its order, and the
     * training half is empty. Labels or targets may be missing. A set that comes in two halves stays that. */
    bool is_whole;
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
    SET(simlin, true, false)                                                                                 \
    SET(simsin, true, false)

/* " digits mnist ...", for a help text. */
#define DATA_SET_NAME(name, is_drawn, has_groups) " " #name
#define DATA_SET_NAMES                            DATA_SETS(DATA_SET_NAME)

/* `arg` is the text after the colon of "NAME:ARG", or NULL; `path` the file or folder of the set; `use` as
 * in dataset_open_as(), which passes what was read to preprocessing_apply(): a reader turns into the
 * record's form only what is lost in numbers, the words of texts and the columns of tables. On failure *d
 * is empty. */
#define SET(name, is_drawn, has_groups)                                                                      \
    int name##_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,        \
                    struct err *e);
DATA_SETS(SET)
#undef SET

/* Parses "KEY=VALUE,..." into a struct, by a table as for a JSON object; a VALUE without KEY= is that of
 * key `bare`, if not NULL. ERR_CONFIG. */
int data_options(void *out, const struct json_field *fields, const char *bare, const char *arg,
                 struct err *e);
/* The same with a record whose set is of the same name: an option that samples depend on, one that is not
 * `may_change`, is the record's. ERR_CONFIG also: `arg` has another value of it. */
int data_options_as(void *out, const struct json_field *fields, const char *bare, const char *name,
                    const char *arg, const struct data_use *use, struct err *e);

/* Of packed data more than UNPACKED_FREE bytes may be at most UNPACKED_RATIO times as long as packed: data
 * sets are some 5 to 50 times as long, and zeros, of which a small file can fill the memory, 1,000 times. */
enum { UNPACKED_FREE = 16 << 20, UNPACKED_RATIO = 200 };
bool data_is_bomb(uint64_t unpacked, uint64_t packed);

/* Reads a whole file, and unpacks it if it is a gzip file; the caller frees. ERR_NOT_FOUND, ERR_IO;
 * ERR_CONFIG: cannot be unpacked, more than `max` bytes, or data_is_bomb. */
int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e);
/* The same with a maximum of DATA_BYTES_MAX, 1 GiB. */
int data_read(uint8_t **out, size_t *len, const char *path, struct err *e);

/* The length of a whole file by its first `len` bytes: DATA_HEAD, or all of a shorter file. ERR_CONFIG: it is
 * not of this format. */
enum { DATA_HEAD = 64 << 10 };
typedef int (*data_promise)(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e);
/* Reads a file whose beginning says how long it is, and at most a byte, or DATA_HEAD, beyond that. A longer
 * one is ERR_CONFIG; whether it is shorter, the caller checks. */
int data_read_promised(uint8_t **out, size_t *len, data_promise promise, const char *path, struct err *e);

/* The hint to a file or array of more than DATA_BYTES_MAX. Returns e->code. */
int data_hint_large(struct err *e);

/* Finds the file `name` in `dir`, or the packed NAME.gz beside it; folders do not count. ERR_NOT_FOUND. */
int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e);
bool data_is_folder(const char *path);

/* Sets is_test[i] for round(share * n) of n samples, at least one and not all, chosen by the seed.
 * ERR_CONFIG: a single sample cannot be divided. */
int data_choose_test(bool *is_test, size_t *n_test, size_t n, double share, uint64_t seed, struct err *e);
/* Numbers the groups of the training samples by keys in `arg`: compare() has two samples as uint32_t.
 * ERR_NOMEM. */
int data_number_groups(struct dataset *d, int (*compare)(const void *a, const void *b, void *arg), void *arg,
                       struct err *e);
/* Moves a fraction `share` of the samples, all in the training half, to the test half. */
int data_split(struct dataset *d, double share, uint64_t seed, struct err *e);

#endif
