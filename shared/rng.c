#include "shared/rng.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed;

    x = splitmix64(&x) ^ a;
    x = splitmix64(&x) ^ b;
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&x);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
    uint64_t m = (rng_u64(r) >> 32) * n;

    if ((uint32_t)m < n) {
        uint32_t floor = -n % n;

        while ((uint32_t)m < floor)
            m = (rng_u64(r) >> 32) * n;
    }
    return (uint32_t)(m >> 32);
}

float rng_uniform(struct rng *r)
{
    return (float)(rng_u64(r) >> 40) * 0x1p-24f;
}

/* Box and Muller, one of the pair: the other would be hidden state. */
float rng_normal(struct rng *r)
{
    double u = ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(rng_u64(r) >> 11) * 0x1p-53;

    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void rng_shuffle(struct rng *r, uint32_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(r, (uint32_t)i);
        uint32_t t = items[i - 1];

        items[i - 1] = items[j];
        items[j] = t;
    }
}
