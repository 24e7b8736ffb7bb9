#include "shared/job/permutation.h"

#include "shared/base/rng.h"

/* On fewer bits the rounds would make only some of all permutations. */
enum { HALF_BITS_MIN = 3 };

static const uint64_t stream_permutation = 0x756d726570; /* "permu" */

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t a, uint64_t b)
{
    struct rng r;

    *p = (struct permutation){.n = n, .half_bits = HALF_BITS_MIN};
    while ((n - 1) >> 2 * p->half_bits)
        p->half_bits++;
    rng_init(&r, seed ^ stream_permutation, a, b);
    for (int i = 0; i < PERMUTATION_ROUNDS; i++)
        p->keys[i] = rng_u64(&r);
}

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t permutation_at(const struct permutation *p, uint64_t i)
{
    const uint64_t mask = ((uint64_t)1 << p->half_bits) - 1;

    do {
        uint64_t left = i >> p->half_bits, right = i & mask;

        for (int k = 0; k < PERMUTATION_ROUNDS; k++) {
            uint64_t next = left ^ (mix(right ^ p->keys[k]) & mask);

            left = right;
            right = next;
        }
        i = left << p->half_bits | right;
    } while (i >= p->n);
    return i;
}
