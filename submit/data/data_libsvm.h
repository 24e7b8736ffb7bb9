/* data_libsvm -- rows of LIBSVM (Chang and Lin, "LIBSVM: A Library for Support Vector Machines", 2011;
 * also SVMlight): "LABEL INDEX:VALUE INDEX:VALUE ...", indices ascending from 1, values that are not
 * there 0. After the label may be "qid:N", the group of a ranking; behind # is a comment. The table is
 * dense. */
#ifndef PSGD_DATA_LIBSVM_H
#define PSGD_DATA_LIBSVM_H

#include "submit/data/data_csv_parser.h"

struct libsvm_form {
    size_t first;    /* the first index, 1, or 0 */
    bool is_target;  /* a label is a number to regress */
    bool has_groups; /* every row has a qid, which is its group */
    bool may_lack;   /* rows may begin without a label, all of them */
    size_t n_values; /* of each row; libsvm_parse() only */
};

/* The number of values that the rows need: the largest index. ERR_CONFIG: the text is no rows of LIBSVM, with
 * the line. */
int libsvm_scan(size_t *n_values, size_t *n_rows, const char *text, size_t len,
                const struct libsvm_form *form, struct err *e);
/* Makes the dense table of a scanned text, which must outlive it: at least form->n_values values a row.
 * ERR_CONFIG: a number that is none, a larger index, or more than DATA_BYTES_MAX bytes. *t is empty after
 * an error. */
int libsvm_parse(struct csv_table *t, const char *text, size_t len, const struct libsvm_form *form,
                 struct err *e);

#endif
