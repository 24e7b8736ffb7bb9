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
#include "submit/data/token_stream.h"

enum {
    CLASSES_MAX = 65536,
    DATASET_GROUP_LEN = 32,
    DATASET_WARNING_LEN = 512,
    DATASET_WARNINGS_MAX = 20,
    /* Maximum of a file or an array, unpacked: small files can unpack to a thousand times their size. */
    DATA_BYTES_MAX = 1 << 30
};

/* Sentences about a data set that was read, but may not be what its user expects: a row was taken for the
 * header, a column counts the rows. A job prints them before it starts and with its result. */
struct dataset_warnings {
    char *text; /* one after another, each with its zero byte */
    size_t len; /* of all of them */
    size_t n;
};
/* Appends a sentence, at most DATASET_WARNING_LEN bytes; control characters become '?'. The sentence after
 * DATASET_WARNINGS_MAX others says that further ones are left out, as a file may cause one for each of its
 * columns. Without memory nothing is appended: a warning is no reason to fail. */
void dataset_warn(struct dataset_warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the sentence after `last`, or the first one if `last` is NULL; NULL: there is none. */
const char *dataset_warning(const struct dataset_warnings *w, const char *last);
/* Prints each with console_info(), after "Warning: ". */
void dataset_warnings_print(const struct dataset_warnings *w);
void dataset_warnings_clear(struct dataset_warnings *w);

struct dataset {
    size_t n_train, n_test;
    struct shape shape;      /* of a sample: (rows, columns, channels), (values) or (time) tokens */
    enum tensor_type x_type; /* TENSOR_U8: bytes of an image, TENSOR_F32, TENSOR_I32: tokens */
    /* If it has tokens, the set is for language models: a sample is a window of shape.dim[0] tokens, train_x
     * and test_x are the streams, U8 or U16, there are n_classes = vocab, and no labels or targets. */
    struct token_stream stream;
    void *train_x, *test_x;    /* (n, values of a sample) of that type */
    int n_classes;             /* 0: there are targets instead of labels */
    int32_t *train_y, *test_y; /* (n) labels, each 0 .. n_classes - 1; NULL: targets */
    int n_targets;
    float *train_t, *test_t; /* (n, n_targets); NULL: labels */
    bool may_be_labels;      /* the targets are floats of unknown meaning: dataset_take_labels() */
    uint32_t *train_groups;  /* (n_train) groups, each 0 .. n_groups - 1; NULL: none */
    size_t n_groups;
    int vocab; /* tokens are 0 .. vocab - 1; 0 is padding, only at the end, or ends a document of a stream */
    /* Texts, one after another, each with its zero byte; NULL: there are none. */
    char *class_names; /* (n_classes); NULL: classes have numbers only */
    char *words;       /* (vocab - 2): those of tokens 2, 3, ... */
    char *columns;     /* of a table with a header: all of its columns, also the learned one */
    int learned_at;    /* number of the column with the labels or targets, from 1; 0: no table */
    struct dataset_warnings warnings;
};

/* Are the samples tokens, one at a time or in a stream? */
bool dataset_has_tokens(const struct dataset *d);
bool dataset_is_stream(const struct dataset *d);
/* Cuts the streams, of which all other fields are set, into windows; sets shape, n_train and n_test. As
 * token_stream_cut(); ERR_CONFIG also: `time` is 0, as of a model that is none of language. */
int dataset_cut_stream(struct dataset *d, size_t time, struct err *e);

/* Turns targets into labels: whole numbers from 0, or rows of zeros with a single 1, whose place is the
 * label. ERR_CONFIG: the targets are neither, with the first such sample; *d is unchanged. */
int dataset_take_labels(struct dataset *d, struct err *e);
/* Warns of classes that no training sample has. */
void dataset_check_classes(struct dataset *d);

/* Sets is_test[i] for round(share * n) of n samples, at least one and not all, chosen by the seed.
 * ERR_CONFIG: a single sample cannot be divided. */
int dataset_choose_test(bool *is_test, size_t *n_test, size_t n, double share, uint64_t seed, struct err *e);
/* Moves a fraction `share` of the samples, which are all in the training half, to the test half. */
int dataset_split(struct dataset *d, double share, uint64_t seed, struct err *e);
/* Numbers the groups of the training samples: compare() compares the keys, in `arg`, of two samples, whose
 * numbers it gets as uint32_t. ERR_NOMEM. */
int dataset_number_groups(struct dataset *d, int (*compare)(const void *a, const void *b, void *arg),
                          void *arg, struct err *e);

void dataset_clear(struct dataset *d);

#endif
