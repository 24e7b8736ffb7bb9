/* levels -- what the quantisers tern and sgq have in common: a vector as alpha times levels of a set. */
#ifndef PSGD_COMPRESS_LEVELS_H
#define PSGD_COMPRESS_LEVELS_H

#include "codecs/compress/compress.h"

/* Of both, at the head of their options. */
struct levels_options {
    int alpha; /* enum levels_alpha */
    int iterations;
};

enum levels_alpha {
    LEVELS_OF_MAX, /* the largest magnitude is the highest level; rounded at random: the mean is right */
    LEVELS_FIT     /* |v - alpha b| is small; rounded to the nearest */
};

#define LEVELS_OPTIONS                                                                                       \
    CODEC_OPTION_CHOICE(                                                                                     \
        struct levels_options, alpha, "max|fit",                                                             \
        "max: the largest magnitude, and rounding at random; fit: least error, to the nearest"),             \
        CODEC_OPTION(struct levels_options, iterations, 3, 1, 50,                                            \
                     "alpha=fit: how often alpha is fitted to the levels and they to it")

#define LEVELS_BOUND                                                                                         \
    "alpha=fit: |C(v) - v|^2 = |v|^2 - <v, b>^2 / |b|^2 where C(v) = alpha b; alpha=max: E C(v) = v, and "

/* n_levels of them in ascending order; the first is 1. */
void level_set_init(struct level_set *s, const float *levels, int n_levels);

/* One scale, alpha, and n symbols; by LEVELS_FIT. From alpha = 1.4 mean |v| (with the one level 1: the
 * threshold of Li and Liu, 2016), b = the levels nearest to v / alpha and alpha = <v, b> / <b, b> take
 * turns, each of which makes |v - alpha b| smaller. */
void levels_fit(struct compress_work *w, const struct level_set *s, int iterations, const float *v, size_t n,
                float *alpha, uint8_t *q);

#endif
