/* loops -- the loops over vectors in which compressors spend their time, compiled for every processor and
 * once more for processors with AVX2 and F16C. Both give the same bits: sums have a fixed number of lanes,
 * and no multiplication is fused with an addition. */
#ifndef PSGD_COMPRESS_LOOPS_H
#define PSGD_COMPRESS_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/rng.h"

/* Eight generators side by side: xoshiro128+ by Blackman and Vigna (2018), of which 24 bits are used. */
enum { RANDOM_LANES = 8 };
struct random_lanes {
    uint32_t s[4][RANDOM_LANES];
};
/* Draws the states from `seed`. */
static inline void random_lanes_init(struct random_lanes *r, struct rng *seed)
{
    for (int lane = 0; lane < RANDOM_LANES; lane++)
        for (int k = 0; k < 4; k += 2) {
            uint64_t x = rng_u64(seed);

            r->s[k][lane] = (uint32_t)x | (k == 0); /* not zero: an all-zero state never changes */
            r->s[k + 1][lane] = (uint32_t)(x >> 32);
        }
}

/* Sets of levels for quantizers: level[0] = 0 < level[1] < ... < level[n_levels], and their negatives. */
enum { LEVELS_MAX = 127, LEVEL_ROOM = LEVELS_MAX + 5 /* a search compares four at a time */ };
struct level_set {
    int n_levels;
    float level[LEVEL_ROOM];  /* infinite after the last */
    float middle[LEVEL_ROOM]; /* [i]: between level[i - 1] and level[i]; infinite after the last */
};

struct loops {
    /* Returns the largest |v[i]|, 0 for n = 0; NaN if any value is NaN. */
    float (*largest)(const float *v, size_t n);
    double (*dot)(const float *a, const float *b, size_t n);
    void (*sums_by_sign)(const float *v, size_t n, double *positive, double *negative);

    /* Casts: to the nearest, ties to even; a value that is too large becomes the largest finite number; NaN
     * and infinity are kept. */
    void (*to_fp16)(uint16_t *out, const float *v, size_t n);
    void (*from_fp16)(float *out, const uint16_t *v, size_t n);
    void (*to_bf16)(uint16_t *out, const float *v, size_t n);
    void (*from_bf16)(float *out, const uint16_t *v, size_t n);

    /* q = v factor, rounded to the nearest, or at random such that its mean is v factor; clamped to
     * [-levels, levels], plus `zero`, the symbol of 0. v factor must be finite and not much larger than
     * `levels`. */
    void (*round_nearest)(uint8_t *q, const float *v, size_t n, float factor, int zero);
    void (*round_random)(uint8_t *q, const float *v, size_t n, float factor, int levels,
                         struct random_lanes *r);
    void (*unround)(float *out, const uint8_t *q, size_t n, float unit, int zero); /* (q - zero) unit */

    /* The same for a set of levels; q is n_levels for 0. */
    void (*level_nearest)(uint8_t *q, const float *v, size_t n, float factor, const struct level_set *s);
    void (*level_random)(uint8_t *q, const float *v, size_t n, float factor, const struct level_set *s,
                         struct random_lanes *r);
    /* Sums of |v| b and of b^2, where b is the level nearest to |v| factor. */
    void (*level_sums)(const float *v, size_t n, float factor, const struct level_set *s, double *vb,
                       double *bb);

    /* q = 1 where v < 0, else 0; returns the number of ones. out is `negative` where q is 1, else
     * `positive`. */
    size_t (*signs)(uint8_t *q, const float *v, size_t n);
    void (*unsign)(float *out, const uint8_t *q, size_t n, float positive, float negative);

    /* A key is the magnitude of a value as an integer: 31 bits, in the same order. counts[b] is the number
     * of keys with key >> (shift + bits) == prefix of which the next `bits` bits, at most 11, are b. */
    void (*count_keys)(uint32_t *counts, const float *v, size_t n, uint32_t prefix, int shift, int bits);
    /* Writes the indices of all values with a key above `least`, and of the first n_ties with that key;
     * returns their number. `at` has room for one more. */
    size_t (*pick)(uint32_t *at, const float *v, size_t n, uint32_t least, size_t n_ties);

    /* Error feedback: feed() r = v + decay r; keep() r = r - c, and 0 where that is not finite. */
    void (*feed)(float *r, const float *v, size_t n, float decay);
    void (*keep)(float *r, const float *c, size_t n);
    void (*scale)(float *v, size_t n, float factor);

    /* Packs n symbols below `alphabet` into packed_bytes(n, alphabet) bytes, and unpacks them: unpacked
     * symbols may be >= `alphabet`. */
    void (*pack)(uint8_t *out, const uint8_t *q, size_t n, int alphabet);
    void (*unpack)(uint8_t *q, const uint8_t *in, size_t n, int alphabet);
    uint8_t (*largest_symbol)(const uint8_t *q, size_t n);
};

/* Returns the fewest bits that distinguish the symbols of an alphabet. */
static inline int symbol_bits(int alphabet)
{
    int bits = 0;

    while (1 << bits < alphabet)
        bits++;
    return bits;
}

/* Alphabet 3: five symbols per byte; else as many bits per symbol as the alphabet needs. */
static inline size_t packed_bytes(size_t n, int alphabet)
{
    size_t bytes = 0;

    if (alphabet == 3)
        return n / 5 + (n % 5 > 0);
    for (int width = 1; width <= 8; width *= 2) /* symbols of 3 bits are split into 1 and 2 bits */
        if (symbol_bits(alphabet) & width)
            bytes += n / (8 / (size_t)width) + (n % (8 / (size_t)width) > 0);
    return bytes;
}

extern const struct loops loops_portable;
const struct loops *loops_best(void); /* for this processor */

#endif
