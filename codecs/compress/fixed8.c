/* fixed8 -- integers of 8 bits in a unit that all workers share, so that an all-reduce adds them exactly.
 * With m_k the largest magnitude of a block at worker k of N,
 *
 *     u = (m_1 + ... + m_N) / (127 - N / 2),  q_k = round(v_k / u)
 *
 * No sum of q_k leaves -127 .. 127, as |q_k| <= m_k / u + 1/2. Each worker has some 127 / N steps on each
 * side of 0.
 *
 * All workers have one unit in Sapio et al., "Scaling Distributed Machine Learning with In-Network
 * Aggregation", NSDI 2021, with sums of 32 bits, where it follows from the largest m_k; and in Mishchenko et
 * al., "IntSGD: Adaptive Floatless Compression of Stochastic Gradients", ICLR 2022, with 8 bits or 32, where
 * it follows from the last change of the weights. */
#include "codecs/compress/compress.h"

#include <string.h>

enum {
    MOST = 127,
    ZERO = 128 /* the item of 0 */,
    WORKERS_MOST = 64 /* whose largest values are 1.5 units */
};

struct fixed8 {
    int block;
};

static size_t block_of(const void *o)
{
    return (size_t)((const struct fixed8 *)o)->block;
}

static size_t n_scales(const void *o, size_t n)
{
    return compress_groups(n, block_of(o));
}

static void fixed8_measure(const void *o, const struct compress_work *w, const float *v, size_t n,
                           float *scales)
{
    size_t block = block_of(o);

    for (size_t at = 0; at < n; at += block)
        *scales++ = w->loops->largest(v + at, n - at < block ? n - at : block);
}

/* As compress_scale(), of the sum of all workers' largest values. */
static float unit(const struct compress_work *w, float sum)
{
    return compress_scale(sum, sum / ((float)MOST - (float)w->n_summed / 2));
}

static void fixed8_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                          void *items)
{
    size_t block = block_of(o);
    uint8_t *q = items;

    for (size_t at = 0; at < n; at += block, scales++) {
        size_t k = n - at < block ? n - at : block;
        float u = unit(w, *scales);

        if (u > 0)
            w->loops->round_nearest(q + at, v + at, k, 1 / u, ZERO);
        else
            memset(q + at, ZERO, k);
    }
}

static void fixed8_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                          float *out, size_t n)
{
    size_t block = block_of(o);
    const uint8_t *q = items;

    for (size_t at = 0; at < n; at += block, scales++)
        w->loops->unround(out + at, q + at, n - at < block ? n - at : block, unit(w, *scales), ZERO);
}

static void fixed8_sum(const struct compress_work *w, void *out, const void *const *in, int n_in, size_t n,
                       float scale)
{
    const uint8_t *a = in[0], *b = in[1], *c = n_in > 2 ? in[2] : NULL;
    uint8_t *q = out;

    (void)w;
    (void)scale;
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)(a[i] + b[i] - ZERO);
    for (size_t i = 0; c && i < n; i++)
        q[i] = (uint8_t)(q[i] + c[i] - ZERO);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct fixed8, block, 256, 16, 16384, "values that share a unit"),
    {0},
};

const struct compressor compress_fixed8 = {
    .name = "fixed8",
    .help = "integers of 8 bits in a unit that all workers share, which an all-reduce adds",
    .source = "Sapio et al., \"Scaling Distributed Machine Learning with In-Network Aggregation\", NSDI 2021",
    .bound = "each value moves by at most half a unit: the sum of all N workers' largest magnitudes in its "
             "block, divided by 127 - N / 2",
    .kind = COMPRESS_VALUES,
    .options = options,
    .item_bytes = 1,
    .n_scales = n_scales,
    .encode = fixed8_encode,
    .decode = fixed8_decode,
    .sum = fixed8_sum,
    .measure = fixed8_measure,
    .n_summed_most = WORKERS_MOST,
};
