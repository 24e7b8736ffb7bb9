/* preprocessing -- the preprocessing record of a model: what was learned from the training half of its data
 * set, and the form to which new data is converted before the model reads it. It is made when the job is
 * submitted, and written to run.json, under facts.preprocessing, and as text to the metadata "preprocessing"
 * of every file of weights (model, snapshot, checkpoint). predict, --init-from and --resume use it and learn
 * nothing anew. A JSON document:
 *
 *     "version": 1
 *     "dataset": "csv:label=kind"     as the job named its set, without test_file, which may be a path
 *     "type": "floats"                of a sample's values: bytes, floats or tokens
 *     "shape": [4]                    of a sample
 *     "dimensions": ["values"]        what they are: submit/data/layout.h
 *     "columns": ["a", "b", "kind", "c", "d"]   of a table, as its header has them; null: no table, no header
 *     "learned_at": 3                 number of the column with the label or target, from 1; 0: no table
 *     "n_classes": 3                  0: targets
 *     "class_names": ["ant", "bee", "cow"]      in the order of the model's outputs; null: numbers only
 *     "n_targets": 0                  their values are the file's: psgd does not scale targets
 *     "vocab": 0                      tokens are 0 .. vocab - 1: 0 padding, 1 a word that is not listed
 *     "words": "the a of"             those of tokens 2, 3, ...; null: the set has its own tokens
 *     "merges": [116, 104, 32, 256]   of tokens 256, 257, ... of a text, two tokens each (tokenizer.h); a
 *                                     record without merges lacks the key
 *     "transform": "standard"         --transform of the job
 *     "mean": [5.8, 3.1, 3.8, 1.2]    of each column or channel in the training half, for standard
 *     "deviation": [0.8, 0.4, 1.8, 0.8]
 *
 * Texts that are not UTF-8: submit/data/names.h. A reader takes documents of this version only. */
#ifndef PSGD_PREPROCESSING_H
#define PSGD_PREPROCESSING_H

#include <jansson.h>

#include "shared/base/err.h"
#include "shared/job/layer_spec.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "submit/data/dataset.h"
#include "submit/data/names.h"
#include "submit/data/transform.h"

struct preprocessing { /* {0} is empty; every part is owned */
    char dataset[256], transform[32];
    enum tensor_type type;
    struct shape shape;
    int n_classes, n_targets, vocab, learned_at;
    struct names columns, classes, words; /* n 0: none */
    struct token_merge *merges;           /* (n_merges); NULL: none */
    size_t n_merges;
    struct transform_moments moments;
};

/* Makes the record of the training half of `d`, which was opened by the name `dataset`. ERR_CONFIG: the
 * transform is unknown or does not suit the samples; or the document would be longer than PREPROCESSING_MAX.
 * ERR_NOMEM. */
int preprocessing_learn(struct preprocessing *out, const struct dataset *d, const char *dataset,
                        const char *transform, struct err *e);
void preprocessing_clear(struct preprocessing *p);

/* Does it have words, names or means, which the weights of a model do not show? */
bool preprocessing_has_meaning(const struct preprocessing *p);

/* NULL: no memory. */
json_t *preprocessing_json(const struct preprocessing *p);
/* ERR_CONFIG: not a record of this version, or one that contradicts itself; *out is empty then. */
int preprocessing_parse(struct preprocessing *out, const json_t *doc, struct err *e);
/* Reads the record of a file of weights. Returns 1, or 0 if the file has none: it is older, or of another
 * program. */
int preprocessing_of_file(struct preprocessing *out, const struct tensor_file *f, struct err *e);

/* Copies the merges; the caller frees them. ERR_NOMEM. */
int preprocessing_copy_merges(const struct preprocessing *p, struct token_merge **merges, size_t *n,
                              struct err *e);
/* ERR_CONFIG: the text was tokenized with other merges than the model's. */
int preprocessing_check_merges(const struct preprocessing *p, const struct token_merge *merges, size_t n,
                               struct err *e);

/* Compares two records, except the names of the sets. ERR_CONFIG: they differ; the message names the first
 * part that does. `whose`, `other`: what the records are of, for the message: "the data set", "the earlier
 * job". */
int preprocessing_check_same(const struct preprocessing *p, const struct preprocessing *q, const char *whose,
                             const char *other, struct err *e);

/* The number of the class that a label's text names, by its name or, if the classes have none, as a
 * number; -1: none. */
long preprocessing_class(const struct preprocessing *p, const char *text, size_t len);
/* ERR_CONFIG: the text is none of the model's classes, which the message lists. */
int preprocessing_no_class(const struct preprocessing *p, const char *text, size_t len, struct err *e);

/* Converts samples that were read without the record to its form: checks that their type and layout are the
 * record's, and gives labels the record's numbers, by name if both have names; a label that is a number, by
 * its text, if all names are numbers. ERR_CONFIG: the samples contradict the record, or a label, which the
 * message names, is none of its classes. */
int preprocessing_apply(const struct preprocessing *p, struct dataset *d, struct err *e);

/* Computes scale and shift of the samples (transform.h). ERR_CONFIG, ERR_NOMEM. */
int preprocessing_scale(struct transform_scale *s, const struct preprocessing *p, struct err *e);

#endif
