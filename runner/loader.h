/* loader -- a worker's shard of the data set, cut into the batches of its blocks in the order given by the
 * job's seed (shared/job/partition.h). A shard has the samples of the node's columns, one column after
 * another, and in the tensor "lengths" (I32) how many each has: at least one for each step of an epoch.
 * A shard of a language model has the tensor "tokens" (token_windows.h) for samples and labels: a column has
 * as many samples as its pieces have windows, and "lengths" counts its pieces.
 * Where the data set is read in place (shared/job/data_place.h), the shard has the tensor "pieces" instead,
 * and the metadata "per_piece".
 * Samples stay as they are in the file, mapped or copied; a batch is converted to floats when it is gathered,
 * scaled and, for training, cropped and flipped by the shard's tensors (submit/data/transform.h): "scale" and
 * "shift" F32, one for all values, or per channel or column, and "augment" I32: rows, columns, channels,
 * crop, flip. */
#ifndef PSGD_LOADER_H
#define PSGD_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/loss.h"
#include "runner/core/step.h"
#include "runner/token_windows.h"
#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/permutation.h"
#include "shared/job/settings.h"
#include "shared/records/tensor_file.h"

struct loader_part { /* the train or the test half; views into its file */
    struct tensor_file file;
    struct tensor_view x;         /* (..., n_in) U8, F32 or I32 */
    const int32_t *labels;        /* (...); NULL: targets, or neither */
    const float *targets;         /* (..., n_targets); NULL: labels, or neither */
    struct token_windows windows; /* instead of x and labels; n 0: none */
    size_t n;                     /* samples */
};

struct loader_image { /* rows 0: no augmentation */
    size_t rows, cols, channels, crop;
    bool flip;
};

struct loader {
    struct loader_part train, test; /* (the samples of all columns), (n_test) */
    struct tensor_file place;       /* the data set, if it is read in place */
    size_t n_rows, n_cols, n_test;  /* steps of an epoch; columns of all blocks of this node */
    const int32_t *lengths;         /* (n_cols): samples of each column, each at least n_rows; or pieces */
    size_t n_in, n_targets, n_labels;
    double bytes_per_token; /* of text, in the test half: its metadata "bytes_per_token"; 0: not known */
    size_t batch;           /* columns of one block */
    int n_blocks;           /* of this node */
    int *blocks;            /* (n_blocks): their numbers */
    uint64_t seed;
    uint64_t epoch;
    uint32_t *order;             /* (n_rows, n_cols): the sample of each column in each step of this epoch */
    uint32_t *column;            /* (the longest column): order of one column */
    struct permutation *windows; /* (n_cols): instead of the two, each column's order of its windows */
    size_t *first_window;        /* (n_cols): of each column */
    bool is_scaled;              /* otherwise floats are used without scaling */
    float scale, shift;          /* of all values, if the next two are NULL */
    float *scales, *shifts;      /* (n_in), or NULL */
    struct loader_image image;
    float *whole; /* (n_in), with an image: a sample before it is cropped */
    void *copy;   /* all training samples; NULL: they are read from the mapped file */
};

/* n_rows: the steps of an epoch. ERR_CONFIG: the files are not shards of this job (the message has what was
 * expected and what was found), or their labels, targets, tokens or transforms do not fit the model. */
int loader_open(struct loader *l, const char *train, const char *test, const struct blocks *b, int node,
                size_t batch, size_t n_rows, const struct model_spec *m, uint64_t seed, struct err *e);
/* The same, where `train` has only the numbers of the pieces, and `place` is the data set. NULL: it has the
 * samples. */
int loader_open_place(struct loader *l, const char *train, const char *test, const char *place,
                      const struct blocks *b, int node, size_t batch, size_t n_rows,
                      const struct model_spec *m, uint64_t seed, struct err *e);
/* Only the numbers of the node's blocks, for a worker without data of psgd's. ERR_NOMEM. */
int loader_open_blocks(struct loader *l, const struct blocks *b, int node, struct err *e);
/* Opens samples to evaluate, in a file like that of a test set, with a "scale" and "shift" of its own.
 * Without labels and targets, those of a batch have no meaning. Only loader_test() may be called. */
int loader_open_test(struct loader *l, const char *test, const struct model_spec *m, struct err *e);
void loader_close(struct loader *l);

void loader_epoch(struct loader *l, uint64_t epoch); /* from 0 */
/* A batch of up to n samples, with labels or targets as the files have. */
struct loader_batch {
    float *x;        /* (n, n_in), scaled */
    int32_t *labels; /* (n, n_labels): one of each sample, or one of each token */
    float *targets;  /* (n, n_targets) */
};
/* Of the data of a worker of a job with these settings and blocks. */
struct step_text loader_text(const struct loader *l, const struct settings *set, const struct blocks *b);
bool loader_has_labels(const struct loader *l); /* of the test samples: one for each, or for each token */
int loader_batch_init(struct loader_batch *b, const struct loader *l, size_t n, struct err *e);
void loader_batch_clear(struct loader_batch *b);
struct truth loader_truth(const struct loader_batch *b);

/* Gathers batch `row` (the step in the epoch) of this node's i-th block. */
void loader_block(const struct loader *l, size_t row, int i, struct loader_batch *b);
/* Gathers test samples start .. start + n - 1. */
void loader_test(const struct loader *l, size_t start, size_t n, struct loader_batch *b);

#endif
