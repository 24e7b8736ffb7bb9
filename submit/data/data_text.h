/* data_text -- lines of text as rows of tokens. A token is a word (letters, digits, apostrophes inside it,
 * and every byte from 128 on, whatever the encoding) in lower case, or one other printing character. */
#ifndef PSGD_DATA_TEXT_H
#define PSGD_DATA_TEXT_H

#include "submit/data/dataset.h"

struct text_form {
    int length;    /* tokens of a sample: longer lines are cut, shorter ones padded, both at the end */
    int vocab;     /* at most; 0 is padding, 1 any word that is not among the others */
    double test;   /* share of the lines */
    uint64_t seed; /* which they are */
};

struct text_class {
    const char *name;
    char *bytes; /* its lines; made lower-case in place */
    size_t len;
};

/* Lines without a token are passed over. The vocabulary is that of the training lines, most frequent first,
 * equal ones by their bytes. ERR_CONFIG: fewer than two classes or lines. On failure *d holds nothing. */
int text_parse(struct dataset *d, struct text_class *classes, int n_classes, const struct text_form *form,
               struct err *e);

#endif
