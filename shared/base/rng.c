#include "shared/base/rng.h"

#include <math.h>

#include "shared/base/number.h"

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

/* log(u) for 0 < u <= 1: log(2^k m) = k log 2 + 2 artanh((m - 1) / (m + 1)), a series for m near 1. */
static double log_of(double u)
{
    static const double odd[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1};
    double sum = 1.0 / 23, s, s2;
    int k;
    double m = frexp(u, &k);

    if (m < 0.7071067811865476) {
        m *= 2;
        k--;
    }
    s = (m - 1) / (m + 1);
    s2 = s * s;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        sum = sum * s2 + odd[i];
    return k * 0.6931471805599453 + 2 * s * sum;
}

/* Box and Muller. The second number of the pair is not used, because keeping it would be hidden state. Nodes
 * must draw the same weights, and libm's log and cos may differ in the last bit between processors
 * (number.h). */
float rng_normal(struct rng *r)
{
    double u = ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(rng_u64(r) >> 11) * 0x1p-53;

    return (float)(sqrt(-2.0 * log_of(u)) * number_cos_of_turns(v));
}

void rng_common(float *out, size_t n, uint64_t seed, uint64_t key)
{
    static const uint64_t stream = 0x636f6d6d6f6e; /* "common" */
    struct rng r;

    rng_init(&r, seed, stream, key);
    for (size_t i = 0; i < n; i++)
        out[i] = rng_uniform(&r);
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
