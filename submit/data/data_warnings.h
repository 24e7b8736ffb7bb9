/* data_warnings -- sentences about a data set that was read, but that may not be what its user believes: a
 * row that was taken for the header, a column of row numbers. A job shows them before it begins and with its
 * result. */
#ifndef PSGD_DATA_WARNINGS_H
#define PSGD_DATA_WARNINGS_H

#include <stddef.h>

enum { DATA_WARNING_LEN = 512, DATA_WARNINGS_MAX = 20 };

struct data_warnings {
    char *text; /* one after another, each with its zero byte */
    size_t len; /* of all of them */
    size_t n;
};

/* Appends a sentence, at most DATA_WARNING_LEN bytes; characters that control a terminal become '?'. After
 * DATA_WARNINGS_MAX sentences one more says that others are left out: a file may give a reason for as many as
 * it has columns. Without memory nothing is appended: a warning is no reason to fail. */
void data_warn(struct data_warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the sentence after `last`; NULL: there is none. `last` NULL: the first one. */
const char *data_warning(const struct data_warnings *w, const char *last);
/* Prints each with console_info(), after "Warning: ". */
void data_warnings_print(const struct data_warnings *w);
void data_warnings_clear(struct data_warnings *w);

#endif
