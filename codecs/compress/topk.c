/* topk -- the k = ratio n values of largest magnitude; of equal ones the first.
 *
 * Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017. k is exact: the
 * k-th largest magnitude is found by three histograms, of its first 11 bits, of the next 10 among the
 * values that share these, and of the last 10. */
#include "codecs/compress/compress.h"

struct topk {
    float ratio;
};

static size_t topk_count(const void *o, size_t n)
{
    return compress_share(((const struct topk *)o)->ratio, n);
}

/* Returns the bucket of the k-th largest; *k becomes its rank within the bucket. */
static uint32_t bucket_of(const uint32_t *counts, uint32_t n_counts, size_t *k)
{
    uint32_t b = n_counts - 1;

    while (*k > counts[b])
        *k -= counts[b--];
    return b;
}

static void choose_largest_items(const void *o, struct compress_work *w, const float *v, uint64_t seed,
                                 size_t n, size_t k, uint32_t *at)
{
    static const int bits[] = {11, 10, 10};
    uint32_t counts[1 << 11], key = 0;
    size_t n_ties = k;
    int shift = 31;

    (void)o;
    (void)seed;
    for (int i = 0; i < 3; i++) {
        shift -= bits[i];
        w->loops->count_keys(counts, v, n, key, shift, bits[i]);
        key = key << bits[i] | bucket_of(counts, 1u << bits[i], &n_ties);
    }
    w->loops->pick(at, v, n, key, n_ties);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct topk, ratio, 0.01, 1e-6, 1, "fraction of the values that is sent"),
    {0},
};

const struct compressor compress_topk = {
    .name = "topk",
    .help = "the values of largest magnitude",
    .source = "Aji and Heafield, EMNLP 2017",
    .bound = "|C(v) - v|^2 <= (1 - k / n) |v|^2",
    .kind = COMPRESS_SELECT,
    .options = options,
    .count = topk_count,
    .choose = choose_largest_items,
};
