/* data_formats -- parsers of the formats of data sets, from bytes in memory, so that tests and fuzzers can
 * call them. The set of each format is opened by data_NAME.c (data_sets.h); CSV: data_csv.h. */
#ifndef PSGD_DATA_FORMATS_H
#define PSGD_DATA_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "submit/data/data_table.h"
#include "submit/data/dataset.h"
#include "submit/data/names.h"

/* IDX, the format of MNIST: data_idx.c. Read a file, plain or packed; `n`, `rows` and `cols` are those of its
 * header. The caller frees the buffers. */
int idx_read_images(uint8_t **pixels, size_t *n, int *rows, int *cols, const char *path, struct err *e);
int idx_read_labels(int32_t **labels, size_t *n, const char *path, struct err *e);
/* Checks a whole file: `magic` 0x803 (images, 3 dims) or 0x801 (labels, 1). Returns the offset of the data.
 * ERR_CONFIG: not IDX, or `len` does not match the dimensions. */
int idx_check_header(const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3], struct err *e);

/* The binary files of CIFAR-10 and CIFAR-100: data_cifar.c. */
struct cifar_form {
    int label_bytes, label_at; /* labels at the head of a record; the index of the one to use */
    int n_classes;
};
/* Computes the number of records in `len` bytes. ERR_CONFIG: not a whole number. */
int cifar_count(size_t *n, size_t len, const struct cifar_form *form, struct err *e);
/* Writes x (n, 32, 32, 3), in which the planes of the file become the last dimension, and y (n). ERR_CONFIG:
 * a label out of range. */
int cifar_unpack(uint8_t *x, int32_t *y, const uint8_t *bytes, size_t n, const struct cifar_form *form,
                 struct err *e);

/* Rows of LIBSVM (Chang and Lin, "LIBSVM: A Library for Support Vector Machines", 2011; also SVMlight):
 * data_libsvm.c. "LABEL INDEX:VALUE INDEX:VALUE ...", indices ascending from 1; values that are not listed
 * are 0. "qid:N" after the label is the group of a ranking; # begins a comment. The table is dense. */
struct libsvm_form {
    size_t first;    /* the first index, 1, or 0 */
    bool is_target;  /* a label is a number to regress */
    bool has_groups; /* every row has a qid, which is its group */
    bool may_lack;   /* rows may lack a label, all of them */
    size_t n_values; /* of each row; libsvm_parse() only */
};
/* The number of values that the rows need: the largest index. ERR_CONFIG: a line is no row of LIBSVM, with
 * its number. */
int libsvm_scan(size_t *n_values, size_t *n_rows, const char *text, size_t len,
                const struct libsvm_form *form, struct err *e);
/* Makes the dense table of a scanned text, which must outlive it: at least form->n_values values a row.
 * ERR_CONFIG: a value is no number, an index is larger, or the table has more than DATA_BYTES_MAX bytes. *t
 * is empty after an error. */
int libsvm_parse(struct data_table *t, const char *text, size_t len, const struct libsvm_form *form,
                 struct err *e);

/* NumPy arrays: .npy (format 1.0 and 2.0,
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html) by data_npy_array.c, and .npz, a
 * zip file of them, by data_zip.c. */
enum { NPY_DIMS = 4 };
/* Kind and bytes of a value: b1 is a bool, u unsigned, i signed, f floating. */
enum npy_type {
    NPY_B1,
    NPY_U1,
    NPY_U2,
    NPY_U4,
    NPY_U8,
    NPY_I1,
    NPY_I2,
    NPY_I4,
    NPY_I8,
    NPY_F2,
    NPY_F4,
    NPY_F8,
    N_NPY_TYPES
};
struct npy_array {
    enum npy_type type;
    bool is_big_endian;
    int n_dims;
    size_t shape[NPY_DIMS];
    size_t n;            /* values: the product of the shape */
    const uint8_t *data; /* in the given bytes, C order; not aligned */
};
/* ERR_CONFIG: not an .npy file, an unsupported type or order, no samples, or `len` does not match the
 * shape. */
int npy_parse(struct npy_array *a, const uint8_t *bytes, size_t len, struct err *e);
/* A data_promise (data_file.h): the length of the file, by its header, which is in the first bytes. */
int npy_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e);
bool npy_is_float(const struct npy_array *a);
double npy_value(const struct npy_array *a, size_t i); /* of any type */
/* Of an array of no floating type; INT64_MAX for a larger value. */
int64_t npy_integer(const struct npy_array *a, size_t i);

/* Reads one member of a zip file, an .npy file, stored or deflated, and checks its CRC-32; the caller frees.
 * Unpacks no more than its first DATA_HEAD bytes if the array in it has another size than the member. No
 * zip64, no encryption. ERR_NOT_FOUND: no member of that name. ERR_CONFIG: not a zip file, or one that
 * contradicts itself, or the array. */
int zip_member(uint8_t **out, size_t *out_len, const uint8_t *zip, size_t len, const char *name,
               struct err *e);

/* Lines of text as rows of tokens: data_text.c. A token is a word (letters, digits, apostrophes inside it,
 * and every byte from 128 on, whatever the encoding) in lower case, or one other printing character. */
#define TEXT_LONG_CHOICES "cut|drop"
enum text_long { TEXT_CUT, TEXT_DROP };
struct text_form {
    int length;            /* tokens per sample; shorter lines are padded at the end */
    enum text_long longer; /* longer lines are truncated at the end, or left out, in both halves */
    int vocab;             /* maximum; 0 is padding, 1 any word outside the vocabulary */
    double test;           /* fraction of the lines in the test half */
    uint64_t seed;         /* of the choice of these lines */
    /* With a model's record (preprocessing.h): */
    const struct names *words; /* those of tokens 2, 3, ...; NULL: those of the training lines */
    bool is_whole;             /* every line is in the test half; longer ones are truncated */
    bool is_unlabelled;        /* with is_whole: each line is a sample; one without a token has token 1 */
};
struct text_class {
    const char *name; /* "": a file whose lines have no labels */
    char *bytes;      /* its lines; converted to lower case in place */
    size_t len;
};
/* A line ends with LF, CR LF or CR; a byte-order mark of UTF-8 before it is skipped. Leaves out lines without
 * a token. The vocabulary is that of the training lines, most frequent first, equally frequent words in order
 * of their bytes. ERR_CONFIG: fewer than two classes or lines (with a record, none), or a file that is not
 * text of single bytes (data_file.h). *d is empty after an error. */
int text_parse(struct dataset *d, struct text_class *classes, int n_classes, const struct text_form *form,
               struct err *e);

/* The generated digits: data_digits.c. Draws one: sample `index` of stream `seed`, its label and 28 x 28
 * bytes, independent of other samples. */
void digits_draw(uint8_t pixels[28 * 28], int32_t *label, uint64_t seed, uint64_t index);

#endif
