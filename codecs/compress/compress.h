/* compress -- compressors: a vector of floats to fewer bytes, and back to a vector; and what several of them
 * share, such as the fit of levels to values. The vectors of any
 * codec may pass through a chain of compressors, "topk:ratio=0.01,ef=true|qsgd:bits=4|huffman"
 * (chain_list.h).
 *
 * A compressor is arithmetic: one file, and a line in COMPRESSORS below. It has no access to the
 * message: it reports how many numbers it makes of n values and makes them; the chain writes them to the
 * message, and checks what it reads. Kinds, in the order of a chain:
 *   COMPRESS_SELECT   selects the elements that are sent; the others are received as 0
 *   COMPRESS_VALUES   turns each of them into a shorter number, or a symbol and a few scales
 *   COMPRESS_SYMBOLS  codes those, without loss
 *
 * The same options, seed and vector give the same bytes, and the same vector on every receiver and on the
 * sender, whichever loops the processor supports (loops.h).
 *
 * NaN and infinity: fp16, bf16 and none send them unchanged (fp16 the values beside them less exactly, inside
 * an all-reduce), and topk sends them first. Every other
 * compressor has a scale for each group of values; a group with NaN, infinity or a scale that overflows a
 * float is received as NaN in whole, so that it is not mistaken for numbers. A group whose largest
 * magnitude is below COMPRESS_TINY is received as zeros: the squares of such values underflow a float. */
#ifndef PSGD_COMPRESS_H
#define PSGD_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec_events.h"
#include "codecs/compress/loops.h"
#include "shared/base/err.h"
#include "shared/base/rng.h"

#define COMPRESS_TINY 0x1p-80f

enum compress_kind { COMPRESS_SELECT, COMPRESS_VALUES, COMPRESS_SYMBOLS, COMPRESS_KINDS };

enum { COMPRESS_OPTIONS_MAX = 16 /* bytes of a compressor's struct of options */ };

/* Counters of a lossless stage. */
struct compress_report {
    double n_symbols, n_bits;
    double entropy; /* least bits of any code that codes one symbol at a time */
};

/* Working data of a compressor; owned by the chain. */
struct compress_work {
    const struct loops *loops;
    struct rng *rng;               /* encode only: seeded by the job, the node and the direction */
    uint64_t *marks;               /* select only: a bit for each of n values, all 0 before and after */
    int n_summed;                  /* workers whose items are added; 1 in a message of one */
    struct compress_report report; /* symbols only */
};

/* `o` is the compressor's struct of options, filled and checked; n > 0. */
struct compressor {
    const char *name, *help;
    const char *source; /* the paper, shown to users */
    const char *bound;  /* bound of the error, as text; NULL: lossless */
    enum compress_kind kind;
    const struct codec_option *options; /* ends with {0}; NULL: none */
    /* Whether the mean over many encodings of a vector is the vector. The error of such a compressor may be
     * larger than the vector, so error feedback needs a factor (chain.h). NULL: no. */
    bool (*is_unbiased)(const void *o);

    /* COMPRESS_SELECT: returns k, the number of values sent of n, 0 < k <= n; both sides compute it. */
    size_t (*count)(const void *o, size_t n);
    /* Writes the k indices in ascending order. With `by_seed` they depend on the seed and not on v, which
     * is NULL on the receiver. */
    void (*choose)(const void *o, struct compress_work *w, const float *v, uint64_t seed, size_t n, size_t k,
                   uint32_t *at);
    bool by_seed;
    float (*gain)(const void *o, size_t n, size_t k); /* the receiver multiplies values by it; NULL: 1 */

