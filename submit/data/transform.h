/* transform -- what is done to samples on their way into a batch: a word, then options.
 *   unit       bytes / 255; floats and tokens as they are
 *   centre     bytes / 255 - 0.5
 *   standard   (x - mean) / deviation, both of the training set, by channel (the last dimension) or by column
 *   ,crop=N    images: N zeros around, then a random window of the old size; training only
 *   ,flip      images: left and right change places half of the time; training only
 * "standard,crop=4,flip" is what He et al. ("Deep Residual Learning", CVPR 2016,
 * section 4.2) do for CIFAR-10. */
#ifndef PSGD_TRANSFORM_H
#define PSGD_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/err.h"
#include "submit/data/dataset.h"

enum transform_kind { TRANSFORM_UNIT, TRANSFORM_CENTRE, TRANSFORM_STANDARD, N_TRANSFORM_KINDS };

struct transform {
    enum transform_kind kind;
    int crop;
    bool flip;
};

/* ERR_CONFIG: no such word. */
int transform_parse(struct transform *t, const char *text, struct err *e);

/* x * scale + shift, (n) of each: one for all values, one for each of the last dimension, or n = 0 where
 * samples stay as they are. */
struct transform_scale {
    size_t n;
    float *scale, *shift; /* one allocation, scale's */
};
/* ERR_CONFIG: the transform does not suit the samples. */
int transform_fit(struct transform_scale *s, const struct transform *t, const struct dataset *d,
                  struct err *e);
void transform_scale_clear(struct transform_scale *s);

#endif
