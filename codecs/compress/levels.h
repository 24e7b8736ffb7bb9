/* levels -- the common part of the quantizers tern and sgq: a vector as alpha times levels of a set. */
#ifndef PSGD_COMPRESS_LEVELS_H
#define PSGD_COMPRESS_LEVELS_H

#include "codecs/compress/compress.h"

/* First member of the options of both. */
struct levels_options {
    int alpha; /* enum levels_alpha */
    int iterations;
};

enum levels_alpha {
    LEVELS_OF_MAX, /* the largest magnitude is the highest level; random rounding, unbiased */
    LEVELS_FIT     /* minimizes |v - alpha b|; rounding to the nearest */
};

#define LEVELS_OPTIONS                                                                                       \
    CODEC_OPTION_CHOICE(                                                                                     \
        struct levels_options, alpha, "max|fit",                                                             \
        "max: the largest magnitude, random rounding; fit: least error, rounding to the nearest"),           \
        CODEC_OPTION(struct levels_options, iterations, 3, 1, 50,                                            \
                     "alpha=fit: number of alternating fits of alpha and levels")

#define LEVELS_BOUND                                                                                         \
    "alpha=fit: |C(v) - v|^2 = |v|^2 - <v, b>^2 / |b|^2 where C(v) = alpha b; alpha=max: E C(v) = v, and "

/* Sets n_levels levels in ascending order; the first is 1. */
void level_set_init(struct level_set *s, const float *levels, int n_levels);

/* LEVELS_FIT: computes one scale, alpha, and n symbols. Starting at alpha = 1.4 mean |v| (for the one level
 * 1: the threshold of Li and Liu, 2016), alternates between b = the levels nearest to v / alpha and alpha =
 * <v, b> / <b, b>; each of these reduces |v - alpha b|. */
void levels_fit(struct compress_work *w, const struct level_set *s, int iterations, const float *v, size_t n,
                float *alpha, uint8_t *q);

#endif
