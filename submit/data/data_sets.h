/* data_sets -- the openers behind dataset_open(), one file each: data_NAME.c. A new data set is such a file,
 * a line here and one in the table of dataset.c. Readers of a format take bytes in memory, so that tests and
 * fuzzers can feed them; no number of a file is believed before it was held against the file's length. */
#ifndef PSGD_DATA_SETS_H
#define PSGD_DATA_SETS_H

#include <limits.h>
#include <stdbool.h>

#include "shared/json.h"
#include "submit/data/dataset.h"

/* `arg` is what stands behind the colon of "NAME:ARG", or NULL; `path` the file or folder of the set. On
 * failure *d holds nothing. */
int digits_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int mnist_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int idx_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int cifar10_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int cifar100_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int csv_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int npz_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int npy_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int text_open(struct dataset *d, const char *arg, const char *path, struct err *e);
int simlin_open(struct dataset *d, const char *arg, const char *path, struct err *e);

/* "KEY=VALUE,..." into a struct, by a table as for a JSON object; a VALUE without KEY= is that of key `bare`,
 * where it is not NULL. ERR_CONFIG. */
int data_options(void *out, const struct json_field *fields, const char *bare, const char *arg,
                 struct err *e);

/* A whole file, unpacked if it is packed by gzip; the caller frees. ERR_NOT_FOUND, ERR_IO; ERR_CONFIG: cannot
 * be unpacked, or is more than `max` bytes. */
int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e);
/* With DATA_BYTES_MAX, 1 GiB, as the most. */
int data_read(uint8_t **out, size_t *len, const char *path, struct err *e);
/* The file `name` in `dir`, or the packed one, NAME.gz, beside it. ERR_NOT_FOUND. */
int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e);
bool data_is_folder(const char *path);

/* is_test[i] for round(share * n) of n samples, at least one and not all, chosen by the seed. ERR_CONFIG: one
 * sample cannot be divided. */
int data_choose_test(bool *is_test, size_t *n_test, size_t n, double share, uint64_t seed, struct err *e);
/* All samples are in the training half: moves a share of them to the test half. */
int data_split(struct dataset *d, double share, uint64_t seed, struct err *e);

#endif
