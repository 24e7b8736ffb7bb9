/* fp16 -- IEEE 754 half precision: 5 bits of exponent, 11 of precision. A vector's values share a factor 2^e,
 * so that none is too large or too small for 5 bits of exponent, and no sum of N workers' values is:
 *
 *     q = half(v 2^e),  e the largest with 2^e (m_1 + ... + m_N) < 2^12  (N = 1: 2^15)
 *
 * where m_k is the largest magnitude at worker k. That leaves room for 16 times that sum, as each partial sum
 * is rounded. PyTorch's fp16_compress_hook divides by N instead, which needs no sum of m_k, but with many
 * workers takes small gradients out of the range of half precision; Micikevicius et al., "Mixed Precision
 * Training", ICLR 2018, scale losses for that. */
#include <math.h>

#include "codecs/compress/compress.h"

enum {
    EXPONENT_ONE = 15, /* of the largest value, where nothing is added */
    EXPONENT_SUM = 12,
    EXPONENT_MOST = 126 /* 2^126 and its inverse are normal floats */
};

static size_t n_scales(const void *o, size_t n)
{
    (void)o;
    return n > 0;
}

static void fp16_measure(const void *o, const struct compress_work *w, const float *v, size_t n,
                         float *scales)
{
    (void)o;
    scales[0] = w->loops->largest(v, n);
}

/* Returns e for the sum of all workers' largest values. A value that is not finite is sent as such, beside
 * whatever the others become; a sum of finite ones may not be finite. */
static int exponent(const struct compress_work *w, float sum)
{
    int e, most = w->n_summed > 1 ? EXPONENT_SUM : EXPONENT_ONE;

    if (sum == 0 || (!isfinite(sum) && w->n_summed == 1))
        return 0;
    if (!isfinite(sum))
        return -EXPONENT_MOST;
    frexpf(sum, &e);
    return most - e < EXPONENT_MOST ? most - e : EXPONENT_MOST;
}

static void fp16_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    (void)o;
    compress_halves_encode(items, v, n, ldexpf(1, exponent(w, scales[0])), w->loops->to_fp16);
}

static void fp16_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    (void)o;
    compress_halves_decode(out, items, n, ldexpf(1, -exponent(w, scales[0])), w->loops->from_fp16);
}

static void fp16_sum(const struct compress_work *w, void *out, const void *const *in, int n_in, size_t n,
                     float scale)
{
    compress_halves_sum(out, in, n_in, n, scale, w->loops->from_fp16, w->loops->to_fp16);
}

const struct compressor compress_fp16 = {
    .name = "fp16",
    .help = "half precision, 16 bits each, with a power of two that a vector's values share",
    .source = "IEEE 754-2008, binary16",
    .bound =
        "each value moves by at most 2^-11 of itself, or 2^-39 of the largest (inside an all-reduce 2^-36 "
        "of the sum of all workers' largest)",
    .kind = COMPRESS_VALUES,
    .item_bytes = sizeof(uint16_t),
    .n_scales = n_scales,
    .encode = fp16_encode,
    .decode = fp16_decode,
    .sum = fp16_sum,
    .measure = fp16_measure,
};
