/* compress -- how a vector of floats becomes fewer bytes, and a vector again. Any codec's vectors may go
 * through a chain of compressors, "topk:ratio=0.01,ef=true|qsgd:bits=4|huffman" (chain.h).
 *
 * A compressor is arithmetic, one file, and a line in compress.c's table. It sees no message: it says how
 * many numbers it makes of n values and makes them; the chain puts them on the wire and checks what comes
 * from there. Kinds, in the order in which they stand in a chain:
 *   COMPRESS_SELECT   which elements are sent at all; the others arrive as 0
 *   COMPRESS_VALUES   what is sent for each of them: a shorter number, or a symbol and a few scales
 *   COMPRESS_SYMBOLS  how those are written, without loss
 *
 * Same options, seed and vector give the same bytes and the same vector on every receiver and on the sender,
 * whichever loops its processor takes (loops.h).
 *
 * Numbers that are none: fp16, bf16 and none send NaN and infinity as they are, and topk sends them first.
 * Each other compressor has a scale for every group of values, and a group with NaN, infinity or a scale
 * that no float holds arrives as NaN in whole, so that nobody takes it for numbers. A group whose largest
 * magnitude is below COMPRESS_TINY arrives as zeros: the squares of such values are none that a float holds,
 * either. */
#ifndef PSGD_COMPRESS_H
#define PSGD_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "codecs/compress/loops.h"
#include "shared/err.h"
#include "shared/rng.h"

#define COMPRESS_TINY 0x1p-80f

enum compress_kind { COMPRESS_SELECT, COMPRESS_VALUES, COMPRESS_SYMBOLS, COMPRESS_KINDS };

enum { COMPRESS_OPTIONS_MAX = 16 /* bytes of a compressor's struct of options */ };

/* Of the symbols that went through a lossless stage. */
struct compress_report {
    double n_symbols, n_bits;
    double entropy; /* bits that no code of one symbol at a time gets below */
};

/* What a compressor works with; the chain's. */
struct compress_work {
    const struct loops *loops;
    struct rng *rng;               /* encode only: seeded by the job, the node and the direction */
    uint64_t *marks;               /* select only: a bit for each of n values, all 0 before and after */
    struct compress_report report; /* symbols only */
};

/* `o` is the compressor's struct of options, filled and checked; n > 0. */
struct compressor {
    const char *name, *help;
    const char *source; /* the paper, for people */
    const char *bound;  /* what is lost at most, in words; NULL: nothing */
    enum compress_kind kind;
    const struct codec_option *options; /* ends with {0}; NULL: none */
    /* Whether the mean over many encodings of a vector is the vector. Such a compressor may make an error
     * larger than the vector, so that error feedback needs a factor (chain.h). NULL: no. */
    bool (*is_unbiased)(const void *o);

    /* COMPRESS_SELECT: k of n values, 0 < k <= n, known to both sides. */
    size_t (*count)(const void *o, size_t n);
    /* The k indices in ascending order. Where `by_seed`, they follow from the seed and not from v, which is
     * NULL on the receiver. */
    void (*choose)(const void *o, struct compress_work *w, const float *v, uint64_t seed, size_t n, size_t k,
                   uint32_t *at);
    bool by_seed;
    float (*gain)(const void *o, size_t n, size_t k); /* values arrive multiplied by this; NULL: by 1 */

    /* COMPRESS_VALUES: n values become n_scales floats and n items: numbers of item_bytes each, or, where
     * that is 0, symbols of a byte, each below alphabet(o), 2 to 256. decode() gets such symbols, and any
     * scales. */
    size_t item_bytes;
    int (*alphabet)(const void *o);
    size_t (*n_scales)(const void *o, size_t n); /* NULL: none */
    void (*encode)(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                   void *items);
    void (*decode)(const void *o, struct compress_work *w, const float *scales, const void *items, float *out,
                   size_t n);

    /* COMPRESS_SYMBOLS. get() reads any bytes: false, or n symbols below `alphabet`. */
    size_t (*most_bytes)(size_t n, int alphabet);
    void (*put)(struct compress_work *w, struct wire_out *out, const uint8_t *q, size_t n, int alphabet);
    bool (*get)(struct compress_work *w, struct wire_in *in, uint8_t *q, size_t n, int alphabet);
};

/* All of them; ends with NULL. */
extern const struct compressor *const compressors[];
const struct compressor *compressor_find(const char *name); /* NULL: no such compressor */

extern const struct compressor compress_none, compress_fp16, compress_bf16, compress_int8, compress_topk,
    compress_randomk, compress_qsgd, compress_tern, compress_sgq, compress_onebit, compress_huffman;

/* What is sent as the scale of a group whose largest magnitude is `most`: 0 or NaN where all of the group
 * arrives as that (see above), else `scale`. */
float compress_scale(float most, float scale);

/* Groups of at most `size` values that n values fall into. */
static inline size_t compress_groups(size_t n, size_t size)
{
    return n / size + (n % size > 0);
}

/* The nearest to ratio n, at least 1 and at most n. */
size_t compress_share(float ratio, size_t n);

#endif
