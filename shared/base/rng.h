/* rng -- a small seeded generator: xoshiro256** by Blackman and Vigna (2018), seeded by splitmix64.
 * Streams: rng_init(seed, a, b) gives an independent generator for each (a, b), so that any node can
 * generate any other node's numbers without those before them. */
#ifndef PSGD_RNG_H
#define PSGD_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_init(struct rng *r, uint64_t seed, uint64_t a, uint64_t b);
uint64_t rng_u64(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n); /* uniform in [0, n), unbiased (Lemire 2019); n > 0 */
float rng_uniform(struct rng *r);              /* uniform in [0, 1), 24 bits */
float rng_normal(struct rng *r);               /* N(0, 1), the same bits on every processor */
/* Numbers that are the same on all nodes of a job: out[i] depends on seed, key and i only. No other use of
 * the seed draws from their stream. */
void rng_common(float *out, size_t n, uint64_t seed, uint64_t key);
void rng_shuffle(struct rng *r, uint32_t *items, size_t n); /* Fisher and Yates */

#endif
