/* transform -- preprocessing of samples on their way into a batch: a kind, then options.
 *   unit       bytes / 255; floats and tokens unchanged
 *   centre     bytes / 255 - 0.5
 *   standard   (x - mean) / deviation, both of the training set, by channel (the last dimension) or by column
 *   ,crop=N    images: pad with N zeros on each side, then a random window of the old size; training only
 *   ,flip      images: mirrored horizontally half of the time; training only
 * "standard,crop=4,flip" is the preprocessing of He et al. ("Deep Residual Learning", CVPR 2016, section
 * 4.2) for CIFAR-10. */
#ifndef PSGD_TRANSFORM_H
#define PSGD_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "submit/data/dataset.h"

enum transform_kind { TRANSFORM_UNIT, TRANSFORM_CENTRE, TRANSFORM_STANDARD, N_TRANSFORM_KINDS };

struct transform {
    enum transform_kind kind;
    int crop;
    bool flip;
};

/* ERR_CONFIG: unknown kind or option. */
int transform_parse(struct transform *t, const char *text, struct err *e);

/* ERR_CONFIG: the transform does not suit the samples. */
int transform_suits(const struct transform *t, const struct dataset *d, struct err *e);

/* Mean and deviation of the training set for standard, (n): of each channel, or of each column; n = 0 for the
 * other kinds. The deviation is that of the population (n in the denominator, not n - 1), of a constant
 * column 1. */
struct transform_moments {
    size_t n;
    double *mean, *deviation; /* one allocation, owned by mean */
};
/* ERR_CONFIG: the transform does not suit the samples. ERR_NOMEM. */
int transform_learn(struct transform_moments *m, const struct transform *t, const struct dataset *d,
                    struct err *e);
void transform_moments_clear(struct transform_moments *m);

/* x * scale + shift, (n) of each: one for all values, one for each of the last dimension, or n = 0 for no
 * change. */
struct transform_scale {
    size_t n;
    float *scale, *shift; /* one allocation, owned by scale */
};
/* Computes it for a transform with these moments, and samples of this type. ERR_NOMEM. */
int transform_scale_of(struct transform_scale *s, const struct transform *t,
                       const struct transform_moments *m, enum tensor_type type, struct err *e);
void transform_scale_clear(struct transform_scale *s);

/* Warns of samples that look like pixels from 0 to 255 and that the transform `text` leaves undivided, as
 * they are no bytes: floats that are whole numbers, in images, in two dimensions, or in as many values as a
 * square image has. Does nothing if `text` is no transform. */
void transform_warn_of_pixels(struct dataset *d, const char *text);

#endif
