/* dataset -- samples and their labels or targets, in memory. job_submit opens the whole set (data_sets.h),
 * divides it into shards (partition.h) and ships each node its own. */
#ifndef PSGD_DATASET_H
#define PSGD_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/layer_spec.h"
#include "shared/records/tensor_file.h"
#include "submit/data/data_warnings.h"

enum {
    CLASSES_MAX = 65536,
    DATASET_GROUP_LEN = 32,
    /* Maximum of a file or an array, unpacked: small files can unpack to a thousand times their size. */
    DATA_BYTES_MAX = 1 << 30
};

struct dataset {
    size_t n_train, n_test;
    struct shape shape;        /* of a sample: (rows, columns, channels), (values) or (time) tokens */
    enum tensor_type x_type;   /* TENSOR_U8: bytes of an image, TENSOR_F32, TENSOR_I32: tokens */
    void *train_x, *test_x;    /* (n, values of a sample) of that type */
    int n_classes;             /* 0: there are targets instead of labels */
    int32_t *train_y, *test_y; /* (n) labels, each 0 .. n_classes - 1; NULL: targets */
    int n_targets;
    float *train_t, *test_t; /* (n, n_targets); NULL: labels */
    bool may_be_labels;      /* the source says of targets only that they are floats: dataset_take_labels() */
    uint32_t *train_groups;  /* (n_train) groups, each 0 .. n_groups - 1; NULL: none */
    size_t n_groups;
    int vocab; /* tokens are 0 (padding, only at the end) .. vocab - 1 */
    /* Texts, one after another, each with its zero byte; NULL: there are none. */
    char *class_names; /* (n_classes); NULL: classes have numbers only */
    char *words;       /* (vocab - 2): those of tokens 2, 3, ... */
    char *columns;     /* of a table with a header: all of its columns, the learned one, too */
    int learned_at;    /* number of the column with the labels or targets, from 1; 0: no table */
    struct data_warnings warnings;
};

/* Makes labels of targets: whole numbers from 0, or rows with a single 1 among zeros, of which its place is
 * the label. ERR_CONFIG: they are neither, with the first sample; *d is unchanged. */
int dataset_take_labels(struct dataset *d, struct err *e);
/* Warns of classes that no training sample has. */
void dataset_check_classes(struct dataset *d);
void dataset_clear(struct dataset *d);
/* Functions behind it. `rows`, `cols` and `n` are those of the file's header. The caller frees the
 * buffers. */
int idx_read_images(uint8_t **pixels, size_t *n, int *rows, int *cols, const char *path, struct err *e);
int idx_read_labels(int32_t **labels, size_t *n, const char *path, struct err *e);
/* Checks a whole IDX file in memory: `magic` 0x803 (images, 3 dims) or 0x801 (labels, 1). Returns the
 * offset of the data. ERR_CONFIG: not IDX, or `len` does not match the dimensions. */
int idx_check_header(const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3], struct err *e);

/* Draws one digit: sample `index` of stream `seed`, its label and 28 x 28 bytes, independent of other
 * samples. */
void digits_draw(uint8_t pixels[28 * 28], int32_t *label, uint64_t seed, uint64_t index);

#endif
