/* data_text -- lines of text as rows of tokens. A token is a word (letters, digits, apostrophes inside it,
 * and every byte from 128 on, whatever the encoding) in lower case, or one other printing character. */
#ifndef PSGD_DATA_TEXT_H
#define PSGD_DATA_TEXT_H

#include "submit/data/dataset.h"
#include "submit/data/names.h"

#define TEXT_LONG_CHOICES "cut|drop"
enum text_long { TEXT_CUT, TEXT_DROP };

struct text_form {
    int length;            /* tokens per sample; shorter lines are padded at the end */
    enum text_long longer; /* longer lines are truncated at the end, or left out, in both halves */
    int vocab;             /* maximum; 0 is padding, 1 any word outside the vocabulary */
    double test;           /* fraction of the lines in the test half */
    uint64_t seed;         /* seed of their choice */
    /* With a model's record (preprocessing.h): */
    const struct names *words; /* those of tokens 2, 3, ...; NULL: they are those of the training lines */
    bool is_whole;             /* every line is in the test half; longer ones are truncated */
    bool is_unlabelled;        /* with is_whole: and is a sample, a line without a token as one of token 1 */
};

struct text_class {
    const char *name; /* "": a file whose lines have no labels */
    char *bytes;      /* its lines; converted to lower case in place */
    size_t len;
};

/* A line ends with LF, CR LF or CR; a byte-order mark of UTF-8 before it is skipped. Leaves out lines
 * without a token. The vocabulary is that of the training lines, most frequent first, equally frequent
 * words in order of their bytes. ERR_CONFIG: fewer than two classes or lines (with a record, none), or a
 * file that is no text of single bytes (data_kind.h). On failure *d is empty. */
int text_parse(struct dataset *d, struct text_class *classes, int n_classes, const struct text_form *form,
               struct err *e);

#endif
