/* data_kind -- what a file is that is not what its reader expects: by its first bytes, so that the message
 * says more than where reading it has failed. */
#ifndef PSGD_DATA_KIND_H
#define PSGD_DATA_KIND_H

#include <stddef.h>

#include "shared/base/err.h"

/* ERR_CONFIG, with what becomes of it: the file is packed, or of a binary format that is known by its first
 * bytes. 0: it is none of these. */
int data_refuse_kind(const void *bytes, size_t len, struct err *e);
/* ERR_CONFIG: the file is no text: one of these, UTF-16 or UTF-32, or it has a byte zero. A byte-order mark
 * of UTF-8 is text; data_mark() is its length, 3, or 0. */
int data_check_text(const char *text, size_t len, struct err *e);
size_t data_mark(const char *text, size_t len);
/* ERR_CONFIG: the text is no table whose cells are separated by commas, but of another form: LIBSVM, ARFF,
 * HTML, JSON, ... or its lines end with CR alone. */
int data_check_table(const char *text, size_t len, struct err *e);

#endif
