/* permutation -- a pseudorandom permutation of 0 .. n - 1 whose places are computed one by one, without an
 * array: so the samples of a set of any size are shuffled in constant memory. A Feistel network of four
 * rounds (Luby and Rackoff, "How to Construct Pseudorandom Permutations from Pseudorandom Functions", 1988)
 * permutes the numbers of an even number of bits; one that is not below n is permuted again until it is
 * (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), less than four times in the mean. */
#ifndef PSGD_PERMUTATION_H
#define PSGD_PERMUTATION_H

#include <stdint.h>

enum { PERMUTATION_ROUNDS = 4 };

struct permutation {
    uint64_t n; /* 1 .. 2^62 */
    int half_bits;
    uint64_t keys[PERMUTATION_ROUNDS];
};

/* An independent permutation for each (seed, a, b). */
void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t a, uint64_t b);
/* i: 0 .. n - 1 */
uint64_t permutation_at(const struct permutation *p, uint64_t i);

#endif
