/* data_file -- files of data sets: finds and reads them, unpacks them, and refuses a file of another kind
 * than its reader expects, with what it is and how to convert it. */
#ifndef PSGD_DATA_FILE_H
#define PSGD_DATA_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* The folder of a downloaded data set, $XDG_CACHE_HOME/psgd/SET, else ~/.cache/psgd/SET, where SET is `set`
 * up to ":"; or `chosen`, if it is not empty. */
int data_folder(char *out, size_t size, const char *set, const char *chosen, struct err *e);
/* Finds the file `name` in `dir`, or the packed NAME.gz beside it; folders do not count. ERR_NOT_FOUND. */
int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e);
bool data_is_folder(const char *path);

/* Reads a whole file, and unpacks it if it is a gzip file; the caller frees. ERR_NOT_FOUND, ERR_IO;
 * ERR_CONFIG: it cannot be unpacked, has more than `max` bytes, or data_is_bomb. */
int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e);
/* The same with a maximum of DATA_BYTES_MAX, 1 GiB. */
int data_read(uint8_t **out, size_t *len, const char *path, struct err *e);

/* Computes the length of a whole file from its first `len` bytes: DATA_HEAD, or all of a shorter file.
 * ERR_CONFIG: it is not of this format. */
enum { DATA_HEAD = 64 << 10 };
typedef int (*data_promise)(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e);
/* Reads a file whose beginning has its length, and no more than DATA_HEAD bytes, or one, beyond that.
 * ERR_CONFIG: it is longer; whether it is shorter, the caller checks. */
int data_read_promised(uint8_t **out, size_t *len, data_promise promise, const char *path, struct err *e);

/* Sets the hint about a file or array of more than DATA_BYTES_MAX. Returns e->code. */
int data_hint_large(struct err *e);

/* ERR_CONFIG, with what it is and how it is converted: by its first bytes, the file is packed or of a known
 * binary format. */
int data_refuse_kind(const void *bytes, size_t len, struct err *e);
/* ERR_CONFIG: the file is no text, but of such a kind, UTF-16 or UTF-32, or it has a byte zero. */
int data_check_text(const char *text, size_t len, struct err *e);
/* The length of the byte-order mark of UTF-8 with which the text begins, 3, or 0. */
size_t data_mark(const char *text, size_t len);
/* ERR_CONFIG: the text is no table whose cells are separated by commas, but LIBSVM, ARFF, HTML, JSON, ..., or
 * its lines end with CR alone. */
int data_check_table(const char *text, size_t len, struct err *e);

#endif