    /* COMPRESS_VALUES: n values become n_scales floats and n items: numbers of item_bytes each or, if that
     * is 0, symbols of one byte, each below alphabet(o), 2 to 256. decode() gets symbols in this range, and
     * any scales. */
    size_t item_bytes;
    int (*alphabet)(const void *o);
    size_t (*n_scales)(const void *o, size_t n); /* NULL: none */
    void (*encode)(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                   void *items);
    void (*decode)(const void *o, struct compress_work *w, const float *scales, const void *items, float *out,
                   size_t n);
    /* Items that are numbers can be added inside an all-reduce, and each partial sum is rounded to an item:
     * out[i] = (in[0][i] + ... + in[n_in - 1][i]) scale, with n_in 2 or 3; `out` may be in[0]. NULL: they
     * cannot. */
    void (*sum)(const struct compress_work *w, void *out, const void *const *in, int n_in, size_t n,
                float scale);
    /* Items can be added only if all workers scale alike: writes the largest magnitude of each group of v. In
     * `scales` encode() and decode() then read the sums of these over n_summed workers, at most
     * n_summed_most (0: any); sum() is called with scale 1. NULL: each worker's items stand for
     * themselves. */
    void (*measure)(const void *o, const struct compress_work *w, const float *v, size_t n, float *scales);
    int n_summed_most;

    /* COMPRESS_SYMBOLS. get() is safe for any bytes: it returns false, or true and n symbols below
     * `alphabet`. */
    size_t (*most_bytes)(size_t n, int alphabet);
    void (*put)(struct compress_work *w, struct wire_out *out, const uint8_t *q, size_t n, int alphabet);
    bool (*get)(struct compress_work *w, struct wire_in *in, uint8_t *q, size_t n, int alphabet);
};

/* All compressors: compress_NAME, in NAME.c. */
#define COMPRESSORS(COMPRESSOR)                                                                              \
    COMPRESSOR(none)                                                                                         \
    COMPRESSOR(fp16)                                                                                         \
    COMPRESSOR(bf16)                                                                                         \
    COMPRESSOR(int8)                                                                                         \
    COMPRESSOR(fixed8)                                                                                       \
    COMPRESSOR(topk)                                                                                         \
    COMPRESSOR(randomk)                                                                                      \
    COMPRESSOR(qsgd)                                                                                         \
    COMPRESSOR(tern)                                                                                         \
    COMPRESSOR(sgq)                                                                                          \
    COMPRESSOR(onebit)                                                                                       \
    COMPRESSOR(huffman)

#define COMPRESSOR(name) extern const struct compressor compress_##name;
COMPRESSORS(COMPRESSOR)
#undef COMPRESSOR

extern const struct compressor *const compressors[];        /* ends with NULL */
const struct compressor *compressor_find(const char *name); /* NULL: no such compressor */

/* The rest are functions for several compressors. */

/* Returns the scale to send for a group whose largest magnitude is `most`: 0 or NaN where the whole group
 * is received as that (see above), else `scale`. */
float compress_scale(float most, float scale);

/* Returns the number of groups of at most `size` values in n values. */
static inline size_t compress_groups(size_t n, size_t size)
{
    return n / size + (n % size > 0);
}

/* Returns ratio n, rounded, at least 1 and at most n. */
size_t compress_share(float ratio, size_t n);

/* Numbers of 16 bits, for fp16 and bf16; `widen` makes n of them floats, and `narrow` rounds n floats to
 * them. compress_halves_sum() is compressor.sum. The others scale on the way, by a power of two: items[i] =
 * v[i] factor, rounded; out[i] = items[i] factor. */
typedef void compress_widen(float *out, const uint16_t *v, size_t n);
typedef void compress_narrow(uint16_t *out, const float *v, size_t n);
void compress_halves_sum(uint16_t *out, const void *const *in, int n_in, size_t n, float scale,
                         compress_widen *widen, compress_narrow *narrow);
void compress_halves_encode(uint16_t *items, const float *v, size_t n, float factor, compress_narrow *narrow);
void compress_halves_decode(float *out, const uint16_t *items, size_t n, float factor, compress_widen *widen);

/* A vector as alpha times levels of a set (struct level_set), for tern and sgq. */

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
void compress_levels_init(struct level_set *s, const float *levels, int n_levels);

/* LEVELS_FIT: computes one scale, alpha, and n symbols. Starting at alpha = 1.4 mean |v| (for the one level
 * 1: the threshold of Li and Liu, 2016), alternates between b = the levels nearest to v / alpha and alpha =
 * <v, b> / <b, b>; each of these reduces |v - alpha b|. */
void compress_levels_fit(struct compress_work *w, const struct level_set *s, int iterations, const float *v,
                         size_t n, float *alpha, uint8_t *q);

#endif
