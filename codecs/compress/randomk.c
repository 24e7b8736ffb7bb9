/* randomk -- k = ratio n values drawn at random, each subset equally likely; the sender sends a seed
 * instead of indices, from which all receivers draw the same subset.
 *
 * Stich et al., "Sparsified SGD with Memory", NeurIPS 2018: rand_k. With unbiased=true the receiver
 * multiplies values by n / k: Wangni et al., "Gradient Sparsification for Communication-Efficient
 * Distributed Optimization", NeurIPS 2018, with equal probabilities. */
#include "codecs/compress/compress.h"

struct randomk {
    float ratio;
    bool unbiased;
};

static bool is_unbiased(const void *o)
{
    return ((const struct randomk *)o)->unbiased;
}

static size_t randomk_count(const void *o, size_t n)
{
    return compress_share(((const struct randomk *)o)->ratio, n);
}

static float gain(const void *o, size_t n, size_t k)
{
    return is_unbiased(o) ? (float)((double)n / (double)k) : 1;
}

/* Sets bit i; returns whether it was 0. */
static bool mark(uint64_t *marks, size_t i)
{
    uint64_t bit = (uint64_t)1 << (i % 64);
    bool was_free = !(marks[i / 64] & bit);

    marks[i / 64] |= bit;
    return was_free;
}

/* Floyd's algorithm: for each i, one of 0 .. i at random, or i where that is taken (Bentley, "Programming
 * Pearls: A Sample of Brilliance", 1987). */
static void choose_random_items(const void *o, struct compress_work *w, const float *v, uint64_t seed,
                                size_t n, size_t k, uint32_t *at)
{
    size_t n_words = n / 64 + 1;
    struct rng r;

    (void)o;
    (void)v;
    rng_init(&r, seed, 0, 0);
    for (size_t i = n - k; i < n; i++)
        if (!mark(w->marks, rng_below(&r, (uint32_t)i + 1)))
            mark(w->marks, i);
    for (size_t i = 0; i < n_words; i++)
        for (; w->marks[i]; w->marks[i] &= w->marks[i] - 1)
            *at++ = (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(w->marks[i]);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct randomk, ratio, 0.01, 1e-6, 1, "fraction of the values that is sent"),
    CODEC_OPTION(struct randomk, unbiased, 0, 0, 1,
                 "multiply received values by n / k, so that they are unbiased"),
    {0},
};

const struct compressor compress_randomk = {
    .name = "randomk",
    .help = "values drawn at random",
    .source = "Stich et al., NeurIPS 2018; unbiased=true: Wangni et al., NeurIPS 2018",
    .bound =
        "E |C(v) - v|^2 = (1 - k / n) |v|^2; unbiased=true: E C(v) = v, E |C(v) - v|^2 = (n / k - 1) |v|^2",
    .kind = COMPRESS_SELECT,
    .options = options,
    .is_unbiased = is_unbiased,
    .count = randomk_count,
    .choose = choose_random_items,
    .by_seed = true,
    .gain = gain,
};
